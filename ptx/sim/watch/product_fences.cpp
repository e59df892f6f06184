#include "ptx/sim/watch/product_fences.h"

#include <algorithm>

#include "ptx/base/text.h"
#include "ptx/sim/exec/wgmma_product.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/watch/names.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

namespace {

constexpr const char* mend_write = "wgmma.wait_group for the product, in front of the write";
constexpr const char* mend_product =
    "wgmma.fence.sync.aligned by all warps of the warpgroup, behind the last access of the registers and in front of "
    "the product";
constexpr const char* keep_in_front =
    "a compiler moves arithmetic behind the fence; in CUDA C++ asm volatile(\"\" : \"+f\"(x) :: \"memory\") in front "
    "of it "
    "keeps x there";

std::uint32_t row_of(const Operand& o) { return o.offset / static_cast<std::uint32_t>(sizeof(Line)); }

// f(operand, whether it is of A) for each register of a product.
template <class F>
void each_register(const Op& op, F f) {
  const auto& plan = *static_cast<const ProductPlan*>(op.plan);
  for (std::uint32_t i = 0; i < plan.registers; ++i) f(op.operands[i], false);
  for (std::uint32_t i = 0; i < 4 && plan.a_in_registers; ++i) f(op.operands[op.destinations + i], true);
}

const Warpgroup::Member& member_of(const Warp& warp) {
  static const Warpgroup::Member none;
  const std::size_t group = warp.index / Warpgroup::warps;
  return group < warp.cta.warpgroups.size() ? warp.cta.warpgroups[group].members[warp.index % Warpgroup::warps] : none;
}

bool same_shape(const Op& a, const Op& b) {
  const auto &x = static_cast<const ProductPlan*>(a.plan)->shape, &y = static_cast<const ProductPlan*>(b.plan)->shape;
  return x.m == y.m && x.n == y.n && x.k == y.k;
}

}  // namespace

bool ProductFences::concerns(const Program& program) {
  return std::any_of(program.ops.begin(), program.ops.end(),
                     [](const Op& op) { return product_step(op) == ProductStep::product; });
}

ProductFences::ProductFences(const Launch& launch) : launch_(launch) {
  std::vector<bool> of_products;
  for (const Op& op : launch.program.ops) {
    if (product_step(op) != ProductStep::product) continue;
    each_register(op, [&](const Operand& o, bool) {
      if (row_of(o) >= of_products.size()) of_products.resize(row_of(o) + 1);
      of_products[row_of(o)] = o.bank == Bank::registers && o.slot != 0;
    });
  }
  for (std::uint32_t pc = 0; pc < launch.program.ops.size(); ++pc) {
    first_.push_back(static_cast<std::uint32_t>(rows_.size()));
    note_rows(pc, of_products);
  }
  first_.push_back(static_cast<std::uint32_t>(rows_.size()));
}

void ProductFences::note_rows(std::uint32_t pc, const std::vector<bool>& of_products) {
  const Op& op = launch_.program.ops[pc];
  const auto is_of_product = [&](const Operand& o) {
    return o.bank == Bank::registers && o.slot != 0 && row_of(o) < of_products.size() && of_products[row_of(o)];
  };
  const auto note = [&](const Operand& o, Use use) {
    if (is_of_product(o)) rows_.push_back({row_of(o), o.slot, use});
  };
  if (product_step(op) == ProductStep::product)
    return each_register(op, [&](const Operand& o, bool of_a) { note(o, of_a ? Use::multiplies : Use::accumulates); });
  if (launch_.program.generated && launch_.program.mnemonics[pc].starts_with("mov.")) {
    std::uint32_t source = Row{}.source;
    for (int i = op.sources; i-- > 0;)
      if (const Operand& o = op.operands[op.destinations + i]; is_of_product(o)) source = row_of(o);
    for (int i = 0; i < op.destinations; ++i)
      if (const Operand& o = op.operands[i]; is_of_product(o))
        rows_.push_back({row_of(o), o.slot, Use::writes, true, source});
    return;
  }
  for (int i = 0; i < op.sources; ++i) note(op.operands[op.destinations + i], Use::reads);
  for (int i = 0; i < op.destinations; ++i) note(op.operands[i], Use::writes);
}

