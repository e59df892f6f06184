// The words of what races.cpp finds: both sites, whose bytes they are, and how to mend it.
#include "ptx/base/text.h"
#include "ptx/sim/memory/access.h"
#include "ptx/sim/watch/races.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

namespace {

constexpr std::size_t most_findings = 64;  // pairs of lines; further ones are counted

const char* did(Access kind) { return kind == Access::read ? "read" : kind == Access::write ? "wrote" : "updated"; }
const char* does(Access kind) { return kind == Access::read ? "reads" : kind == Access::write ? "writes" : "updates"; }

// What is wrong between the two, and what mends it.
const char* wrong(Code code) {
  switch (code) {
    case Code::narrow_scope: return "the scope leaves one of the two threads out";
    case Code::missing_order: return "only relaxed accesses lead from one to the other, and these order nothing else";
    case Code::collective_order:
    case Code::relayed_order:
      return "only instructions with a member mask lead from one to the other, and these order no memory";
    case Code::equal_stores: return "nothing orders the two, which store the same value";
    case Code::unfenced_copy:
    case Code::missing_proxy_fence: return "the two use different proxies, and no proxy fence stands between";
    case Code::missing_tensor_fence:
    case Code::no_tensor_fence: return "tcgen05.fence is missing before or behind what orders the two threads";
    case Code::missing_init_fence: return "the copy does so by the async proxy, and no fence stands between";
    case Code::missing_wait: return "that finishes by itself, and nobody on the way here waited for it";
    case Code::stage_reused: return "nothing says that the reader is done";
    case Code::loose_reuse: return "what orders the two lacks a proxy fence, or a scope with both threads";
    default: return "nothing orders the two";
  }
}
// Of two operations the later of which writes.
const char* mend_refill(Access earlier) {
  if (writes(earlier))
    return "if both belong there, a thread waits for the first before the second begins; else the address, the "
           "coordinates, the box or the multicast mask of one of them is wrong";
  return "who reads waits for its reads (wgmma.wait_group, tcgen05.wait::ld, the mbarrier of tcgen05.commit, the group "
         "of a copy), then arrives at an mbarrier for which every thread that writes here has waited";
}
const char* mend(Code code, bool of_map) {
  switch (code) {
    case Code::data_race: return "a barrier, or a release by the first thread that the second acquires, orders them";
    case Code::narrow_scope:
      return "give every release and acquire that leads from one to the other, arrivals and waits too, a scope that "
             "includes both threads: .cluster, .gpu";
    case Code::missing_order:
      return "write the flag with .release and read it with .acquire, or put fences around relaxed accesses";
    case Code::collective_order:
    case Code::relayed_order: return "bar.warp.sync beside the shfl, vote, match, redux or elect";
    case Code::equal_stores: return "one lane alone stores it";
    case Code::unfenced_copy:
    case Code::missing_proxy_fence:
      return of_map ? "fence.proxy.tensormap::generic: .release by the writer, and .acquire of the map's 128 bytes by "
                      "the thread that begins the copy"
                    : "fence.proxy.async by the writer, before it releases, or by the thread that begins the operation";
    case Code::missing_init_fence:
      return "fence.mbarrier_init.release.cluster or fence.proxy.async behind mbarrier.init, in front of what tells "
             "the "
             "other threads of it";
    case Code::missing_tensor_fence:
    case Code::no_tensor_fence:
      return "tcgen05.fence::before_thread_sync, then the synchronisation, then tcgen05.fence::after_thread_sync; "
             "tcgen05.commit implies the first";
    case Code::missing_wait:
      return "wait for the mbarrier that it signals, or for its group (tcgen05.wait::ld or ::st of tensor memory); "
             "another thread learns of it by synchronising with the one that waited";
    case Code::stage_reused:
      return "readers arrive at an mbarrier that the producer waits for before it fills the stage; a reader that means "
             "what is written here waits for that first";
    case Code::peer_exited: return "a cluster barrier before the threads of a CTA exit keeps its shared memory alive";
    default: return "";
  }
}

constexpr const char* before_exit =
    "wait for the mbarrier that it signals, or for its group (.read where it reads this memory), before the CTA exits";

launch::Dim3 cta_id(const Launch& launch, std::uint64_t number) {
  const launch::Dim3 c = launch.cluster;
  launch::Dim3 id = first_cta(launch, number / c.count());
  const auto rank = static_cast<std::uint32_t>(number % c.count());
  id.x += rank % c.x, id.y += rank / c.x % c.y, id.z += rank / c.x / c.y;
  return id;
}

}  // namespace

