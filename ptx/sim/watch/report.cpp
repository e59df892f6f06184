#include "ptx/sim/watch/report.h"

#include <cxxabi.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <span>

#include "ptx/sim/exec/wgmma_product.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/memory/access.h"
#include "ptx/sim/memory/heap.h"

namespace ptx::sim {

namespace {

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

// The mbarrier that the fragment waits for, its progress, and the instructions that have arrived at it.
std::string describe_mbarrier(const Cta& cta, const Warp& w, const Wait& wait) {
  const Location at{isa::Space::shared_cta, nullptr, wait.object, 8};
  std::string out = cat(": waits for phase ", wait.phase, " (parity ", wait.phase & 1, ") of the mbarrier ",
                        describe(cta.launch.program, at));
  const auto found = cta.mbarriers.find(wait.object);
  if (found == cta.mbarriers.end()) return out + ", which is no longer one";
  const Mbarrier& b = found->second;
  out += ": " + progress(b);
  std::vector<std::string> places;  // two instructions of one line are one place
  for (const std::uint32_t pc : b.arrivals) {
    const std::string place = place_name(w, pc);
    if (std::find(places.begin(), places.end(), place) != places.end()) continue;
    out += cat(places.empty() ? "; arrivals come from " : ", ", place);
    places.push_back(place);
  }
  return b.arrivals.empty() ? out + "; nobody has ever arrived" : out;
}

// Which allocations have the columns that a tcgen05.alloc waits for.
std::string describe_tensor_memory(const Cta& cta, const Warp& w, const Wait& wait) {
  std::string out = cat(": waits for ", wait.object, " columns of tensor memory");
  for (const TensorAllocation& a : cta.tensor.allocations)
    out += cat("; ", place_name(*a.warp, a.pc), " has columns ", a.column, " to ", a.column + a.columns - 1);
  const bool pair = std::any_of(cta.tensor.requests.begin(), cta.tensor.requests.end(),
                                [&](const TensorRequest& r) { return r.warp == &w && r.pair; });
  const bool alone = pair && cta.cluster.ctas[cta.rank ^ 1]->tensor.requests.empty();
  return alone ? out + "; the other CTA of the pair has not asked" : out;
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
    case Wait::Kind::registers:
      return cat(": waits for ", f.wait.object, " registers a thread; it has ", w.owned_registers,
                 ", and the CTA's pool holds ", cta.free_registers, " of the ",
                 (f.wait.object - w.owned_registers) * lanes, " that are missing");
    case Wait::Kind::warpgroup: {
      std::string missing;
      for (std::uint32_t i = 0; i < Warpgroup::warps; ++i) {
        if (cta.warpgroups[f.wait.object].members[i].begun < f.wait.phase)
          missing += cat(missing.empty() ? "" : ", ", f.wait.object * Warpgroup::warps + i);
      }
      const Warpgroup& group = cta.warpgroups[f.wait.object];
      const std::uint32_t pc = group.coming.empty() ? f.pc : group.coming.front()->pc;
      return cat(": waits for a product of its warpgroup, to which warps ", missing,
                 " have not come: ", place_name(w, pc));
    }
    case Wait::Kind::tensor_memory: return describe_tensor_memory(cta, w, f.wait);
  }
  return {};
}

constexpr std::size_t most_mbarriers = 8;

bool is_awaited_at(const Cta& cta, std::uint32_t offset) {
  for (const auto& w : cta.warps) {
    for (const Fragment& f : w->others) {
      if (f.wait.kind == Wait::Kind::mbarrier && f.wait.object == offset) return true;
    }
  }
  return false;
}

}  // namespace

std::string progress(const Mbarrier& b) {
  std::string out = cat(std::int64_t{b.expected} - b.pending, " of ", b.expected, " arrivals");
  if (b.expected_bytes || b.tx) {
    const auto expected = static_cast<std::int64_t>(b.expected_bytes);
    out += cat(", ", expected - b.tx, " of ", expected, " bytes");
  }
  return out;
}

launch::Dim3 thread_id(const Warp& warp, int lane) {
  const launch::Dim3 block = warp.cta.launch.block;
  const std::uint32_t linear = warp.index * lanes + static_cast<std::uint32_t>(lane);
  return {linear % block.x, linear / block.x % block.y, linear / block.x / block.y};
}

std::string triple(const launch::Dim3& d) { return cat('(', d.x, ',', d.y, ',', d.z, ')'); }
std::string thread_name(const Warp& warp, int lane) {
  return cat("thread ", triple(thread_id(warp, lane)), " of CTA ", triple(warp.cta.id));
}

Site site_of(const Warp& warp, std::uint32_t pc, int lane) {
  const Program& program = warp.cta.launch.program;
  return {.cta = warp.cta.id,
          .thread = thread_id(warp, lane),
          .place = program.places[pc],
          .instruction = std::string(program.mnemonics[pc]),
          .source = source_line(program, pc)};
}

