// setmaxnreg: a CTA's pool of registers.
#include <doctest/doctest.h>

#include "tests/sim/run.h"

using namespace ptx;

namespace {

// A producer warpgroup and two consumers; 65536 / 384 registers a thread are 168 by eights.
sim_test::Result run(const std::string& producer, const std::string& consumer,
                     const std::string& directives = ".maxntid 384, 1, 1\n.minnctapersm 1") {
  sim_test::Fixture f;
  f.grid = {1, 1, 1}, f.block = {384, 1, 1};
  return sim_test::run(".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k()\n" + directives +
                           "\n{\n.reg .pred %p;\n.reg .b32 %r;\nmov.u32 %r, %tid.x;\nsetp.lt.u32 %p, %r, 128;\n"
                           "@%p bra PRODUCER;\n" +
                           consumer + "\nret;\nPRODUCER:\n" + producer + "\nret;\n}\n",
                       f);
}
std::string said(const sim_test::Result& result) { return to_string(result.diagnostics); }

const std::string inc = "setmaxnreg.inc.sync.aligned.u32 240;", dec = "setmaxnreg.dec.sync.aligned.u32 24;";

}  // namespace

TEST_CASE("setmaxnreg.inc waits for the registers that others give up") {
  CHECK(said(run(dec, inc)) == "");
  CHECK(said(run("", inc, "")) == "");                    // nobody knows how many there are
  CHECK(said(run("", inc, ".maxntid 384, 1, 1")) == "");  // nor here: the assembler drops them
  const auto stuck = run("", inc);
  REQUIRE(!stuck.diagnostics.empty());
  CHECK(stuck.diagnostics[0].code == Code::barrier_deadlock);
  CHECK(
      said(stuck).find("waits for 240 registers a thread; it has 168, and the CTA's pool holds 0 of the 2304 that are "
                       "missing") != std::string::npos);
  CHECK(run("setmaxnreg.dec.sync.aligned.u32 32;", inc).diagnostics[0].code == Code::barrier_deadlock);  // 8 too few
}

TEST_CASE("setmaxnreg.dec cannot give what a warp has not") {
  const auto more = run("setmaxnreg.dec.sync.aligned.u32 176;", "");
  REQUIRE(!more.diagnostics.empty());
  CHECK(more.diagnostics[0].code == Code::barrier_misuse);
  CHECK(said(more).find("decreases to 176 registers a thread; it has 168") != std::string::npos);
  CHECK(said(run(dec + "\nbar.sync 1, 128;\n" + dec, inc)) == "");
  CHECK(said(run("", "", ".maxnreg 128")) == "");
}

TEST_CASE("setmaxnreg.inc cannot leave a warp with less than it has") {
  const std::string smaller = "setmaxnreg.inc.sync.aligned.u32 160;";
  CHECK(said(run(dec, smaller)) == "");  // the largest of the text: the assembler gives 160 and not 168
  const auto less = run(dec, smaller + "\nret;\n" + inc);
  REQUIRE(!less.diagnostics.empty());
  CHECK(less.diagnostics[0].code == Code::barrier_misuse);
  CHECK(said(less).find("increases to 160 registers a thread; it has 168") != std::string::npos);
  CHECK(said(run(dec, "setmaxnreg.inc.sync.aligned.u32 168;")) == "");
}

TEST_CASE("the warps of a warpgroup change their registers together") {
  const std::string one = "setp.lt.u32 %p, %r, 32;\n@%p " + dec;
  const auto alone = run(one, "");
  REQUIRE(!alone.diagnostics.empty());
  CHECK(alone.diagnostics[0].code == Code::divergent_barrier);
  CHECK(said(alone).find("executed it, and warp 1 of its warpgroup did not") != std::string::npos);
  const auto others = run(one + "\n@!%p setmaxnreg.dec.sync.aligned.u32 32;", "");
  REQUIRE(!others.diagnostics.empty());
  CHECK(others.diagnostics[0].code == Code::divergent_barrier);
  CHECK(said(others).find("of its warpgroup executes another setmaxnreg") != std::string::npos);
  CHECK(said(run(one + "\n@!%p " + dec, "")) == "");  // the same at two places
  CHECK(said(run(dec + "\n" + dec, inc)) == "");      // the second changes nothing
  const auto early = run("setmaxnreg.dec.sync.aligned.u32 32;\n" + dec, inc);
  REQUIRE(!early.diagnostics.empty());
  CHECK(early.diagnostics[0].code == Code::divergent_barrier);
  CHECK(said(early).find("has not come to the one before") != std::string::npos);
}
