// Bodies of ptx/isa/forms/move.def: registers, memory, addresses. Memory accesses go through access(); cache hints mean
// nothing here.
#pragma once

#include "ptx/base/text.h"
#include "ptx/sim/exec/lanes.h"
#include "ptx/sim/exec/shuffle.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/memory/access.h"

namespace ptx::sim {

namespace move_detail {

using namespace lane_detail;

// A value of memory type M into a register's cell, extended by M's sign; and the low bits of a cell.
template <class M, class Cells>
Cells widen(M value) {
  if constexpr (sizeof(Cells) == 16 && sizeof(M) == 16) {
    return value;
  } else if constexpr (sizeof(Cells) == 16 || sizeof(M) == 16) {
    return {};
  } else {
    return static_cast<Cells>(value);
  }
}
template <class M, class Cells>
M low(Cells cell) {
  return widen<Cells, M>(cell);
}

template <class M, class Cells>
void load_element(Warp& w, const Operand& d, const Where& where, unsigned offset, Mask active) {
  alignas(64) Cells out[lanes];
  for (int i = 0; i < lanes; ++i) {
    M value;
    std::memcpy(&value, reinterpret_cast<const std::byte*>(where.at[i]) + offset, sizeof value);
    out[i] = widen<M, Cells>(value);
  }
  keep(reinterpret_cast<Cells*>(w.row_to_write(d)), out, active);
}

template <class M>
struct Load {
  template <class Engine>
  static void run(Warp& w, const Op& op, Mask active) {
    Where where;
    const unsigned count = op.operands[0].count;
    if (!access<Engine>(w, op, op.operands[op.destinations], active, count * sizeof(M), Access::read, where,
                        Unwritten::passes))
      return;
    for (unsigned v = 0; v < count; ++v) {
      const Operand& d = op.operands[v];
      if (d.absent) continue;
      if (d.cell == 4) load_element<M, u32>(w, d, where, v * sizeof(M), active);
      if (d.cell == 8) load_element<M, u64>(w, d, where, v * sizeof(M), active);
      if (d.cell == 16) load_element<M, b128>(w, d, where, v * sizeof(M), active);
    }
    if (w.unwritten.lanes) w.event = Event::undefined;
  }
};

template <class M, class Cells>
void store_element(Warp& w, const Operand& s, const Where& where, unsigned offset, Mask active) {
  const auto* row = reinterpret_cast<const Cells*>(w.row(s));
  for (int i = 0; i < lanes; ++i) {
    if (!(active >> i & 1)) continue;
    const M value = low<M, Cells>(row[i]);
    std::memcpy(reinterpret_cast<std::byte*>(where.at[i]) + offset, &value, sizeof value);
  }
}

template <class M>
struct Store {
  template <class Engine>
  static void run(Warp& w, const Op& op, Mask active) {
    Where where;
    const unsigned count = op.operands[1].count;
    if constexpr (Engine::watched) where.stored = &op.operands[1];
    if (!access<Engine>(w, op, op.operands[0], active, count * sizeof(M), Access::write, where)) return;
    for (unsigned v = 0; v < count; ++v) {
      const Operand& s = op.operands[1 + v];
      if (s.absent) continue;
      if (s.cell == 4) store_element<M, u32>(w, s, where, v * sizeof(M), active);
      if (s.cell == 8) store_element<M, u64>(w, s, where, v * sizeof(M), active);
      if (s.cell == 16) store_element<M, b128>(w, s, where, v * sizeof(M), active);
    }
  }
};

// The memory type: integers by sign and width, everything else by its bits.
template <template <class> class F>
Handlers by_memory_type(isa::Type type) {
  const isa::TypeInfo& info = isa::info(type);
  const bool sign = info.kind == isa::TypeKind::signed_;
  switch (info.bits) {
    case 8: return sign ? handlers<F<s8>>() : handlers<F<u8>>();
    case 16: return sign ? handlers<F<s16>>() : handlers<F<u16>>();
    case 32: return sign ? handlers<F<s32>>() : handlers<F<u32>>();
    case 64: return handlers<F<u64>>();
    case 128: return handlers<F<b128>>();
    default: return {};
  }
}
// Accesses through which CTAs may wait for each other.
inline bool communicates(const isa::Match& m) {
  return (m.has("volatile") || m.has("relaxed") || m.has("acquire") || m.has("release") || m.has("mmio")) &&
         (m.space() == isa::Space::generic || m.space() == isa::Space::global ||
          m.space() == isa::Space::shared_cluster);
}
inline Bound bind_load(const isa::Match& m) {
  return {.run = by_memory_type<Load>(value_type(m)),
          .whole_warp = true,
          .communicates = communicates(m),
          .uses = Uses::loads};
}
inline Bound bind_store(const isa::Match& m) {
  return {.run = by_memory_type<Store>(value_type(m)),
          .whole_warp = true,
          .communicates = communicates(m),
          .uses = Uses::stores};
}

inline void nothing(Warp&, const Op&, Mask) {}
inline Bound bind_nothing(const isa::Match&) { return {.run = &nothing, .whole_warp = true}; }

// d = each element of a vector. The lists may name the same registers: all are read before one is written.
inline void move_vector(Warp& w, const Op& op, Mask active) {
  alignas(64) u64 rows[4][lanes];
  for (int i = 0; i < op.destinations; ++i) {
    const Operand& s = op.operands[op.destinations + i];
    std::memcpy(rows[i], w.row(s), static_cast<std::size_t>(s.cell) * lanes);
  }
  for (int i = 0; i < op.destinations; ++i) {
    const Operand& d = op.operands[i];
    if (d.cell == 4) keep(reinterpret_cast<u32*>(w.row_to_write(d)), reinterpret_cast<const u32*>(rows[i]), active);
    if (d.cell == 8) keep(reinterpret_cast<u64*>(w.row_to_write(d)), rows[i], active);
  }
}

// A cell of up to 128 bits as a number.
inline unsigned __int128 read_cell(Warp& w, const Operand& o, int lane) {
  const std::byte* at = w.row(o) + lane * o.cell;
  unsigned __int128 value = 0;
  std::memcpy(&value, at, o.cell);
  return value;
}
inline void write_cell(Warp& w, const Operand& o, int lane, unsigned __int128 value) {
  std::memcpy(w.row_to_write(o) + lane * o.cell, &value, o.cell);
}
// mov.b64 d, {a, b}: the first element is in the low bits. `element` is the width of the whole.
inline void pack(Warp& w, const Op& op, Mask active) {
  const int count = op.operands[1].count, bits = op.element * 8 / count;
  const unsigned __int128 mask = (static_cast<unsigned __int128>(1) << bits) - 1;
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1)) continue;
    unsigned __int128 all = 0;
    for (int i = 0; i < count; ++i) all |= (read_cell(w, op.operands[1 + i], lane) & mask) << (i * bits);
    write_cell(w, op.operands[0], lane, all);
  }
}
inline void unpack(Warp& w, const Op& op, Mask active) {
  const int count = op.operands[0].count, bits = op.element * 8 / count;
  const unsigned __int128 mask = (static_cast<unsigned __int128>(1) << bits) - 1;
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1)) continue;
    const unsigned __int128 all = read_cell(w, op.operands[op.destinations], lane);
    for (int i = 0; i < count; ++i) write_cell(w, op.operands[i], lane, all >> (i * bits) & mask);
  }
}

