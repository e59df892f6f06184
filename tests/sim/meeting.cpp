// Lanes that meet at the same .sync instruction at several places of the text.
#include <doctest/doctest.h>

#include "tests/sim/run.h"

using namespace ptx;

namespace {

// Each of 32 threads stores %r9. Odd lanes take the branch to A.
sim_test::Result run(const std::string& even, const std::string& odd) {
  const std::string text =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".func (.reg .b32 r) turn(.reg .b32 a)\n{\n.reg .pred %p;\n"
      "shfl.sync.bfly.b32 r|%p, a, 1, 31, -1;\nret;\n}\n"
      ".visible .entry k(.param .u64 p)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<10>;\n.reg .b64 %d, %o;\n"
      "ld.param.u64 %d, [p];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %o, %r1, 4;\nadd.u64 %d, %d, %o;\n"
      "add.u32 %r2, %r1, 100;\nand.b32 %r3, %r1, 1;\nsetp.eq.u32 %p1, %r3, 1;\nmov.b32 %r9, 7;\n@%p1 bra A;\n" +
      even + "\nbra B;\nA:\n" + odd + "\nB:\nst.global.b32 [%d], %r9;\nret;\n}\n";
  sim_test::Fixture f;
  f.entry = "k", f.block = {32, 1, 1};
  f.arguments = {{"out", "128", {}}};
  return sim_test::run(text, f);
}
// The words of threads 0 to 3; what is reported, if something is.
std::string words(const std::string& even, const std::string& odd) {
  const auto result = run(even, odd);
  return result.diagnostics.empty() ? result.outputs[0].substr(0, 32) : to_string(result.diagnostics);
}

}  // namespace

TEST_CASE("the same instruction in both branches") {
  CHECK(words("shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;", "shfl.sync.bfly.b32 %r9, %r2, 1, 31, -1;") ==
        "65000000"
        "00000000"
        "67000000"
        "02000000");
  CHECK(words("vote.sync.ballot.b32 %r9, %p1, -1;", "vote.sync.ballot.b32 %r9, !%p1, -1;") ==
        "00000000"
        "00000000"
        "00000000"
        "00000000");
  CHECK(words("redux.sync.add.u32 %r9, 1, -1;", "mov.b32 %r4, 2;\nredux.sync.add.u32 %r9, %r4, -1;") ==
        "30000000"
        "30000000"
        "30000000"
        "30000000");
  CHECK(words("match.any.sync.b32 %r9, %r3, -1;", "match.any.sync.b32 %r9, 0, -1;") ==
        "ffffffff"
        "ffffffff"
        "ffffffff"
        "ffffffff");
  CHECK(words("elect.sync %r9|%p2, -1;", "elect.sync _|%p2, -1;") ==
        "00000000"
        "07000000"
        "00000000"
        "07000000");
  CHECK(words("bar.warp.sync -1;", "bar.warp.sync 0xffffffff;\nmov.b32 %r9, 1;") ==
        "07000000"
        "01000000"
        "07000000"
        "01000000");
}

TEST_CASE("the same instruction in a function that is called from two places") {
  CHECK(words("call (%r9), turn, (%r1);", "call (%r9), turn, (%r2);") ==
        "65000000"
        "00000000"
        "67000000"
        "02000000");
}

TEST_CASE("other qualifiers, another mask, an aligned barrier") {
  for (const auto& [even, odd] :
       {std::pair("shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;", "shfl.sync.down.b32 %r9, %r2, 1, 31, -1;"),
        std::pair("bar.sync 0;", "bar.sync 0;")}) {
    const auto result = run(even, odd);
    REQUIRE(!result.diagnostics.empty());
    CHECK(result.diagnostics[0].code == Code::divergent_barrier);
  }
  CHECK(words("bar.warp.sync 0x55555555;", "bar.warp.sync 0xaaaaaaaa;") ==
        "07000000"
        "07000000"
        "07000000"
        "07000000");
}
