// Bodies against the manual's own loops and tables.
#include <doctest/doctest.h>

#include <random>

#include "ptx/sim/exec/compare.h"
#include "ptx/sim/exec/convert.h"
#include "ptx/sim/exec/extended.h"
#include "ptx/sim/exec/floating.h"
#include "ptx/sim/exec/half.h"
#include "ptx/sim/exec/half_compare.h"
#include "ptx/sim/exec/integer.h"
#include "ptx/sim/exec/logic.h"
#include "ptx/sim/exec/mixed.h"

using namespace ptx::sim;

namespace {

template <class... M>
Mods with(M... flags) {
  Mods m;
  (flags(m), ...);
  return m;
}
#define WITH(word) [](Mods& m) { m.word = true; }

const f32 nan32 = std::numeric_limits<f32>::quiet_NaN(), inf32 = std::numeric_limits<f32>::infinity();

template <class T>
T bfe_of_the_manual(T a, u32 b, u32 c) {
  using U = unsigned_t<T>;
  const int msb = bits_in<T> - 1, pos = b & 0xff, len = c & 0xff;
  const auto bit = [&](int i) { return static_cast<U>(a) >> i & 1; };
  const U sbit = !Signed<T> || len == 0 ? 0 : bit(std::min(pos + len - 1, msb));
  U d = 0;
  for (int i = 0; i <= msb; ++i) d |= (i < len && pos + i <= msb ? bit(pos + i) : sbit) << i;
  return static_cast<T>(d);
}
template <class T>
T bfi_of_the_manual(T a, T b, u32 c, u32 d) {
  const int msb = bits_in<T> - 1, pos = c & 0xff, len = d & 0xff;
  T f = b;
  for (int i = 0; i < len && pos + i <= msb; ++i) f = (f & ~(T{1} << (pos + i))) | (a >> i & 1) << (pos + i);
  return f;
}
u32 bmsk_of_the_manual(u32 a, u32 b, bool clamp) {
  const u32 a1 = a & 0x1f, b1 = b & 0x1f, sum = a1 + b1;
  u32 mask0 = ~0u << a1, mask1 = sum < 32 ? ~0u << sum : 0;
  const bool position = clamp && a >= 32, width = clamp && b >= 32;
  if (position) mask0 = 0;
  if (sum >= 32 || position || width) {
    mask1 = 0;
  } else if (b1 == 0) {
    mask1 = ~0u;
  }
  return mask0 & ~mask1;
}

}  // namespace

TEST_CASE("bit fields as the manual's loops have them") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100000; ++i) {
    const u64 a = random(), b = random();
    const u32 pos = random() % 80, len = random() % 80;
    REQUIRE(sem_bfe(static_cast<u32>(a), pos, len) == bfe_of_the_manual(static_cast<u32>(a), pos, len));
    REQUIRE(sem_bfe(static_cast<s32>(a), pos, len) == bfe_of_the_manual(static_cast<s32>(a), pos, len));
    REQUIRE(sem_bfe(a, pos, len) == bfe_of_the_manual(a, pos, len));
    REQUIRE(sem_bfe(static_cast<s64>(a), pos, len) == bfe_of_the_manual(static_cast<s64>(a), pos, len));
    REQUIRE(sem_bfi(a, b, pos, len) == bfi_of_the_manual(a, b, pos, len));
    REQUIRE(sem_bfi(static_cast<u32>(a), static_cast<u32>(b), pos, len) ==
            bfi_of_the_manual(static_cast<u32>(a), static_cast<u32>(b), pos, len));
    REQUIRE(sem_bmsk(pos, len, with(WITH(clamp))) == bmsk_of_the_manual(pos, len, true));
    REQUIRE(sem_bmsk(pos, len, with(WITH(wrap))) == bmsk_of_the_manual(pos, len, false));
  }
}

