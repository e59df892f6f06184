// Values that nothing wrote: they may be copied, masked off and dropped; what decides something is reported.
#include <doctest/doctest.h>

#include "tests/sim/run.h"

using namespace ptx;

namespace {

// The kernel's `body` with %u undefined, %w a word, %d the address of 64 bytes of output.
sim_test::Result run(const std::string& body, sim::Options options = {}) {
  const std::string text =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".func (.reg .b32 r) same(.reg .b32 a)\n{\nmov.b32 r, a;\nret;\n}\n"
      ".visible .entry k(.param .u64 p)\n{\n"
      ".reg .pred %p<4>, %q;\n.reg .b32 %r<16>, %u, %w;\n.reg .b64 %d, %l<4>, %ul;\n.reg .f32 %f<4>, %uf;\n"
      ".reg .b16 %h<4>, %uh;\n.shared .align 16 .b8 s[64];\n.local .align 16 .b8 l[64];\n"
      "ld.param.u64 %d, [p];\nmov.b32 %w, 9;\n" +
      body + "\nret;\n}\n";
  sim_test::Fixture f;
  f.entry = "k";
  f.arguments = {{"inout", std::string(128, '0'), {}}};
  return sim_test::run(text, f, options);
}
// The first word of the output, if nothing is reported.
std::string word(const std::string& body) {
  const auto result = run(body + "\nst.global.b32 [%d], %r0;");
  return result.diagnostics.empty() ? result.outputs[0].substr(0, 8) : to_string(result.diagnostics);
}
Code code(const std::string& body) {
  const auto result = run(body);
  return result.diagnostics.empty() ? Code{} : result.diagnostics[0].code;
}

}  // namespace

TEST_CASE("what is masked off, dropped or not chosen is not reported") {
  CHECK(word("and.b32 %r0, %u, 0;") == "00000000");
  CHECK(word("or.b32 %r0, %u, -1;") == "ffffffff");
  CHECK(word("xor.b32 %r0, %u, %u;") == "00000000");
  CHECK(word("sub.s32 %r0, %u, %u;") == "00000000");
  CHECK(word("mul.lo.u32 %r0, %u, 0;") == "00000000");
  CHECK(word("setp.eq.u32 %p1, %w, 9;\nselp.b32 %r0, 5, %u, %p1;") == "05000000");
  CHECK(word("bfi.b32 %r1, %u, 7, 8, 8;\nand.b32 %r0, %r1, 0xff;") == "07000000");
  CHECK(word("prmt.b32 %r0, %u, %w, 0x0545;\nand.b32 %r0, %r0, 0xff00;") == "00090000");
  CHECK(word("add.u32 %r1, %u, 1;\nadd.u32 %r2, %r1, %u;\nmov.b32 %r0, 4;") == "04000000");
  CHECK(word("shl.b32 %r1, %u, 16;\nadd.u32 %r1, %r1, 3;\nand.b32 %r0, %r1, 0xffff;") == "03000000");
  CHECK(word("mov.b32 %r1, {%h0, %uh};\nmov.b32 {%h1, %h2}, %r1;\nmov.b32 %r0, 1;") == "01000000");
  CHECK(word("cvt.u64.u32 %l0, %u;\nshr.u64 %l0, %l0, 32;\ncvt.u32.u64 %r0, %l0;") == "00000000");
  CHECK(word("call (%r1), same, (%u);\nand.b32 %r0, %r1, 0;") == "00000000");
  CHECK(word("setp.lt.u32 %p1, %u, 0;\nselp.b32 %r0, 1, 2, %p1;") == "02000000");
  CHECK(word("shfl.sync.idx.b32 %r1|%p1, %u, 0, 31, 1;\nand.b32 %r0, %r1, 0;") == "00000000");
  CHECK(word("mov.b32 %r1, %u;\nmov.b32 %r1, 6;\nmov.b32 %r0, %r1;") == "06000000");
}

