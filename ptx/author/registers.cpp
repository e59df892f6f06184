// Registers and parameters: names by the prefixes of 0.1.1, declarations, special registers.
#include <algorithm>
#include <charconv>

#include "ptx/author/builder.h"
#include "ptx/author/detail/names.h"
#include "ptx/author/detail/state.h"
#include "ptx/base/check.h"
#include "ptx/base/text.h"
#include "ptx/ir/lower.h"
#include "ptx/isa/half.h"

namespace ptx::author {
namespace {

// Prefixes of scalar() and array(), and of alloc(); what counts the arrays of the first.
struct Names {
  Name plain, alloc, arrays;
};

Names names_of(isa::Type type) {
  static const auto table = [] {
    std::array<Names, std::size(isa::type_table)> made;
    std::size_t next = 1;
#define TYPE(name, bits, kind, declarable, prefix, other) \
  made[next++] = {Name(prefix), Name(other), Name(prefix "_arr")};
#include "ptx/isa/types.def"
#undef TYPE
    for (std::size_t i = 1; i < made.size(); ++i) {
      if (!made[i].plain.empty()) continue;
      const auto like = isa::type_named(cat('b', std::max<int>(8, isa::type_table[i].bits)));
      made[i] = made[static_cast<std::size_t>(like.value_or(isa::Type::b8))];
    }
    return made;
  }();
  return table[static_cast<std::size_t>(type)];
}

// "%r12" -> "%r", 12; anything else is a base alone.
std::pair<Name, std::int32_t> split_name(std::string_view text) {
  std::size_t digits = text.size();
  while (digits > 1 && text[digits - 1] >= '0' && text[digits - 1] <= '9') --digits;
  const std::string_view number = text.substr(digits);
  if (number.empty() || number.size() > 8 || (number.size() > 1 && number[0] == '0')) return {Name(text), -1};
  std::int32_t index = 0;
  std::from_chars(number.data(), number.data() + number.size(), index);
  return {Name(text.substr(0, digits)), index};
}

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool overlaps(const Builder::State::Block& block, Name base, std::int64_t first, std::int64_t count) {
  const auto found = block.taken.find(base);
  if (found == block.taken.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(),
                     [&](const auto& r) { return first < r.first + r.count && r.first < first + count; });
}

bool is_taken(const Builder::State& s, Name base, std::int64_t first, std::int64_t count) {
  return overlaps(s.blocks.back(), base, first, count);
}

// The next number of a prefix that no register named by the author has.
std::uint32_t next_number(Builder::State& s, Builder::State::Prefix& of, Name prefix) {
  for (const auto& block : s.blocks) {
    while (of.named && overlaps(block, prefix, of.next, 1)) ++of.next;
  }
  return of.next++;
}

// Whether an unnamed register has this name, or may get it.
bool is_counted(const Builder::State& s, Name base, std::int32_t index) {
  const auto found = s.counters.find(base);
  const auto number = static_cast<std::uint32_t>(index);
  return found != s.counters.end() && index >= 0 && number < found->second.next &&
         !found->second.promised.contains(number);
}

// .s32 and .u32 by their width alone.
isa::Type bits_of(isa::Type type) {
  const isa::TypeInfo& info = isa::info(type);
  if (info.kind != isa::TypeKind::signed_ && info.kind != isa::TypeKind::unsigned_) return type;
  return isa::type_named(cat('b', info.bits)).value_or(type);
}

ir::RegisterId add_register(Builder& b, isa::Type type, Name base, std::int32_t index) {
  Builder::State& s = b.state();
  const auto id = static_cast<ir::RegisterId>(s.function.registers.size());
  make_room(s.function.registers), make_room(s.product_of), make_room(s.hoisted);
  const isa::Type declared = declared_type(type);
  s.function.registers.push_back({b.options().bits ? bits_of(declared) : declared, 1, base, index});
  s.product_of.push_back(none);
  return id;
}

// Inside a block, a register of the author's name hides one of that name outside: emit() refuses to mention that one
// there.
void hide(Builder::State& s, Name base, std::int64_t first, std::int64_t count) {
  if (!s.inside_scope()) return;
  for (ir::RegisterId id = 0; id < s.function.registers.size(); ++id) {
    const ir::Register& r = s.function.registers[id];
    if (r.base == base && r.index >= first && r.index < first + count) s.blocks.back().hidden.insert(id);
  }
}

void place_declaration(Builder& b, ir::RegisterDeclaration declared) {
  Builder::State& s = b.state();
  s.statement(ir::Statement::Kind::registers, static_cast<std::uint32_t>(s.function.declarations.size()), b.place());
  s.function.declarations.push_back(declared);
  s.blocks.back().own.push_back(declared);
}

void add_declaration(Builder& b, ir::RegisterDeclaration declared) {
  if (b.state().inside_scope() || b.options().as_written) return place_declaration(b, declared);
  b.state().hoisted.push_back(declared);
}

// A number as the bits of a type that has no literals; in each half of a packed one.
std::uint64_t constant_bits(isa::Type type, const Operand& real) {
  using enum isa::Type;
  const auto number = std::bit_cast<double>(real.ir.bits);
  if (type == f32x2) return std::uint64_t{std::bit_cast<std::uint32_t>(static_cast<float>(number))} * 0x1'0000'0001;
  const arch::Format* format = isa::half_format(type);
  PTX_CHECK(format, "f32x2 and half precision are the types without literals");
  const std::uint64_t bits = arch::narrow(*format, number, arch::Rounding::rn, false);
  return type == f16 || type == bf16 ? bits : bits * 0x1'0001;
}

void check_type(const Builder& b, isa::Type type) {
  if (type == isa::Type::none) b.refuse(Code::bad_argument, "a register needs a type");
}

void check_vector(const Builder& b, std::uint8_t length, std::string_view name) {
  if (length != 2 && length != 4) b.refuse(Code::bad_argument, "a vector register must have 2 or 4 elements");
  if (name.empty()) b.refuse(Code::bad_argument, "a vector register needs a name");
}

}  // namespace

Reg Builder::scalar(isa::Type type, std::string_view name) {
  State& s = *state_;
  check_type(*this, type);
  if (!name.empty()) {
    check_name(*this, "a register", name);
    const auto [base, index] = split_name(name);
    check_no_parameter(*this, "register", Name(name));
    const bool counted = is_counted(s, base, index);
    if (is_taken(s, base, index, 1) || (counted && !options_.as_written))
      refuse(Code::duplicate_name, cat("register `", name, "` is declared already"));
    s.blocks.back().taken[base].push_back({index, 1});
    s.counters[base].named = true;
    s.counters[base].promised.erase(static_cast<std::uint32_t>(index));
    hide(s, base, index, 1);
    const ir::RegisterId id = add_register(*this, type, base, index);
    add_declaration(*this, {id, 1, false});
    return {this, id, type};
  }
  const Name prefix = names_of(type).plain;
  auto*& counter = s.plain[static_cast<std::size_t>(type)];
  if (!counter) counter = &s.counters[prefix];
  const ir::RegisterId id =
      add_register(*this, type, prefix, static_cast<std::int32_t>(next_number(s, *counter, prefix)));
  if (type == isa::Type::pred) {
    s.pool.push_back(id);
    s.pool_at = s.hoisted.size();
  } else {
    add_declaration(*this, {id, 1, false});
  }
  return {this, id, type};
}

Reg Builder::vector_register(isa::Type type, std::uint8_t length, std::string_view name) {
  check_vector(*this, length, name);
  const Reg made = scalar(type, name);
  state_->function.registers[made.id].vector = length;
  return made;
}

std::vector<Reg> Builder::scalars(isa::Type type, std::span<const std::string> names, std::uint8_t length) {
  State& s = *state_;
  std::vector<Reg> made;
  for (const std::string& name : names) {
    if (name.empty()) refuse(Code::bad_argument, "registers of one declaration need names");
    made.push_back(length == 1 ? scalar(type, std::string_view(name)) : vector_register(type, length, name));
  }
  // The declarations that scalar() wrote become one.
  const bool placed = s.inside_scope() || options_.as_written;
  for (std::size_t i = 1; i < made.size(); ++i) {
    placed ? s.function.declarations.pop_back() : s.hoisted.pop_back();
    if (placed) s.function.body.pop_back(), s.blocks.back().own.pop_back();
  }
  if (made.empty()) return made;
  (placed ? s.function.declarations : s.hoisted).back().count = static_cast<std::uint32_t>(made.size());
  if (placed) s.blocks.back().own.back().count = static_cast<std::uint32_t>(made.size());
  return made;
}

Reg Builder::scalar(isa::Type type, const Operand& init, std::string_view name) {
  const Reg made = scalar(type, name);
  Operand value = init;
  const bool half = type == isa::Type::f16 || type == isa::Type::bf16;
  if (half && init.literal != Operand::Literal::none) {
    value = Operand(constant_bits(type, real_of(init)));
  } else if (has_no_literals(type) && init.literal == Operand::Literal::real) {
    value = Operand(constant_bits(type, init));  // an integer is the bits of both halves
  } else if (type == isa::Type::tf32 && init.literal == Operand::Literal::integer) {
    value = real_of(init);
  }
  emit(isa::resolve(cat("mov.", isa::info(move_type(type)).name)), std::array{Operand(made), value});
  return made;
}

RegArray Builder::array(isa::Type type, std::int64_t registers, std::string_view name, std::uint8_t length) {
  State& s = *state_;
  check_type(*this, type);
  if (length != 1) check_vector(*this, length, name);
  if (registers < 1 || registers > 65536)
    refuse(Code::bad_argument, cat("an array of ", registers, " registers; legal: 1 to 65536"));
  const auto count = static_cast<std::uint32_t>(registers);
  Name base;
  if (!name.empty()) {
    check_name(*this, "registers", name);
    base = Name(name);
    if (is_taken(s, base, 0, count) || (s.counters[base].next > 0 && !options_.as_written))
      refuse(Code::duplicate_name,
             cat("registers `", name, "0` ... `", name, count - 1, "` are declared already, in part"));
    if (!s.inside_scope()) s.counters[base].next = count;
    hide(s, base, 0, count);
    s.blocks.back().taken[base].push_back({0, count});
    s.counters[base].named = true;
  } else {
    const Name prefix = names_of(type).plain;
    const bool plain = s.counters[prefix].next == 0 && type != isa::Type::pred && !is_taken(s, prefix, 0, count);
    base = prefix;
    if (plain) {
      s.counters[prefix].next = count;
    } else {
      if (type != isa::Type::pred) ++s.counters[prefix].next;
      base = Name(cat(prefix.view(), "arr", s.counters[names_of(type).arrays].next++, '_'));
    }
  }
  const auto first = static_cast<ir::RegisterId>(s.function.registers.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const ir::RegisterId id = add_register(*this, type, base, static_cast<std::int32_t>(i));
    s.function.registers[id].vector = length;
  }
  add_declaration(*this, {first, count, true});
  return {this, first, count, type};
}

Reg Builder::alloc(isa::Type type) {
  State& s = *state_;
  check_type(*this, type);
  const Name prefix = names_of(type).alloc;
  const ir::RegisterId id =
      add_register(*this, type, prefix, static_cast<std::int32_t>(next_number(s, s.counters[prefix], prefix)));
  add_declaration(*this, {id, 1, false});
  return {this, id, type};
}

RegArray Builder::alloc_array(isa::Type type, std::int64_t count) {
  check_type(*this, type);
  const std::string_view prefix = names_of(type).alloc.view();
  return array(type, count, cat(prefix, "arr", state_->counters[Name(cat(prefix, "_arr"))].next++, '_'));
}

Reg Builder::from(const Operand& value, isa::Type type) { return scalar(type, value); }

const Reg Builder::special(std::string_view name, isa::Type type) {
  const auto* known = isa::special_register(name);
  if (!known) refuse(Code::undefined_name, isa::explain_special(name));
  if (type == isa::Type::none) type = known->type;
  return {this, Name(name).id(), type, true};
}

// The assembler refuses a name that a parameter has, but in a block. Text as it was written is not judged here.
void check_no_parameter(Builder& b, std::string_view what, Name name) {
  const Builder::State& s = b.state();
  const auto& parameters = s.function.parameters;
  if (s.inside_scope() || b.options().as_written ||
      std::none_of(parameters.begin(), parameters.end(), [&](auto& p) { return p.name == name; }))
    return;
  b.refuse(Code::duplicate_name, cat(what, " `", name.view(), "` has the name of a parameter: another one is needed"));
}

std::uint32_t Builder::register_number(std::string_view prefix) {
  check_name(*this, "a register", prefix);
  const Name base(prefix);
  State::Prefix& counter = state_->counters[base];
  const std::uint32_t number = next_number(*state_, counter, base);
  counter.promised.insert(number);
  return number;
}

bool declare_as_text(Builder& b, ir::Function& text) {
  using Kind = ir::Statement::Kind;
  Builder::State& s = b.state();
  for (const ir::Register& r : text.registers)
    if (is_taken(s, r.base, r.index, 1) || is_counted(s, r.base, r.index)) return false;
  for (const ir::Statement& each : text.body)
    if (each.kind != Kind::registers && (each.kind != Kind::variable || !text.variables[each.index].linking.empty()))
      return false;
  for (const ir::Statement& each : text.body) {
    if (each.kind == Kind::variable) {
      s.declare_here(std::move(text.variables[each.index]), b.place());
      continue;
    }
    const ir::RegisterDeclaration declared = text.declarations[each.index];
    const auto first = static_cast<ir::RegisterId>(s.function.registers.size());
    for (std::uint32_t i = 0; i < declared.count; ++i) {
      const ir::Register& r = text.registers[declared.first + i];
      hide(s, r.base, r.index, 1);
      s.function.registers[add_register(b, r.type, r.base, r.index)] = r;
      s.blocks.back().taken[r.base].push_back({r.index, 1});
      s.counters[r.base].named = true;
      s.counters[r.base].promised.erase(static_cast<std::uint32_t>(r.index));
    }
    place_declaration(b, {first, declared.count, declared.range});
  }
  return !text.body.empty();
}

std::optional<Reg> Builder::named(std::string_view name) const {
  const auto [base, index] = split_name(name);
  const auto& registers = state_->function.registers;
  for (std::size_t id = registers.size(); id-- > 0;) {
    const bool whole = registers[id].index < 0 && registers[id].base.view() == name;  // a parameter, r1 as it stands
    if (whole || (registers[id].base == base && registers[id].index == index))
      return Reg{const_cast<Builder*>(this), static_cast<ir::RegisterId>(id), registers[id].type};
  }
  return {};
}

std::string Builder::name(const Reg& reg) const {
  if (reg.special) return std::string(Name::from_id(reg.id).view());
  const auto& registers = state_->finished ? *state_->names : state_->function.registers;
  return reg.id < registers.size() ? ir::name(registers[reg.id]) : std::string();
}

void assign(const RegArray& array, std::int64_t i, const Reg& value) {
  const Reg target = element(array, i);
  Builder* const builder = array.builder;
  const isa::Type type = array.type;
  if (same(target, value)) return;
  Builder::State& s = builder->state();
  const int bits = isa::info(move_type(type)).bits;
  const Reg source = value;
  const std::size_t before = s.function.body.size();
  const bool defined = before > 0 && s.function.body[before - 1].kind == ir::Statement::Kind::instruction;
  const std::uint32_t definition = defined ? s.function.body[before - 1].index : none;
  if (type == isa::Type::pred) {
    builder->emit("mov.pred", {target, source});
  } else {
    builder->emit(isa::resolve(cat("mov.b", bits)), std::array{Operand(target), Operand(source)});
  }
  // The mov is folded into the instruction just before it, if that one made the value and nothing else uses it.
  if (!defined || value.special) return;
  const ir::Instruction& d = s.function.instructions[definition];
  if (d.guard.reg != ir::no_id || d.count == 0) return;
  const ir::Operand& made = s.function.operands[d.first];
  if (made.kind != ir::Operand::Kind::reg || made.id != value.id || made.negated) return;
  const auto& registers = s.function.registers;
  const auto is_float = [](isa::Type t) { return isa::info(t).kind == isa::TypeKind::floating; };
  const isa::Type from = registers[value.id].type, to = registers[target.id].type;
  if (isa::info(from).bits != isa::info(to).bits || (is_float(from) != is_float(to) && from != to)) return;
  s.folds.push_back({static_cast<std::uint32_t>(s.function.instructions.size() - 1), definition, value.id, target.id});
}

// Parameters.

void Builder::add_pointer(std::string_view name) {
  ir::Variable v;
  v.space = isa::Space::param;
  v.type = isa::Type::u64;
  v.name = Name(name);
  add_parameter(std::move(v));
}

ir::Variable raw_variable(const Builder& builder, std::string_view type, std::string_view name) {
  ir::Variable v;
  v.space = isa::Space::param;
  v.name = Name(name);
  if (ir::is_opaque(type)) {
    v.opaque = type;
    return v;
  }
  const auto bad = [&] {
    builder.refuse(
        Code::bad_argument,
        cat("parameter `", name, "`: `", type,
            "` is not "
            "base[.v2|.v4][.ptr][.global|shared|local|const|texref|samplerref|surfref][.alignN][.palignN][.arrayN]"));
  };
  const auto number = [&](std::string_view digits) {
    std::uint32_t n = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), n).ptr != digits.data() + digits.size() || n == 0)
      bad();
    return n;
  };
  std::vector<std::string_view> parts = parts_of(type);
  if (parts.front() == "reg") v.space = isa::Space::reg, parts.erase(parts.begin());
  const auto base = parts.empty() ? std::nullopt : isa::type_named(parts.front());
  if (!base) bad();
  v.type = *base;
  std::uint32_t pointer_align = 0;
  bool pointer = false;
  std::string space;
  for (const std::string_view part : std::span(parts).subspan(1)) {
    if (part == "ptr") {
      pointer = true;
    } else if (part == "v2" || part == "v4") {
      v.vector = static_cast<std::uint8_t>(part[1] - '0');
    } else if (ir::is_pointed(part)) {
      space = part;
    } else if (part.starts_with("align")) {
      v.alignment = number(part.substr(5));
    } else if (part.starts_with("palign")) {
      pointer_align = number(part.substr(6));
    } else if (part.starts_with("array")) {
      v.dims.push_back(part.size() == 5 ? -1 : std::int64_t{number(part.substr(5))});
    } else {
      bad();
    }
  }
  if (pointer) {
    v.pointer = ".ptr";
    if (!space.empty()) v.pointer += cat(" .", space);
    if (pointer_align) v.pointer += cat(" .align ", pointer_align);
  }
  return v;
}

