// How tensor cores add: values that hardware gave, the ends of the formula, and the fast way against the exact one.
#include "ptx/sim/numerics/tensor_core.h"

#include <doctest/doctest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ptx/arch/format.h"
#include "ptx/sim/numerics/factors.h"

using namespace ptx::sim;
namespace format = ptx::arch::format;
using ptx::arch::Format;

namespace {

Factor factor(const Format& f, std::uint32_t bits) {
  const double value = ptx::arch::widen(f, bits);
  return {value, std::isfinite(value) && value != 0 ? std::max(std::ilogb(value), 1 - f.bias) : 0};
}
Factor factor(double value) { return {value, value == 0 ? 0 : std::ilogb(value)}; }

const TensorCore& core(int architecture, Factors factors = Factors::half, Unit unit = Unit::mma) {
  return *tensor_core(unit, architecture, factors);
}
float in_f32(const TensorCore& core, std::vector<double> a, std::vector<double> b, float c) {
  std::vector<Factor> x, y;
  for (double value : a) x.push_back(factor(value));
  for (double value : b) y.push_back(factor(value));
  return static_cast<float>(dot(core, x, y, c, Sum::f32, Sum::f32));
}

}  // namespace

TEST_CASE("rows of the architectures") {
  CHECK(core(70).products == 4);
  CHECK(core(86).fraction == 24);
  CHECK(core(90).fraction == 25);
  CHECK(core(100).products == 16);
  CHECK(core(89, Factors::f8).kept == 13);
  CHECK(core(90, Factors::f8).products == 0);  // by way of .f16
  CHECK(core(120, Factors::f8).products == 32);
  CHECK(core(90, Factors::f8, Unit::wgmma).fraction == 13);
  CHECK(tensor_core(Unit::wgmma, 90, Factors::f4) == nullptr);
}

TEST_CASE("terms are cut towards zero at the architecture's grain") {
  // Beside 2^14 a term keeps bits down to 2^(14 - F): 2^-11 is cut on sm_70 to 80 and counts on sm_90.
  const double big = 0x1p14, small = 0x1p-11;
  CHECK(in_f32(core(70), {big, small, -big}, {1, 1, 1}, 0) == 0);
  CHECK(in_f32(core(80), {big, small, -big}, {1, 1, 1}, 0) == 0);
  CHECK(in_f32(core(90), {big, small, -big}, {1, 1, 1}, 0) == 0x1p-11F);
  CHECK(in_f32(core(90), {big, -small * 1.75, -big}, {1, 1, 1}, 0) == -0x1p-11F);  // towards zero
  // The exponent of a product is that of its factors, also where it is 2 and more.
  CHECK(in_f32(core(90), {1.5, 0x1p-12, -1.5}, {1.5, 0x1p-13, 1.5}, 0) == 0x1p-25F);
}

TEST_CASE("blocks follow each other, and results are cut") {
  // sm_90 adds sixteen at once, sm_80 eight after eight: what is cut in the first block is lost.
  std::vector<double> a(16, 0.0), one(16, 1.0);
  a[0] = 0x1p14, a[1] = 0x1p-9, a[8] = -0x1p14;
  CHECK(in_f32(core(90), a, one, 0) == 0x1p-9F);
  CHECK(in_f32(core(80), a, one, 0) == 0x1p-9F);
  a[1] = 0x1p-11;
  CHECK(in_f32(core(90), a, one, 0) == 0x1p-11F);
  CHECK(in_f32(core(80), a, one, 0) == 0);
  CHECK(in_f32(core(90), {1, 0x1p-24}, {1, 1}, 0) == 1);
  CHECK(in_f32(core(90), {-1, -0x1.8p-24}, {1, 1}, 0) == -1);
  CHECK(in_f32(core(90, Factors::f8, Unit::wgmma), {1, 0x1p-13, 0x1p-14}, {1, 1, 1}, 0) == 1 + 0x1p-13F);
}

