// Which accesses a race is between, where reads are kept for whole warps (watch/stripes.cpp), and that what nobody
// needs any more is let go.
#include <doctest/doctest.h>

#include <ctime>

#include "ptx/base/text.h"
#include "tests/sim/run.h"

using namespace ptx;

namespace {

// Warp 1 executes `first` and then warp 0 `second`; %r1 = %tid.x, %r2 = the lane, `s` 1024 bytes of zeros.
Diagnostics run(std::string_view first, std::string_view second, std::string_view between = "") {
  const std::string text = cat(
      ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .pred %p<4>; .reg .b32 "
      "%r<16>; .reg .b64 %rd<4>; .reg .b16 %h; .shared .align 1024 .b8 s[1024];\nmov.u32 %r1, %tid.x;\nand.b32 %r2, "
      "%r1, 31;\nmov.u32 %r3, s;\nmov.u32 %r9, 0;\nshl.b32 %r4, %r1, 4;\nadd.u32 %r4, %r3, %r4;\nst.shared.v4.u32 "
      "[%r4], {%r9, %r9, %r9, %r9};\nbar.sync 0;\nsetp.lt.u32 %p1, %r1, 32;\n@%p1 bra second;\n",
      first, "\n", between, "\nret;\nsecond:\n", between, "\n", second, "\nret;\n}\n");
  sim_test::Fixture f;
  f.block = {64, 1, 1};
  f.arguments = {{"inout", "00000000", {}}};
  return sim_test::run(text, f, {.checks = *sim::checks_named("all")}).diagnostics;
}

void expect_reader(const Diagnostics& found, int lane) {
  REQUIRE(!found.empty());
  CHECK_MESSAGE(found[0].code == Code::data_race, to_string(found));
  const std::string reader = cat("of thread (", 32 + lane, ",0,0) of CTA (0,0,0)");
  CHECK_MESSAGE(to_string(found).find(reader) != std::string::npos, reader, " is not in ", to_string(found));
}

constexpr std::string_view read_words = "shl.b32 %r5, %r2, 2; add.u32 %r5, %r3, %r5; ld.shared.u32 %r6, [%r5+16];";
constexpr std::string_view read_vectors =
    "shl.b32 %r5, %r2, 4; add.u32 %r5, %r3, %r5; ld.shared.v4.u32 {%r6, %r7, "
    "%r8, %r9}, [%r5];";
constexpr std::string_view barrier = "bar.sync 0;";

std::string by_lane_0(std::string_view store) { return cat("setp.eq.u32 %p2, %r2, 0;\n@%p2 ", store, "\n"); }

std::string by_first_lane(std::string_view code) {
  return cat("{\nsetp.ne.u32 %p3, %r2, 0;\n@%p3 bra OTHERS;\n", code, "OTHERS:\n}\n");
}

}  // namespace

TEST_CASE("of a warp's reads, the one is named whose bytes are written") {
  for (const std::string_view store :
       {"st.shared.u32 [%r3+92], 1;", "st.shared.u8 [%r3+94], %r1;", "atom.shared.add.u32 %r10, [%r3+92], 1;",
        "st.shared.v2.u32 [%r3+88], {%r1, %r1};"}) {
    CAPTURE(store);
    const bool two = store.find("v2") != store.npos;
    expect_reader(run(read_words, by_lane_0(store)), two ? 18 : 19);  // (92 - 16) / 4
    CHECK(run(read_words, by_lane_0(store), barrier).empty());
  }
  expect_reader(run(read_words, by_lane_0("st.shared.u32 [%r3+140], 1;")), 31);  // in the next block
  CHECK(run(read_words, by_lane_0("st.shared.u32 [%r3+144], 1;")).empty());
  CHECK(run(read_words, by_lane_0("st.shared.u32 [%r3+12], 1;")).empty());
  expect_reader(run(read_vectors, by_lane_0("st.shared.u8 [%r3+511], %r1;")), 31);
  expect_reader(run(read_vectors, by_lane_0("st.shared.u32 [%r3+200], 1;")), 12);
  CHECK(run(read_vectors, by_lane_0("st.shared.u32 [%r3+512], 1;")).empty());
}

