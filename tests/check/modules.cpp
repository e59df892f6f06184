// Whole modules of one line: declarations, functions, directives. ptxas 13.5 gives the same verdicts.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "ptx/base/text.h"
#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/syntax/parse.h"

namespace {

bool refused(std::string_view text, std::string_view target, std::string_view version, bool says_size = true) {
  const auto parsed = ptx::syntax::parse(
      ptx::cat(".version ", version, "\n.target ", target, says_size ? "\n.address_size 64\n" : "\n", text, "\n"));
  ptx::ir::Lowered lowered = ptx::ir::lower(parsed.tree);
  ptx::Diagnostics all = parsed.diagnostics;
  for (const auto* part : {&lowered.diagnostics}) all.insert(all.end(), part->begin(), part->end());
  for (const ptx::Diagnostic& d : ptx::check::check(lowered.module)) all.push_back(d);
  for (const ptx::Diagnostic& d : all) {
    if (d.severity == ptx::Severity::error) return true;
  }
  return false;
}

constexpr const char* legal_modules[] = {
    ".func (.reg .pred b) f(.reg .u32 x) { setp.eq.u32 b, x, 0; ret; }",
    ".extern .global .b8 a[];",
    ".extern .global .b8 a[][4];",
    ".global .b8 a[][4] = {{1,2,3,4}};",
    ".global .b8 a[4] = {1,2};",
    ".global .f32 a = 0f3F800000;",
    ".global .b32 a[2] = {1.0, 2};",
    ".global .v2 .b32 a[2] = {{1,2},{3,4}};",
    ".global .u8 x[4]; .global .u64 p[2] = {x, generic(x)};",
    ".global .align 128 .b32 a;",
    ".const .b32 a[16384];",
    ".extern .global .b32 a; .visible .global .b32 a;",
    ".extern .global .b32 a[]; .visible .global .b32 a[4];",
    ".weak .shared .b32 a;",
    ".common .global .b32 a;",
    ".global .attribute(.managed) .b32 a;",
    ".global .attribute(.unified(1,2)) .b32 a;",
    ".global .texref t[4]; .global .surfref s;",
    ".func f(.param .b8 a[]) { ret; }",
    ".func f(.param .b32 a); .func f(.param .b32 b) { ret; }",
    ".func (.reg .b32 r, .reg .b32 q) f() { ret; }",
    ".visible .func f(); .func f() { ret; }",
    ".extern .func f(); .extern .entry k();",
    ".func f() { ret; } .visible .func g(); .alias g, f;",
    ".entry k(.param .u64 .ptr .global .align 16 a) { ret; }",
    ".entry k(.param .u64 .ptr .texref a, .param .b64 .ptr .samplerref .align 8 b, .param .u64 .ptr .surfref c) { ret; "
    "}",
    ".entry k(.param .texref a) { ret; }",
    ".entry k(.param .b8 a[32764]) { ret; }",
    ".entry k() .maxntid 1024,2,1 .minnctapersm 2 .maxnreg 32 { ret; }",
    ".entry k() .maxntid 0x20, 0X2U, 0b1 .maxnreg 040 { ret; }",
    ".entry k() .pragma \"nounroll\"; { ret; }",
    ".entry k() .explicitcluster .maxclusterrank 2 { ret; }",
    ".entry k() { .pragma \"used_bytes_mask 0xff\"; .pragma \"frequency 4\"; ret; }",
    ".entry k() { .pragma \"used_bytes_mask\t0xff\"; .pragma \"used_bytes_mask  0377\"; .pragma \"nounroll x\"; ret; }",
    ".func f() .abi_preserve 237 .abi_preserve_control 11 { ret; }",
    ".visible .func b() { ret; } .visible .func a(); .alias a, b;",
    ".func h(.param .align 16 .b8 a[16]) { ret; } .entry k() { .param .align 16 .b64 x[2]; call h, (x); ret; }",
    ".func h(.param .b8 a[]) { ret; } .entry k() { .param .b8 x[8]; call h, (x); ret; }",
    ".func h(.param .f32 a) { ret; } .entry k() { call h, (1.0); ret; }",
    ".func g() { ret; } .entry k() { .reg .b64 l; T: .calltargets g; call l, T; ret; }",
    ".func f() { ret; } .func g() { ret; } .global .u64 t[2] = {f, g}; .entry k() { .reg .b64 l; call l, t; ret; }",
    ".func f() { ret; } .entry k() { .const .u64 t[] = { f }; .reg .b64 l; call l, t; ret; }",
    (".entry k() { .reg .b64 l; .reg .b32 r; P: .callprototype (.param .b32 _) _ (.param .b32 _); "
     "call (r), l, (r), P; ret; }"),
    ".entry k() { .reg .b32 r; T: .branchtargets A, A; brx.idx r, T; A: ret; }",
    ".entry k() { .reg .b32 a; { .reg .b32 a; } ret; }",
    ".entry k() { .reg .u16 h; mov.u16 h, %ntid.y; ret; }",
};

constexpr const char* refused_modules[] = {
    ".global .b8 a[];",
    ".global .b8 a[4][0];",
    ".extern .shared .b8 a[4][];",
    ".global .b8 a[2] = {1,2,3};",
    ".global .b8 a[2][2] = {1,2,3,4};",
    ".global .b8 a = {1};",
    ".global .f32 a = 1;",
    ".global .f16 a = 1.0;",
    ".global .v2 .b32 a = {1,2,3};",
    ".global .bf16 a;",
    ".global .e4m3 a;",
    ".global .b1 a;",
    ".global .v8 .b16 a;",
    ".global .align 3 .b8 a;",
    ".global .align 0 .b8 a;",
    ".shared .b32 a = 1;",
    ".const .b8 a[65537];",
    ".extern .global .b32 a = 1;",
    ".extern .global .b32 a; .global .b32 a;",
    ".extern .global .b32 a; .visible .global .f32 a;",
    ".global .b32 a; .global .b32 a;",
    ".common .shared .b32 a;",
    ".visible .weak .global .b32 a;",
    ".shared .attribute(.managed) .b32 a;",
    ".local .b32 a;",
    ".param .b32 a;",
    ".shared .texref t;",
    ".global .samplerref t;",
    ".func f() { ret; } .global .u64 t[1]; .entry k() { .reg .b64 l; call l, t; ret; }",
    ".global .u64 t[1] = {1}; .entry k() { .reg .b64 l; call l, t; ret; }",
    ".func f() { ret; } .func g(.param .b32 a) { ret; } .global .u64 t[] = {f, g}; .entry k() { .reg .b64 l; call l, "
    "t; ret; }",
    ".func f() { ret; } .func g(.param .b32 a) { ret; } .entry k() { .reg .b64 l; T: .calltargets f, g; call l, T; "
    "ret; }",
    ".func f() { ret; } .global .u64 t[] = {f}; .entry k() { .reg .b64 l; .reg .b32 a; call l, (a), t; ret; }",
    ".func f() { ret; } .func f();",
    ".func f();",
    ".weak .func f(); .entry k() { call f; ret; }",
    ".visible .entry k();",
    ".func f(.param .b32 a); .func f(.param .f32 b) { ret; }",
    ".func f(.param .b32 a); .func f() { ret; }",
    ".extern .func f(); .visible .func f() { ret; }",
    ".func (.param .b32 r, .param .b32 q) f() { ret; }",
    ".func f(.param .b8 a[], .param .b32 b) { ret; }",
    ".func f(.param .pred a) { ret; }",
    ".func f(.param .v2 .b32 a) { ret; }",
    ".func f(.local .b32 a) { ret; }",
    ".func f(.param .texref a) { ret; }",
    ".func f(.param .u64 .ptr .global a) { ret; }",
    ".entry k(.param .u64 .ptr .align 8 .texref a) { ret; }",
    ".entry k(.param .u64 .ptr .global .texref a) { ret; }",
    ".entry k(.param .u64 .texref a) { ret; }",
    ".entry k(.reg .b32 a) { ret; }",
    ".entry k(.param .b32 a[]) { ret; }",
    ".entry k(.param .b8 a[32765]) { ret; }",
    ".extern .func f() { ret; }",
    ".global .b32 k; .entry k() { ret; }",
    ".entry k() .maxntid 0 { ret; }",
    ".entry k() .maxntid 08 { ret; }",
    ".entry k(.param .u64 .ptr .align 4294967296 a) { ret; }",
    ".entry k() .maxntid 1,2,3,4 { ret; }",
    ".entry k() .maxntid 1 .reqntid 1 { ret; }",
    ".entry k() .maxnctapersm 2 { ret; }",
    ".entry k() .maxclusterrank 4 .reqnctapercluster 2 { ret; }",
    ".func f() .maxntid 1 { ret; }",
    ".func f() .noreturn .noreturn { ret; }",
    ".func (.param .b32 r) f() .noreturn { ret; }",
    ".func f() .abi_preserve 256 { ret; }",
    ".func f() .abi_preserve_control 12 { ret; }",
    ".func f() .pragma \"nounroll\"; { ret; }",
    ".pragma \"frequency 4\";",
    ".entry k() { .pragma \"frequency\"; ret; }",
    ".entry k() { .pragma \"used_bytes_mask\\t0xff\"; ret; }",  // a backslash and a t
    ".entry k() { .pragma \"used_bytes_mask0xff\"; ret; }",
    ".entry k() { .pragma \"used_bytes_mask 09\"; ret; }",
    ".entry k() { .pragma \"used_bytes_mask 0x\"; ret; }",
    ".entry k() { .pragma \"frequency 5 \"; ret; }",
    ".pragma \"nounroll \";",
    ".func f() { .pragma \"enable_smem_spilling\"; ret; }",
    ".entry k() { .pragma \"mma_throughput\"; ret; }",
    ".alias a, b;",
    ".visible .func b() { ret; } .visible .func a() {ret;} .alias a, b;",
    ".entry b() { ret; } .visible .func a(); .alias a, b;",
    ".func h(.param .b32 a) { ret; } .entry k() { .reg .b64 l; call h, (l); ret; }",
    ".func h(.param .align 16 .b8 a[16]) { ret; } .entry k() { .param .align 8 .b8 x[16]; call h, (x); ret; }",
    ".entry k() { .reg .b64 l; call l; ret; }",
    ".entry k() { .reg .b64 l; call l, Q; Q: .callprototype _ (); ret; }",
    ".func g() { ret; } .entry k() { P: .callprototype _ (); call g, P; ret; }",
    ".entry k() { .reg .b32 r; brx.idx r, A; A: ret; }",
    ".entry k() { .reg .b32 r; T: .branchtargets A, C; brx.idx r, T; A: ret; }",
    ".entry k() { .branchtargets A; A: ret; }",
    ".entry k() { .reg .v2 .pred p; ret; }",
    ".entry k() { .reg .bf16 h; ret; }",
    ".entry k() { .global .texref t; ret; }",
    ".entry k() { .local .b32 s = 1; ret; }",
    ".entry k() { .reg .b16 h; mov.u16 h, %laneid; ret; }",
    ".entry k() { .reg .u64 l; mov.u64 l, %perctamemoryoffset; ret; }",
};

}  // namespace

