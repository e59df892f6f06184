// Tensor copies, tensor maps and tcgen05: what each rule refuses, and its nearest legal neighbour.
#include <doctest/doctest.h>

#include "ptx/base/text.h"
#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/syntax/parse.h"

namespace {

using ptx::Code;

Code code(std::string_view body, std::string_view target = "sm_100a", std::string_view version = "9.4") {
  const ptx::syntax::Parsed parsed = ptx::syntax::parse(ptx::cat(
      ".version ", version, "\n.target ", target,
      "\n.address_size 64\n.global .b8 gv[256]; .const .b8 cv[256]; .shared .b8 sv[256];\n"
      ".visible .entry k()\n{\n.reg .pred p<4>; .reg .b8 b<4>; .reg .b16 h<4>; .reg .b32 r<32>; .reg .u32 u<4>; "
      ".reg .f32 f<4>; .reg .b64 l<4>; .reg .b128 q<2>;\n",
      body, "\nret;\n}\n"));
  REQUIRE(parsed.diagnostics.empty());
  ptx::ir::Lowered lowered = ptx::ir::lower(parsed.tree);
  REQUIRE(lowered.diagnostics.empty());
  const ptx::Diagnostics found = ptx::check::check(lowered.module);
  return found.empty() ? Code{} : found[0].code;
}

}  // namespace

TEST_CASE("address_offset, state_space: a tensor map is a register or a variable of global memory") {
  const auto load = [](std::string_view map) {
    return code(ptx::cat("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [sv], [", map,
                         ", {r0, r1}], [sv];"));
  };
  CHECK(load("l0") == Code{});
  CHECK(load("gv") == Code{});
  CHECK(load("l0+64") == Code::address_offset);
  CHECK(load("cv") == Code::state_space);
}

TEST_CASE("modes, ranks and overrides of tensor copies") {
  const auto prefetch = [](std::string_view modifiers, std::string_view operands) {
    return code(ptx::cat("cp.async.bulk.prefetch.tensor.", modifiers, " [l0", operands, ";"), "sm_107a");
  };
  CHECK(prefetch("2d.L2.global.tile::gather4", ", {r0, r1, r2, r3, r4}]") == Code{});
  CHECK(prefetch("3d.L2.global.tile::gather4", ", {r0, r1, r2, r3, r4}]") == Code::illegal_modifiers);
  CHECK(prefetch("2d.L2.global.im2col", ", {r0, r1}], {h0}") == Code::illegal_modifiers);
  CHECK(prefetch("4d.L2.global.im2col", ", {r0, r1, r2, r3}], {h0, h1}") == Code{});
  CHECK(prefetch("4d.L2.global.im2col", ", {r0, r1, r2, r3}], {h0}") == Code::vector_length);
  const std::string at = ".override::global_address", dim = at + ".override::global_dim", all = dim + "_stride";
  CHECK(prefetch("2d.L2.global" + at, ", l1, {r0, r1}]") == Code{});
  CHECK(prefetch("2d.L2.global" + at, ", {r0, r1}]") == Code::operand_kind);
  CHECK(prefetch("2d.L2.global" + at, ", 64, {r0, r1}]") == Code::operand_kind);
  CHECK(prefetch("1d.L2.global" + dim, ", l1, {h0}, {r0}]") == Code{});
  CHECK(prefetch("2d.L2.global" + dim, ", l1, {h0, h1}, {r0, r1}]") == Code::illegal_modifiers);
  CHECK(prefetch("1d.L2.global.override::global_dim", ", {h0}, {r0}]") == Code::illegal_modifiers);
  CHECK(prefetch("2d.L2.global" + all, ", l1, {h0, h1}, {r2}, h2, {r0, r1}]") == Code{});
  CHECK(prefetch("2d.L2.global" + all, ", l1, {b0, b1}, {r2}, h2, {r0, r1}]") == Code{});
  CHECK(prefetch("2d.L2.global" + all, ", l1, {b0, h1}, {r2}, h2, {r0, r1}]") == Code::operand_type);
  CHECK(prefetch("2d.L2.global" + all, ", l1, {r0, r1}, {r2}, h2, {r0, r1}]") == Code::operand_type);
  CHECK(code("cp.async.bulk.prefetch.tensor.1d.L2.global.L2::evict_last [l0, {r0}];") == Code::needs_target);
}

