#include "ptx/sim/watch/names.h"

#include <span>

#include "ptx/base/text.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/cta.h"

namespace ptx::sim {

namespace {

// A text declares %f1 by itself or as one of %f<4>: the whole name counts.
std::uint64_t name_key(Name function, const ir::Register& reg) {
  return std::uint64_t{function.id()} << 32 | Name(ir::name(reg)).id();
}

// Of the access; nullptr: which of several is not said, or none has this space.
const Operand* address_operand(const Op& op, isa::Space space) {
  if (op.uses == Uses::loads) return &op.operands[op.destinations];
  if (op.uses == Uses::stores) return &op.operands[0];
  const Operand* found = nullptr;
  for (const Operand& o : std::span(op.operands + op.destinations, op.sources)) {
    if (o.space == isa::Space::generic || o.space != space) continue;
    if (found) return nullptr;
    found = &o;
  }
  return found;
}

const FunctionCode& function_at(const Program& program, std::uint32_t pc) {
  const FunctionCode* found = &program.functions.front();
  for (const FunctionCode& f : program.functions)
    if (f.defined && f.first <= pc && f.first >= found->first) found = &f;
  return *found;
}

}  // namespace

void RegisterNames::ask() const {
  if (!options_.call_registers || !program_.registers) return;
  const std::vector<std::string> names = options_.call_registers(*program_.registers);
  std::size_t at = 0;
  for (const MadeRegisters& made : *program_.registers) {
    for (std::uint32_t i = 0; i < made.count && at < names.size(); ++i) {
      const std::string& name = names[at++];
      if (name.empty() || !made.base.view().starts_with('%')) continue;  // the author's own is in the text
      ir::Register reg;
      reg.base = made.base, reg.index = made.index + static_cast<std::int32_t>(i);
      const auto [known, fresh] = names_.try_emplace(name_key(made.function, reg), Called{name, made.place});
      if (!fresh) known->second.name.clear();  // two blocks have a register of this name
    }
  }
}

const RegisterNames::Called* RegisterNames::find(Name function, const ir::Register& reg) const {
  std::call_once(asked_, [&] { ask(); });
  if (names_.empty()) return nullptr;
  const auto found = names_.find(name_key(function, reg));
  return found == names_.end() || found->second.name.empty() ? nullptr : &found->second;
}

std::string RegisterNames::describe(Name function, const ir::Register& reg) const {
  const Called* called = find(function, reg);
  if (!called) return cat('`', ir::name(reg), '`');
  return cat('`', ir::name(reg), "` (`", called->name, "`, ", called->place.file.view(), ':', called->place.line, ')');
}

std::string RegisterNames::describe_address(std::uint32_t pc, isa::Space space) const {
  const Operand* o = address_operand(program_.ops[pc], space);
  const std::string reg = o ? named(pc, *o) : std::string();
  if (reg.empty()) return {};
  const std::string offset = o->displacement > 0   ? cat(" + ", o->displacement)
                             : o->displacement < 0 ? cat(" - ", -o->displacement)
                                                   : "";
  return cat("its address is ", reg, offset);
}

std::string RegisterNames::describe_stored(std::uint32_t pc) const {
  const Op& op = program_.ops[pc];
  const bool one = op.uses == Uses::stores && op.sources == 2;
  return one ? named(pc, op.operands[1]) : std::string();
}

std::string RegisterNames::named(std::uint32_t pc, const Operand& o) const {
  const FunctionCode& function = function_at(program_, pc);
  if (o.bank != Bank::registers || o.slot == 0 || o.slot >= function.slot_registers.size()) return {};
  const ir::Register& reg = function.slot_registers[o.slot];
  return find(function.name, reg) ? describe(function.name, reg) : std::string();
}

std::string register_name(const Warp& warp, const Frame& frame, std::uint32_t slot) {
  return warp.cta.launch.names.describe(frame.function.name, frame.function.slot_registers[slot]);
}

std::string register_name(const Warp& warp, std::uint32_t slot) {
  return register_name(warp, *warp.current.frame, slot);
}

}  // namespace ptx::sim