// Addresses of a space as generic addresses and back.
inline u64 window_of(isa::Space space) {
  switch (space) {
    case isa::Space::shared:
    case isa::Space::shared_cta:
    case isa::Space::shared_cluster: return shared_window;
    case isa::Space::local: return local_window;
    default: return 0;
  }
}
constexpr auto offset_by = []<OneOf<u32, u64> T>(T a) -> T { return a; };
template <u64 window, bool back>
constexpr auto shift_window = [](u64 a) -> u64 { return back ? a & ~window_mask : (a & ~window_mask) | window; };
template <class Body>
Bound lane_bound(const Body&) {
  return bound_of<Body>(&Body::operator());
}
inline Bound bind_cvta(const isa::Match& m) {
  if (m.type("size") == isa::Type::u32) return bind_one<decltype(offset_by)>(isa::Type::u32);
  const bool back = m.has("to");
  switch (window_of(m.space())) {
    case shared_window:
      return back ? lane_bound(shift_window<shared_window, true>) : lane_bound(shift_window<shared_window, false>);
    case local_window:
      return back ? lane_bound(shift_window<local_window, true>) : lane_bound(shift_window<local_window, false>);
    default: return bind_one<decltype(offset_by)>(isa::Type::u64);
  }
}

template <isa::Space space>
bool lies_in(const Launch& launch, const Warp& w, u64 address) {
  const u64 window = address & window_mask;
  if (space == isa::Space::local) return window == local_window;
  if (space == isa::Space::shared_cluster) return window == shared_window;
  if (space == isa::Space::shared_cta) {
    return window == shared_window && shared_rank(address) == w.cta.rank;
  }
  const Range* range = window == 0 ? launch.memory.find(address) : nullptr;
  const bool is_const = range && range->constant, is_param = range && range->parameter;
  if (space == isa::Space::const_) return is_const;
  if (space == isa::Space::param) return is_param;
  return window == 0 && !is_const && !is_param;
}
template <isa::Space space>
void isspacep(Warp& w, const Op& op, Mask active) {
  Mask in = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1)) continue;
    const u64 address = static_cast<u64>(read_cell(w, op.operands[1], lane));
    in |= Mask{lies_in<space>(w.cta.launch, w, address)} << lane;
  }
  Mask& p = *reinterpret_cast<Mask*>(w.row_to_write(op.operands[0]));
  p = (p & ~active) | in;
}
inline Bound bind_isspacep(const isa::Match& m) {
  using isa::Space;
  Handler run = &isspacep<Space::global>;
  switch (m.space()) {
    case Space::local: run = &isspacep<Space::local>; break;
    case Space::shared:
    case Space::shared_cta: run = &isspacep<Space::shared_cta>; break;
    case Space::shared_cluster: run = &isspacep<Space::shared_cluster>; break;
    case Space::const_: run = &isspacep<Space::const_>; break;
    case Space::param:
    case Space::param_entry: run = &isspacep<Space::param>; break;
    default: break;
  }
  return {.run = run, .whole_warp = true};
}

