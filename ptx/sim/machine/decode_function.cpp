#include "ptx/sim/machine/decode_function.h"

#include <algorithm>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/ir/symbols.h"
#include "ptx/sim/exec/micro.h"
#include "ptx/sim/exec/system_call.h"
#include "ptx/sim/machine/special.h"

namespace ptx::sim {

namespace {

std::uint64_t key(std::uint32_t block, Name name) { return std::uint64_t{block} << 32 | name.id(); }

std::uint8_t cell_of(isa::Type type) {
  const isa::TypeInfo& info = isa::info(type);
  if (info.kind == isa::TypeKind::predicate) return 0;
  return info.bits <= 32 ? 4 : info.bits == 64 ? 8 : 16;
}

// The bits of a number as a value of `type`.
std::uint64_t bits_of(const ir::Operand& o, isa::Type type) {
  const bool f32 = type == isa::Type::f32, f64 = type == isa::Type::f64;
  using Kind = ir::Operand::Kind;
  if (o.kind == Kind::f32) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(o.bits));
    return f64 ? std::bit_cast<std::uint64_t>(static_cast<double>(value)) : o.bits;
  }
  if (o.kind == Kind::f64) {
    const double value = std::bit_cast<double>(o.bits);
    return f32 ? std::bit_cast<std::uint32_t>(static_cast<float>(value)) : o.bits;
  }
  if (f32) return std::bit_cast<std::uint32_t>(static_cast<float>(o.value));
  if (f64) return std::bit_cast<std::uint64_t>(static_cast<double>(o.value));
  return o.bits;
}

}  // namespace

std::pair<Operand, bool> Constants::row(Rows* rows, std::uint64_t value, std::uint8_t cell) {
  const int kind = cell == 0 ? 0 : cell == 4 ? 1 : cell == 8 ? 2 : 3;
  if (cell == 4) value &= 0xffffffff;
  if (cell == 0) value = value != 0;
  const auto [found, fresh] = rows[kind].try_emplace(value, static_cast<std::uint32_t>(program_.constants.size() * 64));
  if (fresh) {
    const std::size_t first = program_.constants.size();
    program_.constants.resize(first + (cell == 0 ? 1 : cell * lanes / 64));
    std::byte* bytes = reinterpret_cast<std::byte*>(&program_.constants[first]);
    if (cell == 0) {
      const Mask mask = value ? full_mask : 0;
      std::memcpy(bytes, &mask, sizeof mask);
    }
    for (int i = 0; i < lanes && cell; ++i) std::memcpy(bytes + i * cell, &value, std::min<int>(cell, 8));
  }
  return {Operand{.offset = found->second, .bank = Bank::constants, .cell = cell}, fresh};
}

Operand Constants::shared_address(std::uint64_t value, std::uint8_t cell) {
  const auto [at, fresh] = row(addresses_, value, cell);
  if (fresh) program_.shared_addresses.push_back(at);
  return at;
}

Operand Constants::local_address(std::uint64_t value, std::uint8_t cell) {
  const auto [at, fresh] = row(locals_, value, cell);
  if (fresh) program_.local_addresses.push_back(at);
  return at;
}

void FunctionDecoder::refuse(const Place& place, std::string message) {
  diagnostics_.emplace_back(Code::cannot_simulate, place, std::move(message));
}

// ---- what a function holds

