// The modifiers of PTX as C++ objects: `using namespace ptx::words;` and then k.fma(rn, f32, d, a, b, c). Names of
// types also say the type of a register: k.scalar(f32). words.def says how a modifier is spelled.
#pragma once

#include <cstdint>
#include <string_view>

#include "ptx/isa/types.h"

namespace ptx {

struct Word {
  std::uint16_t id;
  std::string_view text;
  constexpr operator isa::Type() const { return isa::type_named(text).value_or(isa::Type::none); }
};

namespace words {

namespace detail {
enum : std::uint16_t {
#define WORD(name, text) name,
#include "ptx/build/words.def"
#undef WORD
};
}  // namespace detail

#define WORD(name, text) inline constexpr Word name{detail::name, text};
#include "ptx/build/words.def"
#undef WORD

}  // namespace words
}  // namespace ptx
