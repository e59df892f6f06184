#include "ptx/isa/directives.h"

#include <algorithm>
#include <iterator>

#include "ptx/isa/row_parser.h"

namespace ptx::isa {

namespace {

#define FUNCTION_DIRECTIVE(...)
#define EXCLUDES(...)
#define REQUIRES(...)
#define PRAGMA(...)
#define BODY_DIRECTIVE(...)

constexpr FunctionDirective function_rows[] = {
#undef FUNCTION_DIRECTIVE
#define FUNCTION_DIRECTIVE(word, on, numbers, least, most, prototype, order, since) \
  {word, FunctionDirective::On::on, numbers, least, most, prototype, order, parsing::requirement(since)},
#include "ptx/isa/directives.def"
#undef FUNCTION_DIRECTIVE
#define FUNCTION_DIRECTIVE(...)
};

constexpr DirectivePair pair_rows[] = {
#undef EXCLUDES
#undef REQUIRES
#define EXCLUDES(one, other) {one, other, false},
#define REQUIRES(one, other) {one, other, true},
#include "ptx/isa/directives.def"
#undef EXCLUDES
#undef REQUIRES
#define EXCLUDES(...)
#define REQUIRES(...)
};

constexpr Pragma pragma_rows[] = {
#undef PRAGMA
#define PRAGMA(string, where, number, since) {string, Pragma::Where::where, number, parsing::requirement(since)},
#include "ptx/isa/directives.def"
#undef PRAGMA
#define PRAGMA(...)
};

struct BodyDirective {
  std::string_view word;
  Requirement since;
};
constexpr BodyDirective body_rows[] = {
#undef BODY_DIRECTIVE
#define BODY_DIRECTIVE(word, since) {word, parsing::requirement(since)},
#include "ptx/isa/directives.def"
};

#undef FUNCTION_DIRECTIVE
#undef EXCLUDES
#undef REQUIRES
#undef PRAGMA
#undef BODY_DIRECTIVE

// By number: manual 11.8.2 of PTX ISA 9.4. 1 and 2 are reserved.
constexpr std::string_view languages[] = {"unknown", "ptx",           "nvvm",    "cuda c++", "cuda c++ tile",
                                          "tile ir", "python-cutile", "fortran", "optix"};

bool same_letters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

const FunctionDirective* function_directive(std::string_view word) {
  for (const FunctionDirective& row : function_rows) {
    if (row.word == word) return &row;
  }
  return nullptr;
}

std::span<const DirectivePair> directive_pairs() { return pair_rows; }

const Pragma* pragma(std::string_view string) {
  for (const Pragma& row : pragma_rows) {
    if (row.number ? string.starts_with(row.string) : string == row.string) return &row;
  }
  return nullptr;
}

const Requirement* body_directive(std::string_view word) {
  for (const BodyDirective& row : body_rows) {
    if (row.word == word) return &row.since;
  }
  return nullptr;
}

bool is_language(std::string_view name) {
  return std::any_of(std::begin(languages), std::end(languages),
                     [&](std::string_view known) { return same_letters(known, name); });
}

std::string_view first_word(std::string_view text) { return text.substr(0, text.find_first_of(" \t\n;\"")); }

}  // namespace ptx::isa