launch::Dim3 Races::thread_id(Who thread, int lane) const {
  const launch::Dim3 block = launch_.block;
  const std::uint32_t linear =
      static_cast<std::uint32_t>((thread >> 8 & 0xff) - 1) * lanes + static_cast<std::uint32_t>(lane);
  return {linear % block.x, linear / block.x % block.y, linear / block.x / block.y};
}

std::string Races::name(Who thread, int lane) const {
  return cat("thread ", triple(thread_id(thread, lane)), " of CTA ", triple(cta_id(launch_, cta_number(thread))));
}

sim::Site Races::site(Who thread, int lane, std::uint32_t pc, std::uint64_t bytes, std::uint64_t address) const {
  const bool tensor = address >= tensor_window, shared = !tensor && address >= shared_window;
  return {.cta = cta_id(launch_, cta_number(thread)),
          .thread = thread_id(thread, lane),
          .place = launch_.program.places[pc],
          .instruction = std::string(launch_.program.mnemonics[pc]),
          .space = tensor   ? "tensor"
                   : shared ? "shared::cta"
                            : "global",
          .address = tensor || shared ? address & shared_offset_mask : address,
          .bytes = bytes,
          .owner = owner(address),
          .source = source_line(launch_.program, pc)};
}

std::string Races::owner(std::uint64_t address) const {
  if (address >= tensor_window) {
    const std::uint64_t offset = address & shared_offset_mask;
    return cat("lane ", offset / 2048, ", column ", offset % 2048 / 4, " of tensor memory of CTA ",
               triple(cta_id(launch_, (address - tensor_window) >> shared_rank_shift)));
  }
  if (address >= shared_window) {
    const std::uint64_t offset = address & shared_offset_mask;
    return cat(describe(launch_.program, {isa::Space::shared_cta, nullptr, offset, 1}), " of CTA ",
               triple(cta_id(launch_, (address - shared_window) >> shared_rank_shift)));
  }
  const Range* range = launch_.memory.find(address);
  if (!range) return describe(launch_.program, {isa::Space::global, nullptr, address, 1});
  if (range->heap) return cat("byte ", address - range->begin, " of ", range->name);
  return address == range->begin ? cat('`', range->name, '`') : cat('`', range->name, "`+", address - range->begin);
}

std::string Races::place_of(std::uint32_t pc) const {
  const Place& p = launch_.program.places[pc];
  return cat(p.file.empty() ? std::string_view("line ") : p.file.view(), p.file.empty() ? "" : ":", p.line, " (",
             instruction_name(launch_.program, pc), ')');
}

void Races::find_same_lines() {
  const Program& program = launch_.program;
  std::map<std::tuple<std::string_view, std::uint32_t, std::uint32_t, const char*>, std::uint32_t> first;
  for (std::uint32_t pc = 0; pc < program.ops.size(); ++pc) {
    const Place& p = program.places[pc];
    same_line_.push_back(
        first.try_emplace({p.file.view(), p.line, p.column, program.mnemonics[pc].data()}, pc).first->second);
  }
}

