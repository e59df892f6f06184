// What the simulator says about wrong kernels: one test a code, with the line, the thread and what is near.
#include <doctest/doctest.h>

#include "tests/sim/run.h"

using namespace ptx;

namespace {

std::string kernel(std::string_view body, std::string_view parameters = ".param .u64 p", std::string_view before = "") {
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n";
  text.append(before)
      .append(".visible .entry k(")
      .append(parameters)
      .append(")\n{\n.reg .pred %p<8>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<8>;\n");
  return text.append("ld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\n")
      .append(body)
      .append("\nret;\n}\n");
}

sim_test::Fixture shape(std::uint32_t grid, std::uint32_t block, std::string kind = "out", std::string value = "64") {
  sim_test::Fixture f;
  f.grid = {grid, 1, 1}, f.block = {block, 1, 1};
  f.arguments = {{std::move(kind), std::move(value), {}}};
  return f;
}

// The first report; its code, and that its message or notes hold the words.
void expect(Code code, const std::string& text, const sim_test::Fixture& f, std::vector<std::string> words = {},
            sim::Options options = {}) {
  const auto result = sim_test::run(text, f, options);
  REQUIRE_MESSAGE(!result.diagnostics.empty(), info(code).name);
  CHECK_MESSAGE(result.diagnostics[0].code == code, to_string(result.diagnostics));
  const std::string said = to_string(result.diagnostics);
  for (const std::string& word : words) CHECK_MESSAGE(said.find(word) != said.npos, word, " is not in ", said);
}

}  // namespace

TEST_CASE("memory") {
  const std::string far = kernel("mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r1;");
  expect(Code::out_of_bounds, far, shape(1, 32),
         {"thread (16,0,0) of CTA (0,0,0)", "writes 4 bytes", "0 bytes past the end of `argument 0` (64 bytes)"});
  expect(Code::out_of_bounds, kernel("mov.u64 %rd2, 16;\nst.global.u32 [%rd2], %r1;"), shape(1, 1));
  expect(Code::out_of_bounds, kernel(".shared .align 4 .b8 s[64];\nst.shared.u32 [s+64], %r1;"), shape(1, 1),
         {"past the end of `s`"});
  expect(Code::out_of_bounds, kernel(".local .align 4 .b8 s[64];\nst.local.u32 [s+64], %r1;"), shape(1, 1),
         {"local memory"});
  expect(Code::misaligned_access, kernel("st.global.u32 [%rd1+2], %r1;"), shape(1, 1), {"not a multiple of 4"});
  expect(Code::uninitialised_memory, kernel("ld.global.u32 %r3, [%rd1];\nst.global.u32 [%rd1], %r3;"), shape(1, 1));
  expect(Code::uninitialised_memory,
         kernel(".shared .align 4 .b8 s[64];\nld.shared.u32 %r3, [s];\nst.global.u32 [%rd1], %r3;"), shape(1, 1));
  expect(Code::uninitialised_memory,
         kernel(".local .align 4 .b8 s[64];\nld.local.u32 %r3, [s];\nst.global.u32 [%rd1], %r3;"), shape(1, 1));
  expect(Code::uninitialised_register, kernel("st.global.u32 [%rd1], %r3;"), shape(1, 1), {"`%r3`"});
  expect(Code::uninitialised_register,
         kernel("setp.eq.u32 %p1, %r1, 0;\n@%p1 mov.u32 %r3, 1;\nst.global.u32 [%rd1], %r3;"), shape(1, 2),
         {"thread (1,0,0)"});
  expect(Code::read_only_memory,
         kernel("mov.u64 %rd2, c;\nst.u32 [%rd2], %r1;", ".param .u64 p", ".const .u32 c = 1;\n"), shape(1, 1),
         {"`c`"});
}

