// What runs leave behind: reports with sites, counts, traces, writers, kept launches under other schedules, stops.
#include "ptx/sim/recording.h"

#include <doctest/doctest.h>

#include <set>

#include "ptx/sim/explore.h"
#include "ptx/sim/stop.h"
#include "tests/sim/run.h"

using namespace ptx;

namespace {

// Two warps write 32 words in turn; the last to come wins. Line 12 stores to one bank, line 15 to global memory.
const std::string text = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
  .shared .align 8 .b8 s[8192];
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 7; mov.u32 %r3, s; add.u32 %r3, %r3, %r2;
  and.b32 %r4, %r1, 31; shr.u32 %r5, %r1, 5;
  st.shared.u32 [%r3], %r1;
  bar.sync 0;
  mul.wide.u32 %rd2, %r4, 4; add.u64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r5;
  ret;
}
)";

sim_test::Fixture fixture() {
  sim_test::Fixture f;
  f.block = {64, 1, 1};
  f.arguments = {{"inout", std::string(256, '0'), {}}};
  return f;
}

}  // namespace

TEST_CASE("lines are counted: instructions, lanes, wavefronts and sectors") {
  auto recording = std::make_shared<sim::Recording>();
  recording->lines = true;
  REQUIRE(sim_test::run(text, fixture(), {.recording = recording}).diagnostics.empty());
  const auto line = [&](std::uint32_t number) {
    for (const sim::LineCount& c : recording->counts)
      if (c.place.line == number) return c;
    return sim::LineCount{};
  };
  CHECK(line(12).wavefronts == 64);
  CHECK(line(12).ideal_wavefronts == 2);
  CHECK(line(15).sectors == 8);
  CHECK(line(15).ideal_sectors == 8);
  CHECK(line(10).instructions == 8);
  CHECK(line(10).threads == 8 * 32);
}

TEST_CASE("a trace is Chrome's format, and has the wait") {
  auto recording = std::make_shared<sim::Recording>();
  recording->trace = true;
  REQUIRE(sim_test::run(text, fixture(), {.recording = recording}).diagnostics.empty());
  const std::string json = recording->trace_json();
  CHECK(json.starts_with("{\"traceEvents\":["));
  CHECK(json.find("\"cat\":\"wait\"") != json.npos);
  CHECK(json.find("waits at barrier 0, ") != json.npos);
}

TEST_CASE("a trace that is too long says what it leaves out") {
  auto recording = std::make_shared<sim::Recording>();
  recording->trace = true, recording->most_pieces = 2;
  REQUIRE(sim_test::run(text, fixture(), {.recording = recording}).diagnostics.empty());
  CHECK(recording->trace_pieces.size() == 2);
  CHECK(recording->dropped_pieces > 0);
}

TEST_CASE("the last writer of each byte is known") {
  auto recording = std::make_shared<sim::Recording>();
  recording->writers = true;
  REQUIRE(sim_test::run(text, fixture(), {.recording = recording}).diagnostics.empty());
  REQUIRE(recording->written.size() == 1);
  const std::uint64_t begin = recording->written[0].begin;
  const auto writer = recording->writer(begin + 4 * 3 + 1);
  REQUIRE(writer);
  CHECK(writer->place.line == 15);
  CHECK(writer->thread.x % 32 == 3);
  CHECK(!recording->writer(begin - 1));
}

TEST_CASE("kept launches run again, and the smallest schedule that changes the result is found") {
  auto recording = std::make_shared<sim::Recording>();
  recording->launches = true;
  REQUIRE(sim_test::run(text, fixture(), {.recording = recording}).diagnostics.empty());
  const auto failing = sim::explore(*recording, 30, {});
  REQUIRE(failing);
  CHECK(failing->differs.starts_with("byte 0 of `"));
  CHECK(failing->reports.empty());
  const auto again = sim::explore(*recording, 30, {});
  REQUIRE(again);
  CHECK(again->seed == failing->seed);
  CHECK(!sim::explore(*recording, 30, {}, false));
}

TEST_CASE("schedules stop clusters between two of their instructions that synchronise") {
  // Each CTA takes a ticket, says that it has it, and looks for the one before, once: it sees it where CTAs come one
  // after the other.
  const std::string tickets = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [p];
  atom.relaxed.gpu.global.add.u32 %r1, [%rd1], 1;
  mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2;
  ld.relaxed.gpu.global.u32 %r2, [%rd2+64];
  st.relaxed.gpu.global.u32 [%rd2+68], 1;
  st.global.u32 [%rd2+128], %r2;
  ret;
}
)";
  sim_test::Fixture four;
  four.grid = {4, 1, 1};
  four.arguments = {{"inout", std::string(512, '0'), {}}};
  auto recording = std::make_shared<sim::Recording>();
  recording->launches = true;
  const sim::Options checked{.checks = *sim::checks_named("all"), .recording = recording};
  REQUIRE(sim_test::run(tickets, four, checked).diagnostics.empty());
  const auto failing = sim::explore(*recording, 30, {.checks = checked.checks});
  REQUIRE(failing);
  CHECK(!failing->differs.empty());
}

