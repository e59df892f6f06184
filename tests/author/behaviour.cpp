// What is computed, not how it is spelled: one test a defect that authoring must not have, and one refusal a diagnostic
// code.
#include <deque>
#include <limits>
#include <optional>
#include <stdexcept>

#include "golden.h"
#include "ptx/author/barrier.h"
#include "ptx/author/control.h"
#include "ptx/author/copy.h"
#include "ptx/author/expression.h"
#include "ptx/author/kernel.h"
#include "ptx/author/matrix.h"
#include "ptx/author/shared.h"
#include "ptx/author/tcgen05.h"
#include "ptx/author/template.h"
#include "ptx/author/warp.h"
#include "ptx/base/text.h"

namespace ptx::author::testing {

using enum isa::Type;

namespace {

std::string text(const std::function<void(Builder&)>& body, Options options = {}) {
  return body_of(trace(body, options));
}

bool has(const std::string& where, std::string_view what) { return where.find(what) != std::string::npos; }

std::size_t count(const std::string& where, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = where.find(what); at != where.npos; at = where.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("parts of registers, as the video instructions take them") {
  const std::string parts = text([](Builder& b) {
    const Reg d = b.scalar(s32, 0), x = b.scalar(u32, 1), y = b.scalar(s32, 2);
    b.emit("vadd.s32.u32.s32", {part(d, "h1"), part(x, "b0"), part(y, "h1"), d});
    b.emit("vmad.s32.u32.s32", {d, minus(part(x, "b2")), y, d});
    b.emit("vmad.s32.u32.s32", {d, x, y, minus(d)});
    b.emit("vadd2.s32.u32.s32", {part(d, "h10"), part(x, "h32"), part(y, "h10"), d});
  });
  CHECK(has(parts, "vadd.s32.u32.s32 %r0.h1, %r1.b0, %r2.h1, %r0;"));
  CHECK(has(parts, "vmad.s32.u32.s32 %r0, -%r1.b2, %r2, %r0;"));
  CHECK(has(parts, "vmad.s32.u32.s32 %r0, %r1, %r2, -%r0;"));
  CHECK(has(parts, "vadd2.s32.u32.s32 %r0.h10, %r1.h32, %r2.h10, %r0;"));
  const auto refused = [](std::string_view word) {
    try {
      text([&](Builder& b) {
        const Reg x = b.scalar(u32, 1);
        b.emit(word == "h1" ? "add.u32" : "vadd.u32.u32.u32", {x, part(x, word), x});
      });
    } catch (const Refused& why) {
      return why.why().at(0).code;
    }
    return Code{};
  };
  CHECK(refused("h1") == Code::selector);  // no video instruction
  CHECK(refused("h10") == Code::selector);
  CHECK(refused("b3") == Code{});
}

TEST_CASE("operands of several parts: brackets, pairs, tables of labels") {
  const std::string made = text(
      [](Builder& b) {
        const Reg t = b.scalar(u64, 0), x = b.scalar(f32, 0.0), p = b.scalar(pred), i = b.scalar(u32, 0);
        const Operand where = b.vector({x, x});
        const Operand parts[] = {t, t, where};
        b.emit("tex.2d.v4.f32.f32", {b.pair(b.vector({x, x, x, x}), p), b.bracket(parts)});
        b.emit("elect.sync", {b.pair(sink(), p), 1});
        ir::Variable variable;
        variable.type = f32, variable.name = Name("gv"), variable.attributes = ".unified(1, 2)";
        b.variable(variable, true);
        Address unified = b.address("gv");
        unified.unified = true;
        b.emit("ld.global.f32", {x, unified});
        b.table("table: .branchtargets first, second;");
        b.emit("brx.idx", {i, "table"});
        b.label("first"), b.label("second");
      },
      {.target = "sm_90, texmode_independent"});
  CHECK(has(made, "tex.2d.v4.f32.f32 {%f0, %f0, %f0, %f0}|%p0, [%rd0, %rd0, {%f0, %f0}];"));
  CHECK(has(made, "elect.sync _|%p0, 1;"));
  CHECK(has(made, "ld.global.f32 %f0, [gv].unified;"));
  CHECK(has(made, "table:\n\t.branchtargets first, second;\n\tbrx.idx %r0, table;"));
  CHECK(refusal([](Builder& b) {
          const Reg i = b.scalar(u32, 0);
          b.table("table: .branchtargets nowhere;");
          b.emit("brx.idx", {i, "table"});
        }) == Code::undefined_name);
  CHECK(refusal([](Builder& b) { b.table("ret;"); }) == Code::bad_argument);
  CHECK(refusal([](Builder& b) { b.table("table: .branchtargets 5;"); }) == Code::syntax_error);
}

TEST_CASE("calls of functions that are declared in front of the kernel") {
  const std::string made = trace([](Builder& b) {
    b.declare(".extern .func (.param .b32 got) other (.param .b64 x);");
    for (const char* name : {"to", "from"}) {
      ir::Variable variable;
      variable.space = isa::Space::param, variable.type = name[0] == 't' ? b64 : b32, variable.name = Name(name);
      b.variable(variable, false);
    }
    const Reg pointer = b.scalar(u64, 0), result = b.scalar(b32);
    b.emit("st.param.b64", {b.address("to"), pointer});
    b.emit("call.uni", {b.list({"from"}), "other", b.list({"to"})});
    b.emit("ld.param.b32", {result, b.address("from")});
    b.table("shape: .callprototype (.param .b32 _) _ (.param .b64 _);");
    b.emit("st.param.b64", {b.address("to"), pointer});
    b.emit("call", {b.list({"from"}), pointer, b.list({"to"}), "shape"});
  });
  CHECK(has(made, ".extern .func (.param .b32 got) other(\n\t.param .b64 x\n);\n"));
  CHECK(made.find(" other(") < made.find(".entry"));
  CHECK(has(made, "call.uni (from), other, (to);"));
  CHECK(has(made, "shape:\n\t.callprototype (.param .b32 _) _ (.param .b64 _);"));
  CHECK(has(made, "call (from), %rd0, (to), shape;"));
  CHECK(refusal([](Builder& b) { b.emit("call.uni", {"other"}); }) == Code::undefined_name);
  CHECK(refusal([](Builder& b) { b.declare(".func f() { ret; }"); }) == Code::bad_argument);
  CHECK(refusal([](Builder& b) { b.declare(".global .b32 x;"); }) == Code::bad_argument);
}

TEST_CASE("a product that meets a 64-bit register is 64 bits wide where it was written") {
  CHECK(text([](Builder& b) {
          const Reg p = b.scalar(b64), q = b.scalar(b64), row = b.scalar(u32, 5);
          const Reg offset = row * 4096;
          assign('+', row, 1);  // behind the product: it has been computed
          assign('+', p, offset), assign('+', q, offset);
        }) ==
        "\t.reg .b64 %rd0;\n\t.reg .b64 %rd1;\n\t.reg .u32 %r0;\n\t.reg .u64 %rd2;\n"
        "\tmov.u32 %r0, 5;\n\tmul.wide.u32 %rd2, %r0, 4096;\n\tadd.u32 %r0, %r0, 1;\n"
        "\tadd.s64 %rd0, %rd0, %rd2;\n\tadd.s64 %rd1, %rd1, %rd2;\n");

  const std::string both = text([](Builder& b) {
    const Reg p = b.scalar(b64), row = b.scalar(s32, 5);
    const Reg offset = row * 4;
    p + offset, offset & 7;
  });
  CHECK(has(both, "mul.lo.s32 %r1, %r0, 4;\n\tmul.wide.s32 %rd2, %r0, 4;"));
  CHECK(has(both, "and.b32 %r2, %r1, 7;"));

  // A product that is changed afterwards is a 32-bit variable.
  const std::string changed = text([](Builder& b) {
    const Reg p = b.scalar(b64), row = b.scalar(u32, 5);
    const Reg offset = row * 4;
    assign('+', offset, 8);
    p + offset;
  });
  CHECK(has(changed, "mul.lo.s32"));
  CHECK(has(changed, "cvt.u64.u32 %rd2, %r1;"));

  // Written outside a block, used in it: the register is declared where both see it.
  const std::string scoped = text([](Builder& b) {
    const Reg p = b.scalar(b64), row = b.scalar(u32, 5);
    const Reg offset = row * 4;
    b.open_scope();
    p + offset;
    b.close_scope();
  });
  CHECK(
      has(scoped, ".reg .u64 %rd2;\n\tmov.u32 %r0, 5;\n\tmul.wide.u32 %rd2, %r0, 4;\n{\n\t.reg .b64 %rd1;\n\tadd.s64"));
}

TEST_CASE("sign and width") {
  CHECK(has(text([](Builder& b) { b.scalar(s64) >> 3; }), "shr.s64"));
  CHECK(has(text([](Builder& b) {
              const Reg wide = b.scalar(u64);
              wide + b.scalar(s32);
            }),
            "cvt.s64.s32"));
  CHECK(has(text([](Builder& b) { warp::reduce_max(b, b.scalar(s32), {.width = 2}); }), "max.s32"));
  CHECK(has(text([](Builder& b) { compare(Compare::lt, b.scalar(b64), b.scalar(s32)); }), "cvt.s64.s32"));
  CHECK(has(text([](Builder& b) {
              const Reg narrow = b.scalar(u32);
              narrow* b.scalar(u64);
            }),
            "mul.lo.u64"));
  CHECK(refusal([](Builder& b) { assign('+', b.scalar(u32), b.scalar(b64)); }) == Code::operator_type);
  CHECK(has(text([](Builder& b) { not_(b.scalar(u32)); }), "not.b32"));
  const std::string in_place = text([](Builder& b) { assign('|', b.scalar(u32), 4); });
  CHECK(has(in_place, "or.b32 %r0, %r0, 4;"));
}

TEST_CASE("special registers are staged by operators") {
  for (const char* name : {"%tid.x", "%laneid"}) {
    const std::string sum = text([&](Builder& b) { b.special(name) + 1; });
    CHECK(has(sum, cat("mov.u32 %r0, ", name)));
    CHECK(has(sum, "add.u32 %r1, %r0, 1"));
    CHECK(has(text([&](Builder& b) { compare(Compare::lt, b.scalar(u32), b.special(name)); }),
              cat("mov.u32 %r1, ", name)));
  }
  CHECK(refusal([](Builder& b) { b.emit("add.u32", {b.scalar(u32), b.special("%tid.x"), 1}); }) ==
        Code::special_operand);
}

TEST_CASE("numbers are spelled for the instruction") {
  const auto moved = [](isa::Type type, const Operand& value) {
    return text([&](Builder& b) { b.scalar(type, value); });
  };
  CHECK(has(moved(f32, 1), "mov.f32 %f0, 0f3F800000;"));
  CHECK(has(moved(f32, 1e-5), "0f3727C5AC"));
  CHECK(has(moved(f64, -2), "0dC000000000000000"));
  CHECK(has(moved(f32, std::numeric_limits<double>::quiet_NaN()), "0f7FC00000"));
  CHECK(has(moved(f32, std::numeric_limits<double>::infinity()), "0f7F800000"));
  CHECK(has(moved(u32, true), "mov.u32 %r0, 1;"));
  CHECK(has(moved(u64, ~std::uint64_t{0}), "18446744073709551615"));
  CHECK(has(moved(bf16, 0.5), "\t.reg .b16 %h0;\n\tmov.b16 %h0, 16128;"));
  CHECK(has(moved(f16, 1.0), "mov.b16 %h0, 15360;"));
  CHECK(has(moved(f16, 65520.0), "31744"));
  CHECK(has(moved(f16, 5.9604644775390625e-08), "mov.b16 %h0, 1;"));
  CHECK(has(text([](Builder& b) { compare(Compare::lt, b.scalar(f32), 0); }), "setp.lt.f32 %p0, %f0, 0f00000000"));
  CHECK(has(text([](Builder& b) { b.emit("st.global.v2.f32", {b.address(b.scalar(b64)), b.vector({0, 0.5})}); }),
            "{0f00000000, 0f3F000000}"));
  CHECK(refusal([](Builder& b) { b.scalar(u32, 0.5); }) == Code::literal_type);
  CHECK(refusal([](Builder& b) { b.scalar(u32, std::int64_t{1} << 32); }) == Code::literal_type);
}

TEST_CASE("nothing is appended by what is refused") {
  CHECK(text([](Builder& b) {
          const Reg x = b.scalar(u32, 1);
          CHECK_THROWS_AS(b.emit("add.u32", {x, x}), Refused);
          CHECK_THROWS_AS(b.emit("add.u32", {x, x, 0.5}), Refused);
          b.emit("add.u32", {x, x, x});
        }) == "\t.reg .u32 %r0;\n\tmov.u32 %r0, 1;\n\tadd.u32 %r0, %r0, %r0;\n");
}

TEST_CASE("an array takes a value without a mov only if nothing else uses the value") {
  const std::string kept = text([](Builder& b) {
    const RegArray r = b.array(u32, 2);
    const Reg t = r[0] + 1;
    r.set(1, t);
    t & 3;
  });
  CHECK(has(kept, "add.u32 %r2, %r0, 1;\n\tmov.b32 %r1, %r2;\n\tand.b32 %r3, %r2, 3;"));
  const std::string guarded = text([](Builder& b) {
    const RegArray r = b.array(u32, 2);
    const Reg t = b.scalar(u32), p = b.scalar(pred);
    b.emit("add.u32", {t, r[0], 1}, b.guard(p));
    r.set(1, t);
  });
  CHECK(has(guarded, "mov.b32 %r1, %r2;"));
  CHECK(refusal([](Builder& b) {
          const RegArray r = b.array(u32, 2);
          r.set(5, r[0]);
        }) == Code::index_range);
}

TEST_CASE("blocks nest") {
  const std::string nested = text([](Builder& b) {
    const Reg p = b.scalar(pred), q = b.scalar(pred), x = b.scalar(u32, 0);
    begin_if(b, p);
    begin_if(b, q);
    assign('+', x, 1);
    end_if(b);
    end_if(b);
    begin_else(b);
    assign('+', x, 2);
    end_else(b);
  });
  CHECK(has(nested, "bra $_endif_1;\n$_else_0:\n\tadd.u32 %r0, %r0, 2;\n$_endif_1:\n"));
  CHECK(count(nested, "$_endif_1:") == 1);
  CHECK(refusal([](Builder& b) { begin_else(b); }) == Code::else_without_if);
  CHECK(refusal([](Builder& b) {
          begin_if(b, b.scalar(pred));
          end_if(b);
          b.scalar(u32, 1);
          begin_else(b);
        }) == Code::else_without_if);
  CHECK(refusal([](Builder& b) { b.open_scope(); }) == Code::open_block);
  CHECK(refusal([](Builder& b) {
          begin_if(b, b.scalar(pred));
          b.close_scope();
        }) == Code::open_block);
}

TEST_CASE("labels are unique, and mean the innermost loop") {
  const std::string twice = text([](Builder& b) {
    const Reg n = b.scalar(u32, 9);
    kloop(b, n, 2, [&] { b.emit("bar.sync", {0}); });
    kloop(b, n, 2, [&] { b.emit("bar.sync", {0}); });
    begin_loop(b, "top");
    begin_loop(b, "top");
    bra(b, "top", b.guard(b.scalar(pred)));
    end_loop(b);
    end_loop(b);
  });
  CHECK(count(twice, "\nkloop:") == 1);
  CHECK(count(twice, "\nkloop_1:") == 1);
  CHECK(has(twice, "top:\ntop_1:\n\t@%p6 bra top_1;\n\tbra.uni top_1;\n\tbra.uni top;"));
  CHECK(refusal([](Builder& b) { label(b, "x"), label(b, "x"); }) == Code::duplicate_label);
  CHECK(has(text([](Builder& b) {
              label(b, "$_else_0");
              begin_if(b, b.scalar(pred));
              end_if(b);
            }),
            "bra $_else_1;"));
}

TEST_CASE("range_") {
  const auto range = [](auto start, auto stop, auto step, isa::Type type = none) {
    return [=](Builder& b) {
      const auto operand = [&](auto v) {
        if constexpr (std::is_same_v<decltype(v), isa::Type>) {
          return Operand(b.scalar(v));
        } else {
          return Operand(v);
        }
      };
      begin_range(b, operand(start), operand(stop), operand(step), type);
      end_range(b);
    };
  };
  CHECK(has(text(range(10, 0, -2)), "setp.le.s32 %p0, %ri0, 0;"));
  CHECK(has(text(range(0, u32, 1)), "setp.ge.u32 %p0, %ri0, %r0;"));
  CHECK(has(text(range(0, u64, 1)), ".reg .u64 %ri0;"));
  CHECK(has(text(range(u32, u64, 1)), "cvt.u64.u32"));
  CHECK(has(text(range(0, std::int64_t{1} << 40, 1)), "setp.ge.s64 %p0, %ri0, 1099511627776;"));
  const std::string either = text(range(0, s32, s32));
  CHECK(has(either, "setp.lt.s32 %p1, %r"));
  CHECK(has(either, "@%p1 setp.le.s32 %p0, %ri0, %r"));
  CHECK(refusal(range(0, 5, 0)) == Code::bad_argument);
  CHECK(refusal(range(5, u32, -1)) == Code::bad_argument);
}

TEST_CASE("shared memory") {
  // Stages, dynamic memory and two-dimensional access all lead to the allocation's own bytes.
  const std::string stages = text([](Builder& b) {
    const Shared s = shared(b, f32, {2, 4, 4});
    const Reg x = b.scalar(f32), i = b.scalar(u32, 1);
    b.emit("ld.shared.f32", {x, s[1].address()});
    s[1].load(0, 2);
    b.emit("ld.shared.f32", {x, s[i].address()});
  });
  CHECK(has(stages, "[smem_0+64]"));
  CHECK(has(stages, "mov.b32 %r3, smem_0+64;"));
  CHECK(has(stages, "mad.lo.u32 %r4, %r0, 64, %r4;"));
  const std::string dynamic = text([](Builder& b) {
    shared(b, f32, {128, 100});
    const Shared t = shared(b, f32, {4, 4});
    t.load(1, 1);
  });
  CHECK(has(dynamic, "mov.b32 %r2, dyn_smem+51200;"));
  Options forced;
  forced.dynamic_shared = 64 * 1024;
  CHECK(has(trace([](Builder& b) { shared(b, f32, {4}).address(); }, forced),
            ".extern .shared .align 128 .b8 dyn_smem[];"));
  Options author = forced;
  author.extern_shared = "mine";
  Builder both(author);
  shared(both, f32, {128, 128});
  CHECK(both.finish().dynamic_shared == 2 * 64 * 1024);
  CHECK(has(trace([](Builder& b) { wgmma_tile(b, bf16, {64, 64}, false); }), ".align 1024 .b8 smem_0"));
  CHECK(refusal([](Builder& b) { shared(b, f32, {2, 4})[2]; }) == Code::index_range);
  CHECK(refusal([](Builder& b) { shared(b, f32, {4}, Swizzle::none, 48); }) == Code::bad_argument);
  CHECK(refusal([](Builder& b) {
          shared(b, f32, {4}, Swizzle::none, 0, "a"), shared(b, f32, {4}, Swizzle::none, 0, "a");
        }) == Code::duplicate_name);
}

TEST_CASE("addresses") {
  CHECK(has(text([](Builder& b) { b.emit("ld.global.f32", {b.scalar(f32), b.address(b.scalar(b64), -4)}); }),
            "[%rd0+-4]"));
  CHECK(has(text([](Builder& b) {
              const Address a = b.address(Operand(b.address(b.scalar(b64), 8)), 8);
              b.emit("ld.global.f32", {b.scalar(f32), a});
            }),
            "[%rd0+16]"));
  const std::string moved =
      text([](Builder& b) { b.emit("ld.global.f32", {b.scalar(f32), b.address(b.scalar(b64), b.scalar(s32))}); });
  CHECK(has(moved, "cvt.s64.s32"));
  CHECK(has(moved, "add.s64"));
  CHECK(has(text([](Builder& b) { b.emit("mbarrier.inval.shared.b64", {b.address(Operand(barriers(b, 2)[1]))}); }),
            "[mbar_0+8]"));
}

TEST_CASE("a value formed in a block is not used outside it") {
  const std::string maps = text([](Builder& b) {
    begin_if(b, b.scalar(pred));
    b.tensor_map("A");
    end_if(b);
    b.tensor_map("A");
  });
  CHECK(maps.find("mov.b64 %rd0, A_tma_desc;") < maps.find("bra"));
  CHECK(count(maps, "A_tma_desc") == 1);
  const std::string slots = text([](Builder& b) {
    const mbarrier::Slot slot = barrier_array::at(b, {&b, b.scalar(u32), 0, 2}, b.scalar(u32));
    begin_if(b, b.scalar(pred));
    b.emit("mbarrier.arrive.shared.b64", {sink(), slot.address()});
    end_if(b);
    b.emit("mbarrier.arrive.shared.b64", {sink(), slot.address()});
  });
  CHECK(count(slots, "shl.b32") == 2);
}

TEST_CASE("guarded barriers") {
  const std::string wait = text([](Builder& b) {
    const Barriers m = barriers(b, 1);
    mbarrier::wait(b, m[0].where, 0, {.pred = b.guard(b.scalar(pred))});
  });
  CHECK(has(wait, "@!%p0 bra $_mbar_skip_0;\n$_mbar_wait_1:"));
  const std::string arrive = text([](Builder& b) { families::result(b, b64, b.guard(b.scalar(pred))); });
  CHECK(has(arrive, "mov.b64 %rd0, 0;"));
}

TEST_CASE("wgmma prints the immediates that its types have") {
  const auto mma = [](const char* type, int k, bool registers) {
    return text([=](Builder& b) {
      const isa::Type element = *isa::type_named(type), result = element == s8 ? s32 : f32;
      const RegArray d = b.array(result, 4), a = b.array(b32, 4);
      const std::vector<Operand> part{a[0], a[1], a[2], a[3]};
      const wgmma::MatrixA from = registers ? wgmma::MatrixA(part) : wgmma::MatrixA(Operand(b.scalar(u64)));
      wgmma::mma_async(b, {64, 8, k}, result, element, element, {d[0], d[1], d[2], d[3]}, from, Operand(b.scalar(u64)),
                       {.scale_d = b.scalar(pred)});
    });
  };
  CHECK(has(mma("bf16", 16, false), "%p0, 1, 1, 0, 0;"));
  CHECK(has(mma("bf16", 16, true), "%p0, 1, 1, 0;"));
  CHECK(has(mma("tf32", 8, false), "%p0, 1, 1;"));
  CHECK(has(mma("e4m3", 32, false), "%p0, 1, 1;"));
  CHECK(has(mma("s8", 32, false), "%p0;"));
}

TEST_CASE("names depend on the kernel alone") {
  const auto once = [] { return trace([](Builder& b) { shared(b, f32, {4}), barriers(b, 1), b.scalar(f32, 1.0); }); };
  CHECK(once() == once());
  CHECK(refusal([](Builder& b) { b.scalar(u32), b.array(u32, 4, "%r"); }) == Code::duplicate_name);
  CHECK(refusal([](Builder& b) { b.scalar(u32, "x"), b.scalar(u32, "x"); }) == Code::duplicate_name);
  CHECK(refusal([](Builder& b) {
          const Reg outer = b.scalar(u32, "x");
          b.open_scope();
          const Reg inner = b.scalar(u32, "x");
          b.emit("add.u32", {inner, inner, outer});
        }) == Code::duplicate_name);
  CHECK(has(text([](Builder& b) { b.scalar(u32, "%r0"), b.scalar(u32, 1); }), "mov.u32 %r1, 1;"));
}

TEST_CASE("operators write the instruction of the type") {
  const auto all = text([](Builder& b) {
    const Reg x = b.scalar(f32), h = b.scalar(bf16x2), s = b.scalar(s16), p = b.scalar(pred), q = b.scalar(pred);
    x * 0.5 + x;
    1.0 - -x;
    h += h;
    h * 2;
    s* s - 3;
    s + b.scalar(s32, "w");
    compare_halves(Compare::lt, h, h);
    (void)(x < 1);
    (p & !q) | q;
    ~p;
    const Shared a = shared(b, f32, {64});
    const Reg i = b.scalar(u32, "i"), value = a.load(3);
    a.store(i, value);
    a.store(5, 1.5);
  });
  for (const char* line : {"mul.f32 %f1, %f0, 0f3F000000;",
                           "add.f32 %f2, %f1, %f0;",
                           "neg.f32 %f3, %f0;",
                           "sub.f32 %f4, 0f3F800000, %f3;",
                           "add.bf16x2 %hh0, %hh0, %hh0;",
                           "mov.b32 %hh2, 1073758208;",
                           "mul.bf16x2 %hh1, %hh0, %hh2;",
                           "mul.lo.s16 %rs1, %rs0, %rs0;",
                           "sub.s16 %rs2, %rs1, 3;",
                           "cvt.s32.s16 %r1, %rs0;",
                           "add.s32 %r0, %r1, w;",
                           "setp.lt.bf16x2 %p2|%p3, %hh0, %hh0;",
                           "setp.lt.f32 %p4, %f0, 0f3F800000;",
                           "not.pred %p5, %p1;",
                           "and.pred %p6, %p0, %p5;",
                           "or.pred %p7, %p6, %p1;",
                           "not.pred %p8, %p0;",
                           "ld.shared.f32 %f5, [smem_0+12];",
                           "mad.lo.u32 %r2, i, 4, %r2;",
                           "st.shared.f32 [%r2], %f5;",
                           "st.shared.f32 [smem_0+20], 0f3FC00000;"}) {
    CAPTURE(all);
    CHECK(has(all, line));
  }
}

TEST_CASE("refusals") {
  CHECK(refusal([](Builder& b) { b.scalar(e4m3) + 1; }) == Code::operator_type);
  CHECK(refusal([](Builder& b) { add(b.scalar(f32), b.scalar(u32)); }) == Code::operator_type);
  CHECK(refusal([](Builder& b) { b.scalar(f32) << 1; }) == Code::operator_type);
  CHECK(refusal([](Builder& b) { b.scalar(f32) & 1; }) == Code::operator_type);
  CHECK(refusal([](Builder& b) { add(b.scalar(pred), b.scalar(pred)); }) == Code::operator_type);
  CHECK(refusal([](Builder& b) { (void)(b.scalar(f16x2) < 1); }) == Code::operator_type);
  CHECK(refusal([](Builder& b) { refuse_operator(b.scalar(f32), "/"); }) == Code::operator_type);
  CHECK(refusal([](Builder& b) {
          b.open_scope();
          const Reg inner = b.scalar(u32);
          b.close_scope();
          b.emit("add.u32", {b.scalar(u32), inner, 1});
        }) == Code::undefined_name);
  CHECK(refusal([](Builder& b) {
          b.open_scope();
          const Reg inner = b.scalar(pred, "q");
          b.close_scope();
          b.emit("ret", {}, b.guard(inner));
        }) == Code::undefined_name);
  CHECK(refusal([](Builder& b) { b.scalar(u32) + 1.5; }) == Code::operator_type);
  CHECK(refusal([](Builder& b) { b.guard(b.scalar(u32)); }) == Code::bad_operand);
  CHECK(refusal([](Builder& b) { b.emit("setmaxnreg.inc.sync.aligned.u32", {25}); }) == Code::multiple_of_8);
  CHECK(refusal([](Builder& b) { warp::reduce_sum(b, b.scalar(u32), {.width = 3}); }) == Code::bad_argument);
  CHECK(refusal([](Builder& b) { add(b.scalar(b64), b.scalar(u32) * -4); }) == Code::wide_product);
  CHECK(refusal([](Builder& b) {
          Builder other({});
          b.emit("mov.u32", {b.scalar(u32), other.scalar(u32)});
        }) == Code::foreign_register);
  CHECK(refusal([](Builder& b) { b.emit("mov.u32", {b.scalar(u32), Reg()}); }) == Code::foreign_register);
  CHECK(refusal([](Builder&) { Builder({.name = "a b"}); }) == Code::bad_argument);
  CHECK(refusal([](Builder& b) { b.add_raw("u33", "x"); }) == Code::bad_argument);
  CHECK(refusal([](Builder& b) { b.add_raw("u32", "a b"); }) == Code::bad_argument);
  CHECK(refusal([](Builder& b) { b.add_raw("u32", "x"), b.scalar(u32, "x"); }) == Code::duplicate_name);
  CHECK(refusal([](Builder& b) { b.text("ret; } .entry z() { ret;"); }) == Code::open_block);
  CHECK(refusal([](Builder& b) { barriers(b, 1u << 31); }) == Code::bad_argument);
  CHECK(refusal([](Builder& b) { b.emit("frobnicate.u32", {}); }) == Code::unknown_instruction);
  CHECK(refusal([](Builder& b) { bra(b, "nowhere"); }) == Code::undefined_name);
  Options old;
  old.target = "sm_80";
  CHECK(refusal([](Builder& b) { b.emit("wgmma.fence.sync.aligned"); }, old) == Code::needs_target);
  CHECK(refusal([](Builder& b) { b.param(u32, "n"); }) == Code::wrong_parameter);
  CHECK(refusal([](Builder&) { Kernel::current(); }) == Code::no_kernel);
}

TEST_CASE("what is written so far is read without ending the kernel") {
  Builder b(Options{});
  const Reg a = b.scalar(u32, 3);
  b.open_scope();
  CHECK(b.written().open == 1);
  CHECK(b.written().text.find("mov.u32 %r0, 3;\n{\n}\n}\n") != std::string::npos);
  const std::string name = "%r" + std::to_string(b.register_number("%r"));
  b.text("add.u32 " + a.name() + ", " + a.name() + ", 1;");
  b.close_scope();
  CHECK(b.scalar(u32, std::string_view(name)).name() == "%r1");
  CHECK(b.scalar(u32).name() == "%r2");
  b.emit("ret");
  const std::string before = b.written().text;
  CHECK(before == ir::emit(b.finish().module));
}

TEST_CASE("tensor memory: what the shapes of the functions allow is what the rows allow") {
  Options options;
  options.target = "sm_100a";
  const auto mma = [&](std::string kind, std::string vectorsize, bool sparse, bool a_is_tmem, int group) {
    return refusal(
        [&](Builder& b) {
          const Reg t = b.scalar(b32), descriptor = b.scalar(b64);
          const auto modifier = [](const std::string& word) {  // static: it outlives the call
            static std::deque<std::string> words;
            return word.empty() ? std::optional<Modifier>() : Modifier{0, words.emplace_back(word)};
          };
          tcgen05::options::mma what;
          what.kind = modifier("kind::" + kind), what.scale_vectorsize = modifier(vectorsize);
          what.a_is_tmem = a_is_tmem, what.sparse = sparse;
          what.cta_group = group == 2 ? modifiers::cta_group_2 : modifiers::cta_group_1;
          if (sparse) what.sparse_metadata = t;
          if (kind.starts_with("mx")) what.scale_vec_a = what.scale_vec_b = t;
          tcgen05::mma(b, t, a_is_tmem ? t : descriptor, descriptor, t, what);
        },
        options);
  };
  for (const bool sparse : {false, true}) {
    for (const bool tmem : {false, true}) {
      for (const int group : {1, 2}) {
        for (const char* kind : {"f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4"}) {
          CAPTURE(kind);
          CHECK(mma(kind, "", sparse, tmem, group) == Code{});
        }
        CHECK(mma("mxf4nvf4", "block16", sparse, tmem, group) == Code{});
        CHECK(mma("mxf4nvf4", "", sparse, tmem, group) == Code::illegal_modifiers);
        CHECK(mma("mxf4", "block16", sparse, tmem, group) == Code::illegal_modifiers);
        CHECK(mma("f64", "", sparse, tmem, group) == Code::illegal_modifiers);
      }
    }
  }
  const auto ld = [&](Modifier shape, int count, std::size_t registers) {
    return refusal(
        [&](Builder& b) {
          std::vector<Operand> to;
          for (std::size_t i = 0; i < registers; ++i) to.push_back(b.scalar(b32));
          tcgen05::ld(b, to, b.scalar(b32), {.shape = shape, .count = count, .pack = true});
          tcgen05::st(b, b.scalar(b32), to, {.shape = shape, .count = count, .unpack = true});
        },
        options);
  };
  CHECK(ld(modifiers::_16x256b, 32, 128) == Code{});
  CHECK(ld(modifiers::_16x128b, 64, 128) == Code{});
  CHECK(ld(modifiers::_32x32b, 128, 128) == Code{});
  CHECK(ld(modifiers::_16x64b, 3, 3) == Code::illegal_modifiers);
  CHECK(ld(modifiers::_16x256b, 1, 2) == Code::vector_length);
  const auto alloc = [&](int columns) {
    return refusal(
        [&](Builder& b) {
          b.emit("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", {b.address(b.scalar(u32)), columns});
        },
        options);
  };
  CHECK(alloc(256) == Code{});
  CHECK(alloc(48) == Code::tcgen05_columns);
}

TEST_CASE("a register that outlives its kernel is refused") {
  std::optional<Reg> kept;
  kernel({.name = "k"}, [&](Kernel& k) { kept = k.scalar(u32, 1); });
  CHECK_THROWS_AS(*kept + 1, Refused);
  CHECK_THROWS_AS(~*kept, Refused);
  CHECK_THROWS_AS(kept->name(), Refused);
  const auto given_up = [&](Kernel& k) {
    kept = k.scalar(u32, 1);
    throw std::runtime_error("the author's");
  };
  CHECK_THROWS_AS(kernel({.name = "k"}, given_up), std::runtime_error);
  CHECK_THROWS_AS(max(*kept, 1), Refused);
}

}  // namespace ptx::author::testing
