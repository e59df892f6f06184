// What the watched engine tells: every access with its memory, offset, kind and order; and the same results.
#include "ptx/sim/watch/observer.h"

#include <doctest/doctest.h>

#include "tests/sim/run.h"

using namespace ptx;

namespace {

struct Told {
  isa::Space space;
  std::uint64_t offset, bytes;
  sim::Access kind;
  sim::Manner manner;
  int lane;
};

class Recorder final : public sim::Observer {
 public:
  void accessed(const sim::Agent& agent, const sim::Location& where, sim::Access kind,
                const sim::Manner& manner) override {
    told.push_back({where.space, where.offset, where.bytes, kind, manner, agent.lane});
  }
  std::vector<Told> told;
};

}  // namespace

TEST_CASE("an observer is told of every access before addresses become the host's") {
  const std::string text = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
  .shared .align 8 .b8 s[64];
  .local .align 8 .b8 l[64];
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 8;
  mov.u64 %rd3, s;
  add.u64 %rd3, %rd3, %rd2;
  st.shared.v2.b32 [%rd3+8], {%r1, %r1};
  cvta.shared.u64 %rd4, %rd3;
  atom.add.acq_rel.cta.u32 %r2, [%rd4+12], 1;
  st.local.u16 [l+6], %r1;
  add.u64 %rd1, %rd1, %rd2;
  st.release.gpu.global.u32 [%rd1+4], %r2;
  ret;
}
)";
  sim_test::Fixture f;
  f.block = {2, 1, 1};
  f.arguments = {{"inout", std::string(128, '0'), {}}};
  Recorder recorder;
  const auto watched = sim_test::run(text, f, {.observer = &recorder});
  CHECK_MESSAGE(watched.diagnostics.empty(), to_string(watched.diagnostics));
  CHECK(watched.outputs == sim_test::run(text, f).outputs);
  using isa::Space;
  using sim::Access;
  // Of thread 1; the parameter and global memory are at host addresses.
  struct Expected {
    Space space;
    std::uint64_t offset, bytes;
    Access kind;
    sim::Order order;
    sim::Scope scope;
  };
  const Expected expected[] = {{Space::param, 0, 8, Access::read, sim::Order::weak, sim::Scope::gpu},
                               {Space::shared_cta, 16, 8, Access::write, sim::Order::weak, sim::Scope::gpu},
                               {Space::shared_cta, 20, 4, Access::update, sim::Order::acq_rel, sim::Scope::cta},
                               {Space::local, 6, 2, Access::write, sim::Order::weak, sim::Scope::gpu},
                               {Space::global, 12, 4, Access::write, sim::Order::release, sim::Scope::gpu}};
  std::erase_if(recorder.told, [](const Told& t) { return t.lane != 1; });
  REQUIRE(recorder.told.size() == std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    const Told& t = recorder.told[i];
    const Expected& e = expected[i];
    CAPTURE(i);
    CHECK(t.space == e.space);
    const bool host = e.space == Space::param || e.space == Space::global;
    CHECK((host ? t.offset % 8 : t.offset) == (host ? e.offset % 8 : e.offset));
    CHECK(t.bytes == e.bytes);
    CHECK(t.kind == e.kind);
    CHECK(t.manner.order == e.order);
    CHECK(t.manner.scope == e.scope);
  }
}
