#include "ptx/sim/exec/units.h"

#include <cstring>

namespace ptx::sim {

namespace {

template <class T>  // Lines by value, or each word that is written might change them
void widen_lines(const Lines lines, u32* to, int to_stride) {
  for (int line = 0; line < lines.count; ++line, to += to_stride) {
    const auto* elements = reinterpret_cast<const T*>(lines.from + line * lines.stride);
    for (int i = 0; i < lines.length; ++i) to[i] = elements[i];
  }
}
// A part of the exchange, from a line and a place on.
template <class T>
void exchange(const Lines& lines, int line, int place, u32* to, int to_stride) {
  for (; line < lines.count; ++line) {
    const auto* elements = reinterpret_cast<const T*>(lines.from + line * lines.stride);
    for (int i = place; i < lines.length; ++i) to[i * to_stride + line] = elements[i];
  }
}

typedef u16 Eight __attribute__((vector_size(16)));

// Eight lines of eight elements, in three steps that exchange neighbours, pairs and fours.
void exchange_eight(const std::byte* from, int stride, u32* to, int to_stride) {
  Eight x[8], y[8];
  for (int i = 0; i < 8; ++i) std::memcpy(&x[i], from + i * stride, sizeof x[i]);
#pragma GCC unroll 3
  for (int step = 0; step < 3; ++step) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      y[2 * i] = __builtin_shufflevector(x[i], x[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) x[i] = y[i];
  }
  for (int i = 0; i < 8; ++i) {
    const Eight low = __builtin_shufflevector(x[i], Eight{}, 0, 8, 1, 9, 2, 10, 3, 11),
                high = __builtin_shufflevector(x[i], Eight{}, 4, 12, 5, 13, 6, 14, 7, 15);
    std::memcpy(to + i * to_stride, &low, sizeof low), std::memcpy(to + i * to_stride + 4, &high, sizeof high);
  }
}
void exchange_halves(const Lines& lines, u32* to, int to_stride) {
  const int whole = lines.count / 8 * 8, places = lines.length / 8 * 8;
  for (int line = 0; line < whole; line += 8) {
    for (int i = 0; i < places; i += 8)
      exchange_eight(lines.from + line * lines.stride + i * 2, lines.stride, to + i * to_stride + line, to_stride);
  }
  exchange<u16>(lines, whole, 0, to, to_stride);
  if (places < lines.length)
    exchange<u16>({16, lines.from, whole, lines.length, lines.stride}, 0, places, to, to_stride);
}

}  // namespace

Places::Places(const arch::MatrixDescriptor& descriptor, bool mn_major, u32 across)
    : descriptor_(descriptor), mn_major_(mn_major), across_(across) {
  alike_ = descriptor.stride % 1024 == 0 && descriptor.swizzle != arch::Swizzle::none && !mn_major && across <= 4;
  for (u32 i = 0; alike_ && i < 8 * across; ++i) first_[i] = descriptor.at(false, i / across, i % across);
}

void lay_out(const Lines& lines, bool exchanged, u32* to, int to_stride) {
  if (exchanged) {
    if (lines.bits == 8) return exchange<u8>(lines, 0, 0, to, to_stride);
    if (lines.bits == 16) return exchange_halves(lines, to, to_stride);
    return exchange<u32>(lines, 0, 0, to, to_stride);  // .b1 too: words of bits
  }
  if (lines.bits == 8) return widen_lines<u8>(lines, to, to_stride);
  if (lines.bits == 16) return widen_lines<u16>(lines, to, to_stride);
  widen_lines<u32>(lines, to, to_stride);
}

}  // namespace ptx::sim
