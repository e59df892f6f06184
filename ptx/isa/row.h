// A row of forms/*.def as data: what a Form consists of. form.h explains the notation, row_parser.h reads it.
// Texts are slices of the row's own text, so a row is a few hundred read-only bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ptx/isa/selector.h"
#include "ptx/isa/target.h"
#include "ptx/isa/types.h"

namespace ptx::isa {

enum class Rule : std::uint8_t {
  none,
#define SLOT_RULE(name, legal) name,
#define OPERAND_RULE(name) name,
#define COUNT(name)
#include "ptx/isa/rules.def"
#undef SLOT_RULE
#undef OPERAND_RULE
#undef COUNT
};

// What is true of an instruction beyond its syntax.
enum class Trait : std::uint8_t {
#define TRAIT(name) name,
#include "ptx/isa/traits.def"
#undef TRAIT
};

enum class Count : std::uint8_t {
  none,
#define SLOT_RULE(name, legal)
#define OPERAND_RULE(name)
#define COUNT(name) name,
#include "ptx/isa/rules.def"
#undef SLOT_RULE
#undef OPERAND_RULE
#undef COUNT
};

struct Slice {  // of the row's own text, Form::text()
  std::uint16_t at = 0, size = 0;
};

struct Value {  // one value of a slot
  Slice text;
  std::uint8_t need = 0;  // index into Form::needs; 0: nothing more than the form
};

struct Slot {  // a set; an optional literal such as {.ftz} is a slot of its own name with one value
  Slice name;
  std::uint8_t first = 0, count = 0;  // values
};

struct Modifier {
  static constexpr std::uint8_t literal = 0xff;
  Slice text;  // of a literal
  std::uint8_t slot = literal;
  std::uint8_t group = 0;  // 0: required; else the modifiers of one pair of braces, all or none
  bool fixed = false;
  bool before_next = false;  // of the two, this one comes first
};

enum class OperandKind : std::uint8_t {
  value,
  sink,
  address,
  immediate,
  label,
  function,
  symbol,
  prototype,
  arguments,
  any
};

enum class Opaque : std::uint8_t { none, texref, samplerref, surfref };

constexpr Opaque opaque_named(std::string_view name) {
  return name == "texref"       ? Opaque::texref
         : name == "samplerref" ? Opaque::samplerref
         : name == "surfref"    ? Opaque::surfref
                                : Opaque::none;
}

// The type of an operand as the row says it.
struct TypeRule {
  enum class Source : std::uint8_t { none, literal, slot };
  enum class Scale : std::uint8_t { same, wide, half, quarter };
  Source source = Source::none;
  Scale scale = Scale::same;
  std::uint8_t index = 0;  // Type, or slot
  bool named = false;      // a type behind the operand's colon
};

struct OperandRow {
  Slice name;
  OperandKind kind = OperandKind::value;
  TypeRule type;
  Slice space;  // of an address: a space word or a slot; empty: slot `space` or `ss`, or the form's space word
  std::int64_t low = 0, high = -1;  // range of an immediate; low > high: any
  std::uint8_t length = 0;          // list(T,n)
  Count count = Count::none;        // list(T,name)
  char matrix = 0;                  // frag(T,M): `a`, `b`, `c`, or `@`: the slot that `space` names holds the letter
  bool list = false;                // {..}
  bool vector = false;              // vec(T)
  bool pack = false;                // pack(T)
  bool coords = false;              // coords(T,name)
  bool unified = false;             // may have .unified behind it
  std::uint8_t bits = 0;            // of an address: what a register in it has at least
  bool generic_bits = false;        // and where it is generic only
  bool destination = false, sink = false, register_only = false, negatable = false, minus = false;
  Opaque opaque = Opaque::none;
  Selector selector = Selector::none;
  bool pair = false;           // the next row is the part behind `|`
  bool pair_optional = false;  // and may be left out
  bool half_too = false;       // registers of half the width as well
  bool same_type = false;      // registers of no other type
  bool inner = false;          // stands inside the brackets of the address before it
  bool optional = false;       // and may be left out
  std::uint8_t group = 0;      // 0: required; else the operands of one pair of braces, all or none
  Slice condition;             // of a group: present exactly if this modifier is
};

// A row. Everything lives for the process.
struct Form {
  std::string_view id;       // "add_int"
  std::string_view section;  // "9.7.1.1"
  std::string_view title;
  std::string_view syntax, sets;  // as the row has them
  const char* chars = nullptr;    // what slices are of
  Slice opcode;
  std::span<const Modifier> modifiers;
  std::span<const Slot> slots;
  std::span<const Value> values;
  std::span<const OperandRow> operands;
  std::span<const Requirement> needs;  // [0]: the form itself
  std::span<const Rule> rules;
  std::uint32_t traits = 0;  // of the row and its opcode; a bit each

  constexpr bool is(Trait trait) const { return traits >> static_cast<int>(trait) & 1; }
  constexpr std::string_view text(Slice slice) const { return {chars + slice.at, slice.size}; }
  constexpr const Requirement& since() const { return needs[0]; }
};

}  // namespace ptx::isa
