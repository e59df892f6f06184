#include "ptx/sim/machine/warp.h"

#include <algorithm>
#include <cstring>

#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/machine/special.h"
#include "ptx/sim/machine/undefined.h"
#include "ptx/sim/watch/observer.h"
#include "ptx/sim/watch/print.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

namespace {

constexpr std::uint32_t no_limit = 0xffffffff;
constexpr std::uint64_t quantum = 4096;    // after which another fragment has its turn
constexpr std::uint64_t asks_after = 256;  // instructions after which the launch is asked whether it goes on
constexpr std::uint32_t max_depth = 4096;  // of calls

}  // namespace

Frame::Frame(const FunctionCode& function, std::shared_ptr<Frame> parent, bool all_defined)
    : function(function),
      parent(std::move(parent)),
      registers((function.register_bytes + 63) / 64),
      initialised(function.slots, all_defined ? full_mask : 0) {
  initialised[0] = full_mask;
  if (this->parent) {
    depth = this->parent->depth + 1;
    for (int lane = 0; lane < lanes; ++lane) local_base = std::max(local_base, this->parent->top(lane));
    local_base = (local_base + 15) / 16 * 16;
  }
}

std::uint32_t Frame::bottom() const { return local_base + (function.local_bytes + 15) / 16 * 16; }
std::uint32_t Frame::top(int lane) const { return bottom() + allocated[static_cast<std::size_t>(lane)]; }

Frame::~Frame() = default;

Warp::Warp(Cta& cta, std::uint32_t index, Mask present) : cta(cta), index(index), live(present), present(present) {
  const Program& program = cta.launch.program;
  special.resize((program.special_bytes + 63) / 64);
  banks[static_cast<int>(Bank::constants)] =
      const_cast<std::byte*>(reinterpret_cast<const std::byte*>(cta.launch.constants_of(cta.rank).data()));
  banks[static_cast<int>(Bank::special)] = reinterpret_cast<std::byte*>(special.data());
  fill_special_rows(*this);
  const FunctionCode& entry = program.functions.front();
  local.resize(entry.local_bytes);
  others.push_back(
      {entry.first, present, {}, 0, std::make_shared<Frame>(entry, nullptr, !cta.launch.options.uninitialised)});
}

Warp::~Warp() = default;

bool Warp::runnable() const {
  if (event == Event::fault) return false;
  if (current.mask) return true;
  return std::any_of(others.begin(), others.end(), [](const Fragment& f) { return f.ready(); });
}

std::size_t Warp::ready_fragments() const {
  const auto waiting = std::count_if(others.begin(), others.end(), [](const Fragment& f) { return !f.ready(); });
  return others.size() - static_cast<std::size_t>(waiting) + (current.mask != 0);
}

void Warp::adopt(std::size_t other) {
  if (current.mask) {
    current.pc = pc;
    std::swap(current, others[other]);
  } else {
    current = std::move(others[other]);
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(other));
  }
  current.heard = {};
  pc = current.pc;
  banks[static_cast<int>(Bank::registers)] = reinterpret_cast<std::byte*>(current.frame->registers.data());
}

