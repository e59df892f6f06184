// Tree to ir: what each construct becomes, what lowering refuses, and that emitting and reading again changes nothing.
#include "ptx/ir/lower.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ptx/base/text.h"
#include "ptx/syntax/parse.h"
#include "tests/ptx_files.h"

using namespace ptx;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view header = ".version 8.5\n.target sm_90\n.address_size 64\n";

ir::Lowered lowered(std::string_view text) { return ir::lower(syntax::parse(std::string(text), Name("t.ptx")).tree); }

// The first function of a module whose body is `body`, after some declarations.
ir::Function kernel(std::string_view body) {
  auto result = lowered(cat(header,
                            ".entry k(.param .u64 p) {\n.reg .b32 %r<8>, a, b; .reg .b64 %rd<4>; .reg .pred %p<4>; "
                            ".reg .f32 %f<4>; .reg .v4 .f32 %v; .shared .b32 s[4];\n",
                            body, "\n}"));
  CHECK(to_string(result.diagnostics) == "");
  REQUIRE(result.module.functions.size() == 1);
  return result.module.functions[0];
}

// The operands of a kernel's last instruction: their kinds and the text they emit as.
std::string operands(std::string_view instruction) {
  static constexpr std::string_view kinds[] = {"none", "reg",     "special", "integer", "f32",
                                               "f64",  "symbol",  "address", "vector",  "list",
                                               "pair", "element", "sum",     "sink",    "text"};
  const ir::Function f = kernel(instruction);
  Text out;
  for (const ir::Operand& o : f.operands_of(f.instructions.back())) {
    if (out.size()) out << ' ';
    out << kinds[static_cast<int>(o.kind)] << ':' << ir::to_string(f, o);
  }
  return out.take();
}

std::string refusals(std::string_view text) {
  Text out;
  for (const auto& one : lowered(text).diagnostics) {
    if (out.size()) out << "; ";
    out << info(one.code).name << ' ' << one.place.line << ':' << one.place.column << ' ' << one.message;
  }
  return out.take();
}

// ---- equality of everything but places

bool same(const ir::Function& f, const ir::Operand& a, const ir::Function& g, const ir::Operand& b) {
  if (a.kind != b.kind || a.negated != b.negated || a.component != b.component || a.wide != b.wide ||
      a.value != b.value || a.child_count != b.child_count)
    return false;
  const auto x = f.children(a), y = g.children(b);
  if (a.child_count == 0)
    return a.kind >= ir::Operand::Kind::address && a.kind <= ir::Operand::Kind::pair ? true : a.id == b.id;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!same(f, x[i], g, y[i])) return false;
  }
  return true;
}

bool same(const ir::Function& f, const ir::Instruction& a, const ir::Function& g, const ir::Instruction& b) {
  if (a.mnemonic->canonical != b.mnemonic->canonical || a.guard.reg != b.guard.reg ||
      a.guard.negated != b.guard.negated)
    return false;
  const auto x = f.operands_of(a), y = g.operands_of(b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [&](const ir::Operand& p, const ir::Operand& q) { return same(f, p, g, q); });
}

bool same(const ir::Variable& a, const ir::Variable& b) {
  return a.space == b.space && a.type == b.type && a.opaque == b.opaque && a.vector == b.vector && a.name == b.name &&
         a.count == b.count && a.dims == b.dims && a.alignment == b.alignment && a.linking == b.linking &&
         a.attributes == b.attributes && a.initializer == b.initializer && a.pointer == b.pointer;
}

template <class T, class Same>
bool all_same(const std::vector<T>& a, const std::vector<T>& b, Same equal) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
}
bool same(const std::vector<ir::Variable>& a, const std::vector<ir::Variable>& b) {
  return all_same(a, b, [](const ir::Variable& x, const ir::Variable& y) { return same(x, y); });
}