// Only registers that something names have rows: a declaration may make millions.
void FunctionDecoder::lay_out_registers() {
  std::vector<bool> used(f_.registers.size());
  for (const ir::Operand& o : f_.operands) {
    if (o.kind == ir::Operand::Kind::reg) used[o.id] = true;
  }
  for (const ir::Instruction& i : f_.instructions) {
    if (i.guard.reg != ir::no_id) used[i.guard.reg] = true;
  }
  ir::RegisterId formals = 0;
  for (const auto* list : {&f_.returns, &f_.parameters}) {
    for (const ir::Variable& v : *list) {
      if (v.space == isa::Space::reg) used[formals++] = true;
    }
  }
  std::uint32_t bytes = 0;
  for (std::size_t i = 0; i < f_.registers.size(); ++i) {
    const ir::Register& r = f_.registers[i];
    const std::uint8_t cell = cell_of(r.type);
    registers_.push_back({.offset = bytes, .slot = code_.slots, .bank = Bank::registers, .cell = cell});
    if (!used[i]) continue;
    code_.registers.push_back({r, registers_.back()});
    code_.slots += r.vector;
    code_.slot_registers.resize(code_.slots, r);
    bytes += cell == 0 ? 64 : r.vector * cell * lanes;
  }
  scratch_base_ = bytes;
  code_.register_bytes = bytes;
}

void FunctionDecoder::formal(const ir::Variable& v, ir::RegisterId& next, std::vector<Passed>& list) {
  if (v.space == isa::Space::reg) return pass_register(next++, 0xff, list);
  const std::uint32_t align = alignment(v);
  const std::uint32_t at = (code_.local_bytes + align - 1) / align * align;
  const auto size = static_cast<std::uint32_t>(ir::bytes(v));
  code_.local_bytes = at + size;
  names_[key(0, v.name)] = {Resolved::Kind::local, at, isa::Space::param};
  list.push_back({false, {}, at, size});
}

// A register, or each component of a vector.
void FunctionDecoder::pass_register(ir::RegisterId id, std::uint8_t component, std::vector<Passed>& list) const {
  const ir::Register& r = f_.registers[id];
  const std::uint32_t bytes = std::max<std::uint32_t>(1, isa::info(r.type).bits / 8);
  const bool all = component == 0xff;
  for (std::uint8_t c = all ? 0 : component; c < (all ? r.vector : component + 1); ++c) {
    ir::Operand o;
    o.id = id, o.component = c;
    list.push_back({true, in_register(o), 0, bytes});
  }
}

void FunctionDecoder::signature() {
  lay_out_registers();
  if (f_.entry) {
    std::uint64_t offset = 0;
    for (const ir::Variable& v : f_.parameters) {
      const std::uint32_t align = alignment(v);
      offset = (offset + align - 1) / align * align;
      names_[key(0, v.name)] = {Resolved::Kind::parameter, offset, isa::Space::param};
      offset += v.opaque.empty() ? ir::bytes(v) : 8;
    }
    return;
  }
  ir::RegisterId next = 0;
  for (const ir::Variable& v : f_.returns) formal(v, next, code_.returns);
  for (const ir::Variable& v : f_.parameters) formal(v, next, code_.parameters);
}

// Blocks are numbered as they open; block 0 holds the parameters, block 1 is the body.
void FunctionDecoder::find_blocks() {
  std::uint32_t block = 1;
  blocks_.parents = {0, 0};
  for (std::uint32_t i = 0; i < f_.body.size(); ++i) {
    const ir::Statement& s = f_.body[i];
    if (s.kind == ir::Statement::Kind::open) {
      blocks_.parents.push_back(block);
      block = static_cast<std::uint32_t>(blocks_.parents.size() - 1);
    } else if (s.kind == ir::Statement::Kind::close) {
      block = blocks_.parents[block];
    } else if (s.kind == ir::Statement::Kind::label) {
      labels_[key(block, Name::from_id(s.index))] = 0;
      if (const ir::Table* table = ir::table_behind(f_, i)) tables_[key(block, Name::from_id(s.index))] = table;
    } else if (s.kind == ir::Statement::Kind::variable) {
      const ir::Variable& v = f_.variables[s.index];
      if (v.space == isa::Space::local || v.space == isa::Space::param) {
        const std::uint32_t align = alignment(v);
        const std::uint32_t at = (code_.local_bytes + align - 1) / align * align;
        const std::uint64_t bytes = std::min<std::uint64_t>(ir::bytes(v), 2 * max_local);
        code_.local_bytes = std::min(at + static_cast<std::uint32_t>(bytes), 2 * max_local);
        names_[key(block, v.name)] = {Resolved::Kind::local, at, v.space, stride(v)};
        if (f_.entry && v.space == isa::Space::local)
          program_.local_variables.push_back({std::string(v.name.view()), at, at + bytes});
      } else {
        names_[key(block, v.name)] = layout_.find(v);
      }
    }
    blocks_.of.push_back(block);
  }
}

