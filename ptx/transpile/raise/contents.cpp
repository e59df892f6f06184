// What allocations of shared memory hold: the type that loads and stores name, and a row for each step of an address
// that divides the steps above it. Where a use is not understood, or two do not agree, they stay bytes.
#include <algorithm>
#include <functional>

#include "ptx/analysis/memory.h"
#include "ptx/transpile/detail/plan.h"

namespace ptx::transpile {
namespace {

using analysis::MemoryUse;

constexpr std::size_t most_dimensions = 4;

// Rows and columns of `bytes` bytes.
std::vector<std::int64_t> shape_of(const std::vector<MemoryUse>& uses, std::uint64_t bytes, std::uint64_t element) {
  std::vector<std::uint64_t> steps;
  std::uint32_t widest = 0;
  for (const MemoryUse& use : uses) {
    widest = std::max(widest, use.bytes);
    steps.insert(steps.end(), use.steps.begin(), use.steps.end());
  }
  std::sort(steps.begin(), steps.end(), std::greater<>());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  std::vector<std::int64_t> shape;
  std::uint64_t rest = bytes;
  for (const std::uint64_t step : steps) {
    if (step <= widest || step <= element || step >= rest) continue;
    if (rest % step != 0 || step % element != 0) return {static_cast<std::int64_t>(bytes / element)};
    if (shape.size() + 1 == most_dimensions) break;
    shape.push_back(static_cast<std::int64_t>(rest / step));
    rest = step;
  }
  shape.push_back(static_cast<std::int64_t>(rest / element));
  return shape;
}

}  // namespace

void find_contents(const ir::Function& function, Plan& plan) {
  const auto is_bytes = [](const ir::Variable& v) {
    return v.space == isa::Space::shared && v.type == isa::Type::b8 && v.dims.size() == 1 && v.dims[0] > 0;
  };
  if (!plan.allocates || std::none_of(function.variables.begin(), function.variables.end(), is_bytes)) return;
  const auto reached = analysis::reached_memory(function);
  const std::vector<isa::Type> held = analysis::held_numbers(function);
  for (const ir::Variable& v : function.variables) {
    const auto memory = reached.find(v.name.id());
    if (!is_bytes(v) || memory == reached.end() || memory->second.escapes || memory->second.uses.empty()) continue;
    const isa::Type type = analysis::element_of(memory->second.uses, held);
    const std::uint64_t bits = isa::info(type).bits, bytes = static_cast<std::uint64_t>(v.dims[0]);
    if (type == isa::Type::none || bits % 8 != 0 || bytes % (bits / 8) != 0) continue;
    plan.contents[&v] = {type, shape_of(memory->second.uses, bytes, bits / 8)};
  }
}

}  // namespace ptx::transpile
