// Two ways find what the other does not. From the instructions that have an effect, back to all writes of what they
// read: what is left are also cycles, such as a counter that counts for itself. By liveness, along the paths: values
// that are written over. What has gone reads nothing any more, so each register that it read is looked at again.
#include "ptx/analysis/unneeded.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace ptx::analysis {
namespace {

using ir::RegisterId;
using ir::Statement;

struct Site {  // a statement that names a register
  std::uint32_t statement;
  bool reads, writes, whole;
  bool own;  // reads it for nothing but to write it again: needed if that is
  bool before(bool live) const { return own ? live : reads || (live && !whole); }
};

class Finding {
 public:
  Finding(const ir::Function& f, const Flow& flow, const std::vector<Uses>& uses)
      : f_(f),
        flow_(flow),
        uses_(uses),
        gone_(f.body.size()),
        returned_(f.registers.size()),
        waits_(f.registers.size()),
        blocks_(flow.blocks().size()) {
    RegisterId next = 0;  // registers begin with those of the signature: lower.h
    for (const ir::Variable& v : f.returns)
      if (v.space == isa::Space::reg && next < returned_.size()) returned_[next++] = true;
  }

  std::vector<bool> run(const Liveness& live) {
    live.each_needed([&](std::uint32_t s, bool needed) {
      if (!needed && pure(s)) leave_out(s);
      return gone_[s];
    });
    do {
      while (!waiting_.empty()) {
        const RegisterId reg = waiting_.top().second;
        waiting_.pop();
        waits_[reg] = false;
        if (!returned_[reg]) look_again(reg);
      }
    } while (cyclic() && sweep());
    return std::move(gone_);
  }

 private:
  bool pure(std::uint32_t s) const {
    if (f_.body[s].kind != Statement::Kind::instruction || !flow_.reached(flow_.block_of(s))) return false;
    const ir::Instruction& i = f_.instructions[f_.body[s].index];
    return i.match && is_pure(i);
  }
  bool cyclic() const { return !flow_.loops().empty() || !flow_.reducible(); }

  const std::vector<Access>& accesses_of(std::uint32_t s) {
    list_.clear();
    accesses(f_, f_.instructions[f_.body[s].index], list_);
    return list_;
  }

  void leave_out(std::uint32_t s) {
    gone_[s] = true;
    for (const Access& a : accesses_of(s))
      if (a.reads) wait(a.reg);
  }
  void wait(RegisterId reg) {
    if (!waits_[reg]) waiting_.emplace(uses_[reg].reads.size() + uses_[reg].writes.size(), reg);
    waits_[reg] = true;
  }

  // Cycles of instructions that only they themselves need. Whether there are any.
  bool sweep() {
    std::vector<bool> marked(f_.body.size()), needed(f_.registers.size());
    std::vector<std::uint32_t> open, left;
    const auto need = [&](RegisterId reg) {
      if (needed[reg]) return;
      needed[reg] = true;
      for (const std::uint32_t s : uses_[reg].writes)
        if (!gone_[s] && !marked[s]) marked[s] = true, open.push_back(s);
    };
    for (RegisterId reg = 0; reg < returned_.size(); ++reg)
      if (returned_[reg]) need(reg);
    for (std::uint32_t s = 0; s < f_.body.size(); ++s) {
      if (f_.body[s].kind != Statement::Kind::instruction || gone_[s]) continue;
      if (pure(s))
        left.push_back(s);
      else
        marked[s] = true, open.push_back(s);
    }
    while (!open.empty()) {
      const std::uint32_t s = open.back();
      open.pop_back();
      for (const Access& a : accesses_of(s))
        if (a.reads) need(a.reg);
    }
    for (const std::uint32_t s : left)
      if (!marked[s]) leave_out(s);
    return !waiting_.empty();
  }

