// The rules that a run looks for beside those that hold always (docs/sanitizer.md), by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/base/diagnostic.h"
#include "ptx/base/expected.h"

namespace ptx::sim {

enum class Check : std::uint8_t {
#define RULE(rule, of) rule,
#include "ptx/sim/checks.def"
#undef RULE
};

using Checks = std::uint32_t;  // bit i: Check i; 0: none, the plain engine runs
constexpr Checks bit(Check check) { return Checks{1} << static_cast<int>(check); }

// "all", "none", or names of rules with commas between them: "all,loose_reuse"; "all,-collective_order" leaves one out.
// Anything else is refused with the names that are legal.
Expected<Checks> checks_named(std::string_view names);
std::vector<std::string_view> check_names();

// Whether a run reports breaches of this rule: always, unless the rule is one of the checks that are asked for.
bool asks_for(Checks checks, Code code);

}  // namespace ptx::sim
