// Rules of loads and stores, asynchronous copies and multimem addresses.
#include "ptx/isa/detail/rules.h"

namespace ptx::isa::rules {

bool operator_alone(const Match& match) {
  return match.value("cop").empty() || (match.value("evict1").empty() && match.value("evict2").empty());
}

bool weak_alone(const Match& match) { return !match.has("weak") || match.value("scope").empty(); }

// 9.7.9.14, the table of vectors and types.
bool multimem_vector(const Match& match) {
  const std::string_view vec = match.value("vec");
  const int bits = (vec.empty() ? 1 : vec[1] - '0') * info(match.type()).bits;
  return (bits == 32 || bits == 64 || bits == 128) && (vec.empty() || match.type() != Type::f64);
}

bool ignore_oob_report(const Match& match) {
  const std::string_view report = match.value("report");
  return !match.has("ignore_oob") || report.empty() || report == "mbarrier::report::disabled";
}

}  // namespace ptx::isa::rules
