#include "ptx/ir/directive.h"

#include <algorithm>

#include "ptx/isa/directives.h"
#include "ptx/syntax/token.h"

namespace ptx::ir {

std::optional<std::vector<std::uint32_t>> directive_numbers(const Function& function, std::string_view word) {
  const auto& all = function.directives;
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const auto& t) { return isa::first_word(t) == word; });
  if (found == all.rend()) return std::nullopt;
  std::vector<std::uint32_t> numbers;
  std::string_view left = std::string_view(*found).substr(word.size());
  constexpr std::string_view gaps = " \t\n,;";
  for (std::size_t at; (at = left.find_first_not_of(gaps)) != left.npos;) {
    left.remove_prefix(at);
    const std::string_view one = left.substr(0, left.find_first_of(gaps));
    if (const auto number = syntax::integer(one)) numbers.push_back(static_cast<std::uint32_t>(*number));
    left.remove_prefix(one.size());
  }
  return numbers;
}

}  // namespace ptx::ir
