#include "ptx/cuda/assembler.h"

#include <doctest/doctest.h>

#include <cstring>

#include "ptx/base/text.h"
#include "ptx/cuda/assemblers.h"
#include "ptx/cuda/resources.h"
#include "tests/cuda/tools.h"

using namespace ptx;
using namespace ptx::cuda;

namespace {

void assembles(const Assembler& assembler) {
  MESSAGE("with ", describe(assembler));
  const auto cubin = assembler.assemble(good_ptx, "sm_90", {});
  REQUIRE_MESSAGE(cubin, to_string(cubin ? Diagnostics{} : cubin.why()));
  REQUIRE(cubin->bytes.size() > 64);
  CHECK(std::memcmp(cubin->bytes.data(), "\177ELF", 4) == 0);

  // Each bad line is named, once, at the place where its author wrote it.
  std::vector<Place> lines(9);
  lines[8] = {Name("kernel.py"), 41, 5};
  const auto refused = assembler.assemble(bad_ptx, "sm_90", {lines, "bad", false});
  REQUIRE_FALSE(refused);
  REQUIRE(refused.why().size() == 2);
  const Diagnostic &first = refused.why()[0], &second = refused.why()[1];
  CHECK(first.code == Code::assembler_error);
  CHECK(first.place == Place{Name("kernel.py"), 41, 5});
  CHECK(first.message.find("Arguments mismatch for instruction 'add'") != std::string::npos);
  CHECK(first.notes == std::vector<std::string>{"PTX line 8: add.f32 %f1, %f2;"});
  CHECK(second.place == Place{Name("bad.ptx"), 10, 0});
  CHECK(second.message.find("foo") != std::string::npos);
  CHECK(second.notes == std::vector<std::string>{"foo.u32 %r1, %r2;"});

  // A target that no assembler knows fails without naming a line.
  const auto unknown = assembler.assemble(good_ptx, "sm_9", {});
  REQUIRE_FALSE(unknown);
  CHECK(unknown.why().front().code == Code::assembler_failed);
}

}  // namespace

TEST_CASE("every nvJitLink assembles and names every bad line") {
  const auto all = find_nvjitlink(test_search());
  if (all.empty()) MESSAGE("skipped: no nvJitLink");
  for (const FoundAssembler& found : all) {
    REQUIRE_MESSAGE(found.assembler, found.why_not);
    assembles(*found.assembler);
  }
}

TEST_CASE("every ptxas assembles and names every bad line, and reads the PTX that releases.def says") {
  const auto all = find_ptxas(test_search());
  if (all.empty()) MESSAGE("skipped: no ptxas");
  for (const FoundAssembler& found : all) {
    REQUIRE_MESSAGE(found.assembler, found.why_not);
    assembles(*found.assembler);
    const auto newer = found.assembler->assemble(".version 99.0\n.target sm_80\n", "sm_80", {});
    REQUIRE_FALSE(newer);
    const std::string newest = arch::to_string(newest_ptx(release_of(found.assembler->version())));
    CHECK(newer.why().front().message == cat("Unsupported .version 99.0; current version is '", newest, "'"));
  }
}

TEST_CASE("what releases read") {
  CHECK(release_of("13.5.37") == Release{13, 5});
  CHECK(release_of("12.4") == Release{12, 4});
  for (const std::string_view odd : {"", "13", "13.", "x.1", "of unknown version", "999.1"})
    CHECK(release_of(odd) == Release{});
  CHECK(newest_ptx({12, 6}) == arch::Version{8, 5});  // as 12.5: the release has no PTX of its own
  CHECK(newest_ptx({13, 5}) == arch::Version{9, 5});
  CHECK(newest_ptx({14, 0}) == arch::Version{9, 5});  // at least
  CHECK(newest_ptx({10, 2}) == arch::Version{0, 0});
  CHECK(knows_target({12, 9}, "sm_70"));
  CHECK_FALSE(knows_target({13, 0}, "sm_70"));
  CHECK(knows_target({13, 0}, "sm_90a"));
  CHECK_FALSE(knows_target({12, 6}, "sm_120a"));
  CHECK(loads({13, 0}, {13, 5}));
  CHECK(loads({13, 0}, {12, 9}));
  CHECK_FALSE(loads({12, 9}, {13, 0}));
}

TEST_CASE("a cubin disassembles") {
  const auto found = Assemblers(test_search(), {}, std::nullopt).choose(good_ptx, "sm_90");
  if (!found) {
    MESSAGE("skipped: no assembler");
    return;
  }
  const auto cubin = (*found)->assemble(good_ptx, "sm_90", {});
  REQUIRE(cubin);
  const auto text = disassemble(cubin->bytes, test_search());
  if (!text && text.why().front().code == Code::no_disassembler) {
    MESSAGE("skipped: no nvdisasm, no cuobjdump");
    return;
  }
  REQUIRE_MESSAGE(text, to_string(text ? Diagnostics{} : text.why()));
  CHECK(text->find("EXIT") != std::string::npos);
  const auto garbage = disassemble(std::as_bytes(std::span("\177ELF, but not a cubin")), test_search());
  REQUIRE_FALSE(garbage);
  CHECK(garbage.why().front().code == Code::disassembler_failed);
}

