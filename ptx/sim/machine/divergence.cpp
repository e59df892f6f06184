// Lanes that go around an aligned barrier: by a guard, or by a branch. Others of their warp wait at it until they exit.
//
// A kernel that returns early has such lanes as well, `@%p bra END; ... bar.sync 0; ... END: ret;`, and compilers write
// that. So lanes that exit at once are silent. Lanes are reported that first execute what the others have still to
// execute.
#include <algorithm>
#include <bit>

#include "ptx/base/text.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

namespace {

class Blocks {
 public:
  explicit Blocks(const Program& program) : program_(program), targets_(program.ops.size() + 1) {
    for (std::uint32_t pc = 0; pc < program.ops.size(); ++pc) {
      for (const std::uint32_t target : targets_of(pc)) targets_[target] = true;
    }
  }

  // Where the instructions begin that lead to `pc` without a branch.
  std::uint32_t begin(std::uint32_t pc) const {
    while (pc > 0 && !targets_[pc] && !program_.is(pc - 1, isa::Trait::branches) && !ends(pc - 1)) --pc;
    return pc;
  }

  bool leads(std::uint32_t from, std::uint32_t to) const {
    std::vector<bool> seen(targets_.size());
    std::vector<std::uint32_t> left{from};
    while (!left.empty()) {
      const std::uint32_t pc = left.back();
      left.pop_back();
      if (pc == to) return true;
      if (pc >= program_.ops.size() || seen[pc]) continue;
      seen[pc] = true;
      for (const std::uint32_t target : targets_of(pc)) left.push_back(target);
      const bool always = (program_.is(pc, isa::Trait::branches) || ends(pc)) && !program_.ops[pc].guarded;
      if (!always) left.push_back(pc + 1);
    }
    return false;
  }

 private:
  bool ends(std::uint32_t pc) const { return program_.is(pc, isa::Trait::ends); }

  std::vector<std::uint32_t> targets_of(std::uint32_t pc) const {
    if (!program_.is(pc, isa::Trait::branches)) return {};
    const Op& op = program_.ops[pc];
    return op.sources ? program_.tables[op.target] : std::vector{op.target};
  }

  const Program& program_;
  std::vector<bool> targets_;
};

}  // namespace

bool Warp::goes_around(Mask leaving) {
  const Program& program = cta.launch.program;
  const auto waits = [&](const Fragment& f) {
    return f.wait.kind == Wait::Kind::lanes && program.ops[f.pc].aligned && !f.frame->parent;
  };
  const auto barrier = std::find_if(others.begin(), others.end(), waits);
  if (barrier == others.end() || current.frame->parent) return false;
  const Blocks blocks(program);
  const std::uint32_t last = pc - (program.is(pc - 1, isa::Trait::ends) ? 1 : 0), first = blocks.begin(last);
  if (first == last || !blocks.leads(barrier->pc + 1, first)) return false;
  const int lane = std::countr_zero(leaving);
  mentioned.push_back(site_of(*this, last - 1, lane));
  fault_at(barrier->pc, Code::divergent_barrier, std::countr_zero(barrier->mask),
           cat("waits here for all threads of its warp, and ", thread_name(*this, lane), " has gone around it, on to ",
               place_name(*this, last - 1)),
           {"all threads of a warp execute it together, or none that goes on with the others"});
  return true;
}

// Lanes execute here what others, which have exited, executed before while these were elsewhere: of two lanes that a
// mask names, one has executed more of such instructions than the other.
bool Warp::out_of_step(const Op& op, Mask active) {
  if (apart.empty() || op.aligned) return false;
  const Mask exited = named_lanes(op, active) & ~live;
  const auto ahead = std::ranges::find_if(
      apart, [&](const Apart& a) { return a.other_pc == pc - 1 && (a.lanes & active) && (a.others & exited); });
  if (ahead == apart.end()) return false;
  const std::string other = thread_name(*this, std::countr_zero(ahead->others & exited));
  const int lane = std::countr_zero(ahead->lanes & active);
  mentioned.push_back(site_of(*this, ahead->pc, lane));
  fault(Code::divergent_barrier, lane,
        cat("comes here after ", other, ", which its member mask names, has exited. When ", other,
            " was here, the first thread was at ", place_name(*this, ahead->pc)),
        {"all lanes that a member mask names execute such instructions equally often; a branch around one, or a loop "
         "of as many trips as a lane has elements, lets some of them execute more"});
  return true;
}

bool Warp::parted_by_guard(Mask active) {
  if (active == current.mask) return false;
  fault(Code::divergent_barrier, std::countr_zero(active),
        cat("executes it, and ", thread_name(*this, std::countr_zero(current.mask & ~active)),
            " of its warp does not: its guard is false; all threads of a warp execute it together"));
  return true;
}

}  // namespace ptx::sim