TEST_CASE("integer arithmetic wraps, saturates and divides without traps") {
  CHECK(sem_add_int(s32{0x7fffffff}, s32{1}) == std::numeric_limits<s32>::min());
  CHECK(sem_add_sat(s32{0x7fffffff}, s32{1}) == 0x7fffffff);
  CHECK(sem_sub_sat(s32{-2}, s32{0x7fffffff}) == std::numeric_limits<s32>::min());
  CHECK(sem_mul_int(u64{0xffffffffffffffff}, u64{0xffffffffffffffff}, with(WITH(hi))) == 0xfffffffffffffffe);
  CHECK(sem_mul_int(s16{-2}, s16{3}, with(WITH(hi))) == -1);
  CHECK(sem_mul_wide(s32{-2}, s32{3}) == -6);
  CHECK(sem_mad_hi_sat(0x7fffffff, 0x7fffffff, 0x7fffffff) == 0x7fffffff);
  CHECK(sem_div_int(std::numeric_limits<s32>::min(), s32{-1}) == std::numeric_limits<s32>::min());
  CHECK(sem_div_int(u32{5}, u32{0}) == 0xffffffff);
  CHECK(sem_rem(s64{-7}, s64{3}) == -1);
  CHECK(sem_abs_int(s16{-32768}) == -32768);
  CHECK(sem_mul24(s32{-1}, s32{0x00ffffff}, with(WITH(lo))) == 1);
  CHECK(sem_mul24(u32{0xff800000}, u32{2}, with(WITH(hi))) == 0x100);
  CHECK(sem_bfind(s32{-1}, with()) == 0xffffffff);
  CHECK(sem_bfind(u32{0x10}, with(WITH(shiftamt))) == 27);
  CHECK(sem_fns(0xb0, 0, 2) == 5);
  CHECK(sem_fns(0xb0, 7, -2) == 5);
  CHECK(sem_szext(s32{0x1f}, 5, with(WITH(clamp))) == -1);
  CHECK(sem_szext(u32{0x1234}, 40, with(WITH(wrap))) == 0x34);
  CHECK(sem_dp4a.operator()<s32, u32>(0xff000002, 0x02000003, 10) == 10 - 2 + 6);
  CHECK(sem_dp2a.operator()<s32, s32>(0xffff0002, 0xff030000, 0, with(WITH(hi))) == 6 + 1);
  CHECK(sem_clmad(3, 3, 0, with(WITH(lo))) == 5);
  CHECK(sem_shf(0x80000001, 0x2, 33, with(WITH(left), WITH(wrap))) == 5);
  CHECK(sem_shf(7, 9, 40, with(WITH(left), WITH(clamp))) == 7);
  CHECK(sem_shf(7, 9, 40, with(WITH(right), WITH(clamp))) == 9);
  CHECK(sem_shr(s16{-4}, 100) == -1);
  CHECK(sem_shl(u64{1}, 64) == 0);
  CHECK(sem_lop3(0xf0, 0xcc, 0xaa, 0x1a) == (((0xf0 & 0xcc) | 0xaa) ^ 0xf0));
}

TEST_CASE("carries run through a chain") {
  Carry cc;
  CHECK(sem_add_cc(u32{0xffffffff}, u32{1}, cc) == 0);
  CHECK(sem_addc(u32{1}, u32{2}, cc, with()) == 4);
  CHECK(sem_sub_cc(u32{0}, u32{1}, cc) == 0xffffffff);
  CHECK(cc.flag == false);
  CHECK(sem_subc(u32{5}, u32{2}, cc, with(WITH(cc))) == 2);
  CHECK(cc.flag == true);
  CHECK(sem_mad_cc(u32{0xffffffff}, u32{1}, u32{1}, cc, with(WITH(lo))) == 0);
  CHECK(cc.flag == true);
}