// mapa d, a, b: the address in the shared memory of CTA b of the cluster.
constexpr auto map_address = []<OneOf<u32, u64> T>(T a, u32 b) -> T {
  const u64 window = sizeof(T) == 8 ? a & window_mask : 0;
  return static_cast<T>(window | u64{b & 0xff} << shared_rank_shift | (a & shared_offset_mask));
};
inline Bound bind_mapa(const isa::Match& m) { return bind_one<decltype(map_address)>(m.type()); }
constexpr auto rank_of_address = []<OneOf<u32, u64> T>(T a) -> u32 { return static_cast<u32>(shared_rank(a)); };
inline Bound bind_getctarank(const isa::Match& m) { return bind_one<decltype(rank_of_address)>(m.type()); }

// Writes a line of which nobody knows the value. On a GPU a buffer begins at a line; here, wherever the host put it.
inline void discard(Warp& w, const Op& op, Mask active) {
  constexpr u64 line = 128;
  for (Mask rest = active; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const auto at = locate(w, op.operands[0], lane, line, 1, Access::write);
    if (!at) return;
    if (at->space != isa::Space::global) return w.fault(Code::out_of_bounds, lane, "discards what is no global memory");
    const u64 from_start = at->offset - w.cta.launch.memory.find(at->offset)->begin;
    if (from_start % line)
      return w.fault(
          Code::misaligned_access, lane,
          cat("discards 128 bytes from byte ", from_start, " of a buffer on, which is not a multiple of 128"));
    const Bytes to = reach({&w, lane, w.pc - 1}, *at, Access::write, op.manner);
    if (to.states) std::fill_n(to.states, line, u8{0});
  }
}

