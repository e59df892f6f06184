#include "ptx/transpile/detail/homes.h"

namespace ptx::transpile {

using ir::Statement;

Homes::Homes(const ir::Function& function, const Plan& plan) : f_(function), blocks_{{ir::no_id, 0, 0}} {
  if (!plan.raised) return;
  homes_.resize(f_.registers.size());
  std::uint32_t block = 0;
  if (plan.shaped) {
    all(plan.nodes, block);
  } else {
    for (std::uint32_t i = 0; i < f_.body.size(); ++i) statement(i, block);
  }
  for (const PlannedArray& array : plan.arrays) {
    if (array.elements.empty()) continue;
    Home whole = homes_[array.elements[0]];
    for (const ir::RegisterId element : array.elements) join(whole, homes_[element].block);
    hoist(array.elements[0], whole);
  }
  for (ir::RegisterId id = 0; id < plan.registers.size(); ++id) {
    using Where = PlannedRegister::Where;
    const Where where = plan.registers[id].where;
    if (where == Where::before || where == Where::inside) hoist(id, homes_[id]);
  }
}

const std::vector<ir::RegisterId>& Homes::before(std::uint32_t statement) const {
  static const std::vector<ir::RegisterId> none;
  return statement < before_.size() ? before_[statement] : none;
}

void Homes::hoist(ir::RegisterId reg, const Home& home) {
  if (home.first == home.block) return;
  std::uint32_t block = home.first;
  while (blocks_[block].parent != home.block) block = blocks_[block].parent;
  before_.resize(f_.body.size());
  before_[blocks_[block].at].push_back(reg);
}

std::uint32_t Homes::inside(std::uint32_t block, std::uint32_t at) {
  blocks_.push_back({block, blocks_[block].depth + 1, at});
  return static_cast<std::uint32_t>(blocks_.size() - 1);
}

void Homes::all(const std::vector<Node>& nodes, std::uint32_t block) {
  for (const Node& node : nodes) {
    if (node.kind == Node::Kind::statement) {
      statement(node.at, block);
      continue;
    }
    const bool loop = node.kind == Node::Kind::loop;
    if (node.kind == Node::Kind::choose) {
      if (f_.body[node.at].kind == Statement::Kind::instruction) branch(node.at, block);
      branch(node.end, block);
      for (const Node& option : node.body) all(option.body, inside(block, node.at));
      continue;
    }
    if (!loop) branch(node.at, block);
    const std::uint32_t body = inside(block, node.at);
    all(node.body, body);
    if (loop) branch(node.end, body);
    if (!node.otherwise.empty()) all(node.otherwise, inside(block, node.at));
  }
}

void Homes::statement(std::uint32_t i, std::uint32_t& block) {
  switch (f_.body[i].kind) {
    case Statement::Kind::open: block = inside(block, i); return;
    case Statement::Kind::close: block = blocks_[block].parent; return;
    case Statement::Kind::instruction: return branch(i, block);
    default: return;
  }
}

void Homes::branch(std::uint32_t i, std::uint32_t block) {
  const ir::Instruction& instruction = f_.instructions[f_.body[i].index];
  if (instruction.guard.reg != ir::no_id) met(instruction.guard.reg, block);
  for (const ir::Operand& o : f_.operands_of(instruction)) operand(o, block);
}

void Homes::operand(const ir::Operand& o, std::uint32_t block) {
  if (o.kind == ir::Operand::Kind::reg) met(o.id, block);
  for (const ir::Operand& child : f_.children(o)) operand(child, block);
}

void Homes::met(ir::RegisterId reg, std::uint32_t block) {
  Home& home = homes_[reg];
  if (home.first == ir::no_id) home.first = home.block = block;
  join(home, block);
}

void Homes::join(Home& home, std::uint32_t block) const {
  while (home.block != block) {
    std::uint32_t& deeper = blocks_[home.block].depth >= blocks_[block].depth ? home.block : block;
    deeper = blocks_[deeper].parent;
  }
}

}  // namespace ptx::transpile
