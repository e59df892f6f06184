"""Calls mean what they say: what pyptx 0.1.1 got wrong, one test a defect."""

from __future__ import annotations

import re

import pytest

from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.errors import AuthoringError
from pyptx.types import b16, b32, b64, bf16, f16, f32, pred, s32, s64, tf32, u32, u64


def ptx_of(body, **options) -> str:
    return kernel(body, **options).ptx()


def test_a_stage_moves_the_address():
    def k():
        tile = smem.alloc(f32, (3, 16))
        x = reg.scalar(f32)
        ptx.inst.ld.shared.f32(x, ptx.addr(tile[2]))
        ptx.inst.ld.shared.f32(x, ptx.addr(tile[1], 4))
        ptx.ret()

    text = ptx_of(k)
    assert "[smem_0+128]" in text and "[smem_0+68]" in text


def test_nested_ifs_close_their_own_labels():
    def k():
        x = reg.scalar(u32, init=0)
        with ptx.if_(x == 0):
            with ptx.if_(x == 1):
                x += 1
        with ptx.else_():
            x += 2
        ptx.ret()

    text = ptx_of(k)
    labels = re.findall(r"^(\$\w+):", text, re.M)
    assert len(labels) == len(set(labels)) == 4
    outer = re.search(r"@!%p0 bra (\S+);", text).group(1)
    assert text.index(f"{outer}:") < text.index("add.u32 %r0, %r0, 2;")


def test_matrices_in_dynamic_shared_memory_do_not_overlap():
    def k():
        a, b = smem.alloc(f32, (128, 64)), smem.alloc(f32, (128, 64))
        x = a[0, 0]
        b[0, 0] = x
        ptx.ret()

    text = ptx_of(k)
    assert "dyn_smem+32768" in text and ".extern .shared" in text


def test_tensor_maps_are_formed_where_every_path_sees_them():
    def k(A):
        bar, tile = smem.mbarrier(1), smem.alloc(bf16, (64, 64))
        tid = reg.from_(ptx.special.tid.x(), u32)
        for lane in (0, 1):
            with ptx.if_(tid == lane):
                ptx.cp.async_.bulk.tensor_2d(dst=tile, src=A.tma_desc(), coord=(0, 0), mbar=bar[0])
        ptx.ret()

    text = ptx_of(k, in_specs=(Tile(64, 64, bf16, Layout.TMA_128B),))
    assert text.count("cvta.param.u64") == 1
    assert text.index("cvta.param.u64") < text.index("bra")
    assert ".param .align 64 .b8 A_tma_desc[128]" in text


def test_a_value_stored_into_an_array_may_be_used_again():
    def k():
        a = reg.scalar(u32, init=1)
        values = reg.array(u32, 2)
        t = a + 1
        values[0] = t
        t + 2
        with pytest.raises(IndexError):
            values[5] = t
        with pytest.raises(TypeError):
            values[0] = 3
        ptx.ret()

    kernel(k).ptx()  # every register that is used is declared


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(s32, ["shr.s32", "max.s32", "setp.lt.s32"]), (u32, ["shr.u32", "max.u32", "setp.lt.u32"]), (s64, ["shr.s64"])],
)
def test_operators_keep_the_sign(dtype, expected):
    def k():
        x = reg.scalar(dtype, init=1)
        x >> 1
        if dtype.bits == 32:
            x.max(2)
            x < 3
        ptx.ret()

    text = ptx_of(k)
    assert all(words in text for words in expected)


def test_widening_is_by_the_sign():
    def k():
        reg.scalar(u64, init=0) + reg.scalar(s32, init=-1)
        reg.scalar(u64, init=0) + reg.scalar(u32, init=1)
        ptx.ret()

    text = ptx_of(k)
    assert "cvt.s64.s32" in text and "cvt.u64.u32" in text


def test_reductions_of_signed_values_are_signed():
    def k():
        ptx.warp.reduce_max(reg.scalar(s32, init=0), width=2)
        ptx.ret()

    assert "max.s32" in ptx_of(k)


def test_products_that_meet_pointers_are_wide():
    def k(A):
        (p,) = ptx.global_ptrs(A)
        row = reg.from_(ptx.special.ctaid.x(), u32)
        ptx.inst.st.global_.u32(ptx.addr(p + row * 65536), row)
        ptx.ret()

    text = ptx_of(k, in_specs=(Tile("N", u32),))
    assert "mul.wide.u32" in text and "mul.lo" not in text


def test_or_in_place_and_pointers_in_place():
    def k():
        x, p = reg.scalar(u32, init=1), reg.scalar(b64, init=0)
        y, q = x, p
        y |= 2
        q += x
        assert y is x and q is p
        ptx.ret()

    assert "or.b32 %r0, %r0, 2;" in ptx_of(k)


def test_not_of_an_integer_is_bitwise():
    def k():
        ~reg.scalar(u32, init=1)
        ptx.ret()

    assert "not.b32 %r1, %r0;" in ptx_of(k)


def test_ranges():
    def k():
        n = reg.from_(ptx.special.ntid.x(), u32)
        for i in ptx.range_(0, n):
            assert i.dtype == u32
        for i in ptx.range_(n, 0, -1, dtype=s32):
            assert i.dtype == s32
        for i in ptx.range_(8, 0, -2):
            ptx.inst.add.s32(i, i, 0)
        ptx.ret()

    text = ptx_of(k)
    assert "setp.ge.u32 %p0, %ri0, %r0;" in text
    assert "setp.le.s32" in text and "add.s32 %ri2, %ri2, -2;" in text


