// What authors put into an instruction: registers, predicates, pairs, numbers, symbols, addresses. All are small
// values; the registers, and the children of compound operands, live in the Builder that they point to and are valid as
// long as it.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <exception>
#include <source_location>
#include <string>
#include <string_view>

#include "ptx/base/diagnostic.h"
#include "ptx/ir/ir.h"

namespace ptx::author {

class Builder;
class Kernel;
struct Shared;
struct Barrier;
struct Results;
struct Address;

// Thrown by everything in this room when the author asks for what PTX does not have. Nothing has been appended then.
class Refused : public std::exception {
 public:
  explicit Refused(Diagnostics why);
  const Diagnostics& why() const { return why_; }
  const char* what() const noexcept override { return text_.c_str(); }
  Refused at(const Place& place) const;  // there, unless the first reason has a line of its own

 private:
  Diagnostics why_;
  std::string text_;
};

// A register, or a special register, of one Builder. `type` is the author's: a bf16 value is declared .b16. A compiler
// does not warn of one that C++ never names again, because the instruction that writes it is in the kernel.
struct [[maybe_unused]] Reg {
  Builder* builder = nullptr;
  std::uint32_t id = ir::no_id;  // RegisterId, or Name of the special register
  isa::Type type = isa::Type::none;
  bool special = false;

  std::string name() const;  // "%r3", "%tid.x"
  // The same register read as another type: a.as(s32) < 4 of an unsigned one. Refused (bad_argument) if the widths
  // differ.
  Reg as(isa::Type other, std::source_location at = std::source_location::current()) const;
  friend bool same(const Reg& a, const Reg& b) {
    return a.builder == b.builder && a.id == b.id && a.special == b.special;
  }
};

// !p, as an operand or a guard.
struct Not {
  Reg reg;
};

// A part of a register, or its negative, as video instructions alone take them: a.b0, a.h10, -a (isa/selector.h); or
// an element of a vector register, v.x.
struct Part {
  Reg reg;
  Name word;  // "b0"; empty: the whole register
  bool minus = false;
};
inline Part part(const Reg& reg, std::string_view word) { return {reg, Name(word)}; }
inline Part minus(const Part& part) { return {part.reg, part.word, true}; }
inline Part minus(const Reg& reg) { return {reg, {}, true}; }

// a|b: two destinations of one instruction.
struct Pair {
  Reg left, right;
};

// The number of a register, and where it was written.
struct Index {
  std::int64_t value;
  std::source_location at;
  Index(std::integral auto value, std::source_location at = std::source_location::current())
      : value(static_cast<std::int64_t>(value)), at(at) {}
};

struct [[maybe_unused]] RegArray;
const Reg element(const RegArray& array, std::int64_t i);  // refused (index_range) unless 0 <= i < count

// Registers declared together, base<count>.
struct [[maybe_unused]] RegArray {
  Builder* builder = nullptr;
  std::uint32_t first = ir::no_id;
  std::uint32_t count = 0;
  isa::Type type = isa::Type::none;

  const Reg operator[](const Index& i) const;        // element, with the author's line
  void set(const Index& i, const Reg& value) const;  // assign (expression.h)
  std::string base() const;                          // "%f"
};

// One operand. A number is spelled when the instruction is known: 1.5 becomes 0f3FC00000 in an .f32 instruction.
struct Operand {
  // element: of an array, by a number. [a+16], or a+16 where the instruction takes a value (mov, cvta).
  enum class Literal : std::uint8_t { none, integer, real, element };

  ir::Operand ir;
  Builder* builder = nullptr;        // of a register or what holds registers: where it belongs
  isa::Type type = isa::Type::none;  // of a register
  // The kind of a number. emit() spells it as the instruction's type wants; until then a real one is a double's bits.
  Literal literal = Literal::none;
  bool as_written = false;   // the number was text: as in PTX, it may have more bits than the instruction's type keeps
  std::uint8_t indices = 0;  // of an element: how many of the array's dimensions have an index

  Operand() = default;
  Operand(const Reg& reg);
  Operand(const Not& negated);
  Operand(const Part& part);
  Operand(const Pair& pair);
  Operand(const Address& address);
  Operand(const Shared& shared);  // its symbol: `mov.u32 %r0, smem_0`
  Operand(const Barrier& barrier);
  Operand(const Results& results);                                       // the first
  Operand(std::same_as<bool> auto value) { set_integer(value, false); }  // a template: no pointer becomes a bool
  Operand(std::signed_integral auto value) { set_integer(value, false); }
  Operand(std::unsigned_integral auto value)
    requires(!std::same_as<decltype(value), bool>)
  {
    set_integer(static_cast<std::int64_t>(value), static_cast<std::uint64_t>(value) >> 63);
  }
  Operand(std::floating_point auto value) : literal(Literal::real) {
    ir.kind = ir::Operand::Kind::f64;
    ir.bits = std::bit_cast<std::uint64_t>(static_cast<double>(value));
  }
  // A symbol, also with an offset ("table+4"), a special register ("%tid.x"), or, if it starts with a digit or a minus
  // sign, a number as PTX writes it.
  Operand(std::string_view text);
  Operand(const char* text) : Operand(std::string_view(text)) {}
  Operand(const std::string& text) : Operand(std::string_view(text)) {}
  explicit Operand(const ir::Operand& written, Builder* owner = nullptr, isa::Type of = isa::Type::none)
      : ir(written), builder(owner), type(of) {}

  bool is_register() const { return ir.kind == ir::Operand::Kind::reg; }
  bool is_integer() const { return ir.kind == ir::Operand::Kind::integer; }

 private:
  void set_integer(std::int64_t value, bool wide) {
    literal = Literal::integer;
    ir.kind = ir::Operand::Kind::integer;
    ir.value = value;
    ir.wide = wide;
  }
};

Place place_of(const std::source_location& at);
// The builder, which then knows the author's line. Refused there if it is over or there is none.
Builder& here(Builder* builder, const std::source_location& at);

// The sink `_`: a destination that nobody reads.
Operand sink();

// [base + offset]. A register offset makes an addition when the address is formed.
struct Address {
  Builder* builder = nullptr;
  ir::Operand base;  // register or symbol
  isa::Type type = isa::Type::none;
  std::int64_t offset = 0;
  bool unified = false;  // [a].unified

  Address operator+(std::int64_t bytes) const {
    Address moved = *this;
    moved.offset += bytes;
    return moved;
  }
};

}  // namespace ptx::author