TEST_CASE("launches beyond the limit are counted and not kept") {
  auto recording = std::make_shared<sim::Recording>();
  recording->launches = true, recording->most_bytes = 10;
  REQUIRE(sim_test::run(text, fixture(), {.recording = recording}).diagnostics.empty());
  CHECK(recording->kept.empty());
  CHECK(recording->dropped_launches == 1);
}

TEST_CASE("a report has its site, and need not end the caller") {
  sim_test::Fixture f = fixture();
  f.block = {96, 1, 1};
  auto recording = std::make_shared<sim::Recording>();
  recording->raises = false;
  CHECK(sim_test::run(text, f, {.recording = recording}).diagnostics.empty());
  REQUIRE(recording->reports.size() == 1);
  REQUIRE(recording->reports[0].sites.size() == 1);
  const sim::Site& site = recording->reports[0].sites[0];
  CHECK(recording->reports[0].diagnostic.code == Code::out_of_bounds);
  CHECK(site.thread.x == 95);
  CHECK(site.space == "shared::cta");
  CHECK(site.address == 95 * 128);
  CHECK(site.bytes == 4);
  CHECK(site.place.line == 12);
}

TEST_CASE("a report of compiled text names the line that its .loc says") {
  const std::string compiled =
      ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .b64 %rd<4>;\n"
      ".reg .b32 %r<4>;\n.shared .align 4 .b32 _ZZ1kE1s[64];\n.loc 1 3 5\nmov.u32 %r1, _ZZ1kE1s;\nmov.u32 %r2, "
      "%tid.x;\n"
      ".loc 1 4 0\nst.shared.u32 [_ZZ1kE1s], %r2;\n"
      ".loc 1 5 3\nadd.u32 %r1, %r1, 0;\n"
      ".loc 2 7 1, function_name $L__x, inlined_at 1 5 3\nadd.u32 %r1, %r1, 0;\n"
      ".loc 2 9 0, function_name $L__x, inlined_at 2 7 1\nst.shared.u32 [_ZZ1kE1s], 1;\nret;\n}\n"
      ".file 1 \"a.cu\"\n.file 2 \"b.cuh\"\n";
  auto recording = std::make_shared<sim::Recording>();
  sim_test::Fixture f = fixture();
  f.block = {64, 1, 1};
  const auto said =
      sim_test::run(compiled, f, {.checks = *sim::checks_named("data_race"), .recording = recording}).diagnostics;
  REQUIRE(!said.empty());
  const std::string text = to_string(said);
  CHECK_MESSAGE(text.find("of a.cu:5") != text.npos, text);
  CHECK_MESSAGE(text.find("`_ZZ1kE1s` is k::s") != text.npos, text);
  REQUIRE(!recording->reports.empty());
  std::set<std::string> sources;
  for (const sim::Report& report : recording->reports)
    for (const sim::Site& site : report.sites) sources.insert(site.source);
  CHECK(sources == std::set<std::string>{"a.cu:4", "a.cu:5"});
}

TEST_CASE("a stop shows registers, shared memory and warps, and says how to go on") {
  auto recording = std::make_shared<sim::Recording>();
  recording->breakpoints = {{Name(""), 15, 0}};
  std::vector<std::uint32_t> lines;
  recording->stopped = [&](const sim::Stop& stop) {
    lines.push_back(stop.site().place.line);
    for (const auto& r : stop.registers()) {
      if (r.name == "%r1") CHECK(r.low[3] == 32 * stop.warp() + 3);
      if (r.name == "%r6") CHECK(r.written == 0);
    }
    REQUIRE(stop.shared().size() == 1);
    CHECK(stop.shared()[0].name == "s");
    CHECK(stop.shared()[0].written[128 * 63] == 0xff);
    CHECK(!stop.warps().empty());
    return lines.size() == 1 ? sim::Next::line : sim::Next::run;
  };
  REQUIRE(sim_test::run(text, fixture(), {.recording = recording}).diagnostics.empty());
  CHECK(lines == std::vector<std::uint32_t>{15, 16, 15});
  recording->stopped = [](const sim::Stop&) { return sim::Next::end; };
  const auto ended = sim_test::run(text, fixture(), {.recording = recording});
  REQUIRE(ended.diagnostics.size() == 1);
  CHECK(ended.diagnostics[0].code == Code::interrupted);
}
