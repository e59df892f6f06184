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

u64 low(u32 x) { return x; }
u64 low(u64 x) { return x; }
u64 low(b128 x) { return x.low; }

template <class To, class From, bool sign>
void resize(Warp& w, const Op& op, Mask active) {
  convert<To, From>(w, op, active, [](From x) {
    u64 bits = low(x);
    if constexpr (sign && sizeof(From) == 4) bits = static_cast<u64>(static_cast<s64>(static_cast<s32>(bits)));
    if constexpr (sizeof(To) == 16) {
      return b128{bits, sign && bits >> 63 ? ~u64{0} : 0};
    } else {
      return static_cast<To>(bits);
    }
  });
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

Handler resized(int to, int from, bool sign) {
  if (from == 16) return to == 8 ? &resize<u64, b128, false> : &resize<u32, b128, false>;
  if (from == 8 && to == 4) return &resize<u32, u64, false>;
  if (from == 8) return sign ? &resize<b128, u64, true> : &resize<b128, u64, false>;
  if (to == 8) return sign ? &resize<u64, u32, true> : &resize<u64, u32, false>;
  return sign ? &resize<b128, u32, true> : &resize<b128, u32, false>;
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