Resolved FunctionDecoder::resolve(Name name, std::uint32_t block) const {
  for (;; block = blocks_.parents[block]) {
    if (const auto found = names_.find(key(block, name)); found != names_.end()) return found->second;
    if (block == 0) return layout_.find(name);
  }
}

std::uint32_t FunctionDecoder::label(Name name, std::uint32_t block) const {
  for (;; block = blocks_.parents[block]) {
    if (const auto found = labels_.find(key(block, name)); found != labels_.end()) return found->second;
    if (block == 0) return 0xffffffff;
  }
}

namespace {

using ir::Spot;
using Inlined = std::map<Spot, Spot>;  // where what stands at a spot was inlined

Inlined inlined_of(const ir::Function& f) {
  Inlined out;
  for (const ir::Location& at : f.locations) {
    if (const auto outer = ir::inlined_at(at)) out[{at.file, at.line, at.column}] = *outer;
  }
  return out;
}

// The line of a .loc; of what was inlined, that where the outermost function calls.
Place source_of(const ir::Location& location, const Inlined& inlined, const std::map<std::uint32_t, Name>& files) {
  Spot spot{location.file, location.line, location.column};
  constexpr int deepest = 64;
  auto outer = ir::inlined_at(location);
  for (int depth = 0; depth < deepest && outer; ++depth) {
    spot = *outer;
    const auto next = inlined.find(spot);
    outer = next == inlined.end() ? std::nullopt : std::optional(next->second);
  }
  const auto file = files.find(spot[0]);
  return file == files.end() ? Place{} : Place{file->second, spot[1], spot[2]};
}

}  // namespace

void FunctionDecoder::body(const std::map<std::uint32_t, Name>& files) {
  find_blocks();
  const Inlined inlined = inlined_of(f_);
  code_.first = static_cast<std::uint32_t>(program_.ops.size());
  for (std::uint32_t i = 0; i < f_.body.size(); ++i) {
    const ir::Statement& s = f_.body[i];
    if (s.kind == ir::Statement::Kind::label) {
      labels_[key(blocks_.of[i], Name::from_id(s.index))] = static_cast<std::uint32_t>(program_.ops.size());
    } else if (s.kind == ir::Statement::Kind::instruction) {
      instruction(s, blocks_.of[i]);
    } else if (s.kind == ir::Statement::Kind::location) {
      source_ = source_of(f_.locations[s.index], inlined, files);
    }
  }
  // Running off the end is a return.
  Use end{f_.instructions.empty() ? ir::Instruction{} : f_.instructions.back(), "ret", f_.place, 0, {}, false, 0};
  emit(end, {.run = &return_from_function}, {}, {});
  for (const Jump& jump : jumps_) {
    const std::uint32_t target = label(jump.name, jump.block);
    if (target == 0xffffffff) {
      refuse(jump.place, cat("there is no label `", jump.name.view(), "` here"));
    } else if (jump.table < 0) {
      program_.ops[jump.op].target = target;
    } else {
      program_.tables[program_.ops[jump.op].target][static_cast<std::size_t>(jump.table)] = target;
    }
  }
  if (code_.local_bytes > max_local) {
    refuse(f_.place, cat("`", f_.name.view(), "` needs more than ", max_local, " bytes of local memory a thread"));
  }
  code_.register_bytes = scratch_base_ + scratch_rows_ * scratch_bytes;
  code_.slots += scratch_rows_;
  code_.slot_registers.resize(code_.slots);
  code_.defined = true;
}

