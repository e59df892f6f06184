// The rows of all chapters as one table, and the look-up of an opcode's rows.
#include "ptx/isa/forms.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "ptx/base/check.h"
#include "ptx/isa/form_ids.h"
#include "ptx/isa/row_parser.h"

namespace ptx::isa {

#define OPCODE(...)
#define SECTION(...)
#define FORM(...)
#define CHAPTER(name) std::span<const parsing::Entry> chapter_##name();
#include "ptx/isa/forms/all.def"
#undef OPCODE
#undef SECTION
#undef FORM

namespace {

struct OpcodeRow {
  std::string_view name;
  std::uint32_t traits;
};

using enum Trait;
constexpr OpcodeRow opcode_rows[] = {
#define OPCODE(name, ...) {#name, parsing::traits({__VA_ARGS__})},
#define SECTION(number, title)
#define FORM(id, syntax, sets, since, ...)
#include "ptx/isa/forms/all.def"
#undef OPCODE
#undef SECTION
#undef FORM
};

void append(std::vector<Form>& forms, std::span<const parsing::Entry> chapter) {
  std::string_view section, title;
  for (const parsing::Entry& entry : chapter) {
    if (entry.form.chars == nullptr) {
      section = entry.section, title = entry.title;
      continue;
    }
    forms.push_back(entry.form);
    forms.back().section = section;
    forms.back().title = title;
    forms.back().traits |= traits_of(entry.form.text(entry.form.opcode));
  }
}

std::vector<Form> all_forms() {
  std::vector<Form> forms;
#define OPCODE(...)
#define SECTION(...)
#define FORM(...)
#define CHAPTER(name) append(forms, chapter_##name());
#include "ptx/isa/forms/all.def"
#undef OPCODE
#undef SECTION
#undef FORM
  PTX_CHECK(forms.size() == form_count, "every chapter has the rows of its file");
  return forms;
}

}  // namespace

std::span<const Form> forms() {
  static const std::vector<Form> table = all_forms();
  return table;
}

std::span<const std::string_view> opcodes() {
  static constexpr auto names = [] {
    std::array<std::string_view, std::size(opcode_rows)> all;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = opcode_rows[i].name;
    return all;
  }();
  return names;
}

std::uint32_t traits_of(std::string_view opcode) {
  static const auto table = [] {
    std::unordered_map<std::string_view, std::uint32_t> traits;
    for (const OpcodeRow& row : opcode_rows) traits.emplace(row.name, row.traits);
    return traits;
  }();
  const auto found = table.find(opcode);
  return found == table.end() ? 0 : found->second;
}

std::string rule_text(Rule rule) {
  const auto in_words = [](std::string name) { return std::replace(name.begin(), name.end(), '_', ' '), name; };
  switch (rule) {
#define SLOT_RULE(name, legal) \
  case Rule::name: return legal;
#define OPERAND_RULE(name) \
  case Rule::name: return in_words(#name);
#define COUNT(name)
#include "ptx/isa/rules.def"
#undef SLOT_RULE
#undef OPERAND_RULE
#undef COUNT
    case Rule::none: break;
  }
  return {};
}

std::span<const FormId> forms_of(std::string_view opcode) {
  static const auto table = [] {
    std::unordered_map<std::string_view, std::vector<FormId>> ids;
    for (FormId id = 0; const Form& form : forms()) ids[form.text(form.opcode)].push_back(id++);
    return ids;
  }();
  const auto found = table.find(opcode);
  return found == table.end() ? std::span<const FormId>{} : std::span<const FormId>(found->second);
}

}  // namespace ptx::isa