def test_labels_are_unique():
    def k():
        n = reg.from_(ptx.special.ntid.x(), u32)
        for _ in range(2):
            ptx.kloop(n, unroll=2, body=lambda: ptx.bar.sync(0))
            with ptx.loop("top", pred=n > 1):
                n -= 1
        ptx.ret()

    labels = re.findall(r"^(\S+):", ptx_of(k), re.M)
    assert len(labels) == len(set(labels))


def test_expressions_keep_their_order():
    def k():
        x = reg.scalar(u32, init=0)
        with ptx.expr(), ptx.if_(x == 0):
            x += 1
        ptx.ret()

    text = ptx_of(k)
    assert text.index("bra $_else_0") < text.index("add.u32 %r0") < text.index("$_else_0:")


def test_waiting_under_a_predicate_ends():
    def k():
        p = reg.scalar(u32, init=0) == 0
        ptx.mbarrier.wait(smem.mbarrier(1)[0], 0, pred=p)
        ptx.ret()

    text = ptx_of(k)
    assert re.search(r"@!%p0 bra (\S+);\n(.*\n)+\1:", text)


def test_dynamic_shared_memory_is_declared_and_the_body_runs_once():
    runs = []

    def k():
        runs.append(1)
        smem.alloc(f32, 20000)
        ptx.ret()

    text = ptx_of(k)
    assert ".extern .shared" in text and len(runs) == 1
    text = ptx_of(lambda: (smem.alloc(f32, 4, name="w"), ptx.inst.mov.b32(reg.scalar(b32), "w"), ptx.ret()), smem=65536)
    assert "undefined" not in text


def test_swizzled_tiles_are_aligned_to_their_pattern():
    def k():
        smem.mbarrier(1)
        smem.wgmma_tile(bf16, (64, 64))
        ptx.ret()

    assert ".shared .align 1024 .b8 smem_0[8192];" in ptx_of(k)


def test_names_that_clash():
    def k():
        x = reg.scalar(u32, init=0)
        values = reg.array(b32, 4, name="%r")
        assert x.name not in [value.name for value in values]
        ptx.ret()

    with pytest.raises(AuthoringError):  # %r0 was given out already, and the author asks for it
        ptx_of(k)

    def two():
        reg.scalar(u32, name="same")
        reg.scalar(u32, name="same")

    with pytest.raises(ValueError, match="same"):
        ptx_of(two)


def test_special_registers_are_staged():
    def k():
        tid, lane = ptx.special.tid.x(), ptx.special.laneid()
        x = tid + 1
        x < tid
        lane < 3
        5 + lane
        ptx.ret()

    text = ptx_of(k)
    assert not re.search(r"(add|setp)\S* .*%(tid|laneid)", text)


def test_numbers_are_spelled_for_the_type():
    def k():
        x = reg.scalar(f32, init=1)
        reg.scalar(f32, init=1e-05)
        reg.scalar(f32, init=float("nan"))
        reg.scalar(f32, init=float("-inf"))
        reg.scalar(u32, init=True)
        x < 0
        ptx.ret()

    text = ptx_of(k)
    for literal in ("0f3F800000", "0f3727C5AC", "0f7FC00000", "0fFF800000", "mov.u32 %r0, 1;", "%f0, 0f00000000;"):
        assert literal in text


def test_numbers_in_half_registers_are_their_bits():
    def k():
        reg.scalar(f16, init=0.5)
        reg.scalar(bf16, init=0.5)
        ptx.ret()

    text = ptx_of(k)
    assert f"mov.b16 %h0, {0x3800};" in text and f"mov.b16 %h1, {0x3F00};" in text


def test_addresses_add_up():
    def k():
        p, x = reg.scalar(u32, init=64), reg.scalar(f32)
        bars = smem.mbarrier(4)
        ptx.inst.ld.shared.f32(x, ptx.addr(p, -4))
        ptx.inst.ld.shared.f32(x, ptx.addr(ptx.addr(p, 8), 8))
        ptx.inst.mbarrier.inval.shared.b64(ptx.addr(bars[3]))
        ptx.inst.ld.shared.f32(x, ptx.addr(p, p))
        ptx.ret()

    text = ptx_of(k)
    assert "[%r0+-4]" in text and "[%r0+16]" in text and "[mbar_0+24]" in text and "+%r" not in text


def test_negated_predicates_guard_everything():
    def k():
        p = reg.scalar(u32, init=0) == 0
        ptx.fence.proxy_async_generic_acquire_shared_cluster(pred=~p)
        ptx.ret()

    assert "@!%p0 fence.proxy.async::generic" in ptx_of(k)


def test_descriptor_fields_hold_their_values():
    def k():
        tile = smem.alloc(bf16, (64, 64))
        ptx.wgmma.make_descriptor(tile, leading_byte_offset=16, stride_byte_offset=1 << 20)

    with pytest.raises(ValueError, match="1048576"):
        ptx_of(k)


def test_a_tensor_is_no_tensor_map():
    def k(A):
        tile, bar = smem.alloc(bf16, (64, 64)), smem.mbarrier(1)
        ptx.cp.async_.bulk.tensor_2d(dst=tile, src=A, coord=(0, 0), mbar=bar[0])
        ptx.ret()

    with pytest.raises(AuthoringError):
        ptx_of(k, in_specs=(Tile(64, 64, bf16, Layout.TMA_128B),))


def test_registers_have_types_that_ptx_has():
    def k():
        for dtype in (bf16, tf32):
            assert reg.scalar(dtype).dtype == dtype
        reg.scalar(b16)
        reg.scalar(pred)
        ptx.ret()

    text = ptx_of(k)
    assert ".reg .bf16" not in text and ".reg .tf32" not in text


def test_there_is_no_multicast_arrive():
    with pytest.raises(ValueError, match="arrive_remote"):
        ptx_of(lambda: ptx.cluster.arrive_multicast(reg.scalar(u32), 3))
