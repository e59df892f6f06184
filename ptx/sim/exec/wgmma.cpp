// What a warpgroup's product reads, when, and what becomes of its registers. The numbers are wgmma_product.cpp's.
#include "ptx/sim/exec/wgmma.h"

#include <algorithm>
#include <cstring>

#include "ptx/arch/fragment.h"
#include "ptx/isa/row.h"
#include "ptx/isa/shape.h"
#include "ptx/sim/exec/fragment_tables.h"
#include "ptx/sim/exec/operation.h"
#include "ptx/sim/exec/plan.h"
#include "ptx/sim/exec/wgmma_product.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/undefined.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

using namespace async_detail;

namespace {

struct Named {
  std::string_view name;
  std::uint8_t ProductPlan::* at;
};
constexpr Named names[] = {{"b", &ProductPlan::at_b},
                           {"meta", &ProductPlan::at_metadata},
                           {"sel", &ProductPlan::at_selector},
                           {"scale_d", &ProductPlan::at_scale_d},
                           {"scale_a", &ProductPlan::at_scale_a},
                           {"scale_b", &ProductPlan::at_scale_b},
                           {"trans_a", &ProductPlan::at_trans_a},
                           {"trans_b", &ProductPlan::at_trans_b}};

ProductPlan make_plan(const isa::Match& match) {
  ProductPlan plan;
  plan.shape = isa::matrix_shape(match);
  const std::vector<isa::Type> types = isa::named_types(match);
  plan.d = types[0], plan.a = types[1], plan.b = types[2];
  plan.sparse = match.has("sp");
  plan.saturate = match.has("satfinite");
  plan.bits = isa::info(plan.a).bits;
  plan.stored = plan.shape.k / (plan.sparse ? 2 : 1);
  std::uint8_t at = 0;
  for (const isa::Pattern& pattern : match.operands) {
    const std::string_view name = match.form->text(pattern.row->name);
    const auto length = static_cast<std::uint8_t>(std::max<int>(1, pattern.length));
    if (name == "a") plan.a_in_registers = length > 1;
    if (name == "d") plan.registers = length;
    if (pattern.row->destination) continue;
    for (const Named& n : names) {
      if (name == n.name) plan.*n.at = at;
    }
    at = static_cast<std::uint8_t>(at + length);
  }
  return plan;
}

// Every wgmma is executed by the four warps alike (`.sync.aligned`). Null after a fault.
Warpgroup* enter(Warp& w, Mask active) {
  const std::uint32_t number = w.index / Warpgroup::warps;
  if (active != full_mask || number >= w.cta.warpgroups.size()) {
    const int lane = std::countr_zero(active);
    w.fault(Code::divergent_barrier, lane,
            active != full_mask ? "executes it in a warp of which not all 32 threads are there"
                                : cat("is of a warpgroup that has not 128 threads: the CTA has ", w.cta.threads));
    return nullptr;
  }
  Warpgroup& group = w.cta.warpgroups[number];
  const std::uint64_t at = group.members[w.index % Warpgroup::warps].executed++ - group.behind;
  const std::uint32_t pc = w.pc - 1;
  if (at == group.instructions.size()) {
    group.instructions.push_back(pc);
  } else if (const std::uint32_t other = group.instructions[at]; other != pc) {
    w.fault(Code::divergent_barrier, 0,
            cat("executes it where another warp of its warpgroup executed ", mentioned(w, w, other)));
    return nullptr;
  }
  const auto least = std::min_element(group.members.begin(), group.members.end(), [](const auto& a, const auto& b) {
                       return a.executed < b.executed;
                     })->executed;
  for (; group.behind < least; ++group.behind) group.instructions.pop_front();
  return &group;
}

// ---- registers

bool shares(const Warpgroup::Owned& o, const Frame& frame, const Operand& row) {
  return o.frame.get() == &frame &&
         std::any_of(o.rows, o.rows + o.count, [&](const Operand& r) { return r.offset == row.offset; });
}
bool is_list(const Warpgroup::Owned& o, const Frame& frame, const Op& op, std::uint32_t count) {
  const auto same = [](const Operand& a, const Operand& b) { return a.offset == b.offset; };
  return o.frame.get() == &frame && o.count == count && std::equal(o.rows, o.rows + count, op.operands, same);
}

// The accumulators become the product's. Those of an earlier one of this shape are handed on; false after a fault.
bool take(Warp& w, Warpgroup::Member& member, const Op& op, std::uint32_t count, bool reads) {
  Frame& frame = *w.current.frame;
  const auto known = std::find_if(member.owned.begin(), member.owned.end(),
                                  [&](const auto& o) { return is_list(o, frame, op, count); });
  if (known != member.owned.end()) {
    known->product = member.begun, known->pc = w.pc - 1;
    return true;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const Operand& row = op.operands[i];
    bool owned = false;
    for (std::size_t j = 0; j < member.owned.size(); ++j) {
      const Warpgroup::Owned old = member.owned[j];
      if (!shares(old, frame, row)) continue;
      owned = true;  // of another shape: the others stay what they are, one by one
      member.owned.erase(member.owned.begin() + static_cast<std::ptrdiff_t>(j));
      for (std::uint32_t k = 0; k < old.count; ++k) {
        if (old.rows[k].offset == row.offset) continue;
        member.owned.push_back({old.frame, old.rows + k, 1, old.pc, old.product});
      }
      break;
    }
    const Mask missing = full_mask & ~frame.initialised[row.slot];
    if (reads && !owned && missing) return report_undefined(w, row, missing), false;
    if (row.slot == 0) continue;
    frame.initialised[row.slot] = 0;
    if (!frame.undefined) frame.undefined = std::make_unique<Undefined>(frame);
    frame.undefined->origins[row.slot] = {.pc = w.pc - 1, .awaits = "wgmma.wait_group"};
    std::byte* bits = reinterpret_cast<std::byte*>(frame.undefined->bits.data()) + row.offset;
    std::memset(bits, 0xff, std::size_t{lanes} * row.cell);
  }
  member.owned.push_back({w.current.frame, op.operands, count, w.pc - 1, member.begun});
  return true;
}

// What products up to this one had is the warp's own again.
void give_back(Warp& w, Warpgroup::Member& member, std::uint64_t product) {
  for (const Warpgroup::Owned& o : member.owned) {
    if (o.product > product) continue;
    for (std::uint32_t i = 0; i < o.count; ++i) {
      const Operand& row = o.rows[i];
      if (row.slot == 0) continue;
      if (const Mask touched = o.frame->initialised[row.slot]) {
        const std::string name = register_name(w, *o.frame, row.slot);
        return w.fault_at(o.pc, Code::barrier_misuse, std::countr_zero(touched),
                          cat("has ", name, " as an accumulator of this; it is written before wgmma.wait_group"),
                          writers_of(w, row, o.pc));
      }
      o.frame->initialised[row.slot] = full_mask;
    }
  }
  std::erase_if(member.owned, [&](const auto& o) { return o.product <= product; });
  member.waited = std::max(member.waited, product);
}

// ---- instructions

void finish(Warp& w, Warpgroup::Member& member, std::uint64_t product) {
  w.cta.cluster.operations.wait_warpgroup(w, product);
  Product::settle();
  if (w.event != Event::fault && w.cta.launch.stop_at > w.cta.cluster.index) give_back(w, member, product);
}

// Those who wait for this product go on.
void release(Warp& w, Warpgroup& group, std::uint64_t product) {
  const std::uint32_t number = w.index / Warpgroup::warps;
  for (std::uint32_t i = 0; i < Warpgroup::warps; ++i) {
    Warp& other = *w.cta.warps[number * Warpgroup::warps + i];
    for (Fragment& f : other.others) {
      if (f.wait.kind != Wait::Kind::warpgroup || f.wait.phase > product) continue;
      const std::uint64_t waits_for = f.wait.phase;
      f.wait = {};
      w.cta.cluster.idle = 0;
      finish(other, group.members[i], waits_for);
    }
  }
}

bool agrees(const Product& product, const Product& other) {
  return product.descriptor_a == other.descriptor_a && product.descriptor_b == other.descriptor_b &&
         product.accumulates == other.accumulates;
}

// What one warp brings to a product; false after a fault.
bool bring(Warp& w, const Op& op, const ProductPlan& plan, Product& product, bool first) {
  const Operand* s = op.operands + op.destinations;
  Product mine;
  mine.descriptor_a = plan.a_in_registers ? 0 : row64(w, s[0])[0];
  mine.descriptor_b = row64(w, s[plan.at_b])[0];
  const Mask accumulates = w.predicate(s[plan.at_scale_d]);
  mine.accumulates = accumulates != 0;
  for (int i = 0; i < lanes; ++i) {
    const bool same = row64(w, s[plan.at_b])[i] == mine.descriptor_b &&
                      (plan.a_in_registers || row64(w, s[0])[i] == mine.descriptor_a) &&
                      (accumulates >> i & 1) == (accumulates & 1);
    if (!same)
      return w.fault(Code::barrier_misuse, i, "has another descriptor or scale-d than thread 0 of its warp"), false;
  }
  if (first) {
    product.descriptor_a = mine.descriptor_a, product.descriptor_b = mine.descriptor_b;
    product.accumulates = mine.accumulates;
  } else if (!agrees(product, mine)) {
    return w.fault(Code::barrier_misuse, 0, "has another descriptor or scale-d than the other warps of its warpgroup"),
           false;
  }
  Product::Part& part = product.parts[w.index % Warpgroup::warps];
  part.frame = w.current.frame;
  part.warp = &w;
  if (plan.a_in_registers) {
    for (int r = 0; r < 4; ++r) std::memcpy(part.a[r], w.row(s[r]), sizeof part.a[r]);
  }
  if (plan.sparse) std::memcpy(part.metadata, w.row(s[plan.at_metadata]), sizeof part.metadata);
  ++product.present;
  return true;
}

void begin(Warp& w, const Op& op, Mask active) {
  const ProductPlan& plan = *static_cast<const ProductPlan*>(op.plan);
  Warpgroup* const group = enter(w, active);
  if (!group) return;
  Warpgroup::Member& member = group->members[w.index % Warpgroup::warps];
  const std::uint64_t number = ++member.begun, at = number - group->begun - 1;
  const bool first = at == group->coming.size();
  if (first) group->coming.push_back(std::make_shared<Product>(plan, op, w.pc - 1));
  const std::shared_ptr<Product> product = group->coming[at];
  if (!bring(w, op, plan, *product, first) || !take(w, member, op, plan.registers, product->accumulates)) return;
  if (product->present < Warpgroup::warps) return;
  group->coming.pop_front();
  ++group->begun;
  if (std::string why = product->read_descriptors(op); !why.empty())
    return w.fault(Code::bad_argument, 0, std::move(why));
  Operation o{.agent = agent(w, 0), .op = &op};
  o.effect = [product](const Operation& operation) { return product->run(operation); };
  o.pipe = Pipe::warpgroup;
  o.product = number;
  w.cta.cluster.operations.begin(std::move(o));
  release(w, *group, number);
}

void fence(Warp& w, const Op&, Mask active) { enter(w, active); }

void commit(Warp& w, const Op&, Mask active) {
  if (Warpgroup* const group = enter(w, active)) {
    Warpgroup::Member& member = group->members[w.index % Warpgroup::warps];
    member.groups.push_back(member.begun);
  }
}

void wait(Warp& w, const Op& op, Mask active) {
  Warpgroup* const group = enter(w, active);
  if (!group) return;
  Warpgroup::Member& member = group->members[w.index % Warpgroup::warps];
  const std::size_t most = row32(w, op.operands[0])[0];
  std::uint64_t product = 0;
  while (member.groups.size() > most) product = member.groups.front(), member.groups.pop_front();
  if (product == 0) return;
  if (product <= group->begun) return finish(w, member, product);
  w.park(active, {Wait::Kind::warpgroup, w.index / Warpgroup::warps, product});
}

Bound bound(Handler run) { return {.run = run, .whole_warp = true, .converge = true, .aligned = true}; }

}  // namespace

