#include "ptx/sim/watch/layouts.h"

#include <algorithm>

#include "ptx/base/text.h"
#include "ptx/sim/async/operation.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/memory/access.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

namespace {

// How the two differ: "the swizzle 64B", "128B"; empty: they do not.
std::pair<std::string, std::string> difference(const Layout& copied, const MatrixRead& read) {
  using arch::Element;
  if (const auto swizzle = read.descriptor.swizzle; copied.swizzle != swizzle)
    return {cat("with the swizzle ", arch::name(swizzle)), cat("with ", arch::name(copied.swizzle))};
  const std::uint32_t pattern = 8u * arch::info(copied.swizzle).bytes, stride = read.descriptor.stride;
  if (copied.swizzle != arch::Swizzle::none && read.lines > 8 && stride % pattern != 0)
    return {cat("by a stride of ", stride, " bytes from 8 rows to the next 8"), cat("in patterns of ", pattern)};
  const bool halves = read.type == isa::Type::f16 && copied.element == Element::bf16,
             brains = read.type == isa::Type::bf16 && copied.element == Element::f16;
  if (halves || brains) return {cat("as ", halves ? "f16" : "bf16"), cat("as ", halves ? "bf16" : "f16")};
  return {};
}

}  // namespace

void Layouts::forget(const void* cta, std::uint64_t begin, std::uint64_t end) {
  const auto found = copied_.find(cta);
  if (found == copied_.end()) return;
  std::erase_if(found->second, [&](const Copied& c) { return begin < c.end && c.begin < end; });
}

void Layouts::accessed(const Agent&, const Location& where, Access kind, const Manner&) {
  if (writes(kind) && where.space == isa::Space::shared_cta && !copied_.empty())
    forget(where.memory, where.offset, where.offset + where.bytes);
}

void Layouts::touched(const Touch& t) {
  if (t.kind == Access::read || t.space != isa::Space::shared_cta || !copied_.contains(t.memory)) return;
  for (int i = 0; i < lanes; ++i) {
    if (t.lanes >> i & 1) forget(t.memory, t.at[i] & t.mask, (t.at[i] & t.mask) + t.bytes);
  }
}

void Layouts::began(Warp&, const ThreadCopy& copy) {
  if (copy.to.space == isa::Space::shared_cta) forget(copy.to.memory, copy.to.offset, copy.to.offset + copy.to.bytes);
}

void Layouts::finished(const Operation& operation) {
  std::unordered_map<const void*, std::pair<std::uint64_t, std::uint64_t>> boxes;
  for (const Run& run : operation.to) {
    if (run.outside || run.at.space != isa::Space::shared_cta) continue;
    const auto [box, first] = boxes.try_emplace(run.at.memory, run.at.offset, run.at.offset + run.at.bytes);
    if (first) continue;
    box->second.first = std::min(box->second.first, run.at.offset);
    box->second.second = std::max(box->second.second, run.at.offset + run.at.bytes);
  }
  for (const auto& [cta, box] : boxes) {
    forget(cta, box.first, box.second);
    if (operation.layout) copied_[cta].push_back({box.first, box.second, *operation.layout, operation.agent});
  }
}

void Layouts::multiplies(const Agent& agent, const Cta& cta, const MatrixRead& read) {
  const auto found = copied_.find(&cta);
  if (found == copied_.end()) return;
  const std::uint32_t start = read.descriptor.start;
  const auto copied = std::find_if(found->second.begin(), found->second.end(),
                                   [&](const Copied& c) { return c.begin <= start && start < c.end; });
  if (copied == found->second.end()) return;
  const auto [here, there] = difference(copied->layout, read);
  if (here.empty()) return;
  const Warp &warp = *agent.warp, &by = *copied->by.warp;
  if (!known_.insert({place_name(by, copied->by.pc), place_name(warp, agent.pc)}).second) return;
  const Location at{isa::Space::shared_cta, const_cast<Cta*>(&cta), start, 1};
  std::string what = cat("reads ", read.which, " at ", describe(launch_.program, at), ' ', here, ", and ",
                         place_name(by, copied->by.pc), " copied it there ", there);
  std::vector<std::string> notes{
      cat("the other is ", place_name(by, copied->by.pc), " of ", thread_name(by, copied->by.lane)),
      here.starts_with("as ") ? "the types of the instruction are those of the tensor map's elements"
      : here.starts_with("by ")
          ? "the stride dimension byte offset of a descriptor along K is a multiple of 8 rows of its swizzle"
          : "the swizzle of the descriptor is that of the tensor map (the layout of its Tile)"};
  reports_.push_back(
      {describe_fault(warp, Code::layout_mismatch, agent.pc, agent.lane, std::move(what), std::move(notes)),
       {site_of(warp, agent.pc, agent.lane), site_of(by, copied->by.pc, copied->by.lane)}});
}

void Layouts::over(Cluster& cluster) {
  for (const auto& cta : cluster.ctas) copied_.erase(cta.get());
}

}  // namespace ptx::sim
