// Instruction forms. forms/*.def holds one row a form in the manual's notation; a constexpr parser turns each row into a
// Form, so a malformed row does not compile. This page is the notation's reference.
//
//   OPCODE(add)                                   the first row of an opcode is preceded by its name (once in all files)
//   SECTION("9.7.1.1", "Integer Arithmetic Instructions: add")            holds for the rows below it
//   FORM(add_int, "add.type  d, a, b", ".type = u16 u32 u64 s16 s32 s64", "1.0", none)
//   FORM(id,      syntax,              sets,                              since, rule...)
//
// Syntax: opcode and modifiers, then operands.
//   .word        this modifier, literally             .slot       one of the set named `slot` in the sets column
//   {.slot}      may be left out                       .word!      stays in this place; others may come in any order
//                                                       (types among themselves always keep their order)
// Operands, separated by commas:
//   d            destination: names d, d0.., p, q, r, state (and whatever is marked so below); all others are sources
//   a            source: register, immediate or constant expression of the operand's type
//   [a]          address; in the space of the slot `.space`, or of the literal space word of the form; else generic
//   [a, c]       address with a coordinate vector (tensor copies)
//   {, b}        may be left out (also `d{|p}`: the second part may be left out)         {!}c     may be negated
//   d|p          a pair                                (a, b)       parenthesised list of a call
//   name:TYPE    what the operand is; without it the type is that of the slot named for it: d -> .dtype, a -> .atype, b -> .btype,
//                c -> .ctype, else .type, else the literal type word of the form. TYPE is one of
//                  u32 ...        a type               slot        the type chosen for that slot ("a:stype")
//                  wide           twice the width of .type (mul.wide)
//                  vec(T)         a vector if the slot .vec is given, its length from it; T as above
//                  list(T,n)      {..} of n registers, n a number or a named count of rules.h ("list(dtype,acc)")
//                  imm            an integer immediate; imm(0..255) with its range
//                  label func sym proto   a label, a function, a variable, a call prototype or table of targets
//                  any            checked by the form's rules alone
//   name:TYPE/_  a destination that may be the sink `_`;  name:TYPE/r  register only (no immediate)
// Sets: "slot = value value ...; slot2 = ...". A set may come from slots.def by name alone: ".rnd; .type = f32 f64".
//   value[7.8 sm_90]    this value needs more than the form                m64n(8..256/8)k16   a family of shapes
// Since: "PTX-version targets", "7.8 sm_90", "8.0 sm_90a", "8.6 sm_100f sm_120a"; "1.0" alone = all targets.
// Rules: named functions for what slots and operands demand of each other (rules.def); none = nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/isa/target.h"
#include "ptx/isa/types.h"

namespace ptx::isa {

struct Form;                                   // a parsed row; members in form_table.h, for check, docs and C++ mnemonics

using FormId = std::uint16_t;                  // index into forms(); sim keeps a table of bodies by it

// One way to read a mnemonic: a form and the value of each of its slots.
struct Match {
  static constexpr int max_slots = 16;
  static constexpr std::uint8_t absent = 0xff;
  const Form* form = nullptr;
  FormId id = 0;
  bool in_order = true;                        // written in the manual's order
  std::uint8_t values[max_slots];              // index into the slot's set, or absent

  std::string_view value(std::string_view slot) const;   // text of the chosen value, "" if absent or no such slot
  bool has(std::string_view word) const;                 // a literal or chosen modifier, "ftz"
  Type type(std::string_view slot = "type") const;       // the chosen type, Type::none if absent
  Space space() const;                                   // from the slot `space` or a literal space word
};

// A spelled mnemonic ("ld.global.v4.f32"), resolved once for the process; instructions point at it.
struct Mnemonic {
  std::string text;                            // as written, without operands
  std::string canonical;                       // the manual's order; equal to `text` if nothing matches
  std::string_view opcode;                     // "ld"
  std::vector<std::string_view> modifiers;     // without dots
  std::vector<Match> matches;                  // in row order; empty: no form has these modifiers
  bool known_opcode = false;
};

// Finds or makes the Mnemonic. Never fails; thread-safe; the pointer lives for the process. Cost of a repeat: one hash look-up.
const Mnemonic* resolve(std::string_view text);

std::span<const Form> forms();
std::span<const std::string_view> opcodes();
std::vector<std::string_view> next_modifiers(std::string_view partial);  // legal continuations of "ld.global", for completion and errors
std::string explain(std::string_view mnemonic);  // why no form matches: what is legal instead; for messages

// Special registers (manual 10): name with its %, type, first version/target.
struct SpecialRegister {
  std::string_view name;   // "%tid.x"
  Type type;
  Requirement since;
};
std::span<const SpecialRegister> special_registers();
const SpecialRegister* special_register(std::string_view name);

}  // namespace ptx::isa
