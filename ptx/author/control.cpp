// Control flow: labels and branches.
#include "ptx/author/control.h"

#include <utility>

#include "ptx/author/detail/names.h"
#include "ptx/author/detail/state.h"
#include "ptx/author/expression.h"
#include "ptx/base/text.h"

namespace ptx::author {

void branch(Builder& b, Name label, ir::Guard guard, bool uniform) {
  static const auto *bra = isa::resolve("bra"), *uni = isa::resolve("bra.uni");
  b.emit(uniform ? uni : bra, std::array{symbol(label)}, guard);
}

void place_label(Builder& b, Name label) {
  Builder::State& s = b.state();
  s.blocks.back().labels.insert(label);
  s.statement(ir::Statement::Kind::label, label.id(), b.place());
}

namespace {

using State = Builder::State;
using Open = State::Open;
using isa::Type;

// The innermost open region, which has to be of this kind; it stays open.
State::Region& innermost(Builder& b, Open what, const char* name) {
  State& s = b.state();
  if (s.regions.empty() || s.regions.back().what != what)
    b.refuse(Code::open_block, cat("the innermost open block is not ", name));
  return s.regions.back();
}

constexpr std::uint32_t most_targets = 1 << 16;

[[noreturn]] void refuse_count(Builder& b, std::uint32_t count) {
  b.refuse(Code::index_range, cat("a switch has up to ", most_targets, " targets, not ", count));
}

void require_cases_alone(Builder& b, const State::OpenSwitch& made) {
  if (b.state().function.instructions.size() != made.instructions)
    b.refuse(Code::bad_argument, "an instruction of a switch must be in one of its cases");
}

void begin_if(Builder& b, ir::Guard guard) {
  const Name otherwise(b.fresh_label("else")), end(b.fresh_label("endif"));
  guard.negated = !guard.negated;
  branch(b, otherwise, guard);
  State::Region& region = b.state().open(Open::if_);
  region.a = otherwise;
  region.b = end;
}

}  // namespace

void begin_if(Builder& b, const Reg& predicate) { begin_if(b, b.guard(predicate)); }
void begin_if(Builder& b, const Not& predicate) { begin_if(b, b.guard(predicate)); }

void end_if(Builder& b) {
  State& s = b.state();
  const State::Region region = innermost(b, Open::if_, "an if");
  branch(b, region.b);
  s.regions.pop_back();
  place_label(b, region.a);
  place_label(b, region.b);
  s.after_if = s.function.body.size();
  s.endif = region.b;
}

// The label behind the if block moves behind the else block.
void begin_else(Builder& b) {
  State& s = b.state();
  if (s.after_if == 0 || s.after_if != s.function.body.size())
    b.refuse(Code::else_without_if, "else_() must follow an if_() block directly");
  s.function.body.pop_back();
  s.after_if = 0;
  s.open(Open::else_).b = s.endif;
}

void end_else(Builder& b) {
  State& s = b.state();
  const Name end = innermost(b, Open::else_, "an else").b;
  s.regions.pop_back();
  place_label(b, end);
}

void begin_when(Builder& b, ir::Guard guard, bool uniform) {
  const Name end(b.fresh_label("end"));
  guard.negated = !guard.negated;
  branch(b, end, guard, uniform);
  b.state().open(Open::when).a = end;
}

void end_when(Builder& b) {
  State& s = b.state();
  const Name end = innermost(b, Open::when, "a when").a;
  s.regions.pop_back();
  place_label(b, end);
  s.after_when = s.function.body.size();
  s.endif = end;
}

// The label behind the when block moves behind the branch that the block now ends in.
void begin_otherwise(Builder& b, bool uniform) {
  State& s = b.state();
  const bool follows = s.after_when != 0 && s.after_when == s.function.body.size();
  if (!follows) b.refuse(Code::else_without_if, "otherwise() must follow a when() block directly");
  const Name otherwise = s.endif, end(b.fresh_label("end"));
  s.function.body.pop_back();
  s.after_when = 0;
  branch(b, end, {}, uniform);
  place_label(b, otherwise);
  s.open(Open::otherwise).a = end;
}

void end_otherwise(Builder& b) {
  State& s = b.state();
  const Name end = innermost(b, Open::otherwise, "an otherwise").a;
  s.regions.pop_back();
  place_label(b, end);
}

void loop_while(Builder& b, ir::Guard predicate, bool uniform) {
  State& s = b.state();
  if (s.loops.empty()) b.refuse(Code::open_block, "no loop is open here");
  s.loops.back().guard = predicate;
  s.loops.back().uniform = uniform;
}

void begin_loop(Builder& b, std::string_view written, ir::Guard predicate) {
  State& s = b.state();
  const std::string text = b.loop_label(written);
  s.labels.insert(Name(text));
  place_label(b, Name(text));
  s.loops.push_back({std::string(written), text, predicate, predicate.reg == ir::no_id});
  s.open(Open::loop).a = Name(text);
}

void end_loop(Builder& b) {
  State& s = b.state();
  const State::Region region = innermost(b, Open::loop, "a loop");
  branch(b, region.a, s.loops.back().guard, s.loops.back().uniform);
  s.regions.pop_back();
  s.loops.pop_back();
  if (region.b != Name()) place_label(b, region.b);
}

void begin_block(Builder& b, const BlockOptions& options) {
  State& s = b.state();
  if (options.label.empty() && options.late)
    b.refuse(Code::bad_argument, "a block that is entered late has a label, to begin again");
  Name label, first;
  if (options.late) branch(b, first = Name(b.fresh_label("enter")), {}, options.uniform);
  if (!options.label.empty()) {
    label = Name(b.loop_label(options.label));
    s.labels.insert(label);
    place_label(b, label);
  }
  State::Region& region = s.open(Open::block);
  region.a = label;
  region.enter = first;
}

void end_block(Builder& b) {
  const State::Region region = innermost(b, Open::block, "a block");
  if (region.enter != Name()) b.refuse(Code::open_block, "the block is late, and nothing says where it is entered");
  b.state().regions.pop_back();
  if (region.b != Name()) place_label(b, region.b);
}

std::uint32_t open_block(Builder& b) {
  const auto& regions = b.state().regions;
  return regions.empty() ? none : regions.back().id;
}

namespace {

State::Region& opened(Builder& b, std::uint32_t id, std::string_view name) {
  auto& regions = b.state().regions;
  const auto found = std::find_if(regions.begin(), regions.end(), [&](const auto& r) { return r.id == id; });
  if (found == regions.end())
    b.refuse(Code::open_block, cat(name, "() is for a place inside of its block: that is not open here"));
  return *found;
}

}  // namespace

void leave(Builder& b, std::uint32_t block, ir::Guard predicate, bool uniform) {
  State::Region& region = opened(b, block, "leave");
  if (region.what != Open::loop && region.what != Open::block)
    b.refuse(Code::open_block, "loops and blocks can be left, and no others");
  if (region.b == Name()) region.b = Name(b.fresh_label("end"));
  branch(b, region.b, predicate, uniform);
}

void enter(Builder& b, std::uint32_t block) {
  State::Region& region = opened(b, block, "enter");
  if (region.enter == Name()) b.refuse(Code::open_block, "a late block is entered, at one place, and no other is");
  place_label(b, std::exchange(region.enter, Name()));
}

void again(Builder& b, std::uint32_t block, ir::Guard predicate, bool uniform) {
  const State::Region& region = opened(b, block, "again");
  const bool begins = region.what == Open::loop || (region.what == Open::block && region.a != Name());
  if (!begins) b.refuse(Code::open_block, "loops, and blocks with a label, can begin again, and no others");
  branch(b, region.a, predicate, uniform);
}

void begin_switch(Builder& b, const Reg& index, const SwitchOptions& options) {
  State& s = b.state();
  const bool whole = !index.special && integer_bits(index.type) == 32;
  if (!whole || s.function.registers[index.id].type == Type::s32)  // with Options::bits one that is .s32 here is .b32
    b.refuse(Code::bad_operand, cat("a switch takes a .u32 or .b32 register, not ", index.name()));
  if (options.count > most_targets) refuse_count(b, options.count);
  State::OpenSwitch made;
  made.targets.resize(options.count);
  made.end = Name(b.fresh_label("end"));
  if (options.otherwise.reg != ir::no_id) {
    made.otherwise = Name(b.fresh_label("default"));
    branch(b, made.otherwise, options.otherwise);
  }
  const Name label(b.fresh_label("targets"));
  place_label(b, label);
  made.table = s.function.tables.size();
  made.text = s.function.texts.size();
  s.function.tables.push_back(
      {ir::Table::Kind::branches, label.id(), static_cast<std::uint32_t>(s.function.body.size()), {}, {}, {}});
  b.directive(".branchtargets;");
  static const auto *idx = isa::resolve("brx.idx"), *uni = isa::resolve("brx.idx.uni");
  b.emit(options.uniform ? uni : idx, std::array{Operand(index), symbol(label)});
  made.instructions = s.function.instructions.size();
  s.switches.push_back(std::move(made));
  s.open(Open::choose);
}

void end_switch(Builder& b) {
  State& s = b.state();
  innermost(b, Open::choose, "a switch");
  State::OpenSwitch& made = s.switches.back();
  require_cases_alone(b, made);
  const bool needs = made.otherwise != Name() && !made.has_otherwise;
  if (made.targets.empty() || needs)
    b.refuse(Code::bad_argument, needs ? "the switch has no default case" : "the switch has no case");
  Text text;
  text << ".branchtargets ";
  for (Name& target : made.targets) {
    if (target == Name()) target = made.has_otherwise ? made.otherwise : made.end;
    text << (&target == made.targets.data() ? "" : ", ") << target.view();
  }
  text << ';';
  s.function.texts[made.text] = text.view();
  s.function.tables[made.table].targets = std::move(made.targets);
  const Name end = made.end;
  s.switches.pop_back();
  s.regions.pop_back();
  place_label(b, end);
}

void begin_case(Builder& b, std::span<const std::uint32_t> indices, const CaseOptions& options) {
  State& s = b.state();
  innermost(b, Open::choose, "a switch");
  State::OpenSwitch& made = s.switches.back();
  require_cases_alone(b, made);
  if (indices.empty() && !options.otherwise)
    b.refuse(Code::bad_argument, "a case needs an index, or must be the default");
  if (options.otherwise && (made.otherwise == Name() || made.has_otherwise))
    b.refuse(Code::bad_argument, made.has_otherwise ? "the switch has a default case already"
                                                    : "the switch was opened without the predicate of a default case");
  for (const std::uint32_t i : indices) {
    if (i >= most_targets) refuse_count(b, i);
    if (i < made.targets.size() && made.targets[i] != Name())
      b.refuse(Code::bad_argument, cat("the switch has a case ", i, " already"));
  }
  if (made.breaks) {
    const Place here = b.place();
    b.set_place(made.place);
    branch(b, made.end, {}, made.uniform);
    b.set_place(here);
  }
  if (!indices.empty()) {
    const Name label(b.fresh_label("case"));
    place_label(b, label);
    for (const std::uint32_t i : indices) {
      if (i >= made.targets.size()) made.targets.resize(i + 1);
      made.targets[i] = label;
    }
  }
  if (options.otherwise) place_label(b, made.otherwise), made.has_otherwise = true;
  made.breaks = !options.falls;
  made.uniform = options.uniform;
  made.place = b.place();
  s.open(Open::option);
}

void end_case(Builder& b) {
  State& s = b.state();
  innermost(b, Open::option, "a case");
  s.regions.pop_back();
  s.switches.back().instructions = s.function.instructions.size();
}

namespace {

bool is_register(const Operand& o) { return o.is_register() || o.ir.kind == ir::Operand::Kind::special; }

Type range_type(const Operand& start, const Operand& stop, const Operand& step) {
  for (const Operand* o : {&stop, &start, &step}) {
    if (is_register(*o) && integer_bits(o->type) == 64) return o->type == Type::s64 ? Type::s64 : Type::u64;
  }
  if (is_register(stop)) return stop.type == Type::b32 ? Type::u32 : stop.type;
  for (const Operand* o : {&start, &stop, &step}) {
    if (o->is_integer() && (o->ir.wide || o->ir.value > INT32_MAX || o->ir.value < INT32_MIN)) return Type::s64;
  }
  return Type::s32;
}

// A bound in the loop's type: numbers as they are, registers of another width converted once before the loop.
Operand bound(Builder& b, const Operand& o, Type type) {
  if (!is_register(o)) {
    if (o.literal == Operand::Literal::real) {
      Text real;
      real.real(std::bit_cast<double>(o.ir.bits));
      b.refuse(Code::bad_argument,
               cat("range_ takes integers and integer registers, not the real number ", real.view()));
    }
    if (!o.is_integer())
      b.refuse(Code::bad_argument,
               cat("range_ takes integers and integer registers, not `", ir::to_string(b.state().function, o.ir), '`'));
    return o;
  }
  const Operand value = o.ir.kind == ir::Operand::Kind::special ? Operand(b.from(o, o.type)) : o;
  const int have = isa::info(value.type).bits, want = isa::info(type).bits;
  if (isa::info(value.type).kind == isa::TypeKind::floating || value.type == Type::pred)
    b.refuse(Code::bad_argument, cat("range_ takes integers, not ", isa::info(value.type).name));
  if (have == want) return value;
  if (have > want)
    b.refuse(Code::bad_argument,
             cat("a bound of ", isa::info(value.type).name, " for a range_ of ", isa::info(type).name));
  const Reg wide = b.scalar(type);
  Type from = value.type;
  if (isa::info(from).kind == isa::TypeKind::bits) from = from == Type::b16 ? Type::u16 : Type::u32;
  b.emit(isa::resolve(cat("cvt.", isa::info(type).name, '.', isa::info(from).name)), std::array{Operand(wide), value});
  return wide;
}

Reg loop_variable(Builder& b, Type type) {
  State& s = b.state();
  const Name prefix("%ri");
  const auto id = static_cast<ir::RegisterId>(s.function.registers.size());
  s.function.registers.push_back({type, 1, prefix, static_cast<std::int32_t>(s.counters[prefix].next++)});
  s.product_of.push_back(none);
  s.hoisted.push_back({id, 1, false});
  return {&b, id, type};
}

const isa::Mnemonic* typed(const char* opcode, Type type) { return isa::resolve(cat(opcode, isa::info(type).name)); }

}  // namespace

Reg begin_range(Builder& b, const Operand& start, const Operand& stop, const Operand& step, Type type) {
  State& s = b.state();
  if (type == Type::none) type = range_type(start, stop, step);
  const isa::TypeKind kind = isa::info(type).kind;
  if ((kind != isa::TypeKind::unsigned_ && kind != isa::TypeKind::signed_) || isa::info(type).bits < 16)
    b.refuse(Code::bad_argument, cat("the dtype of a range_ must be s16 to u64, not ", isa::info(type).name));
  const bool fixed_step = step.is_integer();
  const bool negative = fixed_step && !step.ir.wide && step.ir.value < 0;
  if (fixed_step && step.ir.value == 0) b.refuse(Code::bad_argument, "the step of a range_ must not be 0");
  if (negative && !is_signed(type))
    b.refuse(Code::bad_argument,
             cat("a range_ of ", isa::info(type).name, " cannot count down; give it a signed dtype"));

  const Operand to = bound(b, stop, type), by = bound(b, step, type), from = bound(b, start, type);
  const Reg variable = loop_variable(b, type);
  b.emit(typed("mov.", type), std::array{Operand(variable), from});
  const Reg done = b.scalar(Type::pred);
  Reg falling;
  if (!fixed_step && is_signed(type)) {
    falling = b.scalar(Type::pred);
    b.emit(typed("setp.lt.", type), std::array{Operand(falling), by, Operand(0)});
  }
  const Name top(b.fresh_label("loop")), end(b.fresh_label("endloop"));
  place_label(b, top);
  b.emit(typed(negative ? "setp.le." : "setp.ge.", type), std::array{Operand(done), Operand(variable), to});
  if (falling.builder)
    b.emit(typed("setp.le.", type), std::array{Operand(done), Operand(variable), to}, b.guard(falling));
  branch(b, end, {done.id, false});
  State::Region& region = s.open(Open::range);
  region.a = top;
  region.b = end;
  region.variable = Operand(variable).ir;
  region.step = by.ir;
  region.fixed_step = fixed_step;
  region.type = type;
  return variable;
}

void end_range(Builder& b) {
  State& s = b.state();
  const State::Region region = innermost(b, Open::range, "a range_");
  const Operand variable(region.variable);
  Operand step(region.step);
  if (region.fixed_step) step.literal = Operand::Literal::integer;
  b.emit(typed("add.", region.type), std::array{variable, variable, step});
  branch(b, region.a);
  s.regions.pop_back();
  place_label(b, region.b);
}

namespace {

// if (rest != 0) { body; if (rest != 1) { body; ... } }
void tail(const Reg& rest, std::uint32_t at, std::uint32_t unroll, const std::function<void()>& body) {
  if (at + 1 >= unroll) return;
  Builder& b = *rest.builder;
  begin_if(b, compare(Compare::ne, rest, at));
  body();
  tail(rest, at + 1, unroll, body);
  end_if(b);
}

}  // namespace

void kloop(Builder& b, const Operand& total, std::uint32_t unroll, const std::function<void()>& body,
           std::string_view label) {
  if (unroll == 0 || (unroll & (unroll - 1)) != 0)
    b.refuse(Code::bad_argument, cat("kloop: unroll = ", unroll, " is not a positive power of two"));
  if (total.is_integer()) {
    for (std::int64_t i = 0; i < total.ir.value; ++i) body();
    return;
  }
  if (!is_register(total) || integer_bits(total.type) == 0)
    b.refuse(Code::bad_operand, "kloop: total is an integer or an integer register");
  const Reg count = staged({&b, total.ir.id, total.type, total.ir.kind == ir::Operand::Kind::special});
  const Reg rest = and_(count, unroll - 1);
  const Reg whole = sub(count, rest);
  begin_if(b, compare(Compare::ge, count, unroll));
  const Reg left = b.from(whole, total.type);
  const Reg more = compare(Compare::ne, left, 0);
  begin_loop(b, label, b.guard(more));
  for (std::uint32_t i = 0; i < unroll; ++i) body();
  assign('-', left, unroll);
  const Type type = total.type == Type::b32 ? Type::u32 : total.type == Type::b64 ? Type::u64 : total.type;
  b.emit(typed("setp.ne.", type), std::array{Operand(more), Operand(left), Operand(0)});
  end_loop(b);
  end_if(b);
  tail(rest, 0, unroll, body);
}

void begin_intrinsic(Builder& b, std::string_view text) {
  b.comment(cat("BEGIN ", text));
  b.state().open(Open::intrinsic).text = std::string(text.substr(0, text.find('(')));
}

void end_intrinsic(Builder& b) {
  State& s = b.state();
  const std::string text = innermost(b, Open::intrinsic, "an intrinsic").text;
  s.regions.pop_back();
  b.comment(cat("END ", text));
}

void label(Builder& b, std::string_view name) {
  b.label(name);
  ++b.state().epoch;
}

void bra(Builder& b, std::string_view label, ir::Guard guard) { branch(b, Name(b.label_name(label)), guard); }

void ret(Builder& b, ir::Guard guard) {
  static const auto* m = isa::resolve("ret");
  b.emit(m, {}, guard);
}

Pipeline pipeline(Builder& b, std::uint32_t stages, std::optional<Reg> cursor, std::optional<Reg> phase) {
  if (stages == 0) b.refuse(Code::bad_argument, "a pipeline has at least one stage");
  Pipeline made;
  made.stages = stages;
  made.cursor = cursor ? *cursor : b.scalar(Type::u32, 0);
  made.phase = phase ? *phase : b.scalar(Type::u32, 0);
  return made;
}

Pipeline::Position advance(const Pipeline& ring) {
  Builder& b = *ring.cursor.builder;
  const Reg& cursor = ring.cursor;
  const Reg& phase = ring.phase;
  const Reg wraps = compare(Compare::eq, cursor, ring.stages);
  const Reg flip = b.scalar(Type::u32);
  b.emit("selp.u32", {flip, 1, 0, wraps});
  assign('^', phase, flip);
  const Reg stage = b.scalar(Type::u32);
  b.emit("selp.u32", {stage, 0, cursor, wraps});
  b.emit("add.s32", {cursor, stage, 1});
  return {stage, phase};
}

Pipeline::Position Pipeline::advance(std::source_location at) const {
  return here(cursor.builder, at), author::advance(*this);
}

}  // namespace ptx::author