TEST_CASE("infinities, NaN, zeros and the ends of f32") {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto bits = [&](std::vector<double> a, std::vector<double> b, float c) {
    std::vector<Factor> x, y;
    for (double value : a) x.push_back({value, value == 0 || std::isinf(value) ? 0 : std::ilogb(value)});
    for (double value : b) y.push_back({value, value == 0 || std::isinf(value) ? 0 : std::ilogb(value)});
    return sum_bits(Sum::f32, dot(core(90), x, y, c, Sum::f32, Sum::f32));
  };
  CHECK(bits({infinity}, {0}, 0) == 0x7fffffff);
  CHECK(bits({infinity, -infinity}, {1, 1}, 0) == 0x7fffffff);
  CHECK(bits({-infinity}, {1}, 5) == 0xff800000);
  CHECK(bits({infinity}, {1}, -std::numeric_limits<float>::infinity()) == 0x7fffffff);
  CHECK(bits({-0.0}, {1}, -0.0F) == 0);
  CHECK(bits({0x1p100, -0x1p100}, {0x1p30, 0x1p30}, 1) == 0);  // a product beyond f32 does not overflow by itself
  CHECK(bits({0x1p100}, {0x1p28}, 0) == 0x7f800000);
  CHECK(bits({0x1p-100}, {0x1p-49}, 0) == 1);
  CHECK(bits({0x1p-100}, {0x1p-50}, 0) == 0);
}

TEST_CASE("f16 sums are rounded to nearest") {
  const auto sum = [](double a, double b) {
    const Factor x[2] = {factor(a), factor(b)}, y[2] = {factor(1), factor(1)};
    return sum_bits(Sum::f16, dot(core(90), x, y, 0, Sum::f16, Sum::f16));
  };
  CHECK(sum(1, 0x1p-11) == 0x3c00);
  CHECK(sum(1, 0x1.8p-11) == 0x3c01);
  CHECK(sum(65504, 16) == 0x7c00);
}

namespace {

struct Tile {
  std::vector<float> values;
  std::vector<std::int32_t> exponents;
  Tile(std::mt19937& numbers, const Format& f, std::size_t size) {
    while (values.size() < size) {
      const Factor x = factor(f, numbers() & ((2u << f.sign_bit()) - 1));
      if (!plain_factor.has(static_cast<float>(x.value))) continue;
      values.push_back(static_cast<float>(x.value));
      exponents.push_back(x.value == 0 ? exponent_of_zero : x.exponent);
    }
  }
  Factor at(std::size_t i) const { return {values[i], exponents[i]}; }
};

struct Case {
  Unit unit;
  int architecture;
  Factors factors;
  const Format& format;
  const TensorCore& rule() const { return core(architecture, factors, unit); }
};
const Case cases[] = {
    {Unit::mma, 70, Factors::half, format::f16},     {Unit::mma, 80, Factors::half, format::bf16},
    {Unit::mma, 90, Factors::half, format::f16},     {Unit::wgmma, 90, Factors::half, format::bf16},
    {Unit::mma, 80, Factors::tf32, format::tf32},    {Unit::mma, 89, Factors::f8, format::e4m3},
    {Unit::wgmma, 90, Factors::f8, format::e5m2},    {Unit::tcgen05, 100, Factors::f8, format::e4m3},
    {Unit::tcgen05, 100, Factors::f8, format::e5m2}, {Unit::tcgen05, 100, Factors::half, format::f16}};

// Each fast way that this machine has.
template <class F>
void with_ways(F f) {
  f(multiply_plain), f(multiply_anywhere);
#if defined(__x86_64__)
  if (has_avx2()) f(multiply_avx2);
  if (has_avx512()) f(multiply_avx512);
#endif
}

}  // namespace

TEST_CASE("the fast ways give the bits of the exact one") {
  std::mt19937 numbers(20);
  int compared = 0;
  for (const Case& c : cases) {
    const TensorCore& rule = c.rule();
    for (int round = 0; round < 40; ++round) {
      constexpr int m = 17, n = 48, k = 64;  // six rows together, four, one
      const Tile a(numbers, c.format, m * k), b(numbers, c.format, k * n);
      std::vector<float> sums(m * n), d(m * n);
      std::vector<std::uint32_t> want(m * n);
      for (float& sum : sums) {
        if (round % 3 == 0) continue;
        do
          sum = round % 3 == 1 ? static_cast<float>(numbers() % 4096) - 2048
                               : std::bit_cast<float>(static_cast<std::uint32_t>(numbers()));
        while (!plain_sum.has(sum));
      }
      for (std::size_t i = 0; i < m * n; ++i) {
        Factor x[k], y[k];
        for (std::size_t j = 0; j < k; ++j) x[j] = a.at(i / n * k + j), y[j] = b.at(j * n + i % n);
        want[i] = sum_bits(Sum::f32, dot(rule, x, y, sums[i], Sum::f32, Sum::f32));
      }
      with_ways([&](auto way) {
        way(rule, m, n, k, {a.values.data(), a.exponents.data(), k}, {b.values.data(), b.exponents.data(), n},
            sums.data(), d.data(), n);
        for (std::size_t i = 0; i < m * n; ++i) REQUIRE(std::bit_cast<std::uint32_t>(d[i]) == want[i]);
        REQUIRE(std::fegetround() == FE_TONEAREST);
        compared += m * n;
      });
    }
  }
  CHECK(compared > 500000);
}

