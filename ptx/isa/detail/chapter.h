// Compiles the rows of one chapter. CMake makes a source of chapter.cpp.in for each, which defines PTX_CHAPTER (the
// name of its function) and PTX_ROWS (the file). A row that does not parse is an error here that names the row as
// row_<id>.
#include "ptx/isa/row_parser.h"

namespace ptx::isa {

namespace {

using namespace parsing;
using enum Rule;
using enum Trait;

#define OPCODE(name, ...)
#define SECTION(number, title)
#define FORM(id, syntax, sets, since, ...)                      \
  constexpr Draft row_##id = parse(syntax, sets, since);        \
  constexpr auto packed_##id = pack<sizes(row_##id)>(row_##id); \
  constexpr auto rules_##id = parsing::rules({__VA_ARGS__});
#include PTX_ROWS
#undef SECTION
#undef FORM

}  // namespace

std::span<const Entry> PTX_CHAPTER() {
  static constexpr Entry entries[] = {
      Entry("", ""),  // a chapter may still be empty
#define SECTION(number, title) Entry(number, title),
#define FORM(id, syntax, sets, since, ...) \
  Entry(form_of(#id, syntax, sets, row_##id.opcode, packed_##id, rules_##id, traits({__VA_ARGS__}))),
#include PTX_ROWS
#undef SECTION
#undef FORM
#undef OPCODE
  };
  return entries;
}

}  // namespace ptx::isa

#undef PTX_CHAPTER
#undef PTX_ROWS
