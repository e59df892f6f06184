// Questions about single pieces of ir that need no text of a module.
#include "ptx/ir/ir.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "ptx/base/text.h"

namespace ptx::ir {

std::uint64_t bytes(const Variable& variable) {
  std::uint64_t size = variable.opaque.empty() ? (isa::info(variable.type).bits + 7u) / 8u : 8u;
  size *= variable.vector;
  for (const std::int64_t dim : variable.dims) size *= dim < 0 ? 0 : static_cast<std::uint64_t>(dim);
  return size;
}

std::optional<Spot> inlined_at(const Location& location) {
  constexpr std::string_view word = "inlined_at ";
  const std::string& text = location.inlined;
  const std::size_t found = text.rfind(word);
  if (found == text.npos) return std::nullopt;
  Spot spot{};
  const char *at = text.data() + found + word.size(), *const end = text.data() + text.size();
  for (std::uint32_t& n : spot) {
    at = std::find_if(at, end, [](char c) { return c >= '0' && c <= '9'; });
    const auto [behind, error] = std::from_chars(at, end, n);
    at = behind;
    if (error == std::errc::result_out_of_range) n = std::numeric_limits<std::uint32_t>::max();
  }
  return spot;
}

std::string name(const Register& reg) {
  return reg.index < 0 ? std::string(reg.base.view()) : cat(reg.base.view(), reg.index);
}

}  // namespace ptx::ir
