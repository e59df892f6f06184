// What the simulator says about wrong kernels: one test a code, with the line, the thread and what is near.
#include <doctest/doctest.h>

#include "ptx/base/text.h"
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

TEST_CASE("a thread's stack ends where its calls do") {
  const std::string before =
      ".func (.reg .b64 %o) f() { .local .align 4 .b32 t[4]; .reg .b64 %a; mov.u64 %a, t; st.local.u32 [%a], 7; "
      "cvta.local.u64 %o, %a; ret; }\n";
  expect(Code::out_of_bounds,
         kernel("call (%rd2), f;\nld.u32 %r3, [%rd2];\nst.global.u32 [%rd1], %r3;", ".param .u64 p", before),
         shape(1, 1), {"ld.u32", "a call that has ended"});
  const std::string array = ".local .align 16 .b8 s[16];\nmov.u64 %rd2, s;\ncvta.local.u64 %rd2, %rd2;\n";
  expect(Code::out_of_bounds, kernel(array + "st.u32 [%rd2+16], %r1;"), shape(1, 1), {"which has 16 bytes a thread"});
  expect(Code::out_of_bounds, kernel(array + "st.u32 [%rd2+-4], %r1;"), shape(1, 1),
         {"4 bytes before the start of local memory"});
  expect(Code::out_of_bounds, kernel(array + "st.u32 [%rd2], 0;\natom.add.u32 %r3, [%rd2], 1;"), shape(1, 1),
         {"local memory, which this instruction does not reach"});
}

TEST_CASE("addresses of another space, and of nothing") {
  expect(Code::out_of_bounds,
         kernel(".shared .align 4 .b32 s;\nmov.u64 %rd2, s;\ncvta.shared.u64 %rd2, %rd2;\nld.global.u32 %r3, [%rd2];"),
         shape(1, 1), {"a generic address of shared memory"});
  expect(Code::out_of_bounds, kernel("mov.u64 %rd2, 0;\nld.global.u32 %r3, [%rd2];"), shape(1, 1),
         {"at 0x0, where no buffer is near"});
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
  // Warps of which the same is true are one line.
  expect(Code::barrier_deadlock,
         kernel("setp.ge.u32 %p1, %r1, 96;\n@%p1 bra A;\nbar.sync 0, 128;\nbra B;\nA:\nbar.sync 1, 64;\nB:"),
         shape(1, 128), {"warps 0-2, lanes 0-31", "waits at barrier 0, 96 of 128", "warp 3, lanes 0-31"});
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
  // A return in front of a barrier, as compilers write it; and the same lanes on with the code behind it.
  const std::string around = "setp.ge.u32 %p1, %r1, 16;\n@%p1 bra A;\nbar.sync 0;\nst.global.u32 [%rd1], %r1;\nA:\n";
  const auto early = sim_test::run(kernel(around), shape(1, 32, "inout", std::string(128, '0')));
  CHECK_MESSAGE(early.diagnostics.empty(), to_string(early.diagnostics));
  expect(Code::divergent_barrier, kernel(around + "mov.u32 %r3, 0;"), shape(1, 32, "inout", std::string(128, '0')),
         {"thread (16,0,0)", "has gone around it"});
}

TEST_CASE("mbarriers") {
  const std::string b = ".shared .align 8 .b64 full;\n", init = b + "mbarrier.init.shared.b64 [full], 2;\n";
  const auto misuse = [&](const std::string& body, std::vector<std::string> words) {
    expect(Code::barrier_misuse, kernel(body), shape(1, 1), std::move(words));
  };
  misuse(b + "mbarrier.arrive.shared.b64 %rd2, [full];", {"`full`", "mbarrier.init"});
  misuse(init + "mbarrier.inval.shared.b64 [full];\nmbarrier.arrive.shared.b64 %rd2, [full];", {"no longer one"});
  misuse(init + "mbarrier.init.shared.b64 [full], 2;", {"mbarrier.inval"});
  misuse(b + "mov.u32 %r3, 0;\nmbarrier.init.shared.b64 [full], %r3;", {"0 arrivals"});
  misuse(init + "mbarrier.arrive.shared.b64 %rd2, [full], 3;", {"3 times", "2 of 2"});
  misuse(b + "mbarrier.init.shared.b64 [full], 1;\nmbarrier.arrive.expect_tx.shared.b64 _, [full], 16;\n"
             "mbarrier.arrive.expect_tx.shared.b64 _, [full], 16;",
         {"arrives, and this phase waits for 0 of 1 more, and for bytes"});
  misuse(init + "mbarrier.arrive.noComplete.shared.b64 %rd2, [full], 2;", {".noComplete"});
  misuse(init + "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 1048576;", {"tx-count"});
  misuse(init + "ld.shared.u32 %r3, [full+4];", {"`full`", "lives"});
  misuse(init + "st.shared.u32 [full], %r1;", {"`full`", "lives"});
  misuse(init + "mov.u64 %rd2, 0x500000000;\nmbarrier.test_wait.shared.b64 %p1, [full], %rd2;", {"phase 5"});
  misuse(init + "mbarrier.init.b64 [%rd1], 1;", {"outside of shared memory"});
  expect(Code::misaligned_access, kernel(b + "mov.u32 %r3, full;\nmbarrier.init.shared.b64 [%r3+4], 1;"), shape(1, 1),
         {"multiple of 8"});
  const std::string wait = "WAIT:\nmbarrier.try_wait.parity.shared.b64 %p1, [full], 0;\n@!%p1 bra WAIT;\n";
  expect(Code::barrier_deadlock,
         kernel(init +
                "mbarrier.arrive.expect_tx.shared.b64 _, [full], 4096;\n"
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [full], 1024;\n" +
                wait),
         shape(1, 1),
         {"phase 0 (parity 0) of the mbarrier `full`", "1 of 2 arrivals", "1024 of 4096 bytes",
          "arrivals come from line 14"});
  expect(Code::barrier_deadlock, kernel(init + wait), shape(1, 1), {"nobody has ever arrived"});
}

