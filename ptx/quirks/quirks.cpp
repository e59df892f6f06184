// The rows of ptxas_13_5.def, and the search in them.
#include "ptx/quirks/quirks.h"

#include <algorithm>

#include "ptx/base/text.h"
#include "ptx/isa/forms.h"
#include "ptx/quirks/detail/form_set.h"
#include "ptx/quirks/detail/ptxas_13_5.h"

namespace ptx::quirks {

namespace {

struct OperandRow {
  FormSet forms;
  std::string_view operands;
  Code code;
  bool (*applies)(const Case&);
  std::string_view reason;
};
constexpr OperandRow operand_rows[] = {
#define OPERAND(forms, operands, code, applies, reason) {forms, operands, Code::code, ptxas_13_5::applies, reason},
#include "ptx/quirks/ptxas_13_5.def"
};

struct RuleRow {
  FormSet forms;
  isa::Rule rule;
  bool (*applies)(const Case&);
  std::string_view reason;
};
constexpr RuleRow rule_rows[] = {
#define RULE(forms, rule, applies, reason) {forms, isa::Rule::rule, ptxas_13_5::applies, reason},
#include "ptx/quirks/ptxas_13_5.def"
};
constexpr RuleRow target_rows[] = {
#define TARGET(forms, applies, reason) {forms, isa::Rule::none, ptxas_13_5::applies, reason},
#include "ptx/quirks/ptxas_13_5.def"
};
constexpr RuleRow extra_rows[] = {
#define EXTRA(forms, applies, reason) {forms, isa::Rule::none, ptxas_13_5::applies, reason},
#include "ptx/quirks/ptxas_13_5.def"
};
constexpr RuleRow missing_rows[] = {
#define MISSING(forms, applies, reason) {forms, isa::Rule::none, ptxas_13_5::applies, reason},
#include "ptx/quirks/ptxas_13_5.def"
};

struct Ignored {
  std::string_view modifier, except;
};
constexpr Ignored ignored[] = {
#define IGNORED(modifier, except) {modifier, except},
#include "ptx/quirks/ptxas_13_5.def"
};
struct Passed {
  Beginning begin;
  std::string_view modifiers;
};
constexpr Passed passed[] = {
#define PASSED(begin, modifiers) {begin, modifiers},
#include "ptx/quirks/ptxas_13_5.def"
};
struct LeftOut {
  Beginning begin;
  std::string_view modifier, reason;
};
constexpr LeftOut left_out[] = {
#define LEFT_OUT(begin, modifier, reason) {begin, modifier, reason},
#include "ptx/quirks/ptxas_13_5.def"
};

// Whether `name` is one of the names of `list`.
bool lists(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const std::string_view one = list.substr(0, list.find(' '));
    list.remove_prefix(std::min(one.size() + 1, list.size()));
    if (name == one) return true;
  }
  return false;
}

// The first row of the form (and of the rule) that applies; null: none.
const RuleRow* find(std::span<const RuleRow> rows, const Case& c, isa::Rule rule = isa::Rule::none) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const RuleRow& row) {
    return row.rule == rule && row.forms.has(c.match.id) && row.applies(c);
  });
  return found == rows.end() ? nullptr : &*found;
}

bool is_ignored(std::string_view opcode, std::string_view modifier) {
  return std::any_of(std::begin(ignored), std::end(ignored),
                     [&](const Ignored& row) { return row.modifier == modifier && !lists(row.except, opcode); });
}

}  // namespace

bool Excuses::covers(const ir::View& view, const isa::Match& match, const ir::Problem& problem) {
  const Case c{view, match, instruction_, problem.pattern, problem.given};
  for (const OperandRow& row : operand_rows) {
    if (row.code != problem.code || !row.forms.has(match.id)) continue;
    if (!row.operands.empty() && !lists(row.operands, match.form->text(problem.pattern->row->name))) continue;
    if (!row.applies(c)) continue;
    if (reason_.empty()) first_ = problem, reason_ = row.reason;
    return true;
  }
  return false;
}

bool Excuses::covers(const ir::View& view, const isa::Match& match, isa::Rule rule) {
  const RuleRow* row = find(rule_rows, {view, match, instruction_}, rule);
  if (row && reason_.empty()) reason_ = row->reason;
  return row;
}

bool Excuses::covers_target(const ir::View& view, const isa::Match& match) {
  const RuleRow* row = find(target_rows, {view, match, instruction_});
  if (row && reason_.empty()) reason_ = row->reason;
  return row;
}

bool Excuses::extra(const ir::View& view, const isa::Match& match) {
  if (static_cast<int>(instruction_.count) != match.required + 1) return false;
  const RuleRow* row = find(extra_rows, {view, match, instruction_});
  if (row) reason_ = row->reason;
  return row;
}

bool Excuses::missing(const ir::View& view, const isa::Match& match) {
  if (static_cast<int>(instruction_.count) != match.required - 1) return false;
  const RuleRow* row = find(missing_rows, {view, match, instruction_});
  if (row) reason_ = row->reason;
  return row;
}

namespace {

// Whether a form of the opcode has the modifier.
bool has_modifier(std::string_view opcode, std::string_view modifier) {
  for (const isa::FormId id : isa::forms_of(opcode)) {
    const isa::Form& form = isa::forms()[id];
    for (const isa::Value& v : form.values) {
      if (form.text(v.text) == modifier) return true;
    }
    for (const isa::Modifier& m : form.modifiers) {
      if (m.slot == isa::Modifier::literal && form.text(m.text) == modifier) return true;
    }
  }
  return false;
}

bool is_passed(std::string_view mnemonic, std::string_view modifier) {
  return std::any_of(std::begin(passed), std::end(passed), [&](const Passed& row) {
    return cat(mnemonic, '.').starts_with(cat(row.begin.text(), '.')) && lists(row.modifiers, modifier);
  });
}

}  // namespace

Reread reread(const isa::Mnemonic& mnemonic) {
  std::string_view text = mnemonic.text;
  std::string less(mnemonic.opcode), reason;
  text.remove_prefix(mnemonic.opcode.size());
  while (!text.empty()) {
    const std::size_t end = text.find('.', 1);
    const std::string_view modifier = text.substr(1, end - 1);
    text = end == text.npos ? std::string_view() : text.substr(end);
    const bool ignored = is_ignored(mnemonic.opcode, modifier) && !has_modifier(mnemonic.opcode, modifier);
    if (!ignored && !is_passed(mnemonic.text, modifier)) {
      less += cat('.', modifier);
    } else if (reason.empty()) {
      reason = cat("it passes over .", modifier);
    }
  }
  if (const isa::Mnemonic* read = isa::resolve(less); !read->matches.empty()) {
    const isa::Form& form = *read->matches.front().form;  // one that belongs to the opcode stays behind it
    if (!form.modifiers.empty() && form.modifiers[0].fixed && read->modifiers[0] != mnemonic.modifiers[0]) return {};
    return {read, reason};
  }
  for (const LeftOut& row : left_out) {
    if (!reason.empty() || !std::string_view(less).starts_with(row.begin.text())) continue;
    if (const isa::Mnemonic* read = isa::resolve(cat(less, '.', row.modifier)); !read->matches.empty())
      return {read, std::string(row.reason)};
  }
  return {};
}

}  // namespace ptx::quirks
