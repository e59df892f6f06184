// Where registers and arrays are declared when runs have become loops: in front of the outermost loop that a later
// round or what is behind it shares them with, and not at all in rounds that are not written.
#include <algorithm>

#include "ptx/transpile/detail/plan.h"

namespace ptx::transpile {
namespace {

using ir::Operand;
using ir::RegisterId;
using Where = PlannedRegister::Where;

class Placing {
 public:
  Placing(const ir::Function& f, const Extents& extents, Plan& plan)
      : extents_(extents), plan_(plan), around_(f.body.size(), ir::no_id) {
    enter(plan.nodes, ir::no_id, 1);
  }

  void run() {
    for (RegisterId id = 0; id < plan_.registers.size(); ++id) {
      PlannedRegister& r = plan_.registers[id];
      if (r.where != Where::inside && r.where != Where::before) continue;
      const std::uint32_t depth = depth_of(around_[r.statement]);
      if (!place(r.statement, r.depth, extents_.last[id]))
        r.where = Where::nowhere;
      else if (r.depth != depth)
        r.where = Where::before;
    }
    for (PlannedArray& array : plan_.arrays) {
      std::uint32_t last = 0;
      for (const RegisterId id : array.elements)
        if (id != ir::no_id) last = std::max(last, extents_.last[id]);
      if (!place(array.statement, array.depth, last)) array.elements.clear();
    }
    sort_arrays(plan_);
  }

 private:
  struct Repeat {
    std::uint32_t at, round_end, parent, depth;
  };

  void enter(const std::vector<Node>& list, std::uint32_t parent, std::uint32_t depth) {
    for (const Node& node : list) {
      std::uint32_t inner = parent;
      const bool repeats = node.kind == Node::Kind::repeat;
      if (repeats) {
        inner = static_cast<std::uint32_t>(repeats_.size());
        repeats_.push_back({node.at, node.round_end, parent, depth});
        std::fill(around_.begin() + node.at, around_.begin() + node.end + 1, inner);
      }
      enter(node.body, inner, depth + repeats);
      enter(node.otherwise, inner, depth + repeats);
    }
  }

  // Where what is first named in `statement` and last in `last` is declared; false: nowhere.
  bool place(std::uint32_t& statement, std::uint32_t& depth, std::uint32_t last) const {
    std::uint32_t inner = around_[statement];
    for (std::uint32_t r = inner; r != ir::no_id; r = repeats_[r].parent)
      if (statement > repeats_[r].round_end) return false;
    for (; inner != ir::no_id && last > repeats_[inner].round_end; inner = repeats_[inner].parent)
      statement = repeats_[inner].at;
    depth = depth_of(inner);
    return true;
  }
  std::uint32_t depth_of(std::uint32_t repeat) const { return repeat == ir::no_id ? 0 : repeats_[repeat].depth; }

  const Extents& extents_;
  Plan& plan_;
  std::vector<std::uint32_t> around_;  // by statement: the innermost repetition
  std::vector<Repeat> repeats_;
};

}  // namespace

Extents::Extents(const ir::Function& f) : first(f.registers.size(), ir::no_id), last(f.registers.size(), 0) {
  const auto meet = [&](RegisterId id, std::uint32_t at) {
    first[id] = std::min(first[id], at);
    last[id] = std::max(last[id], at);
  };
  const auto operand = [&](const auto& self, const Operand& o, std::uint32_t at) -> void {
    if (o.kind == Operand::Kind::reg) meet(o.id, at);
    for (const Operand& child : f.children(o)) self(self, child, at);
  };
  for (std::uint32_t i = 0; i < f.body.size(); ++i) {
    if (f.body[i].kind != ir::Statement::Kind::instruction) continue;
    const ir::Instruction& instruction = f.instructions[f.body[i].index];
    if (instruction.guard.reg != ir::no_id) meet(instruction.guard.reg, i);
    for (const Operand& o : f.operands_of(instruction)) operand(operand, o, i);
  }
}

void place_declarations(const ir::Function& function, const Extents& extents, Plan& plan) {
  Placing(function, extents, plan).run();
}

}  // namespace ptx::transpile
