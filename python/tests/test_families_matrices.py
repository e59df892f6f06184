"""Matrix instructions by their rows: every kind writes its instruction, a wrong argument is named."""

from __future__ import annotations

import pytest
from test_families import refused, written

from pyptx import ptx, reg, smem
from pyptx.types import (
    b1,
    b32,
    b64,
    bf16,
    e2m1,
    e2m3,
    e3m2,
    e4m3,
    e5m2,
    f16,
    f32,
    f64,
    pred,
    s8,
    s32,
    tf32,
    u4,
    u8,
    u32,
    u64,
    ue4m3,
    ue8m0,
)  # fmt: skip


def line(body, opcode: str, arch: str) -> str:
    """The instruction of this opcode that the body writes."""
    (found,) = [line for line in written(body, arch).splitlines() if opcode in line]
    return found


# wgmma: type, k, result, immediates behind the predicate with A in shared memory and in registers.
WGMMA = (
    (f16, 16, f16, ", 1, 1, 0, 0", ", 1, 1, 0"),
    (bf16, 16, f32, ", 1, 1, 0, 0", ", 1, 1, 0"),
    (tf32, 8, f32, ", 1, 1", ", 1, 1"),
    (e4m3, 32, f32, ", 1, 1", ", 1, 1"),
    (e5m2, 32, f16, ", 1, 1", ", 1, 1"),
    (s8, 32, s32, "", ""),
    (u8, 32, s32, "", ""),
    (b1, 256, s32, "", ""),
)


@pytest.mark.parametrize("type_, k, result, shared, registers", WGMMA, ids=lambda value: str(value))
@pytest.mark.parametrize("sparse", [False, True])
def test_wgmma_of_every_kind(type_, k, result, shared, registers, sparse):
    if sparse and type_ is b1:
        pytest.skip("no sparse form")

    def body(in_registers):
        def write():
            d = reg.array(b32 if result is f16 else result, 2 if result is f16 else 4)
            desc, a = reg.scalar(u64), reg.array(b32, 4)
            more = {"metadata": reg.scalar(b32)} if sparse else {}
            ptx.wgmma.mma_async(
                shape=(64, 8, 2 * k if sparse else k), dtype_d=result, dtype_a=type_, dtype_b=type_, d=d,
                a=a if in_registers else desc, b=desc, scale_d=reg.scalar(pred), **more,
            )  # fmt: skip

        return write

    for in_registers, tail in ((False, shared), (True, registers)):
        text = line(body(in_registers), "wgmma.mma_async", "sm_90a")
        assert text.endswith(f"%p0{tail};") and (".sp." in text) == sparse


