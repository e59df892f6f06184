#include "ptx/launch/overlap.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "ptx/launch/detail/overlap.h"

namespace ptx::launch {

extern const char overlap_text[];  // written by CMake

bool tells_written_inputs(const Record& record) {
  const auto is_input = [](const TensorArgument& each) { return !each.output; };
  const auto inputs = std::ranges::count_if(record.tensors, is_input);
  const auto written =
      std::ranges::count_if(record.tensors, [&](const TensorArgument& each) { return is_input(each) && each.written; });
  return written != 0 && written != inputs;
}

std::string_view overlap_in_c() {
  constexpr std::string_view head = "#pragma once\n";
  const std::string_view text = overlap_text;
  return text.substr(text.find(head) + head.size());
}

std::optional<Overlap> overlap(std::span<const Placed> tensors, std::string_view copy) {
  static thread_local std::vector<TensorMemory> memory;  // keeps its room from call to call
  memory.clear();
  for (const Placed& each : tensors)
    memory.push_back(memory_of(each.name, each.data, static_cast<int>(each.shape.size()), each.shape.data(),
                               each.strides, each.bits, each.output, each.written));
  char why[overlap_why_bytes];
  const int found = refuse_overlap(memory.data(), static_cast<int>(memory.size()), std::string(copy).c_str(), why);
  if (found == 0) return std::nullopt;
  return Overlap{static_cast<std::size_t>(found - 1), why};
}

}  // namespace ptx::launch
