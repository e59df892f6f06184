"""Shapes of published kernels, written here as PTX and small: right beside NumPy, and under all checks without a report.

Ping-pong attention with products in flight (FlashAttention-3), split decoding with a combination by the last (FlashMLA), f8 products
promoted to f32 in registers (DeepGEMM), stream-K with a fix-up, a selective scan, top-k sampling, decoupled look-back, a radix sort,
a histogram, an exchange through distributed shared memory, a permutation of tokens to experts.
"""

from __future__ import annotations

import numpy as np
import pytest

import pyptx
from pyptx import _core

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k({parameters}) {{
.reg .pred %p<32>; .reg .b16 %h<16>; .reg .b32 %r<128>; .reg .b64 %rd<64>; .reg .f32 %f<128>;
{loads}
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; and.b32 %r3, %r1, 31; shr.u32 %r4, %r1, 5;
"""
WAIT = "{0}: mbarrier.try_wait.parity.shared.b64 %p30, [{1}], {2}; @!%p30 bra {0};\n"


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy at a multiple of 256 bytes, as allocations of a device lie."""
    raw = np.empty(array.nbytes + 256, np.uint8)
    at = -raw.ctypes.data % 256
    out = raw[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def text_of(body: str, arrays: int) -> bytes:
    """A kernel of so many buffers, whose addresses are in %rd1, %rd2, and on."""
    names = [f"p{i}" for i in range(arrays)]
    head = HEAD.format(
        parameters=", ".join(f".param .u64 {n}" for n in names),
        loads="\n".join(f"ld.param.u64 %rd{i + 1}, [{n}];" for i, n in enumerate(names)),
    )
    return (head + body + "\nret;\n}\n").encode()


def launch(body: str, *arrays, grid: int = 1, block: int = 32, cluster: int = 1) -> list[np.ndarray]:
    """What the kernel leaves in its buffers; no schedule gives a report."""
    given = [aligned(a) for a in arrays]
    with pyptx.simulator(check="all", raises=False, budget=1 << 24) as run:
        _core.run_text(text_of(body, len(given)), "k.ptx", "", (grid, 1, 1), (block, 1, 1), (cluster, 1, 1), 0, given)
        failing = run.explore(6, compare=False)
    assert not run.reports, run.reports[0]
    assert failing is None, str(failing)
    return given


RANDOM = np.random.default_rng(0)


def cores(matrix: np.ndarray) -> np.ndarray:
    """Bytes of a matrix (rows, k) as wgmma reads them without a swizzle: 8 rows of 16 bytes side by side."""
    rows = matrix.shape[0]
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(rows // 8, 8, -1, 16)
    return raw.transpose(0, 2, 1, 3).reshape(-1)


def descriptor(register: int, address: str, k_bytes: int) -> str:
    constant = 8 << 16 | (k_bytes // 16 * 128 >> 4) << 32
    return (
        f"mov.u32 %r100, {address}; shr.u32 %r100, %r100, 4; cvt.u64.u32 %rd{register}, %r100; "
        f"or.b64 %rd{register}, %rd{register}, {constant};\n"
    )


def bf16(values: np.ndarray) -> np.ndarray:
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


# ---- a histogram in shared memory


def test_histogram():
    keys = RANDOM.integers(0, 64, 1024, dtype=np.uint32)
    body = """
.shared .align 4 .b8 bins[256];
mov.u32 %r10, bins; mad.lo.u32 %r11, %r1, 4, %r10; mov.u32 %r12, 0;
setp.lt.u32 %p1, %r1, 64;
@%p1 st.shared.u32 [%r11], %r12;
bar.sync 0;
mad.lo.u32 %r13, %r2, 256, %r1; mad.wide.u32 %rd3, %r13, 4, %rd1;
ld.global.u32 %r14, [%rd3]; ld.global.u32 %r15, [%rd3+512];
mad.lo.u32 %r16, %r14, 4, %r10; mad.lo.u32 %r17, %r15, 4, %r10;
red.shared.add.u32 [%r16], 1; red.shared.add.u32 [%r17], 1;
bar.sync 0;
ld.shared.u32 %r18, [bins]; mad.wide.u32 %rd4, %r1, 4, %rd2;
@%p1 ld.shared.u32 %r18, [%r11];
@%p1 red.global.add.u32 [%rd4], %r18;
"""
    left = launch(body, keys, np.zeros(64, np.uint32), grid=4, block=128)
    np.testing.assert_array_equal(left[1], np.bincount(keys, minlength=64))


# ---- a scan by decoupled look-back: value and state in one word of 64 bits


def test_decoupled_look_back():
    x = RANDOM.integers(0, 100, 8 * 64, dtype=np.uint32)
    up = "".join(
        f"shfl.sync.up.b32 %r21|%p2, %r20, {d}, 0, 0xffffffff; @%p2 add.u32 %r20, %r20, %r21;\n"
        for d in (1, 2, 4, 8, 16)
    )
    body = f"""
.shared .align 4 .b32 half; .shared .align 4 .b32 before;
mad.lo.u32 %r10, %r2, 64, %r1; mad.wide.u32 %rd4, %r10, 4, %rd1; mad.wide.u32 %rd5, %r2, 8, %rd3;
ld.global.u32 %r20, [%rd4];
{up}
setp.eq.u32 %p3, %r1, 31;
@%p3 st.shared.u32 [half], %r20;
bar.sync 0;
setp.ge.u32 %p4, %r1, 32; ld.shared.u32 %r22, [half];
@%p4 add.u32 %r20, %r20, %r22;
setp.ne.u32 %p5, %r1, 63;
@%p5 bra meet;
mov.u32 %r30, 1; mov.u32 %r31, 2; mov.u32 %r32, 0; mov.u32 %r33, %r2;
mov.b64 %rd6, {{%r20, %r30}};
setp.eq.u32 %p6, %r2, 0;
@%p6 bra known;
st.relaxed.gpu.global.u64 [%rd5], %rd6;
back:
sub.u32 %r33, %r33, 1; mad.wide.u32 %rd7, %r33, 8, %rd3;
look:
ld.relaxed.gpu.global.u64 %rd8, [%rd7];
mov.b64 {{%r34, %r35}}, %rd8;
setp.eq.u32 %p7, %r35, 0;
@%p7 bra look;
add.u32 %r32, %r32, %r34;
setp.eq.u32 %p8, %r35, 1;
@%p8 bra back;
known:
add.u32 %r36, %r20, %r32;
mov.b64 %rd6, {{%r36, %r31}};
st.relaxed.gpu.global.u64 [%rd5], %rd6;
st.shared.u32 [before], %r32;
meet:
bar.sync 0;
ld.shared.u32 %r37, [before]; add.u32 %r20, %r20, %r37;
mad.wide.u32 %rd9, %r10, 4, %rd2;
st.global.u32 [%rd9], %r20;
"""
    left = launch(body, x, np.zeros_like(x), np.zeros(8, np.uint64), grid=8, block=64)
    np.testing.assert_array_equal(left[1], np.cumsum(x, dtype=np.uint32))


# ---- a radix sort of one CTA: two bits a pass, ranks by match.any


def test_radix_sort():
    x = RANDOM.integers(0, 256, 128, dtype=np.uint32)
    body = """
.shared .align 4 .b8 counts[64]; .shared .align 4 .b8 keys[512];
mad.wide.u32 %rd3, %r1, 4, %rd1; ld.global.u32 %r20, [%rd3];
mov.u32 %r10, counts; mov.u32 %r11, keys; mov.u32 %r12, 0; mov.u32 %r13, %lanemask_lt;
pass:
shr.u32 %r21, %r20, %r12; and.b32 %r21, %r21, 3;
match.any.sync.b32 %r22, %r21, 0xffffffff;
and.b32 %r23, %r22, %r13; popc.b32 %r24, %r23; popc.b32 %r25, %r22;
setp.lt.u32 %p1, %r3, 4; mad.lo.u32 %r26, %r3, 16, %r10; mad.lo.u32 %r26, %r4, 4, %r26; mov.u32 %r27, 0;
@%p1 st.shared.u32 [%r26], %r27;
bar.warp.sync 0xffffffff;
setp.eq.u32 %p2, %r23, 0; mad.lo.u32 %r28, %r21, 16, %r10; mad.lo.u32 %r28, %r4, 4, %r28;
@%p2 st.shared.u32 [%r28], %r25;
bar.sync 0;
mov.u32 %r29, %r10;
sum:
setp.ge.u32 %p3, %r29, %r28;
@%p3 bra summed;
ld.shared.u32 %r30, [%r29]; add.u32 %r24, %r24, %r30; add.u32 %r29, %r29, 4;
bra sum;
summed:
mad.lo.u32 %r31, %r24, 4, %r11;
st.shared.u32 [%r31], %r20;
bar.sync 0;
mad.lo.u32 %r32, %r1, 4, %r11; ld.shared.u32 %r20, [%r32];
bar.sync 0;
add.u32 %r12, %r12, 2; setp.lt.u32 %p4, %r12, 8;
@%p4 bra pass;
mad.wide.u32 %rd4, %r1, 4, %rd2; st.global.u32 [%rd4], %r20;
"""
    left = launch(body, x, np.zeros_like(x), block=128)
    np.testing.assert_array_equal(left[1], np.sort(x))


# ---- all to all through distributed shared memory, by st.async


def test_exchange_of_a_cluster():
    x = RANDOM.integers(0, 1000, (4, 4, 32), dtype=np.uint32)
    body = f"""
.shared .align 8 .b64 full; .shared .align 16 .b8 inbox[512];
mov.u32 %r10, full; mov.u32 %r11, inbox;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra ready;
mbarrier.init.shared.b64 [full], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 %rd3, [full], 512;
ready:
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mad.lo.u32 %r12, %r2, 128, %r1; mad.wide.u32 %rd4, %r12, 4, %rd1; ld.global.u32 %r13, [%rd4];
mapa.shared::cluster.u32 %r14, %r10, %r4; mad.lo.u32 %r15, %r2, 128, %r11; mad.lo.u32 %r15, %r3, 4, %r15;
mapa.shared::cluster.u32 %r16, %r15, %r4;
st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r16], %r13, [%r14];
{WAIT.format("w", "full", 0)}
mad.lo.u32 %r17, %r1, 4, %r11; ld.shared.u32 %r18, [%r17];
mad.wide.u32 %rd5, %r12, 4, %rd2; st.global.u32 [%rd5], %r18;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""
    left = launch(body, x, np.zeros_like(x), grid=4, block=128, cluster=4)
    np.testing.assert_array_equal(left[1], x.transpose(1, 0, 2))


# ---- a selective scan: h = a h + b, by warps that hand a carry on


def test_selective_scan():
    a = RANDOM.uniform(0.5, 1, (3, 128)).astype(np.float32)
    b = RANDOM.standard_normal((3, 128)).astype(np.float32)
    up = "".join(
        f"shfl.sync.up.b32 %r20|%p2, %r10, {d}, 0, 0xffffffff; shfl.sync.up.b32 %r21, %r11, {d}, 0, 0xffffffff;\n"
        "mov.b32 %f3, %r20; mov.b32 %f4, %r21; mov.b32 %f1, %r10; mov.b32 %f2, %r11;\n"
        "@%p2 fma.rn.f32 %f2, %f1, %f4, %f2; @%p2 mul.f32 %f1, %f1, %f3; mov.b32 %r10, %f1; mov.b32 %r11, %f2;\n"
        for d in (1, 2, 4, 8, 16)
    )
    body = f"""
.shared .align 8 .b8 ends[32];
mad.lo.u32 %r12, %r2, 128, %r1; mad.wide.u32 %rd4, %r12, 4, %rd1; mad.wide.u32 %rd5, %r12, 4, %rd2;
ld.global.u32 %r10, [%rd4]; ld.global.u32 %r11, [%rd5];
{up}
mov.u32 %r13, ends; mad.lo.u32 %r14, %r4, 8, %r13; setp.eq.u32 %p3, %r3, 31;
@%p3 st.shared.v2.f32 [%r14], {{%f1, %f2}};
bar.sync 0;
mov.f32 %f5, 0f00000000;
carry:
setp.ge.u32 %p4, %r13, %r14;
@%p4 bra done;
ld.shared.v2.f32 {{%f6, %f7}}, [%r13]; fma.rn.f32 %f5, %f6, %f5, %f7; add.u32 %r13, %r13, 8;
bra carry;
done:
fma.rn.f32 %f2, %f1, %f5, %f2;
mad.wide.u32 %rd6, %r12, 4, %rd3; st.global.f32 [%rd6], %f2;
"""
    left = launch(body, a, b, np.zeros_like(a), grid=3, block=128)
    h, expected = np.zeros(3), np.zeros((3, 128))
    for t in range(128):
        h = a[:, t] * h + b[:, t]
        expected[:, t] = h
    np.testing.assert_allclose(left[2], expected, rtol=1e-4, atol=1e-5)


# ---- top-k sampling: k times the greatest, then the first whose share of the sum passes the number


def test_top_k_sampling():
    logits = RANDOM.permutation(512).astype(np.float32).reshape(4, 128) / 64
    chance = np.array([0.1, 0.5, 0.8, 0.99], np.float32)
    rounds, k = "", 4
    for i in range(k):
        rounds += f"""
mov.b32 %r20, %f1; redux.sync.max.u32 %r21, %r20, 0xffffffff;
setp.eq.u32 %p1, %r3, 0; @%p1 st.shared.u32 [%r10], %r21;
bar.sync 0;
ld.shared.v4.u32 {{%r22, %r23, %r24, %r25}}, [best];
max.u32 %r22, %r22, %r23; max.u32 %r24, %r24, %r25; max.u32 %r22, %r22, %r24;
setp.eq.u32 %p2, %r20, %r22;
@%p2 st.shared.u32 [chosen+{4 * i}], %r1;
mov.b32 %f{10 + i}, %r22; @%p2 mov.f32 %f1, 0f00000000;
bar.sync 0;"""
    body = f"""
.shared .align 16 .b8 best[16]; .shared .align 16 .b8 chosen[16];
mad.lo.u32 %r12, %r2, 128, %r1; mad.wide.u32 %rd4, %r12, 4, %rd1; ld.global.f32 %f1, [%rd4];
mov.u32 %r10, best; mad.lo.u32 %r10, %r4, 4, %r10;
{rounds}
setp.ne.u32 %p3, %r1, 0;
@%p3 bra done;
mad.wide.u32 %rd5, %r2, 4, %rd2; ld.global.f32 %f2, [%rd5];
mov.f32 %f3, 0f00000000;
{"".join(f"sub.f32 %f{20 + i}, %f{10 + i}, %f10; mul.f32 %f{20 + i}, %f{20 + i}, 0f3fb8aa3b; ex2.approx.f32 %f{20 + i}, %f{20 + i}; add.f32 %f3, %f3, %f{20 + i};" for i in range(k))}
mul.f32 %f2, %f2, %f3; mov.f32 %f4, 0f00000000; mov.u32 %r30, 0;
{"".join(f"add.f32 %f4, %f4, %f{20 + i}; setp.lt.f32 %p4, %f4, %f2; @%p4 mov.u32 %r30, {4 * i + 4};" for i in range(k - 1))}
mov.u32 %r31, chosen; add.u32 %r31, %r31, %r30; ld.shared.u32 %r32, [%r31];
mad.wide.u32 %rd6, %r2, 4, %rd3; st.global.u32 [%rd6], %r32;
done:
"""
    left = launch(body, logits, chance, np.zeros(4, np.uint32), grid=4, block=128)
    for row, c, got in zip(logits, chance, left[2], strict=True):
        order = np.argsort(-row)[:k]
        shares = np.cumsum(np.exp(row[order] - row[order[0]]))
        assert got == order[np.searchsorted(shares, c * shares[-1])]


# ---- tokens to experts: counts, a prefix sum by the last CTA's acquire, and places by atomics


def test_permutation_to_experts():
    experts = RANDOM.integers(0, 8, 256, dtype=np.uint32)
    body = """
mad.lo.u32 %r10, %r2, 64, %r1; mad.wide.u32 %rd5, %r10, 4, %rd1; ld.global.u32 %r11, [%rd5];
mad.wide.u32 %rd6, %r11, 4, %rd2;
atom.relaxed.gpu.global.add.u32 %r12, [%rd6], 1;
bar.sync 0;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra meet;
red.release.gpu.global.add.u32 [%rd4], 1;
all:
ld.acquire.gpu.global.u32 %r13, [%rd4]; setp.lt.u32 %p2, %r13, 4;
@%p2 bra all;
meet:
bar.sync 0;
mov.u32 %r14, 0; mov.u64 %rd7, %rd2;
sum:
setp.ge.u64 %p3, %rd7, %rd6;
@%p3 bra summed;
ld.global.u32 %r15, [%rd7]; add.u32 %r14, %r14, %r15; add.u64 %rd7, %rd7, 4;
bra sum;
summed:
add.u32 %r14, %r14, %r12; mad.wide.u32 %rd8, %r14, 4, %rd3; st.global.u32 [%rd8], %r10;
"""
    left = launch(
        body, experts, np.zeros(8, np.uint32), np.zeros(256, np.uint32), np.zeros(1, np.uint32), grid=4, block=64
    )
    assert sorted(left[2]) == list(range(256))
    np.testing.assert_array_equal(experts[left[2]], np.sort(experts))


# ---- stream-K: three CTAs share two tiles of 16 x 16 evenly; whoever begins a tile in its middle hands its part to the owner


def test_stream_k():
    a, b = (
        RANDOM.integers(-4, 5, (2 * 16, 48)).astype(np.float32),
        RANDOM.integers(-4, 5, (48, 16)).astype(np.float32),
    )
    body = """
and.b32 %r10, %r1, 15; shr.u32 %r11, %r1, 4;
mad.lo.u32 %r12, %r2, 32, 0; add.u32 %r13, %r12, 32;
next:
setp.ge.u32 %p1, %r12, %r13;
@%p1 bra done;
div.u32 %r14, %r12, 48; mad.lo.u32 %r15, %r14, 48, 48; min.u32 %r15, %r15, %r13;
mad.lo.u32 %r16, %r14, 48, 0; sub.u32 %r17, %r12, %r16; sub.u32 %r18, %r15, %r16; mov.u32 %r19, %r17;
mov.f32 %f1, 0f00000000;
k:
mad.lo.u32 %r20, %r14, 16, %r11; mad.lo.u32 %r20, %r20, 48, %r19; mad.wide.u32 %rd10, %r20, 4, %rd1; ld.global.f32 %f2, [%rd10];
mad.lo.u32 %r21, %r19, 16, %r10; mad.wide.u32 %rd11, %r21, 4, %rd2; ld.global.f32 %f3, [%rd11];
fma.rn.f32 %f1, %f2, %f3, %f1; add.u32 %r19, %r19, 1; setp.lt.u32 %p2, %r19, %r18;
@%p2 bra k;
mad.lo.u32 %r22, %r14, 256, %r1; mad.wide.u32 %rd12, %r22, 4, %rd3; mad.wide.u32 %rd13, %r22, 4, %rd4;
mad.wide.u32 %rd14, %r14, 4, %rd5;
setp.ne.u32 %p3, %r1, 0; setp.eq.u32 %p4, %r17, 0;
@%p4 bra owner;
st.global.f32 [%rd13], %f1;
bar.sync 0;
@!%p3 red.release.gpu.global.add.u32 [%rd14], 1;
bra over;
owner:
setp.eq.u32 %p5, %r18, 48;
@%p5 bra whole;
@%p3 bra met;
fixup:
ld.acquire.gpu.global.u32 %r23, [%rd14]; setp.eq.u32 %p6, %r23, 0;
@%p6 bra fixup;
met:
bar.sync 0;
ld.global.f32 %f4, [%rd13]; add.f32 %f1, %f1, %f4;
whole:
st.global.f32 [%rd12], %f1;
over:
mov.u32 %r12, %r15;
bra next;
done:
"""
    parts = np.zeros((2, 16, 16), np.float32)
    left = launch(body, a, b, parts, parts, np.zeros(2, np.uint32), grid=3, block=256)
    np.testing.assert_array_equal(left[2].reshape(32, 16), a @ b)


# ---- decoding by splits: keys of each come by cp.async in two stages, and the CTA that counts last combines


def test_split_decoding():
    splits, steps, width = 4, 3, 32
    q = RANDOM.standard_normal(width).astype(np.float32)
    latents = RANDOM.standard_normal((splits * steps * 4, width)).astype(np.float32)
    one = "".join(
        f"mul.f32 %f10, %f1, %f{2 + i};\n"
        + "".join(
            f"mov.b32 %r40, %f10; shfl.sync.bfly.b32 %r41, %r40, {d}, 31, 0xffffffff; mov.b32 %f11, %r41; add.f32 %f10, %f10, %f11;\n"
            for d in (16, 8, 4, 2, 1)
        )
        + f"max.f32 %f12, %f20, %f10; sub.f32 %f13, %f20, %f12; ex2.approx.f32 %f13, %f13; sub.f32 %f14, %f10, %f12; "
        f"ex2.approx.f32 %f14, %f14; fma.rn.f32 %f21, %f21, %f13, %f14; mul.f32 %f22, %f22, %f13; "
        f"fma.rn.f32 %f22, %f14, %f{2 + i}, %f22; mov.f32 %f20, %f12;\n"
        for i in range(4)
    )
    merge = "".join(
        f"ld.global.f32 %f{30 + 3 * i}, [%rd4+{8 * i}]; ld.global.f32 %f{31 + 3 * i}, [%rd4+{8 * i + 4}]; "
        f"ld.global.f32 %f{32 + 3 * i}, [%rd12+{4 * width * i}];\n"
        for i in range(splits)
    )
    greatest = "mov.f32 %f50, %f30; " + "".join(f"max.f32 %f50, %f50, %f{30 + 3 * i}; " for i in range(1, splits))
    sums = "mov.f32 %f51, 0f00000000; mov.f32 %f52, 0f00000000;\n" + "".join(
        f"sub.f32 %f53, %f{30 + 3 * i}, %f50; ex2.approx.f32 %f53, %f53; fma.rn.f32 %f51, %f53, %f{31 + 3 * i}, %f51; "
        f"fma.rn.f32 %f52, %f53, %f{32 + 3 * i}, %f52;\n"
        for i in range(splits)
    )
    body = f"""
.shared .align 16 .b8 keys[1024]; .shared .align 4 .b32 rank;
mad.wide.u32 %rd10, %r1, 4, %rd1; ld.global.f32 %f1, [%rd10];
mov.u32 %r10, keys; mad.lo.u32 %r11, %r1, 16, %r10;
mad.lo.u32 %r12, %r2, {steps * 4 * width * 4}, 0; mad.lo.u32 %r12, %r1, 16, %r12; cvt.u64.u32 %rd11, %r12; add.u64 %rd11, %rd2, %rd11;
cp.async.cg.shared.global [%r11], [%rd11], 16;
cp.async.commit_group;
mov.f32 %f20, 0fFF800000; mov.f32 %f21, 0f00000000; mov.f32 %f22, 0f00000000; mov.u32 %r13, 0;
step:
add.u32 %r13, %r13, 1; setp.ge.u32 %p1, %r13, {steps}; and.b32 %r14, %r13, 1; mad.lo.u32 %r15, %r14, 512, %r11;
@%p1 bra copied;
add.u64 %rd11, %rd11, 512; cp.async.cg.shared.global [%r15], [%rd11], 16;
copied:
cp.async.commit_group;
cp.async.wait_group 1;
bar.warp.sync 0xffffffff;
xor.b32 %r14, %r14, 1; mad.lo.u32 %r16, %r14, 512, %r10; mad.lo.u32 %r16, %r1, 4, %r16;
ld.shared.f32 %f2, [%r16]; ld.shared.f32 %f3, [%r16+128]; ld.shared.f32 %f4, [%r16+256]; ld.shared.f32 %f5, [%r16+384];
bar.warp.sync 0xffffffff;
{one}
@!%p1 bra step;
mad.lo.u32 %r17, %r2, {width}, %r1; mad.wide.u32 %rd12, %r17, 4, %rd3; st.global.f32 [%rd12], %f22;
setp.ne.u32 %p2, %r1, 0; mad.wide.u32 %rd13, %r2, 8, %rd4;
@!%p2 st.global.v2.f32 [%rd13], {{%f20, %f21}};
bar.warp.sync 0xffffffff;
@!%p2 atom.acq_rel.gpu.global.add.u32 %r18, [%rd6], 1;
@!%p2 st.shared.u32 [rank], %r18;
bar.warp.sync 0xffffffff;
ld.shared.u32 %r19, [rank]; setp.ne.u32 %p3, %r19, {splits - 1};
@%p3 bra done;
mad.wide.u32 %rd12, %r1, 4, %rd3;
{merge}
{greatest}
{sums}
div.rn.f32 %f52, %f52, %f51; mad.wide.u32 %rd14, %r1, 4, %rd5; st.global.f32 [%rd14], %f52;
done:
"""
    left = launch(
        body, q, latents, np.zeros((splits, width), np.float32), np.zeros((splits, 2), np.float32),
        np.zeros(width, np.float32), np.zeros(1, np.uint32), grid=splits,
    )  # fmt: skip
    scores = latents.astype(np.float64) @ q
    weights = np.exp2(scores - scores.max())
    np.testing.assert_allclose(left[4], weights @ latents / weights.sum(), rtol=1e-4, atol=1e-5)


# ---- products of f8 whose sums of 128 are scaled and added in f32 registers


def test_f8_promoted_in_registers():
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    blocks = 4
    a = RANDOM.integers(-3, 4, (64, 128 * blocks)).astype(np.float32)
    b = RANDOM.integers(-3, 4, (8, 128 * blocks)).astype(np.float32)
    scale_a = RANDOM.uniform(0.5, 2, (blocks, 64)).astype(np.float32)
    scale_b = RANDOM.uniform(0.5, 2, blocks).astype(np.float32)
    to_f8 = lambda x: torch.from_numpy(x).to(torch.float8_e4m3fn).view(torch.uint8).numpy()  # noqa: E731
    by_block = lambda x: np.concatenate([cores(to_f8(x)[:, 128 * i : 128 * i + 128].copy()) for i in range(blocks)])  # noqa: E731
    products = "".join(
        f"add.u64 %rd20, %rd10, {16 * j}; add.u64 %rd21, %rd11, {16 * j}; wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 "
        f"{{%f0, %f1, %f2, %f3}}, %rd20, %rd21, {int(j > 0)}, 1, 1;\n"
        for j in range(4)
    )
    body = f"""
.shared .align 1024 .b8 sa[16384]; .shared .align 1024 .b8 sb[2048]; .shared .align 8 .b8 full[16]; .shared .align 8 .b8 empty[16];
mov.u32 %r10, full; mov.u32 %r11, empty; mov.u32 %r12, sa; mov.u32 %r13, sb; mov.u32 %r14, 0;
setp.ne.u32 %p1, %r1, 128;
@%p1 bra ready;
mbarrier.init.shared.b64 [full], 1; mbarrier.init.shared.b64 [full+8], 1;
mbarrier.init.shared.b64 [empty], 4; mbarrier.init.shared.b64 [empty+8], 4;
ready:
bar.sync 0;
setp.lt.u32 %p2, %r1, 128;
@%p2 bra consume;
@%p1 bra done;
produce:
and.b32 %r15, %r14, 1; shr.u32 %r16, %r14, 1; and.b32 %r16, %r16, 1; xor.b32 %r16, %r16, 1;
mad.lo.u32 %r17, %r15, 8, %r10; mad.lo.u32 %r18, %r15, 8, %r11; mad.lo.u32 %r19, %r15, 8192, %r12; mad.lo.u32 %r20, %r15, 1024, %r13;
{WAIT.format("we", "%r18", "%r16")}
mbarrier.arrive.expect_tx.shared.b64 %rd6, [%r17], 9216;
mad.wide.u32 %rd7, %r14, 8192, %rd1; mad.wide.u32 %rd8, %r14, 1024, %rd2;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r19], [%rd7], 8192, [%r17];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd8], 1024, [%r17];
add.u32 %r14, %r14, 1; setp.lt.u32 %p3, %r14, {blocks};
@%p3 bra produce;
bra done;
consume:
mov.f32 %f10, 0f00000000; mov.f32 %f11, 0f00000000; mov.f32 %f12, 0f00000000; mov.f32 %f13, 0f00000000;
shr.u32 %r30, %r3, 2; mad.lo.u32 %r30, %r4, 16, %r30;
step:
and.b32 %r15, %r14, 1; shr.u32 %r16, %r14, 1; and.b32 %r16, %r16, 1;
mad.lo.u32 %r17, %r15, 8, %r10; mad.lo.u32 %r18, %r15, 8, %r11; mad.lo.u32 %r19, %r15, 8192, %r12; mad.lo.u32 %r20, %r15, 1024, %r13;
mad.lo.u32 %r31, %r14, 64, %r30; mad.wide.u32 %rd7, %r31, 4, %rd3; ld.global.f32 %f20, [%rd7]; ld.global.f32 %f21, [%rd7+32];
mad.wide.u32 %rd8, %r14, 4, %rd4; ld.global.f32 %f22, [%rd8]; mul.f32 %f20, %f20, %f22; mul.f32 %f21, %f21, %f22;
{WAIT.format("wf", "%r17", "%r16")}
{descriptor(10, "%r19", 128)}{descriptor(11, "%r20", 128)}
wgmma.fence.sync.aligned;
{products}
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
setp.eq.u32 %p4, %r3, 0;
@%p4 mbarrier.arrive.shared.b64 %rd6, [%r18];
fma.rn.f32 %f10, %f0, %f20, %f10; fma.rn.f32 %f11, %f1, %f20, %f11; fma.rn.f32 %f12, %f2, %f21, %f12; fma.rn.f32 %f13, %f3, %f21, %f13;
add.u32 %r14, %r14, 1; setp.lt.u32 %p3, %r14, {blocks};
@%p3 bra step;
and.b32 %r32, %r3, 3; mad.lo.u32 %r33, %r30, 4, %r32; mad.wide.u32 %rd9, %r33, 8, %rd5;
st.global.v2.f32 [%rd9], {{%f10, %f11}}; st.global.v2.f32 [%rd9+256], {{%f12, %f13}};
done:
"""
    left = launch(body, by_block(a), by_block(b), scale_a, scale_b, np.zeros((64, 8), np.float32), block=160)
    of = [slice(128 * i, 128 * i + 128) for i in range(blocks)]
    expected = sum((a[:, s] @ b[:, s].T) * (scale_a[i] * scale_b[i])[:, None] for i, s in enumerate(of))
    np.testing.assert_allclose(left[4], expected, rtol=1e-5, atol=1e-3)


# ---- attention by two warpgroups in turns; the scores of the next block are begun before the products of this one


def registers(first: int, count: int = 8) -> str:
    return "{" + ", ".join(f"%f{first + i}" for i in range(count)) + "}"


def softmax(s: int, old: bool) -> str:
    """Of 8 scores from %f{s} on: their weights, packed in %r60 to %r63. %f40, %f41: maxima; %f42, %f43: sums; %f44, %f45: factors."""
    text = ""
    for row, mine in ((0, (0, 1, 4, 5)), (1, (2, 3, 6, 7))):
        text += f"max.f32 %f50, %f{s + mine[0]}, %f{s + mine[1]};" + "".join(
            f"max.f32 %f50, %f50, %f{s + i};" for i in mine[2:]
        )
        for d in (1, 2):
            text += f"mov.b32 %r50, %f50; shfl.sync.bfly.b32 %r51, %r50, {d}, 31, 0xffffffff; mov.b32 %f51, %r51; max.f32 %f50, %f50, %f51;\n"
        if old:
            text += f"max.f32 %f50, %f50, %f{40 + row}; sub.f32 %f{44 + row}, %f{40 + row}, %f50; ex2.approx.f32 %f{44 + row}, %f{44 + row};"
            text += f"mul.f32 %f{42 + row}, %f{42 + row}, %f{44 + row};\n"
        else:
            text += f"mov.f32 %f{42 + row}, 0f00000000;\n"
        text += f"mov.f32 %f{40 + row}, %f50;\n"
        for i in mine:
            text += f"sub.f32 %f{s + i}, %f{s + i}, %f50; ex2.approx.f32 %f{s + i}, %f{s + i}; add.f32 %f{42 + row}, %f{42 + row}, %f{s + i};\n"
    return text + "".join(f"cvt.rn.bf16x2.f32 %r{64 + i}, %f{s + 2 * i + 1}, %f{s + 2 * i};\n" for i in range(4))


TAKE = "".join(f"mov.b32 %r{60 + i}, %r{64 + i};" for i in range(4))
BF16 = "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16"


def attention_in_turns(blocks: int) -> str:
    def wait(name: str, j: int) -> str:
        return WAIT.format(f"{name}{j}", f"full_{name}+{8 * (j % 2)}", j // 2 & 1)

    def release(name: str, j: int) -> str:
        return f"@%p5 mbarrier.arrive.shared.b64 %rd20, [empty_{name}+{8 * (j % 2)}];\n"

    def scores(j: int, s: int) -> str:
        return f"{descriptor(11, f'keys+{512 * (j % 2)}', 32)}{BF16} {registers(s)}, %rd10, %rd11, 0, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\n"

    def values(j: int) -> str:
        return (
            f"{descriptor(12, f'values+{512 * (j % 2)}', 32)}{BF16} {registers(20)}, {{%r60, %r61, %r62, %r63}}, %rd12, {int(j > 0)}, 1, 1, 0;\n"
            "wgmma.commit_group.sync.aligned;\n"
        )

    produce = ""
    for j in range(blocks):
        for name in ("keys", "values"):
            if j > 1:
                produce += WAIT.format(f"e{name}{j}", f"empty_{name}+{8 * (j % 2)}", (j // 2 - 1) & 1)
            at = f"full_{name}+{8 * (j % 2)}"
            produce += (
                f"mbarrier.arrive.expect_tx.shared.b64 %rd20, [{at}], 512;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                f"[{name}+{512 * (j % 2)}], [%rd{2 if name == 'keys' else 3}+{512 * j}], 512, [{at}];\n"
            )
    consume = f"wgmma.fence.sync.aligned;\n{wait('keys', 0)}{scores(0, 0)}wgmma.wait_group.sync.aligned 0;\n{release('keys', 0)}{softmax(0, False)}{TAKE}"
    for j in range(1, blocks):
        s = 8 * (j % 2)
        consume += f"{wait('keys', j)}bar.sync %r70, 256;\nwgmma.fence.sync.aligned;\n{scores(j, s)}{wait('values', j - 1)}{values(j - 1)}"
        consume += f"bar.arrive %r71, 256;\nwgmma.wait_group.sync.aligned 1;\n{release('keys', j)}{softmax(s, True)}"
        consume += f"wgmma.wait_group.sync.aligned 0;\n{release('values', j - 1)}"
        consume += "".join(f"mul.f32 %f{20 + i}, %f{20 + i}, %f{44 + (i >> 1 & 1)};" for i in range(8)) + TAKE + "\n"
    consume += (
        f"{wait('values', blocks - 1)}wgmma.fence.sync.aligned;\n{values(blocks - 1)}wgmma.wait_group.sync.aligned 0;\n"
    )
    for row in range(2):
        for d in (1, 2):
            consume += f"mov.b32 %r50, %f{42 + row}; shfl.sync.bfly.b32 %r51, %r50, {d}, 31, 0xffffffff; mov.b32 %f51, %r51; add.f32 %f{42 + row}, %f{42 + row}, %f51;\n"
    consume += "".join(f"div.rn.f32 %f{20 + i}, %f{20 + i}, %f{42 + (i >> 1 & 1)};" for i in range(8))
    places = ((0, 0), (8, 2), (0, 4), (8, 6))  # rows below the first, register
    consume += "".join(
        f"st.global.v2.f32 [%rd21+{64 * row + 32 * (r // 4)}], {{%f{20 + r}, %f{21 + r}}};\n" for row, r in places
    )
    barriers = [f"{kind}_{name}+{8 * i}" for kind in ("full", "empty") for name in ("keys", "values") for i in range(2)]
    init = "".join(f"mbarrier.init.shared.b64 [{b}], {1 if b.startswith('full') else 2};\n" for b in barriers)
    return f"""
.shared .align 1024 .b8 queries[4096]; .shared .align 1024 .b8 keys[1024]; .shared .align 1024 .b8 values[1024];
.shared .align 8 .b8 full_keys[16]; .shared .align 8 .b8 full_values[16]; .shared .align 8 .b8 empty_keys[16]; .shared .align 8 .b8 empty_values[16];
.shared .align 8 .b64 full_queries;
setp.ne.u32 %p1, %r1, 256;
@%p1 bra ready;
{init}mbarrier.init.shared.b64 [full_queries], 1;
ready:
bar.sync 0;
setp.lt.u32 %p2, %r1, 256;
@%p2 bra consume;
@%p1 bra done;
mbarrier.arrive.expect_tx.shared.b64 %rd20, [full_queries], 4096;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [queries], [%rd1], 4096, [full_queries];
{produce}
bra done;
consume:
shr.u32 %r20, %r1, 7; and.b32 %r21, %r1, 127; setp.eq.u32 %p5, %r21, 0;
add.u32 %r70, %r20, 2; xor.b32 %r71, %r20, 1; add.u32 %r71, %r71, 2;
mov.u32 %r22, queries; mad.lo.u32 %r22, %r20, 2048, %r22; {descriptor(10, "%r22", 32)}
shr.u32 %r23, %r1, 5; shr.u32 %r24, %r3, 2; mad.lo.u32 %r24, %r23, 16, %r24; and.b32 %r25, %r3, 3; mad.lo.u32 %r24, %r24, 8, %r25;
mad.wide.u32 %rd21, %r24, 8, %rd4;
{WAIT.format("wq", "full_queries", 0)}
setp.eq.u32 %p6, %r20, 1;
@%p6 bar.arrive 2, 256;
{consume}
done:
"""


@pytest.mark.parametrize("blocks", [2, 5])
def test_attention_in_turns(blocks):
    q, k, v = (RANDOM.standard_normal((n, 16)) for n in (128, 16 * blocks, 16 * blocks))
    q, k, v = (bf16(x) for x in (q, k, v))
    queries = np.concatenate([cores(q[:64]), cores(q[64:])])
    keys = np.concatenate([cores(k[16 * j : 16 * j + 16]) for j in range(blocks)])
    values = np.concatenate([cores(v[16 * j : 16 * j + 16].T) for j in range(blocks)])
    left = launch(attention_in_turns(blocks), queries, keys, values, np.zeros((128, 16), np.float32), block=288)
    q, k, v = ((x.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for x in (q, k, v))
    weights = np.exp2(q @ k.T - (q @ k.T).max(axis=1, keepdims=True))
    np.testing.assert_allclose(left[3], weights @ v / weights.sum(axis=1, keepdims=True), rtol=2e-2, atol=2e-2)