// ---- instructions

Op& FunctionDecoder::emit(Use& use, Op op, const std::vector<Operand>& destinations,
                          const std::vector<Operand>& sources) {
  op.destinations = static_cast<std::uint8_t>(destinations.size());
  op.sources = static_cast<std::uint8_t>(sources.size());
  op.guarded = use.guarded;
  op.guard = use.guard;
  op.checked = use.guarded && use.guard.slot;
  for (const Operand& o : sources) op.checked |= o.slot != 0;
  for (const Operand& o : destinations) op.marked |= o.slot != 0 && !op.late;
  // Indices for now: the vector still grows. decode() makes them pointers.
  op.operands = reinterpret_cast<const Operand*>(program_.operands.size());
  program_.operands.insert(program_.operands.end(), destinations.begin(), destinations.end());
  program_.operands.insert(program_.operands.end(), sources.begin(), sources.end());
  program_.ops.push_back(op);
  program_.places.push_back(use.place);
  program_.sources.push_back(source_);
  program_.mnemonics.push_back(use.mnemonic);
  program_.traits.push_back(use.traits);
  return program_.ops.back();
}

void FunctionDecoder::instruction(const ir::Statement& statement, std::uint32_t block) {
  const ir::Instruction& i = f_.instructions[statement.index];
  const std::uint32_t line = statement.place.line;
  const bool mapped = line < lines_.size() && lines_[line].line != 0;
  Use use{i, i.mnemonic->text, mapped ? lines_[line] : statement.place, block, {}, false, 0};
  const Selection selection = select(f_, i);
  const Bound bound = bind(*selection.match);
  use.traits = selection.match->form->traits;
  if (!bound.run) {
    return refuse(use.place, cat("`", i.mnemonic->text, "` does not run on the simulator",
                                 bound.why ? cat(": ", bound.why) : std::string()));
  }
  if (i.guard.reg != ir::no_id) {
    use.guarded = true;
    use.guard = registers_[i.guard.reg];
    use.guard.flip = i.guard.negated;
  }
  Op op;
  op.run = bound.run;
  op.mods = mods(*selection.match);
  op.converge = bound.converge;
  op.aligned = bound.aligned;
  op.excuses = bound.excuses;
  op.late = bound.late;
  op.plan = bound.plan;
  op.uses = bound.uses;
  op.type = value_type(*selection.match);
  op.manner = manner(*selection.match);
  op.element = static_cast<std::uint8_t>(std::max<int>(1, isa::info(op.type).bits / 8));
  program_.communicates |= bound.communicates;
  program_.takes_over |= bound.takes_over;
  program_.discards |= bound.discards;
  op.synchronises =
      bound.communicates || op.manner.order != Order::weak || selection.match->form->is(isa::Trait::synchronises);
  if (i.mnemonic->is(isa::Trait::branches)) return control_operands(use, selection, op);
  if (i.mnemonic->is(isa::Trait::calls)) return call_operands(use, selection, op);
  if (bound.whole_warp) return warp_operands(use, selection, op);
  lane_operands(use, selection, bound, op);
}

