// What the bodies of exec/*.h are written in: the C++ type of one lane for each PTX type, the modifiers of an
// instruction, and the few shapes a body may take and return. exec/README.md is the convention; nothing here knows
// warps or memory.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "ptx/isa/form.h"

namespace ptx::sim {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using f32 = float;
using f64 = double;

// clang-format off
// Formats that C++ does not have are their bits.
struct f16  { u16 bits; };
struct bf16 { u16 bits; };
struct tf32 { u32 bits; };
struct e4m3 { u8 bits; };
struct e5m2 { u8 bits; };
struct e3m2 { u8 bits; };    // low 6 bits
struct e2m3 { u8 bits; };    // low 6 bits
struct ue8m0 { u8 bits; };
struct ue4m3 { u8 bits; };
struct s2f6 { u8 bits; };    // a number of 64ths
struct ue5m3 { u8 bits; };
struct e2m1x2 { u8 bits; };  // low 4 bits: element 0
struct e2m1x4 { u16 bits; };
struct b128 { u64 low, high; };
// clang-format on

// Packed types, element 0 in the low bits: f16x2 = Pack<f16, 2>.
template <class E, int N>
struct Pack {
  using Element = E;
  static constexpr int size = N;
  E at[N];
};

template <class T>
inline constexpr bool is_pack = false;
template <class E, int N>
inline constexpr bool is_pack<Pack<E, N>> = true;

// f on each element of packs of one size, or on plain values. Results are of type E.
template <class E, class F, class A, class... More>
constexpr auto each(F f, A a, More... more) {
  if constexpr (is_pack<A>) {
    Pack<E, A::size> out;
    for (int i = 0; i < A::size; ++i) out.at[i] = static_cast<E>(f(a.at[i], more.at[i]...));
    return out;
  } else {
    return static_cast<E>(f(a, more...));
  }
}
template <class T>
struct ElementOf {
  using type = T;
};
template <class E, int N>
struct ElementOf<Pack<E, N>> {
  using type = E;
};
template <class T>
using element_t = typename ElementOf<T>::type;

// Constraints of bodies: they say for which types a body is instantiated.
template <class T, class... Ts>
concept OneOf = (std::same_as<T, Ts> || ...);
template <class T>
concept Unsigned = OneOf<T, u8, u16, u32, u64>;
template <class T>
concept Signed = OneOf<T, s8, s16, s32, s64>;
template <class T>
concept Integer = Unsigned<T> || Signed<T>;
template <class T>
concept PackedInteger = OneOf<T, Pack<u16, 2>, Pack<s16, 2>, Pack<u8, 4>, Pack<s8, 4>>;
template <class T>
concept Real = OneOf<T, f32, f64>;
template <class T>
concept Half = OneOf<T, f16, bf16, Pack<f16, 2>, Pack<bf16, 2>>;

template <class T>
struct WideOf;
// clang-format off
template <> struct WideOf<u16> { using type = u32; };
template <> struct WideOf<u32> { using type = u64; };
template <> struct WideOf<s16> { using type = s32; };
template <> struct WideOf<s32> { using type = s64; };
template <> struct WideOf<u64> { using type = unsigned __int128; };
template <> struct WideOf<s64> { using type = __int128; };
// clang-format on
template <class T>
using wide_t = typename WideOf<T>::type;

// The modifiers of one instruction, true if written. The same value for all lanes.
struct Mods {
#define MOD(name, word) bool name : 1 = false;
#include "ptx/sim/exec/mods.def"
#undef MOD
  bool modified : 1 = false;  // one changes the result; .rn, .approx, .full are taken for granted
};
Mods mods(const isa::Match& match);

// CC.CF of one lane: a body that takes `Carry&` reads and writes it.
struct Carry {
  bool flag = false;
};

// The result of a body with two destinations, d|p or p|q.
template <class A, class B>
struct Two {
  A first;
  B second;
};

// What stands in the table for a row of unsimulated.def.
struct Unsimulated {
  const char* why;
};

}  // namespace ptx::sim
