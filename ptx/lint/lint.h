// What may be wrong or idle in legal PTX, by rules that each have a number, a name and a switch, and the change that
// mends it where one keeps the meaning. Illegal PTX is the business of `check`.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/base/diagnostic.h"
#include "ptx/ir/ir.h"
#include "ptx/syntax/tree.h"

namespace ptx::lint {

enum class Rule : std::uint8_t {
#define LINT(number, name, severity, on, fix, summary) name,
#include "ptx/lint/rules.def"
#undef LINT
};

struct RuleInfo {
  Rule rule;
  std::uint16_t number;  // PTX6001
  std::string_view name;
  Severity severity;
  bool on;     // without being asked for
  bool fixes;  // some of its findings come with a change
  std::string_view summary;
};
const std::vector<RuleInfo>& rules();

using Selection = std::bitset<64>;  // by Rule
Selection defaults();

// Bytes of the text, and what should stand there.
struct Change {
  Span span;
  std::string text;
};

struct Finding {
  Rule rule;
  Place place;
  Span span;
  std::string message;
  std::string section;          // of the manual, or ""
  std::vector<Change> changes;  // all of them together mend it; in order and apart; empty: a person has to
};

// The findings in the order of the text. `module` is `tree` lowered and checked: rules read what check has set.
std::vector<Finding> lint(const syntax::Tree& tree, const ir::Module& module, const Selection& selection = defaults());

// The text with the changes of findings that do not touch each other; those that remain are found again.
std::string fix(std::string_view text, const std::vector<Finding>& findings);

}  // namespace ptx::lint