TEST_CASE("lanes that do not read, and lanes that read the same") {
  const std::string odd =
      cat("and.b32 %r10, %r2, 1; setp.eq.u32 %p3, %r10, 1; shl.b32 %r5, %r2, 2; add.u32 %r5, %r3, "
          "%r5;\n@%p3 ld.shared.u32 %r6, [%r5];");
  expect_reader(run(odd, by_lane_0("st.shared.u32 [%r3+12], 1;")), 3);
  CHECK(run(odd, by_lane_0("st.shared.u32 [%r3+16], 1;")).empty());
  const std::string_view same = "ld.shared.v2.u32 {%r6, %r7}, [%r3+64];";
  expect_reader(run(same, by_lane_0("st.shared.u32 [%r3+68], 1;")), 0);
  CHECK(run(same, by_lane_0("st.shared.u32 [%r3+72], 1;")).empty());
  CHECK(run(same, by_lane_0("st.shared.u32 [%r3+68], 1;"), barrier).empty());
}

TEST_CASE("a write lets go of the reads of its own bytes alone") {
  // Warp 1 reads, warp 0 writes word 5 behind a barrier, and word 6 is still read when the next barrier is missing.
  const std::string writes =
      by_lane_0("st.shared.u32 [%r3+20], 1;") + "bar.sync 0;\n" + by_lane_0("st.shared.u32 [%r3+24], 1;");
  const std::string reads = cat(read_words, "\nbar.sync 0;\nld.shared.u32 %r6, [%r5+16];");
  const Diagnostics found = run(reads, writes, "");
  REQUIRE(!found.empty());
  CHECK(found.size() == 2);  // of the first read with the first write, and of the second one with the second
}

TEST_CASE("the places of accesses that are over are let go, and a race behind many of them is found") {
  const auto loop = [](std::string_view last) {
    return cat(
        "mov.u32 %r11, 0;\nL:\nshl.b32 %r5, %r2, 2; add.u32 %r5, %r3, %r5; st.shared.u32 [%r5], %r11;\nbar.sync "
        "0;\nbar.sync 0;\nadd.u32 %r11, %r11, 1;\nsetp.lt.u32 %p3, %r11, 40000;\n@%p3 bra L;\n",
        last);
  };
  const std::string reads =
      "mov.u32 %r11, 0;\nM:\nshl.b32 %r5, %r2, 2; add.u32 %r5, %r3, %r5;\nbar.sync 0;\nld.shared.u32 %r6, "
      "[%r5];\nbar.sync "
      "0;\nadd.u32 %r11, %r11, 1;\nsetp.lt.u32 %p3, %r11, 40000;\n@%p3 bra M;\nld.shared.u32 %r6, [%r5+512];";
  CHECK(run(reads, loop("")).empty());
  const Diagnostics found = run(reads, loop("st.shared.u32 [%r5+512], %r1;"));
  REQUIRE(found.size() == 1);
  CHECK(found[0].code == Code::data_race);
}

// Each store that were compared with all before it would take minutes.
TEST_CASE("a thousand CTAs that store one constant") {
  const auto store = [](std::string_view value) {
    const std::string text = cat(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .pred %p<2>; .reg "
        ".b32 %r<4>; .reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\n"
        "@%p1 bra done;\nmov.u32 %r2, %ctaid.x;\nst.global.u32 [%rd1], ",
        value, ";\ndone: ret;\n}\n");
    sim_test::Fixture f;
    f.grid = {1056, 1, 1}, f.block = {256, 1, 1};
    f.arguments = {{"out", "4", {}}};
    return sim_test::run(text, f, {.checks = *sim::checks_named("all")}).diagnostics;
  };
  CHECK(store("1").empty());
  REQUIRE(!store("%r2").empty());
  CHECK(store("%r2")[0].code == Code::data_race);
}

