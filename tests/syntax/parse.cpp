// What the tree says of each construct, and what the parser refuses: one message a mistake, at its place.
#include "ptx/syntax/parse.h"

#include <doctest/doctest.h>

#include "ptx/base/text.h"
#include "ptx/syntax/print.h"

using namespace ptx;

namespace {

// The tree as nested lists: inner nodes by their kind, leaves by their text.
void outline(Text& out, const syntax::Tree& tree, syntax::NodeId id) {
  const auto children = tree.children(id);
  const auto kind = tree.node(id).kind;
  if (children.empty()) {
    out << name(kind) << ":" << syntax::print(tree, id);
    return;
  }
  out << "(" << name(kind);
  for (const auto child : children) out << " ", outline(out, tree, child);
  out << ")";
}

// The tree of the statements in a kernel, as text.
std::string body(std::string_view text) {
  const auto parsed = syntax::parse(cat(".entry k() {", text, "}"));
  CHECK(to_string(parsed.diagnostics) == "");
  Text out;
  for (const auto function : parsed.tree.children(0)) {
    for (const auto part : parsed.tree.children(function)) {
      if (parsed.tree.node(part).kind != syntax::NodeKind::block) continue;
      for (const auto statement : parsed.tree.children(part)) {
        if (out.size()) out << " ";
        outline(out, parsed.tree, statement);
      }
    }
  }
  return out.take();
}

std::string module(std::string_view text) {
  const auto parsed = syntax::parse(std::string(text));
  CHECK(to_string(parsed.diagnostics) == "");
  Text out;
  for (const auto statement : parsed.tree.children(0)) {
    if (out.size()) out << " ";
    outline(out, parsed.tree, statement);
  }
  return out.take();
}

// "code line:column message" of each diagnostic.
std::string refusals(std::string_view text) {
  Text out;
  for (const auto& one : syntax::parse(std::string(text)).diagnostics) {
    if (out.size()) out << "; ";
    out << info(one.code).name << " " << one.place.line << ":" << one.place.column << " " << one.message;
  }
  return out.take();
}
std::string body_refusals(std::string_view text) { return refusals(cat(".entry k() {\n", text, "\n}")); }

}  // namespace

TEST_CASE("instructions") {
  CHECK(body("ret;") == "(instruction mnemonic:ret)");
  CHECK(body("@!p bra L;") == "(instruction guard:@!p mnemonic:bra name:L)");
  CHECK(body("add .s32 %r1, a, -5;") == "(instruction mnemonic:add .s32 name:%r1 name:a (unary literal:5))");
  CHECK(body("mov.u32 a, %tid.x;") == "(instruction mnemonic:mov.u32 name:a name:%tid.x)");
  CHECK(body("ld.shared::cta.u32 a, [x+4];") ==
        "(instruction mnemonic:ld.shared::cta.u32 name:a (address (expression name:x literal:4)))");
  CHECK(body("mov.b64 {a,_}, x;") == "(instruction mnemonic:mov.b64 (vector name:a sink:_) name:x)");
  CHECK(body("setp.lt.s32 p|q, a, !b;") ==
        "(instruction mnemonic:setp.lt.s32 (pair name:p name:q) name:a (unary name:b))");
  CHECK(body("tex.2d.v4.f32.s32 {a,b,c,d}, [t, s, {x,y}];") ==
        "(instruction mnemonic:tex.2d.v4.f32.s32 (vector name:a name:b name:c name:d) "
        "(address name:t name:s (vector name:x name:y)))");
  CHECK(body("call (r), f, (a, 1), p;") ==
        "(instruction mnemonic:call (list name:r) name:f (list name:a literal:1) name:p)");
  CHECK(body("mov.u32 a, 1<<3|4;") ==
        "(instruction mnemonic:mov.u32 name:a (expression literal:1 literal:3 literal:4))");
  CHECK(body("mov.u32 a, (1)|4;") == "(instruction mnemonic:mov.u32 name:a (expression (list literal:1) literal:4))");
  CHECK(body("mov.u32 a, 1|4;") == "(instruction mnemonic:mov.u32 name:a (expression literal:1 literal:4))");
  CHECK(body("mov.u32 a, b[4];") == "(instruction mnemonic:mov.u32 name:a (index name:b literal:4))");
  CHECK(body("mov.s64 a, (.s64)5U;") == "(instruction mnemonic:mov.s64 name:a (unary literal:5U))");
  CHECK(body("L: M: ret; { }") == "label:L: label:M: (instruction mnemonic:ret) block:{ }");
}

