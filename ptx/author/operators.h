// Operators of registers, with the author's line: each appends an instruction. What each writes: expression.h.
#pragma once

#include <concepts>

#include "ptx/author/expression.h"
#include "ptx/author/here.h"

namespace ptx::author {

inline namespace operators {
void put(const Reg& a, const Here& b);  // sets the author's line; Refused where the kernel of `a` is finished
#define PTX_OPERATOR(symbol, result)                                                      \
  inline Reg operator symbol(const Reg& a, const Here& b) { return put(a, b), result; }   \
  template <class A, class B>                                                             \
    requires BothTemporary<A, B>                                                          \
  Reg operator symbol(A&& a, B&&) {                                                       \
    static_assert(sizeof(A) == 0,                                                         \
                  "both sides of the operator append instructions, and C++ does not say " \
                  "which is first: name one");                                            \
    return a;                                                                             \
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
inline const Reg& operator+=(const Reg& a, const Here& b) { return put(a, b), assign('+', a, b.operand), a; }
inline const Reg& operator-=(const Reg& a, const Here& b) { return put(a, b), assign('-', a, b.operand), a; }
inline const Reg& operator*=(const Reg& a, const Here& b) { return put(a, b), assign('*', a, b.operand), a; }
inline const Reg& operator<<=(const Reg& a, const Here& b) { return put(a, b), assign('<', a, b.operand), a; }
inline const Reg& operator>>=(const Reg& a, const Here& b) { return put(a, b), assign('>', a, b.operand), a; }
inline const Reg& operator&=(const Reg& a, const Here& b) { return put(a, b), assign('&', a, b.operand), a; }
inline const Reg& operator|=(const Reg& a, const Here& b) { return put(a, b), assign('|', a, b.operand), a; }
inline const Reg& operator^=(const Reg& a, const Here& b) { return put(a, b), assign('^', a, b.operand), a; }
template <class T>
concept Number = std::integral<T> || std::floating_point<T>;
inline Reg operator+(Number auto a, const Reg& b) { return add(a, b); }
inline Reg operator-(Number auto a, const Reg& b) { return sub(a, b); }
inline Reg operator*(Number auto a, const Reg& b) { return mul(a, b); }
inline Reg operator-(const Reg& a) { return neg(a); }
inline Reg operator~(const Reg& a) { return not_(a); }
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
}  // namespace operators

}  // namespace ptx::author
