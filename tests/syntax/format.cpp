// The layout: what it is, that it keeps every token and comment, and that formatting twice changes nothing.
#include "ptx/syntax/format.h"

#include <doctest/doctest.h>

#include "ptx/base/text.h"
#include "ptx/syntax/parse.h"
#include "tests/ptx_files.h"

using namespace ptx;

namespace {

std::string format(std::string_view text, const syntax::FormatOptions& options = {}) {
  return syntax::format(syntax::parse(std::string(text)).tree, options);
}

// A body's lines, formatted, without the head.
std::string body(std::string_view text) {
  const std::string made = format(cat(".entry k() {\n", text, "\n}\n"));
  const std::size_t begin = made.find("{\n") + 2;
  return made.substr(begin, made.rfind("}\n") - begin);
}

// Kinds and texts of all tokens.
std::string tokens(std::string_view text) {
  const syntax::Parsed parsed = syntax::parse(std::string(text));
  Text out;
  for (std::uint32_t id = 0; id < parsed.tree.tokens().size(); ++id)
    out << static_cast<int>(parsed.tree.token(id).kind) << ' ' << parsed.tree.text(id) << '\n';
  return out.take();
}

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("a module") {
  CHECK(
      format("  .version 8.0 .target   sm_80\n.address_size\t64\n\n\n\n.global .align 4 .b8 a [ 4 ]={1,2};"
             ".visible .entry k ( .param .u64 p,.param .u32 n ) .maxntid 128 ,1 , 1 .minnctapersm 2 { ret ; } "
             ".func(.param .b32 r)f(.param .b32 a);.extern .func g") ==
      ".version 8.0\n.target sm_80\n.address_size 64\n\n.global .align 4 .b8 a[4] = {1, 2};\n"
      "\n.visible .entry k(\n\t.param .u64 p,\n\t.param .u32 n\n)\n.maxntid 128, 1, 1\n.minnctapersm 2\n{\n\tret;\n}\n"
      "\n.func (.param .b32 r) f(\n\t.param .b32 a\n);\n\n.extern .func g\n");
}

TEST_CASE("statements") {
  CHECK(body("@ ! p0 bra  L1 ;L1:add .s32 %r1 ,%r2,- 5;") == "\t@!p0 bra L1;\nL1:\n\tadd.s32 %r1, %r2, -5;\n");
  CHECK(body("ld.global.v2.f32 { a ,b },[ x + 4 ];") == "\tld.global.v2.f32 {a, b}, [x+4];\n");
  CHECK(body("setp.lt.s32 p |q, a , WARP_SZ * 2 ;") == "\tsetp.lt.s32 p|q, a, WARP_SZ*2;\n");
  CHECK(body("call ( r ) , f ,( a,b ) ;call(r),f,(a);ret;") == "\tcall (r), f, (a, b);\n\tcall (r), f, (a);\n\tret;\n");
  CHECK(body(".reg.b32 %r<4>,a;{.reg .pred p;}") == "\t.reg .b32 %r<4>, a;\n{\n\t.reg .pred p;\n}\n");
  CHECK(body("mov.u32 %r1,%tid.x;mov.b32 r,a[ r + 4 ];") == "\tmov.u32 %r1, %tid.x;\n\tmov.b32 r, a[r+4];\n");
  CHECK(body("t: .branchtargets a , b;brx.idx r,t;") == "t:\n\t.branchtargets a, b;\n\tbrx.idx r, t;\n");
  CHECK(body(".loc 1 2 3,function_name a,inlined_at 1 2 3\nret;") ==
        "\t.loc 1 2 3, function_name a, inlined_at 1 2 3\n\tret;\n");
  CHECK(body("p: .callprototype (.param.b32 _) _ (.param.b64 _);") ==
        "p:\n\t.callprototype (.param .b32 _) _ (.param .b64 _);\n");
  CHECK(body("mov.b32 a, 7 % 4;") == "\tmov.b32 a, 7 % 4;\n");
  CHECK(format(".section .debug_x{a:.b8 1,2 .b32 a}") == ".section .debug_x\n{\na:\n\t.b8 1, 2\n\t.b32 a\n}\n");
}

TEST_CASE("comments and blank lines") {
  CHECK(body("// one\n\n\n\n// two\nret; // three  \n/* four\n   five */ ret; /* six */ // seven\n") ==
        "\t// one\n\n\t// two\n\tret; // three\n\t/* four\n   five */\n\tret; /* six */ // seven\n");
  CHECK(body("\n\nret;\n\n\n\nret;\n\n") == "\tret;\n\n\tret;\n");
  CHECK(body("add.s32 a, // first\n b, /* c */ c;") == "\tadd.s32 a, // first\n\t\tb, /* c */ c;\n");
  CHECK(body("L: // here\nret;") == "L: // here\n\tret;\n");
  CHECK(format("// top\n.version 8.0\n// of k\n.entry k() { // in\nret;\n} // behind\n// last") ==
        "// top\n.version 8.0\n\n// of k\n.entry k()\n{ // in\n\tret;\n} // behind\n// last\n");
  CHECK(format("# 1 \"a.cu\"\n.version 8.0\n") == "# 1 \"a.cu\"\n.version 8.0\n");
  CHECK(format("// a\n.version 8.0 // b\n\n.target sm_80\n", {.comments = false, .blank_lines = false}) ==
        ".version 8.0\n.target sm_80\n");
}

TEST_CASE("what is no PTX stays as it stands") {
  CHECK(body("ret;\n  add  ]] , x ;\nret ;") == "\tret;\n\tadd  ]] , x ;\n\tret;\n");
  CHECK(format("").empty());
  CHECK(format("// only").ends_with("// only\n"));
}

TEST_CASE("a comment that nothing ends stays as it is the second time") {
  for (const std::string_view text :
       {".version 8.0\n/* a", ".version 8.0\n/* a\n", ".entry k() { /* a\n ret;\n}\n\n"}) {
    const std::string once = format(text);
    CHECK(format(once) == once);
    CHECK(once.find("/* a") != once.npos);
  }
}

TEST_CASE("every fixture keeps its tokens and comments, and stays as it is the second time") {
  std::size_t files = 0;
  for (const auto& path : ptx_files(PTX_SOURCE_DIR "/tests/fixtures")) {
    const std::string text = read(path);
    const std::string once = format(text);
    INFO(path.string());
    CHECK(tokens(once) == tokens(text));
    CHECK(count(once, "//") == count(text, "//"));
    CHECK(format(once) == once);
    ++files;
  }
  CHECK(files > 80);
}