void Builder::add_raw(std::string_view type, std::string_view name) { add_parameter(raw_variable(*this, type, name)); }

void Builder::add_parameter(ir::Variable v) {
  for (const ir::Variable& p : state_->function.parameters) {
    if (p.name == v.name) refuse(Code::duplicate_name, cat("two parameters are called `", v.name.view(), '`'));
  }
  check_name(*this, "a parameter", v.name.view());
  state_->function.parameters.push_back(std::move(v));
}

namespace {

const ir::Variable& parameter(const Builder& b, const ir::Function& f, std::string_view name) {
  const Name wanted(name);
  std::string list;
  for (const ir::Variable& p : f.parameters) {
    if (p.name == wanted) return p;
    list += cat(list.empty() ? "" : ", ", p.name.view());
  }
  b.refuse(Code::wrong_parameter,
           cat("the kernel has no parameter `", name, "`; it has ", list.empty() ? "none" : list));
}

}  // namespace

Reg Builder::param(isa::Type type, std::string_view name, std::optional<Reg> into) {
  const ir::Variable& declared = parameter(*this, state_->function, name);
  const bool array = !declared.dims.empty();
  if (!array && isa::info(type).bits > 8 * ir::bytes(declared))
    refuse(Code::bad_argument, cat("the parameter `", name, "` is of .", isa::info(declared.type).name,
                                   ", which has fewer bits than .", isa::info(type).name));
  const Reg made = into ? *into : scalar(type);
  if (array) {
    emit(isa::resolve(cat("mov.", isa::info(type).name)), std::array{Operand(made), Operand(name)});
  } else {
    emit(isa::resolve(cat("ld.param.", isa::info(move_type(type)).name)),
         std::array{Operand(made), Operand(address(Operand(name)))});
  }
  return made;
}

