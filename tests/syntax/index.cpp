// From places back to bytes.
#include "ptx/syntax/index.h"

#include <doctest/doctest.h>

#include "ptx/syntax/parse.h"

using namespace ptx;

TEST_CASE("statements and operands by their places") {
  const std::string text = ".entry k()\n{\n\t@p add.s32 a, b, [c, {d}]; L: ret;\n}\n";
  const syntax::Parsed parsed = syntax::parse(text);
  const syntax::Index index(parsed.tree);
  const auto part = [&](std::uint32_t line, std::uint32_t column, int operand = -1) {
    const Span span = index.span({{}, line, column}, operand);
    return text.substr(span.begin, span.size());
  };
  CHECK(part(3, 2) == "add.s32");
  CHECK(part(3, 2, 0) == "a");
  CHECK(part(3, 2, 2) == "[c, {d}]");
  CHECK(part(3, 2, 7) == "add.s32");
  CHECK(part(1, 1) == ".entry k()");
  CHECK(part(3, 5) == "");  // no statement begins there
  CHECK(part(9, 1) == "");
  CHECK(index.statement({{}, 3, 2}) != 0);
  CHECK(index.operand(index.statement({{}, 3, 2}), 3) == 0);
}
