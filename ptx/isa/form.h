// Instruction forms. forms/*.def holds one row a form in the manual's notation; a constexpr parser turns each row into
// a Form, so a malformed row does not compile. This page is the notation's reference.
//
// clang-format off
//   OPCODE(mov, trait...)                the first row of an opcode is preceded by its name (once in all files)
//   SECTION("9.7.1.1", "Integer Arithmetic Instructions: add")                   holds for the rows below it
//   FORM(add_int, "add.type  d, a, b", ".type = u16 u32 u64 s16 s32 s64", "1.0", none)
//   FORM(id,      syntax,              sets,                              since, rules and traits...)
//
// Syntax: opcode and modifiers without blanks, then operands.
//   .modifier    this modifier, literally             .slot       one of the set named `slot` in the sets column
//   {.slot}      may be left out; {.a.b}: both or none; an optional literal {.ftz} is a slot named `ftz` with one value
//   .modifier<   comes before the next one, which may stand elsewhere otherwise
//   .modifier!   stays in this place; the others may come in any order (types, and state spaces, always keep theirs)
// Operands, separated by commas:
//   d            destination: names d, d0.., p, q, r, state (and whatever has /w); all others are sources
//   a            source: register, immediate or constant expression of the operand's type
//   [a]          address; in the space of the slot `.space` or `.ss`, or of the form's literal space; else generic.
//                [a:shared::cta] names the space, [a:slot] the slot that holds it
//   [a/32]       a register in it has at least 32 bits, as the assembler does not widen it; [a/64]: 64; [a/1]: any;
//                [a/g32]: at least 32 where the address is generic
//   [a]{.unified}  the address may be followed by .unified
//   [a, c:T, e:T]  address of several parts, as of tensor copies; [a{, b:T ?modifier}, c:T], [a{, b:T}, c:T] as below;
//                [a:T, b:T] a value in front
//   {-}a         may carry a minus         a{.part}   may be a part of a register: selector.h
//   {, b}        may be left out; {, b ?modifier} is there exactly if the modifier is (a literal, or a slot's name)
//   d{|p}        the second part may be left out          d|p   a pair          {!}c   may be negated
//   (a)          parenthesised list of a call
//   name:TYPE    what the operand is; without it the type is pred for p and q; else that of the slot named for it:
//                d -> .dtype, a -> .atype, b -> .btype, c -> .ctype; else .type; else the one type that stands
//                in the syntax literally. TYPE is one of
//                  u32 ... pred        a type
//                  slot                the type chosen for that slot ("a:stype")
//                  wide half quarter   twice, half, a quarter of the width of .type (mul.wide)
//                  texref samplerref surfref   a variable of such a type, or a 64-bit register with its address
//                  coords(T,COUNT)  {..} of COUNT registers or of 4; one register may stand without braces
//                  vec(T)              a vector if the slot .vec (v2 v4 ...) is given, its length from it; T as above
//                  pack(T)             {..} of 2 or 4 registers of equal width that together are as wide as T
//                  list(T,n)           {..} of n registers, n a number or a COUNT of rules.def ("list(b32,matrices)")
//                  frag(T,M)           {..} of the registers that hold a thread's part of matrix M (a, b, c, or a slot with
//                                      the letter) of the form's shape, elements of type T; several small ones to a register
//                  imm imm(0..255)     an integer immediate, its range; u32(0..15): a range for immediates only
//                  label func sym proto     a label, a function, a variable, a call prototype or table of targets
//                  sink                nothing but `_`
//                  any                 checked by the form's rules alone
//   name:TYPE/_  a destination that may be the sink `_`;  /r register only, no immediate;  /w a destination;
//                /h registers may be half as wide;  /x a register of exactly this type, no immediate
// Sets: "slot = value value ...; slot2 = ...". A set may come from slots.def by name alone: ".rnd; .type = f32 f64"; a
// value with a dot is all the values of a shared set: "type = .memtype f16x2".
//   value[7.8 sm_90]    this value needs more than the form                m64n(8..256/8)k16   a family of shapes
// Since: "PTX-version targets", "7.8 sm_90", "8.0 sm_90a", "8.6 sm_100f sm_120a"; "1.0" alone = all targets.
// Rules: names of rules.def for what slots and operands demand of each other; none = nothing.
// Traits: names of traits.def for what else is true of the form, or of all forms of the opcode.
// clang-format on
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/isa/row.h"
#include "ptx/isa/target.h"
#include "ptx/isa/types.h"