TEST_CASE("subnormals are flushed, results are limited, NaN is the hardware's") {
  const f32 tiny = std::bit_cast<f32>(1u);
  CHECK(bits_of(sem_add_f32(tiny, 0.0f, with(WITH(ftz)))) == 0);
  CHECK(bits_of(sem_add_f32(tiny, 0.0f, with())) == 1);
  CHECK(bits_of(sem_mul_f32(-tiny, 1.0f, with(WITH(ftz)))) == 0x80000000);
  CHECK(bits_of(sem_add_f32(nan32, 1.0f, with())) == 0x7fffffff);
  CHECK(bits_of(sem_add_f32(nan32, 1.0f, with(WITH(sat)))) == 0);
  CHECK(sem_fma_f32(2.0f, 3.0f, 4.0f, with(WITH(sat))) == 1.0f);
  CHECK(bits_of(sem_fma_f16(f16{0x3c00}, f16{0xbc00}, f16{0}, with(WITH(relu)))) == 0);
  CHECK(bits_of(sem_min_f32(0.0f, -0.0f, with())) == 0x80000000);
  CHECK(bits_of(sem_max_f32(-0.0f, 0.0f, with())) == 0);
  CHECK(sem_max_f32(nan32, 1.0f, with()) == 1.0f);
  CHECK(bits_of(sem_max_f32(nan32, 1.0f, with(WITH(NaN)))) == 0x7fffffff);
  CHECK(sem_max_f32(-3.0f, 2.0f, with(WITH(xorsign), WITH(abs))) == -3.0f);
  CHECK(bits_of(sem_rcp_approx(-0.0f, with())) == 0xff800000);
  // What an H200 gives: one step of Newton's method, subnormals scaled.
  const u64 rsqrt[][2] = {{0x34038001933839bd, 0x45e47f137bf82df5},
                          {0x0000001fef31c54a, 0x6056a691cffde08e},
                          {1, 0x6180000000000000},
                          {0x8000000000000000, 0xfff0000000000000},
                          {0x8000000000000001, 0xfff8000000000000},
                          {0x7ff0000000000001, 0x7ff8000000000001},
                          {0x7ff0000000000000, 0}};
  for (const auto& [x, want] : rsqrt) CHECK(bits_of(sem_rsqrt_f64(from_bits<f64>(x))) == want);
  CHECK(bits_of(sem_rsqrt_f32(-0.0f, with())) == 0xff800000);
  CHECK(bits_of(sem_rsqrt_f32(-1.0f, with())) == 0x7fffffff);
  CHECK(bits_of(sem_div_approx(inf32, 0x1.8p126f, with())) == 0x7fffffff);
  CHECK(bits_of(sem_div_approx(-1.0f, 0x1.8p126f, with())) == 0x80000000);
  CHECK(bits_of(sem_ex2_f32(-inf32, with())) == 0);
  CHECK(sem_testp(0.0f, with(WITH(normal))));
  CHECK(sem_testp(tiny, with(WITH(subnormal))));
  CHECK(bits_of(sem_rcp_approx_f64(std::numeric_limits<f64>::quiet_NaN())) == 0x7fffffff00000000);
}

TEST_CASE("comparisons with NaN") {
  CHECK_FALSE(compare(nan32, 1.0f, with(WITH(ne))));
  CHECK(compare(nan32, 1.0f, with(WITH(neu))));
  CHECK(compare(nan32, 1.0f, with(WITH(nan))));
  CHECK(compare(1.0f, 2.0f, with(WITH(num))));
  CHECK(compare(f16{0x3c00}, f16{0x4000}, with(WITH(ltu))));
  CHECK(compare(u32{1}, u32{0xffffffff}, with(WITH(lo))));
  const auto both = sem_setp_int(s32{1}, s32{2}, true, with(WITH(lt), WITH(and_)));
  CHECK(both.first);
  CHECK_FALSE(both.second);
  CHECK(sem_set_f16x2.operator()<u32>(Pack<f16, 2>{{{0x3c00}, {0}}}, Pack<f16, 2>{}, false, with(WITH(gt))) ==
        0x0000ffff);
  CHECK(sem_slct_f32(1u, 2u, -0.0f, with()) == 1);
  CHECK(sem_slct_f32(1u, 2u, nan32, with()) == 2);
}