bool same(const ir::Function& f, const ir::Function& g) {
  return f.name == g.name && f.entry == g.entry && f.declaration == g.declaration && f.linking == g.linking &&
         f.attributes == g.attributes && f.directives == g.directives && same(f.parameters, g.parameters) &&
         same(f.returns, g.returns) && same(f.variables, g.variables) && f.texts == g.texts &&
         all_same(f.body, g.body, [](auto& a, auto& b) { return a.kind == b.kind && a.index == b.index; }) &&
         all_same(f.instructions, g.instructions, [&](auto& a, auto& b) { return same(f, a, g, b); }) &&
         all_same(f.registers, g.registers,
                  [](auto& a, auto& b) {
                    return a.type == b.type && a.vector == b.vector && a.base == b.base && a.index == b.index;
                  }) &&
         all_same(f.declarations, g.declarations,
                  [](auto& a, auto& b) { return a.first == b.first && a.count == b.count && a.range == b.range; }) &&
         all_same(f.locations, g.locations, [](auto& a, auto& b) {
           return a.file == b.file && a.line == b.line && a.column == b.column && a.inlined == b.inlined;
         });
}

bool same(const ir::Module& a, const ir::Module& b) {
  return a.version == b.version && a.target == b.target && a.address_size == b.address_size && a.texts == b.texts &&
         same(a.variables, b.variables) &&
         all_same(a.items, b.items, [](auto& x, auto& y) { return x.kind == y.kind && x.index == y.index; }) &&
         all_same(a.functions, b.functions, [](auto& x, auto& y) { return same(x, y); });
}

// Emits, reads again, and compares; the text of the second emission must be that of the first.
void check_fixed_point(const fs::path& file) {
  CAPTURE(file.filename().string());
  const auto first = ir::lower(syntax::parse(read(file)).tree);
  CHECK(to_string(first.diagnostics) == "");
  const std::string text = ir::emit(first.module);
  const auto parsed = syntax::parse(text);
  CHECK(to_string(parsed.diagnostics) == "");
  const auto second = ir::lower(parsed.tree);
  CHECK(to_string(second.diagnostics) == "");
  CHECK(same(first.module, second.module));
  CHECK((ir::emit(second.module) == text));
}

}  // namespace

TEST_CASE("operands") {
  CHECK(operands("mov.u32 %r1, a;") == "reg:%r1 reg:a");
  CHECK(operands("mov.u32 %r1, %tid.x;") == "reg:%r1 special:%tid.x");
  CHECK(operands("mov.f32 %f1, %v.z;") == "reg:%f1 reg:%v.z");
  CHECK(operands("mov.f32 %f1, %v.g;") == "reg:%f1 reg:%v.y");
  CHECK(operands("mov.f32 %f1, 0f3F800000;") == "reg:%f1 f32:0f3F800000");
  CHECK(operands("mov.f32 %f1, 1.5;") == "reg:%f1 f64:0d3FF8000000000000");
  CHECK(operands("mov.f32 %f1, -0.0;") == "reg:%f1 f64:0d8000000000000000");
  CHECK(operands("mov.u32 %r1, WARP_SZ;") == "reg:%r1 symbol:WARP_SZ");
  CHECK(operands("mov.u64 %rd1, s+8;") == "reg:%rd1 symbol:s+8");
  CHECK(operands("mov.u64 %rd1, s[2];") == "reg:%rd1 symbol:s+8");
  CHECK(operands("ld.shared.b32 %r1, s[1+2];") == "reg:%r1 address:[s+12]");
  CHECK(operands("ld.shared.b32 %r1, s[a];") == "reg:%r1 element:s[a]");
  CHECK(operands("mov.u64 %rd1, s[a+2];") == "reg:%rd1 element:s[a+2]");
  CHECK(operands("mov.u32 %r1, %r2+4;") == "reg:%r1 sum:%r2+4");
  CHECK(operands("ld.param.u64 %rd1, [p];") == "reg:%rd1 address:[p]");
  CHECK(operands("ld.global.u32 %r1, [%rd1+4*2];") == "reg:%r1 address:[%rd1+8]");
  CHECK(operands("ld.global.u32 %r1, [%rd1+-4];") == "reg:%r1 address:[%rd1+-4]");
  CHECK(operands("ld.local.u32 %r1, [16];") == "reg:%r1 address:[16]");
  CHECK(operands("ld.global.u32 %r1, [%rd1].unified;") == "reg:%r1 address:[%rd1].unified");
  CHECK(operands("mov.b64 {%r1, _}, %rd1;") == "vector:{%r1, _} reg:%rd1");
  CHECK(operands("setp.eq.and.u32 %p1|%p2, a, b, !%p3;") == "pair:%p1|%p2 reg:a reg:b reg:!%p3");
  CHECK(operands("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f0}, [t, s, {%f1,%f2}];") ==
        "vector:{%f1, %f2, %f3, %f0} address:[t, s, {%f1, %f2}]");
  CHECK(operands("call (a), f, (b, 1, %rd1);") == "list:(a) symbol:f list:(b, 1, %rd1)");
  CHECK(operands("bra L;") == "symbol:L");
  CHECK(operands("vadd.u32.u32.u32 %r1, %r2.b1, a, b;") == "reg:%r1 reg:%r2.b1 reg:a reg:b");
  CHECK(operands("mov.u32 %r1, %r9;") == "reg:%r1 symbol:%r9");
  CHECK(operands("mov.u32 %r1, %r01;") == "reg:%r1 reg:%r1");
}

