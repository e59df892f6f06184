// Control flow: labels and branches.
#include "ptx/author/control.h"

#include "ptx/author/detail/state.h"
#include "ptx/author/expression.h"
#include "ptx/base/text.h"

namespace ptx::author {
namespace {

using State = Builder::State;
using Open = State::Open;
using isa::Type;

Operand symbol(Name name) {
  Operand o;
  o.ir.kind = ir::Operand::Kind::symbol;
  o.ir.id = name.id();
  return o;
}

void branch(Builder& b, Name label, ir::Guard guard = {}) {
  static const auto* bra = isa::resolve("bra");
  b.emit(bra, std::array{symbol(label)}, guard);
}

void place_label(Builder& b, Name label) {
  State& s = b.state();
  s.blocks.back().labels.insert(label);
  s.statement(ir::Statement::Kind::label, label.id(), b.place());
}

// The innermost open region, which has to be of this kind; it stays open.
State::Region& innermost(Builder& b, Open what, const char* name) {
  State& s = b.state();
  if (s.regions.empty() || s.regions.back().what != what)
    b.refuse(Code::open_block, cat("the innermost open block is not ", name));
  return s.regions.back();
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

void begin_loop(Builder& b, std::string_view written, ir::Guard predicate) {
  State& s = b.state();
  const std::string text = b.loop_label(written);
  s.labels.insert(Name(text));
  place_label(b, Name(text));
  s.loops.push_back({std::string(written), text, predicate});
  s.open(Open::loop).a = Name(text);
}

void end_loop(Builder& b) {
  State& s = b.state();
  const Name label = innermost(b, Open::loop, "a loop").a;
  const ir::Guard guard = s.loops.back().guard;
  if (guard.reg == ir::no_id) {
    static const auto* uniform = isa::resolve("bra.uni");
    b.emit(uniform, std::array{symbol(label)});
  } else {
    branch(b, label, guard);
  }
  s.regions.pop_back();
  s.loops.pop_back();
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
    if (!o.is_integer()) b.refuse(Code::bad_argument, "range_ takes integers and integer registers");
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
    b.refuse(Code::bad_argument, cat("a range_ counts in s16 to u64, not in ", isa::info(type).name));
  const bool fixed_step = step.is_integer();
  const bool negative = fixed_step && !step.ir.wide && step.ir.value < 0;
  if (fixed_step && step.ir.value == 0) b.refuse(Code::bad_argument, "the step of a range_ is 0");
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

Pipeline::Position Pipeline::advance() const {
  Builder& b = *cursor.builder;
  const Reg wraps = compare(Compare::eq, cursor, stages);
  const Reg flip = b.scalar(Type::u32);
  b.emit("selp.u32", {flip, 1, 0, wraps});
  assign('^', phase, flip);
  const Reg stage = b.scalar(Type::u32);
  b.emit("selp.u32", {stage, 0, cursor, wraps});
  b.emit("add.s32", {cursor, stage, 1});
  return {stage, phase};
}

}  // namespace ptx::author