TEST_CASE("what decides is reported") {
  CHECK(code("st.global.b32 [%d], %u;") == Code::uninitialised_register);
  CHECK(code("st.shared.b32 [s], %u;") == Code::uninitialised_register);
  CHECK(code("add.u32 %r1, %u, 1;\nst.global.b32 [%d], %r1;") == Code::uninitialised_register);
  CHECK(code("add.f32 %f1, %uf, 0f3f800000;\nst.global.f32 [%d], %f1;") == Code::uninitialised_register);
  CHECK(code("and.b32 %r1, %u, 4;\nst.global.b32 [%d], %r1;") == Code::uninitialised_register);
  CHECK(code("ld.global.b32 %r1, [%ul];") == Code::uninitialised_register);
  CHECK(code("st.global.b32 [%ul], %w;") == Code::uninitialised_register);
  CHECK(code("@%q bra A;\nA:") == Code::uninitialised_register);
  for (const char* compare : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    CHECK(code(std::string("setp.") + compare + ".s32 %p1, %u, 12345;\n@%p1 bra A;\nA:") ==
          Code::uninitialised_register);
  }
  CHECK(code("setp.eq.f32 %p1, %uf, 0f42280000;\n@%p1 bra A;\nA:") == Code::uninitialised_register);
  CHECK(code("bar.sync %u;") == Code::uninitialised_register);
  CHECK(code("vote.sync.any.pred %p1, %q, 1;") == Code::uninitialised_register);
  CHECK(code("shfl.sync.idx.b32 %r1|%p1, %w, 0, 31, %u;") == Code::uninitialised_register);
  CHECK(code("call (%r1), same, (%u);\nst.global.b32 [%d], %r1;") == Code::uninitialised_register);
  CHECK(code("call (%r1), same, (%w);\nst.global.b32 [%d], %r1;") == Code{});
  CHECK(code("st.global.b8 [%d], %u;") == Code::uninitialised_register);
  CHECK(code("bfi.b32 %r1, %w, %u, 0, 8;\nst.global.u8 [%d], %r1;") == Code{});  // only the byte is stored
  CHECK(code("atom.global.add.u32 %r1, [%d], %u;") == Code::uninitialised_register);
  const auto through = run("mul.lo.u32 %r1, %u, 3;\nmov.b32 %r2, %r1;\nst.global.b32 [%d], %r2;");
  REQUIRE(!through.diagnostics.empty());
  CHECK(through.diagnostics[0].message.find("made of `%u`, which it never wrote") != std::string::npos);
  CHECK(run("st.global.b32 [%d], %u;", {.uninitialised = false}).diagnostics.empty());
}

TEST_CASE("words of memory wider than what was written") {
  CHECK(word("st.shared.u8 [s], %w;\nld.shared.u32 %r1, [s];\nand.b32 %r0, %r1, 0xff;") == "09000000");
  CHECK(word("st.local.v2.u32 [l], {%w, %w};\nst.local.u32 [l+8], %w;\nld.local.v4.u32 {%r1, %r2, %r0, _}, [l];") ==
        "09000000");
  CHECK(word("ld.local.v4.u32 {%r1, %r2, %r3, %r4}, [l];\nst.local.v4.u32 [l+16], {%r1, %r2, %r3, %r4};\n"
             "mov.b32 %r0, 2;") == "02000000");
  CHECK(word("st.local.u32 [l], %u;\nst.local.u8 [l+1], %w;\nld.local.u8 %r0, [l+1];") == "09000000");
  const std::string copied = "st.local.u32 [l], %u;\nld.local.u32 %r1, [l];\nst.global.b32 [%d], %r1;";
  CHECK(code(copied) == Code::uninitialised_memory);
  CHECK(code("st.shared.u8 [s], %w;\nld.shared.u32 %r1, [s];\nst.global.b32 [%d], %r1;") == Code::uninitialised_memory);
  CHECK(code("ld.shared.s8 %r1, [s];\nshr.u32 %r1, %r1, 31;\nst.global.b32 [%d], %r1;") == Code::uninitialised_memory);
  CHECK(code("ld.shared.u8 %r1, [s];\nshr.u32 %r1, %r1, 31;\nst.global.b32 [%d], %r1;") == Code{});
  const auto where = run("ld.shared.u32 %r1, [s+4];\nst.shared.u32 [s], %r1;");
  REQUIRE(!where.diagnostics.empty());
  CHECK(where.diagnostics[0].message.find("`ld.shared.u32`") != std::string::npos);
  CHECK(where.diagnostics[0].message.find("reads 4 bytes at 0x4 of `s`+4, of which byte 0 was never written") !=
        std::string::npos);
  REQUIRE(where.diagnostics[0].notes.size() == 1);
  CHECK(where.diagnostics[0].notes[0].find("`st.shared.u32`") != std::string::npos);
  const auto generic = run("cvta.shared.u64 %d, s;\nld.u32 %r1, [%d+4];\nst.shared.u32 [s], %r1;");
  REQUIRE(!generic.diagnostics.empty());
  CHECK(generic.diagnostics[0].message.find("reads 4 bytes at 0x4 of `s`+4, of which") != std::string::npos);
}
