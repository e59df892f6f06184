#include "ptx/isa/target.h"

#include "ptx/base/text.h"

namespace ptx::isa {

bool meets(Target have, const Requirement& need) {
  if (need.targets[0].number == 0) return true;
  for (const Target target : need.targets) {
    if (target.number != 0 && meets(have, target)) return true;
  }
  return false;
}

std::string to_string(const Requirement& need) {
  std::string text = cat("PTX ", to_string(need.version));
  const char* separator = " and ";
  for (const Target target : need.targets) {
    if (target.number == 0) continue;
    text += cat(separator, to_string(target));
    separator = " or ";
  }
  return text;
}

}  // namespace ptx::isa
