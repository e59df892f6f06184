// Memory that kernels have of malloc: what is found wrong with it, and how long it lives.
#include <doctest/doctest.h>

#include <cstring>

#include "ptx/sim/explore.h"
#include "ptx/sim/recording.h"
#include "tests/sim/run.h"

using namespace ptx;

namespace {

constexpr std::string_view declarations =
    ".version 8.0 .target sm_90 .address_size 64\n"
    ".extern .func (.param .b64 r) malloc (.param .b64 n);\n"
    ".extern .func free (.param .b64 p);\n"
    ".extern .func (.param .b32 r) __cudaCDP2Malloc (.param .b64 p, .param .b64 n);\n"
    ".extern .func (.param .b32 r) __cudaCDP2Free (.param .b64 p);\n"
    ".extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2 (.param .b64 p, .param .b64 s);\n"
    ".global .u64 root;\n";

// %rd1: the buffer `p`; the text is one line a statement from line 11 on.
std::string kernel(std::string_view body, std::string_view name = "k") {
  std::string text(declarations);
  text.append(".visible .entry ").append(name).append("(.param .u64 p) {\n");
  text.append(".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;\n");
  text.append("ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;\n").append(body);
  return text.append("ret;\n}\n");
}

std::string allocate(std::string_view to, std::string_view bytes) {
  return "{ .param .b64 n; .param .b64 r; st.param.b64 [n], " + std::string(bytes) +
         "; call.uni (r), malloc, (n); ld.param.b64 " + std::string(to) + ", [r]; }\n";
}
std::string release(std::string_view what) {
  return "{ .param .b64 a; st.param.b64 [a], " + std::string(what) + "; call.uni free, (a); }\n";
}

sim_test::Fixture of(std::uint32_t block, std::uint32_t bytes = 64) {
  sim_test::Fixture f;
  f.entry = "k", f.grid = {1, 1, 1}, f.block = {block, 1, 1};
  f.arguments = {{"inout", std::string(2 * bytes, '0'), {}}};
  return f;
}

Diagnostics said(const std::string& text, std::uint32_t block = 1, sim::Options options = {}) {
  return sim_test::run(text, of(block), options).diagnostics;
}

void expect(Code code, const std::string& text, std::vector<std::string> words, std::uint32_t block = 1,
            const char* checks = "none") {
  const Diagnostics found = said(text, block, {.checks = *sim::checks_named(checks)});
  REQUIRE_MESSAGE(!found.empty(), info(code).name);
  CHECK_MESSAGE(found[0].code == code, to_string(found));
  for (const std::string& word : words)
    CHECK_MESSAGE(to_string(found).find(word) != std::string::npos, word, " is not in ", to_string(found));
}

const std::string get = allocate("%rd2", "16");

}  // namespace

TEST_CASE("memory of malloc can be used") {
  const std::string text =
      kernel("mad.lo.u32 %r2, %r1, 8, 8;\ncvt.u64.u32 %rd3, %r2;\n" + allocate("%rd2", "%rd3") +
             "mul.wide.u32 %rd4, %r1, 4;\nadd.u64 %rd5, %rd2, %rd4;\nst.u32 [%rd5], %r1;\nld.u32 %r3, [%rd5];\n"
             "add.u64 %rd5, %rd1, %rd4;\nst.global.u32 [%rd5], %r3;\n" +
             release("%rd2") + release("0"));
  for (const char* checks : {"none", "all"}) {
    const auto result = sim_test::run(text, of(3, 12), {.checks = *sim::checks_named(checks)});
    CHECK_MESSAGE(result.diagnostics.empty(), to_string(result.diagnostics));
    CHECK(result.outputs.at(0) == "000000000100000002000000");
  }
}

TEST_CASE("bounds of a block") {
  expect(Code::out_of_bounds, kernel(get + "st.u32 [%rd2+16], %r1;\n"),
         {"0 bytes past the end of the 16 bytes that thread (0,0,0) of CTA (0,0,0) allocated at line 11"});
  expect(Code::out_of_bounds, kernel(get + "st.u32 [%rd2+-4], %r1;\n"), {"4 bytes before the start of the 16 bytes"});
  expect(Code::out_of_bounds, kernel(allocate("%rd2", "18") + "st.u32 [%rd2+16], %r1;\n"),
         {"the last of them past the end of the 18 bytes"});
  expect(Code::uninitialised_memory, kernel(get + "ld.u32 %r3, [%rd2+8];\nst.global.u32 [%rd1], %r3;\n"), {"ld.u32"});
}

