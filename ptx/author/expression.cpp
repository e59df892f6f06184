// Operators: which instruction, which width, which sign.
#include "ptx/author/expression.h"

#include "ptx/author/detail/state.h"
#include "ptx/base/text.h"

namespace ptx::author {
namespace {

using isa::Type;

Reg reg_of(const Operand& o) { return {o.builder, o.ir.id, o.type}; }

bool is_reg(const Operand& o) {
  return (o.ir.kind == ir::Operand::Kind::reg || o.ir.kind == ir::Operand::Kind::special) && !o.ir.negated;
}

// Mnemonics of operators by type, resolved once: "add." + the type's name.
const isa::Mnemonic* mnemonic(std::string_view opcode, Type type) {
  struct Entry {
    std::string_view opcode;
    const isa::Mnemonic* made[std::size(isa::type_table)] = {};
  };
  thread_local std::vector<Entry> table;
  for (Entry& e : table) {
    if (e.opcode.data() != opcode.data()) continue;
    const isa::Mnemonic*& m = e.made[static_cast<std::size_t>(type)];
    if (!m) m = isa::resolve(cat(opcode, '.', isa::info(type).name));
    return m;
  }
  table.push_back({opcode, {}});
  return mnemonic(opcode, type);
}

std::string_view symbol(char op) {
  switch (op) {
    case '+': return "+";
    case '-': return "-";
    case '*': return "*";
    case '<': return "<<";
    case '>': return ">>";
    case '&': return "&";
    case '|': return "|";
    default: return "^";
  }
}

[[noreturn]] void refuse_type(const Builder& b, std::string_view op, Type type) {
  b.refuse(Code::operator_type,
           cat("`", op, "` only supports integer dtypes of 32 and 64 bits, not ", isa::info(type).name));
}

// A new 64-bit register with `value` in it; where `value` is a product, finish() may make it a mul.wide.
Reg widened(Builder& b, const Reg& value) {
  Builder::State& s = b.state();
  const bool sign = is_signed(value.type);
  const Reg wide = b.scalar(sign ? Type::s64 : Type::u64);
  const std::uint32_t product = s.product_of[value.id];
  if (product != none) {
    const ir::Instruction& mul = s.function.instructions[product];
    const ir::Operand& factor = s.function.operands[mul.first + 2];
    if (factor.kind == ir::Operand::Kind::integer && (sign ? factor.value > INT32_MAX : factor.value < 0)) {
      b.refuse(Code::wide_product,
               cat("a product of ", isa::info(value.type).name, " and ", factor.value, " meets a 64-bit register; ",
                   sign ? "the factor is not an s32" : "use an s32 register, or subtract the product"));
    }
    s.widenings.push_back({static_cast<std::uint32_t>(s.function.instructions.size()), value.id, wide.id});
  }
  static const auto* of_u32 = isa::resolve("cvt.u64.u32");
  static const auto* of_s32 = isa::resolve("cvt.s64.s32");
  b.emit(sign ? of_s32 : of_u32, std::array{Operand(wide), Operand(value)});
  return wide;
}

struct Sides {
  Builder* builder;
  Operand a, b;
  Type type;  // of the result
  int bits;
};

// Both sides as they are, staged if special; the width and type of the result. `op` is for messages.
Sides sides(std::string_view op, const Operand& left, const Operand& right) {
  const Operand& any = is_reg(left) ? left : right;
  Builder* builder = any.builder;
  Sides s{builder, left, right, any.type, 0};
  for (Operand* o : {&s.a, &s.b}) {
    if (o->literal == Operand::Literal::integer) continue;
    if (!is_reg(*o)) builder->refuse(Code::operator_type, cat("`", op, "` takes registers and integers"));
    if (integer_bits(o->type) == 0) refuse_type(*builder, op, o->type);
    if (o->ir.kind == ir::Operand::Kind::special) *o = Operand(builder->from(*o, o->type));
  }
  const int a = is_reg(s.a) ? integer_bits(s.a.type) : 0, b = is_reg(s.b) ? integer_bits(s.b.type) : 0;
  s.bits = std::max(a, b);
  if (a && a < b) s.type = s.b.type == Type::s64 ? Type::s64 : Type::u64;
  return s;
}

// The 32-bit registers of a 64-bit operation, widened.
void widen_sides(Sides& s) {
  if (s.bits != 64) return;
  for (Operand* o : {&s.a, &s.b}) {
    if (is_reg(*o) && integer_bits(o->type) == 32) *o = Operand(widened(*s.builder, reg_of(*o)));
  }
}

Type choose(const Sides& s, Type narrow, Type wide) { return s.bits == 64 ? wide : narrow; }

// One binary operator: result first, then conversions, then the instruction. `into`: in place.
Reg binary(char op, const Operand& left, const Operand& right, const Reg* into = nullptr) {
  Sides s = sides(symbol(op), left, right);
  Builder& b = *s.builder;
  const bool swap = !is_reg(s.a) && (op == '+' || op == '*' || op == '&' || op == '|' || op == '^');
  if (swap) std::swap(s.a, s.b);
  const bool sign = is_signed(s.type);
  if (into && s.bits > integer_bits(into->type))
    b.refuse(Code::operator_type,
             cat("`", symbol(op), "=` cannot put a 64-bit result into the 32-bit register ", into->name()));
  if ((op == '<' || op == '>') &&
      is_reg(s.b)) {  // the count of a shift is 32 bits wide and does not widen the left side
    s.bits = integer_bits(s.a.type);
    s.type = s.a.type;
    if (integer_bits(s.b.type) != 32) b.refuse(Code::operator_type, "the count of a shift is a 32-bit register");
  }
  const Reg d = into ? *into : b.scalar(s.type);
  if (op != '<' && op != '>') widen_sides(s);
  const isa::Mnemonic* m = nullptr;
  switch (op) {
    case '+': m = mnemonic("add", choose(s, s.type == Type::s32 ? Type::s32 : Type::u32, Type::s64)); break;
    case '-': m = mnemonic("sub", choose(s, Type::s32, Type::s64)); break;
    case '*': m = mnemonic("mul.lo", choose(s, is_reg(s.b) ? Type::u32 : Type::s32, Type::u64)); break;
    case '<': m = mnemonic("shl", choose(s, Type::b32, Type::b64)); break;
    case '>': m = mnemonic("shr", choose(s, sign ? Type::s32 : Type::u32, sign ? Type::s64 : Type::u64)); break;
    case '&': m = mnemonic("and", choose(s, Type::b32, Type::b64)); break;
    case '|': m = mnemonic("or", choose(s, Type::b32, Type::b64)); break;
    default: m = mnemonic("xor", choose(s, Type::b32, Type::b64)); break;
  }
  if (op == '*' && s.bits == 32 && !into) {
    b.state().product_of[d.id] = static_cast<std::uint32_t>(b.state().function.instructions.size());
  }
  b.emit(m, std::array{Operand(d), s.a, s.b});
  return d;
}

Reg extremum(std::string_view opcode, const Reg& a, const Operand& right) {
  Sides s = sides(opcode, a, right);
  const bool sign = is_signed(s.type);
  const Reg d = s.builder->scalar(s.type);
  widen_sides(s);
  s.builder->emit(mnemonic(opcode, choose(s, sign ? Type::s32 : Type::u32, sign ? Type::s64 : Type::u64)),
                  std::array{Operand(d), s.a, s.b});
  return d;
}

Type compared(Type type) {
  switch (type) {
    case Type::b16: return Type::u16;
    case Type::b32: return Type::u32;
    case Type::b64: return Type::u64;
    default: return type;
  }
}

constexpr const char* compare_names[] = {"setp.eq", "setp.ne", "setp.lt", "setp.le", "setp.gt", "setp.ge"};
constexpr Compare mirrored[] = {Compare::eq, Compare::ne, Compare::gt, Compare::ge, Compare::lt, Compare::le};

}  // namespace

Reg widen(const Reg& a) {
  const Reg value = staged(a);
  const int bits = integer_bits(value.type);
  if (bits == 0) refuse_type(*a.builder, "widening", a.type);
  return bits == 64 ? value : widened(*a.builder, value);
}

Reg staged(const Reg& a) { return a.special ? a.builder->from(a, a.type) : a; }

Reg add(const Operand& a, const Operand& b) { return binary('+', a, b); }
Reg sub(const Operand& a, const Operand& b) { return binary('-', a, b); }
Reg mul(const Operand& a, const Operand& b) { return binary('*', a, b); }
Reg shl(const Reg& a, const Operand& b) { return binary('<', a, b); }
Reg shr(const Reg& a, const Operand& b) { return binary('>', a, b); }
Reg and_(const Operand& a, const Operand& b) { return binary('&', a, b); }
Reg or_(const Operand& a, const Operand& b) { return binary('|', a, b); }
Reg xor_(const Operand& a, const Operand& b) { return binary('^', a, b); }
Reg max(const Reg& a, const Operand& b) { return extremum("max", a, b); }
Reg min(const Reg& a, const Operand& b) { return extremum("min", a, b); }

Reg not_(const Reg& a) {
  const Reg value = staged(a);
  const bool predicate = value.type == Type::pred;
  if (!predicate && integer_bits(value.type) == 0) refuse_type(*a.builder, "~", a.type);
  const Reg d = a.builder->scalar(value.type);
  const Type type = predicate ? Type::pred : integer_bits(value.type) == 64 ? Type::b64 : Type::b32;
  a.builder->emit(mnemonic("not", type), std::array{Operand(d), Operand(value)});
  return d;
}

Reg neg(const Reg& a) {
  const Reg value = staged(a);
  if (integer_bits(value.type) == 0) refuse_type(*a.builder, "-", a.type);
  const Reg d = a.builder->scalar(value.type);
  a.builder->emit(mnemonic("neg", integer_bits(value.type) == 64 ? Type::s64 : Type::s32),
                  std::array{Operand(d), Operand(value)});
  return d;
}

Reg compare(Compare op, const Operand& a, const Operand& b) {
  if (!is_reg(a)) {
    if (is_reg(b)) return compare(mirrored[static_cast<int>(op)], b, a);
  }
  Builder& builder = *a.builder;
  Operand left = a, right = b;
  for (Operand* o : {&left, &right}) {
    if (o->ir.kind == ir::Operand::Kind::special) *o = Operand(builder.from(*o, o->type));
  }
  if (left.type == Type::pred || left.type == Type::none)
    builder.refuse(Code::operator_type, "a comparison takes numbers; combine predicates with and, or, xor");
  if (is_reg(right)) {
    const int a_bits = integer_bits(left.type), b_bits = integer_bits(right.type);
    if (a_bits && b_bits && a_bits != b_bits) {
      Operand& narrow = a_bits < b_bits ? left : right;
      narrow = Operand(widened(builder, reg_of(narrow)));
    }
  }
  const Reg p = builder.scalar(Type::pred);
  builder.emit(mnemonic(compare_names[static_cast<int>(op)], compared(left.type)), std::array{Operand(p), left, right});
  return p;
}

void assign(char op, const Reg& a, const Operand& b) {
  if (a.special) a.builder->refuse(Code::operator_type, cat("special register ", a.name(), " cannot be written"));
  binary(op, a, b, &a);
}

Address Builder::address(const Operand& base, const Reg& offset) {
  if (base.ir.kind == ir::Operand::Kind::symbol) {
    const Reg start = scalar(integer_bits(offset.type) == 64 ? Type::u64 : Type::u32);
    emit(mnemonic("mov", start.type), std::array{Operand(start), base});
    return address(add(start, offset));
  }
  if (base.ir.kind == ir::Operand::Kind::address) {
    const Address start = address(base);
    return address(Operand(start.base, this, start.type), offset) + start.offset;
  }
  return address(add(base, offset));
}

}  // namespace ptx::author