TEST_CASE("conversions") {
  CHECK(sem_cvt_int.operator()<s8, s32>(300, with(WITH(sat))) == 127);
  CHECK(sem_cvt_int.operator()<s8, s32>(300, with()) == 44);
  CHECK(sem_cvt_int_f32.operator()<s32>(-2.5f, with(WITH(rni))) == -2);
  CHECK(sem_cvt_int_f32.operator()<u32>(-2.5f, with(WITH(rzi))) == 0);
  CHECK(sem_cvt_int_f32.operator()<u64>(inf32, with(WITH(rzi))) == 0xffffffffffffffff);
  CHECK(sem_cvt_int_f32.operator()<s32>(nan32, with(WITH(rzi))) == 0);
  CHECK(sem_cvt_int_f32.operator()<u64>(nan32, with(WITH(rzi))) == 0x8000000000000000);
  CHECK(sem_cvt_f32_int(u64{0xffffff8000000000}, with(WITH(rn))) == 0x1p64f);
  CHECK(sem_cvt_f32_int(u64{0xffffff7fffffffff}, with(WITH(rn))) == 0xffffff0000000000);
  CHECK(sem_cvt_float_int.operator()<f64, s64>(-0x7fffffffffffffff, with(WITH(rz))) == -0x1.fffffffffffffp62);
  CHECK(bits_of(sem_cvt_f16_f32(1e-8f, with(WITH(rp)))) == 1);
  CHECK(bits_of(sem_cvt_f16_f32(nan32, with(WITH(rn)))) == 0x7fff);
  CHECK(bits_of(sem_cvt_f16_f32(1e-6f, with(WITH(rn), WITH(ftz)))) == 0x11);  // .ftz is not for f16 results
  CHECK(bits_of(sem_cvt_half_f32.operator()<f16>(1e6f, with(WITH(rn), WITH(satfinite)))) == 0x7bff);
  CHECK(sem_cvt_tf32(std::bit_cast<f32>(0x3f801000u), with(WITH(rna))) == 0x3f802000);
  CHECK(sem_cvt_tf32(std::bit_cast<f32>(0x3f801000u), with(WITH(rn))) == 0x3f800000);
  const auto pair = sem_cvt_x2_f32.operator()<Pack<bf16, 2>>(2.0f, 1.0f, with(WITH(rn)));
  CHECK(pair.at[1].bits == 0x4000);
  CHECK(pair.at[0].bits == 0x3f80);
  CHECK(sem_cvt_f6f4x2_f32.operator()<e2m1x2>(6.0f, -0.5f, with(WITH(rn), WITH(satfinite))).bits == 0x79);
  CHECK(to_ue8m0(3.0, with(WITH(rp))) == 129);
  CHECK(to_ue8m0(3.0, with(WITH(rz))) == 128);
  CHECK(sem_cvt_pack.operator()<s16>(-70000, 5) == 0x80000005);
  CHECK(sem_cvt_pack_c(200, -200, 0x12345678, with(WITH(s8))) == 0x56787f80);
}

TEST_CASE("cvt: s2f6 is a signed number of 64ths, ue5m3 has no sign") {
  const auto to = [](f32 a, f32 b, u16 scale, Mods m) {
    const auto d = sem_cvt_s2f6x2_f32(a, b, scale, m);
    return d.at[1].bits << 8 | d.at[0].bits;
  };
  CHECK(to(1, -1, 0, {}) == 0x40c0);
  CHECK(to(1.984375F, -2, 0, {}) == 0x7f80);
  CHECK(to(100, -100, 0, {}) == 0x7f80);
  CHECK(to(nan32, 0, 0, {}) == 0x7f00);
  CHECK(to(0x1.8p-6F, 0x1p-7F, 0, {}) == 0x0200);  // ties to even
  CHECK(to(0x1.8p-6F, -0x1.8p-6F, 0, with(WITH(rz))) == 0x01ff);
  CHECK(to(1, -1, 0, with(WITH(relu))) == 0x4000);
  CHECK(to(1, 1, 0x807f, with(WITH(scaled_n2))) == 0x2040);  // the upper one is divided by 2
  const Pack<s2f6, 2> a{{{0xc0}, {0x20}}};
  CHECK(sem_cvt_bf16x2_s2f6x2(a, 0, {}).at[0].bits == 0xbf80);
  CHECK(sem_cvt_bf16x2_s2f6x2(a, 0x807f, with(WITH(scaled_n2))).at[1].bits == 0x3f80);
  CHECK(sem_cvt_f16x2_ue5m3x2({{{0x78}, {0xff}}}).at[0].bits == 0x3c00);
  CHECK(sem_cvt_f16x2_ue5m3x2({{{0x78}, {0xff}}}).at[1].bits == 0x7fff);
}
