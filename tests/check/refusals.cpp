// One program a code that check refuses, and its nearest legal neighbour.
#include <doctest/doctest.h>

#include "ptx/base/text.h"
#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/syntax/parse.h"

namespace {

using ptx::cat;
using ptx::Code;

ptx::Diagnostics diagnose(std::string_view text) {
  const ptx::syntax::Parsed parsed = ptx::syntax::parse(std::string(text));
  REQUIRE(parsed.diagnostics.empty());
  ptx::ir::Lowered lowered = ptx::ir::lower(parsed.tree);
  REQUIRE(lowered.diagnostics.empty());
  return ptx::check::check(lowered.module);
}

Code first(const ptx::Diagnostics& found) { return found.empty() ? Code{} : found[0].code; }

std::string kernel(std::string_view body, std::string_view version = "9.0", std::string_view target = "sm_90a") {
  return ptx::cat(
      ".version ", version, "\n.target ", target, "\n.address_size 64\n",
      ".global .b8 gv[256]; .shared .b8 sv[256]; .func f(.param .b32 a) { ret; }\n"
      ".visible .entry k(.param .b64 pv)\n{\n.reg .pred p<4>; .reg .b16 h<4>; .reg .b32 r<8>; .reg .f32 f<4>; "
      ".reg .b64 l<4>; .reg .u64 u<4>;",
      version == "9.0" ? " .reg .b128 q<2>;\n" : "\n", body, "\nret;\n}\n");
}

Code code(std::string_view body) { return first(diagnose(kernel(body))); }
Code code(std::string_view body, std::string_view version, std::string_view target) {
  return first(diagnose(kernel(body, version, target)));
}

}  // namespace

TEST_CASE("unknown_instruction, illegal_modifiers") {
  CHECK(code("frobnicate.b32 r0, r1;") == Code::unknown_instruction);
  CHECK(code("add.x32 r0, r1, r2;") == Code::illegal_modifiers);
  CHECK(code("add.s32 r0, r1, r2;") == Code{});
}

TEST_CASE("operand_count") {
  CHECK(code("add.s32 r0, r1;") == Code::operand_count);
  CHECK(code("exit r0;") == Code::operand_count);
  CHECK(code("bar.sync 0, 64;") == Code{});
  CHECK(code("bar.sync 0, 64, 1;") == Code::operand_count);
}

TEST_CASE("operand_kind") {
  CHECK(code("add.s32 1, r1, r2;") == Code::operand_kind);
  CHECK(code("ld.global.b32 r0, l0;") == Code::operand_kind);
  CHECK(code("bra r0;") == Code::operand_kind);
  CHECK(code("setmaxnreg.inc.sync.aligned.u32 r0;") == Code::operand_kind);
  CHECK(code("add.s32 r0, {r1, r2}, r3;") == Code::operand_kind);
  CHECK(code("elect.sync r0, r1;") == Code::operand_kind);
  CHECK(code("elect.sync r0|p0, r1;") == Code{});
}

TEST_CASE("operand_type: the manual's table of agreement") {
  CHECK(code("add.s32 r0, r1, f0;") == Code::operand_type);
  CHECK(code("add.s32 r0, r1, l0;") == Code::operand_type);
  CHECK(code("add.f32 f0, f1, r1;") == Code{});
  CHECK(code("and.b32 r0, f1, r1;") == Code{});
  CHECK(code("ld.global.u16 l1, [l0];") == Code{});
  CHECK(code("ld.global.u32 h0, [l0];") == Code::operand_type);
  CHECK(code("vote.sync.all.pred r0, p1, r1;") == Code::operand_type);
}

TEST_CASE("vector_length") {
  CHECK(code("ld.global.v4.b32 {r0, r1, r2}, [l0];") == Code::vector_length);
  CHECK(code("ld.global.v4.b32 {r0, r1, r2, r3}, [l0];") == Code{});
  CHECK(code("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [sv], [l0, {r0, r1, r2}], "
             "[sv];") == Code::vector_length);
  CHECK(
      code("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [sv], [l0, {r0, r1}], [sv];") ==
      Code{});
  CHECK(code("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1}, l0, l1, p0, 1, 1, 0, 0;") ==
        Code::vector_length);
  CHECK(code("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, l0, l1, p0, 1, 1, 0, 0;") ==
        Code{});
}

TEST_CASE("immediate_range, immediate_kind") {
  CHECK(code("bar.sync 16;") == Code::immediate_range);
  CHECK(code("bar.sync 15;") == Code{});
  CHECK(code("pmevent 16;") == Code::immediate_range);
  CHECK(code("add.f32 f0, f1, 1;") == Code::immediate_kind);
  CHECK(code("add.f32 f0, f1, 1.0;") == Code{});
  CHECK(code("add.s32 r0, r1, 1.0;") == Code::immediate_kind);
}

