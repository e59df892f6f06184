// What an INSTRUCTION row of a family says: an instruction with the author's names for its operands. The text is read
// while the library is compiled, so a malformed row does not compile. What is legal is not said here: the rows of
// ptx/isa judge the instruction that a call makes.
//
// clang-format off
//   "mbarrier.arrive{.noComplete?no_complete}{.sem}{.space=shared}.b64 =state:b64, [mbar]{, count}"
//
// Modifiers, in the manual's order:
//   .sync            this modifier                    {.sync?name}       there if argument `name` is true, or is given
//   {.slot}          keyword `slot`, None: left out   {.slot=shared}     keyword `slot`, `shared` unless given
//   {.<name:slot>}   keyword `name` for that slot     {.<name:slot>=shared}
//   .<name>          required, in front of the operands; .<name:slot>
//   slot/slot2/row   where forms have it in slots of several names, or as a fixed modifier
// A modifier's argument is a str as PTX writes it, a type, True for the slot's own name, n for `slot::n`, or "generic",
// which PTX does not write.
// Operands:
//   a                a register, number or symbol     a=0                may be left out, is 0 then
//   [a]              an address                       {a}                a list of registers, or a register array
//   [a, {b}]         an address of several parts      a|b, a{|b}         two destinations; the second may be left out
//   _, 0             as they stand                    {, a}              may be left out
//   =a:b64           a new register of that type, returned; a=reg takes that register instead; =+a: by position, too
//   =a:dtype         of the type that argument `dtype` says
//   *a               a keyword: {, *hint}
//
// A WRITES row says the same of a FUNCTION that makes one instruction, for who reads PTX and looks for the call: its name, the instruction, and
// arguments that it takes besides, such as "a_is_tmem=True". A function has a row for each shape of its operands. There, a modifier's parameter
// says which texts it stands for, and one whose name begins with _ is none: the function writes the modifier by what its operands are.
//   .<name:type>     any type                         .<name:row/col>    one of these texts
//   .<name:kind::*>  what begins so                   .<name:x#>         the number, or name, in the place of #; several are a tuple
//   a:pred           a predicate, and no number
// clang-format on
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/author/builder.h"

namespace ptx::author::families {

struct Parameter {
  enum class Role : std::uint8_t { modifier, value, address, list, result };
  std::string_view name;
  Role role = Role::value;
  bool keyword = false, required = true;
  bool flag = false;          // a modifier that is there or not
  std::string_view fallback;  // what it is when left out, as the row writes it; "": nothing
  std::string_view slot;      // of a modifier: the slot of the ISA that it fills; of a result: its type
};

struct Template {
  static constexpr std::size_t most = 24;
  struct Modifier {
    std::string_view text;         // the modifier, or the name of the slot that the parameter fills
    std::int8_t parameter = -1;    // -1: always there
    std::string_view condition{};  // `text` itself is there if this parameter is given
    std::string_view fallback{};   // of a condition that is no operand
  };
  struct Node {  // of a bracket or pair: its parts are the next nodes
    enum class Kind : std::uint8_t { parameter, number, sink, bracket, pair };
    Kind kind = Kind::parameter;
    std::int8_t parameter = -1;
    std::uint8_t parts = 0;
    bool optional = false;  // left out if its (first) parameter is
    bool half = false;      // of a pair: without its second part it is the first
    std::int64_t number = 0;
  };
  std::string_view text, opcode;
  std::array<Modifier, most> modifiers{};
  std::array<Node, most> nodes{};
  std::array<Parameter, most> parameters{};
  std::size_t modifier_count = 0, node_count = 0, parameter_count = 0;

  constexpr std::span<const Modifier> all_modifiers() const { return std::span(modifiers).first(modifier_count); }
  constexpr std::span<const Node> all_nodes() const { return std::span(nodes).first(node_count); }
  constexpr std::span<const Parameter> all_parameters() const { return std::span(parameters).first(parameter_count); }
};

namespace reading {

// A cursor over a row's text. Errors throw, which is the compile error.
struct Cursor {
  std::string_view text;
  std::size_t at = 0;

