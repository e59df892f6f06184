// Fundamental types and state spaces, spelled as in PTX (manual 5.1, 5.2).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ptx::isa {

enum class Type : std::uint8_t {
  none,
#define TYPE(name, bits, kind, declarable) name,
#include "ptx/isa/types.def"
#undef TYPE
};

// What the bits mean. `bits` types agree with any type of their size (manual 9.4).
enum class TypeKind : std::uint8_t { bits, unsigned_, signed_, floating, packed, alternate, predicate };

struct TypeInfo {
  std::string_view name;   // without the dot
  std::uint16_t bits;
  TypeKind kind;
  bool declarable;         // may stand in a .reg declaration
};

const TypeInfo& info(Type type);
std::optional<Type> type_named(std::string_view name);   // "f32", without the dot

enum class Space : std::uint8_t {
  generic,
#define SPACE(name, text) name,
#include "ptx/isa/spaces.def"
#undef SPACE
};
std::string_view name(Space space);                      // "shared::cta", without the dot; "" for generic
std::optional<Space> space_named(std::string_view name);

}  // namespace ptx::isa
