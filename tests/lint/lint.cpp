// Each rule on a text that it finds something in, and on the nearest one in which it does not.
#include "ptx/lint/lint.h"

#include <doctest/doctest.h>

#include "ptx/base/text.h"
#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/syntax/parse.h"
#include "tests/ptx_files.h"

using namespace ptx;

namespace {

lint::Selection only(lint::Rule rule) {
  lint::Selection selection;
  return selection.set(static_cast<std::size_t>(rule));
}

std::vector<lint::Finding> found(const std::string& text, const lint::Selection& selection) {
  const syntax::Parsed parsed = syntax::parse(text);
  ir::Lowered lowered = ir::lower(parsed.tree);
  check::check(lowered.module);
  return lint::lint(parsed.tree, lowered.module, selection);
}

std::string kernel(std::string_view body) {
  return cat(".version 9.0\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 in)\n.maxntid 32\n{\n", body, "}\n");
}

// The places of what a rule finds in a body, as "line:begin-end" within it, and what is left of it when it is mended.
std::string places(lint::Rule rule, std::string_view body) {
  const std::string text = kernel(body);
  Text out;
  for (const lint::Finding& one : found(text, only(rule))) {
    CHECK(one.span.end <= text.size());
    out << (out.size() ? " " : "") << one.place.line - 6 << ':'
        << std::string_view(text).substr(one.span.begin, one.span.size());
  }
  return out.take();
}
std::string mended(lint::Rule rule, std::string_view body) {
  const std::string text = kernel(body), fixed = lint::fix(text, found(text, only(rule)));
  const std::size_t begin = fixed.find("{\n") + 2;
  return fixed.substr(begin, fixed.rfind("}\n") - begin);
}

}  // namespace

using lint::Rule;

TEST_CASE("unused_register") {
  const auto body = ".reg .b32 a, b;\n.reg .b32 %r<4>;\nmov.b32 a, 1;\nst.global.b32 [0], a;\n";
  CHECK(places(Rule::unused_register, body) == "2:.reg .b32 %r<4>;");
  CHECK(mended(Rule::unused_register, body) == ".reg .b32 a, b;\nmov.b32 a, 1;\nst.global.b32 [0], a;\n");
  CHECK(mended(Rule::unused_register, ".reg .b32 a, %r<4>;\nmov.b32 a, 1;\n") ==
        ".reg .b32 a, %r<4>;\nmov.b32 a, 1;\n");
}

TEST_CASE("never_written") {
  CHECK(places(Rule::never_written, ".reg .b32 a, b;\nadd.s32 a, b, 1;\n") == "2:add.s32");
  CHECK(places(Rule::never_written, ".reg .b32 a, b;\nmov.b32 b, 1;\nadd.s32 a, b, 1;\n") == "");
}

TEST_CASE("maybe_unwritten") {
  const std::string_view head = ".reg .b32 a, b; .reg .pred p; setp.eq.s32 p, 1, 2;\n";
  CHECK(places(Rule::maybe_unwritten, cat(head, "@p bra L;\nmov.b32 a, 1;\nL:\nmov.b32 b, a;\n")) == "5:mov.b32");
  CHECK(places(Rule::maybe_unwritten, cat(head, "mov.b32 a, 1;\n@p bra L;\nL:\nmov.b32 b, a;\n")) == "");
  CHECK(places(Rule::maybe_unwritten, cat(head, "@p mov.b32 a, 1;\n@!p mov.b32 a, 2;\nmov.b32 b, a;\n")) == "");
}

