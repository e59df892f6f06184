// The names that a function sees: the module's variables and functions, its parameters, and the variables and labels of
// its blocks.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ptx/ir/ir.h"

namespace ptx::check {

struct Symbol {
  enum class Kind : std::uint8_t { variable, parameter, function, label } kind = Kind::variable;
  const ir::Variable* variable = nullptr;  // of a variable or parameter
  const ir::Function* function = nullptr;
  std::uint32_t statement = 0;  // where a name of the body is declared; 0 for all others
};

class Symbols {
 public:
  // What is declared twice goes to `duplicates`, as indices of statements of the body.
  Symbols(const ir::Module& module, const ir::Function& function);

  // The innermost meaning of a name seen from a block; nullptr: none. Variables of `name<count>` are found by their
  // full names.
  const Symbol* find(std::uint32_t name, std::uint32_t block) const;

  std::uint32_t block_of(std::size_t statement) const { return blocks_[statement]; }
  const std::vector<std::uint32_t>& duplicates() const { return duplicates_; }

 private:
  void add_module(const ir::Module& module, const ir::Function& function);
  void add_body(const ir::Function& function);
  void add(std::uint32_t block, Name name, Symbol symbol);
  const Symbol* find_exact(std::uint32_t name, std::uint32_t block) const;

  std::unordered_map<std::uint64_t, Symbol> symbols_;  // (block, name)
  std::vector<std::uint32_t> blocks_;                  // of each statement
  std::vector<std::uint32_t> parents_{0};              // of each block; block 0 is the module and the parameters
  std::vector<std::uint32_t> duplicates_;
};

}  // namespace ptx::check
