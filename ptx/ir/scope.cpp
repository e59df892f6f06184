// Register look-up by name.
#include "ptx/ir/detail/scope.h"

#include <charconv>

namespace ptx::ir {

void Scope::declare(Table& table, std::string_view name, RegisterId first, std::uint32_t count) {
  Bindings& bindings = table[name];
  bindings.push_back({first, count, marks_.size()});
  declared_.push_back(&bindings);
}

void Scope::close() {
  if (marks_.empty()) return;
  for (; declared_.size() > marks_.back(); declared_.pop_back()) declared_.back()->pop_back();
  marks_.pop_back();
}

// A name of its own, or one of a range, where %r01 is %r1, as in the assembler; the range of an inner block hides only
// the names that it has.
RegisterId Scope::find(std::string_view name) const {
  const auto exact = names_.find(name);
  const bool named = exact != names_.end() && !exact->second.empty();
  const RegisterId own = named ? exact->second.back().first : no_id;
  const auto digits = name.find_last_not_of("0123456789") + 1;
  if (digits == name.size()) return own;
  const auto ranges = ranges_.find(name.substr(0, digits));
  if (ranges == ranges_.end()) return own;
  std::uint32_t index = 0;
  if (std::from_chars(name.data() + digits, name.data() + name.size(), index).ec != std::errc()) return own;
  for (auto range = ranges->second.rbegin(); range != ranges->second.rend(); ++range) {
    if (named && exact->second.back().depth >= range->depth) return own;
    if (index < range->count) return range->first + index;
  }
  return own;
}

}  // namespace ptx::ir
