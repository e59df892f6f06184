// The texts of 0.1.1's families of instructions, written in C++.
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
#include "ptx/base/text.h"

namespace ptx::author::testing {

using enum isa::Type;

namespace {

std::vector<Operand> all(const RegArray& registers) {
  std::vector<Operand> list;
  for (std::uint32_t i = 0; i < registers.count; ++i) list.push_back(registers[i]);
  return list;
}

}  // namespace

TEST_CASE("warps, barriers, fences, clusters") {
  golden("warp_reduce_sum_width_4_f32_u32", [](Builder& b) {
    const Reg x = b.scalar(f32, 0.0), y = b.scalar(u32, 0);
    warp::reduce_sum(b, x, {.width = 4}), warp::reduce_max(b, y, {.width = 2});
  });
  Options later;
  later.version = {8, 7};
  golden(
      "fences_bars_named_barrier",
      [](Builder& b) {
        b.emit("fence.proxy.async"), b.emit("fence.proxy.async.shared::cta");
        b.emit("fence.mbarrier_init.release.cluster");
        b.emit("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster");
        b.emit("bar.sync", {0}), b.emit("bar.sync", {1, 128}), b.emit("bar.sync", {3, 64});
        b.emit("bar.sync", {b.scalar(u32, 2)});
      },
      later);
  golden("cluster", [](Builder& b) {
    const Reg a = b.scalar(u32, 0), c = b.scalar(u32, 1);
    cluster::sync(b), b.emit("barrier.cluster.arrive.aligned"), b.emit("barrier.cluster.wait.aligned");
    cluster::rank(b, 0), cluster::map_shared_u32(b, a, 1), cluster::arrive_remote(b, a, c);
  });
  golden("setmaxnreg_elect_selp_mad_cvta", [](Builder& b) {
    const Reg d = b.scalar(u32), p = b.scalar(pred), q = b.scalar(b64);
    for (const auto& [n, way] : {std::pair{240, "inc"}, {24, "dec"}, {232, "inc"}, {40, "dec"}})
      b.emit(cat("setmaxnreg.", way, ".sync.aligned.u32"), {n});
    b.emit("elect.sync", {Pair{d, p}, 0xffffffff});
    b.emit("selp.u32", {d, 1, 0, p});
    b.emit("mad.lo.s32", {b.scalar(u32), d, d, d});
    b.emit("cvta.param.u64", {b.scalar(b64), q});
    b.emit("cvta.to.global.u64", {b.scalar(b64), q});
  });
}

TEST_CASE("mbarrier") {
  golden("mbarrier", [](Builder& b) {
    const Barriers m = barriers(b, 2);
    const Reg ph = b.scalar(u32, 0);
    b.emit("mbarrier.init.shared::cta.b64", {m[1].where, 4});
    const Reg st = b.scalar(b64);
    b.emit("mbarrier.arrive.shared.b64", {st, m[0].where});
    b.emit("mbarrier.arrive.expect_tx.shared::cta.b64", {b.scalar(b64), m[1].where, 256});
    b.emit("mbarrier.expect_tx.shared.b64", {m[0].where, 8});
    b.emit("mbarrier.try_wait.parity.shared.b64", {b.scalar(pred), m[0].where, ph});
    b.emit("mbarrier.try_wait.shared.b64", {b.scalar(pred), m[0].where, st});
    mbarrier::wait(b, m[1].where, ph), b.emit("mbarrier.inval.shared.b64", {m[0].where});
  });
  Options author;
  author.extern_shared = "smem";
  golden(
      "mbarrier_array",
      [](Builder& b) {
        const Reg base = shared_base(b, "smem");
        const mbarrier::Array r{&b, base, 64, 2};
        const Reg s = b.scalar(u32, 0);
        barrier_array::init_all(b, r, 1);
        const mbarrier::Slot slot = barrier_array::at(b, r, s);
        mbarrier::wait(b, slot, 0);
        b.emit("mbarrier.arrive.expect_tx.shared::cta.b64", {b.scalar(b64), slot.address(), 128});
        b.emit("mbarrier.arrive.shared.b64", {b.scalar(b64), r[1].address()});
        barrier_array::arrive_remote_all(b, r, s);
      },
      author);
}

TEST_CASE("copies") {
  golden("cp_async", [](Builder& b) {
    const Reg s = b.scalar(u32), g = b.scalar(b64);
    b.emit("cp.async.cg.shared.global", {b.address(s), b.address(g), 16});
    b.emit("cp.async.ca.shared.global", {b.address(s), b.address(g), 4});
    b.emit("cp.async.commit_group"), b.emit("cp.async.wait_group", {1}), b.emit("cp.async.wait_all");
    b.emit("cp.async.bulk.commit_group"), b.emit("cp.async.bulk.wait_group.read", {0});
  });
  Options blackwell;
  blackwell.target = "sm_100a";
  golden(
      "tma_tensor_2d_load_store_multicast_cta_group",
      [](Builder& b) {
        const Shared s = shared(b, bf16, {64, 64});
        const Barriers m = barriers(b, 1);
        const Reg d = b.scalar(u64), x = b.scalar(u32), mask = b.scalar(b16);
        const Modifier pair = modifiers::cta_group_2;
        tensor_copy::load(b, s.address(), d, {0, x}, m[0].where);
        tensor_copy::load(b, s[0].address(), d, {x, 0}, m[0].where, {.multicast_mask = mask});
        tensor_copy::load(b, s.address(), d, {x, x}, m[0].where, {.cta_group = pair});
        tensor_copy::store(b, d, {0, 0}, s.address());
        tensor_copy::load(b, s.address(), d, {0, 0}, b.address(x),
                          {.mode = modifiers::tile, .space = modifiers::shared_cta, .cta_group = pair});
      },
      blackwell);
  golden("ptx_tma_rank_3", [](Builder& b) {
    const Reg d = b.scalar(u64), s = b.scalar(u32), r = b.scalar(u32), m = b.scalar(b16);
    const Address at = b.address(s);
    const auto block = [&] {
      const Reg column = b.scalar(u32);
      return b.emit("shr.u32", {column, r, 6}), column;
    };
    tensor_copy::load(b, at, d, {0, r, block()}, at, {.mode = modifiers::tile});
    tensor_copy::load(b, at, d, {0, r, 2}, at, {.mode = modifiers::tile});
    tensor_copy::load(b, at, d, {0, r, r}, at,
                      {.mode = modifiers::tile, .multicast_mask = m, .pred = b.guard(cluster::rank(b, 0))});
    tensor_copy::store(b, d, {0, r, block()}, at, {.mode = modifiers::tile});
  });
}

TEST_CASE("tensor copies of every mode") {
  const auto text = [](const std::function<void(Builder&, const Reg&, const Address&)>& body) {
    Options options;
    options.target = "sm_100a";
    Builder b(options);
    const Reg map = b.scalar(u64), at = b.scalar(u32);
    body(b, map, b.address(at));
    b.emit("ret");
    const std::string all = ir::emit(b.finish().module);
    const std::size_t begin = all.find("cp.");
    return all.substr(begin, all.find(';', begin) - begin);
  };
  CHECK(text([](Builder& b, const Reg& map, const Address& at) {
          tensor_copy::load(b, at, map, {0, 0, 0, 0}, at, {.mode = modifiers::im2col, .offsets = {{1, 2}}});
        }) ==
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r0], [%rd0, {0, 0, 0, "
        "0}], [%r0], {1, 2}");
  CHECK(
      text([](Builder& b, const Reg& map, const Address& at) {
        tensor_copy::load(b, at, map, {0, 1, 2, 3, 4}, at, {.mode = modifiers::tile_gather4});
      }) ==
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [%r0], [%rd0, {0, 1, "
      "2, 3, 4}], [%r0]");
  CHECK(text([](Builder& b, const Reg& map, const Address& at) {
          tensor_copy::reduce(b, modifiers::add, map, {0, 0}, at);
        }) == "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd0, {0, 0}], [%r0]");
  CHECK(text([](Builder& b, const Reg& map, const Address&) {
          tensor_copy::prefetch(b, map, {0}, {.cache_hint = map});
        }) == "cp.async.bulk.prefetch.tensor.1d.L2.global.L2::cache_hint [%rd0, {0}], %rd0");
  const auto refused = [&](const tensor_copy::Coordinates& at, std::optional<Modifier> mode, const char* why) {
    CHECK_THROWS_WITH_AS(text([&](Builder& b, const Reg& map, const Address& to) {
                           tensor_copy::load(b, to, map, at, to, {.mode = mode});
                         }),
                         doctest::Contains(why), Refused);
  };
  refused({}, {}, "1 to 5 coordinates, one for each dimension, not 0");
  refused({0, 1}, modifiers::tile_gather4, "tile::gather4 takes 5 coordinates, a column and four rows, not 2");
  refused({0, 1}, modifiers::im2col, "im2col");
}

TEST_CASE("matrices") {
  golden("wgmma_descriptor_builders", [](Builder& b) {
    const Shared s = wgmma_tile(b, bf16, {64, 64}, false);
    const Reg a = b.scalar(u32);
    wgmma::make_descriptor(
        b, s, {.leading_byte_offset = 16, .stride_byte_offset = 1024, .swizzle = 1, .addr_byte_offset = 32});
    wgmma::masked_descriptor(b, a, {.byte_offset = 64});
    wgmma::auto_descriptor(b, a, bf16, {64, 16}, {});
  });
  golden("wgmma_mma_async_with_tiles", [](Builder& b) {
    const Shared sa = wgmma_tile(b, bf16, {64, 16}, false), sb = wgmma_tile(b, bf16, {16, 8}, true);
    const RegArray acc = b.array(f32, 4);
    b.emit("wgmma.fence.sync.aligned");
    wgmma::mma_async(b, {64, 8, 16}, f32, bf16, bf16, all(acc), sa, sb, {.scale_d = true, .trans_b = 1});
    b.emit("wgmma.commit_group.sync.aligned"), b.emit("wgmma.wait_group.sync.aligned", {0});
  });
  golden("mma_sync", [](Builder& b) {
    const RegArray d = b.array(f32, 4), a = b.array(b32, 4), bb = b.array(b32, 2);
    mma::sync(b, {16, 8, 16}, f32, bf16, bf16, f32, all(d), all(a), all(bb), all(d));
  });
  golden("stmatrix_ldmatrix", [](Builder& b) {
    const RegArray r = b.array(b32, 4);
    const Reg a = b.scalar(u32);
    matrix::stmatrix(b, b.address(a), all(r), {.layout = "x4.trans"});
    matrix::ldmatrix(b, all(r), b.address(a), {.layout = "m8n8.x4"});
    matrix::ldmatrix(b, {r[0], r[1]}, b.address(a), {.trans = true});
  });
  golden("stmatrix_x4_trans_f32_bf16_8_f32_one_group", [](Builder& b) {
    std::vector<Operand> f, h, p;
    for (int i = 0; i < 8; ++i) f.push_back(b.scalar(f32));
    const Reg a = b.scalar(u32), l = b.scalar(u32);
    for (int i = 0; i < 8; ++i) h.push_back(b.scalar(b16));
    for (int i = 0; i < 4; ++i) p.push_back(b.scalar(b32));
    matrix::stmatrix_x4_trans_f32_bf16(b, f, a, l, 72, {.tmp_bf16 = h, .tmp_pack = p});
  });
}

TEST_CASE("tensor memory") {
  Options blackwell;
  blackwell.target = "sm_100a";
  golden(
      "tcgen05_version_8_8_form",
      [](Builder& b) {
        const Reg t = b.scalar(b32), da = b.scalar(b64), db = b.scalar(b64);
        const Reg i = b.scalar(b32, tcgen05::instruction_descriptor(b));
        const Reg s = b.scalar(u32);
        const RegArray r = b.array(b32, 4);
        b.emit("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", {b.address(s), 512});
        tcgen05::mma(b, t, da, db, i);
        tcgen05::commit(b, b.address(s));
        tcgen05::ld(b, all(r), t, {.shape = modifiers::_32x32b, .count = 4});
        b.emit("tcgen05.wait::ld.sync.aligned");
        tcgen05::st(b, t, all(r), {.shape = modifiers::_32x32b, .count = 4});
        b.emit("tcgen05.wait::st.sync.aligned");
        b.emit("tcgen05.fence::before_thread_sync"), b.emit("tcgen05.fence::after_thread_sync");
        tcgen05::cp(b, t, da), b.emit("tcgen05.shift.cta_group::1.down", {b.address(t)});
        b.emit("tcgen05.dealloc.cta_group::1.sync.aligned.b32", {t, 512});
        b.emit("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned");
      },
      blackwell);
  blackwell.version = {8, 7};
  golden(
      "tcgen05_descriptors_and_mma_before_8_8",
      [](Builder& b) {
        const Reg t = b.scalar(b32), s = b.scalar(u32);
        const Reg da = tcgen05::masked_descriptor(b, s);
        const Reg db = tcgen05::descriptor(b, s, {.byte_offset = 32});
        tcgen05::mma(b, t, da, db, t, {.scale_c = 1});
      },
      blackwell);
}

}  // namespace ptx::author::testing