void FunctionDecoder::lane_operands(Use& use, const Selection& selection, const Bound& bound, Op& op) {
  std::vector<Operand> destinations, sources;
  std::vector<Extension> extensions;
  for (const Placed& p : selection.operands) {
    const bool is_destination = p.pattern->row->destination;
    std::vector<Operand>& list = is_destination ? destinations : sources;
    if (list.size() == (is_destination ? bound.destinations : bound.sources)) continue;  // a cache policy, say
    const Cell cell = bound.cells[is_destination ? list.size() : bound.destinations + list.size()];
    if (is_destination) {
      list.push_back(destination(use, p.operand, cell.bytes, cell.sign, &extensions));
    } else {
      list.push_back(p.operand ? source(use, *p.operand, p.pattern->type, cell.bytes) : constants_.row(0, cell.bytes));
    }
  }
  // What the modifiers leave out is zero to the body: setp without .and has no c.
  while (sources.size() < bound.sources) {
    sources.push_back(constants_.row(0, bound.cells[bound.destinations + sources.size()].bytes));
  }
  while (destinations.size() < bound.destinations) {
    destinations.push_back(destination(use, nullptr, bound.cells[destinations.size()].bytes, false, nullptr));
  }
  emit(use, op, destinations, sources);
  for (const Extension& e : extensions) emit(use, {.run = resized(e.to.cell, e.from.cell, e.sign)}, {e.to}, {e.from});
}

// Destinations, then sources, vectors spread out; an address is its base, with its space and displacement.
void FunctionDecoder::warp_operands(Use& use, const Selection& selection, Op& op) {
  std::vector<Operand> destinations, sources;
  for (const Placed& p : selection.operands) {
    const bool is_destination = p.pattern->row->destination;
    const std::uint8_t cell = p.pattern->type == isa::Type::none ? 4 : cell_of(p.pattern->type);
    if (p.pattern->kind == isa::OperandKind::address && p.operand) {
      sources.push_back(address(use, *p.operand, p.pattern->space));
      continue;
    }
    std::vector<Operand>& list = is_destination ? destinations : sources;
    const std::size_t first = list.size();
    auto one = [&](const ir::Operand* o) {
      if (is_destination) {
        list.push_back(destination(use, o, cell, false, nullptr));
      } else if (!o) {
        list.push_back(constants_.row(0, cell));
        list.back().absent = true;
      } else {
        list.push_back(source(use, *o, p.pattern->type, p.pattern->wider || p.pattern->row->pack ? 0xff : cell));
      }
    };
    if (p.operand && p.operand->kind == ir::Operand::Kind::vector) {
      for (const ir::Operand& child : f_.children(*p.operand)) one(&child);
    } else if (p.operand && (p.pattern->length > 1 || p.pattern->row->pack) &&
               p.operand->kind != ir::Operand::Kind::sink) {
      const bool is_register = p.operand->kind == ir::Operand::Kind::reg;
      const std::uint8_t count = is_register ? f_.registers[p.operand->id].vector : 4;
      for (std::uint8_t c = 0; c < count; ++c) {
        ir::Operand component = *p.operand;
        component.component = c;
        one(&component);
      }
    } else {
      one(p.operand);
    }
    list[first].count = static_cast<std::uint8_t>(list.size() - first);
  }
  emit(use, op, destinations, sources);
}

const ir::Operand* FunctionDecoder::find_operand(const Selection& selection, isa::OperandKind kind) const {
  for (const Placed& p : selection.operands) {
    if (p.pattern->kind == kind) return p.operand;
  }
  return nullptr;
}

void FunctionDecoder::control_operands(Use& use, const Selection& selection, Op& op) {
  const auto at = [&] { return static_cast<std::uint32_t>(program_.ops.size()); };
  if (const ir::Operand* target = find_operand(selection, isa::OperandKind::label)) {
    jumps_.push_back({at(), Name::from_id(target->id), use.block, use.place, -1});
    emit(use, op, {}, {});
    return;
  }
  // brx.idx index, tlist: the table is a label in front of a .branchtargets directive.
  const Name name = Name::from_id(find_operand(selection, isa::OperandKind::prototype)->id);
  std::uint32_t block = use.block;
  while (block && !tables_.contains(key(block, name))) block = blocks_.parents[block];
  const auto table = tables_.find(key(block, name));
  if (table == tables_.end()) return refuse(use.place, cat("`", name.view(), "` is no table of .branchtargets"));
  const Operand index = source(use, *selection.operands[0].operand, isa::Type::u32, 4);
  op.target = static_cast<std::uint32_t>(program_.tables.size());
  std::vector<std::uint32_t>& targets = program_.tables.emplace_back();
  for (const Name target : table->second->targets) {
    jumps_.push_back({at(), target, block, use.place, static_cast<std::int32_t>(targets.size())});
    targets.push_back(0);
  }
  emit(use, op, {}, {index});
}