TEST_CASE("state_space, shared_variable") {
  CHECK(code("ld.shared.b32 r0, [gv];") == Code::state_space);
  CHECK(code("ld.shared.b32 r0, [sv];") == Code{});
  CHECK(code("ld.b32 r0, [gv];") == Code{});
  CHECK(code("cvta.shared.u64 l0, gv;") == Code::state_space);
  CHECK(code("cvta.global.u64 l0, gv;") == Code{});
  CHECK(code("mbarrier.init.b64 [gv], 1;") == Code::shared_variable);
  CHECK(code("mbarrier.init.b64 [sv], 1;") == Code{});
}

TEST_CASE("sink_operand, special_operand, negated_operand") {
  CHECK(code("add.s32 _, r1, r2;") == Code::sink_operand);
  CHECK(code("atom.global.add.u32 _, [l0], 1;") == Code{});
  CHECK(code("add.u32 r0, r1, %tid.x;") == Code::special_operand);
  CHECK(code("mov.u32 r0, %tid.x;") == Code{});
  CHECK(code("selp.b32 r0, r1, r2, !p0;") == Code{});
  CHECK(code("vote.sync.all.pred p0, !p1, r1;") == Code{});
  CHECK(code("setp.eq.s32 p0, !r1, r2;") == Code::negated_operand);
  CHECK(code("and.pred p0, p1, !p2;") == Code{});
  CHECK(code("and.b32 r0, r1, !r2;") == Code::negated_operand);
  CHECK(code("cvt.u64.u32 l0, %tid.x;") == Code{});
  CHECK(code("cvt.rn.f32.u32 f0, %tid.x;") == Code::special_operand);
}

TEST_CASE("address_register, undefined_name, guard_type") {
  CHECK(code("ld.global.b32 r0, [f0];") == Code::address_register);
  CHECK(code("ld.global.b32 r0, [q0];") == Code::address_register);
  CHECK(code("ld.global.b32 r0, [l0.x];") == Code::address_register);
  CHECK(code("ld.global.b32 r0, [l0.entry8];") == Code::address_register);
  CHECK(code("ld.global.b32 r0, [nothing];") == Code::undefined_name);
  CHECK(code("bra nowhere;") == Code::undefined_name);
  CHECK(code("{ inner: ret; } bra inner;") == Code::undefined_name);
  CHECK(code("@r0 bra out; out:") == Code::guard_type);
  CHECK(code("@p0 bra out; out:") == Code{});
}

TEST_CASE("untyped_vector, and registers of exactly one type") {
  CHECK(code("ld.global.v2.b32 {_, _}, [l0];") == Code::untyped_vector);
  CHECK(code("ld.global.v2.b32 {_, r0}, [l0];") == Code{});
  CHECK(code("st.global.v2.b32 [l0], {1, 2};") == Code{});
  CHECK(code("stmatrix.sync.aligned.m8n8.x2.b16 [l0], {1, 2};") == Code::untyped_vector);
  CHECK(code("stmatrix.sync.aligned.m8n8.x2.b16 [l0], {r1, 2};") == Code{});
  CHECK(code("cvt.rs.f16x2.f32 r0, f0, f1, r1;", "9.0", "sm_100a") == Code{});
  CHECK(code("cvt.rs.f16x2.f32 r0, f0, f1, f2;", "9.0", "sm_100a") == Code::operand_type);
  CHECK(code("cvt.rs.f16x2.f32 r0, f0, f1, 1;", "9.0", "sm_100a") == Code::operand_kind);
}

TEST_CASE("address_width: what the assembler does not widen") {
  CHECK(code("ldmatrix.sync.aligned.m8n8.x1.b16 {r0}, [h0];") == Code::address_width);
  CHECK(code("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r0}, [h0];") == Code{});
  CHECK(code("ldmatrix.sync.aligned.m8n8.x1.b16 {r0}, [r1];") == Code{});
  CHECK(code("wmma.load.a.sync.aligned.row.m8n8k32.shared.s4 {r0}, [h0];") == Code::address_width);
  CHECK(code("multimem.red.add.u32 [r0], r1;") == Code::address_width);
  CHECK(code("multimem.red.add.u32 [l0], r1;") == Code{});
}

