// cp.async in the happens-before of races.h: each copy is a thread of its own, and those of the lanes of a warp are
// mostly begun and waited for together, so that they are kept together. A lane that has waited knows its own copies
// (Own); others learn of them with what the lane has done.
#include <algorithm>
#include <bit>

#include "ptx/sim/watch/races.h"

namespace ptx::sim {

void Races::began(Warp& warp, const ThreadCopy& copy) {
  Watched& w = watched(warp);
  const auto lane = static_cast<std::size_t>(copy.lane);
  const Mask bit = Mask{1} << copy.lane;
  const View& view = view_of(w, copy.lane);
  const Copies* const last = w.copies.get();  // of this instruction: begun at one time, one a lane
  const bool again = last && last->pc == copy.pc && !(last->lanes & bit);
  const Time begun = again ? last->begun : begin(w);
  if (!again || !(last->view == view))
    w.copies = std::make_shared<Copies>(view, w.who, begun, copy.pc, again ? last->lanes : 0, w.own);
  w.copies->lanes |= bit;
  std::vector<CopyGroup>& groups = w.copy_groups[lane];
  if (groups.empty() || groups.back().number != copy.group) {
    if (groups.size() > 64) groups.erase(groups.begin(), groups.begin() + 32);
    groups.push_back({copy.group, begun, begun});
  }
  groups.back().last = begun;
  Time& until = w.own.until[lane];
  if (!until) until = begun - 1;
  copying_.insert_or_assign(key_of(warp.cta, copy.operation), Copying{w.copies, copy.lane});
}

// False: it is no copy of a thread.
bool Races::by_copy(const Agent& agent, const Location& where, Access kind, const Manner& manner) {
  const auto found = copying_.find(key_of(agent));
  if (found == copying_.end()) return false;
  const Copies& all = *found->second.all;
  const auto bytes = static_cast<std::uint32_t>(where.bytes);
  Doer d{&all.view, who_copies(all.thread), all.thread, found->second.lane, agent.pc, bytes, manner, kind, true,
         all.begun};
  d.own = &all.own, d.done = all.begun - 1;
  std::uint32_t& site = last_of_copies_[writes(kind)];
  const Site& last = sites_[site];
  const bool same = last.who == d.who && last.time == all.begun && last.pc == d.pc && last.bytes == bytes;
  if (!same) site = new_site(d, all.begun);
  const std::uint32_t own = site;
  touch_again(d, own, flat(where), where.bytes);
  if (where.memory) visit(d, own, where, agent.warp->cta);
  if (kind == Access::read) return true;
  copying_.erase(found);
  return true;
}

// The groups before `through`.
void Races::wait_for_copies(Watched& w, Mask mask, std::uint64_t through) {
  w.copies = nullptr, ++w.learned;
  for (Mask rest = mask; rest; rest &= rest - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(rest));
    std::vector<CopyGroup>& groups = w.copy_groups[lane];
    const auto next = std::ranges::find_if(groups, [&](const CopyGroup& g) { return g.number >= through; });
    if (next == groups.begin()) continue;
    w.own.last[lane] = std::prev(next)->last;
    w.own.until[lane] = next == groups.end() ? w.stamp : next->first - 1;
    groups.erase(groups.begin(), next);
  }
}

// Which copies of these lanes are over, as far as the lanes have waited: how many moments, at most 33.
std::size_t Races::copied_by(Who warp, Mask present, Mask mask, const Own& own, Moment* out) {
  std::size_t count = 0;
  Time all = ~Time{0};  // until then those of all lanes
  bool any = false;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if (!(mask >> lane & 1)) continue;
    any |= own.last[lane] != 0;
    if (own.until[lane]) all = std::min(all, own.until[lane]);
  }
  if (!any) return 0;
  if ((mask & present) == present && all) {
    out[count++] = {who_copies(warp), all};
  } else {
    all = 0;
  }
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if ((mask >> lane & 1) && own.last[lane] > all)
      out[count++] = {who_copies(who_thread(warp, static_cast<int>(lane))), own.until[lane]};
  }
  return count;
}

}  // namespace ptx::sim
