// Arguments that know the line which wrote them: the author's first argument is converted to one of these.
#pragma once

#include <concepts>
#include <source_location>

#include "ptx/author/modifiers.h"
#include "ptx/author/value.h"

namespace ptx::author {

// Where a call was written: the first parameter of what appends, converted from the author's first argument, so that
// the default argument is evaluated at the author's line. It costs a pointer.
struct Here {
  Operand operand;
  std::source_location at;

  template <std::convertible_to<Operand> T>
  Here(const T& value, std::source_location at = std::source_location::current()) : operand(value), at(at) {}
};

struct First {
  Operand operand;
  ir::Guard guard;
  Modifier modifier{0, {}};
  std::source_location at;

  First(Modifier modifier, std::source_location at = std::source_location::current()) : modifier(modifier), at(at) {}
  First(ir::Guard guard, std::source_location at = std::source_location::current()) : guard(guard), at(at) {}
  template <std::convertible_to<Operand> T>
  First(const T& value, std::source_location at = std::source_location::current()) : operand(value), at(at) {}
};

// A register, with the line: the side of an operator that stands beside none of the above.
struct RegHere {
  const Reg& reg;
  std::source_location at;
  RegHere(const Reg& reg, std::source_location at = std::source_location::current()) : reg(reg), at(at) {}
};

// Order. C++ leaves open which of two arguments, or which side of a +, is computed first; where both append
// instructions, g++ and clang would write different kernels. So of the operands of one operator or one mnemonic at most
// one may be a register that was just made (a temporary Reg); the others have names:
//   const Reg first = k.from(k.ctaid_x(), u32) * 128;
//   const Reg i = first + k.from(k.tid_x(), u32);
// What names a register and appends nothing (array[i], k.tid_x()) returns const Reg and may stand anywhere.
template <class T>
concept Temporary = std::same_as<T, Reg> || std::same_as<T, Results>;  // what a call of a function returns
template <class A, class B>
concept BothTemporary = Temporary<A> && Temporary<B>;
template <class... All>
inline constexpr int temporaries = (0 + ... + static_cast<int>(Temporary<All>));

}  // namespace ptx::author