TEST_CASE("constants are folded by the manual's rules") {
  const auto value = [](std::string_view text) { return operands(cat("mov.u64 %rd1, ", text, ";")).substr(9); };
  CHECK(value("0x1FU") == "integer:31");
  CHECK(value("017") == "integer:15");
  CHECK(value("0b101") == "integer:5");
  CHECK(value("-5") == "integer:-5");
  CHECK(value("0xFFFFFFFFFFFFFFFF") == "integer:18446744073709551615");
  CHECK(value("-1U") == "integer:18446744073709551615");
  CHECK(value("~0") == "integer:18446744073709551615");
  CHECK(value("1+2*3") == "integer:7");
  CHECK(value("(1+2)*3") == "integer:9");
  CHECK(value("7-2-1") == "integer:4");
  CHECK(value("1<<3|4") == "integer:12");
  CHECK(value("-7/2") == "integer:-3");
  CHECK(value("-7/2U") == "integer:9223372036854775804");
  CHECK(value("(.s64)5U-6") == "integer:-1");
  CHECK(value("-8>>1") == "integer:-4");
  CHECK(value("1<<64") == "integer:0");
  CHECK(value("(.u64)-8>>1") == "integer:9223372036854775804");
  CHECK(value("-1<1U") == "integer:0");
  CHECK(value("-1<1") == "integer:1");
  CHECK(value("!3||2&&0") == "integer:0");
  CHECK(value("0?1:0?2:3") == "integer:3");
  CHECK(value("1 ? -1 : 1U") == "integer:18446744073709551615");
  CHECK(value("WARP_SZ*2") == "integer:64");
  CHECK(value("1.5+.5*2.0") == "f64:0d4004000000000000");
  CHECK(value("1.5<2.0") == "integer:1");
  CHECK(value("1/0") == "text:1/0");
  CHECK(value("1.5+2") == "text:1.5+2");
}

TEST_CASE("registers are those of the innermost block") {
  const ir::Function f =
      kernel("{ .reg .f32 a, %r<2>; mov.f32 a, %r1; mov.b32 b, %r2; { mov.f32 a, %r0; } } mov.b32 a, %r1;");
  const auto reg = [&](std::size_t instruction, std::size_t operand) {
    const ir::Operand& o = f.operands_of(f.instructions[instruction])[operand];
    REQUIRE(o.kind == ir::Operand::Kind::reg);
    return f.registers[o.id];
  };
  CHECK(reg(0, 0).type == isa::Type::f32);
  CHECK(reg(0, 1).type == isa::Type::f32);
  CHECK(reg(1, 1).type == isa::Type::b32);  // %r2 is not one of the inner %r<2>
  CHECK(reg(2, 0).type == isa::Type::f32);
  CHECK(reg(3, 0).type == isa::Type::b32);
  CHECK(reg(3, 1).type == isa::Type::b32);
}

