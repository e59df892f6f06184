// Functions with bodies, calls, tables of targets, variables of the module: the goldens' texts from C++, and what is
// refused.
#include "golden.h"
#include "ptx/author/barrier.h"
#include "ptx/author/control.h"
#include "ptx/author/kernel.h"
#include "ptx/author/shared.h"
#include "ptx/base/text.h"
#include "ptx/ir/lower.h"
#include "ptx/syntax/parse.h"

namespace ptx::author::testing {

namespace {

using enum isa::Type;
namespace m = ptx::modifiers;

std::string text(const std::function<void(Kernel&)>& body) {
  return ir::emit(author::kernel({.name = "k"}, body).module);
}

Code refused(const std::function<void(Kernel&)>& body) {
  try {
    author::kernel({.name = "k"}, body);
  } catch (const Refused& why) {
    return why.why().front().code;
  }
  return {};
}

std::string message(const std::function<void(Kernel&)>& body) {
  try {
    author::kernel({.name = "k"}, body);
  } catch (const Refused& why) {
    return why.why().front().message;
  }
  return {};
}

}  // namespace

TEST_CASE("functions: the text that Python's @ptx.func writes") {
  CHECK(text([](Kernel& k) {
          const Reg x = k.scalar(f32, 2.0);
          const Callable horner =
              k.func({.name = "horner", .parameters = {{f32, "x"}, {{f32, f32}, "c"}}, .returns = {f32}},
                     [](Kernel& f, const Arguments& in) {
                       const Reg y = f.scalar(f32);
                       f.fma(m::rn, m::f32, y, in.field(1, 1), in[0], in.field(1, 0));
                       f.give(y);
                     });
          const Reg y = horner(x, {1.0, x});
          Callable down = k.func({.name = "down",
                                  .parameters = {{u32, "n"}, Parameter::array(8, 4, "bytes")},
                                  .returns = {{u32, u32}},
                                  .linking = "visible"});
          const Reg one = [&] {
            k.define(down, [&](Kernel& f, const Arguments& in) {
              const Reg n = in[0], v = f.scalar(u32);
              f.ld(m::param, m::u32, v, f.at(Operand("bytes"), 4));
              f.if_(n == 0, [&] { f.give({n, v}); });
              const Results r = down(n - 1, {v, n});
              f.give({r[0], r[1]});
            });
            return k.scalar(u32, 1);
          }();
          const Reg two = k.scalar(u32, 2);
          const Results ab = down(3, {one, two});
          const Callable fast =
              k.func({.name = "fast", .parameters = {{u32, "n"}, {f32, "x"}}, .returns = {f32}, .registers = true},
                     [](Kernel& g, const Arguments& in) {
                       const Reg f = g.scalar(f32);
                       g.cvt(m::rn, m::f32, m::u32, f, in[0]);
                       g.mul(m::f32, f, f, in[1]);
                       g.give(f);
                     });
          fast(ab[0], 0.5);
          const Reg p = ab[0] == 7;
          const Callable stop = k.func({.name = "stop", .parameters = {{u32, "code"}}, .directives = {".noreturn"}},
                                       [](Kernel& f, const Arguments&) { f.trap(); });
          call(k, stop, std::array{Argument{ab[1]}}, {.guard = when(p)});
          const Reg null = k.scalar(b64, 0);
          const Callable vprintf = k.func({.name = "vprintf",
                                           .parameters = {{b64, "format"}, {b64, "arguments"}},
                                           .returns = {b32},
                                           .linking = "extern"});
          call(k, vprintf, std::array{Argument{null}, Argument{0}}, {.uniform = true});
          k.ret();
          (void)y;
        }) == fixture("device_functions"));
}

TEST_CASE("variables of the module: the text that Python writes") {
  using isa::Space;
  CHECK(text([](Kernel& k) {
          const Variable table = k.variable(
              {.space = Space::const_, .type = f32, .name = "table", .dims = {3}, .init = Initial{1.0, 2, 0.5}});
          const Variable words = k.variable({.type = u32,
                                             .dims = {-1, 2},
                                             .align = 16,
                                             .linking = "visible",
                                             .init = Initial{Initial{1, 2}, Initial(std::vector{3})}});
          k.variable({.space = Space::const_, .type = u8, .dims = {-1}, .init = Initial::text("hi")});
          k.variable({.type = bf16, .dims = {2}, .init = Initial{1.0, -2.0}});
          k.variable({.type = f32, .vector = 2, .init = Initial{3, 4}});
          const std::string at(words.name.view());
          const Variable pointers = k.variable(
              {.type = u64,
               .dims = {3},
               .init = Initial{Initial::address(at), Initial::address(at, 8), Initial::address(at, 4, true)}});
          k.variable({.type = u8,
                      .dims = {3},
                      .init = Initial{Initial::address(at, 4).mask(0), Initial::address(at, 0, true).mask(1),
                                      Initial(0x1234).mask(1)}});
          k.variable({.type = s32, .name = "other", .linking = "extern"});
          k.variable({.type = u64, .name = "both", .attributes = ".managed"});
          const Variable ring = k.variable({.space = Space::shared, .type = b64, .dims = {4}});
          const Reg i = k.from(k.tid_x(), u32), f = k.scalar(f32), d = k.scalar(u64);
          k.ld(m::const_, m::f32, f, table[i]);
          k.ld(m::const_, m::f32, f, table.at(k, 2));
          k.ld(m::const_, m::f32, f, table.at(k, 1));
          k.mov(m::u64, d, table.at(k, 1));
          k.mov(m::u64, d, pointers);
          k.ld(m::global, m::u64, d, k.at(pointers, 8));
          k.st(m::shared, m::b64, ring[i], d);
          k.ret();
        }) == fixture("module_variables"));
}

TEST_CASE("a result of a call, a barrier and a special register stand where an operand does") {
  const std::string written = text([](Kernel& k) {
    const auto one_more = k.func({.name = "one_more", .parameters = {{u32, "x"}}, .returns = {u32}},
                                 [](Kernel& f, const Arguments& in) { f.give(in[0] + 1); });
    const Barriers bar = barriers(k, 1);
    const Reg sum = k.scalar(u32);
    k.add(m::u32, sum, one_more(k.from(k.tid_y(), u32)), sum);
    k.mov(m::u32, sum, one_more(sum));
    mbarrier::wait(k, bar[0], 0);
    k.mov(m::u32, sum, k.laneid());
    k.ret();
  });
  for (const char* line : {"mov.u32 %r1, %tid.y;", "mov.u32 %r0, %laneid;", "[mbar_0], 0;"})
    CHECK(written.find(line) != written.npos);
}

TEST_CASE("calls through registers: the text that Python writes") {
  CHECK(text([](Kernel& k) {
          const auto adds = [&](const char* name, int n) {
            return k.func({.name = name, .parameters = {{u32, "x"}}, .returns = {u32}},
                          [n](Kernel& f, const Arguments& in) { f.give(in[0] + n); });
          };
          const Function both[] = {adds("one", 1), adds("two", 2)};
          const Variable table = k.variable({.space = isa::Space::const_,
                                             .type = u64,
                                             .dims = {2},
                                             .init = Initial{Initial::address("one"), Initial::address("two")}});
          const Reg i = k.from(k.tid_x(), u32), f = k.scalar(u64);
          k.ld(m::const_, m::u64, f, table[i]);
          const Reg y = call(k, f, call_targets(k, both), std::array{Argument{i}})[0];
          k.mov(m::u64, f, address_of(k, both[1]));
          const CallTable unary = prototype(k, {.name = "unary", .parameters = {u32}, .returns = {u32}});
          const Reg z = call(k, f, unary, std::array{Argument{y}})[0];
          const Reg w = call(k, alias(k, "uno", both[0]), std::array{Argument{z}})[0];
          k.brx(m::idx, w, branch_targets(k, std::array<std::string, 2>{"first", "last"}));
          k.label("first");
          k.module_text(".pragma \"nounroll\";");
          k.label("last");
          k.ret();
        }) == fixture("indirect_calls"));
}

TEST_CASE("functions that call each other have a prototype; an unfinished one is refused") {
  const std::string made = text([](Kernel& k) {
    const Callable even = k.func({.name = "even", .parameters = {{u32, "n"}}, .returns = {u32}});
    const Callable odd = k.func({.name = "odd", .parameters = {{u32, "n"}}, .returns = {u32}},
                                [&](Kernel& f, const Arguments& in) { f.give(even(in[0])); });
    k.define(even, [&](Kernel& f, const Arguments& in) { f.give(odd(in[0])); });
    even(4);
    k.ret();
  });
  const std::size_t declared = made.find(") even("), odd = made.find(") odd("),
                    defined = made.find(") even(", declared + 1);
  CHECK(declared < odd);
  CHECK(odd < defined);
  CHECK(made.find(") odd(", odd + 1) == made.npos);
  CHECK(refused([](Kernel& k) {
          k.func({.name = "later", .parameters = {{u32, "n"}}})(4);
          k.ret();
        }) == Code::undefined_name);
}

TEST_CASE("a call is judged at its line") {
  const auto with = [](const std::function<void(Kernel&, const Callable&)>& body) {
    return [body](Kernel& k) {
      body(k, k.func({.name = "f", .parameters = {{u32, "n"}, {f32, "x"}}, .returns = {f32}},
                     [](Kernel& f, const Arguments& in) { f.give(in[1]); }));
    };
  };
  CHECK(message(with([](Kernel&, const Callable& f) { f(1); })) == "`f` takes 2 arguments, not 1");
  CHECK(message(with([](Kernel& k, const Callable& f) { f(1, k.scalar(u32)); })) ==
        "`f`: argument 2 (x) is .f32, not %r0 of type .u32");
  CHECK(message(with([](Kernel&, const Callable& f) { f(1.5, 1.5); })) == "`f`: argument 1 (n) is .u32, not 1.5");
  CHECK(message(with([](Kernel& k, const Callable& f) {
          const Reg a = k.scalar(u32), b = k.scalar(u32);
          f({a, b}, 1.0);
        })) == "`f`: argument 1 (n) is .u32: 1 value, not 2");
  CHECK(refused(with([](Kernel& k, const Callable& f) {
          call(k, f, std::array{Argument{1}, Argument{1.0}}, {.guard = when(k.scalar(pred))});
        })) == Code::bad_argument);
  const auto body = [](const FunctionOptions& options, const Kernel::Body& write) {
    return [=](Kernel& k) { k.func(options, write); };
  };
  const FunctionOptions gives{.name = "f", .returns = {f32}}, none{.name = "f"};
  CHECK(message(body(gives, [](Kernel&, const Arguments&) {})) ==
        "`f` ends without a result: return one; in C++, f.give(result)");
  CHECK(message(body(none, [](Kernel& f, const Arguments&) { f.give(1); })) ==
        "`f` returns nothing; give the type of its result in its signature");
  CHECK(refused(body(gives, [](Kernel& f, const Arguments&) { f.give({1.0, 2.0}); })) == Code::wrong_arguments);
  CHECK(refused([](Kernel& k) { k.give(1); }) == Code::bad_argument);
  CHECK(refused(body(none, [](Kernel& f, const Arguments&) { begin_loop(f, "l"); })) == Code::open_block);
  CHECK(refused(body(none, [](Kernel& f, const Arguments&) { f.tensor_map("X"); })) == Code::bad_argument);
  CHECK(refused([](Kernel& k) {
          const Reg a = k.scalar(f32);
          k.func({.name = "f", .returns = {f32}}, [&](Kernel& f, const Arguments&) { f.give(a); });
        }) == Code::foreign_register);
}

TEST_CASE("signatures that PTX does not have") {
  const auto declares = [](FunctionOptions options) { return refused([=](Kernel& k) { k.func(options); }); };
  CHECK(declares({.name = ""}) == Code::bad_argument);
  CHECK(declares({.name = "f", .linking = "common"}) == Code::bad_argument);
  CHECK(declares({.name = "f", .parameters = {pred}}) == Code::bad_argument);
  CHECK(declares({.name = "f", .parameters = {u16}, .registers = true}) == Code::bad_argument);
  CHECK(declares({.name = "f", .parameters = {{{u32, u32}, "s"}}, .registers = true}) == Code::bad_argument);
  CHECK(declares({.name = "f", .returns = {u32, u32}}) == Code::bad_argument);
  CHECK(declares({.name = "f", .parameters = {{u32, "x"}, {u32, "x"}}}) == Code::redeclared_name);
  CHECK(declares({.name = "f", .parameters = {Parameter::array(-1, 4, "a"), {u32, "x"}}}) == Code::directive_value);
  CHECK(declares({.name = "f", .returns = {u32}, .directives = {".noreturn"}}) == Code::directive_value);
  CHECK(declares({.name = "k"}) == Code::duplicate_name);  // the kernel's
  CHECK(declares({.name = "f", .parameters = {Parameter::array(6, 3, "a")}}) == Code::directive_value);
  CHECK(refused([](Kernel& k) {
          const Callable f = k.func({.name = "f"}, [](Kernel&, const Arguments&) {});
          k.define(f, [](Kernel&, const Arguments&) {});
        }) == Code::duplicate_name);
  CHECK(refused([](Kernel& k) {
          k.define(k.func({.name = "f", .linking = "extern"}), [](Kernel&, const Arguments&) {});
        }) == Code::bad_argument);
  CHECK(refused([](Kernel& k) { alias(k, "g", k.func({.name = "f"})); }) == Code::bad_argument);
  CHECK(refused([](Kernel& k) { branch_targets(k, {}); }) == Code::bad_argument);
  CHECK(refused([](Kernel& k) { call_targets(k, {}); }) == Code::bad_argument);
  CHECK(refused([](Kernel& k) {
          const Reg narrow = k.scalar(u32);
          call(k, narrow, prototype(k, {}), {});
        }) == Code::bad_operand);
}

TEST_CASE("variables that PTX does not have") {
  using isa::Space;
  const auto declares = [](VariableOptions options) { return refused([=](Kernel& k) { k.variable(options); }); };
  CHECK(declares({.type = pred}) == Code::directive_value);
  CHECK(declares({.space = Space::shared, .type = u32, .init = Initial(1)}) == Code::directive_value);
  CHECK(declares({.space = Space::const_, .type = u32, .linking = "common"}) == Code::directive_value);
  CHECK(declares({.type = u32, .dims = {2}, .init = Initial{1, 2, 3}}) == Code::bad_argument);
  CHECK(declares({.type = u32, .dims = {2}, .init = Initial(1)}) == Code::bad_argument);
  CHECK(declares({.type = u32, .init = Initial{1}}) == Code::bad_argument);
  CHECK(declares({.type = u8, .init = Initial(256)}) == Code::bad_argument);
  CHECK(declares({.type = u32, .init = Initial(1.5)}) == Code::bad_argument);
  CHECK(declares({.type = f32, .vector = 4, .init = Initial{1, 2}}) == Code::bad_argument);
  CHECK(declares({.type = u16, .init = Initial::address("k")}) == Code::bad_argument);
  CHECK(declares({.type = u32, .dims = {-1}}) == Code::directive_value);
  CHECK(declares({.type = u32, .name = "k"}) == Code::duplicate_name);
  const auto indexes = [](const std::function<void(Kernel&, const Variable&)>& body) {
    return refused([=](Kernel& k) { body(k, k.variable({.type = u32, .dims = {4}})); });
  };
  CHECK(indexes([](Kernel& k, const Variable& v) { v.at(k, 4); }) == Code::index_range);
  CHECK(indexes([](Kernel& k, const Variable& v) { v.at(k, -1); }) == Code::index_range);
  CHECK(indexes([](Kernel& k, const Variable& v) { v.at(k, k.scalar(u64)); }) == Code::bad_operand);
  CHECK(indexes([](Kernel& k, const Variable& v) { k.add(m::u32, k.scalar(u32), v.at(k, 1), 1); }) ==
        Code::operand_kind);
  const auto rows = [](const std::function<void(Kernel&, const Variable&)>& body) {
    return message([=](Kernel& k) { body(k, k.variable({.type = u32, .name = "rows", .dims = {2, 3}})); });
  };
  CHECK(rows([](Kernel& k, const Variable& v) { v.at(k, {1, 2, 0}); }) ==
        "`rows` has 2 dimensions; this is one index too many");
  CHECK(rows([](Kernel& k, const Variable& v) { v.at(k, {1, 3}); }) == "element 3 of `rows`, which has 3");
  CHECK(rows([](Kernel& k, const Variable& v) {
          v.at(k, k.scalar(u32));
        }).starts_with("`rows` has 2 dimensions; only the last index may be a register"));
  CHECK(rows([](Kernel& k, const Variable& v) { v.at(k, {1, 0.5}); }) ==
        "an index must be a number or a 32-bit integer register");
  CHECK(message([](Kernel& k) { element(k, k.scalar(u32), 1); }) ==
        "only an array of several dimensions has rows with elements");
  CHECK(refused([](Kernel& k) { k.module_text("nothing"); }) == Code::misplaced_statement);
}

TEST_CASE("rows and elements of an array of several dimensions") {
  CHECK(text([](Kernel& k) {
          const Variable t = k.variable({.space = isa::Space::const_, .type = f32, .name = "t", .dims = {2, 3}});
          const Reg x = k.scalar(f32), i = k.scalar(u32, 1), p = k.scalar(u64);
          k.ld(m::const_, m::f32, x, t.at(k, {1, 2}));
          k.ld(m::const_, m::f32, x, t.at(k, {1, i}));
          k.mov(m::u64, p, t.at(k, 1));
          k.ret();
        }).find("\tld.const.f32 %f0, [t+20];\n\tld.const.f32 %f0, t[%r0+3];\n\tmov.u64 %rd0, t+12;\n") !=
        std::string::npos);
}

TEST_CASE("functions as text are judged with the module that they stand in") {
  constexpr const char* twice =
      ".func (.param .u32 r) twice(.param .u32 a)\n{\n\t.reg .u32 x;\n\tld.param.u32 x, [a];\n\tadd.u32 x, x, x;\n"
      "\tst.param.u32 [r], x;\n\tret;\n}";
  const std::string made = text([&](Kernel& k) {
    k.module_text(twice);
    k.text("{\n .param .u32 p;\n .param .u32 q;\n st.param.u32 [p], 3;\n call (q), twice, (p);\n}");
    k.ret();
  });
  CHECK(made.find("add.u32 x, x, x;") < made.find(".visible .entry k()"));
  CHECK(made.find("\tcall (q), twice, (p);\n") != made.npos);
  CHECK(message([&](Kernel& k) {
          k.module_text(twice);
          k.module_text(twice);
        }) == "`twice` is declared already in this module");
  CHECK(message([](Kernel& k) {
          k.module_text(".func f()\n{\n\tnonsense x;\n\tret;\n}");
          k.ret();
        }) == "no instruction is called `nonsense`");
  CHECK(
      message([](Kernel& k) { k.module_text(".func f()\n{\n\tadd.u32 1 2;\n}"); }).starts_with("line 3 of the text: "));
  CHECK(message([&](Kernel& k) { k.declare(twice); }).ends_with("only declarations are taken here: use module_text"));
}

TEST_CASE("several kernels in one module; shared memory of functions counts among the kernel's 48 KiB") {
  Module module;
  for (const char* name : {"a", "b"}) {
    CHECK(module.kernel({.name = name, .dynamic_shared = 64}, [](Kernel& k) { k.ret(); }).dynamic_shared == 64);
  }
  CHECK(
      ir::emit(module.finish().module) ==
      ".version 8.0\n.target sm_90a\n.address_size 64\n\n.visible .entry a()\n{\n\tret;\n}\n\n.visible .entry b()\n{\n"
      "\tret;\n}\n");
  Module again;
  again.kernel({.name = "a"}, [](Kernel& k) { k.ret(); });
  CHECK_THROWS_AS(again.kernel({.name = "a"}, [](Kernel& k) { k.ret(); }), Refused);

  const auto built = author::kernel({.name = "k"}, [](Kernel& k) {
    k.func({.name = "f"}, [](Kernel& f, const Arguments&) { shared(f, u8, {20000}, Swizzle::none, 0, "mine"); })();
    shared(k, u8, {30000});
    k.ret();
  });
  CHECK(built.static_shared == 20000);
  CHECK(built.dynamic_shared == 30000);
}

}  // namespace ptx::author::testing