TEST_CASE("outputs that were not written") {
  expect(Code::output_not_written, kernel("st.global.u32 [%rd1+4], %r1;"), shape(1, 1),
         {"60 of the 64 bytes of `argument 0`", "byte 0"});
  CHECK(
      sim_test::run(kernel("st.global.u32 [%rd1+4], %r1;"), shape(1, 1), {.uninitialised = false}).diagnostics.empty());
  CHECK(sim_test::run(kernel("st.global.u32 [%rd1], %r1;"), shape(1, 1, "out", "4")).diagnostics.empty());
  CHECK(sim_test::run(kernel(""), shape(1, 1, "inout", "00000000")).diagnostics.empty());
}

TEST_CASE("inputs that the kernel does not say it writes") {
  const std::string text = kernel("st.global.u32 [%rd1], %r1;");
  launch::Record record;
  record.entry = "k";
  record.tensors.resize(1);
  record.tensors[0].name = "X";
  std::vector<std::byte> memory(64);
  const launch::Buffer buffer{memory.data(), {}, {}, memory.size()};
  const void* pointer = memory.data();
  auto program = sim::Simulator().prepare(text, record);
  REQUIRE(program);
  const auto run = [&] {
    return (*program)->run(record, std::as_bytes(std::span(&pointer, 1)), std::span(&buffer, 1), nullptr);
  };
  CHECK(run());
  record.tensors[0].written = false;
  const auto done = run();
  REQUIRE(!done);
  CHECK(done.why()[0].code == Code::read_only_memory);
  CHECK(done.why()[0].message.find("`X`, an input that the kernel does not say it writes") != std::string::npos);
}

TEST_CASE("the place of a report is the author's line") {
  const std::string text = kernel("st.global.u32 [%rd1+2], %r1;");
  launch::Record record;
  record.entry = "k";
  std::vector<std::byte> memory(64);
  const launch::Buffer buffer{memory.data(), {}, {}, memory.size()};
  const void* pointer = memory.data();
  record.lines.resize(20);
  record.lines[12] = {Name("kernel.py"), 41, 5};
  auto program = sim::Simulator().prepare(text, record);
  REQUIRE(program);
  const auto done = (*program)->run(record, std::as_bytes(std::span(&pointer, 1)), std::span(&buffer, 1), nullptr);
  REQUIRE(!done);
  CHECK(to_string(done.why()).starts_with("kernel.py:41:5: PTX5011"));
}

TEST_CASE("barriers") {
  expect(Code::barrier_deadlock,
         kernel("setp.ge.u32 %p1, %r1, 32;\n@%p1 bra A;\nbar.sync 0, 64;\nbra B;\nA:\nbar.sync 1, 64;\nB:"),
         shape(1, 64), {"warp 0, lanes 0-31", "waits at barrier 1, 32 of 64"});
  expect(Code::divergent_barrier,
         kernel("setp.ge.u32 %p1, %r1, 16;\n@%p1 bra A;\nbar.sync 0;\nbra B;\nA:\nbar.sync 0;\nB:"), shape(1, 32),
         {"lanes 0-15", "lanes 16-31"});
  expect(Code::barrier_misuse, kernel("mov.u32 %r3, 17;\nbar.sync %r3;"), shape(1, 32), {"barrier 17"});
  expect(Code::barrier_misuse, kernel("mov.u32 %r3, 33;\nbar.sync 0, %r3;"), shape(1, 32), {"33"});
  expect(Code::bad_member_mask, kernel("bar.warp.sync 1;"), shape(1, 2), {"thread (1,0,0)"});
  const auto exited =
      sim_test::run(kernel("setp.ge.u32 %p1, %r1, 32;\n@%p1 exit;\nbar.sync 0;\nst.global.u32 [%rd1], %r1;"),
                    shape(1, 64, "inout", std::string(128, '0')));
  CHECK_MESSAGE(exited.diagnostics.empty(), to_string(exited.diagnostics));
}

