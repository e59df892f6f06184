// Registers that are elements of one array: those that an operand of a repetition walks over, and those that stand side
// by side in an operand of four or more.
#include <algorithm>
#include <numeric>

#include "ptx/base/text.h"
#include "ptx/transpile/detail/plan.h"

namespace ptx::transpile {
namespace {

using ir::Operand;
using ir::RegisterId;
using Where = PlannedRegister::Where;

// Fewer are named one by one.
constexpr std::uint32_t least_side_by_side = 4;

class Arrays {
 public:
  Arrays(const ir::Function& f, const Extents& extents, Plan& plan) : f_(f), extents_(extents), plan_(plan) {
    parent_.resize(f.registers.size());
    std::iota(parent_.begin(), parent_.end(), 0u);
    rank_.resize(f.registers.size());
    gathered_.resize(f.registers.size());
  }

  void run() {
    for (const auto& [key, walk] : plan_.walks) {
      if (walk.reg == ir::no_id) continue;
      visit(walk, [&](RegisterId id, const auto&) { join(walk.reg, id); });
    }
    for (const Operand& o : f_.operands) side_by_side(o);
    fragments();
    gather();
    for (auto& [key, walk] : plan_.walks)
      if (walk.reg != ir::no_id) walks_of_[find(walk.reg)].push_back(&walk);
    for (const auto& [root, members] : sets_) form(members);
    std::vector<PlannedArray> kept;
    for (PlannedArray& array : plan_.arrays) {
      if (array.elements.empty()) continue;
      for (const RegisterId id : array.elements)
        if (id != ir::no_id) plan_.registers[id].array = static_cast<std::uint32_t>(kept.size());
      kept.push_back(std::move(array));
    }
    plan_.arrays = std::move(kept);
  }

 private:
  // Calls `at(register, round of each repetition)`.
  template <class F>
  static void visit(const Walk& walk, F at) {
    std::vector<std::uint32_t> round(walk.steps.size(), 0);
    for (std::int64_t id = walk.reg;;) {
      at(static_cast<RegisterId>(id), round);
      std::size_t k = 0;
      for (; k < round.size(); ++k) {
        id += walk.steps[k].by;
        if (++round[k] < walk.steps[k].rounds) break;
        id -= walk.steps[k].by * static_cast<std::int64_t>(round[k]);
        round[k] = 0;
      }
      if (k == round.size()) return;
    }
  }

  RegisterId find(RegisterId id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }
  void join(RegisterId a, RegisterId b) {
    gathered_[a] = gathered_[b] = true;
    a = find(a), b = find(b);
    if (a != b) parent_[std::max(a, b)] = std::min(a, b);
  }

  void side_by_side(const Operand& o) {
    if (o.kind != Operand::Kind::vector || o.child_count < least_side_by_side) return;
    const auto children = f_.children(o);
    for (std::uint32_t i = 0; i < children.size(); ++i) {
      const Operand& child = children[i];
      if (child.kind != Operand::Kind::reg || child.component != 0xff || child.id != children[0].id + i) return;
      const PlannedRegister &first = plan_.registers[children[0].id], &r = plan_.registers[child.id];
      if (r.owner != first.owner || r.type != first.type || is_parameter(f_, f_.registers[child.id])) return;
    }
    for (const Operand& child : children) join(children[0].id, child.id);
  }

  // Arrays that are destinations (names.cpp) are part of what their elements are part of. Where only some elements are
  // part of anything, the others may be made anew in each round of a loop, and are declared one by one.
  void fragments() {
    for (PlannedArray& array : plan_.arrays) {
      if (array.elements.empty()) continue;
      const auto joined = [&](RegisterId id) { return gathered_[id]; };
      if (std::none_of(array.elements.begin(), array.elements.end(), joined)) continue;
      bool consecutive = std::all_of(array.elements.begin(), array.elements.end(), joined);
      for (std::size_t i = 1; i < array.elements.size(); ++i)
        consecutive = consecutive && array.elements[i] == array.elements[i - 1] + 1;
      for (const RegisterId id : array.elements) {
        plan_.registers[id].where = Where::before;
        if (consecutive) join(array.elements[0], id);
      }
      array.elements.clear();
    }
  }