TEST_CASE("selector, vmad_signs, power_of_two") {
  CHECK(code("vadd.s32.s32.s32 r0, r1.b0, r2.h1;") == Code{});
  CHECK(code("vadd.s32.s32.s32 r0, r1.b4, r2.h1;") == Code::selector);
  CHECK(code("add.s32 r0, r1.b0, r2;") == Code::selector);
  CHECK(code("vadd4.s32.s32.s32 r0.b31, r1.b7654, r2, r3;") == Code{});
  CHECK(code("vadd4.s32.s32.s32 r0.b13, r1.b7654, r2, r3;") == Code::selector);
  CHECK(code("vadd2.s32.s32.s32 r0.h1, r1.h03, r2, r3;") == Code{});
  CHECK(code("vadd2.s32.s32.s32 r0, r1.h4, r2, r3;") == Code::selector);
  CHECK(code("vmad.s32.s32.s32 r0, -r1, -r2, r3;") == Code{});
  CHECK(code("vmad.s32.s32.s32 r0, r1, r2, -r3;") == Code{});
  CHECK(code("vmad.s32.s32.s32 r0, -r1, r2, -r3;") == Code::vmad_signs);
  CHECK(code("add.s32 r0, -r1, r2;") == Code::negated_operand);
  CHECK(code("alloca.u64 u0, 64, 16;") == Code{});
  CHECK(code("alloca.u64 u0, 64, 24;") == Code::power_of_two);
  CHECK(code("alloca.u64 u0, 64, 0x800000;") == Code{});
  CHECK(code("alloca.u64 u0, 64, 0x1000000;") == Code::immediate_range);
}

TEST_CASE("constant_expression") {
  CHECK(code("mov.u32 r0, 7/2;") == Code{});
  CHECK(code("mov.u32 r0, 1/0;") == Code::constant_expression);
  CHECK(code("mov.u32 r0, 1.5+1;") == Code::constant_expression);
  CHECK(code("mov.f32 f0, 1.0/0.0;") == Code::constant_expression);
  CHECK(code("bar.sync 1/0;") == Code::constant_expression);
}

TEST_CASE("texture_operands, mixed_vector") {
  const auto texture = [](std::string_view body, std::string_view target = "sm_90a", std::string_view version = "9.0") {
    return first(
        diagnose(ptx::cat(".version ", version, "\n.target ", target,
                          "\n.global .texref t; .global .surfref s;\n.entry k() { .reg .b32 r<8>; .reg .f32 f<8>; "
                          ".reg .u32 i<4>; .reg .b64 l<4>; .reg .pred p; ",
                          body, " ret; }\n")));
  };
  CHECK(texture("tex.2d.v4.f32.f32 {f0, f1, f2, f3}, [t, {f4, f5}];") == Code{});
  CHECK(texture("tex.2d.v4.f32.f32 {f0, f1, f2, f3}, [l0, {f4, f5}], {1, -1}, f6;") == Code{});
  CHECK(texture("tex.2d.v4.f32.f32 {f0, f1, f2, f3}, [s, {f4, f5}];") == Code::operand_kind);
  CHECK(texture("tex.2d.v4.f32.f32 {f0, f1, f2, f3}, [t, {f4}];") == Code::vector_length);
  CHECK(texture("tex.2d.v4.f32.f32 {f0, f1, f2, f3}, [t, {f4, i0}];") == Code::mixed_vector);
  CHECK(texture("tex.a1d.v4.f32.f32 {f0, f1, f2, f3}, [t, {i0, f4}];") == Code{});
  CHECK(texture("tex.3d.v4.f32.f32 {f0, f1, f2, f3}, [t, {f4, f5, f6, f7}], f4;") == Code::texture_operands);
  CHECK(texture("tex.cube.v4.f32.f32 {f0, f1, f2, f3}, [t, {f4, f5, f6, f7}], {1, 2, 3, 4};") ==
        Code::texture_operands);
  CHECK(texture("tex.2d.v4.f32.s32 {f0, f1, f2, f3}, [t, {r4, r5}], f4;") == Code::texture_operands);
  CHECK(texture("tex.2d.v4.f32.f32 {f0, f1, f2, f3}|p, [t, {f4, f5}];", "sm_75", "7.0") == Code::texture_operands);
  CHECK(texture("tex.2d.v4.f32.f32 {f0, f1, f2, f3}|p, [t, {f4, f5}];", "sm_75", "7.1") == Code{});
  CHECK(texture("tex.a1d.v4.f32.f32 {f0, f1, f2, f3}, [l0, l1, {i0, f5}];") == Code::texture_operands);
  constexpr std::string_view independent = "sm_90a, texmode_independent";
  CHECK(texture("tex.2d.v4.f32.f32 {f0, f1, f2, f3}, [t, {f4, f5}];", independent) == Code::texture_operands);
  CHECK(texture("tex.2d.v4.f32.f32 {f0, f1, f2, f3}, [t, l0, {f4, f5}];", independent) == Code{});
  CHECK(texture("txq.filter_mode.b32 r0, [t];") == Code{});
  CHECK(texture("txq.filter_mode.b32 r0, [t];", independent) == Code::operand_kind);
  CHECK(code("ld.global.v2.b32 {r0, f0}, [l0];") == Code{});
}

