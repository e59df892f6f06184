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

// The statements of a body, without declarations, on one line.
std::string statements_of(const std::function<void(Kernel&)>& body) {
  std::string text;
  for (const char c : body_of(ir::emit(author::kernel({.name = "k"}, body).module))) {
    if (c == '\t') continue;
    text += c == '\n' ? ' ' : c;
  }
  for (std::size_t at; (at = text.find(".reg ")) != text.npos;) text.erase(at, text.find(';', at) + 2 - at);
  return text;
}

TEST_CASE("a method returns its first operand") {
  using namespace ptx::modifiers;
  CHECK(statements_of([](Kernel& k) {
          const Reg a = k.mov(u32, k.scalar(u32), 5);
          const Reg sum = k.add(u32, k.scalar(u32), a, 1);
          k.ret(when(sum > 2));
        }) == "mov.u32 %r0, 5; add.u32 %r1, %r0, 1; setp.gt.u32 %p0, %r1, 2; @%p0 ret; ");
}

TEST_CASE("elements of an array side by side") {
  using namespace ptx::modifiers;
  const auto stores = [](std::uint32_t first, std::uint32_t count) {
    return statements_of([&](Kernel& k) {
      const RegArray a = k.array(f32, 8);
      const Reg address = k.mov(u32, k.scalar(u32), 0);
      k.st(shared, v2, f32, k.at(address), k.vector(a, first, count));
    });
  };
  CHECK(stores(6, 2).find("{%f6, %f7}") != std::string::npos);
  CHECK(statements_of([](Kernel& k) {
          const std::vector<Reg> some = {k.scalar(f32), k.scalar(f32)};
          k.st(shared, v2, f32, k.at(k.scalar(u32)), k.vector(some));
        }).find("{%f0, %f1}") != std::string::npos);
  CHECK_THROWS_WITH(stores(7, 2), doctest::Contains("register 8 of an array of 8"));
}

TEST_CASE("blocks as compilers write them") {
  using namespace ptx::modifiers;
  CHECK(statements_of([](Kernel& k) {
          const Reg a = k.scalar(u32, 1), p = a < 3;
          k.when(p, [&] { a += 1; });
          k.otherwise(uni, [&] {
            k.loop("again", [&] {
              a -= 1;
              k.loop_while(uni, !p);
            });
          });
          k.when(uni, !p, [&] { k.loop("ever", [&] { k.loop_while(); }); });
          k.loop("last", [&] { k.loop_while(p); });
        }) ==
        "mov.u32 %r0, 1; setp.lt.u32 %p0, %r0, 3; @!%p0 bra $_end_0; add.u32 %r0, %r0, 1; bra.uni $_end_1; "
        "$_end_0: again: sub.s32 %r0, %r0, 1; @!%p0 bra.uni again; $_end_1: @%p0 bra.uni $_end_2; ever: bra ever; "
        "$_end_2: last: @%p0 bra last; ");
  CHECK(statements_of([](Kernel& k) {
          const Reg p = k.scalar(u32, 1) < 3;
          k.loop("top", [&](const auto& loop) {
            k.block([&](const auto& part) { part.leave(!p), part.leave(uni, p), part.leave(), loop.again(uni); });
            loop.again(p), loop.leave(uni);
            k.loop_while(p);
          });
          k.block({.label = "next", .late = true}, [&](const auto& part) { part.again(uni, p), part.enter(); });
        }) ==
        "mov.u32 %r0, 1; setp.lt.u32 %p0, %r0, 3; top: @!%p0 bra $_end_0; @%p0 bra.uni $_end_0; bra $_end_0; "
        "bra.uni top; $_end_0: @%p0 bra top; bra.uni $_end_1; @%p0 bra top; $_end_1: "
        "bra $_enter_2; next: @%p0 bra.uni next; $_enter_2: ");
  CHECK_THROWS_WITH(statements_of([](Kernel& k) { k.block([](const auto& part) { part.leave(rn); }); }),
                    doctest::Contains("`uni`, not `rn`"));
  CHECK_THROWS_WITH(statements_of([](Kernel& k) { k.otherwise(rn, [] {}); }), doctest::Contains("`uni`, not `rn`"));
  CHECK_THROWS_WITH(statements_of([](Kernel& k) { k.loop_while(); }), doctest::Contains("no loop is open"));
}