TEST_CASE("declarations") {
  CHECK(body(".reg .b32 a, b<4>;") == "(variable declarator:a (declarator (range literal:4)))");
  CHECK(module(".global .align 8 .b8 x[2][] = {1, generic(y)+4};") ==
        "(variable (declarator (dimension literal:2) dimension:[] (initializer (vector literal:1 "
        "(expression (apply name:generic name:y) literal:4)))))");
  CHECK(module(".func (.reg .b32 r) f (.param .b32 a, .param .b8 b[4]) .noreturn;") ==
        "(function (parameters (variable declarator:r)) name:f (parameters (variable declarator:a) "
        "(variable (declarator (dimension literal:4)))) directive:.noreturn)");
  CHECK(module(".visible .entry k .maxntid 1, 2 { }") == "(function name:k (directive literal:1 literal:2) block:{ })");
  CHECK(body("p: .callprototype _ (.param .b32 _);") ==
        "label:p: (directive sink:_ (parameters (variable declarator:_)))");
  CHECK(body(".loc 1 2 3, function_name $L+4, inlined_at 1 2 3 ret;") ==
        "(directive literal:1 literal:2 literal:3 name:function_name (expression name:$L literal:4) name:inlined_at "
        "literal:1 literal:2 literal:3) (instruction mnemonic:ret)");
  CHECK(module(".section .d { .b32 .abbrev\nL: .b8 1, 2 }") ==
        "(section name:.d (data name:.abbrev) label:L: (data literal:1 literal:2))");
  CHECK(module(".version 8.5 .target sm_90, debug .address_size 64") ==
        "(directive literal:8.5) (directive name:sm_90 name:debug) (directive literal:64)");
}

TEST_CASE("places count lines and columns from one") {
  const syntax::Lines lines("ab\n\nc", Name("f.ptx"));
  CHECK(lines.place(0) == Place{Name("f.ptx"), 1, 1});
  CHECK(lines.place(2) == Place{Name("f.ptx"), 1, 3});
  CHECK(lines.place(3) == Place{Name("f.ptx"), 2, 1});
  CHECK(lines.place(4) == Place{Name("f.ptx"), 3, 1});
  CHECK(lines.place(5) == Place{Name("f.ptx"), 3, 2});
}

TEST_CASE("Code::syntax_error: one message a statement, and the next statement is read") {
  CHECK(body_refusals("mov.u32 a, ;") == "syntax_error 2:12 expected an operand, found `;`");
  CHECK(body_refusals("mov.u32 a 1;") == "syntax_error 2:11 expected `;`, found `1`");
  CHECK(body_refusals("bar.sync 0\nret;") == "syntax_error 2:10 expected `;` after `0`");
  CHECK(body_refusals("@!!p ret;") == "syntax_error 2:3 expected a name of a predicate register after `@`, found `!`");
  CHECK(body_refusals("mov.u32 a, {1, {2}}; ret;") == "syntax_error 2:16 expected an element of a vector, found `{`");
  CHECK(body_refusals("ld.u32 a, [x-4]; ret;") == "syntax_error 2:13 a negative offset is written `x+-`");
  CHECK(body_refusals("mov.f32 a, -0f3F800000;") == "syntax_error 2:13 expected another number, found `0f3F800000`");
  CHECK(body_refusals("mov.u32 a, 1:") == "syntax_error 2:13 expected `;`, found `:`");
  CHECK(body_refusals("mov.u32 a, 1+b;") == "syntax_error 2:14 expected a constant, found `b`");
  CHECK(body_refusals(";") == "syntax_error 2:1 expected a statement, found `;`");
  CHECK(body_refusals("mov.u32 [, 1;\nmov.u32 ], 2;") ==
        "syntax_error 2:10 expected an operand, found `,`; syntax_error 3:9 expected an operand, found `]`");
  CHECK(refusals(".global .b32 x = {1, };") == "syntax_error 1:22 expected an operand, found `}`");
  CHECK(refusals(".entry k(.param .b32 a .param .b32 b) { ret; }") ==
        "syntax_error 1:24 expected `)` after the parameters, found `.param`");
  CHECK(refusals(".loc 1 2") ==
        "misplaced_statement 1:1 `.loc` stands in a function, and this is outside of any; "
        "syntax_error 1:9 expected a number, the text ends");
}

