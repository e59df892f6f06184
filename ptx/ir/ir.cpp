// Questions about single pieces of ir that need no text of a module.
#include "ptx/ir/ir.h"

#include "ptx/base/text.h"

namespace ptx::ir {

std::uint64_t bytes(const Variable& variable) {
  std::uint64_t size = variable.opaque.empty() ? (isa::info(variable.type).bits + 7u) / 8u : 8u;
  size *= variable.vector;
  for (const std::int64_t dim : variable.dims) size *= dim < 0 ? 0 : static_cast<std::uint64_t>(dim);
  return size;
}

std::string name(const Register& reg) {
  return reg.index < 0 ? std::string(reg.base.view()) : cat(reg.base.view(), reg.index);
}

}  // namespace ptx::ir