TEST_CASE("a table of targets") {
  using namespace ptx::modifiers;
  const auto add = [](const Reg& a) { return [&a] { a += 1; }; };
  CHECK(statements_of([&](Kernel& k) {
          const Reg a = k.scalar(u32, 1);
          k.switch_(a, [&] {
            k.case_({0, 3}, add(a));
            k.case_({1}, {.falls = true}, add(a));
            k.case_({4}, {.uniform = true}, add(a));
            k.case_({5}, add(a));
          });
        }) ==
        "mov.u32 %r0, 1; $_targets_1: .branchtargets $_case_2, $_case_3, $_end_0, $_case_2, $_case_4, $_case_5; "
        "brx.idx %r0, $_targets_1; $_case_2: add.u32 %r0, %r0, 1; bra $_end_0; $_case_3: add.u32 %r0, %r0, 1; "
        "$_case_4: add.u32 %r0, %r0, 1; bra.uni $_end_0; $_case_5: add.u32 %r0, %r0, 1; $_end_0: ");
  CHECK(statements_of([&](Kernel& k) {
          const Reg a = k.scalar(u32, 1), p = a > 2;
          k.switch_(a, {.otherwise = when(p), .count = 3, .uniform = true}, [&] {
            k.case_({}, {.otherwise = true}, add(a));
            k.case_({1}, add(a));
          });
        }) ==
        "mov.u32 %r0, 1; setp.gt.u32 %p0, %r0, 2; @%p0 bra $_default_1; $_targets_2: .branchtargets $_default_1, "
        "$_case_3, $_default_1; brx.idx.uni %r0, $_targets_2; $_default_1: add.u32 %r0, %r0, 1; bra $_end_0; "
        "$_case_3: add.u32 %r0, %r0, 1; $_end_0: ");
}

TEST_CASE("a table of targets, refused") {
  using namespace ptx::modifiers;
  const auto refuses = [](const char* why, const std::function<void(Kernel&, const Reg&)>& cases) {
    CHECK_THROWS_WITH(statements_of([&](Kernel& k) {
                        const Reg a = k.scalar(u32, 1);
                        k.switch_(a, [&] { cases(k, a); });
                      }),
                      doctest::Contains(why));
  };
  const auto nothing = [] {};
  refuses("has no case", [](Kernel&, const Reg&) {});
  refuses("has a case 2 already", [&](Kernel& k, const Reg&) { k.case_({2}, nothing), k.case_({1, 2}, nothing); });
  refuses("a case needs an index, or must be the default", [&](Kernel& k, const Reg&) { k.case_({}, nothing); });
  refuses("without the predicate", [&](Kernel& k, const Reg&) { k.case_({}, {.otherwise = true}, nothing); });
  refuses("must be in one of its cases", [&](Kernel& k, const Reg& a) { k.case_({0}, nothing), a += 1; });
  refuses("up to 65536 targets", [&](Kernel& k, const Reg&) { k.case_({1u << 20}, nothing); });
  refuses("innermost open block is not a switch",
          [&](Kernel& k, const Reg&) { k.when(k.scalar(pred), [&] { k.case_({0}, nothing); }); });
  CHECK_THROWS_WITH(statements_of([&](Kernel& k) { k.switch_(k.scalar(f32), nothing); }),
                    doctest::Contains("takes a .u32 or .b32 register"));
  CHECK_THROWS_WITH(statements_of([&](Kernel& k) {
                      const Reg a = k.scalar(u32, 1), p = a > 2;
                      k.switch_(a, {.otherwise = when(p)}, [&] { k.case_({0}, nothing); });
                    }),
                    doctest::Contains("has no default case"));
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

TEST_CASE("what is of another kernel, or of none, is refused at its line") {
  using namespace ptx::modifiers;
  const auto said = [](const std::function<void(Kernel&)>& body, author::Options options = {.name = "k"}) {
    try {
      author::kernel(std::move(options), body);
    } catch (const Refused& refused) {
      const Diagnostic& why = refused.why().front();
      return cat(std::string_view(why.place.file.view()).ends_with("kernel.cpp") ? "" : "elsewhere: ", why.message);
    }
    return std::string("nothing");
  };
  Reg left, ready;  // of kernels that are over
  said([&](Kernel& k) { left = k.scalar(u32), ready = k.scalar(pred); });
  CHECK(said([&](Kernel& k) {
          k.mov(u32, k.scalar(u32), left);
        }).starts_with("the register belongs to a kernel that is"));
  CHECK(said([&](Kernel& k) { k.ret(when(ready)); }).starts_with("the register belongs to a kernel that is"));
  CHECK(said([](Kernel& k) { k.ret(when(Reg())); }) == "a guard is a predicate of another kernel");
  CHECK(said([](Kernel& k) { k.ret(when(k.scalar(f32))); }).starts_with("a guard has to be a predicate, not %f0"));
  CHECK(said([](Kernel& k) { k.ret(); }, {.name = ""}) == "a kernel needs a name: {.name = \"scale\"}");
  CHECK(said([](Kernel& k) {
          k.func({.name = "f", .parameters = {{u32, "x"}}, .returns = {u32}},
                 [](Kernel& f, const author::Arguments& in) { f.give(in[1]); });
        }) == "argument 1 of 1 of a function: they count from 0");
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
