// Bodies of ptx/isa/forms/atomic.def: each lane in turn reads, computes and writes. CTAs of a kernel with atomics on
// global memory run in one order on one core, so no two of them meet.
#pragma once

#include "ptx/sim/exec/operation.h"
#include "ptx/sim/memory/access.h"

namespace ptx::sim {

namespace atomic_detail {

using lane_detail::from_cell;
using lane_detail::to_cell;

// The lanes whose address is of shared memory; a generic address says it itself.
inline Mask in_shared(Warp& w, const Operand& address) {
  if (address.space != isa::Space::generic) return is_shared(address.space) ? full_mask : 0;
  Mask mask = 0;
  for (int lane = 0; lane < lanes && address.cell == 8; ++lane) {
    u64 at;
    std::memcpy(&at, w.row(address) + lane * 8, sizeof at);
    mask |= Mask{((at + static_cast<u64>(address.displacement)) & window_mask) == shared_window} << lane;
  }
  return mask;
}

template <class T>
T read_cell(Warp& w, const Operand& o, int lane) {
  const std::byte* at = w.row(o) + lane * o.cell;
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
void write_cell(Warp& w, const Operand& o, int lane, T value) {
  const auto cell = to_cell(value);
  if (o.cell == sizeof cell) {
    std::memcpy(w.row_to_write(o) + lane * o.cell, &cell, sizeof cell);
  } else if constexpr (sizeof cell <= 8) {
    const u64 wide = cell;
    std::memcpy(w.row_to_write(o) + lane * o.cell, &wide, o.cell);
  }
}

// atom: d, [a], b{, c}; red has no d.
template <class T, class F>
struct Update {
  template <class Engine>
  static void run(Warp& w, const Op& op, Mask active) {
    Where where;
    const Operand* s = op.operands + op.destinations;
    const int count = s[1].count;
    const auto bytes = static_cast<unsigned>(count * sizeof(T));
    const Mask shared = in_shared(w, s[0]);
    const bool swaps = std::is_same_v<F, CompareAndSwap>;
    if constexpr (Engine::watched) {
      if (!access<Plain>(w, op, s[0], active, bytes, Access::update, where)) return;
      where.vain = is_vain(w, op, active, shared, where);
    }
    if (!access<Engine>(w, op, s[0], active, bytes, Access::update, where)) return;
    for (int lane = 0; lane < lanes; ++lane) {
      if (!(active >> lane & 1)) continue;
      const How how{op.mods, (shared >> lane & 1) != 0};
      T operands[8];  // read before a destination is written: the lists may name the same registers
      for (int v = 0; v < count; ++v) operands[v] = read_cell<T>(w, s[1 + v], lane);
      const T swap = swaps ? read_cell<T>(w, s[2], lane) : operands[0];
      for (int v = 0; v < count; ++v) {
        auto* at = reinterpret_cast<std::byte*>(where.at[lane]) + v * sizeof(T);
        T old;
        std::memcpy(&old, at, sizeof old);
        const T fresh = apply_each<T, F>(old, operands[v], swap, how);
        w.cta.cluster.polling.changes += std::memcmp(&old, &fresh, sizeof fresh) != 0;
        std::memcpy(at, &fresh, sizeof fresh);
        if (op.destinations && !op.operands[v].absent) write_cell(w, op.operands[v], lane, old);
      }
    }
  }
  // Whether every lane would write what it finds there now.
  static bool is_vain(Warp& w, const Op& op, Mask active, Mask shared, const Where& where) {
    const Operand* s = op.operands + op.destinations;
    for (Mask rest = active; rest; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      const T swap = read_cell<T>(w, s[std::is_same_v<F, CompareAndSwap> ? 2 : 1], lane);
      for (int v = 0; v < s[1].count; ++v) {
        T old;
        std::memcpy(&old, reinterpret_cast<const std::byte*>(where.at[lane]) + v * sizeof(T), sizeof old);
        const T fresh =
            apply_each<T, F>(old, read_cell<T>(w, s[1 + v], lane), swap, {op.mods, (shared >> lane & 1) != 0});
        if (std::memcmp(&old, &fresh, sizeof fresh) != 0) return false;
      }
    }
    return true;
  }
};

template <class F, class... Ts>
Bound bind_types(const isa::Match& m) {
  using namespace lane_detail;
  Bound b = with_type(value_type(m), []<class T>() -> Bound {
    if constexpr (OneOf<T, Ts...>) return {.run = handlers<Update<T, F>>(), .whole_warp = true};
    return {};
  });
  const isa::Space space = m.space();
  b.communicates = space != isa::Space::shared && space != isa::Space::shared_cta;
  return b;
}
inline Bound bits(const isa::Match& m) { return bind_types<Logic, u32, u64>(m); }
inline Bound integer(const isa::Match& m) { return bind_types<Extreme, u32, s32, u64, s64>(m); }
inline Bound add(const isa::Match& m) {
  return bind_types<Add, u32, s32, u64, s64, f32, f64, f16, bf16, Pack<f16, 2>, Pack<bf16, 2>>(m);
}
inline Bound count(const isa::Match& m) { return bind_types<Count, u32>(m); }
inline Bound swap(const isa::Match& m) { return bind_types<CompareAndSwap, u16, u32, u64, b128>(m); }
inline Bound exchange(const isa::Match& m) { return bind_types<Exchange, b128>(m); }
inline Bound vector(const isa::Match& m) {
  if (m.has("add")) return add(m);
  return bind_types<Extreme, f16, bf16, Pack<f16, 2>, Pack<bf16, 2>>(m);
}

}  // namespace atomic_detail

// 9.7.13.5  atom
constexpr WarpBody sem_atom_bits{atomic_detail::bits};
constexpr WarpBody sem_atom_int{atomic_detail::integer};
constexpr WarpBody sem_atom_add{atomic_detail::add};
constexpr WarpBody sem_atom_count{atomic_detail::count};
constexpr WarpBody sem_atom_cas{atomic_detail::swap};
constexpr WarpBody sem_atom_cas_b128{atomic_detail::swap};
constexpr WarpBody sem_atom_exch_b128{atomic_detail::exchange};
constexpr WarpBody sem_atom_add_half{atomic_detail::add};
constexpr WarpBody sem_atom_add_noftz{atomic_detail::add};
constexpr WarpBody sem_atom_bits_policy{atomic_detail::bits};
constexpr WarpBody sem_atom_int_policy{atomic_detail::integer};
constexpr WarpBody sem_atom_add_policy{atomic_detail::add};
constexpr WarpBody sem_atom_count_policy{atomic_detail::count};
constexpr WarpBody sem_atom_exch_b128_policy{atomic_detail::exchange};
constexpr WarpBody sem_atom_add_half_policy{atomic_detail::add};
constexpr WarpBody sem_atom_add_noftz_policy{atomic_detail::add};
constexpr WarpBody sem_atom_vector_f32{atomic_detail::add};
constexpr WarpBody sem_atom_vector_half{atomic_detail::vector};
constexpr WarpBody sem_atom_vector_packed{atomic_detail::vector};

// 9.7.13.6  red
constexpr WarpBody sem_red_bits{atomic_detail::bits};
constexpr WarpBody sem_red_int{atomic_detail::integer};
constexpr WarpBody sem_red_add{atomic_detail::add};
constexpr WarpBody sem_red_count{atomic_detail::count};
constexpr WarpBody sem_red_add_half{atomic_detail::add};
constexpr WarpBody sem_red_add_noftz{atomic_detail::add};
constexpr WarpBody sem_red_bits_policy{atomic_detail::bits};
constexpr WarpBody sem_red_int_policy{atomic_detail::integer};
constexpr WarpBody sem_red_add_policy{atomic_detail::add};
constexpr WarpBody sem_red_count_policy{atomic_detail::count};
constexpr WarpBody sem_red_add_half_policy{atomic_detail::add};
constexpr WarpBody sem_red_add_noftz_policy{atomic_detail::add};
constexpr WarpBody sem_red_vector_f32{atomic_detail::add};
constexpr WarpBody sem_red_vector_half{atomic_detail::vector};
constexpr WarpBody sem_red_vector_packed{atomic_detail::vector};

// 9.7.13.7  red.async
constexpr WarpBody sem_red_async_bits{async_detail::bind_red<true>};
constexpr WarpBody sem_red_async_int{async_detail::bind_red<true>};
constexpr WarpBody sem_red_async_add{async_detail::bind_red<true>};
constexpr WarpBody sem_red_async_count{async_detail::bind_red<true>};
constexpr WarpBody sem_red_async_mmio{async_detail::bind_red<false>};
constexpr WarpBody sem_red_async_release{async_detail::bind_red<false>};

}  // namespace ptx::sim
