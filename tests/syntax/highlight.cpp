// What each piece of a text is.
#include "ptx/syntax/highlight.h"

#include <doctest/doctest.h>

#include "ptx/base/text.h"
#include "ptx/syntax/parse.h"

using namespace ptx;

namespace {

std::string colours(const std::string& text) {
  const syntax::Parsed parsed = syntax::parse(text);
  Text out;
  for (const syntax::Highlight& one : syntax::highlight(parsed.tree)) {
    out << (out.size() ? " " : "") << syntax::Highlight::names[static_cast<int>(one.kind)] << ':'
        << std::string_view(text).substr(one.span.begin, one.span.size());
  }
  return out.take();
}

}  // namespace

TEST_CASE("pieces of a text") {
  CHECK(colours(".entry k(.param .u64 p) // c\n{ L: @%q ld.global.f32 %f1, [x+4]; /* d */ bra L; }") ==
        "directive:.entry function:k directive:.param type:.u64 name:p comment:// c label:L reg:%q opcode:ld "
        "modifier:.global modifier:.f32 reg:%f1 name:x number:4 comment:/* d */ opcode:bra name:L");
  CHECK(colours(".file 1 \"a.cu\"\n.version 8.0") ==
        "directive:.file number:1 string:\"a.cu\" directive:.version number:8.0");
  CHECK(colours("add.s32 ]] x") == "opcode:add modifier:.s32 name:x");
}