TEST_CASE("copies come late") {
  const std::string bulk =
      ".shared .align 16 .b8 s[64];\n.shared .align 8 .b64 full;\nmbarrier.init.shared.b64 [full], 1;\n"
      "mbarrier.arrive.expect_tx.shared.b64 _, [full], 16;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1], 16, [full];\n";
  const auto in = shape(1, 1, "inout", "000102030405060708090a0b0c0d0e0f" + std::string(96, '0'));
  const std::string copy = ".shared .align 16 .b8 s[64];\ncp.async.cg.shared.global [s], [%rd1], 16;\n";
  // Nobody waited, so nothing has come.
  expect(Code::uninitialised_memory, kernel(bulk + "ld.shared.u32 %r3, [s];\nst.global.u32 [%rd1], %r3;"), in);
  expect(Code::uninitialised_memory,
         kernel(copy + "cp.async.commit_group;\nld.shared.u32 %r3, [s];\nst.global.u32 [%rd1], %r3;"), in);
  expect(Code::uninitialised_memory,
         kernel(copy +
                "cp.async.commit_group;\ncp.async.wait_group 1;\nld.shared.u32 %r3, [s];\nst.global.u32 [%rd1], %r3;"),
         in);
  // The source is read as late as the destination is written.
  const std::string store =
      ".shared .align 16 .b8 s[64];\nst.shared.v4.u32 [s], {1, 1, 1, 1};\nfence.proxy.async;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [s], 16;\ncp.async.bulk.commit_group;\n";
  const std::string again = "st.shared.u32 [s], 2;\n", read = "cp.async.bulk.wait_group.read 0;\n";
  const auto out = shape(1, 1, "inout", std::string(128, '0'));
  const auto early = sim_test::run(kernel(store + again), out),
             right = sim_test::run(kernel(store + read + again), out);
  REQUIRE_MESSAGE(right.diagnostics.empty(), to_string(right.diagnostics));
  CHECK(early.outputs[0].starts_with("02000000"));
  CHECK(right.outputs[0].starts_with("01000000"));
  expect(Code::uninitialised_memory,
         kernel(".shared .align 16 .b8 s[64];\ncp.async.bulk.global.shared::cta.bulk_group [%rd1], [s], 16;"),
         shape(1, 1), {"`s`", "never written"});
  expect(Code::barrier_misuse,
         kernel(".shared .align 16 .b8 s[64];\n.shared .align 8 .b64 full;\n"
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1], 16, [full];"),
         in, {"`full`", "mbarrier.init"});
  expect(Code::misaligned_access,
         kernel(bulk + "mov.u32 %r3, 24;\ncp.async.bulk.global.shared::cta.bulk_group [%rd1], [s], %r3;"), in,
         {"24 bytes"});
  expect(Code::out_of_bounds, kernel(bulk + "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [s], 128;"), in,
         {"128 bytes"});
  // Bytes for another mbarrier than the one that is waited for.
  expect(Code::barrier_deadlock,
         kernel(bulk + ".shared .align 8 .b64 other;\nmbarrier.init.shared.b64 [other], 1;\nWAIT:\n"
                       "mbarrier.try_wait.parity.shared.b64 %p1, [other], 0;\n@!%p1 bra WAIT;"),
         in,
         {"`other`: 0 of 1 arrivals",
          "nobody waits for the mbarrier `full`, which is in phase 0: 1 of 1 arrivals, 0 of 16 bytes"});
}