std::vector<Passed> FunctionDecoder::passed(Use& use, const ir::Operand* list) {
  std::vector<Passed> out;
  if (!list || list->kind != ir::Operand::Kind::list) return out;
  for (const ir::Operand& o : f_.children(*list)) {
    if (o.kind == ir::Operand::Kind::reg) {
      pass_register(o.id, o.component, out);
    } else if (o.kind == ir::Operand::Kind::symbol) {
      const Resolved r = resolve(Name::from_id(o.id), use.block);
      if (r.kind != Resolved::Kind::local)
        refuse(use.place, cat("`", Name::from_id(o.id).view(), "` cannot be passed to a function"));
      out.push_back({false, {}, static_cast<std::uint32_t>(r.value), 0xffffffff});
    } else if (o.kind == ir::Operand::Kind::sink) {
      out.push_back({true, scratch(use, 8), 0, 8});
    } else {
      out.push_back({true, constants_.row(o.bits, 8), 0, 8});
    }
  }
  return out;
}

void FunctionDecoder::call_operands(Use& use, const Selection& selection, Op& op) {
  CallPlan& plan = program_.calls.emplace_back();
  const ir::Operand* callee = find_operand(selection, isa::OperandKind::function);
  bool results = true;  // lists before the function
  for (const Placed& p : selection.operands) {
    if (p.operand == callee) results = false;
    if (p.pattern->kind == isa::OperandKind::arguments)
      (results ? plan.results : plan.arguments) = passed(use, p.operand);
  }
  op.call = &plan;
  op.uses = Uses::calls;
  std::vector<Operand> sources;
  if (callee->kind == ir::Operand::Kind::reg) {
    plan.pointer = in_register(*callee);
    sources.push_back(plan.pointer);
  } else {
    const Resolved r = resolve(Name::from_id(callee->id), use.block);
    if (r.kind == Resolved::Kind::function) {
      plan.callee = &program_.functions[r.value - function_window];
    } else {
      plan.missing = Name::from_id(callee->id);
      plan.system = system_call(plan.missing.view());
      program_.ordered |= plan.system && acts_in_order(plan.missing.view());
    }
  }
  for (const Passed& p : plan.arguments) {
    if (p.in_register) sources.push_back(p.row);
  }
  emit(use, op, {}, sources);
}

// ---- operands

Operand FunctionDecoder::in_register(const ir::Operand& o) const {
  Operand row = registers_[o.id];
  row.minus = o.minus;
  if (o.component == ir::Operand::part) {
    row.part = Name::from_id(static_cast<std::uint32_t>(o.value));
  } else if (o.component != 0xff) {
    row.offset += static_cast<std::uint32_t>(o.component) * row.cell * lanes;
    row.slot += o.component;
  }
  return row;
}

// Another fragment of the warp may have its turn between two ops of an instruction. So each size of a cell has rows of
// its own: in those, what one lane writes leaves the other lanes' cells as they are.
Operand FunctionDecoder::scratch(Use& use, std::uint8_t cell) {
  const std::uint32_t before = cell == 16 ? 64 + 12 * lanes : cell == 8 ? 64 + 4 * lanes : cell == 4 ? 64 : 0;
  const Operand row{.offset = scratch_base_ + use.scratch * scratch_bytes + before,
                    .slot = code_.slots + use.scratch,
                    .bank = Bank::registers,
                    .cell = cell};
  scratch_rows_ = std::max(scratch_rows_, ++use.scratch);
  return row;
}