void site_accesses(Site& site, const Warp& warp, const Accessing& a) {
  const Launch& launch = warp.cta.launch;
  const std::uint64_t window = a.space == isa::Space::generic ? a.address & window_mask : 0;
  site.bytes = a.bytes;
  if (is_shared(a.space) || window == shared_window) {
    site.space = "shared::cta", site.address = a.address & shared_offset_mask;
    for (const NamedBytes& v : launch.program.shared_variables) {
      if (site.address < v.begin || site.address >= v.end) continue;
      site.owner = describe(launch.program, {isa::Space::shared_cta, nullptr, site.address, a.bytes});
    }
  } else if (a.space == isa::Space::local || window == local_window) {
    site.space = "local", site.address = a.address & ~window_mask;
  } else {
    site.space = "global", site.address = a.address;
    const Range* const range = launch.memory.nearest(a.address);
    if (launch.heap->near(a.address)) {
      site.owner = "the heap";
    } else if (range) {
      const auto offset = static_cast<std::int64_t>(a.address - range->begin);
      site.owner = cat('`', range->name, '`', offset > 0 ? "+" : "", offset ? cat(offset) : std::string());
    }
  }
}

namespace {

// What the words of describe_wait() name besides the fragment's own place.
void sites_of_cause(const Cta& cta, const Wait& wait, std::vector<Site>& out) {
  if (wait.kind == Wait::Kind::tensor_memory) {
    for (const TensorAllocation& a : cta.tensor.allocations) out.push_back(site_of(*a.warp, a.pc, 0));
  }
  if (wait.kind != Wait::Kind::warpgroup) return;
  const Warpgroup& group = cta.warpgroups[wait.object];
  const std::size_t first = wait.object * Warpgroup::warps;
  if (!group.coming.empty()) out.push_back(site_of(*cta.warps[first], group.coming.front()->pc, 0));
}

}  // namespace

std::vector<Site> sites_of_waiting(const Cluster& cluster) {
  std::vector<Site> out;
  for (const auto& cta : cluster.ctas) {
    for (const auto& w : cta->warps) {
      for (const Fragment& f : w->others) {
        if (f.mask == 0 || f.ready() || out.size() >= 16) continue;
        out.push_back(site_of(*w, f.wait.kind == Wait::Kind::lanes ? f.pc : f.pc - 1, std::countr_zero(f.mask)));
        if (out.size() == 1) sites_of_cause(*cta, f.wait, out);
      }
    }
  }
  return out;
}

std::string describe_wait(const Warp& warp, const Fragment& fragment) {
  const std::string what = describe_wait(warp.cta, warp, fragment);
  return what.starts_with(": ") ? what.substr(2) : what;
}

std::string place_name(const Warp& warp, std::uint32_t pc) {
  const Program& program = warp.cta.launch.program;
  const Place& place = program.places[pc];
  return cat(place.file.empty() ? std::string_view("line ") : place.file.view(), place.file.empty() ? "" : ":",
             place.line, " (", instruction_name(program, pc), ')');
}

// The text of a line of the author's file, without what surrounds it; empty: it cannot be read.
static std::string text_of(const Place& place) {
  std::ifstream file{std::string(place.file.view())};
  std::string line;
  for (std::uint32_t i = 0; i < place.line; ++i) {
    if (!std::getline(file, line)) return {};
  }
  const auto begin = line.find_first_not_of(" \t"), end = line.find_last_not_of(" \t\r");
  return begin == line.npos ? std::string() : line.substr(begin, end + 1 - begin);
}

// "k::tile" of _ZZ1kE4tile, as compilers of C++ name what a function has; else empty.
static std::string plain_name(const std::string& name) {
  if (!name.starts_with("_Z")) return {};
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr),
                                                    &std::free);
  return text ? text.get() : "";
}

void tell_names(Diagnostic& diagnostic, const Program& program) {
  std::vector<std::string> notes;
  for (const NamedBytes& v : program.shared_variables) {
    const std::string name = cat('`', v.name, '`');
    const auto has = [&](const std::string& text) { return text.find(name) != text.npos; };
    if (!has(diagnostic.message) && std::none_of(diagnostic.notes.begin(), diagnostic.notes.end(), has)) continue;
    if (const std::string plain = plain_name(v.name); !plain.empty()) notes.push_back(cat(name, " is ", plain));
    if (!v.place.line) continue;
    const std::string text = text_of(v.place);
    if (text.find(v.name) != text.npos) continue;
    notes.push_back(cat(name, " is allocated at ", v.place.file.view(), ':', v.place.line, text.empty() ? "" : ": `",
                        text, text.empty() ? "" : "`"));
  }
  // A register that the author's line calls otherwise, and whose name nobody knows.
  const auto quote = diagnostic.message.find("`%"), end = diagnostic.message.find('`', quote + 1);
  if (quote != std::string::npos && end != std::string::npos && !diagnostic.message.substr(end).starts_with("` (`")) {
    const std::string text = text_of(diagnostic.place);
    if (!text.empty() && text.find(diagnostic.message.substr(quote + 1, end - quote - 1)) == text.npos)
      notes.push_back(cat("the line is `", text, '`'));
  }
  diagnostic.notes.insert(diagnostic.notes.end(), notes.begin(), notes.end());
}