TEST_CASE("memory that was freed") {
  const std::string freed = get + "st.u32 [%rd2], %r1;\n" + release("%rd2");
  expect(Code::use_after_free, kernel(freed + "ld.u32 %r3, [%rd2];\n"),
         {"reads 4 bytes", "of the 16 bytes that thread (0,0,0) of CTA (0,0,0) allocated at line 11",
          "and thread (0,0,0) of CTA (0,0,0) freed at line 13"});
  expect(Code::use_after_free, kernel(freed + allocate("%rd3", "16") + "st.u32 [%rd3], 1;\nst.u32 [%rd2+8], %r1;\n"),
         {"writes 4 bytes"});
  expect(Code::use_after_free,
         kernel(get +
                "st.u64 [%rd2], 1;\nst.u64 [%rd2+8], 1;\n.shared .align 16 .b8 s[16];\nmov.u32 %r2, s;\n"
                "cp.async.ca.shared.global [%r2], [%rd2], 16;\n" +
                release("%rd2") + "cp.async.wait_all;\n"),
         {"cp.async", "began this; it reads"});
  expect(Code::bad_free, kernel(freed + release("%rd2")), {"again, the 16 bytes", "freed at line 13"});
}

TEST_CASE("what is not to be freed") {
  expect(Code::bad_free, kernel(get + "add.u64 %rd3, %rd2, 4;\n" + release("%rd3")),
         {"4 bytes behind the start of the 16 bytes"});
  expect(Code::bad_free, kernel(release("%rd1")), {"which no malloc gave: it is in `argument 0`"});
  expect(Code::bad_free, kernel(".shared .b64 s;\nmov.u64 %rd3, s;\ncvta.shared.u64 %rd3, %rd3;\n" + release("%rd3")),
         {"it is in shared memory"});
  expect(Code::data_race,
         kernel(".shared .b64 s;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra NEXT;\n" + get +
                "st.u32 [%rd2], 1;\nst.shared.u64 [s], %rd2;\nNEXT:\nbar.sync 0;\n"
                "ld.shared.u64 %rd3, [s];\nld.u32 %r3, [%rd3];\nsetp.ne.u32 %p2, %r1, 32;\n@%p2 bra "
                "END;\n" +
                release("%rd3") + "END:\n"),
         {"frees byte 0 of the 16 bytes that thread (0,0,0)", "nothing orders the two"}, 64, "all");
}

TEST_CASE("memory that nobody can free any more") {
  const std::string lost = kernel(get + "st.u32 [%rd2], 1;\n");
  CHECK(said(lost).empty());
  expect(Code::memory_leak, lost,
         {"`k` ended and had not freed the 16 bytes that thread (0,0,0)", "3 blocks of this line, 48 bytes in all"}, 3,
         "memory_leak");
  const auto check = [](const std::string& text) { return said(text, 1, {.checks = *sim::checks_named("all")}); };
  CHECK(check(lost).size() == 1);
  CHECK(check(kernel(get + "st.global.u64 [root], %rd2;\n")).empty());
  CHECK(check(kernel(get + "st.global.u64 [%rd1+8], %rd2;\n")).empty());
  CHECK(check(kernel(get + "st.global.u64 [root], %rd2;\n" + allocate("%rd3", "8") +
                     "st.u64 [%rd2], 0;\nst.u64 [%rd2+8], %rd3;\nst.u64 [%rd3], 0;\n"))
            .empty());
  CHECK(check(kernel(get + allocate("%rd3", "16") + "st.u64 [%rd2], %rd3;\nst.u64 [%rd3], %rd2;\n")).size() == 2);
}

