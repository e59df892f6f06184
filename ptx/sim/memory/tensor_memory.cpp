#include "ptx/sim/memory/tensor_memory.h"

#include <algorithm>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/memory/access.h"
#include "ptx/sim/watch/observer.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

namespace {

bool overlaps(const TensorAllocation& a, std::uint32_t column, std::uint32_t count) {
  return a.column < column + count && column < a.column + a.columns;
}
bool is_free(const TensorMemory& memory, std::uint32_t column, std::uint32_t count) {
  return std::none_of(memory.allocations.begin(), memory.allocations.end(),
                      [&](const TensorAllocation& a) { return overlaps(a, column, count); });
}

// Writes where the columns begin, and lets the warp go on.
void give(Cta& cta, const TensorRequest& request, std::uint32_t column) {
  cta.tensor.allocate({column, request.columns, request.pair, request.warp, request.pc});
  const Agent agent{request.warp, request.lane, request.pc};
  const Location to{isa::Space::shared_cta, &cta, request.address, 4};
  const Bytes target = reach(agent, to, Access::write, {});
  std::memcpy(target.data, &column, 4);
  std::memset(target.states, written, 4);
  if (Observer* const observer = cta.launch.observer) observer->met(*request.warp, request.warp->live);
  for (Fragment& f : request.warp->others) {
    if (f.wait.kind == Wait::Kind::tensor_memory) f.wait = {};
  }
  cta.cluster.idle = 0;
}

}  // namespace

// A request of a pair is served with the other CTA's, from the same columns.
void Cluster::settle_tensor_memory() {
  for (const auto& cta : ctas) {
    std::vector<TensorRequest>& own = cta->tensor.requests;
    while (!own.empty()) {
      const TensorRequest request = own.front();
      Cta* const peer = request.pair ? ctas[cta->rank ^ 1].get() : nullptr;
      if (peer && (peer->tensor.requests.empty() || !peer->tensor.requests.front().pair)) break;
      if (peer && peer->tensor.requests.front().columns != request.columns) {
        return request.warp->fault(
            Code::out_of_bounds, Agent{request.warp, request.lane, request.pc},
            cat("allocates ", request.columns, " columns of tensor memory; the other CTA of the pair ",
                peer->tensor.requests.front().columns));
      }
      const std::uint32_t column = cta->tensor.find(request.columns, peer ? &peer->tensor : nullptr);
      if (column == TensorMemory::columns) break;
      own.erase(own.begin());
      give(*cta, request, column);
      if (!peer) continue;
      const TensorRequest other = peer->tensor.requests.front();
      peer->tensor.requests.erase(peer->tensor.requests.begin());
      give(*peer, other, column);
    }
  }
}

void Cluster::report_leaks() {
  for (const auto& cta : ctas) {
    for (const TensorAllocation& a : cta->tensor.allocations) {
      launch.report(index,
                    describe_fault(*a.warp, Code::out_of_bounds, a.pc, 0,
                                   cat("allocated columns ", a.column, " to ", a.column + a.columns - 1,
                                       " of tensor memory here, and its CTA ended without their tcgen05.dealloc"),
                                   {}),
                    {site_of(*a.warp, a.pc, 0)});
      return;
    }
  }
}

std::uint32_t TensorMemory::find(std::uint32_t count, const TensorMemory* other) const {
  for (std::uint32_t column = 0; column + count <= columns; column += unit) {
    if (is_free(*this, column, count) && (!other || is_free(*other, column, count))) return column;
  }
  return columns;
}

void TensorMemory::allocate(const TensorAllocation& allocation) {
  bytes_.resize(lanes * lane_bytes);
  shadow_.resize(lanes * lane_bytes);
  for (std::uint64_t lane = 0; lane < lanes; ++lane) {  // what others left there is nobody's value
    std::fill_n(&shadow_[lane * lane_bytes + allocation.column * 4], allocation.columns * 4, std::uint8_t{0});
  }
  allocations.push_back(allocation);
  least = std::min(least, allocation.columns);
}

void TensorMemory::free(std::size_t index, std::uint32_t pc) {
  freed.push_back(allocations[index]);
  freed.back().freed_at = pc;
  allocations.erase(allocations.begin() + static_cast<std::ptrdiff_t>(index));
}

const TensorAllocation* TensorMemory::holder(std::uint32_t column, std::uint32_t count) const {
  for (const TensorAllocation& a : allocations) {
    if (a.holds(column, count)) return &a;
  }
  return nullptr;
}

const TensorAllocation* TensorMemory::former(std::uint32_t column, std::uint32_t count) const {
  for (auto a = freed.rbegin(); a != freed.rend(); ++a) {
    if (overlaps(*a, column, count)) return &*a;
  }
  return nullptr;
}

}  // namespace ptx::sim
