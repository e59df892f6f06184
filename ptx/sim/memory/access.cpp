#include "ptx/sim/memory/access.h"

#include <algorithm>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/memory/heap.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

namespace {

const char* verb(Access access) {
  return access == Access::read ? "reads" : access == Access::write ? "writes" : "updates";
}

struct Request {
  Warp& w;
  Manner manner;
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
    w.accessing = {space, address, bytes};
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
  void tell(isa::Space space, void* memory, u64 mask, const Range* range = nullptr) const {
    observer->touched({w, w.pc - 1, space, memory, where.at, mask, active, bytes, access, manner, range, where.vain,
                       where.stored, where.rows});
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
      const bool generic = r.space == isa::Space::generic;  // whose window says of which memory it is
      r.w.unwritten.address[static_cast<std::size_t>(i)] = generic ? r.where.at[i] : name(r, i);
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

// Shared memory is a CTA's as long as one of its threads lives.
bool has_left(const Warp& w, const Cta& cta) { return &cta != &w.cta && cta.finished(); }
std::string gone(Warp& w, const Cta& cta) {
  return cat(" of the shared memory of CTA ", cta.rank, " of the cluster, whose last thread has exited at ",
             mentioned(w, *cta.left, cta.left_at));
}
Code gone_code(const Launch& launch) {
  return asks_for(launch.options.checks, Code::peer_exited) ? Code::peer_exited : Code::out_of_bounds;
}

// An access is aligned, and so are mbarriers. They mostly lie together, so most accesses are beside all of them.
bool touches_mbarrier(Request& r, Cta& cta) {
  const u64 low = r.low & shared_offset_mask, high = (r.high & shared_offset_mask) + r.bytes;
  if (high <= cta.mbarriers.begin()->first || low >= cta.mbarriers.rbegin()->first + 8) return false;
  for (int i = 0; i < lanes; ++i) {
    const u64 offset = r.where.at[i] & shared_offset_mask;
    const auto at = cta.mbarriers.lower_bound(static_cast<u32>(offset & ~u64{7}));
    if (!(r.active >> i & 1) || at == cta.mbarriers.end() || at->first >= offset + r.bytes) continue;
    const Location where{isa::Space::shared_cta, &cta, at->first, 8};
    r.w.fault(Code::barrier_misuse, i,
              r.text(offset,
                     cat(" of shared memory, where the mbarrier ", describe(r.w.cta.launch.program, where), " lives")));
    return true;
  }
  return false;
}

// The CTA that an address names; nullptr: there is none. A number of a thread's own, which names no CTA, is of its own
// in .shared::cta and of the first one elsewhere.
Cta* cta_at(Cta& own, u64 address, isa::Space space) {
  const u64 rank = shared_rank(address);
  if (rank == own.rank || (rank == 0 && is_shared(space) && space != isa::Space::shared_cluster)) return &own;
  return rank < own.cluster.ctas.size() ? own.cluster.ctas[rank].get() : nullptr;
}

// 0x01000000 of shared memory is that of the cluster's CTA 1.
std::string of_no_cta(const Cta& own, u64 address) {
  const std::size_t ctas = own.cluster.ctas.size();
  if (address < local_window && local_window - address < max_local)
    return cat(", ", local_window - address, " bytes before the start of local memory");
  if (shared_rank(address) >= 16) return " of shared memory, of no CTA of the cluster";  // no cluster has so many
  return cat(" of shared memory, of CTA ", shared_rank(address), " of a cluster that has ", ctas,
             ctas == 1 ? " CTA: the launch has no cluster=" : " CTAs");
}

bool shared(Request& r) {
  if ((r.low ^ r.high) >> shared_rank_shift) return false;  // of several CTAs: one by one
  Cta* const cta = cta_at(r.w.cta, r.low, r.space);
  if (!cta) {
    r.w.fault(Code::out_of_bounds, r.lane_of(r.low), r.text(r.low, of_no_cta(r.w.cta, r.low)));
    return true;
  }
  if (has_left(r.w, *cta)) {
    r.w.fault(gone_code(r.w.cta.launch), r.lane_of(r.low), r.text(r.low & shared_offset_mask, gone(r.w, *cta)));
    return true;
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
  if (!cta->mbarriers.empty() && touches_mbarrier(r, *cta)) return true;
  const auto base = reinterpret_cast<u64>(memory.bytes.data());
  if (r.observer) r.tell(isa::Space::shared_cta, cta, shared_offset_mask);
  if (!shadow(r, cells, [](const Request& r, int lane) { return r.where.at[lane] & shared_offset_mask; })) return true;
  for (u64& at : r.where.at) at = base + (at & shared_offset_mask);
  return true;
}

// Whether an access lies on the thread's stack as it is now: what is above was another call's, or stackrestore has
// given it back.
bool on_the_stack(Request& r) {
  const Frame& frame = *r.w.current.frame;
  if ((r.high & ~window_mask) + r.bytes <= frame.bottom()) return true;
  for (int i = 0; i < lanes; ++i) {
    const u64 at = r.where.at[i] & ~window_mask, top = frame.top(i);
    if (!(r.active >> i & 1) || (top >= r.bytes && at <= top - r.bytes)) continue;
    const bool was = top < r.w.local.stride && at < r.w.local.stride;
    r.w.fault(Code::out_of_bounds, i,
              r.text(at, cat(" of local memory, which has ", top, " bytes a thread",
                             was ? " here: a call that has ended, or an alloca before stackrestore, had more" : "")));
    return false;
  }
  return true;
}

void local(Request& r) {
  if (r.access == Access::update) {
    return r.w.fault(Code::out_of_bounds, r.lane_of(r.high),
                     r.text(r.high & ~window_mask, " of local memory, which this instruction does not reach"));
  }
  if (!on_the_stack(r)) return;
  LocalMemory& memory = r.w.local;
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

// What a block of the heap has to do with an access of no buffer; "": none is near.
std::string describe_heap(Warp& w, u64 address, const HeapBlock& block) {
  const Range& range = block.range;
  w.mentioned.push_back(block.allocated.site);
  if (block.freed) w.mentioned.push_back(block.freed->site);
  const std::string of = cat(block.text(), block.freed ? cat(" and ", block.freed->by) : std::string());
  if (address < range.begin) return cat(", ", range.begin - address, " bytes before the start of ", of);
  if (address >= range.end) return cat(", ", address - range.end, " bytes past the end of ", of);
  return cat(block.freed ? ", of " : ", the last of them past the end of ", of);
}

std::string describe_global(const Request& r, u64 address) {
  const u64 window = address & window_mask;
  if (window == shared_window) return ": that is a generic address of shared memory";
  if (window == local_window) return ": that is a generic address of local memory";
  if (const Heap::Block block = r.w.cta.launch.heap->near(address)) return describe_heap(r.w, address, *block);
  const Range* near = r.w.cta.launch.memory.nearest(address);
  if (!near) return "; the kernel has no buffers";
  constexpr u64 far = 1ull << 32;
  if (address + far < near->begin || address > near->end + far) return ", where no buffer is near";
  const u64 size = near->end - near->begin;
  const std::string of = cat(" of `", near->name, "` (", size, " bytes)");
  if (address < near->begin) return cat(", ", near->begin - address, " bytes before the start", of);
  if (address >= near->end) return cat(", ", address - near->end, " bytes past the end", of);
  return cat(", ", address + r.bytes - near->end, " bytes of them past the end", of);
}

// An address that no range holds may be of memory that was freed.
Code no_memory(const Launch& launch, u64 address) {
  const Heap::Block block = launch.heap->near(address);
  const bool inside = block && block->freed && address >= block->range.begin && address < block->range.end;
  return inside ? Code::use_after_free : Code::out_of_bounds;
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
    r.w.fault(no_memory(r.w.cta.launch, address), r.lane_of(address), r.text(address, describe_global(r, address)));
    return true;
  }
  if (!range->heap) r.w.recent = range;
  if (!range_holds(r, *range)) return true;
  const auto space = range->constant ? isa::Space::const_ : range->parameter ? isa::Space::param : isa::Space::global;
  if (r.observer) r.tell(space, nullptr, ~0ull, range);
  if (range->shadow) global_shadow(r, *range);
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
  Request r{w, op.manner, base.space, active, bytes, kind, where, observer, unwritten};
  r.scan();
  if (kind == Access::write) {
    w.cta.cluster.polling.changes += base.space != isa::Space::local;  // that nobody else can see
  } else if (op.manner.order != Order::weak) {
    Cluster::Polling& polling = w.cta.cluster.polling;
    ++polling.looks, polling.warp = &w, polling.pc = w.pc - 1, polling.lane = std::countr_zero(active);
    polling.at = {base.space, where.at[polling.lane], bytes};
  }
  if (r.bits & (bytes - 1)) return r.misaligned();
  if (dispatch(r, false)) return w.event != Event::fault;
  for (int i = 0; i < lanes; ++i) {  // several memories or buffers
    if (!(active >> i & 1)) continue;
    Where one;
    one.vain = where.vain, one.stored = where.stored, one.rows = where.rows;
    Request single{w, op.manner, base.space, Mask{1} << i, bytes, kind, one, observer, unwritten};
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

std::optional<Location> locate(Warp& w, const Operand& address, int lane, u64 bytes, u64 alignment, Access kind) {
  u64 at = static_cast<u64>(address.displacement);
  if (address.cell == 8) {
    at += reinterpret_cast<const u64*>(w.row(address))[lane];
  } else {
    at = static_cast<u32>(static_cast<u32>(at) + reinterpret_cast<const u32*>(w.row(address))[lane]);
  }
  Where one;
  const Request r{w,    {},  address.space, Mask{1} << lane,  static_cast<unsigned>(bytes),
                  kind, one, nullptr,       Unwritten::faults};
  auto refuse = [&](Code code, u64 address, std::string_view what) {
    w.fault(code, lane, r.text(address, what));
    return std::nullopt;
  };
  if (at % alignment) return refuse(Code::misaligned_access, at, cat(", which is not a multiple of ", alignment));
  const u64 window = address.space == isa::Space::generic ? at & window_mask : 0;
  if (is_shared(address.space) || window == shared_window) {
    const u64 offset = at & shared_offset_mask;
    Cta* const found = cta_at(w.cta, at, address.space);
    if (!found) return refuse(Code::out_of_bounds, at, of_no_cta(w.cta, at));
    Cta& cta = *found;
    if (has_left(w, cta)) return refuse(gone_code(w.cta.launch), offset, gone(w, cta));
    const u64 size = cta.shared.bytes.size();
    if (size < bytes || offset > size - bytes) {
      return refuse(Code::out_of_bounds, offset,
                    cat(" of shared memory, which has ", size, " bytes", describe_shared(r, offset, cta.shared)));
    }
    return Location{isa::Space::shared_cta, &cta, offset, bytes};
  }
  if (address.space == isa::Space::local || window == local_window)
    return refuse(Code::out_of_bounds, at, " of local memory, which this instruction does not reach");
  const Range* range = w.cta.launch.memory.find(at);
  if (bytes && (!range || range->end - at < bytes))
    return refuse(no_memory(w.cta.launch, at), at, describe_global(r, at));
  if (range && writes(kind) && !range->writable)
    return refuse(Code::read_only_memory, at, cat(" of `", range->name, "`, which a kernel may only read"));
  return Location{isa::Space::global, nullptr, at, bytes};
}

Bytes bytes_at(const Location& where) {
  if (where.space == isa::Space::global) return {reinterpret_cast<std::byte*>(where.offset), nullptr};
  if (where.space == tensor_space) {
    TensorMemory& memory = static_cast<Cta*>(where.memory)->tensor;
    return {memory.cells(where.offset), memory.states(where.offset)};
  }
  SharedMemory& memory = static_cast<Cta*>(where.memory)->shared;
  return {&memory.bytes[where.offset], &memory.shadow[where.offset]};
}

Bytes reach(const Agent& agent, const Location& where, Access kind, const Manner& manner) {
  Launch& launch = agent.warp->cta.launch;
  if (launch.observer) launch.observer->accessed(agent, where, kind, manner);
  Bytes bytes = bytes_at(where);
  if (where.space == isa::Space::global) {
    const Range* range = launch.memory.find(where.offset);
    if (!range && where.bytes != 0) {  // it was there when the operation began
      const Heap::Block block = launch.heap->near(where.offset);
      agent.warp->fault(Code::use_after_free, agent,
                        cat("began this; it ", verb(kind), ' ', describe(launch.program, where),
                            block ? describe_heap(*agent.warp, where.offset, *block) : ", which was freed"));
      return {};
    }
    if (range && range->shadow) bytes.states = range->shadow + (where.offset - range->begin);
  }
  return bytes;
}

std::string describe(const Program& program, const Location& where) {
  Text t;
  if (where.space == isa::Space::shared_cta) {
    const NamedBytes* best = nullptr;
    for (const NamedBytes& v : program.shared_variables) {
      if (v.begin <= where.offset && where.offset < v.end) best = &v;
    }
    if (best) {
      t << '`' << best->name << '`';
      if (where.offset != best->begin) t << '+' << where.offset - best->begin;
      return t.take();
    }
  }
  if (where.space == tensor_space) {
    const std::uint64_t word = where.offset / 4;
    t << "lane " << word / TensorMemory::columns << ", column " << word % TensorMemory::columns << " of tensor memory";
    return t.take();
  }
  t << "0x";
  t.hex(where.offset);
  t << (where.space == isa::Space::shared_cta ? " of shared memory" : " of global memory");
  return t.take();
}

template bool access<Plain>(Warp&, const Op&, const Operand&, Mask, unsigned, Access, Where&, Unwritten);
template bool access<Watched>(Warp&, const Op&, const Operand&, Mask, unsigned, Access, Where&, Unwritten);

}  // namespace ptx::sim
