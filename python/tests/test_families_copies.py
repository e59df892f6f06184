"""Copies by their rows: every mode writes its instruction, a wrong argument is named."""

from __future__ import annotations

import pytest
from test_families import refused, written

from pyptx import ptx, reg, smem
from pyptx.errors import AuthoringError
from pyptx.types import b16, b32, b64, bf16, f16, f32, pred, u32, u64


def lines(body, arch="sm_100a") -> list[str]:
    """The copies that the body writes."""
    return [
        line
        for line in written(body, arch).splitlines()
        if line.lstrip("@%!p0123456789 ").startswith(("cp.", "tensormap."))
    ]


def test_bulk_copies():
    def body():
        s, g, policy = reg.scalar(u32), reg.scalar(u64), reg.scalar(b64)
        bulk = ptx.cp_async_bulk
        bulk.load(s, g, 64, s)
        bulk.load(s, g, 64, s, space="shared::cta", cache_hint=policy)
        bulk.load(s, g, 64, s, multicast_mask=3)
        bulk.store(g, s, 64, byte_mask=15)
        bulk.to_cluster(s, s, 32, s)
        bulk.reduce("add", f16, g, s, 64, noftz=True)
        bulk.reduce_to_cluster("max", u32, s, s, 64, s)
        bulk.prefetch(g, 128)
        bulk.wait_group(1, read=True)

    assert lines(body) == [
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%rd0], 64, [%r0];",
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r0], [%rd0], 64, [%r0], %rd1;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r0], [%rd0], 64, [%r0], 3;",
        "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd0], [%r0], 64, 15;",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r0], [%r0], 32, [%r0];",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%rd0], [%r0], 64;",
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.max.u32 [%r0], [%r0], 64, [%r0];",
        "cp.async.bulk.prefetch.L2.global [%rd0], 128;",
        "cp.async.bulk.wait_group.read 1;",
    ]


def test_tensor_copies():
    def body():
        data, bar = smem.alloc(bf16, (64, 64), name="data"), reg.scalar(u32)
        m, x, p = reg.scalar(u64), reg.scalar(u32), reg.scalar(pred)
        copy = ptx.tensor_copy
        for rank in range(1, 6):
            copy.load(data, m, [x] * rank, bar)
        copy.load(data, m, (0, 0, x, 0, 0), bar, mode="im2col", offsets=(1, 2, 3))
        copy.load(data, m, (0, 1, 2, 3, x), bar, mode="tile::gather4", cta_group=2, pred=p)
        copy.load(data, m, (0, 0), bar, space="shared::cta")
        copy.store(m, (0, 1, 2, 3, x), data, mode="tile::scatter4")
        copy.reduce("xor", m, (0, 0), data)
        copy.prefetch(m, (0, 0, 0), mode="im2col", offsets=(1,))

    head, bytes_ = "cp.async.bulk.tensor", "mbarrier::complete_tx::bytes"
    assert lines(body) == [
        *(
            f"{head}.{rank}d.shared::cluster.global.{bytes_} [data], [%rd0, {{{', '.join(['%r1'] * rank)}}}], [%r0];"
            for rank in range(1, 6)
        ),
        f"{head}.5d.shared::cluster.global.im2col.{bytes_} [data], [%rd0, {{0, 0, %r1, 0, 0}}], [%r0], {{1, 2, 3}};",
        f"@%p0 {head}.2d.shared::cluster.global.tile::gather4.{bytes_}.cta_group::2 [data], [%rd0, {{0, 1, 2, 3, %r1}}], [%r0];",
        f"{head}.2d.shared::cta.global.{bytes_} [data], [%rd0, {{0, 0}}], [%r0];",
        f"{head}.2d.global.shared::cta.tile::scatter4.bulk_group [%rd0, {{0, 1, 2, 3, %r1}}], [data];",
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.xor.bulk_group [%rd0, {0, 0}], [data];",
        "cp.async.bulk.prefetch.tensor.3d.L2.global.im2col [%rd0, {0, 0, 0}], {1};",
    ]