TEST_CASE("tensormap_value") {
  const auto replace = [](std::string_view field, int value, std::string_view target, std::string_view version) {
    return code(ptx::cat("tensormap.replace.tile.", field, ".global.b1024.b32 [l0], ", value, ";"), target, version);
  };
  CHECK(replace("elemtype", 12, "sm_90a", "8.3") == Code{});
  CHECK(replace("elemtype", 13, "sm_90a", "9.4") == Code::tensormap_value);
  CHECK(replace("elemtype", 13, "sm_100a", "8.6") == Code::tensormap_value);
  CHECK(replace("elemtype", 15, "sm_100a", "8.7") == Code{});
  CHECK(replace("elemtype", 16, "sm_100a", "8.7") == Code::immediate_range);
  CHECK(replace("swizzle_mode", 3, "sm_100a", "9.4") == Code{});
  CHECK(replace("swizzle_mode", 4, "sm_100a", "9.4") == Code::tensormap_value);
  CHECK(replace("swizzle_mode", 4, "sm_103a", "8.8") == Code{});
  CHECK(replace("swizzle_atomicity", 0, "sm_90a", "9.4") == Code::needs_target);
}

TEST_CASE("tcgen05_columns") {
  CHECK(code("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [sv], 64;") == Code{});
  CHECK(code("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [sv], 96;") == Code::tcgen05_columns);
  CHECK(code("tcgen05.alloc.exclusive.cta_group::1.sync.aligned.shared::cta.b32 [sv], 96;") == Code{});
  CHECK(code("tcgen05.dealloc.exclusive.cta_group::1.sync.aligned.b32 r0, 576;") == Code::tcgen05_columns);
  CHECK(code("tcgen05.dealloc.exclusive.cta_group::1.sync.aligned.b32 r0, 576;", "sm_107f") == Code{});
  CHECK(code("tcgen05.dealloc.cta_group::1.sync.aligned.b32 r0, 16;") == Code::tcgen05_columns);
}

TEST_CASE("tcgen05.ld, tcgen05.st: registers of a shape, addresses of tensor memory") {
  CHECK(code("tcgen05.ld.sync.aligned.16x128b.x2.b32 {r0, r1, r2, r3}, [r4+16];") == Code{});
  CHECK(code("tcgen05.ld.sync.aligned.16x128b.x2.b32 {r0, r1}, [r4];") == Code::vector_length);
  CHECK(code("tcgen05.ld.sync.aligned.16x128b.x2.b32 {r0, r1, r2, _}, [r4];") == Code::sink_operand);
  CHECK(code("tcgen05.ld.sync.aligned.16x256b.x64.b32 {r0}, [r4];") == Code::illegal_modifiers);
  CHECK(code("tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {r0}, [r4];") == Code::operand_count);
  CHECK(code("tcgen05.st.sync.aligned.32x32b.x1.b32 [l0], {r0};") == Code::operand_type);
  CHECK(code("tcgen05.st.sync.aligned.32x32b.x1.b32 [sv], {r0};") == Code::operand_kind);
  CHECK(code("tcgen05.ld.red.sync.aligned.32x32b.x1.min.f32 {f0}, f1, [r4];", "sm_103a") == Code::illegal_modifiers);
  CHECK(code("tcgen05.ld.red.sync.aligned.32x32b.x2.min.f32 {f0, f1}, f2, [r4];", "sm_103a") == Code{});
  CHECK(code("tcgen05.ld.red.sync.aligned.32x32b.x2.min.f32 {f0, f1}, f2, [r4];", "sm_100a") == Code::needs_target);
}

TEST_CASE("tcgen05.cp: shapes and their multicast") {
  CHECK(code("tcgen05.cp.cta_group::1.64x128b.warpx2::01_23 [r0], l0;") == Code{});
  CHECK(code("tcgen05.cp.cta_group::1.64x128b [r0], l0;") == Code::illegal_modifiers);
  CHECK(code("tcgen05.cp.cta_group::1.32x128b.warpx2::01_23 [r0], l0;") == Code::illegal_modifiers);
  CHECK(code("tcgen05.cp.cta_group::1.4x256b.warpx4 [r0], l0;") == Code::illegal_modifiers);
  CHECK(code("tcgen05.cp.cta_group::1.4x256b.b6x16_p32.b8x16 [r0], l0;") == Code::illegal_modifiers);
  CHECK(code("tcgen05.cp.cta_group::1.b8x16.4x256b.b6x16_p32 [r0], l0;") == Code{});
}