TEST_CASE("a heap has an end") {
  const std::string text = kernel("mov.u32 %r2, 0;\nAGAIN:\n" + allocate("%rd2", "1048576") +
                                  "setp.eq.u64 %p1, %rd2, 0;\n@%p1 bra END;\nadd.u32 %r2, %r2, 1;\nbra AGAIN;\n"
                                  "END:\nst.global.u32 [%rd1], %r2;\n");
  CHECK(sim_test::run(text, of(1, 4)).outputs.at(0) == "08000000");
  CHECK(sim_test::run(text, of(1, 4), {.heap = 5 << 20}).outputs.at(0) == "05000000");
  const std::string huge = kernel(allocate("%rd2", "-8") + "st.global.u64 [%rd1], %rd2;\n");
  CHECK(sim_test::run(huge, of(1, 8)).outputs.at(0) == "0000000000000000");
}

TEST_CASE("memory of malloc outlives its launch") {
  sim::Simulator simulator;
  auto recording = std::make_shared<sim::Recording>();
  recording->launches = true;
  sim::Options options = simulator.options();
  options.recording = recording;
  simulator.use(options);
  alignas(16) std::uint32_t out[4] = {};
  const void* address = out;
  std::byte block[8];
  std::memcpy(block, &address, sizeof block);
  const launch::Buffer buffer{out, {}, {}, sizeof out, false};
  launch::Record record;
  record.entry = "first";
  record.parameters.push_back({launch::Parameter::Kind::tensor, "p", 0, 8, 0});
  record.tensors.resize(1);
  const std::string gives = kernel(get + "st.u32 [%rd2], 7;\nst.global.u64 [%rd1+8], %rd2;\n", "first");
  const std::string takes = kernel(
      "ld.global.u64 %rd2, [%rd1+8];\nld.u32 %r2, [%rd2];\nst.global.u32 [%rd1], %r2;\n"
      "st.global.u64 [%rd1+8], 0;\n" +
          release("%rd2"),
      "second");
  REQUIRE((*simulator.prepare(gives, record))->run(record, block, {&buffer, 1}, nullptr));
  record.entry = "second";
  REQUIRE((*simulator.prepare(takes, record))->run(record, block, {&buffer, 1}, nullptr));
  CHECK(out[0] == 7);
  CHECK(recording->kept.size() == 2);
  // Made again, with the heap as each launch found it.
  const auto failing = sim::explore(*recording, 3, simulator.options(), false);
  CHECK_MESSAGE(!failing, (failing ? to_string(failing->reports.front().diagnostic) : ""));
}

TEST_CASE("the device's runtime has memory, and launches nothing") {
  const std::string text = kernel(
      ".local .b64 where;\nmov.u64 %rd2, where;\ncvta.local.u64 %rd2, %rd2;\n"
      "{ .param .b64 a; .param .b64 n; .param .b32 r; st.param.b64 [a], %rd2; st.param.b64 [n], 8; "
      "call.uni (r), __cudaCDP2Malloc, (a, n); ld.param.b32 %r2, [r]; }\n"
      "ld.local.u64 %rd3, [where];\nst.u32 [%rd3], 5;\nld.u32 %r3, [%rd3];\n"
      "{ .param .b64 a; .param .b32 r; st.param.b64 [a], %rd3; call.uni (r), __cudaCDP2Free, (a); ld.param.b32 %r4, "
      "[r]; }\nst.global.v4.u32 [%rd1], {%r2, %r3, %r4, %r1};\n");
  const auto result = sim_test::run(text, of(1, 16));
  CHECK_MESSAGE(result.diagnostics.empty(), to_string(result.diagnostics));
  CHECK(result.outputs.at(0) == "00000000050000000000000000000000");
  expect(Code::bad_call,
         kernel("{ .param .b64 a; .param .b64 s; .param .b32 r; st.param.b64 [a], 0; st.param.b64 [s], 0; "
                "call.uni (r), __cudaCDP2LaunchDeviceV2, (a, s); }\n"),
         {"__cudaCDP2LaunchDeviceV2", "launches no kernels"});
}

TEST_CASE("a kernel that names another kernel is refused") {
  const std::string text = std::string(declarations) + ".visible .entry child(.param .u64 p) { ret; }\n" +
                           kernel("mov.u64 %rd2, child;\nst.global.u64 [%rd1], %rd2;\n").substr(declarations.size());
  expect(Code::cannot_simulate, text, {"`child`", "kernels that launch kernels are not simulated"});
}
