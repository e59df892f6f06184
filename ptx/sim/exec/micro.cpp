#include "ptx/sim/exec/micro.h"

#include "ptx/sim/exec/lanes.h"

namespace ptx::sim {

namespace {

template <class To, class From, class F>
void convert(Warp& w, const Op& op, Mask active, F f) {
  const auto* from = reinterpret_cast<const From*>(w.row(op.operands[1]));
  To out[lanes];
  for (int i = 0; i < lanes; ++i) out[i] = f(from[i]);
  lane_detail::keep(reinterpret_cast<To*>(w.row_to_write(op.operands[0])), out, active);
}

template <class T>
void frame_address(Warp& w, const Op& op, Mask active) {
  T out[lanes];
  for (T& lane : out) lane = static_cast<T>(w.current.frame->local_base + static_cast<u64>(op.immediate));
  lane_detail::keep(reinterpret_cast<T*>(w.row_to_write(op.operands[0])), out, active);
}

template <class T>
void index_address(Warp& w, const Op& op, Mask active) {
  const auto* base = reinterpret_cast<const u64*>(w.row(op.operands[1]));
  const auto* index = reinterpret_cast<const T*>(w.row(op.operands[2]));
  u64 out[lanes];
  for (int i = 0; i < lanes; ++i)
    out[i] = base[i] + u64{static_cast<u32>(index[i] + static_cast<T>(op.immediate))} * op.target;
  lane_detail::keep(reinterpret_cast<u64*>(w.row_to_write(op.operands[0])), out, active);
}

}  // namespace

void narrow(Warp& w, const Op& op, Mask active) {
  convert<u32, u64>(w, op, active, [](u64 x) { return static_cast<u32>(x); });
}
void extend_unsigned(Warp& w, const Op& op, Mask active) {
  convert<u64, u32>(w, op, active, [](u32 x) { return u64{x}; });
}
void extend_signed(Warp& w, const Op& op, Mask active) {
  convert<u64, u32>(w, op, active, [](u32 x) { return static_cast<u64>(static_cast<s64>(static_cast<s32>(x))); });
}
void add_offset(Warp& w, const Op& op, Mask active) {
  convert<u64, u64>(w, op, active, [&](u64 x) { return x + static_cast<u64>(op.immediate); });
}
void add_offset_32(Warp& w, const Op& op, Mask active) {
  convert<u32, u32>(w, op, active, [&](u32 x) { return x + static_cast<u32>(op.immediate); });
}
void index_address_32(Warp& w, const Op& op, Mask active) { index_address<u32>(w, op, active); }
void index_address_64(Warp& w, const Op& op, Mask active) { index_address<u64>(w, op, active); }
void frame_address_32(Warp& w, const Op& op, Mask active) { frame_address<u32>(w, op, active); }
void frame_address_64(Warp& w, const Op& op, Mask active) { frame_address<u64>(w, op, active); }
void return_from_function(Warp& w, const Op&, Mask active) { w.leave(active); }

}  // namespace ptx::sim