// A policy is nothing but its existence.
inline void make_policy(Warp& w, const Op& op, Mask active) {
  const auto* primary = reinterpret_cast<const u32*>(w.row(op.operands[2]));
  const auto* total = reinterpret_cast<const u32*>(w.row(op.operands[3]));
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1)) continue;
    if (primary[lane] > total[lane]) {
      return w.fault(Code::bad_argument, lane,
                     cat("has a primary size of ", primary[lane], " bytes and a total size of ", total[lane],
                         "; the total is at least the primary size"));
    }
    write_cell(w, op.operands[0], lane, 0);
  }
}

}  // namespace move_detail

// 9.7.9.3  mov
constexpr auto sem_mov = []<class T>(T a) -> T
  requires OneOf<T, bool, b128> || Integer<T> || Real<T>
{ return a; };
constexpr auto sem_mov_address = []<Integer T>(T a) -> T { return a; };
constexpr WarpBody sem_mov_vector{[](const isa::Match&) {
  return Bound{.run = &move_detail::move_vector, .whole_warp = true, .uses = Uses::passes};
}};

// 9.7.9.4  mov: pack, unpack
constexpr WarpBody sem_mov_pack{
    [](const isa::Match&) { return Bound{.run = &move_detail::pack, .whole_warp = true, .uses = Uses::passes}; }};
constexpr WarpBody sem_mov_unpack{
    [](const isa::Match&) { return Bound{.run = &move_detail::unpack, .whole_warp = true, .uses = Uses::passes}; }};

// 9.7.9.5, 9.7.9.6  shfl
constexpr WarpBody sem_shfl{shuffle_detail::bind_plain};
constexpr WarpBody sem_shfl_sync{shuffle_detail::bind_sync};

// 9.7.9.7  prmt: bytes of {b, a}, each picked by four bits of c; the fourth bit replicates the sign.
constexpr auto sem_prmt = [](u32 a, u32 b, u32 c, Mods m) -> u32 {
  const u64 bytes = u64{b} << 32 | a;
  auto byte = [&](u32 i) { return static_cast<u32>(bytes >> (8 * (i & 7)) & 0xff); };
  const u32 s = c & 3;
  u32 pick[4];
  for (u32 i = 0; i < 4; ++i) {
    pick[i] = m.f4e    ? s + i
              : m.b4e  ? (s - i) & 7
              : m.rc8  ? s
              : m.ecl  ? (i > s ? i : s)
              : m.ecr  ? (i < s ? i : s)
              : m.rc16 ? (s & 1) * 2 + (i & 1)
                       : c >> (4 * i) & 0xf;
  }
  const bool plain = !(m.f4e || m.b4e || m.rc8 || m.ecl || m.ecr || m.rc16);
  u32 d = 0;
  for (u32 i = 0; i < 4; ++i) {
    u32 value = byte(pick[i]);
    if (plain && (pick[i] & 8)) value = value & 0x80 ? 0xff : 0;
    d |= value << (8 * i);
  }
  return d;
};

