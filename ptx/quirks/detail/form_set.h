// Some forms, by name, checked when the compiler reads them: a name that is of no form is an error.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ptx/isa/form_ids.h"

namespace ptx::quirks {

inline constexpr std::string_view form_names[] = {
#define OPCODE(name, ...)
#define SECTION(number, title)
#define FORM(id, ...) #id,
#include "ptx/isa/forms/all.def"
#undef OPCODE
#undef SECTION
#undef FORM
};

// "red* -red_async* discard": names of rows. `red*` is `red` and every row that begins with `red_`; `-` takes out what
// an earlier name has put in.
class FormSet {
 public:
  consteval FormSet(const char* text) : FormSet(std::string_view(text)) {}

  constexpr bool has(std::uint16_t form) const { return bits_[form / 64] >> form % 64 & 1; }

 private:
  consteval FormSet(std::string_view names) {
    while (!names.empty()) {
      const std::string_view name = names.substr(0, names.find(' '));
      names.remove_prefix(name.size() == names.size() ? name.size() : name.size() + 1);
      apply(name);
    }
  }

  consteval void apply(std::string_view name) {
    const bool out = name.starts_with('-'), all = name.ends_with('*');
    name.remove_prefix(out);
    name.remove_suffix(all);
    bool changes = false;
    for (std::size_t id = 0; id < isa::form_count; ++id) {
      const std::string_view form = form_names[id];
      if (form.size() < name.size() || form[0] != name[0] || form.substr(0, name.size()) != name) continue;
      if (form.size() != name.size() && !(all && form[name.size()] == '_')) continue;
      changes = changes || has(static_cast<std::uint16_t>(id)) == out;
      bits_[id / 64] = (bits_[id / 64] & ~(std::uint64_t{1} << id % 64)) | std::uint64_t{!out} << id % 64;
    }
    if (!changes) throw "no form has this name, or an earlier name has said the same";
  }

  std::array<std::uint64_t, isa::form_count / 64 + 1> bits_{};
};

// "atom" or "cp.reduce.async": the beginning of mnemonics, whose opcode is checked likewise.
class Beginning {
 public:
  consteval Beginning(const char* text) : text_(text) {
    const std::string_view opcode = text_.substr(0, text_.find('.'));
    bool known = false;
#define OPCODE(name, ...) known = known || opcode == #name;
#define SECTION(number, title)
#define FORM(...)
#include "ptx/isa/forms/all.def"
#undef OPCODE
#undef SECTION
#undef FORM
    if (!known) throw "no instruction has this opcode";
  }
  constexpr std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

}  // namespace ptx::quirks