namespace ptx::isa {

using FormId = std::uint16_t;  // index into forms(); sim keeps a table of bodies by it

// What one operand has to be under a Match: its row with the slots' values put in.
struct Pattern {
  const OperandRow* row = nullptr;
  OperandKind kind = OperandKind::value;
  Type type = Type::none;        // of one element; none: any
  std::uint8_t length = 0;       // {..} of so many; 0: not a vector
  std::uint8_t group = 0;        // 0: required; else operands that are all there or none
  Space space = Space::generic;  // of an address, or of a variable by name
  bool exact = false;            // the row names the type itself: no f16x2 register for an integer
  bool wider = false;            // a register may be wider than the type (manual 9.4.1)
};

// One way to read a mnemonic: a form and the value of each of its slots.
struct Match {
  static constexpr int max_slots = 16;
  static constexpr std::uint8_t absent = 0xff;
  const Form* form = nullptr;
  FormId id = 0;
  bool in_order = true;            // written in the manual's order, no flag twice
  std::uint8_t values[max_slots];  // of each slot: index into Form::values, or absent
  bool values_need = false;        // a chosen value runs on fewer targets than the form
  Version since;                   // that the form and the chosen values need
  std::vector<Pattern> operands;   // in the row's order, without those that the modifiers exclude
  std::uint32_t groups = 1;        // which groups of optional operands there are: bit n is Pattern::group n
  int required = 0;                // operands that the author writes, without the optional ones

  std::string_view value(std::string_view slot) const;  // text of the chosen value, "" if absent or no such slot
  bool has(std::string_view modifier) const;            // a literal or chosen modifier, "ftz"
  Type type(std::string_view slot = "type") const;      // the chosen type, Type::none if absent
  Space space() const;                                  // from the slot `space` or `ss`, or a literal space word
  bool runs_on(Target target) const;                    // form and chosen values, targets only
};

// A spelled mnemonic ("ld.global.v4.f32"), resolved once for the process; instructions point at it.
struct Mnemonic {
  std::string text;                         // as written, without operands
  std::string canonical;                    // the manual's order; equal to `text` if nothing matches
  std::string_view opcode;                  // "ld"
  std::vector<std::string_view> modifiers;  // without dots; no flag twice
  std::vector<Match> matches;               // in row order; empty: no form has these modifiers
  bool known_opcode = false;
  std::uint32_t traits = 0;  // of the opcode

  constexpr bool is(Trait trait) const { return traits >> static_cast<int>(trait) & 1; }
};

// Finds or makes the Mnemonic. Never fails; thread-safe; the pointer lives for the process. Cost of a repeat: one hash
// look-up.
const Mnemonic* resolve(std::string_view text);

std::string rule_text(Rule rule);  // what it demands, or its name in words where only its message says it
std::span<const Form> forms();     // Form and OperandRow: row.h
std::span<const std::string_view> opcodes();
std::vector<std::string_view> next_modifiers(
    std::string_view partial);                   // legal continuations of "ld.global", for completion and errors
std::string explain(std::string_view mnemonic);  // why no form matches: what is legal instead; for messages

// Special registers (manual 10): name with its %, type, first version/target.
struct SpecialRegister {
  std::string_view name;  // "%tid.x"
  Type type;
  std::uint8_t vector;  // 4: "%tid" without a component
  Requirement since;
};
std::span<const SpecialRegister> special_registers();
const SpecialRegister* special_register(std::string_view name);
std::string explain_special(std::string_view name);  // that there is none of this name, and what is near; for messages

}  // namespace ptx::isa
