#include "ptx/sim/machine/special.h"

#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/cta.h"

namespace ptx::sim {

namespace {

using launch::Dim3;

struct Thread {
  const Warp& warp;
  std::uint32_t lane;
  std::uint32_t linear() const { return warp.index * 32 + lane; }
  const Launch& launch() const { return warp.cta.launch; }
  std::uint64_t own_shared() const { return warp.cta.shared.bytes.size() - launch().program.reserved_shared; }
  std::uint64_t shared_bytes() const {  // as they are given
    const std::uint64_t unit = launch().architecture.shared_unit();
    return (own_shared() + unit - 1) / unit * unit;
  }
};

std::uint32_t component(const Dim3& d, char c) { return c == 'x' ? d.x : c == 'y' ? d.y : c == 'z' ? d.z : 0; }

Dim3 position(std::uint64_t linear, const Dim3& extent) {
  return {static_cast<std::uint32_t>(linear % extent.x), static_cast<std::uint32_t>(linear / extent.x % extent.y),
          static_cast<std::uint32_t>(linear / extent.x / extent.y)};
}
Dim3 clusters(const Launch& l) { return {l.grid.x / l.cluster.x, l.grid.y / l.cluster.y, l.grid.z / l.cluster.z}; }
Dim3 cluster_of(const Thread& t) {
  const Dim3 id = t.warp.cta.id, c = t.launch().cluster;
  return {id.x / c.x, id.y / c.y, id.z / c.z};
}

using Value = std::uint64_t (*)(const Thread&, char component);

struct Special {
  std::string_view name;  // without the component
  bool is_volatile;
  Value value;
};

// clang-format off
const Special table[] = {
    {"%tid", false, [](const Thread& t, char c) -> std::uint64_t { return component(position(t.linear(), t.launch().block), c); }},
    {"%ntid", false, [](const Thread& t, char c) -> std::uint64_t { return component(t.launch().block, c); }},
    {"%laneid", false, [](const Thread& t, char) -> std::uint64_t { return t.lane; }},
    {"%warpid", false, [](const Thread& t, char) -> std::uint64_t { return t.warp.index; }},
    {"%nwarpid", false, [](const Thread& t, char) -> std::uint64_t { return t.warp.cta.warps.capacity(); }},
    {"%ctaid", false, [](const Thread& t, char c) -> std::uint64_t { return component(t.warp.cta.id, c); }},
    {"%nctaid", false, [](const Thread& t, char c) -> std::uint64_t { return component(t.launch().grid, c); }},
    {"%smid", false, [](const Thread&, char) -> std::uint64_t { return 0; }},
    {"%nsmid", false, [](const Thread&, char) -> std::uint64_t { return 1; }},
    {"%gridid", false, [](const Thread&, char) -> std::uint64_t { return 1; }},
    {"%is_explicit_cluster", false, [](const Thread& t, char) -> std::uint64_t { return t.launch().in_clusters(); }},
    {"%clusterid", false, [](const Thread& t, char c) -> std::uint64_t { return component(cluster_of(t), c); }},
    {"%nclusterid", false, [](const Thread& t, char c) -> std::uint64_t { return component(clusters(t.launch()), c); }},
    {"%cluster_ctaid", false, [](const Thread& t, char c) -> std::uint64_t { return component(position(t.warp.cta.rank, t.launch().cluster), c); }},
    {"%cluster_nctaid", false, [](const Thread& t, char c) -> std::uint64_t { return component(t.launch().cluster, c); }},
    {"%cluster_ctarank", false, [](const Thread& t, char) -> std::uint64_t { return t.warp.cta.rank; }},
    {"%cluster_nctarank", false, [](const Thread& t, char) -> std::uint64_t { return t.launch().cluster.count(); }},
    {"%lanemask_eq", false, [](const Thread& t, char) -> std::uint64_t { return 1u << t.lane; }},
    {"%lanemask_le", false, [](const Thread& t, char) -> std::uint64_t { return (2ull << t.lane) - 1; }},
    {"%lanemask_lt", false, [](const Thread& t, char) -> std::uint64_t { return (1u << t.lane) - 1; }},
    {"%lanemask_ge", false, [](const Thread& t, char) -> std::uint64_t { return full_mask << t.lane; }},
    {"%lanemask_gt", false, [](const Thread& t, char) -> std::uint64_t { return (full_mask << t.lane) << 1 & full_mask; }},
    {"%clock", true, [](const Thread& t, char) -> std::uint64_t { return t.warp.cta.cluster.executed; }},
    {"%clock_hi", true, [](const Thread& t, char) -> std::uint64_t { return t.warp.cta.cluster.executed >> 32; }},
    {"%clock64", true, [](const Thread& t, char) -> std::uint64_t { return t.warp.cta.cluster.executed; }},
    {"%globaltimer", true, [](const Thread& t, char) -> std::uint64_t { return t.warp.cta.cluster.executed; }},
    {"%globaltimer_lo", true, [](const Thread& t, char) -> std::uint64_t { return t.warp.cta.cluster.executed; }},
    {"%globaltimer_hi", true, [](const Thread& t, char) -> std::uint64_t { return t.warp.cta.cluster.executed >> 32; }},
    {"%total_smem_size", false, [](const Thread& t, char) -> std::uint64_t { return t.shared_bytes(); }},
    {"%aggr_smem_size", false, [](const Thread& t, char) -> std::uint64_t { return t.own_shared() + t.launch().architecture.reserved_shared(); }},
    {"%dynamic_smem_size", false, [](const Thread& t, char) -> std::uint64_t { return t.launch().dynamic_shared; }},
    // The system's part lies before the variables, as on an H200.
    {"%reserved_smem_offset_begin", false, [](const Thread&, char) -> std::uint64_t { return 0; }},
    {"%reserved_smem_offset_end", false, [](const Thread&, char) -> std::uint64_t { return reserved_in_use; }},
    {"%reserved_smem_offset_cap", false, [](const Thread& t, char) -> std::uint64_t { return t.launch().program.reserved_shared; }},
    {"%reserved_smem_offset_0", false, [](const Thread& t, char) -> std::uint64_t { return t.launch().architecture.number >= 100 ? 64 : 0; }},
    {"%reserved_smem_offset_1", false, [](const Thread&, char) -> std::uint64_t { return 0; }},
    // The driver's: of a cooperative launch, where the barrier of its grid lies. Here every launch is one.
    {"%envreg1", false, [](const Thread& t, char) -> std::uint64_t { return reinterpret_cast<std::uint64_t>(&t.launch().workspace) >> 32; }},
    {"%envreg2", false, [](const Thread& t, char) -> std::uint64_t { return reinterpret_cast<std::uint64_t>(&t.launch().workspace); }},
    // Not of PTX: the address of the parameter block, in which decode places every parameter of the entry.
    {"parameters", false, [](const Thread& t, char) -> std::uint64_t { return reinterpret_cast<std::uint64_t>(t.launch().parameters.data()); }},
};
// clang-format on

const Special* find(std::string_view name, char& c) {
  c = 0;
  if (name.size() > 2 && name[name.size() - 2] == '.') c = name.back(), name.remove_suffix(2);
  for (const Special& s : table) {
    if (s.name == name) return &s;
  }
  return nullptr;
}

void fill(Warp& w, const SpecialRow& row, Mask active) {
  char c;
  const Special* special = find(row.name, c);
  std::byte* at = w.banks[static_cast<int>(Bank::special)] + row.offset;
  Mask truth = 0;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1)) continue;
    const std::uint64_t value = special->value({w, lane}, c);
    if (row.cell == 8) reinterpret_cast<std::uint64_t*>(at)[lane] = value;
    if (row.cell == 4) reinterpret_cast<std::uint32_t*>(at)[lane] = static_cast<std::uint32_t>(value);
    truth |= Mask{value != 0} << lane;
  }
  if (row.cell == 0) *reinterpret_cast<Mask*>(at) = truth;
}

}  // namespace

bool knows_special(std::string_view name) {
  char c;
  return find(name, c) != nullptr;
}

bool is_volatile_special(std::string_view name) {
  char c;
  const Special* special = find(name, c);
  return special && special->is_volatile;
}

void fill_special_rows(Warp& warp) {
  for (const SpecialRow& row : warp.cta.launch.program.specials) fill(warp, row, full_mask);
}

void refresh_special(Warp& warp, const Op& op, Mask active) {
  fill(warp, warp.cta.launch.program.specials[op.target], active);
}

}  // namespace ptx::sim
