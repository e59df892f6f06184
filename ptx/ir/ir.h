// The intermediate representation: modules, functions, statements, instructions, operands, as flat values.
// It is what is checked, simulated, emitted and transpiled. It holds no text of instructions and no comments' places
// beyond what emission needs; the lossless tree of `syntax` keeps those. Nothing here judges legality: that is `check`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/base/place.h"
#include "ptx/isa/form.h"
#include "ptx/isa/target.h"
#include "ptx/isa/types.h"

namespace ptx::ir {

using RegisterId = std::uint32_t;
inline constexpr std::uint32_t no_id = 0xffffffff;

// One register of a function. Registers declared as a range (`%r<4>`) share their base name.
struct Register {
  isa::Type type = isa::Type::none;
  std::uint8_t vector = 1;  // .v2 .v4 declarations
  Name base;                // "%r"
  std::int32_t index = -1;  // "%r3" = base + index; -1: the base alone
};

// Compound operands (vectors, addresses, pairs, lists) keep their children in Function::operands.
struct Operand {
  enum class Kind : std::uint8_t {
    none,
    reg,      // id = RegisterId; `component` 0..3 for .x .y .z .w; `part`: value = Name of a selector, "b0"; else 0xff
    special,  // id = Name of the special register, "%tid.x"
    integer,  // value; `wide` marks a U suffix or a value above 2^63
    f32,
    f64,      // bits in value: 0f3F800000, 0d...
    symbol,   // id = Name: variable, function, label, parameter; value = byte offset (name+4)
    address,  // children: base and further parts, as coordinates; value = byte offset
    vector,   // {a, b}: children
    list,     // (a, b): children of a call
    pair,     // a|b: two children
    element,  // a[r+4]: children a and r; value = added to the index, in elements
    sum,      // r+4 without brackets: child r; value = what is added
    sink,     // _
    text,     // id = Name of text kept as written (constant expressions that are not folded)
  };
  static constexpr std::uint8_t part = 0xfe;
  Kind kind = Kind::none;
  bool negated = false;  // !p
  std::uint8_t component = 0xff;
  bool wide = false;
  std::uint32_t id = no_id;  // register, Name::id, or index of the first child
  union {
    std::int64_t value = 0;  // integer, offset, bits
    std::uint64_t bits;
  };
  std::uint32_t count() const { return child_count; }
  std::uint32_t child_count = 0;
  bool unified = false;  // [x].unified
  bool minus = false;    // -a, of vmad
};

struct Guard {
  RegisterId reg = no_id;  // no_id: unconditional
  bool negated = false;
};

struct Instruction {
  const isa::Mnemonic* mnemonic = nullptr;
  const isa::Match* match = nullptr;  // the form that fits the operands; set by check; null: none or not yet checked
  std::uint32_t first = 0;            // operands [first, first + count) of Function::operands
  std::uint32_t count = 0;
  Guard guard;
  std::uint8_t groups = 1;  // of the match: which groups of optional operands there are; set with it
};

struct Variable {
  isa::Space space = isa::Space::global;
  isa::Type type = isa::Type::none;
  std::string opaque{};  // "texref", "samplerref", "surfref" instead of a type
  std::uint8_t vector = 1;
  Name name{};
  std::int32_t count = -1;           // `name<count>`: parameterised names; -1: none
  std::vector<std::int64_t> dims{};  // array dimensions; -1 for []
  std::uint32_t alignment = 0;       // 0: natural
  std::string linking{};             // "extern", "visible", "weak", "common" or ""
  std::string attributes{};          // text inside .attribute(...), or ""
  std::string initializer{};         // text after `=`, or ""
  std::string pointer{};             // kernel parameter: text of ".ptr .global .align 16", or ""
};

// Bytes of a variable without its initializer: element size x vector x dims. Opaque types are 8.
std::uint64_t bytes(const Variable& variable);

struct Statement {
  enum class Kind : std::uint8_t {
    instruction,  // index into Function::instructions
    label,        // index = Name id
    registers,    // index into Function::declarations
    variable,     // index into Function::variables
    open,
    close,      // { }
    location,   // .loc: index into Function::locations
    comment,    // index into Function::texts, without //
    directive,  // index into Function::texts, printed as written with a tab (.pragma "x"; .branchtargets ...)
  };
  Kind kind = Kind::instruction;
  std::uint32_t index = 0;
  Place place;  // the author's line
};

struct RegisterDeclaration {  // one .reg line: registers [first, first + count)
  RegisterId first = 0;
  std::uint32_t count = 1;
  bool range = false;  // printed as base<count>
};

// .callprototype, .calltargets or .branchtargets; their text is that of the statement.
struct Table {
  enum class Kind : std::uint8_t { prototype, calls, branches } kind = Kind::prototype;
  std::uint32_t label = no_id;                // Name of the label in front
  std::uint32_t statement = 0;                // of the body
  std::vector<Variable> returns, parameters;  // of a prototype
  std::vector<Name> targets;
  std::vector<std::string> directives{};  // of a prototype: ".noreturn"
};

struct Location {  // .loc file line column {, function_name label, inlined_at file line column}
  std::uint32_t file = 0, line = 0, column = 0;
  std::string inlined;
};
using Spot = std::array<std::uint32_t, 3>;  // file, line, column
// Where a location was inlined, if it was; a number beyond 32 bits is 2^32 - 1.
std::optional<Spot> inlined_at(const Location& location);

struct Function {
  Name name;
  bool entry = true;
  bool declaration = false;  // no body: a prototype
  std::string linking;       // "visible", "extern", "weak" or ""
  std::string attributes;    // text inside .attribute(...), or ""
  std::vector<Variable> parameters;
  std::vector<Variable> returns;
  std::vector<std::string> directives;  // between signature and body, as printed: ".maxntid 384, 1, 1"
  Place place;

  std::vector<Statement> body;
  std::vector<Instruction> instructions;
  std::vector<Operand> operands;  // pool
  std::vector<Register> registers;
  std::vector<RegisterDeclaration> declarations;
  std::vector<Variable> variables;  // declared in the body
  std::vector<Location> locations;
  std::vector<Table> tables;
  std::vector<std::string> texts;

  std::span<const Operand> operands_of(const Instruction& i) const { return {operands.data() + i.first, i.count}; }
  std::span<const Operand> children(const Operand& o) const { return {operands.data() + o.id, o.child_count}; }
};

struct Module {
  isa::Version version;               // {0, 0}: emission takes the smallest that target and forms need
  std::string target = "sm_90a";      // whole list: "sm_90a, debug"
  std::uint8_t address_size = 64;     // 0: not written
  Place version_place, target_place;  // of the two directives, where the module was text
  std::string generator;  // "NVIDIA NVVM Compiler", as the comment before .version says; empty: an author's text

  struct Item {                                                             // order of the text
    enum class Kind : std::uint8_t { variable, function, directive } kind;  // directive: index into texts
    std::uint32_t index = 0;
    Place place{};
  };
  std::vector<Item> items;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::vector<std::string> texts;  // module directives as written: `.file 1 "a.py"`, `.section ...`, `.alias a, b;`
};

std::string to_string(const Function& function, const Operand& operand);  // as PTX text
std::string name(const Register& reg);

struct EmitOptions {
  bool locations = false;  // .file and .loc from the statements' places
};

// PTX text: tabs, one statement a line, one final newline. `lines`, if given, receives for
// each line of the text (from 1; index 0 unused) the place it came from.
std::string emit(const Module& module, const EmitOptions& options = {}, std::vector<Place>* lines = nullptr);

}  // namespace ptx::ir