TEST_CASE("a text that is no PTX at all gives a thousand diagnostics, not a million") {
  CHECK(syntax::parse(std::string(5000, ';')).diagnostics.size() == 1000);
}

TEST_CASE("Code::bad_number") {
  CHECK(body_refusals("mov.u32 a, 08;") == "bad_number 2:12 no number of PTX: found `08`");
  for (const char* number : {"10u", "0x", "0x1g", "1a", "0b12", "0F3f80", "1.0f", "1e", "0d3ff", "1.5U"}) {
    CAPTURE(number);
    const auto parsed = syntax::parse(cat(".entry k() { mov.u32 a, ", number, "; }"));
    REQUIRE(parsed.diagnostics.size() == 1);
    CHECK(parsed.diagnostics[0].code == Code::bad_number);
  }
}

TEST_CASE("Code::open_string, Code::open_comment, Code::bad_byte") {
  CHECK(body_refusals(".pragma \"x;\nret;") == "open_string 2:9 this string has no closing quote on its line");
  CHECK(refusals(".version 8.5\n /* to the end") == "open_comment 2:2 this comment has no `*/`");
  CHECK(body_refusals("mov.u32 a, '1';") == "bad_byte 2:12 no token of PTX begins like this: found `'`");
  CHECK(body_refusals("\xff\xfe ret;") == "bad_byte 2:1 no token of PTX begins like this: found `\\xff\\xfe`");
  CHECK(body_refusals("#pragma once\n;") == "bad_byte 2:1 no token of PTX begins like this: found `#`");
}

TEST_CASE("A byte-order mark and UTF-16 are one mistake each, and print back") {
  const char* const mark =
      "bad_byte 1:1 a byte-order mark stands before the text: PTX is ASCII, save the file without the mark";
  CHECK(refusals("\xef\xbb\xbf.version 8.5\n.target sm_90") == mark);
  const char* const wide = "bad_byte 1:1 the text is UTF-16: PTX is ASCII, save the file as ASCII or UTF-8";
  using namespace std::string_view_literals;
  for (const std::string_view text : {"\xff\xfe.\0v\0"sv, "\xfe\xff\0.\0v"sv, ".\0v\0e\0"sv, "\0.\0v\0"sv}) {
    CHECK(refusals(text) == wide);
    CHECK(syntax::print(syntax::parse(std::string(text)).tree) == text);
  }
}

TEST_CASE("An ELF file is one mistake, and prints back") {
  const std::string cubin = std::string(
      "\x7f"
      "ELF\x02\x01\0\0.version 8.5\n\xff{",
      22);
  CHECK(refusals(cubin).starts_with("bad_byte 1:1 this is an ELF file, machine code: PTX is text"));
  CHECK(syntax::print(syntax::parse(cubin).tree) == cubin);
}

TEST_CASE("Code::open_brace, Code::unmatched_brace") {
  CHECK(refusals(".entry k() {\n{ ret;") == "open_brace 1:12 this `{` has no `}`; open_brace 2:1 this `{` has no `}`");
  CHECK(refusals(".entry k() { ret; }\n}") == "unmatched_brace 2:1 this `}` closes nothing");
  CHECK(refusals(".entry a() { ret;\n.entry b() { ret; }") == "open_brace 1:12 this `{` has no `}`");
  CHECK(refusals(".section .d {\n.b8 1") == "open_brace 1:13 this `{` has no `}`");
}

TEST_CASE("Code::unknown_directive, Code::misplaced_statement") {
  CHECK(body_refusals(".foo 1;\nret;") == "unknown_directive 2:1 no directive of PTX: found `.foo`");
  CHECK(refusals(".entry k() .foo 3 { ret; }") ==
        "unknown_directive 1:12 no directive of a function's head: found `.foo`");
  CHECK(refusals("ret;\nret;\n") ==
        "misplaced_statement 1:1 an instruction stands in a function, and this is outside of any");
  CHECK(body_refusals(".file 1 \"x\"") == "misplaced_statement 2:1 `.file` stands outside of functions");
  CHECK(body_refusals(".maxntid 1") ==
        "misplaced_statement 2:1 `.maxntid` stands between a function's parameters and its `{`");
}

TEST_CASE("Code::too_deep") {
  const auto parsed = syntax::parse(cat(".entry k() { mov.u32 a, ", std::string(300, '('), "1; ret; }"));
  REQUIRE(parsed.diagnostics.size() == 1);
  CHECK(parsed.diagnostics[0].code == Code::too_deep);
}
