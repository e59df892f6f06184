// One instruction: its forms in turn, then target and version, then the form's rules.
#include "ptx/base/text.h"
#include "ptx/check/check.h"
#include "ptx/check/detail/operands.h"
#include "ptx/check/detail/rules.h"

namespace ptx::check {

namespace {

Diagnostic say(Code code, const Place& place, std::string message, const isa::Form* form) {
  Diagnostic d(code, place, std::move(message));
  if (form) d.section = form->section;
  return d;
}

Code gate(const ModuleTarget& target, const isa::Mnemonic& mnemonic, const isa::Match& match) {
  const bool mapped = target.maps_f64 && mnemonic.text.find(".f64") != mnemonic.text.npos;
  const isa::Target sm = mapped ? isa::Target{13, 0} : target.sm;
  if (target.sm.number != 0 && !match.runs_on(sm)) return Code::needs_target;
  if (!target.has(match.since)) return Code::needs_version;
  return {};
}

// What a target or a version lacks: the form, or one of its modifiers.
std::string describe_gate(const ModuleTarget& target, const isa::Mnemonic& mnemonic, const isa::Match& match,
                          Code code) {
  const isa::Form& form = *match.form;
  std::string what = cat('`', mnemonic.text, '`');
  isa::Requirement need = form.since();
  for (std::size_t i = 0; i < form.slots.size(); ++i) {
    if (match.values[i] == isa::Match::absent) continue;
    const isa::Value& value = form.values[match.values[i]];
    const isa::Requirement& own = form.needs[value.need];
    const bool lacks = code == Code::needs_target ? isa::meets(target.sm, need) && !isa::meets(target.sm, own)
                                                  : need.version <= target.version && own.version > target.version;
    if (!lacks) continue;
    what = cat('`', mnemonic.text, "`: `.", form.text(value.text), '`');
    need = own;
  }
  return code == Code::needs_target
             ? cat(what, " needs ", isa::to_string(need), ", the target is ", isa::to_string(target.sm))
             : cat(what, " needs ", isa::to_string(need), ", the module is .version ", isa::to_string(target.version));
}

rules::Broken broken_rule(const View& view, const isa::Match& match, const ir::Instruction& instruction,
                          Excuses* excuses) {
  for (const isa::Rule rule : match.form->rules) {
    const auto excused = [&] { return excuses && excuses->covers(view, match, rule); };
    switch (rule) {
#define SLOT_RULE(name, legal) \
  case isa::Rule::name: break;
#define OPERAND_RULE(name)                                                                        \
  case isa::Rule::name:                                                                           \
    if (auto broken = rules::name(view, match, instruction); broken && !excused()) return broken; \
    break;
#define COUNT(name)
#include "ptx/isa/rules.def"
#undef SLOT_RULE
#undef OPERAND_RULE
#undef COUNT
      case isa::Rule::none: break;
    }
  }
  return {};
}

std::optional<Diagnostic> bad_guard(const View& view, const ir::Instruction& instruction, const Place& place) {
  if (instruction.guard.reg == ir::no_id) return std::nullopt;
  const ir::Register& reg = view.function.registers[instruction.guard.reg];
  if (reg.type == isa::Type::pred) return std::nullopt;
  return say(Code::guard_type, place,
             cat("`@", ir::name(reg), "`: a guard is a .pred register, this one is .", isa::info(reg.type).name),
             nullptr);
}

// A refusal at a later operand is nearer to what the author meant. At the same operand, a wrong kind is the farthest.
bool is_nearer(const Problem& a, const Problem& b) {
  const int at_a = a.code == Code::operand_count ? -1 : a.operand,
            at_b = b.code == Code::operand_count ? -1 : b.operand;
  return at_a > at_b || (at_a == at_b && b.code == Code::operand_kind && a.code != Code::operand_kind);
}

std::optional<Diagnostic> no_form(const isa::Mnemonic& mnemonic, const Place& place) {
  return say(mnemonic.known_opcode ? Code::illegal_modifiers : Code::unknown_instruction, place,
             isa::explain(mnemonic.text), nullptr);
}

// Operands that fit, or whose misfit is excused: that of a single operand, of one too many, or of one too few.
Problem fit_loosely(const View& view, const isa::Match& match, const ir::Instruction& instruction, Excuses& excuses) {
  excuses.begin();
  if (excuses.extra(view, match)) {
    ir::Instruction shorter = instruction;
    --shorter.count;
    return fit_operands(view, match, shorter, &excuses);
  }
  if (excuses.missing(view, match)) {
    isa::Match less = match;
    less.operands.pop_back(), --less.required;
    Problem problem = fit_operands(view, less, instruction, &excuses);
    if (problem.pattern) problem.pattern = match.operands.data() + (problem.pattern - less.operands.data());
    return problem;
  }
  return fit_operands(view, match, instruction, &excuses);
}

std::optional<Diagnostic> judge(const View& view, const isa::Mnemonic& mnemonic, ir::Instruction& instruction,
                                const Place& place, Excuses* excuses) {
  const ModuleTarget& target = view.target;
  instruction.match = nullptr;
  if (mnemonic.matches.empty()) return no_form(mnemonic, place);

  const isa::Match *nearest = nullptr, *barred = nullptr;
  Problem problem;
  Code barrier{};
  for (const isa::Match& match : mnemonic.matches) {
    const Problem misfit =
        excuses ? fit_loosely(view, match, instruction, *excuses) : fit_operands(view, match, instruction);
    if (misfit) {
      if (!nearest || is_nearer(misfit, problem)) nearest = &match, problem = misfit;
      continue;
    }
    Code code = gate(target, mnemonic, match);
    if (code == Code::needs_target && excuses && excuses->covers_target(view, match)) code = {};
    if (code != Code{}) {
      if (!barred) barred = &match, barrier = code;
      continue;
    }
    if (const auto broken = broken_rule(view, match, instruction, excuses)) {
      return say(broken.code, place, cat('`', mnemonic.text, "`: ", broken.message), match.form);
    }
    instruction.match = &match, instruction.groups = misfit.groups;
    return bad_guard(view, instruction, place);
  }
  if (barred) return say(barrier, place, describe_gate(target, mnemonic, *barred, barrier), barred->form);
  Diagnostic d = say(problem.code, place, describe(view, *nearest, instruction, problem), nearest->form);
  d.operand = problem.operand;
  return d;
}

// The operand that `part` is, or is a part of.
int place_of(const View& view, const ir::Instruction& instruction, const ir::Operand* part) {
  const auto operands = view.function.operands_of(instruction);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto children = view.function.children(operands[i]);
    if (part == &operands[i] || (part >= children.data() && part < children.data() + children.size()))
      return static_cast<int>(i);
  }
  return -1;
}

// What was refused, as a warning if the assembler is known to take it.
Diagnostic explain_quirk(const View& view, ir::Instruction& instruction, const Place& place, Diagnostic refused) {
  quirks::Reread read{instruction.mnemonic, {}};
  if (read.mnemonic->matches.empty()) read = quirks::reread(*instruction.mnemonic);
  Excuses excuses(instruction);
  if (!read.mnemonic || judge(view, *read.mnemonic, instruction, place, &excuses)) {
    instruction.match = nullptr;
    return refused;
  }
  Problem first = excuses.first();
  first.operand = place_of(view, instruction, first.given);
  const std::string what = first ? describe(view, *instruction.match, instruction, first) : refused.message;
  const std::string_view reason = read.reason.empty() ? excuses.reason() : std::string_view(read.reason);
  Diagnostic d =
      say(Code::assembler_only, place, cat(what, "; the assembler takes the line: ", reason), instruction.match->form);
  d.operand = first.operand;
  return d;
}

}  // namespace

std::optional<Diagnostic> check_instruction(const ModuleTarget& target, const ir::Function& function,
                                            ir::Instruction& instruction, const Place& place, const Symbols* symbols,
                                            std::uint32_t statement) {
  const View view{target, function, symbols, statement};
  auto refused = judge(view, *instruction.mnemonic, instruction, place, nullptr);
  if (refused) return explain_quirk(view, instruction, place, std::move(*refused));
  return refused;
}

}  // namespace ptx::check