TEST_CASE("needs_version, needs_target") {
  CHECK(code("mov.u32 r0, 1; elect.sync r0|p0, r1;", "7.8", "sm_90") == Code::needs_version);
  CHECK(code("elect.sync r0|p0, r1;", "8.0", "sm_90") == Code{});
  CHECK(code("elect.sync r0|p0, r1;", "8.0", "sm_89") == Code::needs_target);
  CHECK(code("setmaxnreg.inc.sync.aligned.u32 64;", "8.0", "sm_90") == Code::needs_target);
  CHECK(code("setmaxnreg.inc.sync.aligned.u32 64;", "8.0", "sm_90a") == Code{});
  CHECK(code("fence.acq_rel.cluster;", "7.8", "sm_80") == Code::needs_target);  // the value, not the form
}

TEST_CASE("named rules") {
  CHECK(code("bar.sync 0, 33;") == Code::whole_warps);
  CHECK(code("bar.sync 0, 0;") == Code{});
  CHECK(code("bar.arrive 0, 0;") == Code::whole_warps);
  CHECK(code("barrier.red.popc.u32 r0, 1, 31, p0;") == Code::whole_warps);
  CHECK(code("setmaxnreg.inc.sync.aligned.u32 25;") == Code::multiple_of_8);
  CHECK(code("vote.all.pred p0, p1;") == Code::before_independent_threads);
  CHECK(code("vote.all.pred p0, p1;", "6.3", "sm_75") == Code{});
  CHECK(code("cvta.global.u32 r0, r1;") == Code::before_64_bits);
  CHECK(first(diagnose(".version 9.0\n.target sm_90\n.address_size 32\n")) == Code::before_64_bits);
  CHECK(first(diagnose(".version 9.0\n.target sm_89\n.address_size 32\n")) == Code{});
  CHECK(code("cvta.global.u32 r0, r1;", "8.0", "sm_89") == Code{});
  CHECK(code("atom.global.add.u32 r0, [r1], r2;") == Code::address_register);
  CHECK(code("cp.async.ca.shared.global [sv], [l0], 5;") == Code::copy_size);
  CHECK(code("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sv], [l0], 17, [sv];") ==
        Code::multiple_of_16);
  CHECK(code("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, l0, l1, p0, 0, 1, 0, 0;") ==
        Code::wgmma_scale);
}