TEST_CASE("declarations and directives that the assembler takes") {
  for (const char* text : legal_modules) CHECK_MESSAGE(!refused(text, "sm_90a", "9.0"), text);
}

TEST_CASE("declarations and directives that the assembler refuses") {
  for (const char* text : refused_modules) CHECK_MESSAGE(refused(text, "sm_90a", "9.0"), text);
}

// Rows of fixtures/modules.tsv, which oracle/test_modules.py asks the assembler about.
TEST_CASE("modules of a few lines: names, initial values, aliases, texts of PTX 1.x and 2.x") {
  std::ifstream file(PTX_SOURCE_DIR "/tests/fixtures/modules.tsv");
  int rows = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::string verdict, target, version, text;
    std::stringstream columns(line);
    std::getline(std::getline(std::getline(std::getline(columns, verdict, '\t'), target, '\t'), version, '\t'), text);
    std::replace(text.begin(), text.end(), '~', '\n');
    CHECK_MESSAGE(refused(text, target, version, version >= "2.3") == (verdict == "refused"), line);
    ++rows;
  }
  CHECK(rows > 100);
}

TEST_CASE("what is wrong with a declaration, a value, a name") {
  const auto message = [](std::string_view text) {
    const auto parsed = ptx::syntax::parse(ptx::cat(".version 9.0\n.target sm_90a\n.address_size 64\n", text, "\n"));
    ptx::ir::Lowered lowered = ptx::ir::lower(parsed.tree);
    const ptx::Diagnostics found = ptx::check::check(lowered.module);
    const ptx::Diagnostics* const parts[] = {&parsed.diagnostics, &lowered.diagnostics, &found};
    for (const ptx::Diagnostics* part : parts)
      if (!part->empty()) return part->front().message;
    return std::string();
  };
  CHECK(message(".global .b32 .align 4 g;") ==
        "`.align` stands out of order: a declaration reads .visible .global .align 8 .v2 .f32, a parameter .param .u64 "
        ".ptr .global .align 8");
  CHECK(message(".global .b8 g[2*4];") == "`[2*4]` is no size of an array: write its value, 8");
  CHECK(message(".entry k(.param .u64 .ptr .align 3 a) { ret; }") == "alignment 3 is not a power of two");
  CHECK(message(".entry k() { .reg .b32 %r<4>; .reg .b32 %r2; ret; }") == "`%r2` is declared twice in one block");
  CHECK(message(".global .u32 g; .entry k() { .reg .u32 r; mov.u32 r, g; ret; }") ==
        "`mov.u32`: the address of the .global variable `g` has 64 bits from sm_90 on");
  CHECK(message(".func f(.reg .b32 a) { ret; } .entry k() { call f, (_); ret; }") ==
        "`call f`: argument 1 is the sink `_`, which stands for results alone");
  CHECK(message(".entry k(.param .b32 a) { .reg .b32 a; ret; }") ==
        "`a` is a parameter: only a block { } inside of the body may declare it again");
  CHECK(message(".entry k() { .reg .b32 r[2]; ret; }") == "register `r`: a register has no sizes");
  CHECK(message(".entry k() { .reg .b32 a, r = 3; ret; }") == "register `r`: a register has no initial value");
  CHECK(message(".entry k() { .visible .reg .b32 r; ret; }") == "register `r`: a register has no linkage");
  CHECK(message(".entry k() { .extern .shared .b32 s[]; ret; }") ==
        "`s`: a variable in a body has no linkage, .extern");
  CHECK(message(".entry k() { .weak .global .b32 s; ret; }") == "`s`: a variable in a body has no linkage, .weak");
  CHECK(message(".entry (.param .b32 a) k() { ret; }") == "an .entry returns nothing");
  CHECK(message(".func f(.reg .b32 a[2]) { ret; }") ==
        "`a`: a parameter has one name, no linkage and no initial value, and in .reg no sizes");
  CHECK(message(".global .attribute(.foo) .b32 g;") ==
        "`g`: `.foo` is no attribute of a variable; it has .managed and .unified");
  CHECK(message(".global .attribute() .b32 g;") == "`.attribute()` names no attribute");
  CHECK(message(".func .attribute(.managed) f() { ret; }") ==
        "`.managed` is no attribute of a function; it has .unified");
  CHECK(message(".pragma nounroll;") == "`nounroll`: a pragma is a string, in quotation marks");
  CHECK(message(".global .u32 g = 1.5;") == "`g`: initial value: integers take no floating-point number");
  CHECK(message(".global .f32 g = 0x3f800000;") ==
        "`g`: initial value: floating-point types take `1.0`, `0f3F800000` or `0d3FF0000000000000`");
  CHECK(message(".global .f32 g = 1.0 + 1;") == "`g`: initial value: it has a part without a value");
  CHECK(message(".global .u64 g = 99999999999999999999;") == "`99999999999999999999` does not fit 64 bits");
  CHECK(message(".global .f64 g = 1e309;") ==
        "`1e309` is beyond the numbers of f64: 2.2250738585072014e-308 to 1.7976931348623157e308");
  CHECK(message(".entry k() { .reg .b32 r; .shared .b32 s; ld.shared.b32 r, [!r]; ret; }") ==
        "`!r`: in an address and in a vector a sign stands in front of numbers alone");
  CHECK(message(".entry k() { P: .callprototype _x (); ret; }") ==
        "expected `_` in place of a function's name, found `_x`");
  CHECK(message(".section .debug_x { .b8 256 }") == "a number does not fit type .b8");
  CHECK(message(".section .debug_x { .u8 1 }") == "`.u8` is no type of a section's data: .b8, .b16, .b32, .b64");
  CHECK(message(".section .debug_x { .b16 a }") == "`a`: data of type .b16 are integers");
  CHECK(message(".section .debug_x { .b32 !1 }") ==
        "`!`: data of a section are integers, names, a name + an integer, a name - a name");
  CHECK(message(".file 1 \"a\"\n.file 1 \"b\"") == "`1` is the index of a .file above");
  CHECK(message(".file 4294967296 \"a\"") == "`4294967296`: the index of a .file has 32 bits");
  CHECK(message(".entry k() {\n.loc 1 4294967296 1\nret; }") == "`4294967296`: a number of .loc has 32 bits");
  CHECK(message(".file 1 \"\xc3\xb6\"") == "\"\xc3\xb6\": a string of PTX has characters of ASCII alone");
}

