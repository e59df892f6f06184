// test_wait and try_wait under checks: who hears that a phase is incomplete, and what the report of a thread says that
// goes on all the same.
#include <doctest/doctest.h>

#include "ptx/base/text.h"
#include "tests/sim/run.h"

using namespace ptx;

namespace {

// 64 threads behind an mbarrier `m` of `count` arrivals; %p1: thread 0.
Diagnostics run(std::string_view count, std::string_view body, std::string_view checks = "all") {
  const std::string text = cat(
      ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k() {\n.reg .pred %p<4>; .reg .b32 %r<8>; .reg "
      ".b64 %rd<4>; .shared .align 8 .b64 m; .shared .align 4 .b32 word; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, "
      "0;\n@%p1 mbarrier.init.shared.b64 [m], ",
      count, ";\nbar.sync 0;\n", body, "\nret;\n}\n");
  sim_test::Fixture f;
  f.block = {64, 1, 1};
  return sim_test::run(text, f, {.checks = *sim::checks_named(checks)}).diagnostics;
}

constexpr std::string_view trap_if_no = "mbarrier.test_wait.parity.shared.b64 %p2, [m], 0;\n@!%p2 trap;";
constexpr std::string_view note =
    "asked an mbarrier at line 9 (`mbarrier.try_wait.parity.shared.b64`), which may answer";

}  // namespace

TEST_CASE("a thread that knows of all arrivals hears yes at once") {
  CHECK(run("64", cat("mbarrier.arrive.shared.b64 %rd1, [m];\nbar.sync 0;\n", trap_if_no)).empty());
  CHECK(run("1", cat("@!%p1 bra done;\nmbarrier.arrive.shared.b64 %rd1, [m];\n", trap_if_no, "\ndone:")).empty());
}

TEST_CASE("a thread that does not know of them may hear no, with checks alone") {
  const std::string body = cat("mbarrier.arrive.shared.b64 %rd1, [m];\n", trap_if_no);
  const Diagnostics found = run("64", body);
  REQUIRE(!found.empty());
  CHECK(found[0].code == Code::trapped);
  CHECK(run("64", body, "none").empty());
}

TEST_CASE("the report of a thread that does not look at the answer says so") {
  constexpr std::string_view waits = "@%p1 bra writes;\nmbarrier.try_wait.parity.shared.b64 %p2, [m], 0;\n";
  constexpr std::string_view writes =
      "bra done;\nwrites: st.shared.u32 [word], 1;\nmbarrier.arrive.shared.b64 %rd1, [m];\ndone:";
  const Diagnostics race = run("1", cat(waits, "mov.u32 %r2, %tid.x;\nst.shared.u32 [word], %r2;\n", writes));
  REQUIRE(!race.empty());
  CHECK(race[0].code == Code::data_race);
  CHECK_MESSAGE(to_string(race).find(note) != std::string::npos, to_string(race));
  const Diagnostics unwritten = run("1", cat(waits, "atom.shared.add.u32 %r2, [word], 2;\n", writes));
  REQUIRE(!unwritten.empty());
  CHECK_MESSAGE(to_string(unwritten).find(note) != std::string::npos, to_string(unwritten));
}