def test_a_number_for_scale_d_is_an_immediate_and_a_descriptor_is_formed_once():
    def body():
        a, b = smem.wgmma_tile(bf16, (64, 64), major="K"), smem.wgmma_tile(bf16, (64, 64), major="MN")
        acc = reg.array(f32, 32)
        for _ in range(2):
            ptx.wgmma.mma_async(
                shape=(64, 64, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=acc, a=a, b=b, scale_d=True, trans_b=1
            )

    text = written(body)
    assert text.count(", 1, 1, 1, 0, 1;") == 2 and "setp" not in text
    assert text.count("or.b64") == 2


def test_a_descriptor_of_a_branch_is_not_taken_for_one_behind_it():
    def body():
        a = smem.wgmma_tile(bf16, (64, 64), major="K")
        acc, desc = reg.array(f32, 4), reg.scalar(u64)

        def mma():
            ptx.wgmma.mma_async(shape=(64, 8, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=acc, a=a, b=desc)

        with ptx.if_(reg.scalar(pred)):
            mma()
        mma()

    assert written(body).count("or.b64") == 2


def test_wgmma_refuses_what_its_row_has_not():
    def mma(**given):
        def body():
            arguments = {
                "shape": (64, 8, 16), "dtype_d": f32, "dtype_a": bf16, "dtype_b": bf16, "d": reg.array(f32, 4),
                "a": reg.scalar(u64), "b": reg.scalar(u64),
            } | given  # fmt: skip
            ptx.wgmma.mma_async(**arguments)

        return refused(body)

    assert "`shape` is (m, n, k), three ints, not (64, 8)" in mma(shape=(64, 8))
    assert "m64n20k16" in mma(shape=(64, 20, 16))
    assert "`dtype_a` is a type of pyptx.types" in mma(dtype_a="bf16")
    assert "trans_a = 1" in mma(shape=(64, 8, 8), dtype_a=tf32, dtype_b=tf32, trans_a=1)
    assert "scale_a" in mma(shape=(64, 8, 32), dtype_d=s32, dtype_a=s8, dtype_b=s8, scale_a=-1)
    assert "operand 4 (scale_d) is the vector" in mma(scale_d=[3])
    assert "`scale_d` is a predicate register, ~register, or a bool" in mma(scale_d={})


def test_mma_of_every_kind():
    r = reg.array

    def sync(shape, types, counts, arch="sm_90a", registers=b32, **given):
        def body():
            d, a, b, c = (
                r(registers if registers is not b32 else t, n) for t, n in zip(_held(types), counts, strict=True)
            )
            more = {name: value() if callable(value) else value for name, value in given.items()}
            ptx.mma.sync(
                shape=shape,
                dtype_d=types[0],
                dtype_a=types[1],
                dtype_b=types[2],
                dtype_c=types[3],
                d=d,
                a=a,
                b=b,
                c=c,
                **more,
            )

        return line(body, "mma", arch).partition(" ")[0]

    def _held(types):
        return [f32 if t is f32 else f64 if t is f64 else s32 if t is s32 else b32 for t in types]

    scale = lambda: reg.scalar(b32)  # noqa: E731
    assert (
        sync((16, 8, 16), (f32, bf16, bf16, f32), (4, 4, 2, 4)) == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
    )
    assert sync((8, 8, 4), (f64,) * 4, (2, 1, 1, 2), rnd="rn").endswith("f64.f64.f64.f64.rn")
    assert ".satfinite.s32.u4.u4.s32" in sync((16, 8, 64), (s32, u4, u4, s32), (4, 4, 2, 4), satfinite=True)
    assert sync((16, 8, 256), (s32, b1, b1, s32), (4, 4, 2, 4), op="and").endswith("s32.b1.b1.s32.and.popc")
    assert sync((16, 8, 32), (f32, bf16, bf16, f32), (4, 4, 4, 4), metadata=scale).startswith("mma.sp.sync")
    assert "kind::f8f6f4" in sync((16, 8, 32), (f32, e3m2, e2m3, f32), (4, 4, 2, 4), "sm_120a", kind="kind::f8f6f4")
    assert "kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3" in sync(
        (16, 8, 64), (f32, e2m1, e2m1, f32), (4, 4, 2, 4), "sm_120a", kind="kind::mxf4nvf4", scale_vec="scale_vec::4X",
        dtype_scale=ue4m3, scale_a=scale, scale_b=scale,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["f16", "tf32", "i8", "f8f6f4"])  # f16 and tf32 are types, too
def test_kinds_of_tcgen05_by_their_last_word(kind):
    def body():
        t, d = reg.scalar(b32), reg.scalar(b64)
        ptx.tcgen05.mma(t, d, d, t, kind=kind)
        ptx.tcgen05.mma_ws(t, d, d, t, kind=kind, scale_d=False)

    words = [text.partition(" ")[0] for text in written(body, "sm_100a").splitlines() if text.startswith("tcgen05")]
    assert words == [f"tcgen05.mma.cta_group::1.kind::{kind}", f"tcgen05.mma.ws.cta_group::1.kind::{kind}"]


def test_layouts_of_mma_are_row_or_col():
    def body():
        d, a, b = reg.array(f32, 4), reg.array(b32, 4), reg.array(b32, 2)
        with pytest.raises(ValueError, match="`a_layout` is row or col, not 'column'"):
            ptx.mma.sync((16, 8, 16), f32, bf16, bf16, f32, d, a, b, d, a_layout="column")

    written(body, "sm_90a")


def test_the_first_stage_of_a_tile_of_one():
    def body(tile=lambda a: a[0]):
        a, b = smem.wgmma_tile(bf16, (64, 16)), smem.wgmma_tile(bf16, (16, 8), major="MN")
        acc = reg.wgmma_frag(m=64, n=8, dtype=f32)
        ptx.wgmma.mma_async(
            shape=(64, 8, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=acc, a=tile(a), b=tile(b), trans_b=1
        )

    assert written(body, "sm_90a") == written(lambda: body(lambda a: a), "sm_90a")
    assert "is a row of it" in refused(lambda: body(lambda a: a[1]), arch="sm_90a")


def test_matrices_between_memory_and_registers():
    def body():
        r, at = reg.array(b32, 4), reg.scalar(u32)
        ptx.matrix.ldmatrix(r, at)
        ptx.matrix.ldmatrix([r[0]], at, trans=True)
        ptx.matrix.ldmatrix_b8("x1", [r[0], r[1]], at)
        ptx.matrix.ldmatrix_unpack("x2", "b4x16_p64", [r[0], r[1]], at)
        ptx.matrix.stmatrix(at, r, shape="m16n8")
        ptx.matrix.movmatrix(r[0], r[1])

    words = [text.partition(" ")[0] for text in written(body, "sm_100a").splitlines()]
    assert words == [
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
        "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8",
        "ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.b4x16_p64",
        "stmatrix.sync.aligned.m16n8.x4.trans.shared::cta.b8",
        "movmatrix.sync.aligned.m8n8.trans.b16",
    ]
    wrong = refused(lambda: ptx.matrix.ldmatrix(reg.array(b32, 2), reg.scalar(u32), layout="x4"))
    assert "layout x4 with 2 registers" in wrong


def test_tensor_memory():
    def body():
        t, d, r, z = reg.scalar(b32), reg.scalar(b64), reg.array(b32, 4), reg.scalar(b32)
        ptx.tcgen05.ld(r, t, shape="16x32bx2", count=4, split_offset=8)
        ptx.tcgen05.cp(t, d, size="32x128b", multicast="warpx4", src_fmt="b6x16_p32")
        ptx.tcgen05.mma_ws(
            t, d, d, t, kind="tf32", collector_usage="collector::b1::fill", zero_column_mask=d, scale_d=False
        )
        ptx.tcgen05.mma_ws(t, t, d, t, a_is_tmem=True, sparse_metadata=z)
        ptx.tcgen05.mma(t, t, d, t, a_is_tmem=True, ashift=True, collector_a="lastuse", scale_c=3)

    words = [text for text in written(body, "sm_100a").splitlines() if text.startswith("tcgen05")]
    assert [text.partition(" ")[0] for text in words] == [
        "tcgen05.ld.sync.aligned.16x32bx2.x4.b32",
        "tcgen05.cp.cta_group::1.32x128b.warpx4.b8x16.b6x16_p32",
        "tcgen05.mma.ws.cta_group::1.kind::tf32.collector::b1::fill",
        "tcgen05.mma.ws.sp.cta_group::1.kind::f16",
        "tcgen05.mma.cta_group::1.kind::f16.ashift.collector::a::lastuse",
    ]
    assert "`kind` is" in refused(lambda: ptx.tcgen05.mma(1, 2, 3, 4, kind=7), arch="sm_100a")
    assert "the same .cta_group" in refused(
        lambda: (ptx.tcgen05.relinquish_alloc_permit(), ptx.tcgen05.relinquish_alloc_permit(cta_group=2)),
        arch="sm_100a",
    )
    assert "scale_vec_a and scale_vec_b" in refused(
        lambda: ptx.tcgen05.mma(*(reg.scalar(b32) for _ in range(4)), kind="mxf4"), arch="sm_100a"
    )


def test_tensor_memory_of_sm_107a():
    def body():
        t, d, r, bar = reg.scalar(b32), reg.scalar(b64), reg.array(b32, 6), smem.mbarrier(1)[0]
        data = smem.alloc(b32, 4)
        ptx.tcgen05.alloc(data, 64, space="generic")
        ptx.tcgen05.ld_spcompress("x4", "max", [r[0]], [r[1], r[2]], t, abs=True)
        ptx.tcgen05.ld_red_spcompress("x4", "min", [r[0]], [r[1], r[2]], r[3], t, NaN=True)
        ptx.tcgen05.mma(t, d, d, t, kind="f8f6f4", b_metadata=t, collector_b="fill")
        ptx.tcgen05.mma(t, t, d, t, kind="mxf8f6f4", a_is_tmem=True, b_metadata=t, scale_vec_a=t, scale_vec_b=t)
        ptx.tcgen05.commit(bar, a_read=True)
        ptx.tcgen05.commit(bar, space="shared::cluster", multicast_mask_32b=t)
        ptx.tcgen05.commit(ptx.addr(d), space=None)
        ptx.matrix.ldmatrix_s4("x2", [r[0], r[1]], data)

    assert [text for text in written(body, "sm_107a").splitlines() if text.startswith(("tcgen05", "ldmatrix"))] == [
        "tcgen05.alloc.cta_group::1.sync.aligned.b32 [smem_0], 64;",
        "tcgen05.ld.spcompress.sync.aligned.32x32b.x4.max.sp::2:4.abs.f32.b2 {%rarr0_0}, {%rarr0_1, %rarr0_2}, [%r0];",
        "tcgen05.ld.red.spcompress.sync.aligned.32x32b.x4.min.sp::2:4.NaN.f32.b2 {%rarr0_0}, {%rarr0_1, %rarr0_2}, %rarr0_3, [%r0];",
        "tcgen05.mma.cta_group::1.kind::f8f6f4.decompress::lut::b.collector::b::fill "
        "[%r0], %rd0, %rd0, [%r0], %r0, {%r3, %r3, %r3, %r3}, %p0;",
        "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.decompress::lut::b [%r0], [%r0], %rd0, [%r0], %r0, [%r0], [%r0], %p1;",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.sync_restrict::shared::read::mma::a.shared::cluster.b64 [mbar_0];",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster::32b.b64 [mbar_0], %r0;",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%rd0];",
        "ldmatrix.sync.aligned.m8n16.x2.shared.s8.s4 {%rarr0_0, %rarr0_1}, [smem_0];",
    ]
    assert "`space` of tcgen05.commit is cluster, or None for a generic address, not cta" in refused(
        lambda: ptx.tcgen05.commit(smem.mbarrier(1)[0], space="cta"), arch="sm_107a"
    )


def test_an_address_of_tensor_memory_is_a_b32_register():
    def body():
        d = reg.scalar(b64)
        ptx.tcgen05.mma(reg.scalar(u32), d, d, 1)

    wrong = "the address `[%r0]` in a .u32 register; it must be an address `[r]` in a .b32 register"
    assert wrong in refused(body, arch="sm_100a")


# Table 42, 43, 44 of manual 9.7.16.4.2, field by field.
@pytest.mark.parametrize(
    ("given", "bits"),
    [
        ({}, 0x08400490),
        ({"a_dtype": f16, "d_dtype": f16, "m": 64, "n": 8}, 4 << 24 | 1 << 17),
        ({"a_dtype": f16, "m": 32, "n": 64}, 2 << 24 | 8 << 17 | 1 << 4),
        ({"a_dtype": tf32}, 0x08400910),
        ({"a_dtype": e4m3, "b_dtype": e2m3}, 1 << 4 | 3 << 10 | 32 << 17 | 8 << 24),
        ({"a_dtype": e3m2, "b_dtype": e2m1, "sparse": True, "selector": 2}, 2 | 4 | 1 << 4 | 4 << 7 | 5 << 10 | 32 << 17 | 8 << 24),
        ({"a_dtype": s8, "b_dtype": u8, "d_dtype": s32, "saturate": True}, 8 | 2 << 4 | 1 << 7 | 32 << 17 | 8 << 24),
        ({"b_major": "MN", "scale_a": -1, "max_shift": 2, "m": 256}, 16 << 24 | 2 << 30 | 1 << 16 | 1 << 13 | 0x400490),
        ({"a_dtype": e5m2, "scale_dtype": ue8m0, "scale_a_id": 2, "scale_b_id": 1}, 1 << 4 | 1 << 7 | 1 << 10 | 32 << 17 | 1 << 23 | 1 << 27 | 2 << 29),
        ({"a_dtype": e2m1, "scale_dtype": ue4m3, "k96": True}, 1 << 7 | 1 << 10 | 32 << 17 | 1 << 27 | 1 << 31),
        ({"a_dtype": e2m1, "scale_dtype": ue8m0, "mxf8f6f4": True, "m": 256}, 5 << 7 | 5 << 10 | 32 << 17 | 1 << 23 | 2 << 27),
    ],
)  # fmt: skip
def test_instruction_descriptors(given, bits):
    assert ptx.tcgen05.instruction_descriptor(**given) == bits


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"m": 96}, "m = 96; legal: 32 (mma_ws) 64 128 256"),
        ({"n": 12}, "n = 12 is not a multiple of 8"),
        ({"a_dtype": f32}, "a_dtype = f32; legal:"),
        ({"a_dtype": bf16, "b_dtype": e4m3}, "have no kind in common"),
        ({"a_dtype": e4m3, "d_dtype": s32}, "d_dtype = s32; legal with these operands: f32 f16"),
        ({"a_dtype": bf16, "scale_dtype": ue8m0}, "have no scales"),
        ({"a_dtype": e4m3, "scale_dtype": ue4m3}, "legal: ue8m0"),
        ({"saturate": True}, "only integers saturate"),
        ({"scale_b": 2}, "scale_b = 2; legal: 1 -1"),
        ({"m": "128"}, "`m` is an int"),
    ],
)
def test_instruction_descriptors_refuse(given, why):
    assert why in refused(lambda: ptx.tcgen05.instruction_descriptor(**given))