// 32 products of 1.75 * 1.75, say, are 98 * 2^25 where the largest exponent is 25: beyond 32 bits.
TEST_CASE("sums of products that are all as large as their exponent allows") {
  constexpr int m = 4, n = 16, k = 64;
  for (const Case& c : cases) {
    const float full = 2 - std::ldexp(1.0F, -c.format.mantissa);
    for (const float significand : {1.0F, 1.5F, 1.75F, full}) {
      for (const float sign : {1.0F, -1.0F}) {
        const Factor x = factor(sign * significand), y = factor(significand);
        const std::vector<float> a(m * k, static_cast<float>(x.value)), b(k * n, static_cast<float>(y.value));
        const std::vector<std::int32_t> exponents(k * n, 0);
        const std::vector<float> sums(m * n, 3.0F);
        const double want = dot(c.rule(), std::vector<Factor>(k, x), std::vector<Factor>(k, y), 3, Sum::f32, Sum::f32);
        CAPTURE(significand);
        with_ways([&](auto way) {
          std::vector<float> d(m * n);
          way(c.rule(), m, n, k, {a.data(), exponents.data(), k}, {b.data(), exponents.data(), n}, sums.data(),
              d.data(), n);
          for (const float result : d) REQUIRE(result == want);
        });
      }
    }
  }
}

TEST_CASE("multiply() is dot() for any bits, whichever way it takes") {
  struct Case {
    ptx::isa::Type type;
    const Format& format;
    Factors factors;
  };
  using ptx::isa::Type;
  constexpr int m = 20, n = 24, k = 40;
  std::mt19937 numbers(3);
  int finite = 0;
  for (const Case& c : {Case{Type::f16, format::f16, Factors::half}, Case{Type::bf16, format::bf16, Factors::half},
                        Case{Type::tf32, format::tf32, Factors::tf32}, Case{Type::e5m2, format::e5m2, Factors::f8}}) {
    const int shift = c.type == Type::tf32 ? 13 : 0;
    for (const bool any : {false, true}) {
      std::vector<std::uint32_t> bits(m * k + k * n), sums(m * n), d(m * n);
      std::vector<float> values(bits.size());
      std::vector<std::int32_t> exponents(bits.size());
      for (std::uint32_t& x : bits) {
        do x = numbers() & ((2u << c.format.sign_bit()) - 1);
        while (!any && !plain_factor.has(static_cast<float>(ptx::arch::widen(c.format, x))));
        x <<= shift;
      }
      const bool plain =
          factorise(c.type, false, bits.data(), static_cast<int>(bits.size()), values.data(), exponents.data());
      CHECK(plain == !any);
      for (const Sums kinds : {Sums{Sum::f32, Sum::f32}, Sums{Sum::f16, Sum::f16}, Sums{Sum::f16, Sum::f32}}) {
        for (std::uint32_t& sum : sums) sum = static_cast<std::uint32_t>(numbers()) >> (kinds.c == Sum::f16 ? 16 : 0);
        const TensorCore& rule = core(90, c.factors, Unit::wgmma);
        multiply(rule, kinds, m, n, k, {values.data(), exponents.data(), k},
                 {values.data() + m * k, exponents.data() + m * k, n}, plain, sums.data(), d.data());
        for (std::size_t i = 0; i < m * n; ++i) {
          Factor x[k], y[k];
          for (std::size_t j = 0; j < k; ++j) {
            x[j] = factor(c.format, bits[i / n * k + j] >> shift),
            y[j] = factor(c.format, bits[m * k + j * n + i % n] >> shift);
          }
          const double want = dot(rule, x, y, sum_value(kinds.c, sums[i]), kinds.c, kinds.d);
          REQUIRE(d[i] == sum_bits(kinds.d, want));
          finite += std::isfinite(want);
        }
      }
    }
  }
  CHECK(finite > 2000);
}
