#include "ptx/sim/async/operation.h"

#include <algorithm>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/memory/access.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

namespace {

constexpr Manner reads_map{Order::weak, Scope::gpu, Proxy::tensormap};

// The copy engine rounds f32 to the nearest tf32, ties to even, leaves infinities as they are and makes one NaN of all:
// measured on an H200, and the rounding by Triton's authors (triton-lang/triton#11751); the manual does not say it.
void round_to_tf32(std::byte* values, std::size_t bytes) {
  for (std::size_t i = 0; i + 4 <= bytes; i += 4) {
    std::uint32_t bits;
    std::memcpy(&bits, values + i, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) bits = 0x7fffe000;
    bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
    std::memcpy(values + i, &bits, 4);
  }
}

// False after a fault.
bool read(Operation& o) {
  if (o.has_read) return true;
  o.has_read = true;
  Observer* const observer = o.agent.warp->cta.launch.observer;
  if (observer && o.map) observer->accessed(o.agent, *o.map, Access::read, reads_map);
  for (const Run& run : o.from) {
    const std::size_t begin = o.data.size(), bytes = run.at.bytes;
    o.data.resize(begin + bytes);
    o.states.resize(begin + bytes, written);
    if (run.outside) {
      for (std::size_t i = 0; i < bytes; ++i) o.data[begin + i] = static_cast<std::byte>(o.fill >> 8 * (i & 3));
      continue;
    }
    const Bytes source = reach(o.agent, run.at, Access::read, o.op->manner);
    if (!source.data) return false;
    std::memcpy(&o.data[begin], source.data, bytes);
    if (o.to_tf32) round_to_tf32(&o.data[begin], bytes);
    if (source.states) std::copy_n(source.states, bytes, &o.states[begin]);
  }
  return true;
}

// Bytes that nothing wrote stay so in shared memory, where nobody may look at them; global memory has no such state.
// False after a fault. Where races are looked for, the launch goes on: somebody may write them too late.
bool is_written(const Operation& o, std::size_t at, std::size_t bytes) {
  if (!o.agent.warp->cta.launch.options.uninitialised) return true;
  for (std::size_t i = 0; i < bytes; ++i) {
    if (o.states[at + i] == written || !(o.bytes_of_16 >> (i & 15) & 1)) continue;
    std::size_t missing = at + i;
    for (const Run& run : o.from) {
      if (missing >= run.at.bytes) {
        missing -= run.at.bytes;
        continue;
      }
      const Location byte{run.at.space, run.at.memory, run.at.offset + missing, 1};
      Warp& w = *o.agent.warp;
      std::string what =
          cat("began this; it reads ", describe(w.cta.launch.program, byte), ", which was never written");
      if (!w.cta.launch.options.checks) {
        w.fault(Code::uninitialised_memory, o.agent, std::move(what));
        return false;
      }
      w.cta.launch.note({describe_fault(w, Code::uninitialised_memory, o.agent.pc, o.agent.lane, std::move(what), {}),
                         {site_of(w, o.agent.pc, o.agent.lane)}});
      return true;
    }
  }
  return true;
}

bool write(const Operation& o) {
  std::size_t at = 0;
  for (const auto& [to, outside] : o.to) {
    if (at == o.data.size()) at = 0;
    if (outside) {
      at += to.bytes;
      continue;
    }
    if (to.space == isa::Space::global && !is_written(o, at, to.bytes)) return false;
    const Bytes target = reach(o.agent, to, o.combine ? Access::update : Access::write, o.op->manner);
    if (!target.data) return false;
    const std::byte* values = &o.data[at];
    if (o.combine) {
      o.combine(*o.op, target.data, values, to.bytes);
    } else {
      for (std::size_t i = 0; i < to.bytes; ++i) {
        if (o.bytes_of_16 >> (i & 15) & 1) target.data[i] = values[i];
      }
    }
    if (target.states && !o.combine) {
      for (std::size_t i = 0; i < to.bytes; ++i) {
        if (o.bytes_of_16 >> (i & 15) & 1) target.states[i] = o.states[at + i];
      }
    }
    at += to.bytes;
  }
  return true;
}

void signal(const Operation& o) {
  for (const Operation::Signal& s : o.signals) {
    Warp& w = *o.agent.warp;
    const Location at{isa::Space::shared_cta, s.cta, s.offset, 8};
    const std::string name = describe(w.cta.launch.program, at);
    if (!s.cta->mbarriers.contains(s.offset)) {
      return w.fault(Code::barrier_misuse, o.agent, cat("began this; when it finished, no mbarrier was at ", name));
    }
    if (s.arrives && w.cta.launch.observer)
      w.cta.launch.observer->arrived(o, {Channel::Kind::mbarrier, s.cta, s.offset});
    const std::string problem =
        s.arrives ? arrive(*s.cta, s.offset, 1, false, o.agent.pc) : add_tx(*s.cta, s.offset, -std::int64_t{s.bytes});
    if (!problem.empty()) return fault(w, o.agent, at, cat("began this; it ", problem));
  }
}

// Whether one of them waits for the other in their pipe.
bool share_pipe(const Operation& a, const Operation& b) {
  if (a.pipe == Pipe::none || a.pipe != b.pipe) return false;
  const Cta &x = a.agent.warp->cta, &y = b.agent.warp->cta;
  if (a.pipe == Pipe::warpgroup)
    return &x == &y && a.agent.warp->index / Warpgroup::warps == b.agent.warp->index / Warpgroup::warps;
  return a.pipe == Pipe::tensor_core ? x.rank / 2 == y.rank / 2 : a.agent.warp == b.agent.warp;
}

bool is_commit(const Operation& o) { return !o.effect && o.from.empty(); }

bool is_awaited(const Operation& o) {
  for (const Operation::Signal& s : o.signals) {
    for (const auto& w : s.cta->warps) {
      for (const Fragment& f : w->others) {
        if (f.wait.kind == Wait::Kind::mbarrier && f.wait.object == s.offset) return true;
      }
    }
  }
  return false;
}

}  // namespace

