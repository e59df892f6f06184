"""tcgen05 on the simulator: every kind of product against a float64 reference, and how D, A, metadata and scale factors lie in
tensor memory (manual 9.7.16.10.5 to 9.7.16.10.8); copies, shifts, loads and stores of every shape.  No GPU here runs it.
"""

from __future__ import annotations

import itertools
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy", reason="skipped: no numpy")

from tensor_memory_kernels import LANES, make_load, make_probe, run_probe  # noqa: E402

from pyptx import ptx, reg, types  # noqa: E402
from pyptx.types import b32, u32, u64  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))

# exponent bits, mantissa bits, bias
FLOATS = {
    "f16": (5, 10, 15),
    "bf16": (8, 7, 127),
    "tf32": (8, 10, 127),
    "e4m3": (4, 3, 7),
    "e5m2": (5, 2, 15),
    "e2m3": (2, 3, 1),
}
FLOATS |= {"e3m2": (3, 2, 3), "e2m1": (2, 1, 1)}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4}
K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
SWIZZLES = {
    "NONE": (0, 0, 16),  # mask, shift, width
    "32B": (0x80, 3, 32),
    "64B": (0x180, 3, 64),
    "128B": (0x380, 3, 128),
    "128B_BASE32B": (0x180, 2, 128),
}
AT_A, AT_META, AT_SCALES = 128, 136, 144  # columns


def decode(name: str, codes: np.ndarray) -> np.ndarray:
    if name in ("s8", "u8"):
        return codes.astype(np.int8 if name == "s8" else np.uint8).astype(np.float64)
    exponent, mantissa, bias = FLOATS[name]
    e, m = codes >> mantissa & ((1 << exponent) - 1), codes & ((1 << mantissa) - 1)
    size = np.where(
        e == 0, m * 2.0 ** (1 - bias - mantissa), (1 + m * 2.0**-mantissa) * 2.0 ** (e.astype(np.float64) - bias)
    )
    return np.where(codes >> (exponent + mantissa) & 1, -size, size)


def small_codes(rng, name: str, shape) -> np.ndarray:
    """Bits of random numbers of few bits and near 1, whose sums of products are exact."""
    if name in ("s8", "u8"):
        return rng.integers(0, 256, shape).astype(np.uint32)
    exponent, mantissa, bias = FLOATS[name]
    top = (1 << exponent) - 1
    e = rng.integers(max(0, bias - 2), min(top, bias + 2) + (top == 3), shape)
    m = rng.integers(0, 1 << min(2, mantissa), shape) << (mantissa - min(2, mantissa))
    codes = (rng.integers(0, 2, shape) << (exponent + mantissa) | e << mantissa | m).astype(np.uint32)
    return np.where(rng.integers(0, 8, shape) == 0, 0, codes).astype(np.uint32)


