// Operators on registers, as functions for every face (kernel.h spells them + - * for C++). Each appends one
// instruction, and first the conversions that its widths ask for; the result is a new register, allocated before the
// temporaries.
//
// Type. Both sides are integers (of 16, 32, 64 bits), or registers of one other type that the instruction has: add.f32,
// mul.bf16x2, and.pred. Beside floating point a number is of its type; where PTX has no literals of it (f16, bf16,
// packed ones) a mov puts it into a register first. Without a rounding modifier, the assembler may fuse a product and a
// sum.
//
// Width and sign. The left operand's type decides; a narrower register beside a wider one is widened by its own sign
// (cvt). A 32-bit *product* that meets a 64-bit register is not computed modulo 2^32 and then widened: where `row * c`
// was written there is a mul.wide (instead of the mul.lo, or beside it if the 32-bit value is used as well). So `ptr +
// row * c` is right beyond 4 GiB, with as many instructions as operators. Other 32-bit arithmetic wraps at 32 bits, as
// its instructions do. Special registers are copied to a register first.
#pragma once

#include "ptx/author/builder.h"

namespace ptx::author {

enum class Compare : std::uint8_t { eq, ne, lt, le, gt, ge };

Reg add(const Operand& a, const Operand& b);  // one of them is a register
Reg sub(const Operand& a, const Operand& b);
Reg mul(const Operand& a, const Operand& b);
Reg shl(const Reg& a, const Operand& b);
Reg shr(const Reg& a, const Operand& b);  // arithmetic for s32 and s64
Reg and_(const Operand& a, const Operand& b);
Reg or_(const Operand& a, const Operand& b);
Reg xor_(const Operand& a, const Operand& b);
Reg not_(const Reg& a);  // bits; for a predicate take Not
Reg neg(const Reg& a);
Reg max(const Reg& a, const Operand& b);
Reg min(const Reg& a, const Operand& b);
Reg compare(Compare op, const Operand& a, const Operand& b);  // setp; a new predicate
// setp of packed halves: a new predicate of the low ones, and one of the high ones.
Pair compare_halves(Compare op, const Operand& a, const Operand& b);
bool has_halves(isa::Type type);  // a packed type

Reg either(const Pair& pair);          // p|q where it stands for a value: or.pred
Reg condition(const Operand& either);  // the same of an operand

// What Python has and PTX has no one instruction for: `/`, `//`, `%`, `divmod()`, `**`, `@`, `abs()`, `round()`,
// `math.floor()`, `math.ceil()`, `math.trunc()`, `+x`, `1 << n`. Refused, with the instructions that the author may
// have meant.
[[noreturn]] void refuse_operator(const Reg& a, std::string_view op);

// a = a op b. `op` is one of + - * < (shl) > (shr) & | ^.
void assign(char op, const Reg& a, const Operand& b);
// array[i] = value: a mov, which Builder::finish folds into the value's own instruction.
void assign(const RegArray& array, std::int64_t i, const Reg& value);

Reg widen(const Reg& a);   // 64 bits, by its sign; 64-bit registers as they are
Reg staged(const Reg& a);  // a special register in an ordinary one; others as they are

}  // namespace ptx::author