TEST_CASE("float_bits") {
  const std::string_view head = ".reg .b32 a, b; .reg .b64 d;\nmov.b32 a, 1;\n";
  CHECK(places(Rule::float_bits, cat(head, "mul.rn.f32 a, a, a;\nshl.b64 d, d, a;\n")) == "4:shl.b64");
  CHECK(places(Rule::float_bits, cat(head, "ld.global.f32 a, [d];\nadd.s32 b, a, 1;\nshr.s64 d, d, a;\n")) ==
        "5:shr.s64");
  CHECK(places(Rule::float_bits, cat(head, "cvt.rn.f32.u32 a, a;\nmov.b32 b, a;\nshl.b64 d, d, b;\n")) == "");
  CHECK(places(Rule::float_bits, cat(head, "mul.rn.f32 a, a, a;\nmov.b32 a, b;\nshl.b64 d, d, a;\n")) == "");
  CHECK(places(Rule::float_bits, cat(head, "cvt.rzi.u32.f32 a, a;\nshl.b64 d, d, a;\n")) == "");
  CHECK(places(Rule::float_bits, cat(head, "mul.rn.f32 a, a, a;\nshl.b32 b, b, a;\n")) == "");

  // Stores of a part of it; a vector goes by its last element.
  CHECK(places(Rule::float_bits, cat(head, "ld.global.f32 a, [d];\nst.global.b8 [d], a;\n")) == "4:st.global.b8");
  CHECK(places(Rule::float_bits, cat(head, "add.f64 d, d, d;\nst.shared.u32 [a], d;\n")) == "4:st.shared.u32");
  CHECK(places(Rule::float_bits, cat(head, ".reg .b16 h;\nadd.f16 h, h, h;\nst.global.b8 [d], h;\n")) ==
        "5:st.global.b8");
  CHECK(places(Rule::float_bits, cat(head, "ld.global.v2.f32 {a, b}, [d];\nst.global.b16 [d], b;\n")) ==
        "4:st.global.b16");
  const std::string_view part = "mul.rn.f32 b, b, b;\nst.global.v2.b8 ";
  CHECK(places(Rule::float_bits, cat(head, part, "[d], {a, b};\n")) == "4:st.global.v2.b8");
  CHECK(places(Rule::float_bits, cat(head, part, "[d], {b, a};\n")) == "");
  CHECK(places(Rule::float_bits, cat(head, "mul.rn.f32 a, a, a;\nst.global.b32 [d], a;\n")) == "");
  CHECK(places(Rule::float_bits, cat(head, "mul.rn.f32 b, b, b;\nmov.b32 a, b;\nst.global.b8 [d], a;\n")) == "");
  CHECK(places(Rule::float_bits, cat(head, "add.f16x2 a, a, a;\nst.global.b8 [d], a;\n")) == "");
}

TEST_CASE("dead_code") {
  const auto body = ".reg .b32 a, b;\nmov.b32 a, 1;\nadd.s32 b, a, 1; // gone\nst.global.b32 [0], a;\n";
  CHECK(places(Rule::dead_code, body) == "3:add.s32");
  CHECK(mended(Rule::dead_code, ".reg .b32 a, b;\nmov.b32 a, 1;\n\tadd.s32 b, a, 1;\nst.global.b32 [0], a;\n") ==
        ".reg .b32 a, b;\nmov.b32 a, 1;\nst.global.b32 [0], a;\n");
  CHECK(places(Rule::dead_code, ".reg .b32 a;\nmov.b32 a, 1;\nL:\nst.global.b32 [0], a;\nadd.s32 a, a, 1;\nbra L;\n") ==
        "");
  CHECK(places(Rule::dead_code, ".reg .b32 a;\nadd.cc.s32 a, 1, 2;\nld.global.b32 a, [0];\n") == "");
}

TEST_CASE("dead_code, across blocks") {
  const std::string_view head = ".reg .b32 a, b, c; .reg .pred p, q;\nmov.b32 c, %clock;\nsetp.eq.s32 p, c, 1;\n";
  // What only dead code reads, in another block, and on one path alone.
  CHECK(places(Rule::dead_code, cat(head, "mov.b32 a, c;\n@p bra L;\nadd.s32 b, a, 1;\nL:\nadd.s32 b, b, a;\n")) ==
        "4:mov.b32 6:add.s32 8:add.s32");
  CHECK(places(Rule::dead_code, cat(head, "mov.b32 a, c;\n@p bra L;\nst.global.b32 [0], a;\nL:\nadd.s32 b, b, a;\n")) ==
        "8:add.s32");
  // Values that are written over, one behind the other.
  CHECK(places(Rule::dead_code, cat(head,
                                    "mov.b32 a, 1;\n@p bra L;\nadd.s32 a, a, 1;\nL:\nadd.s32 a, a, 2;\n@p bra M;\n"
                                    "mov.b32 b, 1;\nM:\nmov.b32 a, 3;\nst.global.b32 [0], a;\n")) ==
        "4:mov.b32 6:add.s32 8:add.s32 10:mov.b32");
  // A counter that counts for itself; one that ends the loop; one that is read behind it.
  const auto loop = [&](std::string_view in, std::string_view behind) {
    return places(Rule::dead_code,
                  cat(head, "mov.b32 a, 1;\nmov.b32 b, 1;\nL:\nadd.s32 a, a, 1;\n", in, "@p bra L;\n", behind));
  };
  CHECK(loop("xor.b32 b, b, a;\nadd.s32 a, a, b;\n", "") == "4:mov.b32 5:mov.b32 7:add.s32 8:xor.b32 9:add.s32");
  CHECK(loop("setp.lt.s32 p, a, 9;\n", "") == "2:mov.b32 3:setp.eq.s32 5:mov.b32");
  CHECK(loop("", "st.global.b32 [0], a;\n") == "5:mov.b32");
  // Of two results one is enough; both go together.
  CHECK(places(Rule::dead_code, cat(head, "setp.lt.s32 p|q, c, 9;\n@q bra L;\nL:\nret;\n")) == "3:setp.eq.s32");
  CHECK(places(Rule::dead_code,
               cat(head, "setp.lt.s32 p|q, c, 9;\nbra L;\nL:\n@p mov.b32 a, 1;\n@q mov.b32 b, 1;\nret;\n")) ==
        "2:mov.b32 3:setp.eq.s32 4:setp.lt.s32 7:mov.b32 8:mov.b32");
  CHECK(found(kernel(""), only(Rule::dead_code)).empty());
}

