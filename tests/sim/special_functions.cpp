// The special function unit: the results for every 1021st input, by the sum of their hashes. `python
// tests/oracle/special_functions.py` has compared all inputs with an H200; 0 differed, and the sums are of those
// results.
#include "ptx/sim/numerics/special_functions.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace ptx::sim;
using special::u32;
using special::u64;

namespace {

constexpr u64 step = 1021;

template <class F>
u64 sum_of(F unit) {
  u64 sum = 0xcbf29ce484222325;
  for (u64 x = 0; x < u64{1} << 32; x += step) sum = (sum ^ unit(static_cast<u32>(x))) * 0x100000001b3;
  return sum;
}

// Of every fraction of upper words with this exponent: results times their place.
template <class F>
u64 sum_of_upper(F unit, u32 exponent) {
  u64 sum = 0;
  for (u32 x = 0; x < 1u << 20; ++x) sum += u64{unit(exponent << 20 | x)} * (x + 1);
  return sum;
}

// The largest distance from `exact` over the normal numbers, which `error` measures.
template <class Unit, class Exact, class Error>
double worst_of(Unit unit, Exact exact, Error error, float below) {
  double worst = 0;
  for (u64 bits = 0; bits < u64{1} << 32; bits += step) {
    const float x = std::bit_cast<float>(static_cast<u32>(bits));
    const double want = exact(double{x});
    if (!std::isnormal(x) || !(std::fabs(x) < below) || !std::isnormal(static_cast<float>(want))) continue;
    worst = std::fmax(worst, error(std::bit_cast<float>(unit(static_cast<u32>(bits))), want));
  }
  return worst;
}

double relative(double got, double want) { return std::fabs(got / want - 1); }
double absolute(double got, double want) { return std::fabs(got - want); }
double either(double got, double want) { return std::fabs(got - want) / std::fmax(1, std::fabs(want)); }

}  // namespace

TEST_CASE("the special function unit gives the hardware's bits") {
  CHECK(sum_of(special::rcp) == 0x84f55d11a6ddf1d2);
  CHECK(sum_of(special::sqrt) == 0xea401be9fbb38b1b);
  CHECK(sum_of(special::rsqrt) == 0x428e7de002d3c0e8);
  CHECK(sum_of(special::lg2) == 0x39053230236e337b);
  CHECK(sum_of(special::ex2) == 0x609ca996704c516d);
  CHECK(sum_of([](u32 x) { return special::sine(x, false); }) == 0xd5e548239c262f97);
  CHECK(sum_of([](u32 x) { return special::sine(x, true); }) == 0x3d1ae0a66e390711);
}

TEST_CASE("upper words of f64 have the bits that an H200 gave for all fractions") {
  CHECK(sum_of_upper(special::rcp_upper, 0x3ff) == 0xf1d3bc2ce4f21212);
  CHECK(sum_of_upper(special::rsqrt_upper, 0x3ff) == 0xf4812c06f3bec08c);
  CHECK(sum_of_upper(special::rsqrt_upper, 0x400) == 0xf0d8277c4707ae1a);
  const u32 rcp[][2] = {{0, 0x7ff00000},          {0x000fffff, 0x7ff00000}, {0x7fd00000, 0x00100000}, {0x7fd00001, 0},
                        {0xffe80000, 0x80000000}, {0x7ff00000, 0},          {0x7ff00001, 0x7fffffff}};
  for (const auto& [x, want] : rcp) CHECK(special::rcp_upper(x) == want);
  const u32 rsqrt[][2] = {{0x80080000, 0xfff00000}, {0x00100000, 0x5fe00000}, {0x7fe12345, 0x1ff5dd08},
                          {0xbff00000, 0x7fffffff}, {0x7ff00000, 0},          {0xfff00000, 0x7fffffff}};
  for (const auto& [x, want] : rsqrt) CHECK(special::rsqrt_upper(x) == want);
}

TEST_CASE("the special function unit keeps the manual's bounds") {
  constexpr float all = 3e38f, turn = 1;
  constexpr double pi = 3.14159265358979323846;
  CHECK(worst_of(special::rcp, [](double x) { return 1 / x; }, relative, all) < 0x1p-23);
  CHECK(worst_of(special::sqrt, [](double x) { return std::sqrt(x); }, relative, all) < 0x1p-23);
  CHECK(worst_of(special::rsqrt, [](double x) { return 1 / std::sqrt(x); }, relative, all) < std::exp2(-22.9));
  CHECK(worst_of(special::ex2, [](double x) { return std::exp2(x); }, relative, 126) < 0x1p-22);
  CHECK(worst_of(special::lg2, [](double x) { return std::log2(x); }, either, all) < 0x1p-22);
  CHECK(worst_of(special::tanh, [](double x) { return std::tanh(x); }, relative, all) < 0x1p-11);
  const auto sine = [](u32 x) { return special::sine(x, false); };
  const auto cosine = [](u32 x) { return special::sine(x, true); };
  CHECK(worst_of(sine, [](double x) { return std::sin(2 * pi * x); }, absolute, turn) < std::exp2(-20.5));
  CHECK(worst_of(cosine, [](double x) { return std::cos(2 * pi * x); }, absolute, turn) < std::exp2(-20.5));
}

TEST_CASE("tanh: a value of each power of two, as an H200 gave them") {
  const u32 values[][2] = {
      {0x3bd55540, 0x3bd554ce}, {0x3c555540, 0x3c555215},
      {0x3cd55540, 0x3cd548f9}, {0x3d555560, 0x3d552423},
      {0x3dd55560, 0x3dd490eb}, {0x3e555400, 0x3e524b62},
      {0x3ed55400, 0x3ec9c8ae}, {0x3f555400, 0x3f2ea839},
      {0x3fd55400, 0x3f6e5ca0}, {0x40555400, 0x3f7f5963},
      {0x4092c978, 0x3f7ff25e}, {0x3b7fffff, 0x3b7fffff},
      {0x41000000, 0x3f800000}, {1, 1},
  };
  for (const auto [x, y] : values) {
    CHECK(special::tanh(x) == y);
    CHECK(special::tanh(x | special::sign_mask) == (y | special::sign_mask));
  }
  CHECK(special::tanh(0x7f800001) == special::nan);
}