TEST_CASE("a name that is declared below: the line of the use, and that of the declaration") {
  const auto said = [](std::string_view text) {
    const auto parsed = ptx::syntax::parse(ptx::cat(".version 9.0\n.target sm_90a\n.address_size 64\n", text, "\n"));
    ptx::ir::Lowered lowered = ptx::ir::lower(parsed.tree);
    const ptx::Diagnostics found = ptx::check::check(lowered.module);
    return found.size() == 1 ? ptx::cat(found[0].place.line, ' ', found[0].message) : ptx::to_string(found);
  };
  CHECK(said(".entry k() {\n.reg .u32 r;\nld.global.u32 r, [g];\nret; }\n\n.global .u32 g;") ==
        "6 `ld.global.u32`: `g` is declared below, in line 9; variables and functions are declared above "
        "their first use");
  CHECK(said(".entry k() {\n\ncall f;\nret; }\n.func f() { ret; }") ==
        "6 `call`: `f` is declared below, in line 8; variables and functions are declared above their first use; a "
        "prototype, `.func f (..);`, is enough");
  CHECK(said(".global .u64 p = g;\n.global .u32 g;") ==
        "4 `p`: initial value: `g` is declared below, in line 5; variables and functions are declared above their "
        "first use");
  CHECK(said(".entry k() {\nret;\n.global .u64 p = generic(g);") == "6 `p`: initial value: `g` is not declared");
  CHECK(said(".func f(.param .u32 a) { ret; }\n.entry k() {\ncall f, (q);\n.param .u32 q;\nret; }") ==
        "6 `call f`: argument 1 is `q`, which is declared below, in line 7; variables and functions are declared above "
        "their first use");
  CHECK(said(".entry k() { bra.uni L;\nL: st.global.u32 [nothing], 1; ret; }") ==
        "5 `st.global.u32`: `nothing` is not declared");
  CHECK(said(".entry k() {\n{\n.shared .b32 v;\nL:\n}\nst.shared.b32 [v], 1;\nret;\n}") ==
        "9 `st.shared.b32`: `v` is declared in a block { }, in line 6, and this is outside of that block");
  CHECK(said(".entry k() {\n{\nL:\n}\nbra L;\n}") ==
        "8 `bra`: `L` is declared in a block { }, in line 6, and this is outside of that block");
  CHECK(said(".entry k() {\n.reg .b32 a;\n{\n.reg .b32 q<3>;\n}\nadd.s32 a, q2, 1;\nret;\n}") ==
        "9 `add.s32`: `q2` is declared in a block { }, in line 7, and this is outside of that block");
  CHECK(said(".entry k() {\n.reg .b32 a;\nadd.s32 a, q, 1;\n.reg .b32 q;\nret;\n}") ==
        "6 `add.s32`: `q` is declared below, in line 7; registers are declared above their first use");
}

