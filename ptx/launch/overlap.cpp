#include "ptx/launch/overlap.h"

#include <algorithm>

namespace ptx::launch {

extern const char overlap_text[];  // written by CMake

std::string_view overlap_in_c() {
  constexpr std::string_view first = "namespace ptx::launch {\n\n", last = "\n}  // namespace";
  const std::string_view text = std::string_view(overlap_text).substr(std::string_view(overlap_text).find(first));
  return text.substr(first.size(), text.find(last) - first.size());
}

bool tells_written_inputs(const Record& record) {
  const auto is_input = [](const TensorArgument& each) { return !each.output; };
  const auto inputs = std::ranges::count_if(record.tensors, is_input);
  const auto written =
      std::ranges::count_if(record.tensors, [&](const TensorArgument& each) { return is_input(each) && each.written; });
  return written != 0 && written != inputs;
}

}  // namespace ptx::launch