Operand FunctionDecoder::resized_to(Use& use, Operand from, std::uint8_t cell) {
  if (from.cell == cell) return from;
  const Operand to = scratch(use, cell);
  emit(use, {.run = resized(cell, from.cell, false)}, {to}, {from});
  return to;
}

// `cell` 0xff: as wide as the register.
Operand FunctionDecoder::source(Use& use, const ir::Operand& o, isa::Type type, std::uint8_t cell) {
  using Kind = ir::Operand::Kind;
  const std::uint8_t wanted = cell != 0xff ? cell : type == isa::Type::none ? 4 : cell_of(type);
  switch (o.kind) {
    case Kind::reg: {
      Operand row = in_register(o);
      row.flip = o.negated;
      return cell == 0xff ? row : resized_to(use, row, cell);
    }
    case Kind::special: {
      std::string name(Name::from_id(o.id).view());
      if (o.component != 0xff) name += cat(".", "xyzw"[o.component & 3]);
      return special(use, name, wanted);
    }
    case Kind::integer:
    case Kind::f32:
    case Kind::f64: return constants_.row(bits_of(o, type), wanted);
    case Kind::symbol: return symbol(use, Name::from_id(o.id), o.value, wanted);
    case Kind::sum: {  // r+4: the assembler adds
      const Operand from = source(use, f_.children(o)[0], type, wanted), sum = scratch(use, wanted);
      emit(use, {.run = wanted == 8 ? &add_offset : &add_offset_32, .immediate = o.value}, {sum}, {from});
      return sum;
    }
    case Kind::sink: {
      Operand row = constants_.row(0, wanted);
      row.absent = true;
      return row;
    }
    default:
      refuse(use.place,
             cat("`", use.mnemonic, "`: the simulator cannot read the operand `", ir::to_string(f_, o), "`"));
      return constants_.row(0, wanted);
  }
}

Operand FunctionDecoder::destination(Use& use, const ir::Operand* o, std::uint8_t cell, bool sign,
                                     std::vector<Extension>* extensions) {
  if (!o || o->kind != ir::Operand::Kind::reg) {
    Operand row = scratch(use, cell);
    row.slot = 0;
    row.absent = true;
    return row;
  }
  const Operand row = in_register(*o);
  if (row.cell == cell || !extensions) return row;
  const Operand narrow_row = scratch(use, cell);
  extensions->push_back({narrow_row, row, sign});
  return narrow_row;
}

Operand FunctionDecoder::special(Use& use, std::string_view name, std::uint8_t cell) {
  const isa::SpecialRegister* known = isa::special_register(name);
  if (!knows_special(name)) {
    refuse(use.place, cat("the simulator has no value for `", name, "`"));
    return constants_.row(0, cell);
  }
  const std::uint8_t have = known ? cell_of(known->type) : 8;
  std::uint32_t index = 0;
  while (index < program_.specials.size() && program_.specials[index].name != name) ++index;
  if (index == program_.specials.size()) {
    program_.specials.push_back({known ? known->name : "parameters", program_.special_bytes, have});
    program_.special_bytes += have == 0 ? 64 : have * lanes;
  }
  const Operand row{.offset = program_.specials[index].offset, .bank = Bank::special, .cell = have};
  if (is_volatile_special(name)) emit(use, {.run = &refresh_special, .target = index}, {row}, {});
  return resized_to(use, row, cell);
}

// The address of a variable of this call's frame. An entry's frame is at 0.
Operand FunctionDecoder::frame_address(Use& use, std::uint64_t offset, std::uint8_t cell) {
  if (f_.entry) return constants_.row(offset, cell);
  const Operand row = scratch(use, cell);
  emit(use, {.run = cell == 8 ? &frame_address_64 : &frame_address_32, .immediate = static_cast<std::int64_t>(offset)},
       {row}, {});
  return row;
}