def test_tensor_copies_that_say_where_the_tensor_is():
    def body():
        data, bar = smem.alloc(bf16, (64, 64), name="data"), reg.scalar(u32)
        m, at, h, s = reg.scalar(u64), reg.scalar(u64), reg.scalar(b16), reg.scalar(b32)
        copy = ptx.tensor_copy
        copy.load(data, m, (0, 0), bar, override_address=at)
        sizes = {"override_address": at, "override_sizes": (h, h)}
        strides = {"override_strides": (s,), "override_strides_upper": h}
        copy.load(data, m, (0, 1), bar, multicast_mask_32b=s, **sizes, **strides)
        copy.store(m, (0,), data, override_address=at, override_sizes=(h,))
        copy.reduce("add", m, (0, 0), data, **sizes, **strides)
        copy.prefetch(m, (0, 0), **sizes, **strides)
        copy.prefetch(m, (0, 0), evict_last=True)
        ptx.cp_async_bulk.load(bar, m, 64, bar, multicast_mask_32b=s)

    head, where = (
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
        "override::global_address",
    )
    full, parts = f"{where}.override::global_dim_stride", "%rd0, %rd1, {%rs0, %rs0}, {%r1}, %rs0"
    assert lines(body, "sm_107a") == [
        f"{head}.{where} [data], [%rd0, %rd1, {{0, 0}}], [%r0];",
        f"{head}.multicast::cluster::32b.{full} [data], [{parts}, {{0, 1}}], [%r0], %r1;",
        f"cp.async.bulk.tensor.1d.global.shared::cta.bulk_group.{where}.override::global_dim "
        "[%rd0, %rd1, {%rs0}, {0}], [data];",
        f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group.{full} [{parts}, {{0, 0}}], [data];",
        f"cp.async.bulk.prefetch.tensor.2d.L2.global.{full} [{parts}, {{0, 0}}];",
        "cp.async.bulk.prefetch.tensor.2d.L2.global.L2::evict_last [%rd0, {0, 0}];",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster::32b [%r0], [%rd0], 64, [%r0], %r1;",
    ]
    with pytest.raises(AuthoringError, match="with multicast, multicast::cluster::32b"):
        lines(
            lambda: ptx.tensor_copy.load(*[reg.scalar(t) for t in (u32, u64)], (0, 0), reg.scalar(u32), multicast_mask=1,
                                         override_address=reg.scalar(u64), override_sizes=[reg.scalar(b16)] * 2),
            "sm_107a",
        )  # fmt: skip


def test_relaxed_reductions():
    def body():
        s, g, policy = reg.scalar(u32), reg.scalar(u64), reg.scalar(b64)
        bulk = ptx.cp_async_bulk
        bulk.reduce("add", u32, g, s, 64, scope="gpu", cache_hint=policy)
        bulk.reduce_to_cluster("xor", b32, s, s, 64, s, scope="cluster")

    assert lines(body) == [
        "cp.reduce.async.bulk.relaxed.gpu.global.shared::cta.bulk_group.L2::cache_hint.add.u32 [%rd0], [%r0], 64, %rd1;",
        "cp.reduce.async.bulk.relaxed.cluster.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.xor.b32 "
        "[%r0], [%r0], 64, [%r0];",
    ]


def test_wrong_arguments_are_named():
    def load(**given):
        def body():
            s, m = reg.scalar(u32), reg.scalar(u64)
            arguments = {"dst": s, "src": m, "coord": (0, 0), "mbar": s} | given
            ptx.tensor_copy.load(**arguments)

        return refused(body)

    assert "`coord` is a list of integers and 32-bit registers, innermost first, not 3" in load(coord=3)
    assert "takes 1 to 5 coordinates, one for each dimension, not 6" in load(coord=[0] * 6)
    assert "tile::gather4 takes 5 coordinates, a column and four rows, not 2" in load(mode="tile::gather4")
    assert "`mode`" in load(mode=3.5)
    assert "im2col" in load(mode="im2col")
    assert "`mbar` is an address" in load(mbar=2.5)
    assert "takes no 'box'" in load(box=1)


def test_copies_of_old_spelling_refuse_as_before():
    m = "cta_group must be 1 or 2, not 3"
    assert m in refused(lambda: ptx.cp.async_.bulk.tensor_2d(dst=reg.scalar(u32), src=reg.scalar(u64), coord=(0, 0), mbar=reg.scalar(u32), cta_group=3))  # fmt: skip
    assert "give row and col" in refused(
        lambda: ptx.tma.load_3d(reg.scalar(u32), reg.scalar(u64), mbar=reg.scalar(u32))
    )
    assert "tensor_3d takes 3 coordinates, got 2" in refused(
        lambda: ptx.cp.async_.bulk.tensor_3d.store(dst=reg.scalar(u64), src=reg.scalar(u32), coord=(0, 0))
    )


def test_fields_of_tensor_maps():
    def body():
        at, value = reg.scalar(u64), reg.scalar(u32)
        ptx.tensormap.replace_global_dim(at, 1, value)
        ptx.tensormap.replace_swizzle_mode(at, 3, space="global")
        ptx.tensormap.cp_fenceproxy("gpu", at, value)

    assert lines(body, "sm_90a") == [
        "tensormap.replace.tile.global_dim.b1024.b32 [%rd0], 1, %r0;",
        "tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%rd0], 3;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd0], [%r0], 128;",
    ]


def test_reductions_refuse_types_that_their_row_has_not():
    assert "f32" in refused(lambda: ptx.cp_async_bulk.reduce("max", f32, reg.scalar(u64), reg.scalar(u32), 64))


def test_im2col_by_rank_names_its_offsets():
    def body():
        ptx.cp.async_.bulk.tensor.im2col_3d("s", reg.scalar(u64), (0, 0, 0), mbar="b")

    assert "im2col_3d needs offsets=, 1 of them" in refused(body, arch="sm_90a")
