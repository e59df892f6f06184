#include "ptx/sim/numerics/tensor_core.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

#include "ptx/arch/format.h"
#include "ptx/sim/numerics/clones.h"

namespace ptx::sim {

namespace {

constexpr TensorCore cores[] = {
#define TENSOR_CORE(unit, since, factors, fraction, products, kept, zero) \
  {Unit::unit, since, Factors::factors, fraction, products, kept, zero},
#include "ptx/sim/numerics/tensor_cores.def"
#undef TENSOR_CORE
};

constexpr int least_exponent(Sum kind) { return kind == Sum::f32 ? -126 : -14; }

constexpr double power_of_two(int exponent) {  // of a normal double
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}
constexpr int exponent_of(double normal) {
  return static_cast<int>(std::bit_cast<std::uint64_t>(normal) >> 52 & 0x7ff) - 1023;
}

// To f32 of `kept` fraction bits, towards zero; beyond the largest is infinite. A sum of zero is +0.
double cut(double x, int kept) {
  if (std::fabs(x) >= 0x1p128) return std::copysign(std::numeric_limits<double>::infinity(), x);
  const std::uint64_t mask = ~std::uint64_t{0} << (52 - kept);
  if (std::fabs(x) >= 0x1p-126) return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & mask);
  return std::trunc(x * power_of_two(126 + kept)) * power_of_two(-126 - kept) + 0.0;
}

// As Fields::has(), in steps that become vector code. T: f32, or its bits.
template <class T>
[[gnu::always_inline]] inline bool all_have(const T* values, int size, Fields fields) {
  std::uint32_t bad = 0;
  for (int i = 0; i < size; ++i) {
    const std::uint32_t x = std::bit_cast<std::uint32_t>(values[i]) << 1;
    const std::uint32_t beyond = (x >> 24) - fields.least > fields.greatest - fields.least;
    bad |= beyond & static_cast<std::uint32_t>(x != 0);
  }
  return bad == 0;
}
PTX_CLONES bool sums_are_plain(const std::uint32_t* bits, int size) { return all_have(bits, size, plain_sum); }

double round(const TensorCore& core, double x, Sum result) {
  if (result == Sum::f32) return cut(x, core.kept);
  const double d = arch::widen(arch::format::f16, arch::narrow(arch::format::f16, x, arch::Rounding::rn, false));
  return d == 0 ? 0 : d;
}

}  // namespace

const TensorCore* tensor_core(Unit unit, int architecture, Factors factors) {
  const TensorCore* found = nullptr;
  for (const TensorCore& row : cores) {
    if (row.unit == unit && row.factors == factors && (!found || row.since <= architecture)) found = &row;
  }
  return found;
}

double sum_value(Sum kind, std::uint32_t bits) {
  return kind == Sum::f32 ? std::bit_cast<float>(bits) : arch::widen(arch::format::f16, bits);
}

std::uint32_t sum_bits(Sum kind, double value) {
  if (kind == Sum::f16) return arch::narrow(arch::format::f16, value, arch::Rounding::rn, false);
  return std::isnan(value) ? 0x7fffffff : std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

double add_block(const TensorCore& core, std::span<const Factor> terms, double c, Sum of_c, Sum result) {
  int top = core.zero + (result == Sum::f16 ? 112 : 0);
  double special = 0;  // the sum of what is not finite
  for (const Factor& term : terms) {
    if (!std::isfinite(term.value)) {
      special += term.value;
    } else if (term.value != 0) {
      top = std::max(top, term.exponent);
    }
  }
  if (!std::isfinite(c)) {
    special += c;
  } else if (c != 0) {
    top = std::max({top, exponent_of(c), least_exponent(of_c)});
  }
  if (special != 0) return special;  // infinite or NaN
  const int unit = top - core.fraction;
  const double grain = power_of_two(-unit);
  std::int64_t sum = static_cast<std::int64_t>(c * grain);
  for (const Factor& term : terms) sum += static_cast<std::int64_t>(term.value * grain);
  return round(core, static_cast<double>(sum) * power_of_two(unit), result);
}

double dot(const TensorCore& core, std::span<const Factor> a, std::span<const Factor> b, double c, Sum of_c,
           Sum result) {
  for (std::size_t begin = 0; begin < a.size(); begin += core.products) {
    const std::size_t n = std::min<std::size_t>(core.products, a.size() - begin);
    Factor terms[32];
    for (std::size_t i = 0; i < n; ++i) {
      const Factor &x = a[begin + i], &y = b[begin + i];
      terms[i] = {x.value * y.value, x.exponent + y.exponent};
    }
    c = add_block(core, {terms, n}, c, of_c, result);
    of_c = result;
  }
  return c;
}

PTX_CLONES bool factors_are_plain(const float* values, int size) { return all_have(values, size, plain_factor); }

void multiply(const TensorCore& core, Sums kinds, int m, int n, int k, Factorised a, Factorised b, bool plain,
              const std::uint32_t* c, std::uint32_t* d, int stride) {
  if (stride == 0) stride = n;
  plain = plain && kinds.c == Sum::f32 && kinds.d == Sum::f32 && n % 8 == 0;
  for (int i = 0; plain && i < m; ++i) plain = sums_are_plain(c + i * stride, n);
  if (plain) {  // which moves the sums by memcpy
    return multiply_plain(core, m, n, k, a, b, reinterpret_cast<const float*>(c), reinterpret_cast<float*>(d), stride);
  }
  for (int i = 0; i < m * n; ++i) {
    const int at = i / n * stride + i % n;
    double sum = sum_value(kinds.c, c[at]);
    Sum of_c = kinds.c;
    for (int begin = 0; begin < k; begin += core.products, of_c = kinds.d) {
      Factor terms[32];
      const int count = std::min<int>(core.products, k - begin);
      for (int j = 0; j < count; ++j) {
        const int x = i / n * a.stride + begin + j, y = (begin + j) * b.stride + i % n;
        terms[j] = {static_cast<double>(a.values[x]) * b.values[y], a.exponents[x] + b.exponents[y]};
      }
      sum = add_block(core, {terms, static_cast<std::size_t>(count)}, sum, of_c, kinds.d);
    }
    d[at] = sum_bits(kinds.d, sum);
  }
}

}  // namespace ptx::sim