TEST_CASE("a declaration that is missing is reported once a name, and everywhere to who wants every line") {
  const auto parsed = ptx::syntax::parse(
      ".version 9.0\n.target sm_90a\n.address_size 64\n.entry k() {\nmov.u32 %r1, 1;\nadd.u32 %r2, %r1, 1;\n"
      "ld.global.u32 %r3, [g];\nst.global.u32 [g], 2;\nst.shared.u32 [g1], %r4;\nret; }\n.entry l() {\nadd.u32 %r1, "
      "%r1, 1;\nret; }\n");
  const auto lines = [&](bool once) {
    ptx::ir::Lowered lowered = ptx::ir::lower(parsed.tree);
    std::string all;
    for (const ptx::Diagnostic& d : ptx::check::check(lowered.module, false, once))
      all += ptx::cat(d.place.line, d.code == ptx::Code::undefined_name ? " " : "? ");
    return all;
  };
  CHECK(lines(false) == "5 6 7 8 9 12 ");
  CHECK(lines(true) == "5 8 9 12 ");
}

TEST_CASE("declarations of a later version, and options of the target") {
  CHECK(refused(".entry k() { .reg .b128 q; ret; }", "sm_90a", "8.2"));
  CHECK(!refused(".entry k() { .reg .b128 q; ret; }", "sm_90a", "8.3"));
  CHECK(refused(".entry k(.param .b8 a[4356]) { ret; }", "sm_90", "8.0"));
  CHECK(!refused(".entry k(.param .b8 a[4356]) { ret; }", "sm_90", "8.1"));
  CHECK(refused(".global .attribute(.unified(1,2)) .b32 a;", "sm_80", "8.0"));
  CHECK(!refused(".global .samplerref t;", "sm_90, texmode_independent", "8.0"));
  CHECK(refused("", "sm_90, texmode_independent, texmode_unified", "8.0"));
  CHECK(refused("", "sm_90, map_f64_to_f32", "8.0"));
  CHECK(refused("", "sm_90, other", "8.0"));
  CHECK(!refused(".entry k() .language \"CUDA C++\", 3 { ret; }", "sm_90", "9.3"));
  CHECK(refused(".entry k() .language \"rust\" { ret; }", "sm_90", "9.3"));
  CHECK(refused("", "sm_20", "2.2"));  // .address_size
  CHECK(!refused("", "sm_20", "2.3"));
  CHECK(!refused("", "sm_20", "2.2", false));
  CHECK(refused(".entry k() .language 11 { ret; }", "sm_90", "9.3"));
  CHECK(refused(".entry k() .minperctamemory 1024 { ret; }", "sm_75", "9.4"));
  CHECK(
      !refused(".entry k() .minperctamemory 1024 { .reg .u32 r; mov.u32 r, %perctamemorysize; ret; }", "sm_80", "9.4"));
  CHECK(refused(".entry k() { .reg .u32 r; mov.u32 r, %perctamemorysize; ret; }", "sm_80", "9.4"));
}
