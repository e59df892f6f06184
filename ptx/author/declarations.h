// What a kernel declares, names and writes as text, with the author's line. What each of these does: builder.h.
#pragma once

#include <array>
#include <concepts>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/author/builder.h"

namespace ptx::author {

struct Shared;

class Declarations : public Builder {
 public:
  using Builder::Builder;
  using Line = std::source_location;

  void add_pointer(std::string_view name, Line at = Line::current()) { on(at).add_pointer(name); }
  void add_raw(std::string_view type, std::string_view name, Line at = Line::current()) { on(at).add_raw(type, name); }
  Reg param(isa::Type type, std::string_view name, std::optional<Reg> into = {}, Line at = Line::current()) {
    return on(at).param(type, name, into);
  }
  std::vector<Reg> global_pointers(std::span<const std::string> names, Line at = Line::current()) {
    return on(at).global_pointers(names);
  }
  // Pointer parameters: declared, loaded, made global.
  template <std::size_t N>
  std::array<Reg, N> pointers(const char* const (&names)[N], Line at = Line::current()) {
    Builder& b = on(at);
    std::array<Reg, N> made;
    for (const char* name : names) b.add_pointer(name);
    for (std::size_t i = 0; i < N; ++i) {
      const std::string one[] = {names[i]};
      made[i] = b.global_pointers(one).front();
    }
    return made;
  }
  Reg tensor_map(std::string_view tensor, Line at = Line::current()) { return on(at).tensor_map(tensor); }

  Reg scalar(isa::Type type, std::string_view name = {}, Line at = Line::current()) {
    return on(at).scalar(type, name);
  }
  Reg scalar(isa::Type type, const char* name, Line at = Line::current()) { return on(at).scalar(type, name); }
  Reg scalar(isa::Type type, const Operand& init, std::string_view name = {}, Line at = Line::current()) {
    return on(at).scalar(type, init, name);
  }
  Reg scalar(isa::Type type, std::same_as<int> auto init, Line at = Line::current()) {
    return on(at).scalar(type, init);
  }
  std::vector<Reg> scalars(isa::Type type, std::span<const std::string> names, std::uint8_t length = 1,
                           Line at = Line::current()) {
    return on(at).scalars(type, names, length);
  }
  Reg vector_register(isa::Type type, std::uint8_t length, std::string_view name, Line at = Line::current()) {
    return on(at).vector_register(type, length, name);
  }
  RegArray array(isa::Type type, std::integral auto count, std::string_view name = {}, std::uint8_t length = 1,
                 Line at = Line::current()) {
    return on(at).array(type, static_cast<std::int64_t>(count), name, length);
  }
  Reg alloc(isa::Type type, Line at = Line::current()) { return on(at).alloc(type); }
  RegArray alloc_array(isa::Type type, std::integral auto count, Line at = Line::current()) {
    return on(at).alloc_array(type, static_cast<std::int64_t>(count));
  }
  Reg from(const Operand& value, isa::Type type, Line at = Line::current()) { return on(at).from(value, type); }
  const Reg special(std::string_view name, isa::Type type = isa::Type::none, Line at = Line::current()) {
    return on(at).special(name, type);
  }

  // Addresses: [base + offset].
  Address at(const Operand& base, std::int64_t offset = 0, Line at = Line::current()) {
    return on(at).address(base, offset);
  }
  Address at(const Operand& base, const Reg& offset, Line at = Line::current()) { return on(at).address(base, offset); }
  Address at(const Shared& base, std::int64_t offset, Line at = Line::current());  // refused outside of the allocation

  void label(std::string_view name, Line at = Line::current()) { on(at).label(name); }
  void comment(std::string_view text, Line at = Line::current()) { on(at).comment(text); }
  void directive(std::string_view text, Line at = Line::current()) { on(at).directive(text); }
  void table(std::string_view text, Line at = Line::current()) { on(at).table(text); }
  void declare(std::string_view text, Line at = Line::current()) { on(at).declare(text); }
  void text(std::string_view statements, Line at = Line::current()) { on(at).text(statements); }
  void module_text(std::string_view text, Line at = Line::current()) { on(at).module_text(text); }

  void emit(const isa::Mnemonic* mnemonic, std::span<const Operand> operands, ir::Guard guard = {}) {
    Builder::emit(mnemonic, operands, guard);
  }
  void emit(std::string_view mnemonic, std::initializer_list<Operand> operands = {}, ir::Guard guard = {},
            Line at = Line::current()) {
    on(at).emit(mnemonic, operands, guard);
  }

 private:
  Builder& on(const Line& at) {
    set_place(at);
    return *this;
  }
};

}  // namespace ptx::author
