// add, sub, mul and fma of four f8, f6 and f4 numbers (9.7.6 of PTX ISA 9.4).
#include <doctest/doctest.h>

#include "tests/sim/run.h"

using namespace ptx;

namespace {

// The first output of `instruction` with its operands in %a, %b, %c; %h has the low half of %a.
std::string run(const std::string& instruction, const std::string& a, const std::string& b, const std::string& c) {
  const std::string text = R"(.version 9.4
.target sm_100a
.address_size 64
.visible .entry e(.param .u64 out)
{
.reg .b32 %a, %b, %c, %d;
.reg .b16 %h;
.reg .b64 %p;
ld.param.u64 %p, [out];
mov.b32 %a, )" + a + ";\nmov.b32 %b, " +
                           b + ";\nmov.b32 %c, " + c + ";\ncvt.u16.u32 %h, %a;\n" + instruction + R"(;
st.global.u32 [%p], %d;
ret;
})";
  sim_test::Fixture f;
  f.arguments = {{"out", "4", {}}};
  const auto result = sim_test::run(text, f);
  REQUIRE_MESSAGE(result.diagnostics.empty(), to_string(result.diagnostics));
  return result.outputs[0];
}

}  // namespace

// Numbers from the low byte: the memory's order.
TEST_CASE("four lanes, each rounded once") {
  // 1 + 1, 448 + 448, 1 + 2^-4 (a tie, to even), NaN + 1
  CHECK(run("add.e4m3x4.e4m3x4 %d, %a, %c", "0x7f387e38", "0", "0x38187e38") == "407f387f");
  CHECK(run("add.satfinite.e4m3x4.e4m3x4 %d, %a, %c", "0x7f387e38", "0", "0x38187e38") == "407e387f");
  // 1 - 2 and the sign of an overflow
  CHECK(run("sub.rn.satfinite.e5m2x4.e5m2x4 %d, %a, %c", "0xfb3c3c3c", "0", "0x7b003c40") == "bc003cfb");
  CHECK(run("sub.e5m2x4.e5m2x4 %d, %a, %c", "0xfb3c3c3c", "0", "0x7b003c40") == "bc003cfc");
  // nibbles 1, 1.5, 6, -0.5 by bytes 2, 2, 2, 2 of .e2m1p4, and by powers
  CHECK(run("mul.e4m3x4.e2m1x4.e2m1p4x4 %d, %h, %b", "0x9732", "0x04040404", "0") == "404454b8");
  CHECK(run("mul.e4m3x4.e2m1x4.ue8m0x4 %d, %h, %b", "0x9732", "0xff7f8180", "0") == "404c4c7f");
  // 2 * 3 + 1 in each lane of .e3m2 and .e2m3
  CHECK(run("fma.e5m2x4.e3m2x4.e2m3x4 %d, %a, %b, %c", "0x10101010", "0x14141414", "0x3c3c3c3c") == "47474747");
}
