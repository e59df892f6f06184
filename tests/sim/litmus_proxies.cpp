// Proxies beside the axiom of 8.9.5: a path of causality from a generic write to an asynchronous copy that reads it
// counts if a fence between the two proxies lies on it. The programs have such fences, of every kind, at every set of
// places of two threads; the copy reads global or shared memory, and the threads synchronise or do not.
#include <doctest/doctest.h>

#include "ptx/base/text.h"
#include "tests/sim/run.h"

using namespace ptx;

namespace {

enum Place : unsigned { before_write, behind_write, behind_release, before_acquire, behind_acquire, places };
constexpr std::string_view fences[] = {"fence.proxy.async;", "fence.proxy.async.global;",
                                       "fence.proxy.async.shared::cta;"};

struct Program {
  unsigned where;       // bit i: a fence at Place i
  std::size_t kind;     // of fences
  bool shared, orders;  // what the copy reads; whether the threads synchronise

  // 8.9.5: on the path from the write to the copy, of the proxy of what is copied.
  bool is_ordered() const { return orders; }
  bool has_fence() const {
    const bool fits = kind == 0 || kind == (shared ? 2 : 1);
    return fits && (where & (1u << behind_write | 1u << behind_acquire));
  }
  std::string fence(Place place) const { return where >> place & 1 ? cat(fences[kind], "\n") : std::string(); }

  std::string text() const {
    const std::string head =
        ".version 8.6 .target sm_90a .address_size 64 .visible .entry k(.param .u64 p) { .reg .pred %p<4>; .reg .b32 "
        "%r<8>; .reg .b64 %rd<8>; "
        ".shared .align 16 .b8 tile[16]; .shared .align 8 .b64 full; ld.param.u64 %rd1, [p]; mov.u32 %r7, 5;\n";
    const std::string release = shared   ? orders ? "bar.arrive 1, 64;\n" : ""
                                : orders ? "st.release.gpu.global.u32 [%rd1+64], %r7;\n"
                                         : "st.relaxed.gpu.global.u32 [%rd1+64], %r7;\n";
    const std::string acquire = shared   ? orders ? "bar.sync 1, 64;\n" : ""
                                : orders ? "ld.acquire.gpu.global.u32 %r3, [%rd1+64];\n"
                                         : "ld.relaxed.gpu.global.u32 %r3, [%rd1+64];\n";
    const std::string which = shared ? "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; shr.u32 %r1, %r1, 5;\n"
                                     : "mov.u32 %r1, %ctaid.x; mov.u32 %r2, 0;\n";
    const std::string write = shared ? "@!%p2 st.shared.v4.u32 [tile], {%r7, %r7, %r7, %r7};\n"
                                     : "st.global.v4.u32 [%rd1], {%r7, %r7, %r7, %r7};\n";
    const std::string copy =
        shared
            ? "@%p2 bra end;\ncp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], "
              "16;\ncp.async.bulk.commit_group;\n"
              "cp.async.bulk.wait_group 0;\n"
            : "mbarrier.init.shared.b64 [full], 1;\nmbarrier.arrive.expect_tx.shared.b64 %rd2, [full], 16;\n"
              "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 16, [full];\nwait:\n"
              "mbarrier.try_wait.parity.shared.b64 %p3, [full], 0;\n@!%p3 bra wait;\n";
    return cat(head, which, "setp.ne.u32 %p1, %r1, 0;\nsetp.ne.u32 %p2, %r2, 0;\n@%p1 bra second;\n",
               fence(before_write), write, fence(behind_write), release, fence(behind_release), "bra end;\nsecond:\n",
               fence(before_acquire), acquire, fence(behind_acquire), copy, "end:\nret;\n}\n");
  }
};

void compare(const Program& program) {
  sim_test::Fixture f;
  f.grid = {program.shared ? 1u : 2u, 1, 1}, f.block = {program.shared ? 64u : 1u, 1, 1};
  f.arguments = {{"inout", std::string(512, '0'), {}}};
  const std::string text = program.text();
  const auto said = sim_test::run(text, f, {.checks = *sim::checks_named("all")}).diagnostics;
  if (!program.is_ordered()) {
    CHECK_MESSAGE(!said.empty(), "nothing orders the two\n", text);
  } else if (program.has_fence()) {
    CHECK_MESSAGE(said.empty(), to_string(said), text);
  } else {
    REQUIRE_MESSAGE(said.size() == 1, to_string(said), text);
    CHECK_MESSAGE(said.front().code == Code::missing_proxy_fence, to_string(said), text);
  }
}

}  // namespace

TEST_CASE("copies of what a thread wrote are ordered behind it where the axiom of proxies says so") {
  for (const bool shared : {false, true}) {
    for (const bool orders : {false, true}) {
      for (std::size_t kind = 0; kind < std::size(fences); ++kind) {
        for (unsigned where = 0; where < 1u << places; ++where) compare({where, kind, shared, orders});
      }
    }
  }
}