TEST_CASE("matrices: constants, and what ended with a version") {
  const auto wmma = [](std::string_view version, std::string_view mnemonic) {
    return code(cat(mnemonic, " {r0,r1,r2,r3}, {r0,r1,r2,r3,r4,r5,r6,r7}, {r0,r1,r2,r3,r4,r5,r6,r7}, {r0,r1,r2,r3};"),
                version, "sm_70");
  };
  CHECK(wmma("6.2", "wmma.mma.sync.row.col.m16n16k16.f16.f16") == Code{});
  CHECK(wmma("6.3", "wmma.mma.sync.row.col.m16n16k16.f16.f16") == Code::aligned_required);
  CHECK(wmma("6.4", "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16.satfinite") == Code{});
  CHECK(wmma("6.5", "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16.satfinite") == Code::float_satfinite);

  const auto sparse = [](std::string_view mnemonic, int selector) {
    return code(cat(mnemonic, " {f0,f1,f2,f3}, {r0,r1}, {r0,r1}, {f0,f1,f2,f3}, r4, ", selector, ";"));
  };
  CHECK(sparse("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 3) == Code{});
  CHECK(sparse("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4) == Code::immediate_range);
  const auto long_sparse = [](std::string_view types, int selector) {
    return code(cat("mma.sp.sync.aligned.", types, " {r0,r1,r2,r3}, {r0,r1,r2,r3}, {r0,r1,r2,r3}, {r0,r1,r2,r3}, r4, ",
                    selector, ";"));
  };
  CHECK(long_sparse("m16n8k32.row.col.f32.f16.f16.f32", 1) == Code{});
  CHECK(long_sparse("m16n8k64.row.col.s32.u8.s8.s32", 1) == Code::sparsity_selector);

  const auto scaled = [](std::string_view kind, std::string_view types, std::string_view a, std::string_view b) {
    return code(cat("mma.sync.aligned.", kind, types, " {f0,f1,f2,f3}, {r0,r1,r2,r3}, {r0,r1}, {f0,f1,f2,f3}, r4, ", a,
                    ", r5, ", b, ";"),
                "9.1", "sm_120a");
  };
  constexpr std::string_view one = "m16n8k32.row.col.kind::mxf8f6f4.block_scale", mixed = ".f32.e3m2.e2m1.f32.ue8m0";
  constexpr std::string_view two = "m16n8k64.row.col.kind::mxf4.block_scale", fp4 = ".f32.e2m1.e2m1.f32.ue8m0";
  constexpr std::string_view four = "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X";
  CHECK(scaled(one, mixed, "{3, 1}", "{h0, 3}") == Code{});
  CHECK(scaled(one, mixed, "{4, 1}", "{0, 0}") == Code::scale_selector);
  CHECK(scaled(one, mixed, "{0, 2}", "{0, 0}") == Code::scale_selector);
  CHECK(scaled(one, mixed, "{0, 0}", "{0, 4}") == Code::scale_selector);
  CHECK(scaled(two, fp4, "{2, 0}", "{0, 0}") == Code{});
  CHECK(scaled(two, fp4, "{0, 0}", "{1, 0}") == Code::scale_selector);
  CHECK(scaled(four, fp4, "{2, 0}", "{0, 0}") == Code::scale_selector);
}

TEST_CASE("matrices: types that go together") {
  CHECK(code("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16 {f0,f1,f2,f3}, {r0,r1,r2,r3}, {r0,r1}, {r0,r1};") ==
        Code::illegal_modifiers);
  CHECK(code("mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f32 {r0,r1,r2,r3}, {r0,r1}, {r0,r1}, {r0,r1,r2,r3};") ==
        Code::illegal_modifiers);
  CHECK(code("wmma.mma.sync.aligned.row.col.m8n8k32.s32.u4.s4.s32 {r0,r1}, {r0}, {r0}, {r0,r1};") ==
        Code::illegal_modifiers);
  CHECK(code("mma.sync.aligned.m8n8k32.row.col.s32.u4.s4.s32 {r0,r1}, {r0}, {r0}, {r0,r1};") == Code{});
  constexpr std::string_view mixed = "wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8 {r0,r1,r2,r3}, l0, l1, p0;";
  CHECK(code(mixed, "8.3", "sm_90a") == Code::needs_version);
  CHECK(code(mixed, "8.4", "sm_90a") == Code{});
}

TEST_CASE("redeclared_name") {
  CHECK(code(".reg .b32 x; .reg .b32 x;") == Code::redeclared_name);
  CHECK(code(".reg .b32 x; { .reg .b32 x; }") == Code{});
  CHECK(code("twice: twice:") == Code::redeclared_name);
  CHECK(code(".shared .b32 s; .shared .b32 s;") == Code::redeclared_name);
  CHECK(first(diagnose(".version 9.0\n.target sm_90\n.global .b32 g; .global .b32 g;")) == Code::redeclared_name);
  CHECK(first(diagnose(".version 9.0\n.target sm_90\n.entry k(.param .b32 a, .param .b32 a) { ret; }")) ==
        Code::redeclared_name);
}

TEST_CASE("unreachable_code is a warning") {
  const auto found = diagnose(kernel("ret; add.s32 r0, r1, r2;"));
  REQUIRE(found.size() == 1);
  CHECK(found[0].code == Code::unreachable_code);
  CHECK_FALSE(ptx::has_error(found));
  CHECK(code("bra on; on: add.s32 r0, r1, r2;") == Code{});
  CHECK(code("ret; lonely: add.s32 r0, r1, r2;") == Code::unreachable_code);
}

TEST_CASE("wrong_arguments") {
  CHECK(code("call f, (r0, r1);") == Code::wrong_arguments);
  CHECK(code("call f, (r0);") == Code{});
  CHECK(code("call k, (l0);") == Code::wrong_arguments);
}

TEST_CASE("unknown_target, target_version") {
  CHECK(first(diagnose(".version 9.0\n.target sm_91\n")) == Code::unknown_target);
  CHECK(first(diagnose(".version 7.8\n.target sm_90a\n")) == Code::target_version);
  CHECK(first(diagnose(".version 8.0\n.target sm_90a, debug\n.section .debug_info { }\n")) == Code{});
  CHECK(first(diagnose(".version 8.0\n.target sm_90a, debug\n")) == Code::directive_value);
}

TEST_CASE("special registers of bits are no floating-point numbers") {
  CHECK(code("mov.u32 r0, %envreg2;") == Code{});
  CHECK(code("mov.f32 f0, %envreg2;") == Code::operand_type);
}

TEST_CASE("unknown_version") {
  for (const std::string_view version : {"2.4", "5.2", "7.9", "8.9", "9.6", "10.0"})
    CHECK(first(diagnose(ptx::cat(".version ", version, "\n.target sm_75\n"))) == Code::unknown_version);
  for (const std::string_view version : {"6.5", "7.8", "8.8", "9.5"})
    CHECK(first(diagnose(ptx::cat(".version ", version, "\n.target sm_75\n"))) == Code{});
}

TEST_CASE("what is wrong with the head of a module has its line") {
  const auto line = [](std::string_view text) { return diagnose(text).at(0).place.line; };
  CHECK(line("\n.version 7.9\n.target sm_75\n") == 2);
  CHECK(line(".version 9.0\n\n.target sm_91\n") == 3);
  CHECK(line(".version 7.8\n.target sm_90a\n") == 2);
  CHECK(line(".version 9.0\n.target sm_90, map_f64_to_f32\n") == 2);
}

TEST_CASE("reserved_name") {
  const auto module = [](std::string_view text) {
    return first(diagnose(ptx::cat(".version 9.0\n.target sm_90\n", text)));
  };
  CHECK(module(".global .b32 WARP_SZ;") == Code::reserved_name);
  CHECK(module(".global .b32 %tid;") == Code::reserved_name);
  CHECK(module(".func %laneid() { ret; }") == Code::reserved_name);
  CHECK(module(".func f(.param .b32 WARP_SZ) { ret; }") == Code::reserved_name);
  CHECK(code(".reg .b32 WARP_SZ;") == Code::reserved_name);
  CHECK(code("WARP_SZ: bra WARP_SZ;") == Code::reserved_name);
  CHECK(module(".global .b32 add;\n.func reg() { ret; }") == Code{});
  CHECK(code("{ .reg .b32 %laneid, mov; mov.b32 %laneid, mov; }") == Code{});
}

TEST_CASE("directive_value, register_type") {
  CHECK(first(diagnose(".version 9.0\n.target sm_90\n.entry k() .maxntid 0 { ret; }")) == Code::directive_value);
  CHECK(first(diagnose(".version 9.0\n.target sm_90\n.entry k() .maxntid 32 .reqntid 32 { ret; }")) ==
        Code::directive_value);
  CHECK(first(diagnose(".version 9.0\n.target sm_90\n.shared .align 3 .b32 s;")) == Code::directive_value);
  CHECK(first(diagnose(".version 9.0\n.target sm_90\n.shared .b32 s[];")) == Code::directive_value);
  CHECK(code(".reg .bf16 x;") == Code::register_type);
  CHECK(code(".reg .v2 .b128 x;") == Code::register_type);
}

TEST_CASE("messages say what was written, what is legal, and where the manual says so") {
  const auto message = [](std::string_view body) {
    const auto all = diagnose(kernel(body));
    return all.empty() ? std::string() : all[0].message;
  };
  CHECK(message("add.s32 r0, r1, f0;") ==
        "`add.s32`: operand 3 (b) is the .f32 register `f0`; it must be a .s32 register or constant");
  CHECK(diagnose(kernel("add.s32 r0, r1, f0;"))[0].section == "9.7.1.1");
  CHECK(message("exit r0;") == "`exit`: 1 operand does not fit; the form is `exit`");
  CHECK(message("add.s32 r0, r1, 1.0;") ==
        "`add.s32`: operand 3 (b) is the floating-point number `0d3FF0000000000000`; a constant of type .s32 is an "
        "integer");
  CHECK(message("add.rn.f16 h0, h1, 1.0;").ends_with("there are no constants of type .f16"));
  CHECK(message("ld.shared.b32 r0, [gv];").ends_with("`[gv]`, a variable in .global; it must be in .shared"));
  CHECK(message("ld.shared.b32 r0, [pv];").ends_with("a parameter; load the address that it holds with ld.param"));
  CHECK(message("ld.global.b32 r0, [nothing];") == "`ld.global.b32`: `nothing` is not declared");
  CHECK(message("createpolicy.fractional.L2::evict_last.b64 l0, 1.5;")
            .ends_with("the fraction is 1.5; it must be above 0 and at most 1"));
  CHECK(message(".reg .v2 .b128 x;") == "a vector register has at most 4 elements and 128 bits, not 2 of .b128");
  constexpr std::string_view copy =
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [sv], ";
  CHECK(message(cat(copy, "[l0, {r0, r1, r2}], [sv];"))
            .ends_with("operand 2 (coords) is the vector `{r0, r1, r2}`; it must be a vector of 2 .s32 registers"));
  const auto gate = diagnose(kernel("fence.acq_rel.cluster;", "7.8", "sm_80"));
  REQUIRE(gate.size() == 1);
  CHECK(gate[0].message == "`fence.acq_rel.cluster`: `.cluster` needs PTX 7.8 and sm_90, the target is sm_80");
}

TEST_CASE("unified_address") {
  CHECK(code("ld.global.b32 r0, [l0].unified;") == Code{});
  CHECK(code("ld.global.b32 r0, [gv].unified;") == Code::unified_address);
  CHECK(code("st.global.b32 [l0].unified, r0;") == Code::unified_address);
  CHECK(code("ld.shared.b32 r0, [l0].unified;") == Code::unified_address);
  CHECK(first(diagnose(".version 9.0\n.target sm_90a\n.address_size 64\n.global .attribute(.unified(19, 95)) .f32 x;\n"
                       ".visible .entry k() {\n.reg .f32 f;\nld.global.f32 f, [x].unified;\nret;\n}\n")) == Code{});
}

TEST_CASE("elements of arrays") {
  CHECK(code("ld.global.b8 r0, gv[r1+4];") == Code{});
  CHECK(code("mov.u64 l0, gv[h0];") == Code{});
  CHECK(code("ld.global.b8 r0, gv[f1];") == Code::address_register);
  CHECK(code("ld.shared.b8 r0, gv[r1];") == Code::state_space);
  CHECK(code("atom.global.add.u32 r0, gv[r1], r2;") == Code::operand_kind);
  CHECK(code("add.u32 r0, r1, r2+4;") == Code::assembler_only);
  CHECK(code("add.u32 r0+4, r1, r2;") == Code::operand_kind);
  CHECK(code("add.f32 f0, f1, f2+4;") == Code::operand_kind);
  CHECK(code("ld.global.b32 r0, [1.5+8];") == Code::address_register);
}

TEST_CASE("other_order: a note where it is asked for, and canonical text from the ir") {
  const std::string text = kernel("add.ftz.rn.sat.f32 f0, f1, f2;\nadd.rn.ftz.sat.f32 f0, f1, f2;");
  ptx::ir::Lowered lowered = ptx::ir::lower(ptx::syntax::parse(text).tree);
  CHECK(ptx::check::check(lowered.module).empty());
  const ptx::Diagnostics notes = ptx::check::lint(lowered.module);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].code == Code::other_order);
  CHECK(notes[0].severity == ptx::Severity::note);
  CHECK(notes[0].message.find("the manual writes `add.rn.ftz.sat.f32`") != std::string::npos);
  CHECK(ptx::ir::emit(lowered.module).find("add.ftz.rn") == std::string::npos);
}

TEST_CASE("32-bit addresses of loads and stores of generic and global memory ended with sm_90") {
  CHECK(code("ld.global.b32 r0, [r1];") == Code::address_register);
  CHECK(code("ld.global.b32 r0, [r1];", "8.0", "sm_80") == Code{});
  CHECK(code("ld.shared.b32 r0, [r1];") == Code{});
}

TEST_CASE("WARP_SZ is the number 32; a label is no value") {
  CHECK(code("add.u32 r0, r1, WARP_SZ;") == Code{});
  CHECK(code("add.f32 f0, f1, WARP_SZ;") == Code::immediate_kind);
  CHECK(code("barrier.sync WARP_SZ;") == Code::immediate_range);
  CHECK(code("lab: mov.b64 l0, lab;") == Code::operand_kind);
}

TEST_CASE("input_parameter, output_parameter, guarded_argument, argument_address: parameters") {
  const auto in_function = [](std::string_view body) {
    return first(
        diagnose(ptx::cat(".version 9.0\n.target sm_90a\n.address_size 64\n"
                          ".func (.param .b32 result) f(.param .b32 a)\n{\n.reg .b32 r<2>; .reg .b64 l<2>;\n",
                          body, "\nret;\n}\n")));
  };
  CHECK(in_function("st.param.b32 [result], r0;") == Code{});
  CHECK(in_function("st.param.b32 [a], r0;") == Code::input_parameter);
  CHECK(in_function("ld.param.b32 r0, [a];") == Code{});
  CHECK(in_function("call (5), f, (r0);") == Code::wrong_arguments);  // a number for the result: ptxas crashes
  CHECK(in_function("ld.param.b32 r0, [result];") == Code::output_parameter);
  CHECK(in_function("ld.param::func.b32 r0, [result+4];") == Code::output_parameter);
  CHECK(code("@p0 ld.param.b32 r0, [pv];") == Code{});
  CHECK(code(".param .b32 q; @p0 st.param.b32 [q], r0;") == Code::guarded_argument);
  CHECK(code(".param .b32 q; @!p0 ld.param.b32 r0, [q];") == Code::guarded_argument);
  CHECK(in_function("ld.param::func.b32 r0, [l0];") == Code{});
  CHECK(in_function("mov.u64 l0, a;") == Code{});
  CHECK(code(".param .b32 q; st.param.b32 [q], r0;") == Code{});
  CHECK(code(".param .b32 q; mov.u64 l0, q;") == Code::argument_address);
  CHECK(code("cvta.param.u64 l0, pv;") == Code{});
  CHECK(code("ld.param::func.b32 r0, [pv];") == Code::state_space);
  CHECK(code("ld.param::func.b32 r0, [l0];") == Code::address_register);
  CHECK(code(".param .b32 q; ld.param::entry.b32 r0, [q];") == Code::state_space);
}

TEST_CASE("policy_fraction, policy_sizes") {
  CHECK(code("createpolicy.fractional.L2::evict_last.b64 l0, 0.5;") == Code{});
  CHECK(code("createpolicy.fractional.L2::evict_last.b64 l0, 0.0;") == Code::policy_fraction);
  CHECK(code("createpolicy.fractional.L2::evict_last.b64 l0, 1.5;") == Code::policy_fraction);
  CHECK(code("createpolicy.range.L2::evict_last.b64 l0, [l1], 4, 4;") == Code{});
  CHECK(code("createpolicy.range.L2::evict_last.b64 l0, [l1], 5, 4;") == Code::policy_sizes);
}

TEST_CASE("bulk_store_size, bulk_store_address, copy_source_size, whole_warp_mask, multiple_of_16") {
  CHECK(code("st.bulk [l0], 8, 0;", "9.0", "sm_100a") == Code{});
  CHECK(code("st.bulk [l0], 12, 0;", "9.0", "sm_100a") == Code::bulk_store_size);
  CHECK(code("st.bulk.weak.shared::cta [sv], 64, 0;", "9.0", "sm_100a") == Code::bulk_store_address);
  CHECK(code("st.bulk.shared::cta [sv+64], r0, 0;", "9.0", "sm_100a") == Code::bulk_store_address);
  CHECK(code("st.bulk [sv+64], 64, 0;", "9.0", "sm_100a") == Code{});
  CHECK(code("st.bulk.shared::cta [r0+64], 64, 0;", "9.0", "sm_100a") == Code{});
  CHECK(code("cp.async.ca.shared.global [sv], [gv], 8, 8;") == Code{});
  CHECK(code("cp.async.ca.shared.global [sv], [gv], 4, 8;") == Code::copy_source_size);
  const auto pull = [](std::string_view mask) {
    return code(ptx::cat("fabric.try_pullred.async.multimem.shared::cta.mbarrier::complete_tx::bytes"
                         ".mbarrier::report::fabric.relaxed.sys.add.u32.sync [sv], [r0, l0], 256, [sv], ",
                         mask, ";"),
                "9.3", "sm_100");
  };
  CHECK(pull("0xffffffff") == Code{});
  CHECK(pull("0xffff") == Code::whole_warp_mask);
  CHECK(code("cp.async.bulk.prefetch.L2.global [gv], 24;") == Code::multiple_of_16);
  CHECK(code("cp.async.bulk.prefetch.L2.global [gv], 32;") == Code{});
}

TEST_CASE("modifiers that exclude each other") {
  const std::string eight = ".v8.b32 {r0, r1, r2, r3, r4, r5, r6, r7}, [l0];";
  CHECK(code("ld.global.cg" + eight, "9.0", "sm_100a") == Code{});
  CHECK(code("ld.global.cg.L1::evict_first" + eight, "9.0", "sm_100a") == Code::illegal_modifiers);
  CHECK(code("multimem.st.weak.global.u32 [l0], r0;") == Code{});
  CHECK(code("multimem.st.weak.relaxed.gpu.global.u32 [l0], r0;") == Code::illegal_modifiers);
  CHECK(code("multimem.st.global.v2.f16 [l0], {h0, h1};") == Code{});
  CHECK(code("multimem.st.global.f16 [l0], h0;") == Code::illegal_modifiers);
  const std::string copy = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes";
  CHECK(code(copy + ".mbarrier::report::disabled.ignore_oob [sv], [gv], r0, 0, 0, [sv];", "9.4", "sm_107a") == Code{});
  CHECK(code(copy + ".mbarrier::report::validity::per_element::ff.ignore_oob [sv], [gv], r0, 0, 0, [sv];", "9.4",
             "sm_107a") == Code::illegal_modifiers);
  CHECK(code("createpolicy.range.b64.L2::evict_last.L2::evict_first l0, [l1], 4, 4;") == Code{});
  CHECK(code("createpolicy.range.L2::evict_first.L2::evict_last.b64 l0, [l1], 4, 4;") == Code::illegal_modifiers);
}

TEST_CASE("mbarrier.arrive without a state since PTX 7.1") {
  CHECK(code("mbarrier.arrive.shared.b64 _, [sv];", "7.1", "sm_80") == Code{});
  CHECK(code("mbarrier.arrive.shared.b64 _, [sv];", "7.0", "sm_80") == Code::needs_version);
}
