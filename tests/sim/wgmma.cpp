// wgmma on the simulator: what one product gives, and what is said of wrong programs. Types, shapes and layouts are
// compared with what a GPU gave by tests/oracle/test_sweep.py.
#include <doctest/doctest.h>

#include "tests/sim/run.h"

using namespace ptx;

namespace {

// 128 threads fill 4 KB of shared memory with 1.0 of .f16, from which A (64x16) and B (16x8) are taken.
std::string kernel(const std::string& body) {
  return R"(.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
.shared .align 1024 .b8 s[4096];
.reg .pred %p<4>;
.reg .b32 %r<16>, %a<4>;
.reg .f32 %f<8>;
.reg .b64 %rd<8>;
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
mad.wide.u32 %rd1, %r1, 16, %rd1;
shr.u32 %r4, %r1, 5;
mov.u32 %r2, s;
mad.lo.u32 %r2, %r1, 32, %r2;
mov.b32 %r3, 0x3c003c00;
st.shared.v4.b32 [%r2], {%r3, %r3, %r3, %r3};
st.shared.v4.b32 [%r2+16], {%r3, %r3, %r3, %r3};
mov.b32 %a0, 0x3c003c00;
mov.b32 %a1, %a0;
mov.b32 %a2, %a0;
mov.b32 %a3, %a0;
mov.f32 %f0, 1.0;
mov.f32 %f1, %f0;
mov.f32 %f2, %f0;
mov.f32 %f3, %f0;
mov.b64 %rd2, 0x0000001000080000;
fence.proxy.async;
bar.sync 0;
wgmma.fence.sync.aligned;
)" + body +
         "\nret;\n}\n";
}
const std::string product =
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd2, %rd2, 1, 1, 1, 0, 0;\n";
const std::string registers =
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%a0, %a1, %a2, %a3}, %rd2, 1, -1, 1, "
    "0;\n";
const std::string wait = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
const std::string store = "st.global.v4.f32 [%rd1], {%f0, %f1, %f2, %f3};";

sim_test::Result run(const std::string& body, std::uint32_t threads = 128, sim::Options options = {}) {
  sim_test::Fixture f;
  f.grid = {1, 1, 1}, f.block = {threads, 1, 1};
  f.arguments = {{"inout", sim_test::expand("00*" + std::to_string(16 * threads)), {}}};
  return sim_test::run(kernel(body), f, options);
}

void expect(Code code, const std::string& body, const std::vector<std::string>& words, std::uint32_t threads = 128) {
  const auto result = run(body, threads);
  REQUIRE_MESSAGE(!result.diagnostics.empty(), info(code).name);
  const std::string said = to_string(result.diagnostics);
  CHECK_MESSAGE(result.diagnostics[0].code == code, said);
  for (const std::string& word : words) CHECK_MESSAGE(said.find(word) != said.npos, word, " is not in ", said);
}

void gives(const std::string& body, const std::string& value) {
  for (const std::uint64_t seed : {0, 1, 2}) {
    sim::Options options;
    options.seed = seed;
    const auto result = run(body, 128, options);
    CHECK_MESSAGE(result.diagnostics.empty(), to_string(result.diagnostics));
    CHECK(result.outputs[0] == sim_test::expand(value + "*512"));
  }
}

}  // namespace

TEST_CASE("a product is there after wait_group") {
  gives(product + wait + store, "00008841");                                                             // 1 + 16
  gives(registers + wait + store, "000070c1");                                                           // 1 - 16
  gives(product + product + "wgmma.commit_group.sync.aligned;\n" + product + wait + store, "00004442");  // 1 + 48
}

TEST_CASE("wait_group n leaves the last n groups open") {
  const std::string other =
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f4, %f5, %f6, %f7}, %rd2, %rd2, 0, 1, 1, 0, 0;\n";
  const std::string two = product + "wgmma.commit_group.sync.aligned;\n" + other +
                          "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;\n";
  gives(two + store, "00008841");
  expect(Code::uninitialised_register, two + "st.global.v4.f32 [%rd1], {%f4, %f5, %f6, %f7};",
         {"without wgmma.wait_group in between"});
}

TEST_CASE("registers are the product's until wait_group") {
  expect(Code::uninitialised_register, product + "wgmma.commit_group.sync.aligned;\n" + store,
         {"uses what", "wgmma.mma_async", "without wgmma.wait_group in between"});
  expect(Code::uninitialised_register, product + "wgmma.wait_group.sync.aligned 0;\n" + store,
         {"without wgmma.wait_group in between"});  // of no group
  expect(Code::barrier_misuse, product + "mov.f32 %f2, 0.0;\n" + wait + store,
         {"`%f2`", "as an accumulator", "written before wgmma.wait_group"});
  expect(Code::barrier_misuse, registers + "mov.b32 %a1, 0;\n" + wait + store,
         {"`%a1`", "as a part of A", "written before wgmma.wait_group"});
}

TEST_CASE("all four warps of a warpgroup execute the same") {
  expect(Code::divergent_barrier, product, {"is of a warpgroup that has not 128 threads: the CTA has 96"}, 96);
  expect(Code::barrier_deadlock, "setp.eq.u32 %p1, %r4, 2;\n@%p1 bra END;\n" + product + wait + store + "\nEND:",
         {"waits for a product of its warpgroup, to which warps 2 have not come"});
  expect(Code::divergent_barrier, "setp.eq.u32 %p1, %r4, 2;\n@%p1 bra END;\n" + product + "END:",
         {"only 3 of the 4 warps of its warpgroup did"});
  expect(Code::divergent_barrier,
         "setp.eq.u32 %p1, %r4, 2;\n@%p1 bra ELSE;\n" + product + "bra END;\nELSE:\n" + product + "END:\n" + wait,
         {"executes it where another warp of its warpgroup executed", "wgmma.mma_async"});
  expect(Code::barrier_misuse, "setp.eq.u32 %p1, %r4, 2;\n@%p1 add.s64 %rd2, %rd2, 1;\n" + product + wait,
         {"another descriptor or scale-d than the other warps"});
  expect(Code::barrier_misuse, "setp.eq.u32 %p1, %r1, 5;\n@%p1 add.s64 %rd2, %rd2, 1;\n" + product + wait,
         {"thread (5,0,0)", "another descriptor or scale-d than thread 0 of its warp"});
}

TEST_CASE("descriptors that name no matrix in shared memory") {
  expect(Code::out_of_bounds, "mov.b64 %rd2, 0x0000002800080000;\n" + product + wait,
         {"descriptor of A that reaches 0x1180 of shared memory, which has 4096 bytes",
          "start address 0x0, leading dimension byte offset 128, stride dimension byte offset 640"});
  expect(Code::bad_argument, "mov.b64 %rd2, 0x4002001000080010;\n" + product + wait,
         {"descriptor of A with base_offset = 1", "start address 256", "128B"});
  expect(Code::uninitialised_memory,
         ".shared .align 128 .b8 t[256];\nmov.b64 %rd3, t;\nshr.u64 %rd3, %rd3, 4;\nor.b64 %rd3, %rd3, %rd2;\n"
         "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd2, %rd3, 1, 1, 1, 0, 0;\n" +
             wait,
         {"reads B at `t`, which was never written"});
}
