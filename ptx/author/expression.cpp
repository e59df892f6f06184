// Operators: which instruction, which width, which sign.
#include "ptx/author/expression.h"

#include "ptx/author/detail/alive.h"
#include "ptx/author/detail/state.h"
#include "ptx/author/operation.h"
#include "ptx/base/text.h"

namespace ptx::author {
namespace {

using isa::Type;

Reg reg_of(const Operand& o) { return {o.builder, o.ir.id, o.type}; }

bool is_reg(const Operand& o) {
  return (o.ir.kind == ir::Operand::Kind::reg || o.ir.kind == ir::Operand::Kind::special) && !o.ir.negated;
}

// Mnemonics of operators by type, resolved once: "add." + the type's name. An opcode is known by its address: a
// literal.
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

const Operator& operator_of(char sign) {
  std::size_t i = 0;
  while (operator_rows[i].sign != sign) ++i;
  return operator_rows[i];
}

bool works_on_bits(std::string_view opcode) { return !isa::resolve(cat(opcode, ".b32"))->matches.empty(); }

// Which types beside integers an opcode has is a fact of its rows.
[[noreturn]] void refuse_type(const Builder& b, std::string_view op, std::string_view opcode, Type type) {
  std::string others;
  for (std::size_t i = 1; i < std::size(isa::type_table); ++i) {
    const auto other = static_cast<Type>(i);
    const bool listed = whole_bits(other) == 0 && !mnemonic(opcode, other)->matches.empty();
    if (listed) others += cat(", ", isa::info(other).name);
  }
  const bool floating = isa::info(type).kind == isa::TypeKind::floating && works_on_bits(opcode);
  b.refuse(Code::operator_type,
           cat("`", op, "` takes integers of 16, 32 and 64 bits", others, "; not ", isa::info(type).name, ": ",
               type == Type::pred ? "ptx.inst.selp.u32(d, 1, 0, p) converts a predicate to a number"
               : floating         ? cat("copy its bits into a b", isa::info(type).bits, " register first (mov)")
                                  : "convert it first (cvt)"));
}

// A new register of 32 or 64 bits with `value` in it; where `value` is a product and the register has 64, finish() may
// make it a mul.wide.
Reg widened(Builder& b, const Reg& value, int bits = 64) {
  Builder::State& s = b.state();
  const bool sign = is_signed(value.type);
  const Reg wide = b.scalar(bits == 64 ? (sign ? Type::s64 : Type::u64) : (sign ? Type::s32 : Type::u32));
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
  const Type from = isa::info(value.type).bits == 16 ? (sign ? Type::s16 : Type::u16) : (sign ? Type::s32 : Type::u32);
  const std::string_view opcode = bits == 64 ? (sign ? "cvt.s64" : "cvt.u64") : (sign ? "cvt.s32" : "cvt.u32");
  b.emit(mnemonic(opcode, from), std::array{Operand(wide), Operand(value)});
  return wide;
}

[[noreturn]] void refuse_mixture(const Builder& b, std::string_view op, Type left, Type right) {
  const bool predicate = left == Type::pred || right == Type::pred;
  const bool bits = isa::info(left).bits == isa::info(right).bits &&
                    (isa::info(left).kind == isa::TypeKind::bits) != (isa::info(right).kind == isa::TypeKind::bits);
  const Type real = isa::info(left).kind == isa::TypeKind::bits ? right : left;
  const std::string how = predicate ? std::string(
                                          "x != 0 converts a number to a predicate (setp), and ptx.inst.selp.u32(d, 1, "
                                          "0, p) a predicate to a number")
                          : bits ? cat("reg.from_(x, ", isa::info(real).name, ") takes the bits as a number")
                                 : std::string("convert one first (cvt)");
  b.refuse(Code::operator_type, cat("`", op, "` takes registers of one type, not ", isa::info(left).name, " and ",
                                    isa::info(right).name, ": ", how));
}

struct Sides {
  Builder* builder;
  Operand a, b;
  Type type;  // of the result
  int bits;   // of an operation on integers; 0: on something else
};

// An operand as a register or number: !p and p|q are predicates of their own here.
Operand plain(const Operand& o) {
  if (o.ir.kind == ir::Operand::Kind::reg && o.ir.negated) return not_(reg_of(o));
  if (o.ir.kind != ir::Operand::Kind::pair || o.type != Type::pred) return o;
  return condition(o);
}

// Both sides as they are, staged if special; the width and type of the result. `op` is for messages.
Sides sides(std::string_view op, std::string_view opcode, const Operand& left, const Operand& right) {
  const Operand& any = is_reg(left) ? left : right;
  Builder* builder = any.builder;
  if (!builder) throw Refused({Diagnostic(Code::operator_type, {}, cat("`", op, "` takes a register"))});
  Sides s{builder, left, right, any.type, 0};
  const auto whole = [](const Operand& o) { return is_reg(o) ? whole_bits(o.type) : 0; };
  for (Operand* o : {&s.a, &s.b}) {
    if (is_reg(*o)) {
      if (whole(*o) == 0 && mnemonic(opcode, o->type)->matches.empty()) refuse_type(*builder, op, opcode, o->type);
      if (o->ir.kind == ir::Operand::Kind::special) *o = Operand(builder->from(*o, o->type));
      continue;
    }
    const bool real = o->literal == Operand::Literal::real && whole_bits(any.type) == 0;
    if ((o->literal != Operand::Literal::integer && !real) || any.type == Type::pred)
      builder->refuse(Code::operator_type, cat("`", op, "` beside ", isa::info(any.type).name, " takes registers",
                                               any.type == Type::pred      ? " of predicates"
                                               : whole_bits(any.type) != 0 ? " and integers"
                                                                           : " and numbers"));
  }
  const int a = whole(s.a), b = whole(s.b);
  if (is_reg(s.a) && is_reg(s.b) && (a == 0 || b == 0) && s.a.type != s.b.type)
    refuse_mixture(*builder, op, s.a.type, s.b.type);
  s.bits = std::max(a, b);
  if (a && a < b) {
    const bool sign = is_signed(s.b.type);
    s.type = b == 64 ? (sign ? Type::s64 : Type::u64) : (sign ? Type::s32 : Type::u32);
  }
  return s;
}

// Registers narrower than an operation on integers, widened.
void widen_sides(Sides& s) {
  for (Operand* o : {&s.a, &s.b}) {
    if (is_reg(*o) && whole_bits(o->type) < s.bits) *o = Operand(widened(*s.builder, reg_of(*o), s.bits));
  }
}

// A number where an instruction has no literals of its type lies in a register; other operands as they are.
Operand in_register(Builder& b, const Operand& o, Type type) {
  return o.literal != Operand::Literal::none && has_no_literals(type) ? Operand(b.scalar(type, real_of(o))) : o;
}

// An operator on anything but integers: the instruction of the type.
Reg of_type(std::string_view opcode, const Sides& s, const Reg* into = nullptr) {
  Builder& b = *s.builder;
  const Reg d = into ? *into : b.scalar(s.type);
  b.emit(mnemonic(opcode, s.type), std::array{Operand(d), in_register(b, s.a, s.type), in_register(b, s.b, s.type)});
  return d;
}

// One binary operator: result first, then conversions, then the instruction. `into`: in place.
Reg binary(char op, const Operand& left, const Operand& right, const Reg* into = nullptr) {
  const Operand first = plain(left);
  const Operator& how = operator_of(op);
  Sides s = sides(how.symbol, how.other, first, plain(right));
  if (s.bits == 0) return of_type(how.other, s, into);
  Builder& b = *s.builder;
  const bool swap = !is_reg(s.a) && (op == '+' || op == '*' || op == '&' || op == '|' || op == '^');
  if (swap) std::swap(s.a, s.b);
  const bool shift = op == '<' || op == '>';
  if (shift && is_reg(s.b)) {  // the count of a shift is 32 bits wide and does not widen the left side
    if (whole_bits(s.b.type) != 32) b.refuse(Code::operator_type, "the count of a shift is a 32-bit register");
    s.bits = whole_bits(s.a.type);
    s.type = s.a.type;
  }
  if (into && s.bits > whole_bits(into->type))
    b.refuse(Code::operator_type, cat("`", how.symbol, "=` cannot put a ", s.bits, "-bit result into the ",
                                      whole_bits(into->type), "-bit register ", into->name()));
  const Reg d = into ? *into : b.scalar(s.type);
  if (!shift) widen_sides(s);
  const isa::Mnemonic* m = mnemonic(how.opcode, operation_type(op, s.type, b.options().bits, is_reg(s.b)));
  if (op == '*' && s.bits == 32 && !into) {
    b.state().product_of[d.id] = static_cast<std::uint32_t>(b.state().function.instructions.size());
  }
  b.emit(m, std::array{Operand(d), s.a, s.b});
  return d;
}

Reg extremum(std::string_view opcode, const Reg& a, const Operand& right) {
  Sides s = sides(opcode, opcode, a, right);
  if (s.bits == 0) return of_type(opcode, s);
  const bool sign = is_signed(s.type);
  const Reg d = s.builder->scalar(s.type);
  widen_sides(s);
  const Type type = s.bits == 64   ? (sign ? Type::s64 : Type::u64)
                    : s.bits == 32 ? (sign ? Type::s32 : Type::u32)
                                   : (sign ? Type::s16 : Type::u16);
  s.builder->emit(mnemonic(opcode, type), std::array{Operand(d), s.a, s.b});
  return d;
}

constexpr Compare mirrored[] = {Compare::eq, Compare::ne, Compare::gt, Compare::ge, Compare::lt, Compare::le};

}  // namespace

Reg widen(const Reg& a) {
  const Reg value = staged(a);
  const int bits = integer_bits(value.type);
  if (bits == 0)
    a.builder->refuse(Code::operator_type,
                      cat("only integers of 32 and 64 bits are widened, not ", isa::info(a.type).name));
  return bits == 64 ? value : widened(*a.builder, value);
}

Reg staged(const Reg& a) {
  check_alive(a.builder);
  return a.special ? a.builder->from(a, a.type) : a;
}

Reg add(const Operand& a, const Operand& b) { return binary('+', a, b); }
Reg sub(const Operand& a, const Operand& b) { return binary('-', a, b); }
Reg mul(const Operand& a, const Operand& b) { return binary('*', a, b); }
Reg shl(const Reg& a, const Operand& b) { return binary('<', a, b); }
Reg shr(const Reg& a, const Operand& b) { return binary('>', a, b); }
Reg and_(const Operand& a, const Operand& b) { return binary('&', a, b); }
Reg or_(const Operand& a, const Operand& b) { return binary('|', a, b); }
Reg xor_(const Operand& a, const Operand& b) { return binary('^', a, b); }
Reg Reg::as(Type other, std::source_location at) const {
  if (other == Type::none || isa::info(other).bits != isa::info(type).bits ||
      (other == Type::pred) != (type == Type::pred))
    here(builder, at)
        .refuse(Code::bad_argument, cat("register ", name(), " of .", isa::info(type).name, " is no .",
                                        isa::info(other).name, ": cvt converts, mov copies bits of one width"));
  Reg made = *this;
  made.type = other;
  return made;
}

Reg max(const Reg& a, const Operand& b) { return extremum("max", a, b); }
Reg min(const Reg& a, const Operand& b) { return extremum("min", a, b); }

Reg not_(const Reg& a) {
  const Reg value = staged(a);
  const int bits = whole_bits(value.type);
  if (value.type != Type::pred && bits == 0) refuse_type(*a.builder, "~", "not", a.type);
  const Reg d = a.builder->scalar(value.type);
  const Type type = bits == 0 ? Type::pred : bits == 64 ? Type::b64 : bits == 32 ? Type::b32 : Type::b16;
  a.builder->emit(mnemonic("not", type), std::array{Operand(d), Operand(value)});
  return d;
}

Reg neg(const Reg& a) {
  const Reg value = staged(a);
  const int bits = whole_bits(value.type);
  if (bits == 0 && mnemonic("neg", value.type)->matches.empty()) refuse_type(*a.builder, "-", "neg", a.type);
  const Reg d = a.builder->scalar(value.type);
  const Type type = bits == 0 ? value.type : bits == 64 ? Type::s64 : bits == 32 ? Type::s32 : Type::s16;
  a.builder->emit(mnemonic("neg", type), std::array{Operand(d), Operand(value)});
  return d;
}

Reg either(const Pair& pair) { return or_(pair.left, pair.right); }

Reg condition(const Operand& either) {
  const auto parts = either.builder->state().function.children(either.ir);
  const Operand left(parts[0], either.builder, Type::pred), right(parts[1], either.builder, Type::pred);
  return or_(left, right);
}

bool has_halves(isa::Type type) { return isa::info(type).kind == isa::TypeKind::packed; }

namespace {

// Both sides of a comparison, of one type and width.
Sides compared_sides(Compare& op, const Operand& a, const Operand& b) {
  const bool turned = !is_reg(a) && is_reg(b);
  if (turned) op = mirrored[static_cast<int>(op)];
  const Operand& left = turned ? b : a;
  if (left.builder && (left.type == Type::pred || left.type == Type::none))
    left.builder->refuse(Code::operator_type, "a comparison takes numbers; predicates are combined with & | ^ ~");
  const auto at = static_cast<std::size_t>(op);
  Sides s = sides(comparisons[at].symbol, comparisons[at].opcode, left, turned ? a : b);
  widen_sides(s);
  return s;
}

}  // namespace

Reg compare(Compare op, const Operand& a, const Operand& b) {
  const Sides s = compared_sides(op, a, b);
  Builder& builder = *s.builder;
  if (has_halves(s.type))
    builder.refuse(Code::operator_type,
                   cat("a comparison of ", isa::info(s.type).name, " has two results: compare_halves"));
  const Operand left = in_register(builder, s.a, s.type), right = in_register(builder, s.b, s.type);
  const Reg p = builder.scalar(Type::pred);
  builder.emit(mnemonic(comparisons[static_cast<std::size_t>(op)].opcode, compared_type(left.type)),
               std::array{Operand(p), left, right});
  return p;
}

Pair compare_halves(Compare op, const Operand& a, const Operand& b) {
  const Sides s = compared_sides(op, a, b);
  Builder& builder = *s.builder;
  const Operand left = in_register(builder, s.a, s.type), right = in_register(builder, s.b, s.type);
  const Reg low = builder.scalar(Type::pred), high = builder.scalar(Type::pred);
  builder.emit(mnemonic(comparisons[static_cast<std::size_t>(op)].opcode, s.type),
               std::array{Operand(Pair{low, high}), left, right});
  return {low, high};
}

namespace {

// `ptx.inst.` of an opcode with the type, as the author would call it; empty if no row has it.
std::string call_of(std::string_view opcode, Type type, std::string_view operands) {
  const std::string text = cat(opcode, '.', isa::info(type).name);
  if (isa::resolve(text)->matches.empty()) return {};
  return cat("ptx.inst.", text, '(', operands, ')');
}

std::string division_of(const Reg& a, std::string_view op) {
  const std::string_view type = isa::info(a.type).name;
  const bool floating = a.type == Type::f32 || a.type == Type::f64;
  if (whole_bits(a.type) != 0) {
    const std::string typed = cat(is_signed(a.type) ? 's' : 'u', whole_bits(a.type), "(d, a, b)");
    const std::string rest = cat("ptx.inst.rem.", typed, ", or & (n - 1) for a power of two of an unsigned number");
    const std::string whole = cat("ptx.inst.div.", typed, " (towards zero), or >> for a power of two");
    return op == "%" ? rest : op == "divmod()" ? cat(whole, "; ", rest) : whole;
  }
  if (!floating) return cat("PTX divides f32 and f64: convert ", type, " first (cvt)");
  if (op != "/")
    return cat("ptx.inst.div.rn.", type, "(d, a, b) and ptx.inst.cvt.rmi.", type, ".", type,
               "(d, d) (floor); the rest is an fma");
  return a.type == Type::f64
             ? "ptx.inst.div.rn.f64(d, a, b)"
             : "ptx.inst.div.rn.f32(d, a, b) (IEEE 754), ptx.inst.div.full.f32 or ptx.inst.div.approx.f32 (2 ulp)";
}

std::string power_of(const Reg& a) {
  const int bits = whole_bits(a.type);
  if (bits != 0) return cat("x * x; of 2, ptx.inst.shl.b", bits, "(d, 1, n)");
  if (a.type == Type::f64) return "x * x; PTX has no logarithm of f64";
  return "x * x; of 2, ptx.inst.ex2.approx.f32(d, y), of others ex2 of y times ptx.inst.lg2.approx.f32(d, x)";
}

std::string absolute_of(const Reg& a) {
  const int bits = whole_bits(a.type);
  const Type type = bits == 0 ? a.type : bits == 64 ? Type::s64 : bits == 32 ? Type::s32 : Type::s16;
  const std::string call = call_of("abs", type, "d, x");
  if (call.empty()) return cat("convert ", isa::info(a.type).name, " first (cvt), then ptx.inst.abs.f32(d, x)");
  return cat(call, bits != 0 && !is_signed(a.type) ? " of a signed number" : "");
}

std::string rounding_of(const Reg& a, std::string_view op) {
  const std::string_view how = op == "round()"        ? "rni"
                               : op == "math.floor()" ? "rmi"
                               : op == "math.ceil()"  ? "rpi"
                                                      : "rzi";
  const std::string_view type = isa::info(a.type).name;
  if (whole_bits(a.type) != 0) return cat("the register itself, as a ", type, " is whole");
  const std::string call = call_of(cat("cvt.", how, '.', type), a.type, "d, x");
  if (call.empty()) return cat("convert ", type, " to f32 first, then ptx.inst.cvt.", how, ".f32.f32(d, x)");
  return cat(call, how == "rni" ? " (to nearest, ties to even)" : "", "; into an integer, ptx.inst.cvt.", how, ".s32.",
             type, "(d, x)");
}

}  // namespace

void refuse_operator(const Reg& a, std::string_view op) {
  const bool divides = op == "/" || op == "//" || op == "%" || op == "divmod()";
  std::string legal;
  if (a.type == Type::pred)
    legal = "& | ^ ~ of predicates, or ptx.inst.selp.u32(d, 1, 0, p) for a number";
  else if (divides)
    legal = division_of(a, op);
  else if (op == "**")
    legal = power_of(a);
  else if (op == "<<" || op == ">>")
    legal =
        cat("ptx.inst.", op == "<<" ? "shl.b32" : "shr.u32", "(d, 1, n) for a number that is shifted by a register");
  else if (op == "+x")
    legal = cat("x itself, or its copy reg.from_(x, ", isa::info(a.type).name, ")");
  else if (op == "@")
    legal = "ptx.mma, ptx.wgmma and ptx.tcgen05, which multiply matrices";
  else
    legal = op == "abs()" ? absolute_of(a) : rounding_of(a, op);
  a.builder->refuse(Code::operator_type, cat("`", op, "` is no operator of registers",
                                             divides ? ", as PTX has several divisions" : "", "; legal: ", legal));
}

void assign(char op, const Reg& a, const Operand& b) {
  check_alive(a.builder);
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