// The address of a name as a value, in its own space.
Operand FunctionDecoder::symbol(Use& use, Name name, std::int64_t offset, std::uint8_t cell) {
  if (name.view() == "WARP_SZ") return constants_.row(lanes, cell);
  const Resolved r = resolve(name, use.block);
  const std::uint64_t value = r.value + static_cast<std::uint64_t>(offset);
  switch (r.kind) {
    case Resolved::Kind::address:
      if (!is_shared(r.space)) return constants_.row(value, cell);
      if (offset) program_.shared_sums.insert(constants_.shared_address(value, cell).offset);
      return constants_.shared_address(value, cell);
    case Resolved::Kind::function: return constants_.row(value, cell);
    case Resolved::Kind::local:
      if (f_.entry && r.space == isa::Space::local && !offset) return constants_.local_address(value, cell);
      return frame_address(use, value | (r.space == isa::Space::param ? local_window : 0), cell);
    case Resolved::Kind::parameter: {
      const Operand row = scratch(use, 8);
      const Operand base = special(use, "parameters", 8);
      emit(use, {.run = &add_offset, .immediate = static_cast<std::int64_t>(value)}, {row}, {base});
      return resized_to(use, row, cell);
    }
    case Resolved::Kind::none: break;
  }
  refuse(use.place,
         cat("`", name.view(), "` is neither a variable nor a function that the simulator has; kernels that ",
             "launch kernels are not simulated"));
  return constants_.row(0, cell);
}

// a[r+4]: the assembler takes the sum as an unsigned number of 32 bits and counts elements.
Operand FunctionDecoder::element(Use& use, const ir::Operand& o, isa::Space space) {
  const auto parts = f_.children(o);
  ir::Operand base;
  base.kind = ir::Operand::Kind::address;
  base.id = o.id;
  base.child_count = 1;
  const Operand from = address(use, base, space);
  const Operand index = source(use, parts[1], isa::Type::none, 0xff);
  Operand sum = scratch(use, 8);
  sum.space = from.space, sum.displacement = from.displacement;
  const Resolved array = resolve(Name::from_id(parts[0].id), use.block);
  emit(use,
       {.run = index.cell == 8 ? &index_address_64 : &index_address_32, .target = array.element, .immediate = o.value},
       {sum}, {from, index});
  return sum;
}

Operand FunctionDecoder::address(Use& use, const ir::Operand& o, isa::Space space) {
  if (o.kind == ir::Operand::Kind::element) return element(use, o, space);
  auto in = [](isa::Space space, std::int64_t displacement, Operand row) {
    row.space = space, row.displacement = displacement;
    return row;
  };
  if (o.child_count == 0) return in(space, o.value, constants_.row(0, 8));
  const ir::Operand& base = f_.children(o)[0];
  if (base.kind == ir::Operand::Kind::integer) return in(space, o.value, constants_.row(base.bits, 8));
  if (base.kind != ir::Operand::Kind::symbol) {
    // An address of a parameter that was taken is generic: it may be of the entry's block or of a frame.
    if (space == isa::Space::param || space == isa::Space::param_entry || space == isa::Space::param_func) {
      space = isa::Space::generic;
    }
    return in(space, o.value, source(use, base, isa::Type::none, 0xff));
  }
  const Resolved r = resolve(Name::from_id(base.id), use.block);
  const std::int64_t displacement = o.value + base.value;
  switch (r.kind) {
    case Resolved::Kind::local:
      return in(isa::Space::local, displacement,
                f_.entry && r.space == isa::Space::local ? constants_.local_address(r.value, 8)
                                                         : frame_address(use, r.value, 8));
    case Resolved::Kind::parameter:
      return in(isa::Space::param, displacement + static_cast<std::int64_t>(r.value), special(use, "parameters", 8));
    default:
      if (is_shared(r.space) && space == isa::Space::generic) space = r.space;
      return in(space, displacement, symbol(use, Name::from_id(base.id), 0, 8));
  }
}

}  // namespace ptx::sim
