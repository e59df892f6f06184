// Matches: from the modifiers of a mnemonic to slots, operand patterns and requirements.
#include <algorithm>
#include <charconv>

#include "ptx/isa/detail/rules.h"
#include "ptx/isa/forms.h"

namespace ptx::isa {

namespace {

int number_in(std::string_view text) {  // "v4" -> 4
  int n = 0;
  std::from_chars(text.data() + 1, text.data() + text.size(), n);
  return n;
}

Type scaled(Type type, TypeRule::Scale scale) {
  if (scale == TypeRule::Scale::same || type == Type::none) return type;
  const TypeInfo& from = info(type);
  const bool wide = scale == TypeRule::Scale::wide;
  const int bits = wide ? from.bits * 2 : scale == TypeRule::Scale::half ? from.bits / 2 : from.bits / 4;
  const TypeKind kind = wide ? from.kind : TypeKind::bits;
  for (std::size_t i = 1; i < std::size(type_table); ++i) {
    if (type_table[i].bits == bits && type_table[i].kind == kind && type_table[i].declarable)
      return static_cast<Type>(i);
  }
  return Type::none;
}

Type type_of(const Match& match, TypeRule rule) {
  Type type = Type::none;
  if (rule.source == TypeRule::Source::literal) type = static_cast<Type>(rule.index);
  if (rule.source == TypeRule::Source::slot && match.values[rule.index] != Match::absent) {
    type = type_named(match.form->text(match.form->values[match.values[rule.index]].text)).value_or(Type::none);
  }
  return scaled(type, rule.scale);
}

Space space_of(const Match& match, const OperandRow& row) {
  const std::string_view word = match.form->text(row.space);
  if (word.empty()) return match.space();
  if (const auto space = space_named(word)) return *space;
  return space_named(match.value(word)).value_or(Space::generic);
}

// Manual 9.4.1: ld, st and cvt take registers wider than their types; not cvt between the small and packed formats.
bool takes_wider(const Match& match) {
  if (!match.form->is(Trait::wider_registers)) return false;
  const auto is_small = [&](Slice modifier) {
    const auto type = type_named(match.form->text(modifier));
    if (!type) return false;
    const TypeKind kind = info(*type).kind;
    return kind == TypeKind::alternate || (kind == TypeKind::packed && *type != Type::f16x2);
  };
  for (const Modifier& m : match.form->modifiers) {
    if (m.slot == Modifier::literal
            ? is_small(m.text)
            : match.values[m.slot] != Match::absent && is_small(match.form->values[match.values[m.slot]].text)) {
      return false;
    }
  }
  return true;
}

Pattern pattern(const Match& match, const OperandRow& row, bool wider) {
  Pattern p;
  p.row = &row;
  p.kind = row.kind;
  p.type = type_of(match, row.type);
  p.exact = row.type.named && !match.form->is(Trait::wider_operands);
  p.group = row.group;
  const bool first_two = &row == &match.form->operands[0] || &row == &match.form->operands[1];
  p.wider = wider && !row.coords && (!row.type.named || first_two || match.form->is(Trait::wider_operands));
  if (row.kind == OperandKind::address) p.space = space_of(match, row);
  if (row.kind == OperandKind::symbol) p.space = match.space();
  if (row.list) p.length = static_cast<std::uint8_t>(row.count == Count::none ? row.length : count(row.count, match));
  if (row.matrix) {
    const char matrix = row.matrix == '@' ? match.value(match.form->text(row.space))[0] : row.matrix;
    p.length = static_cast<std::uint8_t>(rules::fragment_length(match, p.type, matrix));
    p.type = rules::fragment_type(match, p.type);
    p.exact = true;
  }
  if (row.vector && !match.value("vec").empty()) p.length = static_cast<std::uint8_t>(number_in(match.value("vec")));
  return p;
}

}  // namespace

std::string_view Match::value(std::string_view slot) const {
  for (std::size_t i = 0; i < form->slots.size(); ++i) {
    if (form->text(form->slots[i].name) != slot) continue;
    return values[i] == absent ? std::string_view{} : form->text(form->values[values[i]].text);
  }
  return {};
}

bool Match::has(std::string_view modifier) const {
  for (const Modifier& m : form->modifiers) {
    if (m.slot == Modifier::literal) {
      if (form->text(m.text) == modifier) return true;
    } else if (values[m.slot] != absent && form->text(form->values[values[m.slot]].text) == modifier) {
      return true;
    }
  }
  return false;
}

Type Match::type(std::string_view slot) const { return type_named(value(slot)).value_or(Type::none); }

// The slot of spaces, else a space word of the form: {.global} counts only where it is written.
Space Match::space() const {
  for (const std::string_view slot : {"space", "ss"}) {
    if (const auto space = space_named(value(slot))) return *space;
  }
  for (const Modifier& m : form->modifiers) {
    const bool literal = m.slot == Modifier::literal;
    if (!literal && (values[m.slot] == absent || form->slots[m.slot].count != 1)) continue;
    const Slice modifier = literal ? m.text : form->values[values[m.slot]].text;
    if (const auto space = space_named(form->text(modifier))) return *space;
  }
  return Space::generic;
}

bool Match::runs_on(Target target) const {
  if (!meets(target, form->since())) return false;
  if (!values_need) return true;
  for (std::size_t i = 0; i < form->slots.size(); ++i) {
    if (values[i] != absent && !meets(target, form->needs[form->values[values[i]].need])) return false;
  }
  return true;
}

namespace {

// Whether every target that the form runs on has what the value needs.
bool implies(const Requirement& form, const Requirement& value) {
  if (form.targets[0].number == 0) return value.targets[0].number == 0;
  return std::ranges::all_of(form.targets, [&](Target target) { return target.number == 0 || meets(target, value); });
}

}  // namespace

Match make_match(FormId id, const Fit& fit) {
  Match match;
  match.form = &forms()[id];
  match.id = id;
  match.in_order = fit.in_order;
  match.since = match.form->since().version;
  std::fill(std::begin(match.values), std::end(match.values), Match::absent);
  for (int i = 0; i < fit.count; ++i) {
    const Modifier& m = match.form->modifiers[fit.element[i]];
    if (m.slot == Modifier::literal) continue;
    match.values[m.slot] = fit.value[i];
    const Requirement& need = match.form->needs[match.form->values[fit.value[i]].need];
    match.values_need = match.values_need || !implies(match.form->since(), need);
    match.since = std::max(match.since, need.version);
  }
  const bool wider = takes_wider(match);
  for (const OperandRow& row : match.form->operands) {
    Pattern p = pattern(match, row, wider);
    if (const std::string_view condition = match.form->text(row.condition); !condition.empty()) {
      if (!match.has(condition) && match.value(condition).empty()) continue;
      p.group = 0;
    }
    const bool joined = row.inner || (!match.operands.empty() && match.operands.back().row->pair);
    if (p.group == 0 && !joined) ++match.required;
    match.groups |= 1u << p.group;
    match.operands.push_back(p);
  }
  return match;
}

std::string_view broken_rule(const Match& match) {
  for (const Rule rule : match.form->rules) {
    switch (rule) {
#define SLOT_RULE(name, legal)             \
  case Rule::name:                         \
    if (!rules::name(match)) return legal; \
    break;
#define OPERAND_RULE(name) \
  case Rule::name: break;
#define COUNT(name)
#include "ptx/isa/rules.def"
#undef SLOT_RULE
#undef OPERAND_RULE
#undef COUNT
      case Rule::none: break;
    }
  }
  return {};
}

int count(Count which, const Match& match) {
  switch (which) {
#define SLOT_RULE(name, legal)
#define OPERAND_RULE(name)
#define COUNT(name) \
  case Count::name: return rules::name(match);
#include "ptx/isa/rules.def"
#undef SLOT_RULE
#undef OPERAND_RULE
#undef COUNT
    case Count::none: break;
  }
  return 0;
}

}  // namespace ptx::isa