void Operations::begin(Operation operation) {
  operation.agent.operation = ++begun_;
  if (cluster_.launch.observer) cluster_.launch.observer->began(operation);
  pending_.push_back(std::move(operation));
}

void Operations::finish_before(const Operation& operation) {
  const std::uint64_t number = operation.agent.operation;
  for (;;) {
    const auto first =
        std::find_if(pending_.begin(), pending_.end(), [&](const Operation& o) { return share_pipe(o, operation); });
    if (first == pending_.end() || first->agent.operation >= number) return;
    finish_one(first);  // nothing of its pipe is before it
  }
}

void Operations::begin(Warp& warp, ThreadCopy copy) {
  copy.operation = ++begun_;
  if (cluster_.launch.observer) cluster_.launch.observer->began(warp, copy);
  warp.copies.push_back(copy);
}

void Operations::finish(std::list<Operation>::iterator at) {
  if (at->pipe != Pipe::none) finish_before(*at);
  if (at->pipe != Pipe::tensor_core) return finish_one(at);
  const Operation pipe{.agent = at->agent, .pipe = at->pipe};
  do {
    finish_one(at);
    at = std::ranges::find_if(pending_, [&](const Operation& o) { return share_pipe(o, pipe); });
  } while (at != pending_.end() && is_commit(*at));  // which has nothing else to wait for
}

void Operations::finish_one(std::list<Operation>::iterator at) {
  Operation o = std::move(*at);
  pending_.erase(at);
  ++cluster_.polling.changes;
  if (o.copies_of)
    finish_copies(*o.agent.warp, o.copies_of, [&](const ThreadCopy& c) { return c.serial < o.copies_before; });
  Launch& launch = cluster_.launch;
  launch.poll();  // one instruction can finish many operations, each as long as thousands of instructions
  if (launch.stop_at <= cluster_.index) return;
  if (o.effect ? o.effect(o) : read(o) && write(o)) signal(o);
  if (cluster_.launch.observer) cluster_.launch.observer->finished(o);
}

void Operations::wait_warpgroup(Warp& warp, std::uint64_t product) {
  for (auto o = pending_.begin(); o != pending_.end() && warp.event != Event::fault;) {
    const auto at = o++;
    if (at->pipe != Pipe::warpgroup || at->product > product) continue;
    const Warp& other = *at->agent.warp;
    if (&other.cta == &warp.cta && other.index / Warpgroup::warps == warp.index / Warpgroup::warps) finish(at);
  }
  if (Observer* const observer = warp.cta.launch.observer) observer->waited(warp, warp.live, Group::products, product);
}

void Operations::finish_pipe(Warp& warp, Pipe pipe) {
  for (auto o = pending_.begin(); o != pending_.end() && warp.event != Event::fault;) {
    const auto at = o++;
    if (at->pipe == pipe && at->agent.warp == &warp) finish(at);
  }
}

