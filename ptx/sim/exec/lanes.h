// From a body of one lane to a handler of 32: reads the rows of its sources, runs it on every lane, keeps what the mask
// says. A handler is instantiated for each choice of type slots that the body's constraints take.
#pragma once

#include <cstring>
#include <tuple>
#include <utility>

#include "ptx/sim/machine/warp.h"

namespace ptx::sim {

// How a row stores one lane: bytes of a cell, 0 for a predicate.
struct Cell {
  std::uint8_t bytes = 4;
  bool sign = false;  // how a narrower result fills a wider register
};

// A handler and the cells that it reads and writes. `run` is empty where the body does not take these types.
struct Bound {
  Handlers run{};
  std::uint8_t destinations = 0, sources = 0;
  Cell cells[8]{};            // destinations first
  bool whole_warp = false;    // binds its operands itself: `cells` are what the registers have
  bool converge = false;      // waits for the lanes that it names in its last operand
  bool aligned = false;       // and it names all of the warp
  bool excuses = false;       // but those that have exited
  bool late = false;          // its results come later (Op::late)
  bool communicates = false;  // CTAs may talk through it
  bool takes_over = false;    // it takes over CTAs that have not begun
  bool discards = false;      // makes global memory undefined again
  Uses uses = Uses::decides;
  const char* why = nullptr;   // why the row is not simulated
  const void* plan = nullptr;  // what the handler worked out from the match; lives for the process
};

// Bodies that see the warp or memory: they pick their handler by the modifiers.
struct WarpBody {
  Bound (*bind)(const isa::Match&);  // whole_warp is set if the handler binds its operands itself
};

namespace lane_detail {

template <class T>
using cell_t = std::conditional_t<sizeof(T) <= 4, u32, std::conditional_t<sizeof(T) == 8, u64, b128>>;

template <class T>
inline constexpr bool is_signed = OneOf<T, s8, s16, s32, s64>;

template <class T>
constexpr Cell cell() {
  return {static_cast<std::uint8_t>(std::is_same_v<T, bool> ? 0 : sizeof(cell_t<T>)), is_signed<T>};
}

template <int bytes>
struct RawOf;
// clang-format off
template <> struct RawOf<1> { using type = u8; };
template <> struct RawOf<2> { using type = u16; };
template <> struct RawOf<4> { using type = u32; };
template <> struct RawOf<8> { using type = u64; };
template <> struct RawOf<16> { using type = b128; };
// clang-format on

template <class T>
inline T from_cell(cell_t<T> c) {
  return std::bit_cast<T>(static_cast<typename RawOf<sizeof(T)>::type>(c));
}
template <class T>
inline cell_t<T> to_cell(T value) {
  if constexpr (std::is_integral_v<T> && sizeof(T) <= 4) {
    return static_cast<cell_t<T>>(value);  // extends by its sign
  } else {
    return static_cast<cell_t<T>>(std::bit_cast<typename RawOf<sizeof(T)>::type>(value));
  }
}

inline Mask pack_flags(const u8* flags) {
  Mask mask = 0;
  for (int i = 0; i < 4; ++i) {
    u64 eight;
    std::memcpy(&eight, flags + 8 * i, 8);
    mask |= static_cast<Mask>((eight * 0x0102040810204080ull) >> 56) << (8 * i);
  }
  return mask;
}

template <class Cells>
inline void keep(Cells* row, const Cells* out, Mask active) {
  if (active == full_mask) {
    std::memcpy(row, out, lanes * sizeof(Cells));
  } else {
    for (int i = 0; i < lanes; ++i) {
      if (active >> i & 1) row[i] = out[i];
    }
  }
}

template <class T>
struct Source {
  const cell_t<T>* row;
  Source(Warp& w, const Op& op, int i)
      : row(reinterpret_cast<const cell_t<T>*>(__builtin_assume_aligned(w.row(op.operands[op.destinations + i]), 64))) {
  }
  T at(int lane) { return from_cell<T>(row[lane]); }
  void finish(Warp&, Mask) {}
};
template <>
struct Source<bool> {
  Mask mask;
  Source(Warp& w, const Op& op, int i) : mask(w.predicate(op.operands[op.destinations + i])) {}
  bool at(int lane) { return mask >> lane & 1; }
  void finish(Warp&, Mask) {}
};
template <>
struct Source<Mods> {
  Mods mods;
  Source(Warp&, const Op& op, int) : mods(op.mods) {}
  Mods at(int) { return mods; }
  void finish(Warp&, Mask) {}
};
// No modifier that changes the result: a constant, so that the compiler drops what bodies do for the others.
struct PlainMods {};
template <>
struct Source<PlainMods> {
  Source(Warp&, const Op&, int) {}
  static constexpr Mods at(int) { return {}; }
  void finish(Warp&, Mask) {}
};
template <>
struct Source<Carry&> {
  Carry flags[lanes];
  Source(Warp& w, const Op&, int) {
    for (int i = 0; i < lanes; ++i) flags[i].flag = w.carry >> i & 1;
  }
  Carry& at(int lane) { return flags[lane]; }
  void finish(Warp& w, Mask active) {
    Mask all = 0;
    for (int i = 0; i < lanes; ++i) all |= Mask{flags[i].flag} << i;
    w.carry = (w.carry & ~active) | (all & active);
  }
};

template <class T>
struct Result {
  alignas(64) cell_t<T> out[lanes];
  void put(int lane, T value) { out[lane] = to_cell(value); }
  void finish(Warp& w, const Operand& o, Mask active) {
    keep(reinterpret_cast<cell_t<T>*>(__builtin_assume_aligned(w.row_to_write(o), 64)), out, active);
  }
};
template <>
struct Result<bool> {
  alignas(64) u8 out[lanes];
  void put(int lane, bool value) { out[lane] = value; }
  void finish(Warp& w, const Operand& o, Mask active) {
    Mask& mask = *reinterpret_cast<Mask*>(w.row_to_write(o));
    mask = (mask & ~active) | (pack_flags(out) & active);
  }
};
template <class A, class B>
struct Result<Two<A, B>> {
  Result<A> first;
  Result<B> second;
  void put(int lane, Two<A, B> value) { first.put(lane, value.first), second.put(lane, value.second); }
};

// All sources of a body.
template <std::size_t i, class A>
struct Leaf {
  Source<A> source;
};
template <class Indices, class... A>
struct Leaves;
template <std::size_t... i, class... A>
struct Leaves<std::index_sequence<i...>, A...> : Leaf<i, A>... {
  Leaves(Warp& w, const Op& op) : Leaf<i, A>{Source<A>(w, op, static_cast<int>(i))}... {}
};

template <class Body, class Types, class R, class... A>
struct LaneHandler;

template <class Body, class... Ts, class R, class... A>
struct LaneHandler<Body, std::tuple<Ts...>, R, A...> {
  static R call(A... arguments) {
    if constexpr (sizeof...(Ts) == 0) {
      return Body{}(arguments...);
    } else {
      return Body{}.template operator()<Ts...>(arguments...);
    }
  }
  template <class M, class T>
  using as = std::conditional_t<std::is_same_v<T, Mods>, M, T>;
  template <class M, std::size_t... I>
  static void run_with(Warp& w, const Op& op, Mask active, std::index_sequence<I...>) {
    Leaves<std::index_sequence<I...>, as<M, A>...> sources(w, op);
    Result<R> result;
    for (int lane = 0; lane < lanes; ++lane)
      result.put(lane, call(static_cast<Leaf<I, as<M, A>>&>(sources).source.at(lane)...));
    if constexpr (requires { result.second; }) {
      result.first.finish(w, op.operands[0], active);
      result.second.finish(w, op.operands[1], active);
    } else {
      result.finish(w, op.operands[0], active);
    }
    (static_cast<Leaf<I, as<M, A>>&>(sources).source.finish(w, active), ...);
  }
  static void run(Warp& w, const Op& op, Mask active) {
    if ((std::is_same_v<A, Mods> || ...) && !op.mods.modified) {
      run_with<PlainMods>(w, op, active, std::index_sequence_for<A...>{});
    } else {
      run_with<Mods>(w, op, active, std::index_sequence_for<A...>{});
    }
  }