TEST_CASE("declarations, statements and their places") {
  auto result = lowered(cat(header, ".visible .global .align 8 .v2 .b32 x[2][3] = {{1, 2}}, y<4>;\n",
                            ".func (.reg .b32 r) f (.reg .b32 a, .param .align 4 .b8 s[8]) .noreturn\n{\n",
                            "  .reg .b32 c, d, e<3>, g;\n  .loc 1 2 3, function_name L+4, inlined_at 4 5 6\n",
                            "L: mov.b32 r, a;\n  { ret; }\n  .pragma \"nounroll\";\n}\n.alias h, f;\n"));
  CHECK(to_string(result.diagnostics) == "");
  const ir::Module& m = result.module;
  REQUIRE(m.items.size() == 4);
  REQUIRE(m.variables.size() == 2);
  CHECK(m.variables[0].dims == std::vector<std::int64_t>{2, 3});
  CHECK(m.variables[0].initializer == "{{1, 2}}");
  CHECK(m.variables[0].linking == "visible");
  CHECK(m.variables[0].alignment == 8);
  CHECK(m.variables[0].vector == 2);
  CHECK(m.variables[1].count == 4);
  CHECK(m.texts == std::vector<std::string>{".alias h, f;"});
  const ir::Function& f = m.functions[0];
  CHECK(f.directives == std::vector<std::string>{".noreturn"});
  CHECK(f.returns.size() == 1);
  CHECK(f.parameters.size() == 2);
  CHECK(f.registers.size() == 2 + 6);
  REQUIRE(f.declarations.size() == 3);
  CHECK(f.declarations[0].count == 2);
  CHECK(f.declarations[1].range);
  CHECK(f.locations[0].inlined == ", function_name L+4, inlined_at 4 5 6");
  using Kind = ir::Statement::Kind;
  const std::vector<Kind> kinds = {Kind::registers, Kind::registers,   Kind::registers, Kind::location,
                                   Kind::label,     Kind::instruction, Kind::open,      Kind::instruction,
                                   Kind::close,     Kind::directive};
  REQUIRE(f.body.size() == kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) CHECK(f.body[i].kind == kinds[i]);
  CHECK(f.body[4].place == Place{Name("t.ptx"), 9, 1});
  CHECK(f.body[5].place == Place{Name("t.ptx"), 9, 4});
}

TEST_CASE("integers of directives are in decimal, however they are spelled") {
  const ir::Lowered lowered = ir::lower(
      syntax::parse(".version 8.0\n.target sm_80\n.file 0x2 \"a.cu\"\n"
                    ".entry k(.param .u64 .ptr .align 020 p) .maxntid 0X20U, 0b10, 010 { .loc 2 011 0x3; ret; }\n")
          .tree);
  REQUIRE(lowered.diagnostics.empty());
  const ir::Function& f = lowered.module.functions[0];
  CHECK(f.directives == std::vector<std::string>{".maxntid 32, 2, 8"});
  CHECK(f.parameters[0].pointer == ".ptr .align 16");
  CHECK(f.locations[0].line == 9);
  CHECK(lowered.module.texts == std::vector<std::string>{".file 2 \"a.cu\""});
}

TEST_CASE("an edited tree lowers as it prints") {
  auto tree = syntax::parse(cat(header, ".entry k() { ret; }")).tree;
  for (syntax::NodeId id = 0; id < tree.nodes().size(); ++id) {
    if (tree.node(id).kind == syntax::NodeKind::instruction) tree.insert_before(id, "trap;");
  }
  CHECK(ir::lower(tree).module.functions[0].instructions.size() == 2);
}

TEST_CASE("Code::module_header") {
  CHECK(refusals(".entry k() { ret; }") ==
        "module_header 1:1 the module has no .version; module_header 1:1 the module has no .target");
  CHECK(
      refusals(".version 8\n.target sm_90") ==
      "module_header 1:1 `8` is no version of PTX; a version reads 8.5; module_header 1:1 the module has no .version");
  CHECK(refusals(".version 8.5 .target sm_90 .address_size 16") ==
        "module_header 1:28 an address has 32 or 64 bits, not `16`");
  CHECK(refusals(cat(header, ".target sm_90")) ==
        "module_header 4:1 `.target` stands out of order: a module begins with .version, .target, .address_size");
  CHECK(refusals(".target sm_90 .version 8.5") ==
        "module_header 1:1 `.target` stands out of order: a module begins with .version, .target, .address_size; "
        "module_header 1:15 `.version` stands out of order: a module begins with .version, .target, .address_size");
  CHECK(
      refusals(cat(header, ".global .b32 x;.address_size 64")) ==
      "module_header 4:16 `.address_size` stands out of order: a module begins with .version, .target, .address_size");
  CHECK(refusals(".version 8.5 .target sm_90 .target debug") == "");
  CHECK(refusals(".version 8.5 .version 8.5 .target sm_90") ==
        "module_header 1:14 `.version` stands out of order: a module begins with .version, .target, .address_size");
}