void Races::report(Code code, const Doer& d, const Site& s, int lane, std::uint64_t address) {
  if (!asks_for(checks_, code)) return;
  if (same_line_.empty()) find_same_lines();
  // A module without any tcgen05.fence has one report for all of its pairs.
  const bool unfenced = code == Code::no_tensor_fence;
  const auto [at, fresh] =
      known_.try_emplace({code, unfenced ? ~0u : same_line_[s.pc], unfenced ? ~0u : same_line_[d.pc]}, found_.size());
  if (!fresh) {
    if (at->second < found_.size()) ++found_[at->second].times;
    return;
  }
  if (found_.size() == most_findings) return void(at->second = ~std::size_t{0});
  const Program& program = launch_.program;
  auto place = [&](std::uint32_t pc) { return place_of(pc); };
  auto subject = [&](Who thread, int l, bool operation) {
    return operation ? cat("what ", name(thread, l), " began here") : name(thread, l);
  };
  Text t;
  const CallPlan* const call = program.ops[d.pc].call;
  const bool gives_back = frees(d.pc) || (call && call->missing.view() == "free");
  t << instruction_name(program, d.pc) << ": " << subject(d.thread, d.lane, d.operation) << ' '
    << (gives_back ? "frees" : does(d.kind)) << ' ';
  const bool exits = s.bytes == 0;
  if (exits) {
    t << "shared memory of CTA " << triple(cta_id(launch_, (address - shared_window) >> shared_rank_shift))
      << ", whose last thread exits at " << place(s.pc) << " and may do so before";
  } else {
    t << owner(address) << ", which "
      << (s.operation ? cat("what ", name(s.thread, lane), " began") : name(s.thread, lane)) << ' ' << did(s.kind)
      << " at " << place(s.pc) << "; " << wrong(code);
  }
  const bool refills = code == Code::missing_wait && d.operation && s.operation && writes(d.kind);
  Diagnostic diagnostic(code, program.places[d.pc], t.take());
  diagnostic.notes = {cat("the other is ", place(s.pc), " of ", name(s.thread, lane)),
                      exits && code == Code::missing_wait ? before_exit
                      : refills                           ? mend_refill(s.kind)
                                                          : mend(code, d.manner.proxy == Proxy::tensormap)};
  if (unfenced) diagnostic.notes.emplace_back("the module has no tcgen05.fence; this stands for all such pairs");
  if (const Watched* const w = find(d.thread); w && (w->went_on.lanes >> d.lane & 1))
    diagnostic.notes.push_back(refusal(w->went_on, d.lane));
  const isa::Space space = address >= shared_window ? isa::Space::shared : isa::Space::global;
  const std::string own = d.operation ? "" : launch_.names.describe_address(d.pc, space);
  const std::string other = s.operation || exits || s.pc == d.pc ? "" : launch_.names.describe_address(s.pc, space);
  if (!own.empty()) diagnostic.notes.push_back(own);
  if (!other.empty()) diagnostic.notes.push_back(cat("of the other, ", other));
  found_.push_back({{std::move(diagnostic),
                     {site(d.thread, d.lane, d.pc, d.bytes, address), site(s.thread, lane, s.pc, s.bytes, address)}},
                    1});
}

std::string Races::refusal(const WentOn& warp, int lane) const {
  return cat(name(warp.who, lane), " asked an mbarrier at ", place_of(warp.pc),
             ", which may answer that the phase is incomplete, and went on");
}

std::string Races::refusal(const sim::Site& end) const {
  for (const WentOn& w : went_on_) {
    for (Mask rest = w.lanes; rest; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      if (thread_id(w.who, lane) == end.thread && cta_id(launch_, cta_number(w.who)) == end.cta)
        return refusal(w, lane);
    }
  }
  return {};
}