  template <class T>
  static constexpr bool is_operand = !OneOf<T, Mods, Carry&>;
  static Bound bound() {
    Bound b;
    b.run = &run;
    b.uses = Uses::passes;
    if constexpr (requires(R r) { r.second; }) {
      b.cells[b.destinations++] = cell<decltype(R::first)>();
      b.cells[b.destinations++] = cell<decltype(R::second)>();
    } else {
      b.cells[b.destinations++] = cell<R>();
    }
    auto add = [&]<class T>(std::type_identity<T>) {
      if constexpr (is_operand<T>) b.cells[b.destinations + b.sources++] = cell<T>();
    };
    (add(std::type_identity<A>{}), ...);
    return b;
  }
};

template <class Body, class... Ts, class R, class... A>
Bound bound_of(R (Body::*)(A...) const) {
  return LaneHandler<Body, std::tuple<Ts...>, R, A...>::bound();
}

// f<T>() with the C++ type of a PTX type; an empty Bound for types that no lane has.
template <class F>
Bound with_type(isa::Type type, F f) {
  switch (type) {
#define LANE(ptx_type, ...) \
  case isa::Type::ptx_type: return f.template operator()<__VA_ARGS__>();
#include "ptx/sim/exec/lane_types.def"
#undef LANE
    default: return {};
  }
}

template <class Body>
Bound bind_one(isa::Type type) {
  return with_type(type, []<class T>() -> Bound {
    if constexpr (requires { &Body::template operator()<T>; }) return bound_of<Body, T>(&Body::template operator()<T>);
    return {};
  });
}
template <class Body>
Bound bind_two(isa::Type first, isa::Type second) {
  return with_type(first, [second]<class A>() -> Bound {
    return with_type(second, []<class B>() -> Bound {
      if constexpr (requires { &Body::template operator()<A, B>; }) {
        return bound_of<Body, A, B>(&Body::template operator()<A, B>);
      }
      return {};
    });
  });
}

}  // namespace lane_detail

// How many type slots the modifiers of a row have: the words that end in `type`.
constexpr int type_slots(std::string_view syntax) {
  int slots = 0;
  for (std::size_t i = 0; i < syntax.size() && syntax[i] != ' '; ++i) {
    const std::string_view rest = syntax.substr(i);
    const bool ends = rest.size() < 5 || rest[4] == ' ' || rest[4] == '.' || rest[4] == '{' || rest[4] == '}';
    if (rest.starts_with("type") && ends && i > 0 && syntax[i - 1] != '_' && syntax[i - 1] != 'm') ++slots;
  }
  return slots;
}

// The types in those slots, in the row's order.
struct SlotTypes {
  isa::Type at[4]{};
};
SlotTypes slot_types(const isa::Match& match);

// The type of the slot `type`, or the first type that the row itself names.
isa::Type value_type(const isa::Match& match);

template <int slots, class Body>
Bound bind_body(const Body& body, const isa::Match& match) {
  using namespace lane_detail;
  if constexpr (std::is_same_v<Body, Unsimulated>) {
    return {.why = body.why};
  } else if constexpr (std::is_same_v<Body, WarpBody>) {
    return body.bind(match);
  } else if constexpr (slots == 0) {
    return bound_of<Body>(&Body::operator());
  } else if constexpr (slots == 1) {
    return bind_one<Body>(slot_types(match).at[0]);
  } else {
    static_assert(slots == 2, "bodies have at most two type slots");
    return bind_two<Body>(slot_types(match).at[0], slot_types(match).at[1]);
  }
}

}  // namespace ptx::sim