std::string source_line(const Program& program, std::uint32_t pc) {
  const Place& source = program.sources[pc];
  return source.line ? cat(source.file.view(), ':', source.line) : std::string();
}

std::string instruction_name(const Program& program, std::uint32_t pc) {
  const std::string source = source_line(program, pc);
  return cat('`', program.mnemonics[pc], '`', source.empty() ? "" : " of ", source);
}

std::string mentioned(Warp& warp, const Warp& other, std::uint32_t pc, int lane) {
  warp.mentioned.push_back(site_of(other, pc, lane));
  return place_name(other, pc);
}

std::vector<std::string> writers_of(Warp& warp, const Operand& row, std::uint32_t pc) {
  const Program& program = warp.cta.launch.program;
  const std::vector<Op>& ops = program.ops;
  std::size_t end = ops.size();
  for (const FunctionCode& f : program.functions) {
    if (f.first > pc) end = std::min<std::size_t>(end, f.first);
  }
  for (auto i = pc + 1; i < end; ++i) {
    for (const Operand& d : std::span(ops[i].operands, ops[i].destinations)) {
      if (d.slot == row.slot)
        return {cat("the next that writes it in the text is ", mentioned(warp, warp, static_cast<std::uint32_t>(i)))};
    }
  }
  return {};
}

Diagnostic describe_fault(const Warp& warp, Code code, std::uint32_t pc, int lane, std::string what,
                          std::vector<std::string> notes) {
  const Program& program = warp.cta.launch.program;
  Diagnostic d(code, program.places[pc], cat(instruction_name(program, pc), ": ", thread_name(warp, lane), ' ', what));
  d.notes = std::move(notes);
  return d;
}

namespace {

// Warps of one CTA of which the same is true.
struct Standing {
  const Cta* cta;
  std::vector<std::uint32_t> warps;
  std::string what;
};

// "warp 3", "warps 0-3, 6"
std::string warp_list(const std::vector<std::uint32_t>& warps) {
  std::string out = warps.size() == 1 ? "warp " : "warps ";
  for (std::size_t i = 0; i < warps.size();) {
    std::size_t last = i;
    while (last + 1 < warps.size() && warps[last + 1] == warps[last] + 1) ++last;
    out += cat(i ? ", " : "", warps[i], last == i ? "" : cat('-', warps[last]));
    i = last + 1;
  }
  return out;
}

std::vector<Standing> standings(const Cluster& cluster) {
  std::vector<Standing> out;
  for (const auto& cta : cluster.ctas) {
    const std::size_t first = out.size();
    const auto add = [&](const Warp& w, std::string what) {
      const auto same = std::find_if(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(),
                                     [&](const Standing& s) { return s.what == what; });
      if (same == out.end()) return void(out.push_back({cta.get(), {w.index}, std::move(what)}));
      if (same->warps.back() != w.index) same->warps.push_back(w.index);
    };
    const auto stands = [&](const Warp& w, const Fragment& f, std::uint32_t pc) {
      const bool behind = !f.ready() && f.wait.kind != Wait::Kind::lanes;  // pc is behind the instruction that waits
      add(w, cat("lanes ", lane_list(f.mask), " at ", place_name(w, behind ? pc - 1 : pc), describe_wait(*cta, w, f)));
    };
    for (const auto& w : cta->warps) {
      if (w->current.mask) stands(*w, w->current, w->pc);
      for (const Fragment& f : w->others) stands(*w, f, f.pc);
      if (const Mask gone = ~w->live; gone && w->live)
        add(*w, cat("lanes ", lane_list(gone), " have exited or are not there"));
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> where_warps_stand(const Cluster& cluster) {
  std::vector<std::string> out;
  constexpr std::size_t most = 16;
  const std::vector<Standing> all = standings(cluster);
  for (const Standing& s : all) {
    if (out.size() == most) break;
    out.push_back(cat("CTA ", triple(s.cta->id), ", ", warp_list(s.warps), ", ", s.what));
  }
  if (all.size() > most) out.push_back(cat("and ", all.size() - most, " more"));
  // The mbarriers that nobody waits for: an arrival may have gone to the wrong one.
  std::size_t others = 0;
  for (const auto& cta : cluster.ctas) {
    for (const auto& [offset, b] : cta->mbarriers) {
      if (is_awaited_at(*cta, offset) || ++others > most_mbarriers) continue;
      const Location at{isa::Space::shared_cta, nullptr, offset, 8};
      out.push_back(cat("CTA ", triple(cta->id), ": nobody waits for the mbarrier ", describe(cta->launch.program, at),
                        ", which is in phase ", b.phase, ": ", progress(b)));
    }
  }
  if (others > most_mbarriers) out.push_back(cat("and ", others - most_mbarriers, " more mbarriers"));
  return out;
}

}  // namespace ptx::sim