  void gather() {
    std::vector<std::uint32_t> set_of(parent_.size(), ir::no_id);
    for (RegisterId id = 0; id < parent_.size(); ++id) {
      if (!gathered_[id]) continue;
      std::uint32_t& set = set_of[find(id)];
      if (set == ir::no_id) set = static_cast<std::uint32_t>(sets_.size()), sets_.push_back({find(id), {}});
      rank_[id] = static_cast<std::uint32_t>(sets_[set].second.size());
      sets_[set].second.push_back(id);
    }
  }

  // By rank, where every walk goes by one step then; else by number, as the walks do.
  void form(const std::vector<RegisterId>& members) {
    const auto walks = walks_of_.find(find(members[0]));
    const bool ranked = walks == walks_of_.end() || std::all_of(walks->second.begin(), walks->second.end(),
                                                                [&](const Walk* walk) { return is_straight(*walk); });
    RegisterId unit = 1;
    if (!ranked) {
      unit = 0;
      for (const RegisterId id : members) unit = std::gcd(unit, id - members[0]);
    }
    const auto index = [&](RegisterId id) { return ranked ? rank_[id] : (id - members[0]) / unit; };
    PlannedArray array;
    array.elements.assign(index(members.back()) + 1, ir::no_id);
    array.statement = ir::no_id;
    for (const RegisterId id : members) {
      PlannedRegister& r = plan_.registers[id];
      const PlannedRegister& first = plan_.registers[members[0]];
      array.elements[index(id)] = id;
      array.statement =
          std::min(array.statement, r.where == Where::ahead || r.scope != first.scope ? 0 : extents_.first[id]);
      r.where = Where::element;
      r.index = index(id);
      if (r.accumulates) array.name = "acc";
    }
    if (array.name.empty()) array.name = named(plan_.registers[members[0]].name);
    for (const RegisterId id : members) plan_.registers[id].array = static_cast<std::uint32_t>(plan_.arrays.size());
    if (walks != walks_of_.end()) {
      for (Walk* walk : walks->second) {
        for (Walk::Step& step : walk->steps)
          if (step.by != 0)
            step.by = std::int64_t{index(static_cast<RegisterId>(walk->reg + step.by))} - index(walk->reg);
      }
    }
    plan_.arrays.push_back(std::move(array));
  }

  bool is_straight(const Walk& walk) const {
    bool straight = true;
    visit(walk, [&](RegisterId id, const std::vector<std::uint32_t>& round) {
      std::int64_t expected = rank_[walk.reg];
      for (std::size_t k = 0; k < round.size(); ++k) {
        if (walk.steps[k].by == 0) continue;
        const std::int64_t next = rank_[static_cast<std::size_t>(walk.reg + walk.steps[k].by)];
        expected += (next - rank_[walk.reg]) * round[k];
      }
      straight = straight && rank_[id] == expected;
    });
    return straight;
  }

  // outBlock0 of outBlock0, outBlock1, ... is outBlock; f983 stays.
  static std::string named(std::string first) {
    if (first.size() > 1 && first.ends_with('0') && (first[first.size() - 2] < '0' || first[first.size() - 2] > '9'))
      first.pop_back();
    return first;
  }

  const ir::Function& f_;
  const Extents& extents_;
  Plan& plan_;
  std::vector<RegisterId> parent_;
  std::vector<bool> gathered_;
  std::vector<std::uint32_t> rank_;  // among the members of its set
  std::vector<std::pair<RegisterId, std::vector<RegisterId>>> sets_;
  std::unordered_map<RegisterId, std::vector<Walk*>> walks_of_;
};

}  // namespace

void form_arrays(const ir::Function& function, const Extents& extents, Plan& plan) {
  Arrays(function, extents, plan).run();
}

}  // namespace ptx::transpile