// What each of them has released to the counter is one thing to who reads it: else this takes minutes.
TEST_CASE("a thousand CTAs that meet by a counter") {
  const auto meet = [](std::string_view before, std::string_view after) {
    const std::string text = cat(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.global .u32 came;\n.visible .entry k(.param .u64 p) {\n.reg "
        ".pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %ctaid.x;\n"
        "mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd2, %rd1, %rd2;\nst.global.u32 [%rd2], %r1;\n",
        before,
        "\nred.relaxed.gpu.global.add.u32 [came], 1;\nAGAIN:\nld.relaxed.gpu.global.u32 %r2, [came];\n"
        "setp.lt.u32 %p1, %r2, 1056;\n@%p1 bra AGAIN;\n",
        after,
        "\nxor.b32 %r3, %r1, 7;\nmul.wide.u32 %rd3, %r3, 4;\nadd.u64 %rd3, %rd1, %rd3;\n"
        "ld.global.u32 %r4, [%rd3];\nst.global.u32 [%rd2+4224], %r4;\nret;\n}\n");
    sim_test::Fixture f;
    f.grid = {1056, 1, 1}, f.block = {1, 1, 1};
    f.arguments = {{"out", "8448", {}}};
    return sim_test::run(text, f, {.checks = *sim::checks_named("all")}).diagnostics;
  };
  for (const char* fence : {"fence.acq_rel.gpu;", "fence.sc.gpu;"}) {
    const Diagnostics found = meet(fence, fence);
    CHECK_MESSAGE(found.empty(), to_string(found));
  }
  const auto code = [](const Diagnostics& found) { return found.empty() ? Code::syntax_error : found[0].code; };
  CHECK(code(meet("fence.acq_rel.gpu;", "")) == Code::missing_order);
  CHECK(code(meet("", "fence.acq_rel.gpu;")) == Code::missing_order);
  CHECK(code(meet("fence.acq_rel.cta;", "fence.acq_rel.gpu;")) == Code::narrow_scope);
  CHECK(code(meet("fence.acq_rel.gpu;", "fence.acq_rel.cta;")) == Code::narrow_scope);
}

// A fence and a look of a loop that waits are dropped where the next round has them again; those of the last round
// count.
TEST_CASE("a loop of fences and looks counts as often as it does something") {
  constexpr std::string_view reads = "ld.relaxed.gpu.shared.u32 %r5, [%r3+64];\n";
  constexpr std::string_view tells = "st.relaxed.gpu.shared.u32 [%r3+128], 1;\n";
  constexpr std::string_view writes =
      "AGAIN: ld.acquire.gpu.shared.u32 %r6, [%r3+128];\nsetp.eq.u32 %p2, %r6, 0;\n@%p2 bra AGAIN;\n"
      "st.shared.u32 [%r3+64], 1;\n";
  for (const std::string_view fence : {"fence.acq_rel.gpu;\n", "fence.sc.gpu;\n", "fence.sc.cta;\n"}) {
    CAPTURE(fence);
    const std::string round = cat("mov.u32 %r7, 0;\nROUND: ", fence, reads, "add.u32 %r7, %r7, 1;\n");
    const std::string four = cat(round, "setp.lt.u32 %p2, %r7, 4;\n@%p2 bra ROUND;\n");
    const Diagnostics found = run(by_first_lane(cat(four, tells)), by_first_lane(writes));
    REQUIRE(found.size() == 1);
    CHECK(found[0].code == Code::missing_order);
    CHECK(run(by_first_lane(cat(four, fence, tells)), by_first_lane(writes)).empty());
    const std::string until_fence =
        cat("mov.u32 %r7, 0;\nROUND: ", fence, "add.u32 %r7, %r7, 1;\nsetp.ge.u32 %p2, %r7, 5;\n", "@%p2 bra OUT;\n",
            reads, "bra ROUND;\nOUT:\n");
    CHECK(run(by_first_lane(cat(until_fence, tells)), by_first_lane(writes)).empty());
  }
}

// What each lane knows of each other is compared once a turn, not once a look: else this takes half a minute.
TEST_CASE("lanes that wait for their tickets") {
  const std::string text =
      ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .pred %p<2>; .reg .b32 "
      "%r<8>; .reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\nmov.u32 %r5, 0;\nNEXT: fence.sc.gpu;\n"
      "atom.acquire.gpu.global.add.u32 %r1, [%rd1], 1;\nLOOK: fence.sc.gpu;\nld.acquire.gpu.global.u32 %r2, [%rd1+4];\n"
      "setp.ne.u32 %p1, %r1, %r2;\n@%p1 bra LOOK;\nld.global.u32 %r3, [%rd1+8];\nadd.u32 %r3, %r3, 1;\n"
      "st.global.u32 [%rd1+8], %r3;\nfence.sc.gpu;\natom.acquire.gpu.global.add.u32 %r4, [%rd1+4], 1;\n"
      "add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 4;\n@%p1 bra NEXT;\nret;\n}\n";
  sim_test::Fixture f;
  f.grid = {2, 1, 1}, f.block = {64, 1, 1};
  f.arguments = {{"inout", "000000000000000000000000", {}}};
  const std::clock_t begin = std::clock();
  const auto found = sim_test::run(text, f, {.checks = *sim::checks_named("all")}).diagnostics;
  CHECK_MESSAGE(found.empty(), to_string(found));
  CHECK(std::clock() - begin < 8 * CLOCKS_PER_SEC);
}

// What a warp's lanes tell by an atomic they tell at once: else this takes ten seconds.
TEST_CASE("thousands of threads that count") {
  const auto count = [](std::string_view before, std::string_view after) {
    const std::string text =
        cat(".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .pred %p<4>; "
            ".reg .b32 "
            "%r<8>; .reg .b64 %rd<4>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\n"
            "setp.eq.u32 %p1, %r1, 0;\n",
            before, "\natom.relaxed.gpu.global.add.u32 %r3, [%rd1], 1;\n", after, "\nret;\n}\n");
    sim_test::Fixture f;
    f.grid = {128, 1, 1}, f.block = {256, 1, 1};
    f.arguments = {{"inout", "00000000", {}}};
    return sim_test::run(text, f, {.checks = *sim::checks_named("all")}).diagnostics;
  };
  const std::clock_t begin = std::clock();
  CHECK(count("", "").empty());
  CHECK(std::clock() - begin < 4 * CLOCKS_PER_SEC);
  const auto code = [](const Diagnostics& found) { return found.empty() ? Code::syntax_error : found[0].code; };
  CHECK(code(count("", "@%p1 ld.global.u32 %r4, [%rd1];")) == Code::missing_order);
  CHECK(code(count("", "@%p1 st.global.u32 [%rd1], 7;")) == Code::data_race);
}

TEST_CASE("lanes that update one place, where one of them has been before") {
  const auto after = [](int lane, std::string_view first) {
    return run("", cat("setp.eq.u32 %p2, %r2, ", lane, ";\n@%p2 ", first, "\natom.shared.add.u32 %r10, [%r3], 1;\n"));
  };
  for (const int lane : {0, 1, 31}) {
    CAPTURE(lane);
    for (const std::string_view first : {"st.shared.u32 [%r3], 7;", "ld.shared.u32 %r6, [%r3];"}) {
      CAPTURE(first);
      REQUIRE(!after(lane, first).empty());
      CHECK(after(lane, first)[0].code == Code::data_race);
    }
    CHECK(after(lane, "atom.shared.add.u32 %r6, [%r3], 1;").empty());
    CHECK(after(lane, "ld.relaxed.cta.shared.u32 %r6, [%r3];").empty());
    CHECK(after(lane, "st.relaxed.cta.shared.u32 [%r3], 7;").empty());
  }
}