ProductStep product_step(const Op& op) {
  return op.run.plain == &begin   ? ProductStep::product
         : op.run.plain == &fence ? ProductStep::fence
                                  : ProductStep::none;
}

void report_partial_products(Cluster& cluster) {
  Product::settle();  // of products that nobody waited for
  for (const auto& cta : cluster.ctas) {
    for (const Warpgroup& group : cta->warpgroups) {
      if (group.coming.empty()) continue;
      const Product& product = *group.coming.front();
      for (const Product::Part& part : product.parts) {
        if (!part.warp) continue;
        return cluster.launch.report(
            cluster.index,
            describe_fault(*part.warp, Code::divergent_barrier, product.pc, 0,
                           cat("executed it, and only ", product.present, " of the 4 warps of its warpgroup did"), {}),
            {site_of(*part.warp, product.pc, 0)});
      }
    }
  }
}

// Each warp has 16 rows of D, and of A where that is in registers; .b1 in words.
std::vector<FragmentTable> wgmma_fragments(const isa::Match& match) {
  const ProductPlan plan = make_plan(match);
  const auto table = [](const char* name, const arch::Fragment& fragment, int columns, int bits, int registers) {
    FragmentTable made{.name = name, .rows = 64, .columns = columns, .bits = bits, .registers = registers};
    made.threads = Warpgroup::warps * lanes;
    return filled(std::move(made), [&](int thread, int i) {
      const auto [row, column] = fragment.cell(thread % lanes, i);
      return (thread / lanes * fragment.lines + row) * columns + column;
    });
  };
  const int lines = 64 / Warpgroup::warps, bits = plan.bits == 1 ? 32 : plan.bits;
  std::vector<FragmentTable> made{
      table("d", arch::accumulator(lines), plan.shape.n, isa::info(plan.d).bits, static_cast<int>(plan.registers))};
  if (plan.a_in_registers)
    made.push_back(table("a", arch::multiplicand(bits, lines), plan.stored * plan.bits / bits, bits, 4));
  return made;
}

Bound bind_product(const isa::Match& match) {
  Bound b = bound(&begin);
  b.plan = &plan_of<ProductPlan>(match, make_plan);
  b.late = true;
  return b;
}
Bound bind_product_fence(const isa::Match&) { return bound(&fence); }
Bound bind_product_commit(const isa::Match&) { return bound(&commit); }
Bound bind_product_wait(const isa::Match&) { return bound(&wait); }

}  // namespace ptx::sim
