// The lanes that an instruction names may stand at several places: at the same instruction elsewhere in the text, with
// the same qualifiers and membermask, or in other calls of a function. Then each place brings its sources to common
// rows, the instruction runs once, and each takes its results from there.
#include <algorithm>
#include <cstring>

#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/machine/undefined.h"

namespace ptx::sim {

namespace {

struct Place {
  const Op* op;
  Frame* frame;
  Mask mask;

  std::byte* row(const Warp& w, const Operand& o) const {
    return (o.bank == Bank::registers ? reinterpret_cast<std::byte*>(frame->registers.data())
                                      : w.banks[static_cast<int>(o.bank)]) +
           o.offset;
  }
  // The membermask, the last source; 0: the lanes have several.
  Mask members(const Warp& w) const {
    const auto* masks = reinterpret_cast<const Mask*>(row(w, op->operands[op->destinations + op->sources - 1]));
    const Mask first = masks[std::countr_zero(mask)];
    for (int i = 0; i < lanes; ++i) {
      if ((mask >> i & 1) && masks[i] != first) return 0;
    }
    return first;
  }
};

bool same_instruction(const Op& a, const Op& b) {
  if (a.run.plain != b.run.plain || a.type != b.type || a.aligned != b.aligned) return false;
  if (a.destinations != b.destinations || a.sources != b.sources) return false;
  for (int i = 0; i < a.destinations + a.sources; ++i) {
    if (a.operands[i].cell != b.operands[i].cell) return false;
  }
  return std::memcmp(&a.mods, &b.mods, sizeof a.mods) == 0;
}

class Meeting {
 public:
  Meeting(Warp& w, const Op& op, Mask active) : w_(w), places_{{&op, w.current.frame.get(), active}}, all_(active) {}

  bool complete() {
    const Op& op = *places_[0].op;
    const Mask named = places_[0].members(w_);
    for (const Fragment& f : w_.others) {
      const Place at{&w_.cta.launch.program.ops[f.pc], f.frame.get(), f.mask};
      if (f.wait.kind != Wait::Kind::lanes || !same_instruction(op, *at.op) || at.members(w_) != named) continue;
      places_.push_back(at);
      all_ |= f.mask;
    }
    return named != 0 && (named & w_.live & ~all_) == 0;
  }

  void run() {
    const Op& op = *places_[0].op;
    operands_.assign(op.operands, op.operands + op.destinations + op.sources);
    rows_.resize(operands_.size() * trial_row / sizeof(Line));
    for (std::size_t i = 0; i < operands_.size(); ++i) bring(i, i >= op.destinations);
    Op common = op;
    common.operands = operands_.data();
    std::byte*& registers = w_.banks[static_cast<int>(Bank::registers)];
    std::byte* const own = registers;
    registers = reinterpret_cast<std::byte*>(rows_.data());
    (w_.cta.launch.observer ? op.run.watched : op.run.plain)(w_, common, all_);
    registers = own;
    if (w_.event == Event::fault) return;
    w_.unwritten.lanes = 0;
    for (std::size_t i = 0; i < op.destinations; ++i) take(i);
    if (w_.cta.launch.options.checks & bit(Check::data_race)) note_places();
    for (Fragment& f : w_.others) {
      if (f.wait.kind == Wait::Kind::lanes && (f.mask & all_) != 0) ++f.pc, f.wait = {};
    }
    w_.event = Event::reschedule;
  }

 private:
  std::uint32_t pc_of(const Place& at) const {
    return static_cast<std::uint32_t>(at.op - w_.cta.launch.program.ops.data());
  }
  void note_places() {
    for (const Place& one : places_) {
      for (const Place& other : places_) {
        if (one.op == other.op) continue;
        const auto same = [&](const Apart& a) { return a.pc == pc_of(one) && a.other_pc == pc_of(other); };
        auto found = std::ranges::find_if(w_.apart, same);
        if (found == w_.apart.end()) found = w_.apart.insert(found, {pc_of(one), pc_of(other)});
        found->lanes |= one.mask, found->others |= other.mask;
      }
    }
  }

  std::byte* common_row(std::size_t i) { return reinterpret_cast<std::byte*>(rows_.data()) + operands_[i].offset; }

  void bring(std::size_t i, bool source) {
    Operand& o = operands_[i];
    o.bank = Bank::registers, o.offset = static_cast<std::uint32_t>(i * trial_row), o.flip = false;
    for (const Place& at : places_) {
      const Operand& from = at.op->operands[i];
      for (int lane = 0; lane < lanes && source; ++lane) {
        if (!(at.mask >> lane & 1)) continue;
        set_cell(common_row(i), o, lane, cell_at(at.row(w_, from), from, lane) ^ CellBits{from.flip});
      }
    }
  }
  // What comes of undefined sources is taken for defined here.
  void take(std::size_t i) {
    for (const Place& at : places_) {
      const Operand& to = at.op->operands[i];
      if (to.absent) continue;
      for (int lane = 0; lane < lanes; ++lane) {
        if (at.mask >> lane & 1) set_cell(at.row(w_, to), to, lane, cell_at(common_row(i), operands_[i], lane));
      }
      at.frame->initialised[to.slot] |= at.mask;
    }
  }

  Warp& w_;
  std::vector<Place> places_;
  Mask all_;
  std::vector<Operand> operands_;
  std::vector<Line> rows_;
};

}  // namespace

bool Warp::meet(const Op& op, Mask active) {
  Meeting meeting(*this, op, active);
  if (!meeting.complete()) return false;
  meeting.run();
  return true;
}

}  // namespace ptx::sim