std::vector<Reg> Builder::global_pointers(std::span<const std::string> names) {
  std::vector<Reg> made;
  for (const std::string& name : names) parameter(*this, state_->function, name);
  for (const std::string& name : names) {
    const Reg pointer = scalar(isa::Type::b64);
    emit("ld.param.u64", {pointer, address(Operand(name))});
    emit("cvta.to.global.u64", {pointer, pointer});
    made.push_back(pointer);
  }
  return made;
}

Reg Builder::tensor_map(std::string_view tensor) {
  State& s = *state_;
  for (std::size_t i = 0; i < s.tensor_maps.size(); ++i) {
    if (s.tensor_maps[i] == tensor) return s.tensor_map_registers[i];
  }
  if (s.of) refuse(Code::bad_argument, "a tensor map is a parameter of the kernel: pass its address to the function");
  const std::string name = cat(tensor, "_tma_desc");
  ir::Variable v;
  v.space = isa::Space::param;
  v.alignment = 64;
  v.type = isa::Type::b8;
  v.name = Name(name);
  v.dims = {128};
  add_parameter(std::move(v));
  s.tensor_maps.emplace_back(tensor);

  const bool may_be_skipped = !s.regions.empty() || s.branched;
  const std::size_t blocks_open = s.blocks.size();
  const std::size_t begin = s.function.body.size();
  const std::size_t declared = s.function.declarations.size();
  const Reg made = scalar(isa::Type::u64);
  if (blocks_open > 1) {  // a scope: the register outlives it
    s.hoisted.push_back(s.function.declarations.back());
    s.function.declarations.resize(declared);
    s.blocks.back().own.pop_back();
    s.function.body.resize(begin);
  }
  emit("mov.b64", {made, Operand(name)});
  emit("cvta.param.u64", {made, made});
  if (may_be_skipped) {
    s.prologue.insert(s.prologue.end(), s.function.body.begin() + static_cast<std::ptrdiff_t>(begin),
                      s.function.body.end());
    s.function.body.resize(begin);
  }
  s.tensor_map_registers.push_back(made);
  return made;
}

}  // namespace ptx::author
