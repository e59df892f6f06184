// Facts about types that authoring needs: register prefixes, what may be declared, what mov moves, 16-bit floats.
#include <bit>
#include <cmath>

#include "ptx/author/detail/state.h"

namespace ptx::author {

isa::Type declared_type(isa::Type type) {
  if (type == isa::Type::none || isa::info(type).declarable) return type;
  switch (isa::info(type).bits) {
    case 16: return isa::Type::b16;
    case 32: return isa::Type::b32;
    case 64: return isa::Type::b64;
    default: return isa::Type::b8;
  }
}

isa::Type move_type(isa::Type type) {
  const isa::Type declared = declared_type(type);
  if (declared == isa::Type::f16) return isa::Type::b16;
  if (declared == isa::Type::f16x2) return isa::Type::b32;
  return declared;
}

bool is_signed(isa::Type type) { return isa::info(type).kind == isa::TypeKind::signed_; }

int integer_bits(isa::Type type) {
  const isa::TypeInfo& info = isa::info(type);
  const bool integer =
      info.kind == isa::TypeKind::bits || info.kind == isa::TypeKind::unsigned_ || info.kind == isa::TypeKind::signed_;
  return integer && (info.bits == 32 || info.bits == 64) ? info.bits : 0;
}

// To the nearest, ties to even, straight from the double: no double rounding.
std::uint16_t to_half(double value, bool bf16) {
  const int fraction = bf16 ? 7 : 10, smallest = bf16 ? -126 : -14, bias = bf16 ? 127 : 15;
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const auto infinity = static_cast<std::uint16_t>((2 * bias + 1) << fraction);
  if (std::isnan(value)) return 0x7fff;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | infinity;
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), smallest);
  const auto steps = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, fraction - exponent)));
  // A carry out of the fraction moves on to the next exponent, and past the last one to infinity.
  const std::uint32_t bits = steps + (static_cast<std::uint32_t>(exponent + bias - 1) << fraction);
  return static_cast<std::uint16_t>(sign | std::min<std::uint32_t>(bits, infinity));
}

}  // namespace ptx::author