TEST_CASE("scale_input_d, and the other rules of tcgen05.mma") {
  const auto mma = [](std::string_view modifiers, std::string_view rest, std::string_view target = "sm_100a") {
    return code(ptx::cat("tcgen05.mma.cta_group::", modifiers, " [r0], ", rest, ";"), target);
  };
  CHECK(mma("1.kind::f16", "l0, l1, r1, {r2, r3, r4, r5}, p0, 3") == Code{});
  CHECK(mma("1.kind::f16", "l0, l1, r1, p0, 3", "sm_110a") == Code::scale_input_d);
  CHECK(mma("1.kind::f8f6f4", "l0, l1, r1, p0, 3") == Code::scale_input_d);
  CHECK(mma("1.kind::f16", "l0, l1, r1, p0, 16") == Code::immediate_range);
  CHECK(mma("2.kind::f16", "l0, l1, r1, {r2, r3, r4, r5}, p0") == Code::vector_length);
  CHECK(code("tcgen05.mma.cta_group::1.kind::f16 [u0], l0, l1, r1, p0;") == Code::operand_type);
  CHECK(mma("1.kind::f16.ashift.collector::a::lastuse", "[r1], l1, r2, p0") == Code{});
  CHECK(mma("1.kind::f16.ashift.collector::a::fill", "[r1], l1, r2, p0") == Code::illegal_modifiers);
  CHECK(mma("1.kind::f16.ashift", "l0, l1, r2, p0") == Code::operand_kind);
  CHECK(mma("1.kind::i8.collector::b::fill", "l0, l1, r2, p0") == Code::illegal_modifiers);
  CHECK(mma("1.kind::f16.collector::b::fill", "l0, l1, r2, p0") == Code::needs_target);
  CHECK(mma("1.kind::f8f6f4.decompress::lut::b", "l0, l1, [r2], r3, p0", "sm_107a") == Code{});
  CHECK(mma("1.kind::f16.decompress::lut::b", "l0, l1, [r2], r3, p0", "sm_107a") == Code::illegal_modifiers);
  CHECK(mma("1.kind::mxf4nvf4.block_scale.block16", "l0, l1, r2, [r3], [r4], p0") == Code{});
  CHECK(mma("1.kind::mxf4nvf4.block_scale", "l0, l1, r2, [r3], [r4], p0") == Code::illegal_modifiers);
  CHECK(mma("1.kind::mxf4.block_scale.block16", "l0, l1, r2, [r3], [r4], p0") == Code::illegal_modifiers);
  CHECK(mma("1.kind::mxf8f6f4.block_scale.scale_vec::1X", "l0, l1, r2, [r3], [r4], p0", "sm_100f") ==
        Code::needs_target);
}

TEST_CASE("clusterlaunchcontrol, tensormap.cp_fenceproxy") {
  CHECK(code("clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {r0, _, _, _}, q0;") == Code{});
  CHECK(code("clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {r0, r1, r2}, q0;") == Code::vector_length);
  CHECK(code("clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 r0, l0;") == Code::operand_type);
  CHECK(code("clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [sv], "
             "[sv];",
             "sm_100") == Code::needs_target);
  CHECK(code("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [gv], [sv], 128;",
             "sm_90") == Code{});
  CHECK(code("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [gv], [sv], 64;",
             "sm_90") == Code::immediate_range);
}

TEST_CASE("mixed_vector") {
  CHECK(code("st.global.v2.b32 [l0], {f0, u1};") == Code::mixed_vector);
  CHECK(code("st.global.v2.b32 [l0], {f0, r1};") == Code{});
  CHECK(code("st.global.v4.b32 [l0], {f0, r1, u1, r2};") == Code{});
  CHECK(code("ld.global.v4.b32 {f0, _, u1, r2}, [l0];") == Code::mixed_vector);
  CHECK(code("st.global.v2.b32 [l0], {f0, 1};") == Code::mixed_vector);
  CHECK(code("mov.b64 l0, {f0, 1};") == Code::mixed_vector);
  CHECK(code("mov.b64 l0, {u0, 1};") == Code{});
  CHECK(code("tcgen05.ld.sync.aligned.32x32b.x2.b32 {f0, u1}, [r4];") == Code::mixed_vector);
}
