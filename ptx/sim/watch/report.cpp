#include "ptx/sim/watch/report.h"

#include <bit>

#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/memory/access.h"

namespace ptx::sim {

namespace {

std::string triple(const launch::Dim3& d) { return cat('(', d.x, ',', d.y, ',', d.z, ')'); }

// "3", "0-31", "0, 4-7"
std::string lane_list(Mask mask) {
  std::string out;
  for (int i = 0; i < lanes; ++i) {
    if (!(mask >> i & 1)) continue;
    int last = i;
    while (last + 1 < lanes && (mask >> (last + 1) & 1)) ++last;
    out += cat(out.empty() ? "" : ", ", i, last > i ? cat('-', last) : std::string());
    i = last;
  }
  return out;
}

std::string not_arrived(const Cluster& cluster) {
  std::uint32_t missing = 0;
  for (const auto& cta : cluster.ctas) {
    for (const auto& w : cta->warps)
      missing += static_cast<std::uint32_t>(std::popcount(w->live & ~w->cluster_arrived));
  }
  return cat(missing, " threads have not come");
}

// What has come of what a phase waits for.
std::string progress(const Mbarrier& b) {
  std::string out = cat(std::int64_t{b.expected} - b.pending, " of ", b.expected, " arrivals");
  if (b.expected_bytes || b.tx) {
    const auto expected = static_cast<std::int64_t>(b.expected_bytes);
    out += cat(", ", expected - b.tx, " of ", expected, " bytes");
  }
  return out;
}

// That, and who has ever arrived there.
std::string describe_mbarrier(const Cta& cta, const Warp& w, const Wait& wait) {
  const Location at{isa::Space::shared_cta, nullptr, wait.object, 8};
  std::string out = cat(": waits for phase ", wait.phase, " (parity ", wait.phase & 1, ") of the mbarrier ",
                        describe(cta.launch.program, at));
  const auto found = cta.mbarriers.find(wait.object);
  if (found == cta.mbarriers.end()) return out + ", which is no longer one";
  const Mbarrier& b = found->second;
  out += ": " + progress(b);
  for (const std::uint32_t pc : b.arrivals)
    out += cat(pc == b.arrivals[0] ? "; arrivals come from " : ", ", place_name(w, pc));
  return b.arrivals.empty() ? out + "; nobody has ever arrived" : out;
}

std::string describe_wait(const Cta& cta, const Warp& w, const Fragment& f) {
  switch (f.wait.kind) {
    case Wait::Kind::none: return {};
    case Wait::Kind::lanes:
      return cat(": waits for other lanes of the warp; lanes ", lane_list(w.live & ~f.mask), " are not here");
    case Wait::Kind::barrier: {
      const Barrier& b = cta.barriers[f.wait.object];
      return cat(": waits at barrier ", f.wait.object, ", ", b.arrived, " of ",
                 b.expected ? b.expected : static_cast<std::uint32_t>(cta.warps.size() * lanes), " threads have come");
    }
    case Wait::Kind::cluster_barrier: return cat(": waits for the cluster's barrier; ", not_arrived(cta.cluster));
    case Wait::Kind::mbarrier: return describe_mbarrier(cta, w, f.wait);
  }
  return {};
}

constexpr std::size_t most_mbarriers = 8;

bool is_awaited(const Cta& cta, std::uint32_t offset) {
  for (const auto& w : cta.warps) {
    for (const Fragment& f : w->others) {
      if (f.wait.kind == Wait::Kind::mbarrier && f.wait.object == offset) return true;
    }
  }
  return false;
}

}  // namespace

std::string thread_name(const Warp& warp, int lane) {
  const launch::Dim3 block = warp.cta.launch.block;
  const std::uint32_t linear = warp.index * lanes + static_cast<std::uint32_t>(lane);
  const launch::Dim3 tid{linear % block.x, linear / block.x % block.y, linear / block.x / block.y};
  return cat("thread ", triple(tid), " of CTA ", triple(warp.cta.id));
}

std::string place_name(const Warp& warp, std::uint32_t pc) {
  const Program& program = warp.cta.launch.program;
  const Place& place = program.places[pc];
  return cat(place.file.empty() ? std::string_view("line ") : place.file.view(), place.file.empty() ? "" : ":",
             place.line, " (`", program.mnemonics[pc], "`)");
}

Diagnostic describe_fault(const Warp& warp, Code code, std::uint32_t pc, int lane, std::string what,
                          std::vector<std::string> notes) {
  const Program& program = warp.cta.launch.program;
  Diagnostic d(code, program.places[pc], cat('`', program.mnemonics[pc], "`: ", thread_name(warp, lane), ' ', what));
  d.notes = std::move(notes);
  return d;
}

std::vector<std::string> where_warps_stand(const Cluster& cluster) {
  std::vector<std::string> out;
  constexpr std::size_t most = 16;
  std::size_t more = 0;
  for (const auto& cta : cluster.ctas) {
    for (const auto& w : cta->warps) {
      auto add = [&](const Fragment& f, std::uint32_t pc) {
        if (out.size() == most) return void(++more);
        const bool behind = !f.ready() && f.wait.kind != Wait::Kind::lanes;  // the instruction that waits
        out.push_back(cat("CTA ", triple(cta->id), ", warp ", w->index, ", lanes ", lane_list(f.mask), " at ",
                          place_name(*w, behind ? pc - 1 : pc), describe_wait(*cta, *w, f)));
      };
      if (w->current.mask) add(w->current, w->pc);
      for (const Fragment& f : w->others) add(f, f.pc);
      if (const Mask gone = ~w->live; gone && w->live) {
        if (out.size() < most)
          out.push_back(cat("CTA ", triple(cta->id), ", warp ", w->index, ", lanes ", lane_list(gone),
                            " have exited or are not there"));
      }
    }
  }
  if (more) out.push_back(cat("and ", more, " more"));
  // The other mbarriers: what was meant for one may have gone to another.
  std::size_t others = 0;
  for (const auto& cta : cluster.ctas) {
    for (const auto& [offset, b] : cta->mbarriers) {
      if (is_awaited(*cta, offset) || ++others > most_mbarriers) continue;
      const Location at{isa::Space::shared_cta, nullptr, offset, 8};
      out.push_back(cat("CTA ", triple(cta->id), ": nobody waits for the mbarrier ", describe(cta->launch.program, at),
                        ", which is in phase ", b.phase, ": ", progress(b)));
    }
  }
  if (others > most_mbarriers) out.push_back(cat("and ", others - most_mbarriers, " more mbarriers"));
  return out;
}

}  // namespace ptx::sim
