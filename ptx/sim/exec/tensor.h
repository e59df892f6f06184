// Bodies of ptx/isa/forms/tensor.def: tensor copies, and bulk groups. What copies read and write is said
// by memory/tensor_map.h; they finish as bulk copies do.
#pragma once

#include "ptx/sim/exec/operation.h"
#include "ptx/sim/memory/tensor_map.h"

namespace ptx::sim {

namespace tensor_detail {

using namespace async_detail;

inline void bad_map(Warp& w, int lane, std::string_view what) {
  w.fault(Code::tensor_map_rule, lane, std::string(what));
}

// Reads the map of a copy; false after a fault.
inline bool map_at(Warp& w, const Operand& address, int lane, Operation& o, TensorMap& map, bool pixels = false) {
  const auto at = locate(w, address, lane, 128, 64, Access::read);
  if (!at) return false;
  o.map = *at;
  std::memcpy(&map, bytes_at(*at).data, sizeof map);  // the operation reads it, and tells of it
  if (map.magic != TensorMap::magic_number) return bad_map(w, lane, "copies by a tensor map that is none"), false;
  if (map.rank == 0) return bad_map(w, lane, "copies by a tensor map that has no rank yet"), false;
  for (int i = 0; i < map.rank && map.channels == 0; ++i) {
    if (map.box[i] == 0) return bad_map(w, lane, cat("copies by a tensor map that has no box_dim ", i, " yet")), false;
  }
  if (pixels != (map.channels != 0)) {
    return bad_map(w, lane, pixels ? "copies pixels by a map of tiles" : "copies a tile by an im2col map"), false;
  }
  if ((map.interleave == launch::Interleave::none || !pixels) && !map.spread) return true;
  bad_map(w, lane,
          pixels ? "copies pixels by an interleaved map, which the simulator does not do yet"
                 : "copies by a map of spread elements, which the simulator does not do yet");
  return false;
}

// rows: four of a matrix (manual 5.5.3.4); pixels: im2col; wide, wide_128: im2col::w, im2col::w::128
enum class Mode : u8 { tile, rows, pixels, wide, wide_128 };
constexpr bool takes_pixels(Mode mode) { return mode != Mode::tile && mode != Mode::rows; }

// The runs of pixels in global memory, and how many bytes; `given`: the operand im2colInfo, or none. False after a
// fault.
template <Mode mode>
bool pixels(Warp& w, const Operand* given, int lane, const TensorMap& map, const s32* at, std::vector<Run>& runs) {
  u16 info[3]{};
  for (int i = 0; given && i < given->count && i < 3; ++i) info[i] = static_cast<u16>(row32(w, given[i])[lane]);
  if (mode == Mode::pixels) {
    const u32 most = map.rank == 3 ? 0xffff : map.rank == 4 ? 0xff : 0x1f;  // 5.5.4.1
    if (const u32 offset = std::max({info[0], info[1], info[2]}); offset > most) {
      bad_map(w, lane, cat("has the im2col offset ", offset, "; with ", map.rank, " dimensions there are 0 to ", most));
      return false;
    }
    return append_pixels(map, {at, 5}, info, runs), true;
  }
  const Wide wide{.by_32 = mode == Mode::wide_128, .halo = info[0], .offset = info[1]};
  if (const u32 most = wide.by_32 ? 32 : 512; wide.halo >= most || wide.offset >= 32)
    return bad_map(w, lane,
                   cat("has wHalo ", wide.halo, " and wOffset ", wide.offset, "; there are 0 to ", most - 1,
                       " and 0 to 31")),
           false;
  if (map.swizzle == launch::Swizzle::none || map.swizzle == launch::Swizzle::b128_atom_32_flip_8)
    return bad_map(w, lane, "copies pixels along W by a map without a swizzle, or one that flips 8 bytes"), false;
  return append_wide(map, {at, 5}, wide, runs), true;
}
// The bytes that a copy takes in shared memory.
template <Mode mode>
u64 bytes_of(const TensorMap& map, const std::vector<Run>& runs) {
  if (!takes_pixels(mode)) return box_bytes(map) * (mode == Mode::rows ? 4 : 1);
  u64 bytes = 0;
  for (const Run& run : runs) bytes += run.at.bytes;
  return bytes;
}

// Whether filters reach pixels outside of the images. An H200 stops at a copy to global memory by such a map ("illegal
// instruction"), wherever it starts.
inline bool reaches_outside(const TensorMap& map) {
  return std::ranges::any_of(map.lower, [](int corner) { return corner < 0; }) ||
         std::ranges::any_of(map.upper, [](int corner) { return corner > 0; });
}

// Whether a copy may begin at these coordinates; an H200 stops at one that may not ("illegal instruction").
template <Mode mode>
bool begins_well(Warp& w, int lane, const TensorMap& map, std::span<const s32> at, Access kind) {
  if (const s64 bits = bits_before(map, at[0]); bits % 128 != 0)
    return bad_map(w, lane,
                   cat("begins ", bits / 8, " bytes into the innermost dimension (element ", at[0],
                       "); a copy begins at a multiple of 16 bytes")),
           false;
  const auto low = std::ranges::find_if(at, [](s32 coordinate) { return coordinate < 0; });
  if (kind == Access::read || mode == Mode::rows || low == at.end()) return true;
  return bad_map(w, lane,
                 cat("writes from coordinate ", *low, " of dimension ", low - at.begin(),
                     " on; a copy to global memory begins at coordinates of 0 and more (it may end outside)")),
         false;
}

// The runs of the box in global memory. `given`: im2colInfo.
template <Mode mode>
bool box(Warp& w, const Operand* coordinates, const Operand* given, int lane, const TensorMap& map, Access kind,
         std::vector<Run>& runs) {
  constexpr bool rows = mode == Mode::rows;
  s32 at[5]{};
  for (int i = 0; i < coordinates->count; ++i) at[i] = static_cast<s32>(row32(w, coordinates[i])[lane]);
  const int rank = rows ? 2 : coordinates->count;
  if (rank != map.rank) return bad_map(w, lane, cat("copies in ", rank, " dimensions; the map has ", map.rank)), false;
  if (rows && map.box[1] != 1)
    return bad_map(
               w, lane,
               cat("copies four rows by a map whose box has ", map.box[1],
                   " rows; in the modes .tile::gather4 and .tile::scatter4 the box has one row (manual 5.5.3.4.1)")),
           false;
  if (!begins_well<mode>(w, lane, map, {at, static_cast<std::size_t>(rank)}, kind)) return false;
  if (mode == Mode::pixels && writes(kind) && reaches_outside(map))
    return bad_map(
               w, lane,
               "writes by an im2col map whose corners lie outside of the images; of a map that is written by, lower "
               "corners are at least 0 and upper ones at most 0"),
           false;
  if constexpr (takes_pixels(mode)) {
    if (!pixels<mode>(w, given, lane, map, at, runs)) return false;
  }
  for (int i = 0; i < (rows ? 4 : mode == Mode::tile); ++i) {
    const s32 row[2] = {at[0], at[1 + i]};
    append_box(map, rows ? std::span<const s32>(row) : std::span<const s32>(at), runs);
  }
  for (const Run& run : runs) {
    if (run.outside) continue;
    const Range* range = w.cta.launch.memory.find(run.at.offset);
    if (range && range->end - run.at.offset >= run.at.bytes && (range->writable || kind == Access::read)) continue;
    w.fault(Code::out_of_bounds, lane,
            cat("copies ", run.at.bytes, " bytes at ", describe(w.cta.launch.program, run.at),
                ", which are of no buffer of the kernel that it may touch so"));
    return false;
  }
  return true;
}

// Where the bytes of a box lie in shared memory; nothing after a fault.
inline std::optional<std::vector<Run>> in_shared(Warp& w, const Operand& address, int lane, const TensorMap& map,
                                                 u64 bytes, Access kind) {
  auto at = locate(w, address, lane, span_of(map, bytes), 128, kind);
  if (!at) return std::nullopt;
  return swizzled(map, *at, bytes);
}

// [d], [map, {coordinates}], [mbar]{, offsets}{, ctaMask}
template <Mode mode, bool multicast, bool pair>
void load(Warp& w, const Op& op, Mask active) {
  each_lane(w, active, [&](int lane) {
    const Operand *s = op.operands, *mbar = behind(s + 2);
    TensorMap map;
    Operation o{.agent = agent(w, lane), .op = &op};
    if (!map_at(w, s[1], lane, o, map, takes_pixels(mode))) return;
    if (!box<mode>(w, s + 2, takes_pixels(mode) ? mbar + 1 : nullptr, lane, map, Access::read, o.from)) return;
    const u64 bytes = bytes_of<mode>(map, o.from);
    auto to = in_shared(w, s[0], lane, map, bytes, Access::write);
    if (!to) return;
    o.to = std::move(*to);
    o.fill = fill_of(map);
    o.to_tf32 = map.element == launch::Element::tf32;
    if (map.interleave == launch::Interleave::none) o.layout = {map.swizzle, map.element};
    const Operand* mask = takes_pixels(mode) ? behind(mbar + 1) : mbar + 1;
    const auto ctas = multicast ? std::optional(row32(w, *mask)[lane] & 0xffff) : std::nullopt;
    if (signal_beside(w, *mbar, lane, o, static_cast<u32>(bytes), ctas, pair))
      w.cta.cluster.operations.begin(std::move(o));
  });
}

// The combination of a reduction on elements of a map; nullptr: there is none.
inline Combine combine_of(const Mods& m, launch::Element element) {
  using namespace atomic_detail;
  using launch::Element;
  const bool logic = m.and_ || m.or_ || m.xor_, extreme = m.min || m.max, count = m.inc || m.dec;
  auto integer = [&]<class T>(T) -> Combine {
    if (m.add) return &combine<T, Add>;
    if (extreme) return &combine<T, Extreme>;
    return logic ? &combine<std::make_unsigned_t<T>, Logic> : nullptr;
  };
  switch (element) {
    case Element::u32: return count ? &combine<u32, Count> : integer(u32{});
    case Element::s32: return integer(s32{});
    case Element::u64: return integer(u64{});
    case Element::s64: return integer(s64{});
    case Element::f16: return m.add ? &combine<f16, Add> : extreme ? &combine<f16, Extreme> : nullptr;
    case Element::bf16: return m.add ? &combine<bf16, Add> : extreme ? &combine<bf16, Extreme> : nullptr;
    case Element::f32: return m.add ? &combine<f32, Add> : nullptr;
    case Element::f64: return m.add ? &combine<f64, Add> : nullptr;
    default: return nullptr;
  }
}

// [map, {coordinates}], [a]
template <Mode mode, bool reduces>
void store(Warp& w, const Op& op, Mask active) {
  each_lane(w, active, [&](int lane) {
    const Operand* s = op.operands;
    TensorMap map;
    Operation o{.agent = agent(w, lane), .op = &op};
    if (!map_at(w, s[0], lane, o, map, takes_pixels(mode))) return;
    if (reduces) {
      o.combine = combine_of(op.mods, map.element);
      if (!o.combine) return bad_map(w, lane, cat("has no such reduction of elements of ", arch::name(map.element)));
    }
    if (!box<mode>(w, s + 1, nullptr, lane, map, Access::write, o.to)) return;
    auto from = in_shared(w, *behind(s + 1), lane, map, bytes_of<mode>(map, o.to), Access::read);
    if (!from) return;
    o.from = std::move(*from);
    o.group = w.bulk_group[static_cast<std::size_t>(lane)];
    w.cta.cluster.operations.begin(std::move(o));
  });
}

constexpr const char* overridden = "tensor copies that override parts of their map are of sm_107f alone";
inline bool is_simulated(const isa::Match& m) {
  return !m.has("override::global_address") && m.value("override").empty();
}
inline Bound bind_load(const isa::Match& m) {
  if (!is_simulated(m)) return {.why = overridden};
  const bool pair = m.has("cta_group::2");
  const bool multicast =
      m.has("multicast::cluster") || m.has("multicast::cluster::16b") || m.has("multicast::cluster::32b");
  auto pick = [&]<Mode mode>() -> Handler {
    if (pair) return multicast ? &load<mode, true, true> : &load<mode, false, true>;
    return multicast ? &load<mode, true, false> : &load<mode, false, false>;
  };
  const std::string_view mode = m.value("load_mode");
  const Handler run = mode == "tile::gather4"    ? pick.template operator()<Mode::rows>()
                      : mode == "im2col"         ? pick.template operator()<Mode::pixels>()
                      : mode == "im2col::w"      ? pick.template operator()<Mode::wide>()
                      : mode == "im2col::w::128" ? pick.template operator()<Mode::wide_128>()
                                                 : pick.template operator()<Mode::tile>();
  return {.run = run, .whole_warp = true};
}
inline Bound bind_store(const isa::Match& m) {
  if (!is_simulated(m)) return {.why = overridden};
  const std::string_view mode = m.value("load_mode");
  const Handler run = mode == "tile::scatter4"      ? &store<Mode::rows, false>
                      : mode == "im2col_no_offs"    ? &store<Mode::pixels, false>
                      : mode == "im2col_no_offs::w" ? &store<Mode::wide, false>
                                                    : &store<Mode::tile, false>;
  return {.run = run, .whole_warp = true};
}
inline Bound bind_reduce(const isa::Match& m) {
  if (!is_simulated(m)) return {.why = overridden};
  const std::string_view mode = m.value("load_mode");
  const Handler run = mode == "im2col_no_offs"      ? &store<Mode::pixels, true>
                      : mode == "im2col_no_offs::w" ? &store<Mode::wide, true>
                                                    : &store<Mode::tile, true>;
  return {.run = run, .whole_warp = true, .communicates = true};
}

// ---- tensormap.replace [addr], {ord, }new_val: table 33 of manual 9.7.9.28

constexpr launch::Element elements[] = {
    launch::Element::u8,   launch::Element::u16, launch::Element::u32,  launch::Element::s32,
    launch::Element::u64,  launch::Element::s64, launch::Element::f16,  launch::Element::f32,
    launch::Element::f32,  launch::Element::f64, launch::Element::bf16, launch::Element::tf32,
    launch::Element::tf32, launch::Element::u4,  launch::Element::u4,   launch::Element::e2m3};
constexpr launch::Swizzle swizzles[] = {launch::Swizzle::none, launch::Swizzle::b32, launch::Swizzle::b64,
                                        launch::Swizzle::b128};
constexpr launch::Swizzle atoms[] = {launch::Swizzle::b128, launch::Swizzle::b128_atom_32,
                                     launch::Swizzle::b128_atom_32_flip_8, launch::Swizzle::b128_atom_64};

enum class Field : u8 {
  address,
  rank,
  stride,
  box,
  dimension,
  element_stride,
  element,
  interleave,
  swizzle,
  atom,
  fill
};
template <Field field>
bool put(TensorMap& map, u32 ord, u64 value) {
  switch (field) {
    case Field::address: map.address = value; return true;
    case Field::rank: map.rank = static_cast<u8>(value + 1); return value < 5;
    case Field::stride: return ord < 4 && (map.strides[ord] = value, true);
    case Field::box: map.box[ord] = static_cast<u16>(value); return value != 0 && value <= 256;
    case Field::dimension: map.dimensions[ord] = value ? value : 1ull << 32; return true;
    case Field::element_stride: map.element_strides[ord] = static_cast<u8>(value); return value != 0 && value <= 8;
    case Field::element: map.element = elements[value & 15], map.spread = value == 14; return true;
    case Field::interleave: map.interleave = static_cast<launch::Interleave>(value); return true;
    case Field::swizzle: return value < 4 && (map.swizzle = swizzles[value], true);
    case Field::atom: map.swizzle = atoms[value & 3]; return true;
    case Field::fill: map.fill = static_cast<launch::TensorMapRecipe::Fill>(value); return true;
  }
  return false;
}
template <Field field>
void replace(Warp& w, const Op& op, Mask active) {
  each_lane(w, active, [&](int lane) {
    const Operand& last = op.operands[op.sources - 1];
    const u64 value = last.cell == 8 ? row64(w, last)[lane] : row32(w, last)[lane];
    const u32 ord = op.sources > 2 ? row32(w, op.operands[1])[lane] : 0;
    const auto at = locate(w, op.operands[0], lane, 128, 64, Access::update);
    const Bytes bytes = at ? reach(agent(w, lane), *at, Access::update, op.manner) : Bytes{};
    if (!bytes.data) return;
    TensorMap map{.element = launch::Element::u8};  // of zeros: begun here, as Triton does, which leaves zeros out
    constexpr std::byte zeros[sizeof map]{};
    if (std::memcmp(bytes.data, zeros, sizeof map) != 0) std::memcpy(&map, bytes.data, sizeof map);
    if (map.magic != TensorMap::magic_number) return bad_map(w, lane, "changes a tensor map that is none");
    if (!put<field>(map, ord, value))
      return bad_map(w, lane, cat("gives a tensor map the value ", value, ", which it cannot have"));
    std::memcpy(bytes.data, &map, sizeof map);
  });
}
inline Bound bind_replace(const isa::Match& m) {
  const Handler run = m.has("global_address")      ? &replace<Field::address>
                      : m.has("rank")              ? &replace<Field::rank>
                      : m.has("global_stride")     ? &replace<Field::stride>
                      : m.has("box_dim")           ? &replace<Field::box>
                      : m.has("global_dim")        ? &replace<Field::dimension>
                      : m.has("element_stride")    ? &replace<Field::element_stride>
                      : m.has("elemtype")          ? &replace<Field::element>
                      : m.has("interleave_layout") ? &replace<Field::interleave>
                      : m.has("swizzle_mode")      ? &replace<Field::swizzle>
                      : m.has("swizzle_atomicity") ? &replace<Field::atom>
                                                   : &replace<Field::fill>;
  return {.run = run, .whole_warp = true};
}

inline void commit_group(Warp& w, const Op&, Mask active) {
  for (int i = 0; i < lanes; ++i) w.bulk_group[static_cast<std::size_t>(i)] += active >> i & 1;
}
template <bool read>
void wait_group(Warp& w, const Op& op, Mask active) {
  each_lane(w, active,
            [&](int lane) { w.cta.cluster.operations.wait_group(w, lane, row32(w, op.operands[0])[lane], read); });
}
inline void nothing(Warp&, const Op&, Mask) {}
inline Bound bind_nothing(const isa::Match&) { return {.run = &nothing, .whole_warp = true}; }

}  // namespace tensor_detail

// 9.7.9.27.1.2, 9.7.9.27.1.3  cp.async.bulk.tensor, cp.reduce.async.bulk.tensor
constexpr WarpBody sem_cp_async_bulk_tensor_load_cta{tensor_detail::bind_load};
constexpr WarpBody sem_cp_async_bulk_tensor_load{tensor_detail::bind_load};
constexpr WarpBody sem_cp_async_bulk_tensor_load_cta_im2col{tensor_detail::bind_load};
constexpr WarpBody sem_cp_async_bulk_tensor_load_im2col{tensor_detail::bind_load};
constexpr WarpBody sem_cp_async_bulk_tensor_store{tensor_detail::bind_store};
constexpr WarpBody sem_cp_reduce_async_bulk_tensor{tensor_detail::bind_reduce};

// 9.7.9.27.1.4  hints
constexpr WarpBody sem_cp_async_bulk_prefetch_tensor{tensor_detail::bind_nothing};
constexpr WarpBody sem_cp_async_bulk_prefetch_tensor_im2col{tensor_detail::bind_nothing};

// 9.7.9.28  tensormap.replace
constexpr WarpBody sem_tensormap_replace_address{tensor_detail::bind_replace};
constexpr WarpBody sem_tensormap_replace_rank{tensor_detail::bind_replace};
constexpr WarpBody sem_tensormap_replace_stride{tensor_detail::bind_replace};
constexpr WarpBody sem_tensormap_replace_dims{tensor_detail::bind_replace};
constexpr WarpBody sem_tensormap_replace_elemtype{tensor_detail::bind_replace};
constexpr WarpBody sem_tensormap_replace_interleave_layout{tensor_detail::bind_replace};
constexpr WarpBody sem_tensormap_replace_swizzle_mode{tensor_detail::bind_replace};
constexpr WarpBody sem_tensormap_replace_swizzle_atomicity{tensor_detail::bind_replace};
constexpr WarpBody sem_tensormap_replace_fill_mode{tensor_detail::bind_replace};

// 9.7.9.27.2  cp.async.bulk.commit_group, wait_group
constexpr WarpBody sem_cp_async_bulk_commit_group{
    [](const isa::Match&) { return Bound{.run = &tensor_detail::commit_group, .whole_warp = true}; }};
constexpr WarpBody sem_cp_async_bulk_wait_group{[](const isa::Match& m) -> Bound {
  return {.run = m.has("read") ? &tensor_detail::wait_group<true> : &tensor_detail::wait_group<false>,
          .whole_warp = true};
}};

}  // namespace ptx::sim
