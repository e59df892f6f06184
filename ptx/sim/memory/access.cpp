#include "ptx/sim/memory/access.h"

#include <algorithm>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

namespace {

const char* verb(Access access) {
  return access == Access::read ? "reads" : access == Access::write ? "writes" : "updates";
}

struct Request {
  Warp& w;
  const Op& op;
  isa::Space space;
  Mask active;
  unsigned bytes;
  Access access;
  Where& where;
  Observer* observer;  // nullptr: nobody watches
  Unwritten unwritten;
  u64 low = ~0ull, high = 0, bits = 0;  // of the addresses

  std::string text(u64 address, std::string_view what) const {
    Text t;
    t << verb(access) << ' ' << bytes << (bytes == 1 ? " byte" : " bytes") << " at 0x";
    t.hex(address) << what;
    return t.take();
  }
  int lane_of(u64 address) const {
    for (int i = 0; i < lanes; ++i) {
      if ((active >> i & 1) && where.at[i] == address) return i;
    }
    return std::countr_zero(active);
  }
  bool misaligned() const {
    for (int i = 0; i < lanes; ++i) {
      if ((active >> i & 1) && (where.at[i] & (bytes - 1))) {
        w.fault(Code::misaligned_access, i, text(where.at[i], cat(", which is not a multiple of ", bytes)));
        return false;
      }
    }
    return false;
  }
  // Before addresses become the host's: `mask` has the bits of an address that are the offset.
  void tell(isa::Space space, const void* memory, u64 mask) const {
    for (int i = 0; i < lanes; ++i) {
      if (!(active >> i & 1)) continue;
      observer->accessed({&w, i, w.pc - 1}, {space, memory, where.at[i] & mask, bytes}, access, op.manner);
    }
  }
  void scan() {
    const u64 first = where.at[std::countr_zero(active)];
    for (int i = 0; i < lanes; ++i) {
      if (active != full_mask) where.at[i] = active >> i & 1 ? where.at[i] : first;
      low = std::min(low, where.at[i]), high = std::max(high, where.at[i]), bits |= where.at[i];
    }
  }
};

// Reads want the shadow set, or note where it is not; writes set it.
bool shadow(Request& r, u8* const* cells, u64 (*name)(const Request&, int lane)) {
  if (!r.w.cta.launch.options.uninitialised && r.access == Access::read) return true;
  for (int i = 0; i < lanes; ++i) {
    if (!(r.active >> i & 1)) continue;
    if (r.access == Access::write) {
      std::memset(cells[i], written, r.bytes);
      continue;
    }
    unsigned missing = 0;
    while (missing < r.bytes && cells[i][missing] == written) ++missing;
    if (missing != r.bytes && r.unwritten == Unwritten::passes) {
      r.w.unwritten.lanes |= Mask{1} << i;
      r.w.unwritten.defined[static_cast<std::size_t>(i)] = cells[i];
      r.w.unwritten.address[static_cast<std::size_t>(i)] = name(r, i);
    } else if (missing != r.bytes) {
      const u64 address = name(r, i);
      r.w.fault(Code::uninitialised_memory, i, r.text(address, cat(", of which byte ", missing, " was never written")));
      return false;
    }
  }
  return true;
}

std::string describe_shared(const Request& r, u64 offset, const SharedMemory& memory) {
  for (const NamedBytes& v : r.w.cta.launch.program.shared_variables) {
    const u64 end = std::min<u64>(v.end, memory.bytes.size());
    if (offset >= end && offset < end + 4096) {
      return cat(", ", offset - end, " bytes past the end of `", v.name, "` (", end - v.begin, " bytes)");
    }
  }
  return {};
}

bool shared(Request& r) {
  Cta* cta = &r.w.cta;
  if ((r.low ^ r.high) >> shared_rank_shift) return false;  // of several CTAs: one by one
  if (const u64 rank = (r.low & ~window_mask) >> shared_rank_shift) {
    if (rank > cta->cluster.ctas.size()) {
      r.w.fault(Code::out_of_bounds, r.lane_of(r.low), r.text(r.low, " of shared memory, of no CTA of the cluster"));
      return true;
    }
    cta = cta->cluster.ctas[rank - 1].get();
  }
  SharedMemory& memory = cta->shared;
  const u64 size = memory.bytes.size();
  const u64 high = r.high & shared_offset_mask;
  if (size < r.bytes || high > size - r.bytes) {
    r.w.fault(Code::out_of_bounds, r.lane_of(r.high),
              r.text(high, cat(" of shared memory, which has ", size, " bytes", describe_shared(r, high, memory))));
    return true;
  }
  u8* cells[lanes];
  for (int i = 0; i < lanes; ++i) {
    const u64 offset = r.where.at[i] & shared_offset_mask;
    cells[i] = memory.shadow.data() + offset;
  }
  const auto base = reinterpret_cast<u64>(memory.bytes.data());
  if (!shadow(r, cells, [](const Request& r, int lane) { return r.where.at[lane] & shared_offset_mask; })) return true;
  if (r.observer) r.tell(isa::Space::shared_cta, cta, shared_offset_mask);
  for (u64& at : r.where.at) at = base + (at & shared_offset_mask);
  return true;
}

void local(Request& r) {
  LocalMemory& memory = r.w.local;
  const u64 high = r.high & ~window_mask;
  if (memory.stride < r.bytes || high > memory.stride - r.bytes) {
    return r.w.fault(Code::out_of_bounds, r.lane_of(r.high),
                     r.text(high, cat(" of local memory, which has ", memory.stride, " bytes a thread")));
  }
  u8* cells[lanes];
  for (int i = 0; i < lanes; ++i) {
    cells[i] = memory.shadow.data() + static_cast<u64>(i) * memory.stride + (r.where.at[i] & ~window_mask);
  }
  if (!shadow(r, cells, [](const Request& r, int lane) { return r.where.at[lane] & ~window_mask; })) return;
  if (r.observer) r.tell(isa::Space::local, &r.w, ~window_mask);
  const auto base = reinterpret_cast<u64>(memory.bytes.data());
  for (int i = 0; i < lanes; ++i) {
    r.where.at[i] = base + static_cast<u64>(i) * memory.stride + (r.where.at[i] & ~window_mask);
  }
}

std::string describe_global(const Request& r, u64 address) {
  const Range* near = r.w.cta.launch.memory.nearest(address);
  if (!near) return "; the kernel has no buffers";
  const u64 size = near->end - near->begin;
  const std::string of = cat(" of `", near->name, "` (", size, " bytes)");
  if (address < near->begin) return cat(", ", near->begin - address, " bytes before the start", of);
  if (address >= near->end) return cat(", ", address - near->end, " bytes past the end", of);
  return cat(", ", address + r.bytes - near->end, " bytes of them past the end", of);
}

bool range_holds(Request& r, const Range& range) {
  if (range.writable || r.access == Access::read) return true;
  r.w.fault(Code::read_only_memory, r.lane_of(r.low),
            r.text(r.low, cat(" of `", range.name,
                              range.input ? "`, an input that the kernel does not say it writes (mutates)"
                                          : "`, which a kernel may only read")));
  return false;
}

bool global_shadow(Request& r, const Range& range) {
  u8* cells[lanes];
  for (int i = 0; i < lanes; ++i) cells[i] = range.shadow + (r.where.at[i] - range.begin);
  return shadow(r, cells, [](const Request& r, int lane) { return r.where.at[lane]; });
}

// False: the lanes touch several ranges, and are to be taken one by one.
bool global(Request& r, bool one_by_one) {
  const GlobalMemory& memory = r.w.cta.launch.memory;
  const Range* range = r.w.recent;
  auto holds = [&](const Range* range) {
    return range && r.low >= range->begin && r.high < range->end && range->end - r.high >= r.bytes;
  };
  if (!holds(range)) range = memory.find(r.low);
  if (!holds(range)) {
    if (!one_by_one && r.low != r.high) return false;
    const u64 address = r.low;
    r.w.fault(Code::out_of_bounds, r.lane_of(address), r.text(address, describe_global(r, address)));
    return true;
  }
  r.w.recent = range;
  if (!range_holds(r, *range) || (range->shadow && !global_shadow(r, *range))) return true;
  const auto space = range->constant ? isa::Space::const_ : range->parameter ? isa::Space::param : isa::Space::global;
  if (r.observer) r.tell(space, nullptr, ~0ull);
  return true;
}

bool dispatch(Request& r, bool one_by_one) {
  using isa::Space;
  switch (r.space) {
    case Space::shared:
    case Space::shared_cta:
    case Space::shared_cluster: return shared(r);
    case Space::local: return local(r), true;
    case Space::generic: {
      const u64 window = r.low & window_mask;
      if (window != (r.high & window_mask)) return false;
      if (window == shared_window) return shared(r);
      if (window == local_window) return local(r), true;
      return global(r, one_by_one);
    }
    default: return global(r, one_by_one);
  }
}

}  // namespace

