// Where C++ declares a register: blocks are lambdas, and what one declares ends with it. What an outer block names,
// too, is declared in front of the outermost block that the plan would have declared it in.
#pragma once

#include <vector>

#include "ptx/ir/ir.h"
#include "ptx/transpile/detail/plan.h"

namespace ptx::transpile {

class Homes {
 public:
  Homes(const ir::Function& function, const Plan& plan);

  // What is declared in front of the block that begins at this statement. Registers of an array stand for it.
  const std::vector<ir::RegisterId>& before(std::uint32_t statement) const;

 private:
  struct Block {
    std::uint32_t parent, depth, at;  // `at`: the statement of its head
  };
  struct Home {
    std::uint32_t first = ir::no_id, block = ir::no_id;  // where it is named first, and what holds all that name it
  };

  std::uint32_t inside(std::uint32_t block, std::uint32_t at);
  void all(const std::vector<Node>& nodes, std::uint32_t block);
  void statement(std::uint32_t i, std::uint32_t& block);
  void branch(std::uint32_t i, std::uint32_t block);
  void operand(const ir::Operand& o, std::uint32_t block);
  void met(ir::RegisterId reg, std::uint32_t block);
  void join(Home& home, std::uint32_t block) const;
  void hoist(ir::RegisterId reg, const Home& home);

  const ir::Function& f_;
  std::vector<Block> blocks_;
  std::vector<Home> homes_;
  std::vector<std::vector<ir::RegisterId>> before_;  // by statement; empty: nothing is
};

}  // namespace ptx::transpile