def in_memory(name: str, codes: np.ndarray, dense4: bool) -> np.ndarray:
    """Rows of numbers as bytes: narrow ones as 16 with padding, or two to a byte."""
    codes = np.ascontiguousarray(codes)
    rows, k = codes.shape
    bits = BITS[name]
    if bits >= 8:
        # .tf32 is the upper 19 bits of a word
        return (
            (codes << (13 if name == "tf32" else 0))
            .astype({8: np.uint8, 16: np.uint16, 32: np.uint32}[bits])
            .view(np.uint8)
            .reshape(rows, -1)
        )
    each = 32 if dense4 else 16
    out = np.zeros((rows, k // each, 16), np.uint8)
    flat = codes.reshape(rows, k // each, each)
    for i in range(each):
        value, at = flat[:, :, i] << (i * bits % 8), i * bits // 8
        out[:, :, at] |= (value & 255).astype(np.uint8)
        if i * bits % 8 + bits > 8:
            out[:, :, at + 1] |= (value >> 8).astype(np.uint8)
    return out.reshape(rows, -1)


def offsets(lines: int, row_bytes: int, swizzle: str, mn_major: bool):
    """Where byte (line, i) lies, and leading and stride of the descriptor (manual 9.7.16.3)."""
    mask, shift, width = SWIZZLES[swizzle]
    line, i = np.meshgrid(np.arange(lines), np.arange(row_bytes), indexing="ij")
    repeats = 4 if mn_major and swizzle == "128B_BASE32B" else 8
    if swizzle == "NONE":
        units = row_bytes // 16
        stride, leading = (128, units * 128) if mn_major else (units * 128, 128)
        eights, across = (leading, stride) if mn_major else (stride, leading)
        return line // 8 * eights + line % 8 * 16 + i // 16 * across + i % 16, leading, stride
    atom = repeats * width
    across = (row_bytes + width - 1) // width
    stride, leading = atom * across, atom
    at = line // repeats * stride + line % repeats * width + i // width * leading + i % width
    return at ^ ((at & mask) >> shift), leading, stride


class Matrix:
    """A or B of one CTA in shared memory."""

    def __init__(self, name, codes, swizzle="NONE", transposed=False, dense4=False):
        data = in_memory(name, codes.T if transposed else codes, dense4)
        where, self.leading, self.stride = offsets(*data.shape, swizzle, transposed)
        self.image = np.zeros((int(where.max()) + 1024) // 1024 * 1024, np.uint8)
        self.image[where] = data
        self.swizzle = swizzle

    def descriptor(self, at, offset):
        return ptx.tcgen05.descriptor(
            at, byte_offset=offset, leading_bytes=self.leading, stride_bytes=self.stride, swizzle=self.swizzle
        )


def lanes_of(m, n, pair=False, sparse=False, stationary=False):
    """CTA, lane and column of each element of D."""
    row, column = np.meshgrid(np.arange(m), np.arange(n), indexing="ij")
    rows = m // (2 if pair else 1)
    cta, row = row // rows, row % rows
    if rows == 64 and not (stationary or (pair and not sparse)):
        return cta, row % 16 + row // 16 * 32, column
    each = n * rows // 128
    return cta, row + column // each * rows, column % each


def product(kind, a_type, b_type, d_type, m, n, *, pair=False, sparse=False, stationary=False, a_in_tensor=False, swizzle="NONE",
            transpose=(False, False), negate=(1, 1), accumulate=True, scale_d=None, scale=None, scales=0, ids=(0, 0), mask=None,
            selector=0, saturate=False, ashift=False, zero_columns=None, seed=0):  # fmt: skip
    """Runs one product on random numbers; returns D and what it should be, as (m, n) of float64."""
    rng = np.random.default_rng(seed)
    ctas, k, dense4 = 2 if pair else 1, K[kind] * (2 if sparse else 1), kind in ("mxf4", "mxf4nvf4")
    a_codes, b_codes = small_codes(rng, a_type, (m, K[kind])), small_codes(rng, b_type, (n, k))
    tensor = rng.integers(0, 1 << 32, (ctas * LANES, 256), dtype=np.uint32)
    cta, lane, column = lanes_of(m, n, pair, sparse, stationary)
    cells = (cta * LANES + lane, column)
    old = rng.integers(-64, 64, (m, n))
    tensor[cells] = {"f32": old.astype(np.float32).view(np.uint32), "s32": old.astype(np.int32).view(np.uint32),
                     "f16": tensor[cells] & 0xFFFF0000 | old.astype(np.float16).view(np.uint16)}[d_type]  # fmt: skip
    a = decode(a_type, a_codes)
    if sparse:
        a, kept = spread(rng, a, kind)
        put_metadata(tensor, kept, kind, cta, lane, selector)
    b = decode(b_type, b_codes)
    factors_a = factors_b = np.ones((1, 1))
    if scales:
        factors_a = put_scales(rng, tensor, scale, scales, ids[0], m, n, cta, lane, column, True).repeat(
            k // scales, axis=1
        )
        factors_b = put_scales(rng, tensor, scale, scales, ids[1], m, n, cta, lane, column, False).repeat(
            k // scales, axis=1
        )
    rows, each = m // ctas, n // ctas
    images = []
    for i in range(ctas):
        ma = Matrix(a_type, a_codes[i * rows : (i + 1) * rows], swizzle, transpose[0], dense4)
        mb = Matrix(b_type, b_codes[i * each : (i + 1) * each], swizzle, transpose[1], dense4)
        images.append(np.concatenate([ma.image, mb.image]))
    if a_in_tensor:
        put_a(tensor, a_type, a_codes, dense4, cta, lane)
    descriptor = dict(
        m=m,
        n=n,
        a_dtype=getattr(types, a_type),
        b_dtype=getattr(types, b_type),
        d_dtype=getattr(types, d_type),
    )
    descriptor |= dict(
        scale_a=negate[0],
        scale_b=negate[1],
        a_major="MN" if transpose[0] else "K",
        b_major="MN" if transpose[1] else "K",
    )
    descriptor |= dict(sparse=sparse, saturate=saturate, selector=selector)
    if scales:
        descriptor |= dict(
            scale_dtype=getattr(types, scale), scale_a_id=ids[0], scale_b_id=ids[1], mxf8f6f4=kind == "mxf8f6f4"
        )
    given = dict(kind=f"kind::{kind}") if stationary else dict(kind=f"kind::{kind}", sparse=sparse, cta_group=ctas)

    def issue(place):
        bits = ptx.tcgen05.instruction_descriptor(**descriptor)
        more = dict(given)
        if sparse:
            more["sparse_metadata"] = place.tensor + AT_META
        if scales:
            vector = {1: "scale_vec::1X", 2: "scale_vec::2X", 4: "scale_vec::4X"}[scales]
            more |= dict(
                scale_vec_a=place.tensor + AT_SCALES, scale_vec_b=place.tensor + AT_SCALES + 16, scale_vectorsize=vector
            )
        if mask is not None:
            more["disable_output_lane"] = [reg.from_(int(word), u32) for word in mask]
        if scale_d:
            more["scale_c"] = scale_d
        if ashift:
            more["ashift"] = True
        if stationary:
            more["scale_d"] = accumulate
            if zero_columns is not None:
                more["zero_column_mask"] = reg.from_(zero_columns[0], u64)
            call = ptx.tcgen05.mma_ws
        else:
            more["enable_input_d"] = accumulate
            call = ptx.tcgen05.mma
        from_a = place.tensor + AT_A if a_in_tensor else ma.descriptor(place.shared, 0)
        call(
            place.tensor,
            from_a,
            mb.descriptor(place.shared, len(ma.image)),
            reg.from_(bits, u32),
            a_is_tmem=a_in_tensor,
            **more,
        )

    probe = make_probe(256, len(images[0]), issue, pair=pair)
    after = run_probe(probe, tensor, np.stack(images))
    written = np.zeros(tensor.shape, bool)
    written[cells] = True
    assert (after[~written] == tensor[~written]).all(), "cells outside of D changed"
    if ashift:
        a = np.concatenate([a[:1], a[:-1]])
    if zero_columns is not None:
        b = b * (1 - np.array(zero_columns[1]))[:, None]
    want = negate[0] * negate[1] * ((a * factors_a) @ (b * factors_b).T)
    if accumulate:
        want = want + old * 2.0 ** -(scale_d or 0)
    if d_type == "f16":
        want = want.astype(np.float16).astype(np.float64)
        assert (after[cells] >> 16 == tensor[cells] >> 16).all()
        return (
            (after[cells] & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float64),
            want,
            tensor[cells],
            after[cells],
        )
    got = after[cells].view(np.int32 if d_type == "s32" else np.float32).astype(np.float64)
    return got, want, tensor[cells], after[cells]


def spread(rng, stored, kind):
    """A with half of its numbers zero, and which of a chunk are kept: (rows, chunks) of the four bits."""
    m, half = stored.shape
    chunk, together = {"tf32": (2, 1), "mxf4": (8, 2), "mxf4nvf4": (8, 2)}.get(kind, (4, 1))
    legal = [0b0100, 0b1110] if kind == "tf32" else [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110]
    kept = rng.choice(legal, (m, half * 2 // chunk))
    a = np.zeros((m, half * 2))
    for row, c, i in itertools.product(range(m), range(kept.shape[1]), range(chunk // 2)):
        which = kept[row, c] >> 1 & 1 if kind == "tf32" else kept[row, c] >> (i // together * 2) & 3
        a[row, c * chunk + which * together + i % together] = stored[row, c * chunk // 2 + i]
    return a, kept


def put_metadata(tensor, kept, kind, cta, lane, selector):
    """Of f16 and tf32 a word has 16 bits of a row and of the one 8 below, the halves of k 8 lanes apart; else 64 bits a lane."""
    rows = kept.shape[0] // (cta.max() + 1)
    for row, c in itertools.product(range(kept.shape[0]), range(kept.shape[1])):
        local = row % rows
        for at in {int(x) for x in lane[row]}:
            if kind in ("f16", "tf32"):
                first = at - local % 16  # the lane of the first of 16 rows
                to, column, bit = first + local % 8 + c // 4 * 8, AT_META + selector, local // 8 % 2 * 16 + c % 4 * 4
            else:
                to, column, bit = at, AT_META + c // 8, c % 8 * 4
            word = int(tensor[cta[row, 0] * LANES + to, column]) & ~(15 << bit) | int(kept[row, c]) << bit
            tensor[cta[row, 0] * LANES + to, column] = word


def put_scales(rng, tensor, scale, scales, sub, m, n, cta, lane, column, of_a):
    """Scale factors of the rows of A or of B, in each of the 32 lanes that need them."""
    size = m if of_a else n
    codes = rng.integers(125, 130, (size, scales)) if scale == "ue8m0" else rng.integers(0x30, 0x48, (size, scales))
    for row in range(m):
        quarters = {(int(x) // 32, int(c)) for x, c in zip(lane[row], column[row], strict=True)}
        for quarter, c in quarters:
            if of_a:
                line, at = row, row % (m // (cta.max() + 1))
                base = AT_SCALES
            else:
                where = np.nonzero((lane[row] // 32 == quarter) & (column[row] == c))[0][0]
                line, at, base = where, c, AT_SCALES + 16
            cell = cta[row, 0] * LANES + quarter * 32 + at % 32, base + at // 32
            for i in range(scales):
                shift = 8 * (sub + i)
                tensor[cell] = int(tensor[cell]) & ~(255 << shift) | int(codes[line, i]) << shift
    return 2.0 ** (codes - 127) if scale == "ue8m0" else decode("e4m3", codes)


def put_a(tensor, name, codes, dense4, cta, lane):
    """A's rows in the lanes that D's rows have, narrow numbers in bytes."""
    if BITS[name] < 8 and not dense4:
        data = (codes << (2 if name == "e2m1" else 0)).astype(np.uint8)
    else:
        data = in_memory(name, codes, dense4)
    words = np.ascontiguousarray(data).view(np.uint32)
    for row in range(codes.shape[0]):
        for at in {int(x) for x in lane[row]}:
            tensor[cta[row, 0] * LANES + at, AT_A : AT_A + 8] = words[row]


def check(*given, **more):
    got, want, _, _ = product(*given, **more)
    np.testing.assert_array_equal(got, want)


PLAIN = [
    ("f16", "f16", "f16", "f32"),
    ("f16", "bf16", "f16", "f32"),
    ("f16", "bf16", "bf16", "f32"),
    ("f16", "f16", "f16", "f16"),
    ("tf32", "tf32", "tf32", "f32"),
]
PLAIN += [("i8", "s8", "u8", "s32"), ("i8", "u8", "s8", "s32")]
NARROW = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
MIXED = [("f8f6f4", a, b, "f32") for a in NARROW for b in NARROW]
SHAPES = [(128, 64, {}), (64, 32, {}), (256, 64, {"pair": True}), (128, 64, {"pair": True})]
SHAPES += [(m, 64, {"stationary": True}) for m in (32, 64, 128)]


@pytest.mark.parametrize("a_in_tensor", [False, True])
@pytest.mark.parametrize("m, n, how", SHAPES)
@pytest.mark.parametrize("types_of", [*PLAIN, ("f8f6f4", "e4m3", "e2m1", "f32"), ("f8f6f4", "e3m2", "e5m2", "f16")])
def test_every_kind_in_every_layout(types_of, m, n, how, a_in_tensor):
    check(*types_of, m, n, a_in_tensor=a_in_tensor, **how)


@pytest.mark.parametrize("types_of", MIXED)
def test_numbers_of_8_6_and_4_bits_in_all_pairs(types_of):
    check(*types_of, 128, 16)
    check(*types_of, 64, 16, a_in_tensor=True)


@pytest.mark.parametrize("a_in_tensor", [False, True])
@pytest.mark.parametrize("m, n, how", SHAPES)
@pytest.mark.parametrize(
    "types_of",
    [
        ("f16", "f16", "bf16", "f32"),
        ("tf32", "tf32", "tf32", "f32"),
        ("f8f6f4", "e4m3", "e2m1", "f32"),
        ("i8", "s8", "s8", "s32"),
    ],
)
def test_sparse_a(types_of, m, n, how, a_in_tensor):
    check(*types_of, m, n, sparse=True, a_in_tensor=a_in_tensor, **how)


def test_the_selector_chooses_a_column_of_metadata():
    for kind, name in (("f16", "bf16"), ("tf32", "tf32")):
        check(kind, name, name, "f32", 128, 16, sparse=True, selector=1)


SCALED = [
    ("mxf8f6f4", a, b, "ue8m0", 1, ids)
    for a, b, ids in (("e4m3", "e4m3", (0, 0)), ("e5m2", "e2m1", (3, 1)), ("e3m2", "e2m3", (2, 2)))
]
SCALED += [("mxf4", "e2m1", "e2m1", "ue8m0", 2, ids) for ids in ((0, 0), (2, 0), (0, 2))]
SCALED += [
    ("mxf4nvf4", "e2m1", "e2m1", "ue8m0", 2, (2, 2)),
    ("mxf4nvf4", "e2m1", "e2m1", "ue8m0", 4, (0, 0)),
    ("mxf4nvf4", "e2m1", "e2m1", "ue4m3", 4, (0, 0)),
]


@pytest.mark.parametrize(
    "m, n, how", [(128, 40, {}), (256, 64, {"pair": True}), (128, 64, {"pair": True}), (128, 16, {"a_in_tensor": True})]
)
@pytest.mark.parametrize("scaled", SCALED)
def test_scale_factors(scaled, m, n, how):
    kind, a, b, scale, scales, ids = scaled
    check(kind, a, b, "f32", m, n, scale=scale, scales=scales, ids=ids, **how)


@pytest.mark.parametrize("scaled", [SCALED[0], SCALED[3], SCALED[-1]])
def test_scale_factors_of_a_sparse_a(scaled):
    kind, a, b, scale, scales, ids = scaled
    check(kind, a, b, "f32", 128, 16, sparse=True, scale=scale, scales=scales, ids=ids)
    check(kind, a, b, "f32", 256, 32, sparse=True, pair=True, scale=scale, scales=scales, ids=ids)


@pytest.mark.parametrize("swizzle", ["NONE", "32B", "64B", "128B"])
@pytest.mark.parametrize("transpose", list(itertools.product((False, True), repeat=2)))
def test_matrices_in_shared_memory(swizzle, transpose):
    check("f16", "bf16", "bf16", "f32", 128, 64, swizzle=swizzle, transpose=transpose)
    check("f8f6f4", "e4m3", "e5m2", "f32", 128, 128, swizzle=swizzle, transpose=transpose)
    check("i8", "s8", "u8", "s32", 64, 128, swizzle=swizzle, transpose=transpose)


def test_tf32_across_has_a_swizzle_of_its_own():
    check("tf32", "tf32", "tf32", "f32", 128, 64, swizzle="128B_BASE32B", transpose=(True, True))


def test_signs_sums_and_scales_of_d():
    for negate in itertools.product((1, -1), repeat=2):
        check("f16", "f16", "f16", "f32", 128, 16, negate=negate)
    check("tf32", "tf32", "tf32", "f32", 128, 16, accumulate=False)
    check("f16", "bf16", "bf16", "f32", 128, 16, scale_d=3)
    check("f16", "f16", "f16", "f16", 128, 16, scale_d=1)


def test_lanes_that_are_not_written_stay():
    mask = [0xF, 0, 1 << 31, 0xFFFFFFFF]
    got, want, before, after = product("f16", "f16", "f16", "f32", 128, 16, mask=mask)
    stays = np.array([mask[row // 32] >> row % 32 & 1 for row in range(128)], bool)
    np.testing.assert_array_equal(after[stays], before[stays])
    np.testing.assert_array_equal(got[~stays], want[~stays])


def test_rows_of_a_in_tensor_memory_shift_on_the_way():
    check("f16", "bf16", "bf16", "f32", 128, 16, a_in_tensor=True, ashift=True)


def test_integers_saturate():
    """Sums of the largest products, on top of nearly the largest number."""
    got, want, _, _ = product("i8", "u8", "u8", "s32", 128, 16, saturate=True)
    np.testing.assert_array_equal(got, np.clip(want, -(2**31), 2**31 - 1))


def spans(start: int, first: int, zeros: int, used: int, size: int) -> list[int]:
    """A sub-mask of the zero-column mask: runs of ones (zeros of B) and of zeros, without the first `start` bits."""
    runs = ([1] * zeros + [0] * used if first else [0] * used + [1] * zeros) * (size + start)
    return runs[start : start + size]


@pytest.mark.parametrize("m, starts, firsts", [(128, [0], [0]), (64, [0, 0], [1, 0]), (32, [0, 1, 2, 1], [1, 1, 0, 0])])
def test_zero_column_masks_of_the_manual(m, starts, firsts):
    """Examples 2 to 4 of 9.7.16.4.3: skip span 2 and use span 3 are runs of three ones and four zeros."""
    n = 64
    bits = 1 << 39 | 2 << 40 | 3 << 48
    mask = []
    for i, (start, first) in enumerate(zip(starts, firsts, strict=True)):
        bits |= start << 8 * i | first << (32 + i)
        mask += spans(start, first, 3, 4, n // len(starts))
    check("f16", "bf16", "bf16", "f32", m, n, stationary=True, zero_columns=(bits, mask))


@pytest.mark.parametrize("a_in_tensor", [False, True])
def test_random_numbers_keep_the_formula(a_in_tensor):
    """Terms are cut at 25 bits below the largest, so a sum of 16 and D is off by less than 17 of those units."""
    rng = np.random.default_rng(7)
    got, want, before, _ = product(
        "f16", "bf16", "bf16", "f32", 128, 128, a_in_tensor=a_in_tensor, seed=int(rng.integers(100))
    )
    assert np.abs(got - want).max() <= 17 * 2.0**-25 * max(64, np.abs(want).max()) and before.size


# ---- copies, shifts


def run_copy(size, multicast=None, fmt=None, pair=False):
    rng = np.random.default_rng(3)
    rows = {"128x256b": 128, "4x256b": 4, "128x128b": 128, "64x128b": 64, "32x128b": 32}[size]
    width = 32 if size.endswith("256b") else 16
    ctas = 2 if pair else 1
    data = rng.integers(0, 256, (ctas, rows, width)).astype(np.uint8)
    where, leading, stride = offsets(max(rows, 8), width, "NONE", False)
    images = np.zeros((ctas, int(where.max()) + 1), np.uint8)
    for i in range(ctas):
        images[i][where[:rows]] = data[i]
    tensor = rng.integers(0, 1 << 32, (ctas * LANES, 32), dtype=np.uint32)

    def issue(place):
        source = ptx.tcgen05.descriptor(place.shared, leading_bytes=leading, stride_bytes=stride, swizzle="NONE")
        ptx.tcgen05.cp(place.tensor + 8, source, size=size, multicast=multicast, src_fmt=fmt, cta_group=ctas)

    after = run_probe(make_probe(32, images.shape[1], issue, pair=pair), tensor, images)
    return data, tensor, after


QUARTERS = {None: (0, 1, 2, 3), "warpx2::02_13": (0, 1, 0, 1), "warpx2::01_23": (0, 0, 1, 1), "warpx4": (0, 0, 0, 0)}
COPIES = [
    ("128x256b", None),
    ("128x128b", None),
    ("64x128b", "warpx2::02_13"),
    ("64x128b", "warpx2::01_23"),
    ("32x128b", "warpx4"),
]


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("fmt", [None, "b6x16_p32", "b4x16_p64"])
@pytest.mark.parametrize("size, multicast", COPIES)
def test_copies_of_every_shape(size, multicast, fmt, pair):
    data, before, after = run_copy(size, multicast, fmt, pair)
    if fmt:  # 16 numbers of each 16 bytes
        bits, up = (6, 0) if fmt.startswith("b6") else (4, 2)
        units = data.reshape(*data.shape[:2], -1, 16)
        number = [
            (units[..., i * bits // 8].astype(int) | units[..., min(15, i * bits // 8 + 1)].astype(int) << 8)
            >> i * bits % 8
            for i in range(16)
        ]
        data = (np.stack(number, -1) % (1 << bits) << up).astype(np.uint8).reshape(data.shape)
    words = np.ascontiguousarray(data).view(np.uint32)
    for cta, lane in itertools.product(range(words.shape[0]), range(LANES)):
        row = QUARTERS[multicast][lane // 32] * 32 + lane % 32
        want = before[cta * LANES + lane].copy()
        want[8 : 8 + words.shape[2]] = words[cta, row]
        np.testing.assert_array_equal(after[cta * LANES + lane], want)


def test_four_rows_go_to_four_warps():
    data, before, after = run_copy("4x256b")
    want = before.copy()
    want[[0, 32, 64, 96], 8:16] = np.ascontiguousarray(data[0]).view(np.uint32)
    np.testing.assert_array_equal(after, want)


def test_shift_moves_31_rows_down():
    rng = np.random.default_rng(4)
    tensor = rng.integers(0, 1 << 32, (LANES, 32), dtype=np.uint32)
    after = run_probe(
        make_probe(32, 1024, lambda place: ptx.tcgen05.shift(place.tensor + (64 << 16) + 8)),
        tensor,
        np.zeros(1024, np.uint8),
    )
    want = tensor.copy()
    want[65:96, 8:16] = tensor[64:95, 8:16]
    np.testing.assert_array_equal(after, want)


# ---- loads and stores

REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
SPLIT = 80


def fragment(shape: str, r: int, t: int) -> tuple[int, int, bool]:
    """Lane and column of register r of thread t, and whether it is of the second part (manual 9.7.16.2.3.1)."""
    quad, pair = t // 4, t % 4
    return {
        "32x32b": (t, r, False),
        "16x64b": (quad + 8 * (t % 2), pair // 2 + 2 * r, False),
        "16x128b": (quad + 8 * (r % 2), pair + 4 * (r // 2), False),
        "16x256b": (quad + 8 * (r // 2 % 2), 2 * pair + r % 2 + 8 * (r // 4), False),
        "16x32bx2": (t % 16, r, t >= 16),
    }[shape]


def cells_of(shape: str, count: int, packed: bool, first: int) -> np.ndarray:
    """(threads, registers, halves of a register) of lane and column, for all four warps; `first`: 16 for the upper lanes."""
    registers = REGISTERS[shape] * count
    out = np.zeros((128, registers, 2 if packed else 1, 2), int)
    for t, r in itertools.product(range(128), range(registers)):
        lane, column, second = fragment(shape, r, t % 32)
        for half in range(out.shape[2]):
            out[t, r, half] = (
                lane + t // 32 * 32 + first,
                (column * 2 + half if packed else column) + (SPLIT if second else 0),
            )
    return out


ACCESSES = [(shape, count) for shape in REGISTERS for count in (1, 2, 4, 16) if REGISTERS[shape] * count <= 64]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape, count", ACCESSES)
def test_loads_of_every_shape(shape, count, packed):
    rng = np.random.default_rng(5)
    tensor = rng.integers(0, 1 << 32, (LANES, 256), dtype=np.uint32)
    for first in (0,) if shape == "32x32b" else (0, 16):
        split = {"split_offset": SPLIT} if shape == "16x32bx2" else {}
        load = make_load(256, REGISTERS[shape] * count, first, dict(shape=shape, count=count, pack=packed, **split))
        got = np.asarray(load(tensor))
        where = cells_of(shape, count, packed, first)
        cells = tensor[where[..., 0], where[..., 1]]
        want = cells[..., 0] & 0xFFFF | cells[..., 1] << 16 if packed else cells[..., 0]
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape, count", ACCESSES)
def test_stores_of_every_shape(shape, count, packed):
    rng = np.random.default_rng(6)
    tensor = rng.integers(0, 1 << 32, (LANES, 256), dtype=np.uint32)
    first, registers = 0 if shape == "32x32b" else 16, REGISTERS[shape] * count

    def everyone(place):
        values = reg.array(b32, registers)
        for i in range(registers):
            ptx.inst.mad.lo.u32(values[i], place.tid, 0x10003, i << 20)
        split = {"split_offset": SPLIT} if shape == "16x32bx2" else {}
        at = place.tensor + ((place.tid >> 5) << 21) + (first << 16)
        ptx.tcgen05.st(at, [values[i] for i in range(registers)], shape=shape, count=count, unpack=packed, **split)
        ptx.tcgen05.wait_st()

    got = run_probe(make_probe(256, 1024, everyone=everyone), tensor, np.zeros(1024, np.uint8))
    want, where = tensor.copy(), cells_of(shape, count, packed, first)
    t, r = np.meshgrid(np.arange(128), np.arange(registers), indexing="ij")
    value = (t * 0x10003 + (r << 20)).astype(np.uint32)
    if packed:
        for half in range(2):
            cells = where[:, :, half, 0], where[:, :, half, 1]
            want[cells] = want[cells] & 0xFFFF0000 | value >> (16 * half) & 0xFFFF
    else:
        want[where[:, :, 0, 0], where[:, :, 0, 1]] = value
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "op, kind, more", [("min", "u32", {}), ("max", "s32", {}), ("max", "f32", {}), ("min", "f32", {"abs": True})]
)
def test_loads_that_reduce(op, kind, more):
    rng = np.random.default_rng(8)
    floats = rng.standard_normal((LANES, 32)).astype(np.float32)
    tensor = floats.view(np.uint32)
    load = make_load(32, 9, 0, dict(shape="32x32b", num="x8", op=op, type=kind, **more), red=True, arch="sm_103a")
    got = np.asarray(load(tensor))
    numbers = tensor[:, :8].view({"u32": np.uint32, "s32": np.int32, "f32": np.float32}[kind])
    numbers = np.abs(numbers) if more else numbers
    np.testing.assert_array_equal(got[:, :8], tensor[:, :8])
    np.testing.assert_array_equal(got[:, 8].view(numbers.dtype), getattr(np, op)(numbers, axis=1))


# ---- whole kernels


@pytest.mark.parametrize("pair", [False, True])
def test_products_of_one_and_of_two_ctas(pair):
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    from blackwell_gemm import build_gemm

    a, b = (torch.randn(256, 256).bfloat16() for _ in range(2))
    got, want = build_gemm(256, 256, 256, pair)(a, b).double(), a.double() @ b.double().T
    assert (got - want).norm() < 1e-6 * want.norm()


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
def test_tiles_with_block_scales(name):
    from blackwell_scaled import build_scaled_tile, random_operand

    rng = np.random.default_rng(10)
    a, scale_a, left = random_operand(rng, name, 512)
    b, scale_b, right = random_operand(rng, name, 512)
    got, want = np.asarray(build_scaled_tile(name, 512)(a, b, scale_a, scale_b)), left @ right.T
    assert np.linalg.norm(got - want) < 1e-6 * np.linalg.norm(want)