  constexpr char peek(std::size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }
  constexpr bool take(char c) { return peek() == c ? (++at, true) : false; }
  constexpr void expect(char c) {
    if (!take(c)) throw "template: another character was expected here";
  }
  constexpr void blanks() {
    while (take(' ')) {
    }
  }
  // A name, or with `colons` a modifier such as shared::cta.
  constexpr std::string_view name(bool colons = false) {
    const std::size_t from = at;
    const auto in_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    const auto colon = [&] {  // shared::cta, sp::2:4
      return peek() == ':' && (peek(1) == ':' || text[at - 1] == ':' || (digit(text[at - 1]) && digit(peek(1))));
    };
    while (in_word(peek()) || (colons && colon())) ++at;
    if (at == from) throw "template: a name was expected";
    return text.substr(from, at - from);
  }
};

constexpr std::int8_t find(const Template& t, std::string_view name) {
  for (std::size_t i = 0; i < t.parameter_count; ++i)
    if (t.parameters[i].name == name) return static_cast<std::int8_t>(i);
  return -1;
}

constexpr std::int8_t add(Template& t, const Parameter& parameter) {
  if (t.parameter_count == Template::most || find(t, parameter.name) >= 0) throw "template: a parameter too many";
  t.parameters[t.parameter_count] = parameter;
  return static_cast<std::int8_t>(t.parameter_count++);
}

constexpr void add_modifier(Template& t, const Template::Modifier& modifier) {
  if (t.modifier_count == Template::most) throw "template: too many modifiers";
  t.modifiers[t.modifier_count++] = modifier;
}

// Behind `.<`: name{:slot}>
constexpr Parameter angled(Cursor& c) {
  Parameter p;
  p.role = Parameter::Role::modifier;
  p.name = p.slot = c.name();
  if (c.take(':')) {
    const std::size_t from = c.at;
    while (c.peek() != '>' && c.peek() != '\0') ++c.at;
    p.slot = c.text.substr(from, c.at - from);
  }
  c.expect('>');
  return p;
}

constexpr void read_modifiers(Template& t, Cursor& c) {
  t.opcode = c.name();
  for (;;) {
    if (c.take('.')) {
      if (!c.take('<')) {
        add_modifier(t, {c.name(true)});
        continue;
      }
      const Parameter p = angled(c);
      add_modifier(t, {p.slot, add(t, p)});
    } else if (c.peek() == '{' && c.peek(1) == '.') {
      c.at += 2;
      Parameter p;
      if (c.take('<')) {
        p = angled(c);
      } else {
        p.role = Parameter::Role::modifier;
        p.name = p.slot = c.name(true);
      }
      p.keyword = true, p.required = false;
      const std::string_view condition = c.take('?') ? c.name() : std::string_view();
      if (c.take('=')) p.fallback = c.name(true);
      c.expect('}');
      if (condition.empty())
        add_modifier(t, {p.slot, add(t, p)});
      else
        add_modifier(t, {p.slot, -1, condition, p.fallback});
    } else {
      return;
    }
  }
}

constexpr Template::Node& new_node(Template& t, Template::Node::Kind kind) {
  if (t.node_count == Template::most) throw "template: too many operands";
  Template::Node& made = t.nodes[t.node_count++];
  made.kind = kind;
  return made;
}

// name{:type}{=fallback}
constexpr void read_parameter(Template& t, Cursor& c, Parameter::Role role, bool optional) {
  Parameter p;
  p.role = role;
  p.keyword = c.take('*') || (role == Parameter::Role::result && !c.take('+'));
  p.name = c.name();
  if (c.take(':')) p.slot = c.name();
  if (c.take('=')) p.fallback = c.name(true);
  p.required = !optional && p.fallback.empty() && role != Parameter::Role::result;
  Template::Node& node = new_node(t, Template::Node::Kind::parameter);
  node.parameter = add(t, p);
  node.optional = optional;
}

constexpr void read_leaf(Template& t, Cursor& c, bool optional) {
  c.blanks();
  if (c.take('=')) {
    read_parameter(t, c, Parameter::Role::result, optional);
  } else if (c.take('{')) {
    read_parameter(t, c, Parameter::Role::list, optional);
    c.expect('}');
  } else if (c.peek() >= '0' && c.peek() <= '9') {
    Template::Node& node = new_node(t, Template::Node::Kind::number);
    for (const char digit : c.name()) node.number = node.number * 10 + (digit - '0');
  } else if (c.peek() == '_' && (c.peek(1) == ',' || c.peek(1) == '|' || c.peek(1) == '\0')) {
    c.at += 1;
    new_node(t, Template::Node::Kind::sink);
  } else {
    read_parameter(t, c, Parameter::Role::value, optional);
  }
}

constexpr void read_operand(Template& t, Cursor& c, bool optional) {
  c.blanks();
  const std::size_t from = t.node_count;
  if (!c.take('[')) {
    read_leaf(t, c, optional);
    const bool half = c.peek() == '{' && c.peek(1) == '|';
    if (half) c.take('{');
    if (!c.take('|')) return;
    read_leaf(t, c, half);
    if (half) c.expect('}');
    new_node(t, Template::Node::Kind::pair);
    for (std::size_t i = t.node_count - 1; i > from; --i) t.nodes[i] = t.nodes[i - 1];
    t.nodes[from] = {Template::Node::Kind::pair, -1, 2, optional, half, 0};
    return;
  }
  new_node(t, Template::Node::Kind::bracket).optional = optional;
  read_leaf(t, c, optional);
  std::uint8_t parts = 1;
  for (; c.take(','); ++parts) read_leaf(t, c, false);
  c.expect(']');
  Parameter& first = t.parameters[static_cast<std::size_t>(t.nodes[from + 1].parameter)];
  if (parts == 1) {
    first.role = Parameter::Role::address;
    t.nodes[from] = t.nodes[from + 1];
    --t.node_count;
  } else {
    t.nodes[from].parts = parts;
  }
}

// A condition is an operand's parameter, or a flag of its own.
constexpr void join_conditions(Template& t) {
  for (std::size_t i = 0; i < t.modifier_count; ++i) {
    Template::Modifier& modifier = t.modifiers[i];
    if (modifier.condition.empty()) continue;
    modifier.parameter = find(t, modifier.condition);
    if (modifier.parameter >= 0) continue;
    Parameter flag;
    flag.name = modifier.condition, flag.slot = modifier.text, flag.fallback = modifier.fallback;
    flag.role = Parameter::Role::modifier;
    flag.keyword = flag.flag = true, flag.required = false;
    modifier.parameter = add(t, flag);
  }
}

}  // namespace reading

constexpr Template read_template(std::string_view text) {
  Template t;
  t.text = text;
  reading::Cursor c{text};
  reading::read_modifiers(t, c);
  c.blanks();
  for (bool first = true; c.at < text.size(); first = false) {
    const bool optional = c.peek() == '{' && c.peek(1) == ',';
    if (optional) c.take('{');
    if (!first || optional) c.expect(',');
    reading::read_operand(t, c, optional);
    if (optional) c.expect('}');
    c.blanks();
  }
  reading::join_conditions(t);
  return t;
}

// The names in "slot/slot2/row".
std::vector<std::string_view> alternatives(std::string_view slot);

// What the rows of the ISA say of a parameter, for signatures and messages.
struct Legal {
  std::vector<std::string> values;  // of a modifier: every value that some form takes, in the rows' order
  bool flag = false;                // of a modifier: it is there or not
  bool types = false;               // all of them are types
  bool register_only = false, immediate = false, predicate = false, floating = false, list = false;
};
Legal legal(const Template& form, const Parameter& parameter);
Legal legal(std::string_view mnemonic, std::string_view slot);  // of forms that "cp.reduce.async" may begin
std::string sections(const Template& form);                     // "9.7.1.1, 9.7.3.1": of the forms that it may be

// The mnemonic for the modifiers that were chosen: of each modifier of the row its text, or "" if it is left out.
const isa::Mnemonic* mnemonic(const Template& form, std::span<const std::string_view> chosen);

// Writes the instruction. `values` by parameter; of an optional one that was not given, nothing.
void emit(Builder& builder, const Template& form, const isa::Mnemonic* mnemonic,
          std::span<const std::optional<Operand>> values, ir::Guard guard);

// A new register that an instruction writes: 0 where the guard is false.
Reg result(Builder& builder, isa::Type type, ir::Guard guard);

}  // namespace ptx::author::families
