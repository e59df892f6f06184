// Instructions and their operands as calls.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ptx/ir/ir.h"
#include "ptx/transpile/detail/language.h"
#include "ptx/transpile/detail/plan.h"

namespace ptx::transpile {

// What a body says for each register: `r[5]`, `tid`.
using RegisterNames = std::vector<std::string>;

class Operands {
 public:
  Operands(Language language, const ir::Function& function, const RegisterNames& registers)
      : cpp_(language == Language::cpp), f_(function), registers_(registers) {}

  // `ptx.inst.add.u32(r[1], r[2], 5, pred=p[0])`; false if an operand has no such form, and the text is then useless.
  bool call(std::string& out, const ir::Instruction& instruction);
  bool operand(std::string& out, const isa::Mnemonic& mnemonic, const ir::Operand& o, std::size_t i, std::size_t count);
  // [a] as a function of a family takes it: the register, or the address.
  bool place(std::string& out, const isa::Mnemonic& mnemonic, const ir::Operand& o);
  // Registers that are declared together: `name` stands for the vector of all of them.
  void add_array(std::string name, const std::vector<ir::RegisterId>& elements);
  // What `symbol` names is `name` in the program; of `barriers` each has an index.
  void add_symbol(std::uint32_t symbol, std::string name, bool barriers) {
    symbols_[symbol] = {std::move(name), barriers};
  }
  void rename_labels() { renames_labels_ = true; }  // $_name to $L_name: the library makes labels of its own
  std::string label(std::uint32_t name) const;      // as the body has it
  std::string table(const ir::Table& table) const;  // t: .branchtargets a, b;
  // p[0], ~p[0]; `inverted`: the other of the two.
  void guard(std::string& out, const ir::Guard& guard, bool inverted = false);

  // Repetitions that are being written, the outermost first; `walks` says what is another in each of their rounds.
  struct Round {
    std::string name;                 // of its number
    std::vector<std::string> tables;  // what it takes from each table
    std::vector<std::string> names;   // that end with it
  };
  void set_walks(const std::unordered_map<const void*, Walk>& walks) { walks_ = &walks; }
  void set_spelled(const std::unordered_map<const void*, Spelled>& spelled) { spelled_ = &spelled; }
  void name(isa::Type type) { types_.push_back(type); }
  const std::vector<isa::Type>& named_types() const { return types_; }  // in what was written
  std::vector<Round>& rounds() { return rounds_; }
  const Walk* walk(const void* key) const;
  bool walk_together(const void* a, const void* b) const;

 private:
  bool number(std::string& out, const ir::Operand& o, isa::Type type);
  bool children(std::string& out, const isa::Mnemonic& m, std::span<const ir::Operand> list, std::size_t i,
                std::size_t count);
  bool address(std::string& out, const isa::Mnemonic& mnemonic, const ir::Operand& o);
  bool pair(std::string& out, const isa::Mnemonic& m, const ir::Operand& o, std::size_t i, std::size_t count);
  bool base(std::string& out, const ir::Operand& o);
  void special(std::string& out, std::string_view name);
  void text(std::string& out, const ir::Operand& o);                               // as PTX writes it, in quotes
  bool stands_for(std::string& out, std::span<const ir::Operand> children) const;  // an array or a slice of one
  void reg(std::string& out, ir::RegisterId id, const void* key) const;
  void walked(std::string& out, std::int64_t first, const Walk& walk, std::int64_t scale = 1) const;
  void number(std::string& out, const ir::Operand& o);
  bool spelled(std::string& out, const ir::Operand& o);  // as a call
  const std::string& chain(const isa::Mnemonic& mnemonic);

  bool cpp_, renames_labels_ = false;
  const ir::Function& f_;
  const RegisterNames& registers_;
  std::unordered_map<const isa::Mnemonic*, std::string> chains_;
  struct Symbol {
    std::string name;
    bool barriers;
  };
  std::unordered_map<std::uint32_t, Symbol> symbols_;  // that are no text in the program
  struct Array {
    std::string name;
    std::size_t size;
  };
  struct Element {
    std::uint32_t array, index;
  };
  std::vector<Array> arrays_;
  std::unordered_map<ir::RegisterId, Element> elements_;
  const std::unordered_map<const void*, Walk>* walks_ = nullptr;
  const std::unordered_map<const void*, Spelled>* spelled_ = nullptr;
  std::vector<isa::Type> types_;
  std::vector<Round> rounds_;
};

}  // namespace ptx::transpile
