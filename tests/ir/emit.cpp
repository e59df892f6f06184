// Text from ir: each kind of operand, statement and declaration once; where lines come from; the smallest version.
#include <doctest/doctest.h>

#include "ptx/ir/ir.h"

namespace ptx::ir {

namespace {

// A function whose operands are put together by hand.
struct Made {
  Module module;
  Function f;

  Operand operand(Operand::Kind kind, std::int64_t value = 0, std::uint32_t id = no_id) {
    Operand o;
    o.kind = kind;
    o.id = id;
    o.value = value;
    return o;
  }
  Operand compound(Operand::Kind kind, std::vector<Operand> children, std::int64_t value = 0) {
    Operand o = operand(kind, value, static_cast<std::uint32_t>(f.operands.size()));
    o.child_count = static_cast<std::uint32_t>(children.size());
    f.operands.insert(f.operands.end(), children.begin(), children.end());
    return o;
  }
  Operand name(const char* text, std::int64_t offset = 0) {
    return operand(Operand::Kind::symbol, offset, Name(text).id());
  }
  void add(const char* mnemonic, std::vector<Operand> operands, Guard guard = {}, std::uint32_t line = 0) {
    const auto first = static_cast<std::uint32_t>(f.operands.size());
    f.operands.insert(f.operands.end(), operands.begin(), operands.end());
    f.body.push_back(
        {Statement::Kind::instruction, static_cast<std::uint32_t>(f.instructions.size()), {Name("a.py"), line, 3}});
    f.instructions.push_back(
        {isa::resolve(mnemonic), nullptr, first, static_cast<std::uint32_t>(operands.size()), guard});
  }
  std::string text(const EmitOptions& options = {}, std::vector<Place>* lines = nullptr) {
    module.items.push_back({Module::Item::Kind::function, 0});
    module.functions.push_back(f);
    return emit(module, options, lines);
  }
};

}  // namespace

TEST_CASE("operands") {
  using Kind = Operand::Kind;
  Made m;
  m.f.registers = {{isa::Type::u32, 1, Name("%r"), 3}, {isa::Type::pred, 1, Name("p"), -1}};
  const Operand r = m.operand(Kind::reg, 0, 0);
  Operand p = m.operand(Kind::reg, 0, 1);
  const auto text = [&](const Operand& o) { return to_string(m.f, o); };
  CHECK(text(r) == "%r3");
  p.negated = true;
  CHECK(text(p) == "!p");
  CHECK(text(m.operand(Kind::integer, -5)) == "-5");
  Operand wide = m.operand(Kind::integer, -1);
  wide.wide = true;
  CHECK(text(wide) == "18446744073709551615");
  CHECK(text(m.operand(Kind::f32, 0x3f800000)) == "0f3F800000");
  CHECK(text(m.operand(Kind::f64, 0x3ff0000000000000)) == "0d3FF0000000000000");
  CHECK(text(m.name("x")) == "x");
  CHECK(text(m.name("x", 8)) == "x+8");
  CHECK(text(m.operand(Kind::sink)) == "_");
  CHECK(text(m.compound(Kind::address, {r})) == "[%r3]");
  CHECK(text(m.compound(Kind::address, {r}, 16)) == "[%r3+16]");
  CHECK(text(m.compound(Kind::address, {r}, -4)) == "[%r3+-4]");
  const Operand xy = m.compound(Kind::vector, {m.operand(Kind::integer, 0), r});
  CHECK(text(m.compound(Kind::address, {r, xy})) == "[%r3, {0, %r3}]");
  CHECK(text(m.compound(Kind::list, {r, r})) == "(%r3, %r3)");
  CHECK(text(m.compound(Kind::pair, {r, r})) == "%r3|%r3");
  Operand part = r;
  part.component = 1;
  CHECK(text(part) == "%r3.y");
}

TEST_CASE("a module") {
  Made m;
  Variable v;
  v.linking = "visible";
  v.space = isa::Space::global;
  v.alignment = 8;
  v.type = isa::Type::f32;
  v.name = Name("table");
  v.dims = {2, -1};
  v.initializer = "{1, 2}";
  m.module.variables = {v};
  m.module.texts = {".file 1 \"b.py\""};
  m.module.items = {{Module::Item::Kind::directive, 0}, {Module::Item::Kind::variable, 0}};
  m.f.name = Name("k");
  m.f.linking = "visible";
  Variable parameter;
  parameter.space = isa::Space::param;
  parameter.type = isa::Type::u64;
  parameter.pointer = ".ptr .global .align 16";
  parameter.name = Name("x");
  m.f.parameters = {parameter};
  m.f.directives = {".maxntid 32, 1, 1"};
  m.f.registers = {
      {isa::Type::pred, 1, Name("%p"), 0}, {isa::Type::b32, 1, Name("%r"), 0}, {isa::Type::b32, 1, Name("%r"), 1}};
  m.f.declarations = {{0, 1, true}, {1, 2, false}};
  m.f.texts = {"note", ".pragma \"nounroll\";"};
  m.f.locations = {{1, 2, 3, ""}};
  using Kind = Statement::Kind;
  for (const auto& [kind, index] : {std::pair{Kind::registers, 0u},
                                    {Kind::registers, 1u},
                                    {Kind::comment, 0u},
                                    {Kind::directive, 1u},
                                    {Kind::location, 0u},
                                    {Kind::open, 0u},
                                    {Kind::close, 0u},
                                    {Kind::label, Name("end").id()}})
    m.f.body.push_back({kind, index, {}});
  m.add("ret", {}, {0, true}, 7);
  std::vector<Place> lines;
  const std::string text = m.text({.locations = true}, &lines);
  CHECK(text ==
        ".version 8.0\n.target sm_90a\n.address_size 64\n.file 2 \"a.py\"\n.file 1 \"b.py\"\n"
        ".visible .global .align 8 .f32 table[2][] = {1, 2};\n\n"
        ".visible .entry k(\n\t.param .u64 .ptr .global .align 16 x\n)\n.maxntid 32, 1, 1\n{\n"
        "\t.reg .pred %p<1>;\n\t.reg .b32 %r0, %r1;\n\t// note\n\t.pragma \"nounroll\";\n\t.loc 1 2 3\n{\n}\nend:\n"
        "\t.loc 2 7 3\n\t@!%p0 ret;\n}\n");
  REQUIRE(lines.size() == 24);
  CHECK(lines[22].line == 7);
  CHECK(lines[0].line == 0);
}

TEST_CASE("the version is the smallest that target and instructions need, unless it is given") {
  const auto version = [](const char* target, const char* mnemonic, isa::Version given = {}) {
    Made m;
    m.module.target = target;
    m.module.version = given;
    m.add(mnemonic, {});
    const std::string text = m.text();
    return text.substr(9, text.find('\n') - 9);
  };
  CHECK(version("sm_80", "ret") == "7.0");
  CHECK(version("sm_90a", "ret") == "8.0");
  CHECK(version("sm_90a", "ret", {8, 5}) == "8.5");
  CHECK(version("sm_80", "add.f32") == "7.0");
  CHECK(version("sm_80", "griddepcontrol.wait") == "7.8");
}

}  // namespace ptx::ir