  const std::vector<Site>& sites_of(RegisterId reg) {
    const auto [at, made] = sites_.try_emplace(reg);
    if (!made) return at->second;
    std::vector<std::uint32_t> statements;
    std::set_union(uses_[reg].reads.begin(), uses_[reg].reads.end(), uses_[reg].writes.begin(), uses_[reg].writes.end(),
                   std::back_inserter(statements));
    for (const std::uint32_t s : statements) {
      if (!flow_.reached(flow_.block_of(s))) continue;
      Site site{s, false, false, false, pure(s)};
      for (const Access& a : accesses_of(s)) {
        if (a.reg == reg) site.reads |= a.reads, site.writes |= a.writes, site.whole |= a.whole;
        site.own = site.own && (a.reg == reg || !a.writes);
      }
      site.own = site.own && site.reads && site.writes;
      at->second.push_back(site);
    }
    return at->second;
  }

  // Where one register is live now: from the blocks that read it from outside, against the flow.
  void look_again(RegisterId reg) {
    const std::vector<Site>& sites = sites_of(reg);
    std::vector<BlockId> open, touched;
    const auto against = [&](BlockId block) {
      for (const BlockId from : flow_.predecessors(block))
        if (flow_.reached(from) && !blocks_[from].live) blocks_[from].live = true, open.push_back(from);
    };
    const auto behind = [&](std::size_t first) {
      std::size_t last = first;
      while (last < sites.size() && flow_.block_of(sites[last].statement) == flow_.block_of(sites[first].statement))
        ++last;
      return last;
    };
    for (std::size_t first = 0, last = 0; first < sites.size(); first = last) {
      last = behind(first);
      OneBlock& block = blocks_[flow_.block_of(sites[first].statement)];
      touched.push_back(flow_.block_of(sites[first].statement));
      for (std::size_t i = last; i-- > first;) {
        if (gone_[sites[i].statement]) continue;
        block.reads = sites[i].before(block.reads);
        block.passes = sites[i].before(block.passes);
      }
    }
    for (std::size_t t = 0, known = touched.size(); t < known; ++t)
      if (blocks_[touched[t]].reads) against(touched[t]);
    while (!open.empty()) {
      const BlockId block = open.back();
      open.pop_back();
      touched.push_back(block);
      if (blocks_[block].passes && !blocks_[block].reads) against(block);
    }
    for (std::size_t first = 0, last = 0; first < sites.size(); first = last) {
      last = behind(first);
      bool live = blocks_[flow_.block_of(sites[first].statement)].live;
      for (std::size_t i = last; i-- > first;) {
        const Site& site = sites[i];
        if (!gone_[site.statement] && site.writes && !live) lose(site.statement, reg);
        if (gone_[site.statement]) continue;
        live = site.before(live);
      }
    }
    for (const BlockId block : touched) blocks_[block] = {};
  }

  // What `s` writes to `reg` is read no more. It goes if that holds of all that it writes.
  void lose(std::uint32_t s, RegisterId reg) {
    if (!pure(s)) return;
    std::vector<RegisterId> others;
    for (const Access& a : accesses_of(s))
      if (a.writes && a.reg != reg) others.push_back(a.reg);
    const auto key = [&](RegisterId r) { return std::uint64_t{s} << 32 | r; };
    const bool first = others.empty() || lost_.insert(key(reg)).second;
    if (std::all_of(others.begin(), others.end(), [&](RegisterId r) { return lost_.contains(key(r)); }))
      return leave_out(s);
    for (const RegisterId r : others)
      if (first) wait(r);
  }

  struct OneBlock {                     // of the register that is looked at
    bool reads = false, passes = true;  // live where it begins: anyhow; if it is where it ends
    bool live = false;                  // where it ends
  };

  const ir::Function& f_;
  const Flow& flow_;
  const std::vector<Uses>& uses_;
  std::vector<bool> gone_;              // by statement
  std::vector<bool> returned_, waits_;  // by register
  std::vector<OneBlock> blocks_;        // clear but in look_again
  // By how much there is to look at, the least first: what many instructions of a chain read is looked at behind the
  // chain.
  using Waiting = std::pair<std::size_t, RegisterId>;
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting_;
  std::vector<Access> list_;
  std::unordered_map<RegisterId, std::vector<Site>> sites_;
  std::unordered_set<std::uint64_t> lost_;  // of instructions that write several registers: statement and register
};

}  // namespace

std::vector<bool> unneeded(const ir::Function& function, const Flow& flow, const Liveness& live,
                           const std::vector<Uses>& uses) {
  return Finding(function, flow, uses).run(live);
}

}  // namespace ptx::analysis
