// What the library has to say about a program: code, severity, place, message, notes. The library never prints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/base/place.h"

namespace ptx {

enum class Severity : std::uint8_t { note, warning, error };

// One enumerator a row of diagnostic.def. The number is the code that users see: PTX2103.
enum class Code : std::uint16_t {
#define DIAGNOSTIC(number, name, severity, mistake, summary) name = number,
#include "ptx/base/diagnostic.def"
#undef DIAGNOSTIC
};

// What kind of mistake it is, as Python tells them apart.
enum class Mistake : std::uint8_t { none, type, value, index, runtime, assembler };

struct CodeInfo {
  Code code;
  std::string_view name;
  Severity severity;
  Mistake mistake;
  std::string_view summary;  // one line for the reference page; messages say the particulars
};

const CodeInfo& info(Code code);
const std::vector<CodeInfo>& all_codes();

struct Diagnostic {
  Code code;
  Severity severity;
  Place place;          // the author's line (Python, C++ or PTX)
  Span span;            // bytes in the PTX text, where there is one
  int operand = -1;     // the operand that is wrong, counted from 0; -1: the instruction as a whole
  std::string message;  // what was written and what is legal there
  std::vector<std::string> notes;
  std::string section;  // of the PTX ISA manual, "9.7.1.1"; may be empty

  Diagnostic(Code code, Place place, std::string message);
};

using Diagnostics = std::vector<Diagnostic>;

bool has_error(const Diagnostics& list);

// "gemm.py:41:5: PTX2103 message  [PTX ISA 9.7.15.5]", notes indented below.
std::string to_string(const Diagnostic& diagnostic);
std::string to_string(const Diagnostics& list);

}  // namespace ptx
