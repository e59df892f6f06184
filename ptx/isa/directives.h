// What the manual and the assembler say of directives: the rows of directives.def, as data.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ptx/isa/target.h"

namespace ptx::isa {

struct FunctionDirective {
  enum class On : std::uint8_t { entry, func, both };
  std::string_view word;  // ".maxntid"
  On on;
  std::uint8_t numbers;  // at most; 0: none
  std::uint64_t least, most;
  bool prototype;
  std::uint8_t order;
  Requirement since;
};

struct DirectivePair {
  std::string_view one, other;
  bool together;  // the first needs the second; else they exclude each other
};

struct Pragma {
  enum class Where : std::uint8_t { any, body, kernel };
  std::string_view string;
  Where where;
  bool number;
  Requirement since;
};

const FunctionDirective* function_directive(std::string_view word);
std::span<const DirectivePair> directive_pairs();
const Pragma* pragma(std::string_view string);             // "nounroll", "used_bytes_mask 0xff"
const Requirement* body_directive(std::string_view word);  // ".callprototype"
bool is_language(std::string_view name);                   // "cuda c++", in any case
std::string_view first_word(std::string_view text);        // ".maxntid 384, 1, 1" -> ".maxntid"

}  // namespace ptx::isa
