#include "ptx/transpile/detail/expressions.h"

#include "ptx/author/operation.h"
#include "ptx/base/text.h"

namespace ptx::transpile {
namespace {

using ir::Operand;
using isa::Type;
using Kind = Operand::Kind;
using author::whole_bits;

bool is_number(const Operand& o) { return o.kind == Kind::integer || o.kind == Kind::f32 || o.kind == Kind::f64; }
Type sized(char letter, int bits) { return isa::type_named(cat(letter, bits)).value_or(Type::none); }

}  // namespace

bool Expressions::keeps(ir::RegisterId d, Type type) const {
  Type declared = type;
  if (plan_.bits && whole_bits(type) != 0) declared = sized('b', isa::info(type).bits);
  return f_.registers[d].type == declared && f_.registers[d].vector == 1;
}

Type Expressions::type_of(const Operand& o) const {
  const bool plain = o.kind == Kind::reg && o.component == 0xff && !o.negated && !o.minus;
  return plain ? types_[o.id] : Type::none;
}

std::string Expressions::shown(const ir::Instruction& i, std::size_t n) {
  std::string text;
  const Operand& o = f_.operands[i.first + n];
  operands_.operand(text, *i.mnemonic, o, n, i.count);
  return o.kind == Kind::integer && operands_.walk(&o) && text.find(' ') != text.npos ? cat('(', text, ')') : text;
}

// The two sources with an operator between them, which gives a register of `type`.
std::optional<std::string> Expressions::joined(const ir::Instruction& i, std::string_view op, ir::RegisterId d,
                                               Type type, Type as) {
  const std::string second = shown(i, 2);
  if (second.starts_with('"')) return {};  // a number that is written by its bits, such as an infinity
  types_[d] = type;
  if (as == Type::none) return cat(shown(i, 1), ' ', op, ' ', second);
  operands_.name(as);
  return cat(shown(i, 1), cpp_ ? ".as(" : ".as_(", isa::info(as).name, ") ", op, ' ', second);
}

std::optional<std::string> Expressions::made(const ir::Instruction& i) {
  if (i.guard.reg != ir::no_id || i.count < 2 || !i.mnemonic) return {};
  const ir::RegisterId d = f_.operands[i.first].id;
  for (const auto step : {&Expressions::move, &Expressions::parameter, &Expressions::compared,
                          &Expressions::multiply_add, &Expressions::computed, &Expressions::shifted}) {
    if (auto text = (this->*step)(i, d)) return text;
  }
  return {};
}

// mov.u32 %r1, %tid.x;
std::optional<std::string> Expressions::move(const ir::Instruction& i, ir::RegisterId d) {
  const std::string_view canonical = i.mnemonic->canonical;
  if (i.count != 2 || !canonical.starts_with("mov.")) return {};
  const Type type = isa::type_named(canonical.substr(4)).value_or(Type::none);
  const isa::TypeKind kind = isa::info(type).kind;
  if (!isa::is_integer(kind) && type != Type::f32 && type != Type::f64) return {};
  if (type == Type::none || isa::info(type).bits > 64 || !keeps(d, type)) return {};
  const Operand& source = f_.operands[i.first + 1];
  const std::string name(isa::info(type).name);
  types_[d] = type;
  if (is_number(source) && !cpp_) return cat("reg.scalar(", name, ", init=", shown(i, 1), ')');
  if (is_number(source) || source.kind == Kind::special || type_of(source) != Type::none)
    return cat(cpp_ ? "k.from(" : "reg.from_(", shown(i, 1), ", ", name, ')');
  return {};
}

// ld.param.u64 %rd1, [x];
std::optional<std::string> Expressions::parameter(const ir::Instruction& i, ir::RegisterId d) {
  constexpr std::string_view opcode = "ld.param.";
  const std::string_view canonical = i.mnemonic->canonical;
  const Operand& source = f_.operands[i.first + 1];
  if (!f_.entry || i.count != 2 || !canonical.starts_with(opcode) || source.kind != Kind::address) return {};
  const Type type = isa::type_named(canonical.substr(opcode.size())).value_or(Type::none);
  if (type == Type::none || !keeps(d, type) || source.value != 0 || source.child_count != 1 || source.unified)
    return {};
  const Operand& base = f_.children(source)[0];
  if (base.kind != Kind::symbol || base.value != 0) return {};
  for (const ir::Variable& v : f_.parameters) {
    if (v.name.id() != base.id || !v.dims.empty()) continue;
    if (ir::bytes(v) * 8 < isa::info(type).bits) return {};  // param() reads no more than there is
    types_[d] = type;
    return cat(cpp_ ? "k" : "ptx", ".param(", isa::info(type).name, ", \"", v.name.view(), "\")");
  }
  return {};
}

// setp.lt.u32 %p1, %r1, %r2;
std::optional<std::string> Expressions::compared(const ir::Instruction& i, ir::RegisterId d) {
  const std::string_view canonical = i.mnemonic->canonical;
  if (i.count != 3 || !canonical.starts_with("setp.")) return {};
  const Operand &a = f_.operands[i.first + 1], &b = f_.operands[i.first + 2];
  Type type = type_of(a);
  if (type == Type::none || type == Type::pred || isa::info(type).kind == isa::TypeKind::packed) return {};
  const bool whole = whole_bits(type) != 0;
  if (!whole && type != Type::f32 && type != Type::f64) return {};
  const bool agrees = is_number(b) ? whole == (b.kind == Kind::integer)
                      : whole      ? whole_bits(type_of(b)) == whole_bits(type)
                                   : type_of(b) == type;
  if (!agrees) return {};
  const std::size_t dot = canonical.rfind('.');
  const Type written = isa::type_named(canonical.substr(dot + 1)).value_or(Type::none);
  for (const author::Comparison& one : author::comparisons) {
    if (canonical.substr(0, dot) != one.opcode) continue;
    if (written == author::compared_type(type)) return joined(i, one.symbol, d, Type::pred);
    // r.as_(s32) < 4, of one that is held for unsigned.
    if (whole && whole_bits(written) == whole_bits(type) && written == author::compared_type(written))
      return joined(i, one.symbol, d, Type::pred, written);
  }
  return {};
}

// mad.lo.s32 %r1, %r2, %r3, %r4;
std::optional<std::string> Expressions::multiply_add(const ir::Instruction& i, ir::RegisterId d) {
  if (cpp_ || i.count != 4 || i.mnemonic->canonical != "mad.lo.s32") return {};
  Type first = Type::none;
  for (std::size_t n = 1; n < 4; ++n) {
    const Operand& o = f_.operands[i.first + n];
    const Type type = type_of(o);
    if (o.kind == Kind::integer) continue;
    if (whole_bits(type) != 32) return {};
    if (first == Type::none) first = type;
  }
  if (first == Type::none || !keeps(d, first)) return {};
  types_[d] = first;
  return cat("ptx.mad(", shown(i, 1), ", ", shown(i, 2), ", ", shown(i, 3), ')');
}

// The operator that writes an instruction of two sources; "": none.
std::string_view Expressions::symbol(const ir::Instruction& i) const {
  if (i.guard.reg != ir::no_id || i.count != 3 || !i.mnemonic) return {};
  const Operand &a = f_.operands[i.first + 1], &b = f_.operands[i.first + 2];
  const Type type = type_of(a);
  if (type == Type::none) return {};
  const std::string_view canonical = i.mnemonic->canonical;
  const std::size_t dot = canonical.rfind('.');
  const std::string_view opcode = canonical.substr(0, dot), suffix = canonical.substr(dot + 1);
  const int bits = whole_bits(type);
  if (bits == 0 && type != Type::f32 && type != Type::f64 && type != Type::pred) return {};
  for (const author::Operator& one : author::operator_rows) {
    if ((bits ? one.opcode : one.other) != opcode) continue;
    const bool shift = one.sign == '<' || one.sign == '>';
    if (bits == 0 && (shift || one.sign == '|')) return {};  // p | q are two predicates
    const Type other = type_of(b);
    const bool number = is_number(b) && type != Type::pred && (bits != 0) == (b.kind == Kind::integer);
    const bool fits = bits == 0 ? other == type : whole_bits(other) == (shift ? 32 : bits);
    if (!number && !fits) return {};
    const Type written = bits == 0 ? type : author::operation_type(one.sign, type, plan_.bits, !number);
    return suffix == isa::info(written).name ? one.symbol : std::string_view();
  }
  return {};
}

// a.as_(s32) >> 2, of one that is held for unsigned, and the other way round.
std::optional<std::string> Expressions::shifted(const ir::Instruction& i, ir::RegisterId d) {
  const std::string_view canonical = i.mnemonic->canonical;
  const Type written = isa::type_named(canonical.substr(canonical.rfind('.') + 1)).value_or(Type::none);
  if (i.count != 3 || canonical != cat("shr.", isa::info(written).name) || whole_bits(written) == 0) return {};
  const Operand& b = f_.operands[i.first + 2];
  const bool fits = b.kind == Kind::integer || whole_bits(type_of(b)) == 32;
  if (whole_bits(type_of(f_.operands[i.first + 1])) != whole_bits(written) || !fits || !keeps(d, written)) return {};
  if (author::operation_type('>', written, plan_.bits, b.kind == Kind::reg) != written) return {};
  return joined(i, ">>", d, written, written);
}

std::optional<std::string> Expressions::computed(const ir::Instruction& i, ir::RegisterId d) {
  const std::string_view op = symbol(i);
  if (op.empty()) return {};
  const Type type = type_of(f_.operands[i.first + 1]);
  if (!keeps(d, type)) return {};
  return joined(i, op, d, type);
}

std::optional<std::string> Expressions::into_element(const ir::Instruction& i) {
  const Operand& d = f_.operands[i.first];
  const Type type = type_of(d);
  if (i.guard.reg != ir::no_id || type == Type::none || !i.mnemonic) return {};
  std::optional<std::string> text = compared(i, d.id);
  if (!text) text = computed(i, d.id);
  types_[d.id] = type;  // the array's
  if (!text) return {};
  const std::string element = shown(i, 0);  // a[i]
  if (!cpp_) return cat(element, " = ", *text);
  const std::size_t bracket = element.find('[');
  return cat(element.substr(0, bracket), ".set(", element.substr(bracket + 1, element.size() - bracket - 2), ", ",
             *text, ')');
}

std::optional<std::string> Expressions::in_place(const ir::Instruction& i) {
  if (i.count != 3) return {};
  const Operand &d = f_.operands[i.first], &a = f_.operands[i.first + 1], &b = f_.operands[i.first + 2];
  if (type_of(d) == Type::none || type_of(d) == Type::pred || a.kind != Kind::reg || d.id != a.id) return {};
  if (!operands_.walk_together(&d, &a)) return {};
  const std::string_view op = symbol(i);
  if (op.empty()) return {};
  std::string second = shown(i, 2);
  if (second.starts_with('"')) return {};
  if (second.starts_with('(') && b.kind == Kind::integer) second = second.substr(1, second.size() - 2);
  return cat(shown(i, 0), ' ', op, "= ", second);
}

}  // namespace ptx::transpile
