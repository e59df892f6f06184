// The table of bodies against the rows: what a body takes is what its row has.
#include "ptx/sim/exec/table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "ptx/isa/row.h"
#include "ptx/sim/exec/lane.h"

using namespace ptx;

namespace {

// One mnemonic of a form: the first value of each slot, with and without what is optional.
std::string spell(const isa::Form& form, bool optional, std::size_t pick) {
  std::string text(form.text(form.opcode));
  for (const isa::Modifier& m : form.modifiers) {
    if (m.group && !optional) continue;
    text += '.';
    if (m.slot == isa::Modifier::literal) {
      text += form.text(m.text);
    } else {
      const isa::Slot& slot = form.slots[m.slot];
      text += form.text(form.values[slot.first + pick % slot.count].text);
    }
  }
  return text;
}

}  // namespace

TEST_CASE("a lane has the bits of its type, and every type of a register has a lane") {
  using namespace ptx::sim;
  std::set<isa::Type> known;
#define LANE(type, ...)                                                                        \
  CHECK(8 * sizeof(__VA_ARGS__) == std::max<std::size_t>(8, isa::info(isa::Type::type).bits)); \
  CHECK(known.insert(isa::Type::type).second);
#include "ptx/sim/exec/lane_types.def"
#undef LANE
#define TYPE(name, bits, kind, declarable, prefix, other) \
  if (declarable) CHECK_MESSAGE(known.contains(isa::Type::name), #name);
#include "ptx/isa/types.def"
#undef TYPE
}

TEST_CASE("every row binds, and its body takes what the row has") {
  std::set<std::string> unsimulated;
  std::ifstream file(PTX_SOURCE_DIR "/ptx/sim/exec/unsimulated.def");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("UNSIMULATED(")) unsimulated.insert(line.substr(12, line.find(',') - 12));
  }
  int bound = 0;
  for (const isa::Form& form : isa::forms()) {
    CAPTURE(form.id);
    for (std::size_t pick = 0; pick < 24; ++pick) {
      for (const isa::Match& match : isa::resolve(spell(form, pick % 2, pick / 2))->matches) {
        if (match.form != &form) continue;
        const sim::Bound b = sim::bind(match);
        CAPTURE(spell(form, pick % 2, pick / 2));
        if (unsimulated.contains(std::string(form.id))) CHECK(b.why != nullptr);
        if (b.why) continue;
        CHECK(static_cast<bool>(b.run));
        if (!b.run) continue;
        ++bound;
        if (b.whole_warp) continue;
        const auto has = std::count_if(match.operands.begin(), match.operands.end(),
                                       [](const isa::Pattern& p) { return p.row->destination; });
        CHECK(b.destinations == has);
        CHECK(b.sources >= static_cast<int>(match.operands.size()) - has - 1);  // a cache policy is nothing to a body
      }
    }
  }
  CHECK(bound > 1000);
}

TEST_CASE("lines of unsimulated.def name rows and give reasons") {
  std::ifstream file(PTX_SOURCE_DIR "/ptx/sim/exec/unsimulated.def");
  std::set<std::string> seen;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("UNSIMULATED(")) continue;
    const std::string id = line.substr(12, line.find(',') - 12);
    CHECK_MESSAGE(seen.insert(id).second, id);
    const auto forms = isa::forms();
    CHECK_MESSAGE(std::any_of(forms.begin(), forms.end(), [&](const isa::Form& f) { return f.id == id; }), id,
                  " is no row");
    CHECK_MESSAGE(line.size() > id.size() + 24, id, " has no reason");
  }
}

TEST_CASE("accesses are ordered as the manual says where a modifier does not") {
  using namespace ptx::sim;
  struct Case {
    std::string_view mnemonic;
    Order order;
    Scope scope;
    Proxy proxy = Proxy::generic;
  };
  const Case cases[] = {
      {"ld.global.u32", Order::weak, Scope::gpu},
      {"ld.volatile.global.u32", Order::relaxed, Scope::sys},
      {"ld.acquire.cluster.global.u32", Order::acquire, Scope::cluster},
      {"atom.global.add.u32", Order::relaxed, Scope::gpu},
      {"atom.acq_rel.sys.global.add.u32", Order::acq_rel, Scope::sys},
      {"red.global.add.u32", Order::relaxed, Scope::gpu},
      {"membar.cta", Order::sc, Scope::cta},
      {"fence.cta", Order::acq_rel, Scope::cta},
      {"fence.sc.gpu", Order::sc, Scope::gpu},
      {"mbarrier.init.shared.b64", Order::weak, Scope::cta},
      {"mbarrier.arrive.shared.b64", Order::release, Scope::cta},
      {"mbarrier.arrive.relaxed.cluster.shared.b64", Order::relaxed, Scope::cluster},
      {"mbarrier.try_wait.shared.b64", Order::acquire, Scope::cta},
      {"mbarrier.expect_tx.relaxed.cta.shared.b64", Order::relaxed, Scope::cta},
      {"barrier.cluster.arrive", Order::release, Scope::cluster},
      {"barrier.cluster.arrive.relaxed", Order::relaxed, Scope::cluster},
      {"barrier.cluster.wait", Order::acquire, Scope::cluster},
      {"cp.async.cg.shared.global", Order::weak, Scope::gpu},
      {"cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes", Order::weak, Scope::gpu, Proxy::async},
      {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32", Order::weak, Scope::gpu, Proxy::async},
      {"st.bulk.shared::cta", Order::weak, Scope::gpu},
  };
  for (const Case& c : cases) {
    CAPTURE(c.mnemonic);
    const isa::Mnemonic* mnemonic = isa::resolve(c.mnemonic);
    REQUIRE(!mnemonic->matches.empty());
    const Manner m = manner(mnemonic->matches.front());
    CHECK(m.order == c.order);
    CHECK(m.scope == c.scope);
    CHECK(m.proxy == c.proxy);
  }
}