TEST_CASE("Code::undeclared_guard, Code::integer_overflow") {
  CHECK(refusals(cat(header, ".entry k() { @%p1 ret; }")) ==
        "undeclared_guard 4:14 `%p1` is not declared as a register here");
  CHECK(refusals(cat(header, ".entry k() { .reg .b64 a; mov.u64 a, 0x1FFFFFFFFFFFFFFFF; }")) ==
        "integer_overflow 4:38 `0x1FFFFFFFFFFFFFFFF` does not fit 64 bits");
}

TEST_CASE("Code::negated_operand: registers with a sign") {
  CHECK(refusals(cat(header, ".entry k() { .reg .b32 a; neg.s32 a, -a; }")) == "");
  CHECK(refusals(cat(header, ".entry k() { .reg .b32 a; neg.s32 a, -b; }")) ==
        "negated_operand 4:38 `-b`: a sign stands in front of numbers, and of registers in vmad");
  CHECK(operands("vmad.u32.u32.u32 %r1, a.h1, b, -%r2.b0;") == "reg:%r1 reg:a.h1 reg:b reg:-%r2.b0");
}

TEST_CASE("Code::bad_declaration") {
  CHECK(refusals(cat(header, ".global x;")) == "bad_declaration 4:1 a declaration names no type");
  CHECK(refusals(cat(header, ".global .foo .b32 x;")) == "bad_declaration 4:1 `.foo` is no word of a declaration");
  CHECK(refusals(cat(header, ".align 8 .b32 x;")) == "bad_declaration 4:1 a declaration names no state space");
  CHECK(refusals(cat(header, ".global .b32 x[-1];")) == "bad_declaration 4:15 `[-1]` is no size of an array");
  CHECK(refusals(cat(header, ".entry k() { .reg .b32 r<4000000000>; }")) ==
        "bad_declaration 4:25 `<4000000000>`: this stands for 0 to 4194304 names");
  CHECK(refusals(cat(header, ".entry k() { .reg .b32 r<4194304>, s; }")) ==
        "bad_declaration 4:14 a function declares at most 4194304 registers");
}

TEST_CASE("fixtures lower, emit, and read again as the same module") {
  const auto files = ptx_files(fs::path(PTX_SOURCE_DIR) / "tests/fixtures/syntax");
  REQUIRE(files.size() >= 14);
  for (const auto& file : files) check_fixed_point(file);
}

TEST_CASE("what compilers write lowers, emits, and reads again as the same module") {
  std::vector<fs::path> files = ptx_files(fs::path(PTX_SOURCE_DIR) / "../shared/corpus");
  if (const char* home = std::getenv("HOME")) {
    for (auto& file : ptx_files(fs::path(home) / ".cache/pyptx/corpus/ptx")) files.push_back(std::move(file));
  }
  if (files.empty()) {
    MESSAGE("skipped: no ../shared/corpus and no corpus in the cache");
    return;
  }
  for (const auto& file : files) check_fixed_point(file);
}

TEST_CASE("any bytes lower") {
  const std::string text = read(fs::path(PTX_SOURCE_DIR) / "tests/fixtures/syntax/operands.ptx") +
                           read(fs::path(PTX_SOURCE_DIR) / "tests/fixtures/syntax/functions.ptx");
  for (std::size_t at = 0; at < text.size(); ++at) {
    (void)lowered(std::string_view(text).substr(0, at));
    (void)lowered(std::string_view(text).substr(at));
    std::string without = text;
    without.erase(at, 1);
    (void)ir::emit(lowered(without).module);
  }
  (void)ir::emit(lowered(cat(".entry k() ", std::string(50000, '{'))).module);
}
