// The constexpr parser of the rows' notation (form.h). A malformed row throws, which in a constant expression is an
// error of the compiler that shows the reason. Only what compiles rows includes it, and author/literal.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "ptx/isa/row.h"

namespace ptx::isa {

namespace parsing {

// A row while it is read: room for the largest. Too small a room is a compile error as well.
struct Draft {
  char chars[1600] = {};
  Modifier modifiers[32] = {};
  Slot slots[16] = {};
  Value values[200] = {};
  OperandRow operands[24] = {};
  Requirement needs[12] = {};
  int text_size = 0, modifier_count = 0, slot_count = 0, value_count = 0, operand_count = 0, need_count = 0;
  Slice opcode;
  int optional_groups = 0, operand_groups = 0;

  constexpr std::string_view text(Slice slice) const { return {chars + slice.at, slice.size}; }
};

// What SLOT(name, "values") rows of slots.def say of `name`; empty if there is none.
constexpr std::string_view shared_set(std::string_view name) {
#define SLOT(set, values) \
  if (name == #set) return values;
#include "ptx/isa/slots.def"
#undef SLOT
  return {};
}

// A cursor over text. Errors throw: in a constant expression that is the compile error, with the reason in the source
// line.
struct Reader {
  std::string_view text;
  std::size_t at = 0;

  constexpr bool done() {
    skip();
    return at == text.size();
  }
  constexpr void skip() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n')) ++at;
  }
  constexpr char peek() {
    skip();
    return at < text.size() ? text[at] : '\0';
  }
  constexpr bool take(char c) {
    if (peek() != c) return false;
    ++at;
    return true;
  }
  constexpr void expect(char c) {
    if (!take(c)) throw "row: another character was expected here";
  }
  static constexpr bool of_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == ':';
  }
  // Letters, digits, `_` and `::`; a single `:` ends it, unless a digit is behind it (sp::2:4).
  constexpr std::string_view word() {
    skip();
    const std::size_t begin = at;
    while (at < text.size() && of_word(text[at])) {
      if (text[at] == ':') {
        if (at + 1 >= text.size()) break;
        if (text[at + 1] == ':') {
          ++at;
        } else if (text[at + 1] < '0' || text[at + 1] > '9') {
          break;
        }
      }
      ++at;
    }
    return text.substr(begin, at - begin);
  }
  constexpr bool number(std::int64_t& value) {
    skip();
    const bool negative = at < text.size() && text[at] == '-';
    std::size_t p = at + negative;
    if (p >= text.size() || text[p] < '0' || text[p] > '9') return false;
    value = 0;
    while (p < text.size() && text[p] >= '0' && text[p] <= '9') value = value * 10 + (text[p++] - '0');
    if (negative) value = -value;
    at = p;
    return true;
  }
};

constexpr Slice keep(Draft& d, std::string_view text) {
  if (d.text_size + text.size() > sizeof d.chars) throw "row: too much text";
  const Slice kept{static_cast<std::uint16_t>(d.text_size), static_cast<std::uint16_t>(text.size())};
  for (char c : text) d.chars[d.text_size++] = c;
  return kept;
}

constexpr int slot_named(const Draft& d, std::string_view name) {
  for (int i = 0; i < d.slot_count; ++i) {
    if (d.text(d.slots[i].name) == name) return i;
  }
  return -1;
}

// "7.8 sm_90", "8.6 sm_100f sm_120a", "sm_90" (of a value: the version of the form).
constexpr Requirement requirement(std::string_view text) {
  Reader r{text};
  Requirement need{};
  std::int64_t n = 0;
  if (r.number(n)) {
    need.version.major = static_cast<std::uint8_t>(n);
    r.expect('.');
    if (!r.number(n)) throw "row: a version is major.minor";
    need.version.minor = static_cast<std::uint8_t>(n);
  }
  int count = 0;
  while (!r.done()) {
    for (char c : {'s', 'm', '_'}) r.expect(c);
    if (!r.number(n) || count == 6) throw "row: not a target, or too many";
    Target target{static_cast<std::uint16_t>(n), 0};
    if (r.at < text.size() && (text[r.at] == 'a' || text[r.at] == 'f')) target.suffix = text[r.at++];
    need.targets[count++] = target;
  }
  return need;
}

constexpr bool same(const Requirement& a, const Requirement& b) {
  bool same = a.version == b.version;
  for (int i = 0; i < 6; ++i) same = same && a.targets[i] == b.targets[i];
  return same;
}

constexpr std::uint8_t add_need(Draft& d, std::string_view text) {
  const Requirement need = requirement(text);
  for (int i = 1; i < d.need_count; ++i) {
    if (same(d.needs[i], need)) return static_cast<std::uint8_t>(i);
  }
  if (d.need_count == 12) throw "row: too many requirements";
  d.needs[d.need_count] = need;
  return static_cast<std::uint8_t>(d.need_count++);
}

constexpr void add_value(Draft& d, std::string_view text, std::uint8_t need) {
  if (d.value_count == 200) throw "row: too many values";
  d.values[d.value_count++] = {keep(d, text), need};
}

// m64n(8..256/8)k16: one value for each number.
constexpr void add_family(Draft& d, std::string_view head, Reader& r, std::uint8_t need) {
  std::int64_t low = 0, high = 0, step = 1;
  r.expect('(');
  if (!r.number(low)) throw "row: a family is (low..high/step)";
  r.expect('.'), r.expect('.');
  if (!r.number(high)) throw "row: a family is (low..high/step)";
  if (r.take('/') && !r.number(step)) throw "row: a family is (low..high/step)";
  r.expect(')');
  const std::string_view tail = r.at < r.text.size() && Reader::of_word(r.text[r.at]) ? r.word() : std::string_view{};
  for (std::int64_t n = low; n <= high; n += step) {
    char text[64] = {};
    std::size_t size = 0;
    for (char c : head) text[size++] = c;
    for (std::int64_t ten = 1000, begun = 0; ten; ten /= 10) {
      if (n / ten || begun || ten == 1) text[size++] = static_cast<char>('0' + n / ten % 10), begun = 1;
    }
    for (char c : tail) text[size++] = c;
    add_value(d, {text, size}, need);
  }
}

// The values up to the next `;`. A value with a dot in front is a shared set.
constexpr void add_values(Draft& d, Reader& r) {
  while (!r.done() && r.peek() != ';') {
    if (r.take('.')) {
      Reader shared{shared_set(r.word())};
      if (shared.text.empty()) throw "row: no such set in slots.def";
      add_values(d, shared);
      continue;
    }
    const std::string_view value = r.word();
    if (value.empty()) throw "row: a value was expected";
    if (r.at < r.text.size() && r.text[r.at] == '(') {
      add_family(d, value, r, 0);
      continue;
    }
    std::uint8_t need = 0;
    if (r.at < r.text.size() && r.text[r.at] == '[') {
      const std::size_t begin = ++r.at;
      while (r.at < r.text.size() && r.text[r.at] != ']') ++r.at;
      need = add_need(d, r.text.substr(begin, r.at - begin));
      r.expect(']');
    }
    add_value(d, value, need);
  }
}

constexpr int add_slot(Draft& d, std::string_view name) {
  if (d.slot_count == 16) throw "row: more than 16 slots";
  d.slots[d.slot_count].name = keep(d, name);
  d.slots[d.slot_count].first = static_cast<std::uint8_t>(d.value_count);
  return d.slot_count++;
}

constexpr void close_slot(Draft& d, int slot) {
  d.slots[slot].count = static_cast<std::uint8_t>(d.value_count - d.slots[slot].first);
  if (d.slots[slot].count == 0) throw "row: an empty set";
}

constexpr void parse_sets(Draft& d, std::string_view sets) {
  Reader r{sets};
  while (!r.done()) {
    r.take('.');
    const std::string_view name = r.word();
    if (name.empty()) throw "row: the name of a set was expected";
    const int slot = add_slot(d, name);
    if (r.take('=')) {
      add_values(d, r);
    } else {
      Reader shared{shared_set(name)};
      if (shared.text.empty()) throw "row: no such set in slots.def";
      add_values(d, shared);
    }
    close_slot(d, slot);
    if (!r.done()) r.expect(';');
  }
}

constexpr void add_modifier(Draft& d, std::string_view word, int group, bool fixed, bool before_next) {
  if (d.modifier_count == 32) throw "row: too many modifiers";
  Modifier& m = d.modifiers[d.modifier_count++];
  m.group = static_cast<std::uint8_t>(group);
  m.fixed = fixed;
  m.before_next = before_next;
  int slot = slot_named(d, word);
  if (slot < 0 && group != 0) {
    slot = add_slot(d, word);
    add_value(d, word, 0);
    close_slot(d, slot);
  }
  if (slot < 0) {
    m.text = keep(d, word);
  } else {
    m.slot = static_cast<std::uint8_t>(slot);
  }
}

// Modifiers follow the opcode without blanks.
constexpr void parse_modifiers(Draft& d, Reader& r) {
  d.opcode = keep(d, r.word());
  if (d.opcode.size == 0) throw "row: an opcode was expected";
  int group = 0;
  for (; r.at < r.text.size();) {
    const char c = r.text[r.at];
    if (c == '{' && r.at + 1 < r.text.size() && r.text[r.at + 1] == '.') {
      if (group) throw "row: braces in braces";
      group = ++d.optional_groups;
      ++r.at;
    } else if (c == '}' && group) {
      group = 0;
      ++r.at;
    } else if (c == '.') {
      ++r.at;
      const std::string_view word = r.word();
      if (word.empty()) throw "row: a modifier was expected after the dot";
      const char mark = r.at < r.text.size() ? r.text[r.at] : '\0';
      if (mark == '!' || mark == '<') ++r.at;
      add_modifier(d, word, group, mark == '!', mark == '<');
    } else {
      break;
    }
  }
  if (group) throw "row: a brace is not closed";
}

constexpr bool is_destination(std::string_view name) {
  if (name == "p" || name == "q" || name == "r" || name == "state") return true;
  if (name.empty() || name[0] != 'd') return false;
  for (char c : name.substr(1)) {
    if (c < '0' || c > '9') return false;
  }
  return true;
}

constexpr TypeRule slot_type(int slot) {
  return {TypeRule::Source::slot, TypeRule::Scale::same, static_cast<std::uint8_t>(slot), false};
}
constexpr TypeRule literal_type(Type type) {
  return {TypeRule::Source::literal, TypeRule::Scale::same, static_cast<std::uint8_t>(type), false};
}

// The type of an operand that names none.
constexpr TypeRule default_type(const Draft& d, std::string_view name) {
  if (name == "p" || name == "q") return literal_type(Type::pred);
  if (name == "a" || name == "b" || name == "c" || name == "d") {
    const char own[] = {name[0], 't', 'y', 'p', 'e'};
    if (const int slot = slot_named(d, {own, 5}); slot >= 0) return slot_type(slot);
  }
  if (const int slot = slot_named(d, "type"); slot >= 0) return slot_type(slot);
  TypeRule found{};
  for (int i = 0; i < d.modifier_count; ++i) {
    if (d.modifiers[i].slot != Modifier::literal) continue;
    if (const auto type = type_named(d.text(d.modifiers[i].text))) {
      if (found.source != TypeRule::Source::none) throw "row: two literal types, so an operand has to name its own";
      found = literal_type(*type);
    }
  }
  if (found.source == TypeRule::Source::none) throw "row: an operand has no type";
  return found;
}

constexpr TypeRule parse_plain_type(const Draft& d, std::string_view name) {
  if (const int slot = slot_named(d, name); slot >= 0) return slot_type(slot);
  if (const auto type = type_named(name)) {
    TypeRule rule = literal_type(*type);
    return rule.named = true, rule;
  }
  TypeRule type = name == "pred" ? literal_type(Type::pred) : default_type(d, "type");
  if (name == "wide") {
    type.scale = TypeRule::Scale::wide;
  } else if (name == "half") {
    type.scale = TypeRule::Scale::half;
  } else if (name == "quarter") {
    type.scale = TypeRule::Scale::quarter;
  } else {
    throw "row: neither a type nor a slot";
  }
  return type;
}

constexpr Count count_named(std::string_view name) {
#define SLOT_RULE(rule, legal)
#define OPERAND_RULE(rule)
#define COUNT(rule) \
  if (name == #rule) return Count::rule;
#include "ptx/isa/rules.def"
#undef SLOT_RULE
#undef OPERAND_RULE
#undef COUNT
  throw "row: no such count in rules.def";
}

constexpr void parse_range(Reader& r, OperandRow& o) {
  if (!r.take('(')) return;
  if (!r.number(o.low)) throw "row: a range is (low..high)";
  r.expect('.'), r.expect('.');
  if (!r.number(o.high)) throw "row: a range is (low..high)";
  r.expect(')');
}

// TYPE behind the colon.
constexpr void parse_type(Draft& d, Reader& r, OperandRow& o) {
  const std::string_view word = r.word();
  if (o.kind == OperandKind::address) {
    if (opaque_named(word) != Opaque::none) {
      o.opaque = opaque_named(word);
    } else if (type_named(word)) {
      o.type = parse_plain_type(d, word);
    } else {
      o.space = keep(d, word);
    }
  } else if (word == "vec") {
    o.vector = true;
    r.expect('('), o.type = parse_plain_type(d, r.word()), r.expect(')');
  } else if (word == "pack") {
    o.pack = true;
    r.expect('('), o.type = parse_plain_type(d, r.word()), r.expect(')');
  } else if (opaque_named(word) != Opaque::none) {
    o.opaque = opaque_named(word);
  } else if (word == "list" || word == "coords") {
    o.list = true;
    o.coords = word == "coords";
    r.expect('('), o.type = parse_plain_type(d, r.word()), r.expect(',');
    std::int64_t length = 0;
    if (r.number(length)) {
      o.length = static_cast<std::uint8_t>(length);
    } else {
      o.count = count_named(r.word());
    }
    r.expect(')');
  } else if (word == "frag") {
    o.list = true;
    r.expect('('), o.type = parse_plain_type(d, r.word()), r.expect(',');
    const std::string_view matrix = r.word();
    o.matrix = matrix.size() == 1 ? matrix[0] : '@';
    if (o.matrix == '@') o.space = keep(d, matrix);
    r.expect(')');
  } else if (word == "imm") {
    o.kind = OperandKind::immediate;
    parse_range(r, o);
  } else if (word == "label") {
    o.kind = OperandKind::label;
  } else if (word == "func") {
    o.kind = OperandKind::function;
  } else if (word == "sym") {
    o.kind = OperandKind::symbol;
  } else if (word == "proto") {
    o.kind = OperandKind::prototype;
  } else if (word == "sink") {
    o.kind = OperandKind::sink;
  } else if (word == "any") {
    o.kind = OperandKind::any;
  } else {
    o.type = parse_plain_type(d, word);
    if (r.peek() == '(') parse_range(r, o);
  }
}

constexpr OperandRow& new_operand(Draft& d, int group, Slice condition) {
  if (d.operand_count == 24) throw "row: too many operands";
  OperandRow& o = d.operands[d.operand_count++];
  o.group = static_cast<std::uint8_t>(group);
  o.condition = condition;
  return o;
}

// {.part} behind an operand
constexpr void parse_selector(Reader& r, OperandRow& o) {
  const bool here = r.peek() == '{' && r.at + 1 < r.text.size() && r.text[r.at + 1] == '.';
  if (o.kind != OperandKind::value || !here) return;
  r.expect('{');
  r.expect('.');
  o.selector = selector_named(r.word());
  if (o.selector == Selector::none) throw "row: not a selector of selector.h";
  r.expect('}');
}

// Behind `/`, of an address: 32, 64 or g32.
constexpr void parse_bits(Reader& r, OperandRow& o) {
  o.generic_bits = r.take('g');
  std::int64_t bits = 0;
  if (!r.number(bits) || o.kind != OperandKind::address) throw "row: /_ /r /w /h /x, of an address /32 /64 /g32";
  o.bits = static_cast<std::uint8_t>(bits);
}

// name{:TYPE}{/_}{/r}
constexpr void parse_named(Draft& d, Reader& r, OperandRow& o) {
  const std::string_view name = r.word();
  if (name.empty()) throw "row: the name of an operand was expected";
  o.name = keep(d, name);
  o.destination = o.kind == OperandKind::value && is_destination(name);
  if (r.take(':')) {
    parse_type(d, r, o);
  } else if (o.kind == OperandKind::value) {
    o.type = default_type(d, name);
  }
  while (r.take('/')) {
    if (r.take('_')) {
      o.sink = true;
    } else if (r.take('r')) {
      o.register_only = true;
    } else if (r.take('w')) {
      o.destination = true;
    } else if (r.take('h')) {
      o.half_too = true;
    } else if (r.take('x')) {
      o.register_only = o.same_type = true;
    } else {
      parse_bits(r, o);
    }
  }
  parse_selector(r, o);
}

// Further parts of an address: ", b:T" or "{, b:T ?word}".
constexpr void parse_inner(Draft& d, Reader& r, int group, Slice condition) {
  for (;;) {
    const bool optional = r.take('{');
    if (!r.take(',')) {
      if (optional) throw "row: an optional part begins with a comma";
      return;
    }
    OperandRow& part = new_operand(d, group, condition);
    part.inner = true;
    parse_named(d, r, part);
    if (!optional) continue;
    part.optional = !r.take('?');
    if (!part.optional) part.condition = keep(d, r.word());
    r.expect('}');
  }
}

constexpr void parse_operand(Draft& d, Reader& r, int group, Slice condition) {
  OperandRow& o = new_operand(d, group, condition);
  if (r.take('[')) {
    o.kind = OperandKind::address;
    parse_named(d, r, o);
    parse_inner(d, r, group, condition);
    r.expect(']');
    if (r.take(':')) parse_type(d, r, o);
    if (r.peek() == '{' && r.at + 1 < r.text.size() && r.text[r.at + 1] == '.') {
      r.expect('{'), r.expect('.');
      if (r.word() != "unified") throw "row: only .unified stands behind an address";
      r.expect('}');
      o.unified = true;
    }
    return;
  }
  if (r.take('(')) {
    o.kind = OperandKind::arguments;
    o.name = keep(d, r.word());
    o.destination = is_destination(d.text(o.name));
    r.expect(')');
    return;
  }
  if (r.take('{')) {
    o.minus = r.take('-');
    if (!o.minus) r.expect('!');
    o.negatable = !o.minus;
    r.expect('}');
  }
  parse_named(d, r, o);
  const bool optional = r.peek() == '{' && r.at + 1 < r.text.size() && r.text[r.at + 1] == '|';
  if (optional) r.expect('{');
  if (r.take('|')) {
    o.pair = true;
    o.pair_optional = optional;
    parse_named(d, r, new_operand(d, group, condition));
    if (optional) r.expect('}');
  }
}

// Operands, separated by commas; {, b} and {, b ?word}.
constexpr void parse_operands(Draft& d, Reader& r) {
  if (r.done()) return;
  parse_operand(d, r, 0, {});
  while (!r.done()) {
    if (!r.take('{')) {
      r.expect(',');
      parse_operand(d, r, 0, {});
      continue;
    }
    const int group = ++d.operand_groups, first = d.operand_count;
    while (r.take(',')) parse_operand(d, r, group, {});
    if (d.operand_count == first) throw "row: an optional operand begins with a comma";
    if (r.take('?')) {
      const Slice condition = keep(d, r.word());
      for (int i = first; i < d.operand_count; ++i) d.operands[i].condition = condition;
    }
    r.expect('}');
  }
}

constexpr Draft parse(std::string_view syntax, std::string_view sets, std::string_view since) {
  Draft d{};
  add_need(d, since);
  parse_sets(d, sets);
  Reader r{syntax};
  parse_modifiers(d, r);
  parse_operands(d, r);
  for (int i = 0; i < d.slot_count; ++i) {
    bool used = false;
    for (int m = 0; m < d.modifier_count; ++m) used = used || d.modifiers[m].slot == i;
    if (!used) throw "row: a set is not used in the syntax";
  }
  return d;
}

struct Sizes {
  int text, modifiers, slots, values, operands, needs;
};
constexpr Sizes sizes(const Draft& d) {
  return {d.text_size, d.modifier_count, d.slot_count, d.value_count, d.operand_count, d.need_count};
}

// A row in exactly the room it takes.
template <Sizes S>
struct Packed {
  std::array<Modifier, S.modifiers> modifiers{};
  std::array<Slot, S.slots> slots{};
  std::array<Value, S.values> values{};
  std::array<OperandRow, S.operands> operands{};
  std::array<Requirement, S.needs> needs{};
  std::array<char, S.text> chars{};
};

template <Sizes S>
constexpr Packed<S> pack(const Draft& d) {
  Packed<S> p;
  const auto copy = [](auto& to, const auto& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i];
  };
  copy(p.modifiers, d.modifiers), copy(p.slots, d.slots), copy(p.values, d.values);
  copy(p.operands, d.operands), copy(p.needs, d.needs), copy(p.chars, d.chars);
  return p;
}

// Works on a Draft as well, for look-ups at compile time.
constexpr Form form_of(const Draft& d) {
  Form form;
  form.chars = d.chars;
  form.opcode = d.opcode;
  const auto span = [](const auto& array, int n) { return std::span(array).first(static_cast<std::size_t>(n)); };
  form.modifiers = span(d.modifiers, d.modifier_count), form.slots = span(d.slots, d.slot_count);
  form.values = span(d.values, d.value_count), form.operands = span(d.operands, d.operand_count);
  form.needs = span(d.needs, d.need_count);
  return form;
}

// What stands behind `since` in a row: rules and traits, in any order.
struct Note {
  Rule rule = Rule::none;
  std::uint32_t trait = 0;
  constexpr Note(Rule rule) : rule(rule) {}
  constexpr Note(Trait trait) : trait(1u << static_cast<int>(trait)) {}
};

constexpr std::uint32_t traits(std::initializer_list<Note> notes) {
  std::uint32_t all = 0;
  for (const Note& note : notes) all |= note.trait;
  return all;
}

// Rule::none where a trait stands.
template <std::size_t N>
constexpr std::array<Rule, N> rules(const Note (&notes)[N]) {
  std::array<Rule, N> all{};
  for (std::size_t i = 0; i < N; ++i) all[i] = notes[i].rule;
  return all;
}

template <Sizes S>
constexpr Form form_of(std::string_view id, std::string_view syntax, std::string_view sets, Slice opcode,
                       const Packed<S>& p, std::span<const Rule> rules, std::uint32_t traits) {
  Form form;
  form.id = id, form.syntax = syntax, form.sets = sets, form.rules = rules, form.traits = traits;
  form.chars = p.chars.data();
  form.opcode = opcode;
  form.modifiers = p.modifiers, form.slots = p.slots, form.values = p.values, form.operands = p.operands,
  form.needs = p.needs;
  return form;
}

// A chapter is a list of sections and rows; the section holds for the rows behind it.
struct Entry {
  std::string_view section, title;
  Form form;
  constexpr Entry(std::string_view section, std::string_view title) : section(section), title(title) {}
  constexpr Entry(const Form& form) : form(form) {}
};

}  // namespace parsing

}  // namespace ptx::isa