TEST_CASE("the log of every assembler is read") {
  const std::string_view log =
      "ptxas application ptx input, line 2; error   : Unknown symbol 'x'\n"
      "ptxas /tmp/a.ptx, line 3; warning : Instruction 'vote' without '.sync' is deprecated\n"
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
      "ill formed pipeline stage in function 'k'\n"
      "ptxas error   : Entry function 'k' uses too much shared data (0x40000 bytes, 0x38c00 max)\n"
      "ptxas fatal   : Ptx assembly aborted due to errors\n";
  const Diagnostics said = read_log(log, "one\n  two\nthree", {});
  REQUIRE(said.size() == 4);
  CHECK(said[0].code == Code::assembler_error);
  CHECK(said[0].place == Place{Name("kernel.ptx"), 2, 0});
  CHECK(said[0].notes == std::vector<std::string>{"two"});
  CHECK(said[1].code == Code::assembler_warning);
  CHECK(said[1].severity == Severity::warning);
  CHECK(said[1].notes == std::vector<std::string>{"three"});
  CHECK(said[2].code == Code::assembler_advice);
  CHECK(said[3].code == Code::assembler_failed);
  CHECK(said[3].message == "Entry function 'k' uses too much shared data (0x40000 bytes, 0x38c00 max)");
  const auto trimmed = read_log("a, line 2; warning :  two words \r\nnext", "one\n\t two \t\n", {});
  REQUIRE(trimmed.size() == 1);
  CHECK(trimmed[0].message == "two words");
  CHECK(trimmed[0].notes == std::vector<std::string>{"two"});
  const auto budget = read_log(
      "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at "
      "entry.\n",
      "", {});
  REQUIRE(budget.size() == 1);
  CHECK(budget[0].notes ==
        std::vector<std::string>{"setmaxnreg is kept in kernels with .maxnreg, or with .maxntid and .minnctapersm"});
  CHECK(read_log("", "", {}).empty());
  CHECK(read_log("error", "", {}).empty());
  CHECK(read_log("x, line 99; error : past the end", "one", {}).front().place.line == 99);
}

TEST_CASE("spills and functions that lost performance are named at the entry's line") {
  const std::string_view text = ".version 8.0\n.target sm_90a\n.visible .entry norm(.param .u64 a)\n{\n\tret;\n}\n";
  const std::vector<Place> lines{{}, {}, {}, {Name("norm.py"), 7, 0}};
  const std::string_view log =
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'norm' for 'sm_90a'\n"
      "ptxas info    : Function properties for norm\n"
      "ptxas         .     88 bytes stack frame, 84 bytes spill stores, 120 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 2 barriers, 88 bytes cumulative stack size, 4096 bytes smem\n";
  const Diagnostics said = read_log(log, text, {lines, "norm", false});
  REQUIRE(said.size() == 1);
  CHECK(said[0].code == Code::assembler_advice);
  CHECK(said[0].place.line == 7);
  CHECK(said[0].message == "`norm` has more values than registers: 84 bytes spill stores, 120 bytes spill loads");
  const std::string_view none = "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n";
  CHECK(read_log(none, text, {lines, "norm", false}).empty());

  const auto used = read_resources(log, "norm");
  REQUIRE(used);
  CHECK(used->registers == 255);
  CHECK(used->barriers == 2);
  CHECK(used->stack == 88);
  CHECK(used->spill_stores == 84);
  CHECK(used->spill_loads == 120);
  CHECK(used->shared == 4096);
  CHECK(read_resources(log, "other").why().front().code == Code::assembler_failed);
  const auto warned = read_resources(
      cat("ptxas warning : Stack size for entry function 'norm' cannot be statically determined\n", log), "norm");
  REQUIRE(warned);
  CHECK(warned->registers == 255);
}

TEST_CASE("how many blocks a multiprocessor holds, and why no more") {
  Resources used;
  const auto fits = [&](std::string_view target, std::uint32_t threads, std::uint32_t dynamic) {
    const auto found = occupancy(target, used, threads, dynamic);
    REQUIRE(found);
    return cat(found->blocks, " ", found->warps, "/", found->most_warps, " ", found->limiter);
  };
  used.registers = 32;
  CHECK(fits("sm_90a", 32, 0) == "32 32/64 blocks");
  CHECK(fits("sm_90a", 256, 0) == "8 64/64 registers");
  CHECK(fits("sm_90", 1024, 0) == "2 64/64 registers");
  CHECK(fits("sm_90a", 256, 100 * 1024) == "2 16/64 shared memory");
  used.registers = 168;
  CHECK(fits("sm_90a", 384, 0) == "1 12/64 registers");
  used.registers = 20;
  CHECK(fits("sm_120", 512, 0) == "3 48/48 warps");
  CHECK(fits("sm_75", 64, 8192) == "8 16/32 shared memory");
  CHECK(fits("sm_107a", 128, 0) == "8 32/32 warps");
  CHECK(fits("sm_88", 64, 0) == "16 32/48 blocks");
  CHECK_FALSE(occupancy("sm_88", used, 64, 1024));  // no source says how much shared memory it has
  CHECK_FALSE(occupancy("sm_50", used, 32, 0));
  CHECK(occupancy("sm_50", used, 32, 0).why().front().code == Code::target_mismatch);
}