TEST_CASE("tensor maps") {
  expect(
      Code::tensor_map_rule,
      kernel(".shared .align 128 .b8 s[128];\n.shared .align 8 .b64 full;\nmbarrier.init.shared.b64 [full], 1;\n"
             "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1, {%r1}], [full];"),
      shape(1, 1, "inout", std::string(256, '0')), {"none"});
}

TEST_CASE("shared memory of a CTA that has exited") {
  // CTA 1 arrives at a barrier of CTA 0 and exits; CTA 0 waits for that and then stores there.
  std::string text = kernel(
      ".shared .align 8 .b64 b;\n.shared .align 8 .b64 word;\nmov.u32 %r3, b;\nsetp.eq.u32 %p1, %r2, 1;\n"
      "@!%p1 mbarrier.init.shared.b64 [b], 1;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n@%p1 bra PEER;\n"
      "WAIT:\nmbarrier.try_wait.parity.shared.b64 %p2, [b], 0;\n@!%p2 bra WAIT;\nmov.u32 %r4, word;\n"
      "mapa.shared::cluster.u32 %r5, %r4, 1;\nst.shared::cluster.u32 [%r5], %r1;\nret;\n"
      "PEER:\nmapa.shared::cluster.u32 %r5, %r3, 0;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];");
  text.replace(text.find("(.param .u64 p)"), 15, "(.param .u64 p) .reqnctapercluster 2");
  expect(Code::out_of_bounds, text, shape(2, 1), {"CTA 1 of the cluster, whose last thread has exited at line"});
}

TEST_CASE("the cluster's barrier") {
  expect(Code::barrier_misuse, kernel("barrier.cluster.wait;"), shape(1, 1), {"without having arrived"});
  expect(Code::barrier_misuse, kernel("barrier.cluster.arrive;\nbarrier.cluster.arrive;"), shape(1, 1), {"twice"});
  // It is complete when all have arrived, whoever waits: the second thread waits for the first, which waits later.
  const auto result = sim_test::run(
      kernel(
          ".shared .align 8 .b64 b;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 mbarrier.init.shared.b64 [b], 1;\nbar.sync 0;\n"
          "barrier.cluster.arrive;\n@%p1 bra FIRST;\nbarrier.cluster.wait;\nmbarrier.arrive.shared.b64 _, [b];\nret;\n"
          "FIRST:\nmbarrier.try_wait.parity.shared.b64 %p2, [b], 0;\n@!%p2 bra FIRST;\nbarrier.cluster.wait;\n"
          "st.global.u32 [%rd1], %r1;"),
      shape(1, 2, "inout", std::string(128, '0')));
  CHECK_MESSAGE(result.diagnostics.empty(), to_string(result.diagnostics));
}

TEST_CASE("control") {
  expect(Code::budget_exceeded, kernel("A:\nadd.u32 %r1, %r1, 1;\nbra A;"), shape(1, 32),
         {"10000 instructions of warps, the budget", "warp 0, lanes 0-31 at"}, {.budget = 10000});
  // The budget is of the launch: no block alone executes so many.
  expect(Code::budget_exceeded,
         kernel("mov.u32 %r3, 50;\nA:\nsub.u32 %r3, %r3, 1;\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 bra A;"), shape(1000, 32),
         {"10000 instructions of warps, the budget"}, {.budget = 10000});
  const std::string forever_here = kernel("A:\nbra A;");
  expect(Code::interrupted, forever_here, shape(4, 32), {}, {.interrupted = [] { return true; }});
  expect(Code::interrupted, forever_here, shape(4, 32), {}, {.cores = 1, .interrupted = [] { return true; }});
  expect(Code::trapped, kernel("setp.eq.u32 %p1, %r1, 3;\n@%p1 trap;"), shape(1, 32), {"thread (3,0,0)"});
  expect(Code::bad_branch_index, kernel("add.u32 %r3, %r1, 2;\nts: .branchtargets A, B;\nbrx.idx %r3, ts;\nA:\nB:"),
         shape(1, 1), {"entry 2 of a table of 2"});
  const std::string forever = ".func f()\n{\n.local .align 8 .b8 s[1024];\ncall f;\nret;\n}\n";
  expect(Code::stack_overflow, kernel("call f;", ".param .u64 p", forever), shape(1, 1));
  expect(Code::stack_overflow, kernel("alloca.u64 %rd2, 600000;"), shape(1, 1), {"600000 bytes", "at most 524288"});
  expect(Code::bad_argument, kernel("stacksave.u64 %rd2;\nadd.u64 %rd2, %rd2, 8;\nstackrestore.u64 %rd2;"), shape(1, 1),
         {"sets its stack pointer to 8", "in this call it has been 0 to 0"});
  expect(Code::uninitialised_memory,
         kernel("alloca.u64 %rd2, 8;\nld.local.u32 %r3, [%rd2];\nst.global.u32 [%rd1], %r3;"), shape(1, 1));
  expect(Code::bad_argument,
         kernel("mov.u32 %r3, 64;\ncreatepolicy.range.global.L2::evict_last.b64 %rd2, [%rd1], %r3, 32;"), shape(1, 1),
         {"a primary size of 64 bytes and a total size of 32"});
  const std::string printf = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n";
  const std::string calls = "{ .param .b64 a; .param .b64 b; .param .b32 r; call (r), vprintf, (a, b); }";
  expect(Code::bad_call, kernel(calls, ".param .u64 p", printf), shape(1, 1), {"vprintf", "which is no string"});
  const std::string elsewhere = ".extern .func elsewhere();\n";
  expect(Code::bad_call, kernel("call elsewhere;", ".param .u64 p", elsewhere), shape(1, 1), {"`elsewhere`"});
  expect(Code::bad_call, kernel("mov.u64 %rd2, 12;\nproto: .callprototype _ ();\ncall %rd2, proto;"), shape(1, 1));
}