void Operations::finish_loads(Warp& warp) {
  finish_pipe(warp, Pipe::tensor_load);
  if (Observer* const observer = warp.cta.launch.observer) observer->loaded(warp, begun_);
}

void Operations::wait_pipe(Warp& warp, Pipe pipe) {
  finish_pipe(warp, pipe);
  if (Observer* const observer = warp.cta.launch.observer)
    observer->waited(warp, warp.live, pipe == Pipe::tensor_load ? Group::tensor_loads : Group::tensor_stores, begun_);
}

std::optional<Agent> Operations::finish_tensor_memory(const Cta& cta) {
  std::optional<Agent> first;
  for (;;) {
    const auto next = std::find_if(pending_.begin(), pending_.end(), [&](const Operation& o) {
      return o.pipe != Pipe::none && o.pipe != Pipe::warpgroup && o.effect && &o.agent.warp->cta == &cta &&
             o.agent.warp->event != Event::fault;
    });
    if (next == pending_.end()) return first;
    if (!first && next->pipe == Pipe::tensor_core) first = next->agent;
    finish(next);
  }
}

void Operations::tell_rest(Observer& observer) const {
  for (const Operation& o : pending_) {
    if (o.map && !o.has_read) observer.accessed(o.agent, *o.map, Access::read, reads_map);
    for (const Run& run : o.from) {
      if (!run.outside && !o.has_read) observer.accessed(o.agent, run.at, Access::read, o.op->manner);
    }
    for (const Run& run : o.to) {
      if (!run.outside) observer.accessed(o.agent, run.at, o.combine ? Access::update : Access::write, o.op->manner);
    }
  }
  for (const auto& cta : cluster_.ctas) {
    for (const auto& w : cta->warps) {
      for (const ThreadCopy& c : w->copies) {
        const Agent agent{w.get(), c.lane, c.pc, c.operation};
        if (c.from.bytes) observer.accessed(agent, c.from, Access::read, c.op->manner);
        observer.accessed(agent, c.to, Access::write, c.op->manner);
      }
    }
  }
}

bool Operations::finish_awaited() {
  const auto found = std::find_if(pending_.begin(), pending_.end(), is_awaited);
  if (found == pending_.end()) return false;
  finish(found);
  return true;
}

bool Operations::finish_any(std::uint64_t random) {
  if (pending_.empty()) return false;
  const auto at = std::next(pending_.begin(), static_cast<std::ptrdiff_t>(random % pending_.size()));
  Warp* const loads = at->pipe == Pipe::tensor_load ? at->agent.warp : nullptr;
  const std::uint64_t through = at->agent.operation;
  finish(at);
  // Whoever reads the registers from now on finds nothing to wait for.
  if (Observer* const observer = cluster_.launch.observer; observer && loads) observer->loaded(*loads, through);
  return true;
}

void Operations::wait_group(Warp& warp, int lane, std::uint32_t most, bool only_read) {
  const std::uint32_t open = warp.bulk_group[static_cast<std::size_t>(lane)];
  for (auto o = pending_.begin(); o != pending_.end() && warp.event != Event::fault;) {
    const auto at = o++;
    const bool mine = at->agent.warp == &warp && at->agent.lane == lane && at->group != Operation::no_group;
    if (!mine || at->group >= open || open - at->group <= most) continue;
    if (only_read) {
      read(*at);
    } else {
      finish(at);
    }
  }
  if (Observer* const observer = warp.cta.launch.observer; observer && open > most)
    observer->waited(warp, Mask{1} << lane, only_read ? Group::bulk_reads : Group::bulk, open - most);
}

void finish_copies(Warp& warp, Mask lanes, const std::function<bool(const ThreadCopy&)>& due) {
  for (const ThreadCopy& c : warp.copies) {
    if (!(lanes >> c.lane & 1) || !due(c)) continue;
    const Agent agent{&warp, c.lane, c.pc, c.operation};
    const Bytes source = c.from.bytes ? reach(agent, c.from, Access::read, c.op->manner) : Bytes{};
    const Bytes target = reach(agent, c.to, Access::write, c.op->manner);
    if (!target.data || (c.from.bytes && !source.data)) return;
    std::memset(target.data, 0, c.to.bytes);
    std::memset(target.states, written, c.to.bytes);
    if (c.from.bytes) std::memcpy(target.data, source.data, c.from.bytes);
    if (source.states) std::memcpy(target.states, source.states, c.from.bytes);
  }
  std::erase_if(warp.copies, [&](const ThreadCopy& c) { return (lanes >> c.lane & 1) && due(c); });
}

}  // namespace ptx::sim