// Fragments that stand at one instruction of one call are one fragment.
void Warp::merge() {
  for (std::size_t i = 0; i < others.size();) {
    Fragment& f = others[i];
    if (f.ready() && f.pc == pc && f.frame == current.frame) {
      current.mask |= f.mask;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

// The deepest frame first, then the lowest pc; with `rotate`, whoever has waited longest, so that a fragment that spins
// on another one's progress does not keep it from making any.
bool Warp::pick(bool rotate) {
  std::size_t best = others.size();
  auto before = [&](const Fragment& a, std::uint32_t a_pc, const Fragment& b, std::uint32_t b_pc) {
    if (rotate) return a.turn < b.turn;
    if (a.frame->depth != b.frame->depth) return a.frame->depth > b.frame->depth;
    return a_pc < b_pc;
  };
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (!others[i].ready()) continue;
    if (best == others.size() || before(others[i], others[i].pc, others[best], others[best].pc)) best = i;
  }
  if (best != others.size() && (!current.mask || before(others[best], others[best].pc, current, pc))) adopt(best);
  if (!current.mask) return false;
  current.turn = ++turns_;
  merge();
  return true;
}

std::uint32_t Warp::limit() const {
  std::uint32_t lowest = no_limit;
  for (const Fragment& f : others) {
    if (f.ready() && f.pc > pc && f.frame->depth == current.frame->depth) {
      lowest = std::min(lowest, f.pc);
    }
  }
  return lowest;
}

std::uint64_t Warp::run(std::uint64_t steps) {
  std::uint64_t used = 0;
  preempted = false;
  Cluster::Polling::Since since(cta.cluster.polling);
  while (used < steps && event != Event::fault && !preempted) {
    const bool rotate = since_turn_ >= quantum || yields;
    if (rotate) since_turn_ = 0;
    yields = false;
    if (!pick(rotate)) break;
    event = Event::none;
    const std::uint64_t left = std::min({steps - used, quantum - since_turn_, asks_after});
    const std::uint64_t ran = cta.launch.observer ? run_fragment<Watched>(left) : run_fragment<Plain>(left);
    since_turn_ += ran;
    used += ran;
    cta.launch.poll();
    if (cta.launch.stop_at <= cta.cluster.index) break;
    if (since.only_looks(ran)) {
      yields = preempted = true;
      break;
    }
  }
  executed += used;
  return used;
}

template <class Engine>
std::uint64_t Warp::run_fragment(std::uint64_t steps) {
  const Op* const ops = cta.launch.program.ops.data();
  const std::uint32_t end = limit();
  const Mask mask = current.mask;
  std::uint64_t ran = 0;
  while (ran < steps && pc < end) {
    const Op& op = ops[pc++];
    ++ran;
    Mask active = current.mask;
    if (op.guarded) [[unlikely]] {
      if (op.checked && !check_operand(op.guard, active)) break;
      active &= predicate(op.guard);
      if (!active) continue;
      if (op.aligned && parted_by_guard(active)) break;
    }
    if (op.converge && !gather(op, active)) break;
    if constexpr (Engine::watched) {
      cta.launch.observer->executing(*this, pc - 1, active);
      if (event == Event::fault) break;
    }
    if (op.checked && !defined(op, active)) [[unlikely]] {
      run_undefined(*this, op, active, op.run.of<Engine>());
    } else {
      op.run.of<Engine>()(*this, op, active);
      if (op.marked) {
        for (int i = 0; i < op.destinations; ++i) current.frame->initialised[op.operands[i].slot] |= active;
      }
    }
    if (event != Event::none) {
      if (event != Event::undefined) break;
      settle_load(*this, op);
      event = Event::none;
    }
    if constexpr (Engine::watched) {
      if (op.synchronises && cta.cluster.changes_priorities()) {
        preempted = true;
        break;
      }
    }
  }
  thread_instructions += ran * static_cast<std::uint64_t>(std::popcount(mask));
  return ran;
}

bool Warp::check_operand(const Operand& o, Mask active) {
  const Mask missing = active & ~current.frame->initialised[o.slot];
  if (!missing) return true;
  report_undefined(*this, o, missing);
  return false;
}

bool Warp::defined(const Op& op, Mask active) const {
  const Mask* const initialised = current.frame->initialised.data();
  Mask all = active;
  for (int i = 0; i < op.sources; ++i) all &= initialised[op.operands[op.destinations + i].slot];
  return all == active;
}

Mask Warp::named_lanes(const Op& op, Mask active) const {
  if (op.aligned) return live;
  const auto* masks = reinterpret_cast<const u32*>(row(op.operands[op.destinations + op.sources - 1]));
  Mask named = 0;
  for (int i = 0; i < lanes; ++i) {
    if (active >> i & 1) named |= masks[i];
  }
  return named & present;
}

// True if every lane that the instruction names is here; else those that are here wait for the others. Lanes that wait
// at this very instruction are taken in.
bool Warp::gather(const Op& op, Mask& active) {
  const std::uint32_t here = pc - 1;
  if (op.checked && !op.aligned && !check_operand(op.operands[op.destinations + op.sources - 1], active)) return false;
  const Mask named = named_lanes(op, active);
  if (op.aligned && !op.excuses && live != present) {
    fault(Code::divergent_barrier, std::countr_zero(active),
          cat("executes it, and ", thread_name(*this, std::countr_zero(present & ~live)),
              " of its warp has exited; all threads of a warp execute it together"));
    return false;
  }
  if ((named & live & ~active) == 0) return !out_of_step(op, active);
  Mask waiting = 0;
  for (const Fragment& f : others) {
    if (f.wait.kind == Wait::Kind::lanes && f.pc == here && f.frame == current.frame) waiting |= f.mask;
  }
  const Mask all = active | waiting;
  if ((named_lanes(op, all) & live & ~all) != 0) {
    if (!op.aligned && meet(op, active)) return false;
    park(active, {Wait::Kind::lanes});
    return false;
  }
  std::erase_if(others, [&](const Fragment& f) {
    return f.wait.kind == Wait::Kind::lanes && f.pc == here && f.frame == current.frame;
  });
  current.mask |= waiting;
  active = all;
  return !out_of_step(op, active);
}

void Warp::park(Mask active, Wait wait) {
  const std::uint32_t at = wait.kind == Wait::Kind::lanes ? pc - 1 : pc;
  if (cta.launch.observer) cta.launch.observer->waiting(*this, pc - 1, active, wait);
  others.push_back({at, active, wait, current.turn, current.frame});
  current.mask &= ~active;
  event = Event::reschedule;
}

void Warp::answer(Fragment& f, bool value) {
  const Operand& d = cta.launch.program.ops[f.pc - 1].operands[0];
  std::byte* bank = d.bank == Bank::registers ? reinterpret_cast<std::byte*>(f.frame->registers.data())
                                              : banks[static_cast<int>(d.bank)];
  Mask& p = *reinterpret_cast<Mask*>(bank + d.offset);
  p = value ? p | f.mask : p & ~f.mask;
  f.frame->initialised[d.slot] |= f.mask;
  f.wait = {};
}

void Warp::part(Mask active, std::uint32_t at) {
  others.push_back({at, active, {}, current.turn, current.frame});
  current.mask &= ~active;
  event = Event::reschedule;
}

void Warp::branch(Mask taken, std::uint32_t target) {
  if (taken != current.mask) part(current.mask & ~taken, pc);
  pc = target;
}

void Warp::exit(Mask leaving) {
  if (goes_around(leaving)) return;
  if (cta.launch.observer) cta.launch.observer->exited(*this, leaving);
  live &= ~leaving;
  print_rest(*this, leaving);
  current.mask &= ~leaving;
  // Those who wait for lanes of their warp look again: the lanes that left are not waited for.
  for (Fragment& f : others) {
    if (f.wait.kind == Wait::Kind::lanes) f.wait = {};
  }
  event = Event::reschedule;
  cta.thread_exited(*this);
}

namespace {

// What of it nothing wrote, bit by bit.
void pass_definedness(Warp& w, Frame& from_frame, const Passed& from, Frame& to_frame, const Passed& to, Mask active) {
  const std::uint32_t bytes = std::min(from.bytes, to.bytes);
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1)) continue;
    const std::size_t local = static_cast<std::size_t>(lane) * w.local.stride;
    const auto* source = w.local.shadow.data() + local + from_frame.local_base + from.local;
    auto* target = w.local.shadow.data() + local + to_frame.local_base + to.local;
    if (!from.in_register && !to.in_register) {
      std::copy_n(source, bytes, target);
      continue;
    }
    CellBits unknown = from.in_register ? undefined_bits(from_frame, from.row, lane) : 0;
    for (std::uint32_t i = 0; i < bytes && !from.in_register; ++i)
      unknown |= CellBits{static_cast<std::uint8_t>(~source[i])} << (8 * i);
    for (std::uint32_t i = 0; i < bytes && !to.in_register; ++i)
      target[i] = static_cast<std::uint8_t>(~(unknown >> (8 * i)));
    const Origin origin_of = from.in_register && unknown
                                 ? origin(from_frame, from.row)
                                 : Origin{.pc = w.pc - 1, .address = from.local, .bytes = bytes};
    if (to.in_register && to.row.slot) set_undefined(to_frame, to.row, lane, unknown, origin_of);
  }
}