TEST_CASE("unreachable, unused_label") {
  const auto body = ".reg .b32 a;\nret;\nL:\nmov.b32 a, 1;\n";
  CHECK(places(Rule::unreachable, "bra M;\nL:\nbar.sync 0;\nbra L;\nM:\nret;\n") == "3:bar.sync");
  CHECK(places(Rule::unreachable, "bar.sync 0;\nret;\ntrap;\n") == "");
  CHECK(places(Rule::unused_label, body) == "3:L:");
  CHECK(mended(Rule::unused_label, body) == ".reg .b32 a;\nret;\nmov.b32 a, 1;\n");
  CHECK(places(Rule::unused_label, "bra L;\nL:\nret;\n") == "");
  CHECK(places(Rule::unused_label, "t: .branchtargets L<2>;\nbrx.idx 1, t;\nL0:\nL1:\nL2:\nret;\n") == "5:L2:");
  CHECK(places(Rule::unused_label, "p: .callprototype _ (.param .b32 _);\nret;\n") == "");
  CHECK(found(kernel("L:\nret;\n") + ".section .debug_info { .b64 L }\n", only(Rule::unused_label)).empty());
}

TEST_CASE("launch_bounds, unused_parameter, unused_variable") {
  const std::string text =
      ".version 9.0\n.target sm_90a\n.address_size 64\n.global .b32 g;\n.visible .global .b32 h;\n"
      ".entry k(.param .u64 in) { ret; }\n";
  CHECK(found(text, only(Rule::launch_bounds)).size() == 1);
  CHECK(found(text, only(Rule::unused_parameter)).size() == 1);
  const auto variables = found(text, only(Rule::unused_variable));
  REQUIRE(variables.size() == 1);
  CHECK(variables[0].place.line == 4);
  CHECK(lint::fix(text, variables).find("b32 g") == std::string::npos);
  CHECK(found(kernel(".reg .b64 l; ld.param.u64 l, [in];\n"), only(Rule::unused_parameter)).empty());
  CHECK(found(kernel(""), only(Rule::launch_bounds)).empty());
}

TEST_CASE("wide_scope, approximation, modifier_order, no_effect") {
  CHECK(places(Rule::wide_scope, "fence.acq_rel.sys;\nfence.acq_rel.gpu;\n") == "1:fence.acq_rel.sys");
  CHECK(places(Rule::approximation, ".reg .f32 f;\ndiv.approx.f32 f, 0f3F800000, 0f3F800000;\n") == "2:div.approx.f32");
  CHECK(places(Rule::approximation, ".reg .f32 f;\nex2.approx.f32 f, 0f3F800000;\n") == "");
  const auto order = ".reg .f32 f;\nadd.ftz.rn.f32 f, f, f;\n";
  CHECK(mended(Rule::modifier_order, order) == ".reg .f32 f;\nadd.rn.ftz.f32 f, f, f;\n");
  CHECK(mended(Rule::no_effect, ".reg .b32 a;\nmov.b32 a, a;\nbra L;\nL:\nret;\n") == ".reg .b32 a;\nL:\nret;\n");
  CHECK(mended(Rule::no_effect, "bra M;\nbra L;\nL:\nM:\nret;\n") == "L:\nM:\nret;\n");
  CHECK(places(Rule::no_effect, "bra M;\nbar.sync 0;\nM:\nL:\nbra L;\n") == "");
  CHECK(places(Rule::no_effect, ".reg .v2 .b32 v;\nmov.b32 v.x, v.y;\n") == "");
}

TEST_CASE("changes that touch each other are made one at a time") {
  std::vector<lint::Finding> findings;
  for (const auto& [begin, end] : {std::pair{0u, 4u}, std::pair{2u, 6u}, std::pair{6u, 7u}})
    findings.push_back({Rule::dead_code, {}, {}, "", "", {{{begin, end}, ""}}});
  CHECK(lint::fix("abcdefgh", findings) == "efh");
}

TEST_CASE("every fixture, with all rules") {
  lint::Selection all;
  for (const lint::RuleInfo& rule : lint::rules()) all.set(static_cast<std::size_t>(rule.rule));
  std::size_t findings = 0;
  for (const auto& path : ptx_files(PTX_SOURCE_DIR "/tests/fixtures")) {
    const std::string text = read(path);
    for (const lint::Finding& one : found(text, all)) {
      ++findings;
      CHECK(one.span.begin <= one.span.end);
      CHECK(one.span.end <= text.size());
      for (const lint::Change& change : one.changes) CHECK(change.span.end <= text.size());
    }
  }
  CHECK(findings > 100);
}
