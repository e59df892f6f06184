#include "ptx/launch/limits.h"

#include <algorithm>

#include "ptx/base/text.h"

namespace ptx::launch {
namespace {

Diagnostic beyond(std::string message) { return Diagnostic(Code::launch_limits, Place{}, std::move(message)); }

std::string spell(const Dim3& size) { return cat("(", size.x, ", ", size.y, ", ", size.z, ")"); }

Expected<Done> within(std::string_view what, const Dim3& asked, const Dim3& most) {
  if (asked.x == 0 || asked.y == 0 || asked.z == 0) return beyond(cat(what, " ", spell(asked), " has a zero"));
  if (asked.x > most.x || asked.y > most.y || asked.z > most.z)
    return beyond(cat(what, " ", spell(asked), " is beyond ", spell(most), ", the most that the device takes"));
  return Done{};
}

// At the largest of the author's allocations, where they are known.
Diagnostic beyond_shared(const Record& record, std::uint32_t most) {
  Diagnostic why =
      beyond(cat("smem: ", record.dynamic_shared, " bytes of dynamic shared memory; a block may have ", most));
  const auto by_bytes = [](const Allocated& a, const Allocated& b) { return a.bytes < b.bytes; };
  const auto largest = std::max_element(record.allocated.begin(), record.allocated.end(), by_bytes);
  if (largest == record.allocated.end()) return why;
  why.place = largest->place;
  why.message +=
      cat("; the largest of ", record.allocated.size(), " is `", largest->name.view(), "`, of ", largest->bytes);
  return why;
}

Expected<Done> check_shape(const Record& record, const Limits& limits) {
  if (auto fits = within("block", record.block, limits.block); !fits) return fits;
  if (record.block.count() > limits.threads)
    return beyond(cat("block ", spell(record.block), " has ", record.block.count(), " threads; the device takes ",
                      limits.threads));
  if (record.grid.count() != 0)  // an empty grid is a launch of nothing, not an error
    if (auto fits = within("grid", record.grid, limits.grid); !fits) return fits;
  if (record.dynamic_shared > limits.shared) return beyond_shared(record, limits.shared);
  const Dim3 &cluster = record.cluster, &grid = record.grid;
  if (cluster.count() == 0 || cluster.count() > limits.cluster)
    return beyond(
        cat("cluster ", spell(cluster), " has ", cluster.count(), " blocks; the device takes 1 to ", limits.cluster));
  if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0)
    return beyond(cat("grid ", spell(grid), " is not a multiple of the cluster ", spell(cluster)));
  return Done{};
}

}  // namespace

Expected<Done> check(const Record& record, const Limits& limits) {
  auto fits = check_shape(record, limits);
  if (fits) return fits;
  Diagnostic why = fits.why().front();
  why.message = cat(record.entry, ": ", why.message);
  return why;
}

Limits limits_of(const arch::Architecture& architecture) {
  Limits limits;
  if (architecture.cta_shared) limits.shared = architecture.cta_shared;
  limits.cluster = architecture.cluster;
  return limits;
}

}  // namespace ptx::launch
