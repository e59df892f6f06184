// Operators of registers, with the author's line: each appends an instruction. What each writes: expression.h.
#pragma once

#include <concepts>

#include "ptx/author/expression.h"
#include "ptx/author/here.h"

namespace ptx::author {

inline namespace operators {
#define PTX_OPERATOR(symbol, result)                                                                \
  inline Reg operator symbol(const Reg& a, const Here& b) { return here(a.builder, b.at), result; } \
  template <class A, class B>                                                                       \
    requires BothTemporary<A, B>                                                                    \
  Reg operator symbol(A&& a, B&&) {                                                                 \
    static_assert(sizeof(A) == 0,                                                                   \
                  "both sides of the operator append instructions, and C++ does not say "           \
                  "which is first: name one");                                                      \
    return a;                                                                                       \
  }
PTX_OPERATOR(+, add(a, b.operand))
PTX_OPERATOR(-, sub(a, b.operand))
PTX_OPERATOR(*, mul(a, b.operand))
PTX_OPERATOR(<<, shl(a, b.operand))
PTX_OPERATOR(>>, shr(a, b.operand))
PTX_OPERATOR(&, and_(a, b.operand))
PTX_OPERATOR(|, or_(a, b.operand))
PTX_OPERATOR(^, xor_(a, b.operand))
PTX_OPERATOR(<, compare(Compare::lt, a, b.operand))
PTX_OPERATOR(<=, compare(Compare::le, a, b.operand))
PTX_OPERATOR(>, compare(Compare::gt, a, b.operand))
PTX_OPERATOR(>=, compare(Compare::ge, a, b.operand))
PTX_OPERATOR(==, compare(Compare::eq, a, b.operand))
PTX_OPERATOR(!=, compare(Compare::ne, a, b.operand))
#undef PTX_OPERATOR
inline const Reg& operator+=(const Reg& a, const Here& b) {
  return here(a.builder, b.at), assign('+', a, b.operand), a;
}
inline const Reg& operator-=(const Reg& a, const Here& b) {
  return here(a.builder, b.at), assign('-', a, b.operand), a;
}
inline const Reg& operator*=(const Reg& a, const Here& b) {
  return here(a.builder, b.at), assign('*', a, b.operand), a;
}
inline const Reg& operator<<=(const Reg& a, const Here& b) {
  return here(a.builder, b.at), assign('<', a, b.operand), a;
}
inline const Reg& operator>>=(const Reg& a, const Here& b) {
  return here(a.builder, b.at), assign('>', a, b.operand), a;
}
inline const Reg& operator&=(const Reg& a, const Here& b) {
  return here(a.builder, b.at), assign('&', a, b.operand), a;
}
inline const Reg& operator|=(const Reg& a, const Here& b) {
  return here(a.builder, b.at), assign('|', a, b.operand), a;
}
inline const Reg& operator^=(const Reg& a, const Here& b) {
  return here(a.builder, b.at), assign('^', a, b.operand), a;
}
template <class T>
concept Number = std::integral<T> || std::floating_point<T>;
inline Reg operator+(Number auto a, const RegHere& b) { return here(b.reg.builder, b.at), add(a, b.reg); }
inline Reg operator-(Number auto a, const RegHere& b) { return here(b.reg.builder, b.at), sub(a, b.reg); }
inline Reg operator*(Number auto a, const RegHere& b) { return here(b.reg.builder, b.at), mul(a, b.reg); }
inline Reg operator-(const RegHere& a) { return here(a.reg.builder, a.at), neg(a.reg); }
inline Reg operator~(const RegHere& a) { return here(a.reg.builder, a.at), not_(a.reg); }
#define PTX_NO_OPERATOR(symbol)                                                           \
  template <class T>                                                                      \
  void operator symbol(const Reg&, const T&) {                                            \
    static_assert(sizeof(T) == 0, "registers have no " #symbol                            \
                                  ", as PTX has several divisions: k.div(rn, f32, ...), " \
                                  "k.rem(u32, ...)");                                     \
  }
PTX_NO_OPERATOR(/)
PTX_NO_OPERATOR(%)
#undef PTX_NO_OPERATOR
inline Not operator!(const Reg& predicate) { return Not{predicate}; }
inline Pair compare_halves(Compare op, const Reg& a, const Operand& b,
                           std::source_location at = std::source_location::current()) {
  return here(a.builder, at), author::compare_halves(op, Operand(a), b);
}
}  // namespace operators

}  // namespace ptx::author