def test_wmma_of_every_kind():
    def body():
        at, h, f, i, d = reg.scalar(u64), reg.array(b32, 8), reg.array(f32, 8), reg.array(s32, 8), reg.array(f64, 2)
        ptx.wmma.load("a", "row", "m16n16k16", f16, h, at, 16, space="global")
        ptx.wmma.load("c", "col", "m16n16k8", f32, f, at)
        ptx.wmma.mma_f16("row", "col", "m16n16k16", f32, f32, f, h, h, f)
        ptx.wmma.mma("row", "col", "m16n16k8", f32, tf32, tf32, f32, f, list(h)[:4], list(h)[:4], f)
        ptx.wmma.mma("row", "row", "m8n8k4", f64, f64, f64, f64, d, [d[0]], [d[1]], d, rnd="rn")
        ptx.wmma.mma("row", "col", "m16n16k16", s32, u8, u8, s32, i, list(h)[:2], list(h)[:2], i, satfinite=True)
        ptx.wmma.mma_b1("xor", list(i)[:2], [h[0]], [h[1]], list(i)[:2])
        ptx.wmma.store("row", "m16n16k16", f32, at, f, 16)

    def short(text):
        return [line.split("{")[0].split(" [")[0].strip() for line in text.splitlines() if "wmma" in line]

    assert short(written(body, "sm_90")) == [
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16",
        "wmma.load.c.sync.aligned.col.m16n16k8.f32",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
        "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32",
        "wmma.mma.sync.aligned.row.row.m8n8k4.rn.f64.f64.f64.f64",
        "wmma.mma.sync.aligned.row.col.m16n16k16.s32.u8.u8.s32.satfinite",
        "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
        "wmma.store.d.sync.aligned.row.m16n16k16.f32",
    ]
    assert "`layout` is row or col" in refused(
        lambda: ptx.wmma.load("a", "both", "m16n16k16", f16, reg.array(b32, 8), reg.scalar(u64))
    )


def test_compression():
    def body():
        r = reg.array(b32, 8)
        ptx.spcompress("b8", "b2", "x1", [r[0]], [r[1]], [r[2], r[3]], r[4])
        ptx.spdecompress("b8", "b2", "sp::2:4", "x1", [r[0]], [r[2]], [r[3]])

    assert line(body, "spcompress", "sm_107a") == "spcompress.b8.b2.sp::2:4.x1 {%r0}, {%r1}, {%r2, %r3}, %r4;"
    assert line(body, "spdecompress", "sm_107a") == "spdecompress.b8.b2.sp::2:4.x1 {%r0}, {%r2}, {%r3};"
