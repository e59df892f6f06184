// Fundamental types and state spaces, spelled as in PTX (manual 5.1, 5.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace ptx::isa {

enum class Type : std::uint8_t {
  none,
#define TYPE(name, ...) name,
#include "ptx/isa/types.def"
#undef TYPE
};

// What the bits mean. `bits` types agree with any type of their size (manual 9.4).
enum class TypeKind : std::uint8_t { bits, unsigned_, signed_, floating, packed, alternate, predicate };

struct TypeInfo {
  std::string_view name;  // without the dot
  std::uint16_t bits;
  TypeKind kind;
  bool declarable;  // may stand in a .reg declaration
};

inline constexpr TypeInfo type_table[] = {
    {"", 0, TypeKind::bits, false},
#define TYPE(name, bits, kind, declarable, ...) {#name, bits, TypeKind::kind, declarable},
#include "ptx/isa/types.def"
#undef TYPE
};

constexpr bool is_integer(TypeKind kind) {
  return kind == TypeKind::bits || kind == TypeKind::unsigned_ || kind == TypeKind::signed_;
}

// Whether a register of type `have` may stand where an instruction wants `want` (manual 9.4); `wider`: also a wider one
// (9.4.1).
bool agrees(Type want, Type have, bool wider);

constexpr const TypeInfo& info(Type type) { return type_table[static_cast<std::size_t>(type)]; }

// "f32", without the dot.
constexpr std::optional<Type> type_named(std::string_view name) {
  for (std::size_t i = 1; i < std::size(type_table); ++i) {
    if (type_table[i].name == name) return static_cast<Type>(i);
  }
  return std::nullopt;
}

enum class Space : std::uint8_t {
  generic,
#define SPACE(name, text) name,
#include "ptx/isa/spaces.def"
#undef SPACE
};
inline constexpr std::string_view space_names[] = {
    "",
#define SPACE(name, text) text,
#include "ptx/isa/spaces.def"
#undef SPACE
};

constexpr std::string_view name(Space space) {  // "shared::cta", without the dot; "" for generic
  return space_names[static_cast<std::size_t>(space)];
}

constexpr std::optional<Space> space_named(std::string_view name) {
  for (std::size_t i = 1; i < std::size(space_names); ++i) {
    if (space_names[i] == name) return static_cast<Space>(i);
  }
  return std::nullopt;
}

}  // namespace ptx::isa
