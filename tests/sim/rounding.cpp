// The exact operations against the machine's own in each rounding mode, and narrow formats against a search among their
// values.
#include "ptx/sim/exec/rounding.h"

#include <doctest/doctest.h>

#include <cfenv>
#include <random>
#include <vector>

#include "ptx/sim/exec/numeric.h"

using namespace ptx::sim;

namespace {

constexpr Rounding directions[] = {Rounding::rn, Rounding::rz, Rounding::rm, Rounding::rp};
constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

struct Numbers {  // all magnitudes, near ones, zeros, subnormals, infinities, NaN
  std::mt19937_64 random{7};
  u32 bits() {
    static constexpr u32 special[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff,
                                      0x00800000, 0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff,
                                      0x7f800000, 0xff800000, 0x7fc00000, 0x33800000};
    const u64 r = random();
    if (r % 8 == 0) return special[(r >> 8) % std::size(special)];
    if (r % 8 < 4) return 0x3f000000 + (static_cast<u32>(r >> 8) & 0x80ffffff);
    return static_cast<u32>(r >> 8);
  }
  f32 next() { return std::bit_cast<f32>(bits()); }
};

bool same(f32 a, f32 b) { return is_nan(a) ? is_nan(b) : bits_of(a) == bits_of(b); }
bool same(f64 a, f64 b) { return is_nan(a) ? is_nan(b) : bits_of(a) == bits_of(b); }

template <class T, class F>
[[gnu::noinline]] T under(int mode, F f, T a, T b, T c) {
  std::fesetround(mode);
  const volatile T x = a, y = b, z = c;
  const volatile T d = f(static_cast<T>(x), static_cast<T>(y), static_cast<T>(z));
  std::fesetround(FE_TONEAREST);
  return d;
}

template <class T, class Mine, class Machine>
void compare_with_machine(Mine mine, Machine machine) {
  Numbers numbers;
  for (int i = 0; i < 200000; ++i) {
    const T a = numbers.next(), b = i % 5 ? numbers.next() : static_cast<f32>(-a), c = numbers.next();
    for (int d = 0; d < 4; ++d) {
      const T have = mine(a, b, c, directions[d]), want = under<T>(modes[d], machine, a, b, c);
      if (same(have, want)) continue;
      CAPTURE(a);
      CAPTURE(b);
      CAPTURE(c);
      CAPTURE(d);
      REQUIRE(bits_of(have) == bits_of(want));
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("operations are exact in every rounding", T, f32, f64) {
  compare_with_machine<T>([](T a, T b, T, Rounding r) { return add(a, b, r); }, [](T a, T b, T) { return a + b; });
  compare_with_machine<T>([](T a, T b, T, Rounding r) { return mul(a, b, r, Mods{}); },
                          [](T a, T b, T) { return a * b; });
  compare_with_machine<T>([](T a, T b, T c, Rounding r) { return fma(a, b, c, r, Mods{}); },
                          [](T a, T b, T c) { return std::fma(a, b, c); });
  compare_with_machine<T>([](T a, T b, T, Rounding r) { return div(a, b, r, Mods{}); },
                          [](T a, T b, T) { return a / b; });
  compare_with_machine<T>([](T a, T, T, Rounding r) { return sqrt(a, r); }, [](T a, T, T) { return std::sqrt(a); });
}

TEST_CASE_TEMPLATE("a narrow format rounds to a neighbour in the direction asked", T, f16, bf16) {
  std::vector<f64> values;  // finite magnitudes, ascending, as their bits are
  for (u32 bits = 0; bits <= format_of<T>.largest; ++bits) values.push_back(value(from_bits<T>(bits)));
  Numbers numbers;
  for (int i = 0; i < 300000; ++i) {
    const f32 x = numbers.next();
    if (is_nan(x) || std::fabs(x) >= values.back()) continue;
    const auto above = std::upper_bound(values.begin(), values.end(), std::fabs(static_cast<f64>(x)));
    const u32 low = static_cast<u32>(above - values.begin()) - 1;
    const f64 down = std::fabs(static_cast<f64>(x)) - values[low],
              up = values[low + 1] - std::fabs(static_cast<f64>(x));
    const u32 sign = is_negative(x) ? sign_bit<T> : 0;
    const bool away = down != 0 && !is_negative(x);
    const u32 nearest = down < up || (down == up && low % 2 == 0) ? low : low + 1;
    REQUIRE(narrow(format_of<T>, x, Rounding::rn, false) == (sign | nearest));
    REQUIRE(narrow(format_of<T>, x, Rounding::rna, false) == (sign | (down < up ? low : low + 1)));
    REQUIRE(narrow(format_of<T>, x, Rounding::rz, false) == (sign | low));
    REQUIRE(narrow(format_of<T>, x, Rounding::rp, false) == (sign | (low + away)));
    REQUIRE(narrow(format_of<T>, x, Rounding::rm, false) == (sign | (low + (down != 0 && is_negative(x)))));
  }
}

TEST_CASE("every value of a narrow format comes back") {
  for (const Format& f : {format::f16, format::bf16, format::e4m3, format::e5m2, format::e2m3, format::e3m2,
                          format::e2m1, format::ue5m3}) {
    for (u32 bits = 0; bits < 1u << (f.sign_bit() + f.has_sign); ++bits) {
      const f64 x = widen(f, bits);
      if (!std::isnan(x)) REQUIRE(narrow(f, x, Rounding::rn, false) == bits);
    }
  }
}

TEST_CASE("beyond the largest") {
  CHECK(narrow(format::f16, 65519, Rounding::rn, false) == 0x7bff);
  CHECK(narrow(format::f16, 65520, Rounding::rn, false) == 0x7c00);
  CHECK(narrow(format::f16, -65520, Rounding::rn, true) == 0xfbff);
  CHECK(narrow(format::f16, 1e300, Rounding::rz, false) == 0x7bff);
  CHECK(narrow(format::f16, 1e300, Rounding::rm, false) == 0x7bff);
  CHECK(narrow(format::f16, -1e300, Rounding::rm, false) == 0xfc00);
  CHECK(narrow(format::e4m3, 1000, Rounding::rn, true) == 0x7e);
  CHECK(narrow(format::e5m2, -1e9, Rounding::rn, true) == 0xfb);
  CHECK(narrow(format::e2m1, 100, Rounding::rn, true) == 7);
  CHECK(narrow(format::e2m1, std::numeric_limits<f64>::quiet_NaN(), Rounding::rn, true) == 7);
  CHECK(narrow(format::f16, 0x1p-1074, Rounding::rp, false) == 1);
  CHECK(narrow(format::f16, -0x1p-1074, Rounding::rn, false) == 0x8000);
}

TEST_CASE("stochastic rounding carries out of the discarded bits") {
  // bf16 keeps 7 bits of 1 + 2^-8: the discarded 16 bits are 0x8000.
  CHECK(narrow(format::bf16, 1 + 0x1p-8, Rounding::rs, false, 0x7fff, 16) == 0x3f80);
  CHECK(narrow(format::bf16, 1 + 0x1p-8, Rounding::rs, false, 0x8000, 16) == 0x3f81);
  CHECK(narrow(format::bf16, 1.0, Rounding::rs, false, 0xffff, 16) == 0x3f80);
}