TEST_CASE("control") {
  expect(Code::budget_exceeded, kernel("A:\nadd.u32 %r1, %r1, 1;\nbra A;"), shape(1, 32),
         {"budget of 10000", "warp 0, lanes 0-31 at"}, {.budget = 10000});
  // The budget is of the launch: no block alone executes so many.
  expect(Code::budget_exceeded,
         kernel("mov.u32 %r3, 50;\nA:\nsub.u32 %r3, %r3, 1;\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 bra A;"), shape(1000, 32),
         {"budget of 10000"}, {.budget = 10000});
  const std::string forever_here = kernel("A:\nbra A;");
  expect(Code::interrupted, forever_here, shape(4, 32), {}, {.interrupted = [] { return true; }});
  expect(Code::interrupted, forever_here, shape(4, 32), {}, {.cores = 1, .interrupted = [] { return true; }});
  expect(Code::trapped, kernel("setp.eq.u32 %p1, %r1, 3;\n@%p1 trap;"), shape(1, 32), {"thread (3,0,0)"});
  expect(Code::bad_branch_index, kernel("add.u32 %r3, %r1, 2;\nts: .branchtargets A, B;\nbrx.idx %r3, ts;\nA:\nB:"),
         shape(1, 1), {"entry 2 of a table of 2"});
  const std::string forever = ".func f()\n{\n.local .align 8 .b8 s[1024];\ncall f;\nret;\n}\n";
  expect(Code::stack_overflow, kernel("call f;", ".param .u64 p", forever), shape(1, 1));
  const std::string printf = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n";
  const std::string calls = "{ .param .b64 a; .param .b64 b; .param .b32 r; call (r), vprintf, (a, b); }";
  expect(Code::bad_call, kernel(calls, ".param .u64 p", printf), shape(1, 1), {"`vprintf`"});
  expect(Code::bad_call, kernel("mov.u64 %rd2, 12;\nproto: .callprototype _ ();\ncall %rd2, proto;"), shape(1, 1));
}

TEST_CASE("what cannot run") {
  expect(Code::cannot_simulate, kernel("createpolicy.range.global.L2::evict_last.b64 %rd2, [%rd1], 64, 64;"),
         shape(1, 1), {"createpolicy.range"});
  // What check refuses does not run: decode reads operands by what check found.
  expect(Code::operand_type, kernel("add.u32 %r3, %r1, %rd1;"), shape(1, 1));
  sim_test::Fixture f = shape(1, 1);
  f.entry = "other";
  expect(Code::no_such_entry, kernel(""), f, {"`other`", "`k`"});
  expect(Code::launch_limits, kernel(""), shape(1, 2048), {"2048"});
  f = shape(1, 1);
  f.grid = {1, 70000, 1};
  expect(Code::launch_limits, kernel(""), f, {"70000", "65535"});
  f = shape(1, 1);
  f.dynamic_shared = 400000;
  expect(Code::launch_limits, kernel(""), f, {"400000 bytes of dynamic shared memory"});
  expect(Code::launch_shape, kernel(""), shape(0, 32), {"empty"});
}

TEST_CASE("sizes that a text may ask for") {
  expect(Code::cannot_simulate,
         kernel("st.global.u32 [%rd1], %r1;", ".param .u64 p", ".global .b8 large[1099511627776];\n"), shape(1, 1),
         {"`large`"});
  expect(Code::cannot_simulate, kernel(".local .b8 large[1099511627776];\nst.local.u32 [large], %r1;"), shape(1, 1),
         {"local memory"});
  expect(Code::launch_limits, kernel(".shared .b8 large[1000000000];\nst.shared.u32 [large], %r1;"), shape(1, 1),
         {"shared memory"});
  const auto many =
      sim_test::run(kernel(".reg .b64 %many<4000000>;\nst.global.u32 [%rd1], %r1;"), shape(1, 1, "out", "4"));
  CHECK_MESSAGE(many.diagnostics.empty(), to_string(many.diagnostics));
}