TEST_CASE("a livelock says what the threads look at") {
  const std::string flag = ".shared .align 4 .b32 flag[2];\nst.shared.u32 [flag+4], 0;\n";
  const sim_test::Fixture f = shape(1, 1, "inout", "0000000000000000");
  expect(Code::livelock,
         kernel(flag + "A:\nld.volatile.shared.u32 %r3, [flag+4];\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 bra A;"), f,
         {"looks at `flag`+4 again and again"});
  expect(Code::livelock,
         kernel(flag + "mov.u64 %rd2, flag;\ncvta.shared.u64 %rd2, %rd2;\nA:\nld.volatile.u32 %r3, "
                       "[%rd2+4];\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 bra A;"),
         f, {"looks at `flag`+4 again and again"});
  expect(Code::livelock, kernel("A:\nld.acquire.gpu.global.u32 %r3, [%rd1+4];\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 bra A;"),
         f, {"looks at `argument 0`+4 again and again"});
}

TEST_CASE("what cannot run") {
  expect(Code::cannot_simulate, kernel("istypep.samplerref %p1, %rd1;"), shape(1, 1),
         {"istypep", "no object of a launch is a texture"});
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
  const auto with = [](std::string_view directive) {
    return cat(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) ", directive,
               " { ret; }\n");
  };
  expect(Code::launch_shape, with(".reqntid 64"), shape(1, 32), {"the block is (32,1,1)", "asks for (64,1,1)"});
  expect(Code::launch_shape, with(".maxntid 8, 2"), shape(1, 32), {"has 32 threads", "allows 16"});
  // Octal, hexadecimal and binary; of two directives the second counts, as in the assembler's machine code.
  expect(Code::launch_shape, with(".maxntid 010, 0b10, 0x1U"), shape(1, 32), {"has 32 threads", "allows 16"});
  expect(Code::launch_shape, with(".maxntid 128 .maxntid 16"), shape(1, 32), {"allows 16"});
  expect(Code::launch_shape, with(".reqntid 32 .reqntid 0100"), shape(1, 32), {"asks for (64,1,1)"});
  sim_test::Fixture pairs = shape(4, 32, "inout", "00");
  pairs.cluster = {2, 1, 1};
  expect(Code::launch_shape, with(".reqnctapercluster 4"), pairs, {"the cluster is (2,1,1)", "asks for (4,1,1)"});
  CHECK(sim_test::run(with(".reqntid 32 .reqnctapercluster 2"), pairs).diagnostics.empty());
}

TEST_CASE("sizes that a text may ask for") {
  expect(Code::cannot_simulate,
         kernel("st.global.u32 [%rd1], %r1;", ".param .u64 p", ".global .b8 large[1099511627776];\n"), shape(1, 1),
         {"`large`"});
  expect(Code::cannot_simulate, kernel(".local .b8 large[1099511627776];\nst.local.u32 [large], %r1;"), shape(1, 1),
         {"local memory"});
  expect(Code::directive_value, kernel(".shared .b8 large[1000000000];\nst.shared.u32 [large], %r1;"), shape(1, 1),
         {".shared variables take 1000000000 bytes"});
  const auto many =
      sim_test::run(kernel(".reg .b64 %many<4000000>;\nst.global.u32 [%rd1], %r1;"), shape(1, 1, "out", "4"));
  CHECK_MESSAGE(many.diagnostics.empty(), to_string(many.diagnostics));
}
