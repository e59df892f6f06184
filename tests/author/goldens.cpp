// The texts of 0.1.1 written in C++: registers, expressions, control flow, shared memory.
#include "golden.h"
#include "ptx/author/barrier.h"
#include "ptx/author/control.h"
#include "ptx/author/copy.h"
#include "ptx/author/expression.h"
#include "ptx/author/kernel.h"
#include "ptx/author/matrix.h"
#include "ptx/author/shared.h"
#include "ptx/author/tcgen05.h"
#include "ptx/author/warp.h"

namespace ptx::author::testing {

using enum isa::Type;

TEST_CASE("registers") {
  golden("init_literals", [](Builder& b) {
    b.scalar(u32, 7);
    b.scalar(f32, 0.5);
    b.scalar(f64, 1.0);
    b.scalar(b64);
    b.scalar(pred);
  });
  golden("arrays_and_naming", [](Builder& b) {
    b.array(f32, 4);
    b.scalar(f32);
    b.array(f32, 2);
    b.scalar(f32);
    b.array(b32, 3, "%q");
    b.alloc(f32);
    b.alloc_array(u32, 2);
  });
  golden("special_registers", [](Builder& b) {
    for (const char* name :
         {"%tid.x", "%ntid.y", "%ctaid.z", "%nctaid.x", "%laneid", "%warpid", "%clock", "%clusterid.x"})
      b.from(b.special(name), u32);
  });
  golden("setitem_retarget_fallback", [](Builder& b) {
    const RegArray r = b.array(u32, 4);
    const Reg x = b.scalar(u32, 1);
    r.set(1, x + 5);
    r.set(2, x);
    r.set(3, r[1] << 2);
  });
}

TEST_CASE("operators") {
  golden("u32_operators", [](Builder& b) {
    const Reg x = b.scalar(u32, 1), y = b.scalar(u32, 2);
    x + y, x + 3, x - y, x * 3, x *y, x << 2, x >> 2, x & y, x | 4, x ^ y, add(5, x), max(x, 9);
  });
  golden("s32_operators", [](Builder& b) {
    const Reg x = b.scalar(s32, 1), y = b.scalar(s32, 2);
    x + y, x - 1, x * 3, x *y, x >> 2, max(x, y), compare(Compare::lt, x, y);
  });
  golden("64_bit_operators", [](Builder& b) {
    const Reg p = b.scalar(b64), i = b.scalar(u32, 3), q = b.scalar(u64);
    p + i, p + 16, q - i, q *i, q << 3, q >> 3, p & 15, i + q;
  });
  golden("in_place", [](Builder& b) {
    const Reg x = b.scalar(u32, 1), p = b.scalar(b64);
    assign('+', x, 2), assign('-', x, 1), assign('*', x, 3), assign('<', x, 1), assign('>', x, 1), assign('&', x, 7);
    assign('^', x, 1), assign('+', p, x);
  });
  golden("comparisons", [](Builder& b) {
    const Reg x = b.scalar(u32, 1), y = b.scalar(b32), q = b.scalar(b64), f = b.scalar(f32, 0.0);
    using enum Compare;
    compare(lt, x, 5), compare(le, x, x), compare(gt, y, 1), compare(ge, q, q), compare(eq, x, 0), compare(ne, x, 0);
    compare(lt, f, f), compare(eq, b.special("%tid.x"), 0);
  });
}

TEST_CASE("control flow") {
  golden("if", [](Builder& b) {
    const Reg x = b.scalar(u32, 1);
    begin_if(b, compare(Compare::eq, x, 0));
    b.emit("mov.u32", {x, 2});
    end_if(b);
  });
  golden("if_else_with_negated_predicate", [](Builder& b) {
    const Reg x = b.scalar(u32, 1);
    begin_if(b, Not{compare(Compare::eq, x, 0)});
    b.emit("mov.u32", {x, 2});
    end_if(b);
    begin_else(b);
    b.emit("mov.u32", {x, 3});
    end_else(b);
  });
  golden("range_int_start", [](Builder& b) {
    const Reg k = begin_range(b, 0, 64, 16);
    b.emit("mov.b32", {k, k});
    end_range(b);
  });
  golden("range_reg_start", [](Builder& b) {
    const Reg c = b.from(b.special("%ctaid.x"), u32);
    const Reg k = begin_range(b, c, 64, 1);
    b.emit("mov.b32", {k, k});
    end_range(b);
  });
  golden("loop", [](Builder& b) {
    const Reg p = b.scalar(pred);
    begin_loop(b, "top", b.guard(p));
    b.emit("bar.sync", {0});
    end_loop(b);
    begin_loop(b, "forever");
    ret(b);
    end_loop(b);
  });
  golden("scope", [](Builder& b) {
    b.open_scope();
    const Reg t = b.scalar(b32, "tmp");
    b.emit("mov.b32", {t, 42});
    b.close_scope();
  });
  golden("expr", [](Builder& b) {
    const Reg x = b.scalar(u32, 9);
    ((x - 1) & 7) << 2;
  });
  golden("kloop_reg", [](Builder& b) { kloop(b, b.scalar(u32, 9), 2, [&] { b.emit("bar.sync", {0}); }); });
  golden("kloop_unroll_4_tail_ladder",
         [](Builder& b) { kloop(b, b.scalar(s32, 9), 4, [&] { b.emit("bar.sync", {1}); }, "L4"); });
  golden("pipeline_advance", [](Builder& b) { pipeline(b, 3).advance(); });
  golden("intrinsic", [](Builder& b) {
    const Reg x = b.scalar(u32, 1);
    begin_intrinsic(b, "two(%r0, 5)");
    b.emit("add.u32", {x, x, 5});
    b.emit("add.u32", {x, x, 5});
    end_intrinsic(b);
  });
}

TEST_CASE("parameters") {
  golden("global_ptrs", [](Builder& b) {
    b.add_pointer("A"), b.add_pointer("B");
    const std::string names[] = {"A", "B"};
    const auto pointers = b.global_pointers(names);
    assign('+', pointers[0], 16);
  });
  golden("tma_desc_and_parameter_order", [](Builder& b) {
    b.add_pointer("A"), b.add_pointer("B"), b.add_raw("u32", "M"), b.add_raw("f32", "alpha");
    const Reg d = b.tensor_map("A");
    b.tensor_map("B");
    CHECK(same(b.tensor_map("A"), d));
    b.param(u32, "M");
  });
  Options directives;
  directives.directives = {".maxntid 384, 1, 1", ".minnctapersm 1"};
  golden(
      "raw_params_declarations_and_ptx_param",
      [](Builder& b) {
        b.add_raw("u64.ptr.global.palign16", "x"), b.add_raw("u32", "n"), b.add_raw("b8.align64.array128", "map");
        b.param(u64, "x"), b.param(u32, "n"), b.param(u64, "map");
      },
      directives);
  Options shared;
  shared.version = {8, 7};
  shared.extern_shared = "global_smem";
  shared.dynamic_shared = 4096;
  shared.directives = {".reqntid 128, 1, 1"};
  golden(
      "reqntid_version_extern_smem",
      [](Builder& b) {
        const Reg base = shared_base(b);
        const Reg v = load(b, f32, b.address(base));
        store(b, f32, b.address(base, 16), v);
      },
      shared);
  golden("addr_forms", [](Builder& b) {
    const Reg r = b.scalar(b64);
    const Shared s = author::shared(b, f32, {4}, Swizzle::none, 0, "buf");
    const Reg x = b.scalar(f32);
    b.emit("ld.shared.f32", {x, s.address()});
    b.emit("ld.global.f32", {x, b.address(r, 16)});
    b.emit("ld.shared.f32", {x, b.address("buf", 4)});
    b.emit("ld.global.v2.f32", {b.vector({x, x}), b.address(r)});
  });
  golden("var_pragma_loc_file", [](Builder& b) {
    b.directive(".pragma \"nounroll\";");
    b.file(1, "k.py");
    b.location(1, 10, 2);
  });
}

TEST_CASE("shared memory") {
  golden("smem_alloc_mbarrier_declarations", [](Builder& b) {
    shared(b, bf16, {2, 64, 64});
    shared(b, f32, {10}, Swizzle::none, 16, "w");
    barriers(b, 3);
  });
  golden("smem_2_d_load_store", [](Builder& b) {
    const Shared s = shared(b, f32, {4, 8});
    const Reg i = b.scalar(u32, 1);
    const Reg x = s.load(i, 2);
    s.store(0, i, x), s.store(1, 1, x), s.store(2, i, x);
  });
  golden("apply_swizzle", [](Builder& b) {
    const Reg o = b.scalar(u32, 0);
    apply_swizzle(o, Swizzle::b128), apply_swizzle(o, Swizzle::b32);
  });
  golden("automatic_dynamic_smem_48_kib", [](Builder& b) {
    shared(b, bf16, {128, 128});
    const Shared c = shared(b, bf16, {128, 128});
    const Barriers m = barriers(b, 2);
    const Reg d = b.scalar(u64);
    b.emit("mbarrier.init.shared::cta.b64", {m[1].where, 1});
    tensor_copy::load(b, c.address(), d, {0, 0}, m[0].where);
  });
}

}  // namespace ptx::author::testing