void ProductFences::executing(Warp& warp, std::uint32_t pc, Mask) {
  const ProductStep step = product_step(launch_.program.ops[pc]);
  if (first_[pc] == first_[pc + 1] && step == ProductStep::none) return;
  Watched& w = warps_[&warp];
  if (step == ProductStep::fence) {
    ++w.fences, w.fenced = true;
    return;
  }
  if (step == ProductStep::product && !w.fenced) {
    w.fenced = true;
    report(Code::missing_product_fence, warp, pc, pc,
           "begins the first product of its warpgroup without a wgmma.fence before");
  }
  const std::shared_ptr<Frame>& frame = warp.current.frame;
  if (frame->depth >= w.levels.size()) w.levels.resize(frame->depth + 1);
  Level& level = w.levels[frame->depth];
  if (level.frame != frame) level = {frame, std::vector<Touch>(frame->registers.size())};
  for (std::uint32_t i = first_[pc]; i < first_[pc + 1]; ++i) {
    const Row& row = rows_[i];
    Touch& last = level.last[row.row];
    if (step == ProductStep::product && last.fences == w.fences) judge(warp, pc, row, last);
    if (row.use == Use::writes || row.use == Use::accumulates) overwrites(warp, pc, row, last);
    if (row.copies) {
      last = copied(level, row, last);
      continue;
    }
    last.fences = w.fences, last.pc = pc, last.use = row.use;
    if (row.use == Use::multiplies) last.product = member_of(warp).begun + 1, last.product_pc = pc;
  }
}

// What is known of a register after a compiler's mov: the last touch of what it copies.
ProductFences::Touch ProductFences::copied(const Level& level, const Row& row, const Touch& before) {
  Touch made = row.source < level.last.size() ? level.last[row.source] : Touch{};
  made.product = before.product, made.product_pc = before.product_pc;
  return made;
}

// A register that a product under way has for A, written.
void ProductFences::overwrites(const Warp& warp, std::uint32_t pc, const Row& row, const Touch& before) {
  if (!before.product || before.product <= member_of(warp).waited) return;
  report(Code::barrier_misuse, warp, pc, before.product_pc,
         cat("writes ", register_name(warp, row.slot), ", which ", place_name(warp, before.product_pc),
             " has as a part of A; nothing waited for that product"));
}

// Nothing fenced the two.
void ProductFences::judge(Warp& warp, std::uint32_t pc, const Row& row, const Touch& before) {
  const std::vector<Op>& ops = launch_.program.ops;
  if (before.use == row.use && (row.use == Use::multiplies || same_shape(ops[before.pc], ops[pc]))) return;
  const char* did = before.use == Use::reads    ? "reads it"
                    : before.use == Use::writes ? "writes it"
                                                : "is another product that has it";
  report(Code::missing_product_fence, warp, pc, before.pc,
         cat("has ", register_name(warp, row.slot), row.use == Use::multiplies ? " for A" : " as an accumulator",
             ", and ", place_name(warp, before.pc), ' ', did, "; no wgmma.fence stands between"));
}

void ProductFences::report(Code code, const Warp& warp, std::uint32_t pc, std::uint32_t other, std::string what) {
  if (!known_.insert({other, pc}).second) return;
  std::vector<std::string> notes{code == Code::barrier_misuse ? mend_write : mend_product};
  if (code == Code::missing_product_fence && launch_.program.generated) notes.emplace_back(keep_in_front);
  std::vector<Site> sites{site_of(warp, pc, 0)};
  if (other != pc) {
    notes.insert(notes.begin(), cat("the other is ", place_name(warp, other), " of ", thread_name(warp, 0)));
    sites.push_back(site_of(warp, other, 0));
  }
  reports_.push_back({describe_fault(warp, code, pc, 0, std::move(what), std::move(notes)), std::move(sites)});
}

void ProductFences::over(Cluster& cluster) {
  for (const auto& cta : cluster.ctas) {
    for (const auto& warp : cta->warps) warps_.erase(warp.get());
  }
}

}  // namespace ptx::sim