// 9.7.9.8 to 9.7.9.11  ld, ldu, st
constexpr WarpBody sem_ld{move_detail::bind_load};
constexpr WarpBody sem_ld_global{move_detail::bind_load};
constexpr WarpBody sem_ld_global_evict{move_detail::bind_load};
constexpr WarpBody sem_ld_global_256{move_detail::bind_load};
constexpr WarpBody sem_ld_volatile{move_detail::bind_load};
constexpr WarpBody sem_ld_volatile_prefetch{move_detail::bind_load};
constexpr WarpBody sem_ld_volatile_256{move_detail::bind_load};
constexpr WarpBody sem_ld_sem{move_detail::bind_load};
constexpr WarpBody sem_ld_sem_global{move_detail::bind_load};
constexpr WarpBody sem_ld_sem_256{move_detail::bind_load};
constexpr WarpBody sem_ld_sem_b128{move_detail::bind_load};
constexpr WarpBody sem_ld_sem_global_b128{move_detail::bind_load};
constexpr WarpBody sem_ld_mmio{move_detail::bind_load};
constexpr WarpBody sem_ld_readonly{move_detail::bind_load};
constexpr WarpBody sem_ld_nc{move_detail::bind_load};
constexpr WarpBody sem_ld_nc_evict{move_detail::bind_load};
constexpr WarpBody sem_ld_nc_256{move_detail::bind_load};
constexpr WarpBody sem_ldu{move_detail::bind_load};
constexpr WarpBody sem_st{move_detail::bind_store};
constexpr WarpBody sem_st_global{move_detail::bind_store};
constexpr WarpBody sem_st_global_evict{move_detail::bind_store};
constexpr WarpBody sem_st_global_256{move_detail::bind_store};
constexpr WarpBody sem_st_volatile_256{move_detail::bind_store};
constexpr WarpBody sem_st_volatile{move_detail::bind_store};
constexpr WarpBody sem_st_sem{move_detail::bind_store};
constexpr WarpBody sem_st_sem_global{move_detail::bind_store};
constexpr WarpBody sem_st_sem_256{move_detail::bind_store};
constexpr WarpBody sem_st_sem_b128{move_detail::bind_store};
constexpr WarpBody sem_st_sem_global_b128{move_detail::bind_store};
constexpr WarpBody sem_st_mmio{move_detail::bind_store};

// 9.7.9.15 to 9.7.9.18  hints
constexpr WarpBody sem_prefetch{move_detail::bind_nothing};
constexpr WarpBody sem_prefetch_evict{move_detail::bind_nothing};
constexpr WarpBody sem_prefetch_tensormap{move_detail::bind_nothing};
constexpr WarpBody sem_prefetch_valid_addr{move_detail::bind_nothing};
constexpr WarpBody sem_prefetchu{move_detail::bind_nothing};
constexpr WarpBody sem_applypriority{move_detail::bind_nothing};
constexpr WarpBody sem_applypriority_async_bulk{move_detail::bind_nothing};
constexpr WarpBody sem_applypriority_async_bulk_tensor{move_detail::bind_nothing};
constexpr WarpBody sem_applypriority_async_bulk_tensor_im2col{move_detail::bind_nothing};
constexpr WarpBody sem_discard{
    [](const isa::Match&) { return Bound{.run = &move_detail::discard, .whole_warp = true, .discards = true}; }};
constexpr WarpBody sem_createpolicy_range{
    [](const isa::Match&) { return Bound{.run = &move_detail::make_policy, .whole_warp = true}; }};
constexpr auto sem_createpolicy_fractional = [](f32) -> u64 { return 0; };
constexpr auto sem_createpolicy_cvt = [](u64) -> u64 { return 0; };

// 9.7.9.19, 9.7.9.20  isspacep, cvta
constexpr WarpBody sem_isspacep{move_detail::bind_isspacep};
constexpr WarpBody sem_isspacep_32{move_detail::bind_isspacep};
constexpr WarpBody sem_cvta{move_detail::bind_cvta};
constexpr WarpBody sem_cvta_address{move_detail::bind_cvta};
constexpr WarpBody sem_cvta_to{move_detail::bind_cvta};

// 9.7.9.23, 9.7.9.24  mapa, getctarank
constexpr WarpBody sem_mapa{move_detail::bind_mapa};
constexpr WarpBody sem_mapa_address{move_detail::bind_mapa};
constexpr WarpBody sem_getctarank{move_detail::bind_getctarank};
constexpr WarpBody sem_getctarank_address{move_detail::bind_getctarank};

}  // namespace ptx::sim
