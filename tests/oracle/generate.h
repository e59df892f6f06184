// Instances of the rows: mnemonics with chosen slots, operands as a form wants them, and what lies one step beside
// both. It draws every choice from a function of its user (a seeded generator, the bytes of a fuzzer) and judges
// nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ptx/ir/ir.h"

namespace ptx::oracle {

using Roll = std::function<std::size_t(std::size_t)>;  // a number below its argument, which is not 0
using Modifiers = std::vector<std::string_view>;       // modifiers without dots
using Operands = std::vector<ir::Operand>;

// A kernel `k` with registers of every type and a variable of every space, the same that assembler.py writes; its one
// instruction is what is judged.
struct Pool {
  static constexpr int per_type = 136;
  ir::Module module;
  std::vector<isa::Type> types;  // that registers are declared with

  Pool();
  ir::Function& function() { return module.functions.front(); }
  // Where the function stands in the module, and in it the instruction of put().
  std::uint32_t item() const { return static_cast<std::uint32_t>(module.items.size() - 1); }
  std::uint32_t statement() { return static_cast<std::uint32_t>(function().body.size() - 3); }
  ir::Operand reg(isa::Type type, int index);
  ir::Operand compound(ir::Operand::Kind kind, const Operands& children);
  ir::Instruction& put(const isa::Mnemonic& mnemonic, const Operands& operands);  // replaces the instruction
  std::string text();                                                             // of the instruction
};

// The value of each slot (-1: left out), and which pairs of braces are there.
struct Choice {
  std::vector<int> values;
  unsigned groups = 0;
};

class Generator {
 public:
  Generator(Pool& pool, Roll roll) : pool_(pool), roll_(std::move(roll)) {}

  Choice first(const isa::Form& form) const;  // first values, nothing optional
  Choice random(const isa::Form& form) const;
  void choose(const isa::Form& form, Choice& choice, std::size_t slot, int value) const;  // with its braces
  double combinations(const isa::Form& form) const;
  bool next(const isa::Form& form, Choice& choice) const;  // counts through all of them; false after the last
  Modifiers modifiers(const isa::Form& form, const Choice& choice) const;
  const isa::Match* match(const isa::Form& form, const Modifiers& modifiers) const;  // null: no reading as this form
  static bool calls(const isa::Form& form);  // needs functions, tables or argument lists, which a Pool has not

  // Every modifier left out or doubled, a modifier of another row in its place or beside it.
  std::vector<Modifiers> beside(const isa::Form& form, const Modifiers& modifiers) const;
  std::vector<Modifiers> orders(const Modifiers& modifiers, std::size_t at_most) const;

  // Operands of a match; `groups`: which optional ones; the operand `changed` (-1: none) is replaced by its `change`,
  // from 1 to changes(...).
  Operands operands(const isa::Form& form, const isa::Match& match, unsigned groups, int changed = -1, int change = 0);
  std::vector<unsigned> operand_groups(const isa::Match& match) const;
  int changes(int operand) const { return changes_[static_cast<std::size_t>(operand)]; }  // of the last operands()

 private:
  ir::Operand operand(const isa::Pattern& p, int change);
  ir::Operand address(const isa::Pattern& p, int change, const Operands& coordinates);
  ir::Operand value(const isa::Pattern& p, int change);
  ir::Operand part(const isa::Pattern& p, int change);
  ir::Operand immediate(const isa::Pattern& p, int change);
  ir::Operand other(const isa::Pattern& p, int change);
  ir::Operand stranger(int change);
  ir::Operand fresh(isa::Type type);
  ir::Operand vector(isa::Type type, std::size_t count);
  int changes_of(const isa::Pattern& p) const;

  Pool& pool_;
  Roll roll_;
  const isa::Form* form_ = nullptr;
  std::vector<int> next_, changes_;
};

std::string join(const isa::Form& form, const Modifiers& modifiers);

}  // namespace ptx::oracle