template <class Engine>
bool access(Warp& w, const Op& op, const Operand& base, Mask active, unsigned bytes, Access kind, Where& where,
            Unwritten unwritten) {
  const u64 offset = static_cast<u64>(base.displacement);
  Observer* observer = nullptr;
  if constexpr (Engine::watched) observer = w.cta.launch.observer;
  if (base.cell == 8) {
    const auto* row = reinterpret_cast<const u64*>(w.row(base));
    for (int i = 0; i < lanes; ++i) where.at[i] = row[i] + offset;
  } else {
    const auto* row = reinterpret_cast<const u32*>(w.row(base));
    for (int i = 0; i < lanes; ++i) where.at[i] = static_cast<u32>(row[i] + static_cast<u32>(offset));
  }
  Request r{w, op, base.space, active, bytes, kind, where, observer, unwritten};
  r.scan();
  if (r.bits & (bytes - 1)) return r.misaligned();
  if (dispatch(r, false)) return w.event != Event::fault;
  for (int i = 0; i < lanes; ++i) {  // several memories or buffers
    if (!(active >> i & 1)) continue;
    Where one;
    Request single{w, op, base.space, Mask{1} << i, bytes, kind, one, observer, unwritten};
    std::fill(std::begin(one.at), std::end(one.at), where.at[i]);
    single.scan();
    dispatch(single, true);
    if (w.event == Event::fault) return false;
    where.at[i] = one.at[i];
  }
  const u64 any = where.at[std::countr_zero(active)];
  for (int i = 0; i < lanes; ++i) where.at[i] = active >> i & 1 ? where.at[i] : any;
  return true;
}

template bool access<Plain>(Warp&, const Op&, const Operand&, Mask, unsigned, Access, Where&, Unwritten);
template bool access<Watched>(Warp&, const Op&, const Operand&, Mask, unsigned, Access, Where&, Unwritten);

}  // namespace ptx::sim