// Copies what a call passes between two frames of one warp.
void pass(Warp& w, Frame& from_frame, const Passed& from, Frame& to_frame, const Passed& to, Mask active) {
  auto row = [&](Frame& frame, const Passed& p) -> std::byte* {
    if (p.row.bank != Bank::registers) return w.row_to_write(p.row);
    return reinterpret_cast<std::byte*>(frame.registers.data()) + p.row.offset;
  };
  pass_definedness(w, from_frame, from, to_frame, to, active);
  if (to.in_register && to.row.cell == 0) {
    Mask& mask = *reinterpret_cast<Mask*>(row(to_frame, to));
    const Mask source = *reinterpret_cast<Mask*>(row(from_frame, from));
    mask = (mask & ~active) | (source & active);
    return;
  }
  const std::uint32_t bytes = std::min(from.bytes, to.bytes);
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1)) continue;
    const std::size_t local = static_cast<std::size_t>(lane) * w.local.stride;
    const std::size_t source_at = local + from_frame.local_base + from.local;
    const std::size_t target_at = local + to_frame.local_base + to.local;
    const std::byte* source =
        from.in_register ? row(from_frame, from) + lane * from.row.cell : w.local.bytes.data() + source_at;
    std::byte* target = to.in_register ? row(to_frame, to) + lane * to.row.cell : w.local.bytes.data() + target_at;
    std::memcpy(target, source, bytes);
  }
}

}  // namespace

