// Which instruction an operator on registers writes: its opcode, and the type that the instruction has. expression.cpp
// writes them, the transpiler reads them backwards.
#pragma once

#include <string_view>

#include "ptx/isa/types.h"

namespace ptx::author {

// 16, 32 or 64: an integer, or bits, that instructions compute with. 0: something else.
inline int whole_bits(isa::Type type) {
  const isa::TypeInfo& info = isa::info(type);
  return isa::is_integer(info.kind) && info.bits >= 16 && info.bits <= 64 ? info.bits : 0;
}

struct Operator {
  char sign;                // + - * < (shl) > (shr) & | ^
  std::string_view symbol;  // "<<"
  std::string_view opcode;  // of integers and bits
  std::string_view other;   // of other types
};
inline constexpr Operator operator_rows[] = {
    {'+', "+", "add", "add"},  {'-', "-", "sub", "sub"}, {'*', "*", "mul.lo", "mul"}, {'<', "<<", "shl", "shl"},
    {'>', ">>", "shr", "shr"}, {'&', "&", "and", "and"}, {'|', "|", "or", "or"},      {'^', "^", "xor", "xor"}};

// The type that an operation on integers is written with; `type` is the result's. At 32 and 64 bits it is that of
// 0.1.1. `bits`: Options::bits of the author.
isa::Type operation_type(char sign, isa::Type type, bool bits, bool second_is_register);

struct Comparison {
  std::string_view symbol, opcode;
};
inline constexpr Comparison comparisons[] = {{"==", "setp.eq"}, {"!=", "setp.ne"}, {"<", "setp.lt"},
                                             {"<=", "setp.le"}, {">", "setp.gt"},  {">=", "setp.ge"}};
isa::Type compared_type(isa::Type type);  // bits are compared as numbers without a sign

}  // namespace ptx::author
