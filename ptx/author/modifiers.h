// The modifiers of PTX as C++ objects: `using namespace ptx::modifiers;` and then k.fma(rn, f32, d, a, b, c). Names of
// types also say the type of a register: k.scalar(f32). modifiers.def says how a modifier is spelled; those that C++ or
// a header of C or POSIX has end in `_` (and_, const_, abs_, read_, wait_), so that abs(-3) still calls a function.
#pragma once

#include <cstdint>
#include <string_view>

#include "ptx/isa/types.h"

namespace ptx {

struct Modifier {
  std::uint16_t id;
  std::string_view text;
  constexpr operator isa::Type() const { return isa::type_named(text).value_or(isa::Type::none); }
};

namespace modifiers {

namespace detail {
enum : std::uint16_t {
#define MODIFIER(name, text) name,
#include "ptx/author/modifiers.def"
#undef MODIFIER
};
}  // namespace detail

#define MODIFIER(name, text) inline constexpr Modifier name{detail::name, text};
#include "ptx/author/modifiers.def"
#undef MODIFIER

}  // namespace modifiers
}  // namespace ptx