void Warp::call(const Op& op, Mask active, const FunctionCode& function) {
  const int first = std::countr_zero(active);
  auto frame = std::make_shared<Frame>(function, current.frame, !cta.launch.options.uninitialised);
  frame->call = &op;
  frame->return_pc = pc;
  const std::uint32_t top = frame->local_base + function.local_bytes;
  if (frame->depth > max_depth || top > max_local) {
    return fault(Code::stack_overflow, first,
                 cat("calls `", function.name.view(), "` ", frame->depth, " calls deep, with ", top,
                     " bytes of local memory; there are at most ", max_depth, " calls and ", max_local, " bytes"));
  }
  const CallPlan& plan = *op.call;
  if (plan.arguments.size() != function.parameters.size() || plan.results.size() != function.returns.size()) {
    return fault(
        Code::bad_call, first,
        cat("calls `", function.name.view(), "` with ", plan.arguments.size(), " arguments and ", plan.results.size(),
            " results; it has ", function.parameters.size(), " and ", function.returns.size()));
  }
  local.resize(top);
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1)) continue;
    auto* shadow = local.shadow.data() + static_cast<std::size_t>(lane) * local.stride + frame->local_base;
    std::fill_n(shadow, function.local_bytes, std::uint8_t{0});
  }
  for (std::size_t i = 0; i < plan.arguments.size(); ++i) {
    pass(*this, *current.frame, plan.arguments[i], *frame, function.parameters[i], active);
  }
  if (active != current.mask) part(current.mask & ~active, pc);
  current.frame = std::move(frame);
  banks[static_cast<int>(Bank::registers)] = reinterpret_cast<std::byte*>(current.frame->registers.data());
  pc = function.first;
  event = Event::reschedule;
}

void Warp::leave(Mask active) {
  if (!current.frame->parent) return exit(active);
  const std::shared_ptr<Frame> frame = current.frame;
  const CallPlan& plan = *frame->call->call;
  for (std::size_t i = 0; i < plan.results.size(); ++i) {
    pass(*this, *frame, frame->function.returns[i], *frame->parent, plan.results[i], active);
  }
  others.push_back({frame->return_pc, active, {}, current.turn, frame->parent});
  current.mask &= ~active;
  event = Event::reschedule;
}

void Warp::fault(Code code, const Agent& agent, std::string what) {
  fault_at(agent.pc, code, agent.lane, std::move(what), {});
}

void Warp::fault(Code code, int lane, std::string what, std::vector<std::string> notes) {
  fault_at(pc - 1, code, lane, std::move(what), std::move(notes));
}

void Warp::fault_at(std::uint32_t at, Code code, int lane, std::string what, std::vector<std::string> notes) {
  event = Event::fault;
  Site site = site_of(*this, at, lane);
  if (accessing) {
    site_accesses(site, *this, *accessing);
    if (std::string address = cta.launch.names.describe_address(at, accessing->space); !address.empty())
      notes.push_back(std::move(address));
  }
  accessing.reset();
  mentioned.insert(mentioned.begin(), std::move(site));
  cta.launch.report(cta.cluster.index, describe_fault(*this, code, at, lane, std::move(what), std::move(notes)),
                    std::move(mentioned));
}

}  // namespace ptx::sim
