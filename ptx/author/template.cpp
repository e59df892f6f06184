// What the rows of the ISA say of the parameters of a family's instruction.
#include "ptx/author/template.h"

#include <algorithm>

#include "ptx/author/detail/state.h"
#include "ptx/base/text.h"
#include "ptx/isa/fit.h"
#include "ptx/isa/form.h"

namespace ptx::author::families {

std::vector<std::string_view> alternatives(std::string_view slot) {
  std::vector<std::string_view> all;
  for (;;) {
    const std::size_t end = slot.find('/');
    all.push_back(slot.substr(0, end));
    if (end == slot.npos) return all;
    slot.remove_prefix(end + 1);
  }
}

namespace {

bool is_alternative(std::string_view slot, std::string_view name) {
  const auto all = alternatives(slot);
  return std::find(all.begin(), all.end(), name) != all.end();
}

// Whether a call can be made that writes this modifier of the form.
bool can_write(const Template& t, const isa::Form& form, const isa::Modifier& m) {
  const auto is_value = [&](std::string_view text) {
    const isa::Slot& slot = form.slots[m.slot];
    const auto values = form.values.subspan(slot.first, slot.count);
    return std::any_of(values.begin(), values.end(), [&](const isa::Value& v) { return form.text(v.text) == text; });
  };
  const auto all = t.all_modifiers();
  return std::any_of(all.begin(), all.end(), [&](const Template::Modifier& modifier) {
    const bool chosen = modifier.parameter >= 0 && modifier.condition.empty();
    if (m.slot == isa::Modifier::literal) {
      const std::string_view literal = form.text(m.text);
      const bool type = chosen && modifier.text.ends_with("type") && isa::type_named(literal);
      return type || is_alternative(modifier.text, literal);
    }
    return chosen ? is_alternative(modifier.text, form.text(form.slots[m.slot].name)) : is_value(modifier.text);
  });
}

// The forms that calls of the function can write.
std::vector<const isa::Form*> candidates(const Template& t) {
  std::vector<std::string_view> fixed;
  for (const Template::Modifier& modifier : t.all_modifiers())
    if (modifier.parameter < 0) fixed.push_back(modifier.text);
  std::vector<const isa::Form*> found;
  for (const isa::Form& form : isa::forms()) {
    if (form.text(form.opcode) != t.opcode || !isa::matching::fit(form, fixed, true).fits) continue;
    const bool all = std::all_of(form.modifiers.begin(), form.modifiers.end(),
                                 [&](const isa::Modifier& m) { return m.group != 0 || can_write(t, form, m); });
    if (all) found.push_back(&form);
  }
  return found;
}

void add(std::vector<std::string>& values, std::string_view value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.emplace_back(value);
}

Legal of_modifier(const Template& t, const Parameter& p) {
  Legal found;
  const auto names = alternatives(p.slot);
  bool literal = p.flag;
  for (const isa::Form* form : candidates(t)) {
    for (const isa::Modifier& m : form->modifiers) {
      const bool fixed = m.slot == isa::Modifier::literal;
      const std::string_view name = form->text(fixed ? m.text : form->slots[m.slot].name);
      if (std::find(names.begin(), names.end(), name) == names.end()) continue;
      if (fixed) {
        literal = true;
        if (names.size() > 1) add(found.values, name);
        continue;
      }
      const isa::Slot& slot = form->slots[m.slot];
      for (const isa::Value& value : form->values.subspan(slot.first, slot.count))
        add(found.values, form->text(value.text));
    }
  }
  if (std::find(names.begin(), names.end(), "generic") != names.end()) add(found.values, "generic");
  const bool own = found.values.size() == 1 && found.values[0] == p.slot;
  found.flag = names.size() == 1 && (own || (literal && found.values.empty()));
  found.types = !found.values.empty() && std::all_of(found.values.begin(), found.values.end(), [](const auto& value) {
    return isa::type_named(value).has_value();
  });
  return found;
}

// Which operand of the text the parameter is, counted by commas; -1: none. Parts of a bracket or pair count as it.
int position(const Template& t, std::size_t parameter) {
  int at = -1;
  std::uint8_t parts = 0;
  for (const Template::Node& node : t.all_nodes()) {
    if (parts == 0)
      ++at;
    else
      --parts;
    if (node.parts) parts = node.parts;
    if (node.parameter == static_cast<int>(parameter)) return at;
  }
  return -1;
}

bool floating(const isa::Form& form, const isa::OperandRow& row) {
  const auto real = [](std::optional<isa::Type> type) {
    return type && (info(*type).kind == isa::TypeKind::floating || info(*type).kind == isa::TypeKind::alternate);
  };
  if (row.type.source == isa::TypeRule::Source::literal) return real(static_cast<isa::Type>(row.type.index));
  if (row.type.source != isa::TypeRule::Source::slot) return false;
  const isa::Slot& slot = form.slots[row.type.index];
  const auto values = form.values.subspan(slot.first, slot.count);
  return std::any_of(values.begin(), values.end(),
                     [&](const isa::Value& value) { return real(isa::type_named(form.text(value.text))); });
}

bool predicate(const isa::OperandRow& row) {
  return row.type.source == isa::TypeRule::Source::literal && static_cast<isa::Type>(row.type.index) == isa::Type::pred;
}

Legal of_operand(const Template& t, std::size_t parameter) {
  Legal found;
  found.register_only = found.immediate = found.predicate = true;
  bool any = false;
  const int wanted = position(t, parameter);
  for (const isa::Form* form : candidates(t)) {
    int at = -1;
    const isa::OperandRow* before = nullptr;
    for (const isa::OperandRow& row : form->operands) {
      if (!row.inner && !(before && before->pair)) ++at;
      before = &row;
      if (at != wanted || row.inner) continue;
      any = true;
      const bool literal = row.kind == isa::OperandKind::immediate;
      found.register_only = found.register_only && !literal && (row.register_only || row.destination);
      found.immediate = found.immediate && literal;
      found.predicate = found.predicate && predicate(row);
      found.floating = found.floating || floating(*form, row);
      found.list = found.list || row.list || row.vector || row.pack;
    }
  }
  if (!any) found.register_only = found.immediate = found.predicate = false;
  return found;
}

}  // namespace

Legal legal(const Template& form, const Parameter& parameter) {
  if (parameter.role == Parameter::Role::modifier) return of_modifier(form, parameter);
  return of_operand(form, static_cast<std::size_t>(&parameter - form.parameters.data()));
}

Legal legal(std::string_view mnemonic, std::string_view slot) {
  std::vector<std::string_view> parts;
  for (std::string_view rest = mnemonic; !rest.empty();) {
    const std::size_t end = std::min(rest.find('.'), rest.size());
    parts.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  Legal found;
  for (const isa::Form& form : isa::forms()) {
    if (form.text(form.opcode) != parts.front() || !isa::matching::fit(form, std::span(parts).subspan(1), true).fits)
      continue;
    for (const isa::Slot& one : form.slots)
      if (form.text(one.name) == slot)
        for (const isa::Value& value : form.values.subspan(one.first, one.count))
          add(found.values, form.text(value.text));
  }
  return found;
}

std::string sections(const Template& form) {
  std::vector<std::string> all;
  for (const isa::Form* candidate : candidates(form)) add(all, candidate->section);
  std::string text;
  for (const std::string& section : all) text += cat(text.empty() ? "" : ", ", section);
  return text;
}

const isa::Mnemonic* mnemonic(const Template& form, std::span<const std::string_view> chosen) {
  std::string text(form.opcode);
  for (const std::string_view modifier : chosen)
    if (!modifier.empty()) text += cat('.', modifier);
  return isa::resolve(text);
}

namespace {

using Operands = decltype(Builder::State::operands);
static_assert(std::tuple_size_v<Operands> >= Template::most, "a node is at most one operand");

// Puts the operand that begins at node `i`, which moves behind it, behind the `count` of `all`. False: it was left out.
bool put_operand(Builder& builder, const Template& form, std::span<const std::optional<Operand>> values, std::size_t& i,
                 Operands& all, std::size_t& count) {
  const Template::Node& node = form.nodes[i++];
  using enum Template::Node::Kind;
  if (node.kind == parameter) {
    const auto& value = values[static_cast<std::size_t>(node.parameter)];
    if (value) all[count++] = *value;
    return value.has_value();
  }
  if (node.kind == number) return all[count++] = Operand(node.number), true;
  if (node.kind == sink) return all[count++] = author::sink(), true;
  const std::size_t first = count;
  bool missing = false;
  for (std::size_t part = 0; part < node.parts; ++part)
    missing = (!put_operand(builder, form, values, i, all, count) && (part == 0 || !node.half)) || missing;
  const auto parts = std::span(all).subspan(first, count - first);
  count = first;
  if (missing) return false;
  all[count++] = node.kind == bracket ? builder.bracket(parts)
                 : parts.size() == 1  ? parts[0]
                                      : builder.pair(parts[0], parts[1]);
  return true;
}

}  // namespace

Reg result(Builder& builder, isa::Type type, ir::Guard guard) {
  const Reg made = builder.scalar(type);
  if (guard.reg != ir::no_id) builder.emit(cat("mov.", isa::info(move_type(type)).name), {made, 0});
  return made;
}

void emit(Builder& builder, const Template& form, const isa::Mnemonic* mnemonic,
          std::span<const std::optional<Operand>> values, ir::Guard guard) {
  Operands& operands = builder.state().operands;
  std::size_t count = 0;
  for (std::size_t i = 0; i < form.node_count;) put_operand(builder, form, values, i, operands, count);
  builder.emit(mnemonic, std::span(operands).first(count), guard);
}

}  // namespace ptx::author::families
