// The names that a function sees: the module's variables and functions, its parameters, and the variables and labels of
// its blocks. Variables and functions are seen below their declaration; a label is seen in its whole block.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "ptx/ir/ir.h"

namespace ptx::ir {

struct Symbol {
  enum class Kind : std::uint8_t { variable, parameter, function, label } kind = Kind::variable;
  const Variable* variable = nullptr;  // of a variable or parameter
  const Function* function = nullptr;
  std::uint32_t at = 0;  // the item of the module, or the statement of the body, that declares it; of a parameter 0
  Place place;           // of that declaration
};

// The prototype or table of targets whose label is this statement; nullptr: the label is one to branch to.
const Table* table_behind(const Function& function, std::uint32_t label);

// The names of a module, each at its first declaration: below a prototype or an .extern variable the name may be used.
class ModuleSymbols {
 public:
  explicit ModuleSymbols(const Module& module);
  const Symbol* find(std::uint32_t name) const;

 private:
  std::unordered_map<std::uint32_t, Symbol> symbols_;
};

class Symbols {
 public:
  static constexpr std::uint32_t outermost = 1;  // the block that is the body; the parameters are in block 0

  // `item`: the function's own in its module. `module` and `function` must outlive this.
  Symbols(const ModuleSymbols& module, const Function& function, std::uint32_t item);

  // What a name means in a statement: the innermost variable or function that is declared above, else a label of the
  // blocks around; nullptr: nothing. Variables of `name<count>` are found by their full names.
  const Symbol* find(std::uint32_t name, std::uint32_t statement) const;
  // The declaration of a name that find() does not see because it stands below; nullptr: there is none.
  const Symbol* find_below(std::uint32_t name, std::uint32_t statement) const;
  // The end of a message on a name that find() does not see: "is not declared", or where it is.
  std::string not_declared(std::uint32_t name, std::uint32_t statement) const;

  std::uint32_t block_of(std::size_t statement) const { return blocks_[statement]; }
  // Statements that declare what their block has already.
  const std::vector<std::uint32_t>& duplicates() const { return duplicates_; }

 private:
  void add_body(const Function& function);
  void add(std::uint32_t block, Name name, Symbol symbol);
  template <class Accept>
  const Symbol* search(std::uint32_t name, std::uint32_t block, Accept accept) const;

  const ModuleSymbols& module_;
  const Function& function_;
  std::uint32_t item_;
  std::unordered_map<std::uint64_t, Symbol> symbols_;  // (block, name)
  std::vector<std::uint32_t> blocks_;                  // of each statement
  std::vector<std::uint32_t> parents_{0};              // of each block; block 0 has the parameters
  std::vector<std::uint32_t> duplicates_;
  std::vector<std::uint32_t> registers_;  // the statements that declare them
};

// The same for a statement of the module: what is declared above `item`, or by it.
inline const Symbol* find_above(const ModuleSymbols& module, std::uint32_t name, std::uint32_t item) {
  const Symbol* symbol = module.find(name);
  return symbol && symbol->at <= item ? symbol : nullptr;
}

// The same for a name of the module: `below` is its declaration, if there is one.
std::string not_declared(const Symbol* below);

}  // namespace ptx::ir