// `again`: by the same warp, which came by bar.arrive; else by others.
void Races::report_lap(const Watched& w, int lane, std::uint32_t barrier, std::uint32_t pc, std::uint32_t earlier,
                       bool again) {
  if (!asks_for(checks_, Code::data_race) || found_.size() == most_findings) return;
  if (same_line_.empty()) find_same_lines();
  const auto [at, fresh] =
      known_.try_emplace({Code::barrier_misuse, same_line_[earlier], same_line_[pc]}, found_.size());
  if (!fresh) return;
  const Program& program = launch_.program;
  Diagnostic diagnostic(
      Code::barrier_misuse, program.places[pc],
      cat(instruction_name(program, pc), ": ", name(w.who, lane), " comes to barrier ", barrier,
          again ? ", to which its warp came before by bar.arrive; nothing on the way says that the barrier was "
                  "complete, so both may count for one phase"
                : ", at which other warps met before; nothing on the way says that they are through, so in another "
                  "schedule this arrival counts for their phase"));
  diagnostic.notes = {cat(again ? "it" : "one of them", " came before at ", place_of(earlier)),
                      again ? "wait for the threads that wait at it, by another barrier, before the next arrival"
                            : "give these warps a barrier of their own, or let them wait for the others first"};
  found_.push_back({{std::move(diagnostic), {site(w.who, lane, pc, 0, 0), site(w.who, lane, earlier, 0, 0)}}, 1});
}

// Somebody is in the shared memory of a CTA that may not have begun.
void Races::report_early(const Doer& d, std::uint64_t host, const Location& where) {
  if (!asks_for(checks_, Code::peer_exited) || found_.size() == most_findings) return;
  if (same_line_.empty()) find_same_lines();
  const auto [at, fresh] = known_.try_emplace({Code::peer_exited, ~0u, same_line_[d.pc]}, found_.size());
  if (!fresh) return void(++found_[at->second].times);
  Diagnostic diagnostic(Code::peer_exited, launch_.program.places[d.pc],
                        cat(instruction_name(launch_.program, d.pc), ": ",
                            d.operation ? cat("what ", name(d.thread, d.lane), " began here") : name(d.thread, d.lane),
                            ' ', does(d.kind), ' ', owner(flat(where)), ", and nothing says that this CTA has begun"));
  diagnostic.notes = {cat("a cluster barrier before the first access of CTA ", triple(cta_id(launch_, host)),
                          ", or anything else by which its threads tell of themselves")};
  found_.push_back({{std::move(diagnostic), {site(d.thread, d.lane, d.pc, d.bytes, flat(where))}}, 1});
}

void Races::report_beside(Who thread, int lane, std::uint32_t pc, Access kind, std::uint64_t address,
                          std::uint64_t bytes, const std::string& by) {
  if (!asks_for(checks_, Code::missing_wait) || found_.size() == most_findings) return;
  if (same_line_.empty()) find_same_lines();
  const auto [at, fresh] = known_.try_emplace({Code::missing_wait, ~0u, same_line_[pc]}, found_.size());
  if (!fresh) return void(++found_[at->second].times);
  const Program& program = launch_.program;
  Diagnostic diagnostic(Code::missing_wait, program.places[pc],
                        cat(instruction_name(program, pc), ": ", name(thread, lane), ' ', does(kind), ' ',
                            owner(address), ", which the launch before wrote at ", by,
                            "; that launch may still run, and nobody on the way here waited for it"));
  diagnostic.notes = {"griddepcontrol.wait, before the first access of what the launch before writes"};
  found_.push_back({{std::move(diagnostic), {site(thread, lane, pc, bytes, address)}}, 1});
}

std::vector<Report> Races::reports() const {
  std::vector<Report> out;
  for (const Found& f : found_) {
    out.push_back(f.report);
    auto& notes = out.back().diagnostic.notes;
    if (f.times > 1) notes.push_back(cat("found ", f.times, " times for this pair of lines"));
  }
  if (known_.size() > found_.size() && !out.empty())
    out.back().diagnostic.notes.push_back(cat("and ", known_.size() - found_.size(), " more pairs of lines"));
  return out;
}

}  // namespace ptx::sim
