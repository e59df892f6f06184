#include "ptx/sim/numerics/factors.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ptx/sim/numerics/clones.h"

namespace ptx::sim {

namespace {

using isa::Type;
using u32 = std::uint32_t;

struct FactorTable {
  float values[256];
  std::int32_t exponents[256];
  FactorTable(const arch::Format& f, int shift) {
    for (u32 bits = 0; bits < 256; ++bits) {
      const Factor x = factor_of(f, bits >> shift & ((2u << f.sign_bit()) - 1));
      values[bits] = static_cast<float>(x.value), exponents[bits] = x.exponent;
    }
  }
};
const FactorTable& table_of(Type type, bool in_bytes) {
  namespace format = arch::format;
  static const FactorTable e4m3(format::e4m3, 0), e5m2(format::e5m2, 0), e3m2(format::e3m2, 0), e2m3(format::e2m3, 0),
      e2m1(format::e2m1, 0), middle(format::e2m1, 2);
  switch (type) {
    case Type::e4m3: return e4m3;
    case Type::e5m2: return e5m2;
    case Type::e3m2: return e3m2;
    case Type::e2m3: return e2m3;
    default: return in_bytes ? middle : e2m1;
  }
}

// f32 by its upper bits: .bf16 has 16 of them, .tf32 has 19.
PTX_CLONES void widen_upper(const u32* bits, int shift, u32 mask, int size, float* values, std::int32_t* exponents) {
  for (int i = 0; i < size; ++i) {
    const u32 x = bits[i] << shift & mask, field = x >> 23 & 0xff;
    values[i] = std::bit_cast<float>(x);
    exponents[i] = (x << 1) == 0 ? exponent_of_zero : static_cast<std::int32_t>(field ? field : 1) - 127;
  }
}
PTX_CLONES void widen_f16(const u32* bits, int size, float* values, std::int32_t* exponents) {
  for (int i = 0; i < size; ++i) {
    const u32 magnitude = bits[i] & 0x7fff, field = magnitude >> 10;
    const float finite = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
    const u32 value = field == 31 ? magnitude << 13 | 0x7f800000 : std::bit_cast<u32>(finite);
    values[i] = std::bit_cast<float>(value | (bits[i] & 0x8000) << 16);
    exponents[i] = magnitude == 0 ? exponent_of_zero : static_cast<std::int32_t>(field ? field : 1) - 15;
  }
}

}  // namespace

Factor factor_of(const arch::Format& format, u32 bits) {
  const double value = arch::widen(format, bits);
  if (value == 0) return {value, exponent_of_zero};
  return {value, std::isfinite(value) ? std::max(std::ilogb(value), 1 - format.bias) : 0};
}

bool factorise(Type type, bool in_bytes, const u32* bits, int size, float* values, std::int32_t* exponents) {
  switch (type) {
    case Type::f16: widen_f16(bits, size, values, exponents); break;
    case Type::bf16: widen_upper(bits, 16, ~0u, size, values, exponents); break;
    case Type::tf32: widen_upper(bits, 0, 0xffffe000, size, values, exponents); break;
    default:
      const FactorTable& table = table_of(type, in_bytes);
      for (int i = 0; i < size; ++i) values[i] = table.values[bits[i]], exponents[i] = table.exponents[bits[i]];
  }
  return factors_are_plain(values, size);
}

}  // namespace ptx::sim
