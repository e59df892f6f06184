// Where C++ declares a register: blocks are lambdas and braces, and what one declares ends with it. What an outer block
// names, too, is declared in front of the outermost block inside of that one.
#include <algorithm>
#include <tuple>

#include "ptx/transpile/detail/plan.h"

namespace ptx::transpile {
namespace {

using ir::RegisterId;
using ir::Statement;
using Where = PlannedRegister::Where;

class Homes {
 public:
  Homes(const ir::Function& function, Plan& plan)
      : f_(function),
        plan_(plan),
        blocks_{{ir::no_id, 0, 0, 0}},
        homes_(f_.registers.size()),
        arrays_(plan.arrays.size()) {}

  void run() {
    std::uint32_t block = 0;
    if (plan_.shaped) {
      all(plan_.nodes, block);
    } else {
      for (std::uint32_t i = 0; i < f_.body.size(); ++i) statement(i, block);
    }
    for (std::size_t i = 0; i < arrays_.size(); ++i)
      hoist(arrays_[i], plan_.arrays[i].statement, plan_.arrays[i].depth);
    for (RegisterId id = 0; id < plan_.registers.size(); ++id) {
      PlannedRegister& r = plan_.registers[id];
      const bool placed = r.where == Where::before || r.where == Where::inside;
      if (placed && hoist(homes_[id], r.statement, r.depth)) r.where = Where::before;
    }
    sort_arrays(plan_);
  }

 private:
  struct Block {
    std::uint32_t parent, depth;
    std::uint32_t at;       // the statement of its head
    std::uint32_t repeats;  // repetitions that what is in it is in
  };
  struct Home {
    std::uint32_t first = ir::no_id, block = ir::no_id;  // where it is named first, and what holds all that name it
  };

  // Declares in front of a block what it names first and others behind it do; whether that is another place.
  bool hoist(const Home& home, std::uint32_t& statement, std::uint32_t& depth) const {
    if (home.first == home.block) return false;
    std::uint32_t block = home.first;
    while (blocks_[block].parent != home.block) block = blocks_[block].parent;
    const std::pair there(blocks_[block].at, blocks_[home.block].repeats);
    if (there >= std::pair(statement, depth)) return false;
    std::tie(statement, depth) = there;
    return true;
  }

  std::uint32_t inside(std::uint32_t block, std::uint32_t at, bool repeats = false) {
    blocks_.push_back({block, blocks_[block].depth + 1, at, blocks_[block].repeats + repeats});
    return static_cast<std::uint32_t>(blocks_.size() - 1);
  }

  void all(const std::vector<Node>& nodes, std::uint32_t block) {
    using Kind = Node::Kind;
    for (const Node& node : nodes) {
      switch (node.kind) {
        case Kind::statement: statement(node.at, block); break;
        case Kind::when:
          branch(node.at, block);
          all(node.body, inside(block, node.at));
          if (!node.otherwise.empty()) all(node.otherwise, inside(block, node.at));
          break;
        case Kind::loop: {
          const std::uint32_t body = inside(block, node.at);
          all(node.body, body);
          branch(node.end, body);
          break;
        }
        case Kind::call:
          for (std::uint32_t i = node.at + 1; i < node.end; ++i)
            if (f_.body[i].kind == Statement::Kind::instruction) branch(i, block);
          break;
        case Kind::wait: branch(wait_of(f_, node).tried, block); break;
        case Kind::choose:
          if (f_.body[node.at].kind == Statement::Kind::instruction) branch(node.at, block);
          branch(node.end, block);
          for (const Node& option : node.body) all(option.body, inside(block, node.at));
          break;
        case Kind::option:
        case Kind::enter: break;
        case Kind::block: all(node.body, inside(block, node.at)); break;
        case Kind::leave:
        case Kind::again: branch(node.at, block); break;
        case Kind::repeat: all(node.body, inside(block, node.at, true)); break;
      }
    }
  }

  void statement(std::uint32_t i, std::uint32_t& block) {
    switch (f_.body[i].kind) {
      case Statement::Kind::open: block = inside(block, i); return;
      case Statement::Kind::close: block = blocks_[block].parent; return;
      case Statement::Kind::instruction: return branch(i, block);
      default: return;
    }
  }

  void branch(std::uint32_t i, std::uint32_t block) {
    const ir::Instruction& instruction = f_.instructions[f_.body[i].index];
    if (instruction.guard.reg != ir::no_id) met(instruction.guard.reg, block);
    for (const ir::Operand& o : f_.operands_of(instruction)) operand(o, block);
  }

  void operand(const ir::Operand& o, std::uint32_t block) {
    if (o.kind == ir::Operand::Kind::reg) met(o.id, block);
    for (const ir::Operand& child : f_.children(o)) operand(child, block);
  }

  void met(RegisterId reg, std::uint32_t block) {
    const PlannedRegister& r = plan_.registers[reg];
    Home& home = r.where == Where::element ? arrays_[r.array] : homes_[reg];
    if (home.first == ir::no_id) home.first = home.block = block;
    while (home.block != block) {  // the innermost that holds both
      std::uint32_t& deeper = blocks_[home.block].depth >= blocks_[block].depth ? home.block : block;
      deeper = blocks_[deeper].parent;
    }
  }

  const ir::Function& f_;
  Plan& plan_;
  std::vector<Block> blocks_;
  std::vector<Home> homes_, arrays_;
};

}  // namespace

void declare_outside_of_blocks(const ir::Function& function, Plan& plan) { Homes(function, plan).run(); }

void sort_arrays(Plan& plan) {
  std::vector<PlannedArray>& arrays = plan.arrays;
  std::erase_if(arrays, [](const PlannedArray& array) { return array.elements.empty(); });
  std::sort(arrays.begin(), arrays.end(), [](const PlannedArray& a, const PlannedArray& b) {
    return std::tuple(a.statement, a.depth, a.elements[0]) < std::tuple(b.statement, b.depth, b.elements[0]);
  });
  for (std::uint32_t i = 0; i < arrays.size(); ++i)
    for (const RegisterId id : arrays[i].elements)
      if (id != ir::no_id) plan.registers[id].array = i;
}

}  // namespace ptx::transpile
