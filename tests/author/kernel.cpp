// The C++ face: mnemonics, words, literals, author's lines.
#include "ptx/author/kernel.h"

#include <algorithm>
#include <set>

#include "golden.h"
#include "ptx/author/literal.h"
#include "ptx/base/text.h"
#include "ptx/isa/spelling.h"

namespace ptx::author::testing {

TEST_CASE("one method a mnemonic, modifiers first") {
  using namespace ptx::modifiers;
  const auto built = author::kernel({.name = "k"}, [](Kernel& k) {
    const auto [x] = k.pointers({"X"});
    const Reg a = k.scalar(f32, 0.0), i = k.scalar(u32, 3), p = i < 5;
    k.ld(global, f32, a, k.at(x, 16));
    k.fma(rn, f32, a, a, a, 1.0);
    k.and_(b32, i, i, 7);
    "add.f32"_ptx(a, a, 0.5);
    "bar.sync"_ptx(0);
    k.mbarrier(try_wait, parity, acquire, cta, shared_cta, b64, p, k.at(i), 0);
    k.ret(when(!p));
    k.if_(p, [&] { k.mov(u32, i, 1 + i); });
    k.ret();
  });
  CHECK(body_of(ir::emit(built.module)) ==
        "\t.reg .b64 %rd0;\n\t.reg .f32 %f0;\n\t.reg .u32 %r0;\n\t.reg .pred %p<1>;\n\t.reg .u32 %r1;\n"
        "\tld.param.u64 %rd0, [X];\n\tcvta.to.global.u64 %rd0, %rd0;\n\tmov.f32 %f0, 0f00000000;\n\tmov.u32 %r0, 3;\n"
        "\tsetp.lt.u32 %p0, %r0, 5;\n\tld.global.f32 %f0, [%rd0+16];\n\tfma.rn.f32 %f0, %f0, %f0, 0f3F800000;\n"
        "\tand.b32 %r0, %r0, 7;\n\tadd.f32 %f0, %f0, 0f3F000000;\n\tbar.sync 0;\n"
        "\tmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p0, [%r0], 0;\n\t@!%p0 ret;\n\t@!%p0 bra $_else_0;\n"
        "\tadd.u32 %r1, %r0, 1;\n\tmov.u32 %r0, %r1;\n\tbra $_endif_1;\n$_else_0:\n$_endif_1:\n\tret;\n");
}

TEST_CASE("a refusal names the line that wrote it") {
  std::uint32_t line = 0;
  try {
    author::kernel({.name = "k"}, [&](Kernel& k) {
      const Reg a = k.scalar(modifiers::f32);
      line = __LINE__ + 1;
      k.add(modifiers::u32, a, a, a);
    });
    FAIL("nothing was refused");
  } catch (const Refused& refused) {
    CHECK(refused.why().front().code == Code::operand_type);
    CHECK(refused.why().front().place.line == line);
    CHECK(refused.why().front().place.file.view() == __FILE__);
  }
}

TEST_CASE("every statement knows its line") {
  const auto built = author::kernel({.name = "k"}, [](Kernel& k) {
    const Reg a = k.scalar(modifiers::u32);
    k.mov(modifiers::u32, a, 1);
    a + 1;
  });
  const int last = __LINE__ - 2;
  const auto& f = built.module.functions[0];
  CHECK(f.body.back().place.line == last);
  std::vector<Place> lines;
  const std::string text = ir::emit(built.module, {.locations = true}, &lines);
  CHECK(text.find(cat(".file 1 \"", __FILE__, "\"")) != text.npos);
  CHECK(text.find(cat("\t.loc 1 ", last, ' ')) != text.npos);
  CHECK(lines.size() == 1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')));
}

TEST_CASE("modifiers.def holds every modifier of every row, spelled by the rule") {
  std::set<std::string_view> listed;
#define MODIFIER(name, text) \
  listed.insert(text);       \
  CHECK(std::string_view(#name) == isa::cpp_name(text));
#include "ptx/author/modifiers.def"
#undef MODIFIER
  std::set<std::string_view> rows;
  for (const isa::Form& form : isa::forms()) {
    for (const isa::Modifier& m : form.modifiers) {
      if (m.slot == isa::Modifier::literal) rows.insert(form.text(m.text));
    }
    for (const isa::Value& v : form.values) rows.insert(form.text(v.text));
  }
  for (const std::string_view word : rows)
    CHECK_MESSAGE(listed.contains(word),
                  "modifiers.def lacks MODIFIER(" << isa::cpp_name(word) << ", \"" << word << "\")");
  for (const std::string_view word : listed)
    CHECK_MESSAGE(rows.contains(word), "modifiers.def has " << word << " for no row");
}

}  // namespace ptx::author::testing
