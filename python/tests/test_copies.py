"""Tensor maps of every kind, and what CTAs of a cluster send each other: on the simulator, and on an sm_90 GPU where there is one."""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from copy_kernels import (  # noqa: E402
    ADD,
    GREATEST,
    STORE,
    make_edited,
    make_load,
    make_pixels,
    make_reduction,
    multimem,
    pair_load,
    steal,
    taken_by,
)

from pyptx import Tile, simulator, types  # noqa: E402
from pyptx.errors import LaunchValueError, SimulationError  # noqa: E402
from pyptx.specs import Im2col  # noqa: E402
from pyptx.types import bf16, e4m3, e5m2, f16, f32, f64, s8, s16, s32, s64, u8, u16, u32  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))

GPU = pytest.param("cuda", marks=pytest.mark.gpu)


@pytest.fixture(autouse=True, params=["cpu", GPU])
def device(request):
    """Where the tensors of a test lie."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("skipped: no CUDA device")
    if request.param == "cuda" and torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("skipped: the kernels are for sm_90a")
    with torch.device(request.param):
        yield request.param


FRAMEWORK = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "e4m3": torch.float8_e4m3fn,
}
FRAMEWORK |= {"e5m2": torch.float8_e5m2, "u8": torch.uint8, "s8": torch.int8, "u16": torch.uint16, "s16": torch.int16}
FRAMEWORK |= {"u32": torch.uint32, "s32": torch.int32, "s64": torch.int64}
# Where byte x of a tile lies (manual 5.5.7): x ^ ((x & mask) >> shift).
SWIZZLES = {"NONE": (0, 0), "32B": (0x80, 3), "64B": (0x180, 3), "128B": (0x380, 3)}


def random(shape, element=f32):
    """A tensor and its bits."""
    kind = FRAMEWORK[element.name]
    x = torch.randn(shape).to(kind) if kind.is_floating_point else torch.randint(0, 100, shape).to(kind)
    return x, bits(x).copy()


def bits(x):
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return x.cpu().view(integer).numpy()


def box_of(array, start, box, every=None, fill=0):
    """Elements of a box, outermost dimension first; `fill` outside of the array."""
    every = every or (1,) * array.ndim
    out = np.full([-(-size // step) for size, step in zip(box, every, strict=True)], fill, array.dtype)
    for index in np.ndindex(*out.shape):
        at = tuple(first + i * step for first, i, step in zip(start, index, every, strict=True))
        if all(0 <= i < size for i, size in zip(at, array.shape, strict=True)):
            out[index] = array[at]
    return out


def loaded(tile, x, size, start, **copy):
    """The bytes that one copy from `start` (outermost first) writes."""
    got = make_load(tile, size, tuple(reversed(start)), **copy)(x).cpu().view(torch.int32).numpy()
    assert got[-1] == 1, "the copy has not completed: its barrier waits for other bytes"
    return got[:-1].view(np.uint8)


def unswizzled(got, swizzle):
    """Rows of the swizzle's width, their bytes in the order that they have without it."""
    mask, shift = SWIZZLES[swizzle]
    at = np.arange(got.size)
    return got[at ^ ((at & mask) >> shift)]


def same(got, expected, swizzle="NONE"):
    np.testing.assert_array_equal(unswizzled(got, swizzle), np.ascontiguousarray(expected).view(np.uint8).ravel())


@pytest.mark.parametrize("element", [u8, s8, u16, s16, u32, s32, s64, f16, bf16, f32, f64, e4m3, e5m2], ids=str)
def test_element_types(element):
    x, host = random((64, 64), element)
    same(
        loaded(Tile(64, 64, element, tma_box=(8, 32)), x, 8 * 32 * host.itemsize, (16, 32)),
        box_of(host, (16, 32), (8, 32)),
    )


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_ranks(rank):
    shape, box, start = (3, 4, 5, 6, 64)[-rank:], (2, 1, 2, 3, 32)[-rank:], (1, 2, 3, 1, 16)[-rank:]
    x, host = random(shape)
    tile = Tile(*shape, f32, tma_box=box)
    same(loaded(tile, x, 4 * int(np.prod(box)), start), box_of(host, start, box))


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
def test_swizzles(swizzle):
    columns = int(swizzle[:-1]) // 4
    x, host = random((64, 64))
    tile = Tile(64, 64, f32, tma_box=(32, columns), tma_swizzle=swizzle)
    same(loaded(tile, x, 128 * columns, (8, 0)), box_of(host, (8, 0), (32, columns)), swizzle)


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
def test_a_row_narrower_than_its_swizzle_takes_the_whole_width(swizzle):
    """11 rows of 16 bytes: an H200 leaves what is between them as it was, and counts 16 bytes a row."""
    width = int(swizzle[:-1])
    x, host = random((20, 8), s16)
    tile = Tile(20, 8, s16, tma_box=(11, 8), tma_swizzle=swizzle)
    got = loaded(tile, x, 176, (3, 0), span=11 * width)
    rows = unswizzled(got, swizzle).reshape(11, width)
    np.testing.assert_array_equal(rows[:, :16], box_of(host, (3, 0), (11, 8)).view(np.uint8))
    assert (rows[:, 16:].reshape(-1, 4) == [0xEF, 0xBE, 0xAD, 0xDE]).all()


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_narrow_rows_need_room_for_their_swizzle():
    x, _ = random((2, 6, 24), s16)
    load = make_load(Tile(2, 6, 24, s16, tma_box=(2, 6, 24), tma_swizzle="128B"), 576, (0, 0, 0))
    with pytest.raises(SimulationError, match="PTX5010.*1536 bytes"):
        load(x)


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
@pytest.mark.parametrize("copy", [{}, {"mode": "im2col", "offsets": (0, 0)}], ids=["tile", "im2col"])
def test_a_copy_begins_at_a_multiple_of_16_bytes(copy):
    """An H200 stops at others: illegal instruction."""
    map_ = {"tma_im2col": Im2col((0, 0), (0, 0), 32, 16)} if copy else {"tma_box": (1, 2, 2, 32)}
    x, _ = random((2, 4, 8, 64), s16)
    load = make_load(Tile(2, 4, 8, 64, s16, **map_), 1024 if copy else 256, (4, 0, 0, 0), **copy)
    with pytest.raises(
        LaunchValueError, match=r"begins 8 bytes into the innermost dimension \(element 4\); .* multiple of 16"
    ):
        load(x)


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_a_copy_to_global_memory_begins_inside():
    """It may end outside, and a load may begin there. An H200 stops at others: illegal instruction."""
    x, y = torch.zeros((4, 32), dtype=torch.uint32), torch.zeros((8, 64), dtype=torch.uint32)
    make_reduction("add", (4, 32), u32, (56, 6))(x, y)
    with pytest.raises(
        LaunchValueError, match=r"writes from coordinate -1 of dimension 1 on; .* begins at coordinates of 0"
    ):
        make_reduction("add", (4, 32), u32, (0, -1))(x, y)


@pytest.mark.parametrize("l2", ["none", "64B", "128B", "256B"])
def test_promotion_changes_no_byte(l2):
    x, host = random((64, 64))
    same(loaded(Tile(64, 64, f32, tma_box=(8, 32), tma_l2=l2), x, 1024, (0, 0)), box_of(host, (0, 0), (8, 32)))


def test_rows_that_lie_apart():
    wide, host = random((64, 256))
    tile = Tile("M", 64, f32, packed=False, tma_box=(8, 32))
    for first in (0, 64, 128):
        part = wide[:, first : first + 64]
        same(loaded(tile, part, 1024, (16, 32)), box_of(host[:, first : first + 64], (16, 32), (8, 32)))


@pytest.mark.parametrize("every", [(2, 1), (3, 1), (8, 1)])
def test_element_strides(every):
    x, host = random((64, 64))
    expected = box_of(host, (5, 32), (24, 32), every)
    tile = Tile(64, 64, f32, tma_box=(24, 32), tma_element_strides=every)
    same(loaded(tile, x, expected.nbytes, (5, 32)), expected)


@pytest.mark.parametrize("start", [(-3, -8), (60, 48), (100, 0)], ids=["before", "behind", "outside"])
def test_zeros_fill_what_lies_outside(start):
    x, host = random((64, 64))
    same(loaded(Tile(64, 64, f32, tma_box=(8, 32)), x, 1024, start), box_of(host, start, (8, 32)))


def test_nan_fills_what_lies_outside():
    x, host = random((64, 64))
    got = loaded(Tile(64, 64, f32, tma_box=(8, 32), tma_fill="nan"), x, 1024, (60, 48)).view(np.float32).reshape(8, 32)
    expected = box_of(host.view(np.float32), (60, 48), (8, 32), fill=np.nan)
    assert np.isnan(expected).any()
    np.testing.assert_array_equal(got, expected)


def test_another_type_than_the_tensors():
    x = torch.randint(-8, 8, (64, 64)).float()  # a tf32 holds them all
    tile = Tile(64, 64, f32, tma_box=(8, 32), tma_dtype=types.tf32)
    same(loaded(tile, x, 1024, (8, 32)), box_of(bits(x), (8, 32), (8, 32)))
    pairs = torch.randint(0, 100, (64, 64), dtype=torch.int32)
    tile = Tile(64, 64, s32, tma_box=(8, 64), tma_dtype=u16)  # 128 columns of 16 bits
    got = loaded(tile, pairs, 1024, (8, 64))
    same(got, box_of(pairs.cpu().numpy().view(np.int16), (8, 64), (8, 64)))


def nearest_tf32(bits):
    """Of numbers in uint32, ties to even; NaN becomes the one that the copy engine of an H200 makes."""
    rounded = (bits + np.uint32(0xFFF) + (bits >> 13 & 1)) & ~np.uint32(0x1FFF)
    return np.where(bits & 0x7FFFFFFF > 0x7F800000, np.uint32(0x7FFFE000), rounded)


def test_f32_becomes_tf32_on_the_way():
    """Infinities stay as they are."""
    given = np.random.default_rng(7).integers(0, 1 << 32, 64 * 64, dtype=np.uint32).reshape(64, 64)
    given[8, 8:16] = 0x3F801000, 0x3F803000, 0x3F801001, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF
    x = torch.from_numpy(given.view(np.int32)).to(torch.get_default_device()).view(torch.float32)
    got = loaded(Tile(64, 64, f32, tma_box=(8, 32), tma_dtype=types.tf32), x, 1024, (8, 8))
    same(got, box_of(nearest_tf32(given), (8, 8), (8, 32)))


FTZ = {
    "f32": 8,
    "tf32": 12,
}  # the numbers of tensormap.replace (manual 9.7.9.28, table 33); the driver's API has no other way to them


@pytest.mark.parametrize("name", FTZ)
def test_maps_with_ftz_keep_subnormals(name):
    """As an H200 does: elements come as by a map of f32 or tf32."""
    given = np.random.default_rng(3).integers(0, 1 << 32, (4, 32), dtype=np.uint32)
    given[0] &= 0x807FFFFF
    given[1, :8] = 0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x007FFFFF, 0x00800000, 0x80800000, 0x00801000
    given[1, 8:] = 0x7F800001  # a NaN of as few bits
    x = torch.from_numpy(given.view(np.int32)).to(torch.get_default_device()).view(torch.float32)
    load = make_edited(Tile(4, 32, f32, tma_box=(4, 32)), [("elemtype", FTZ[name])], 512, (0, 0))
    got = load(x).cpu().view(torch.int32).numpy().view(np.uint32)[:128].reshape(4, 32)
    np.testing.assert_array_equal(got, given if name == "f32" else nearest_tf32(given))


def test_column_blocks():
    x, host = random((16, 256), bf16)
    tile = Tile(16, 256, bf16, tma_box=(8, 128), tma_rank=3)
    got = loaded(tile, x, 8 * 128 * 2, (1, 8, 0))  # block 1, row 8
    blocks = host.reshape(16, 4, 64).transpose(1, 0, 2)
    same(got, box_of(blocks, (1, 8, 0), (2, 8, 64)))


@pytest.mark.parametrize("width", ["16B", "32B"])
def test_interleaved_slices(width):
    """Channels in slices of 16 or 32 bytes: the innermost dimension counts whole slices, and of the last dimension but one, the slices
    of a pixel's channels, a copy takes one, whatever its box says.  32-byte slices are swizzled."""
    channels = int(width[:-1]) // 4
    x, host = random((2, 3, 4, 16 * channels))  # images, groups of channels, rows, pixels of one slice
    swizzle = "32B" if width == "32B" else "NONE"
    tile = Tile(2, 3, 4, 16 * channels, f32, tma_box=(1, 3, 2, 8), tma_interleave=width, tma_swizzle=swizzle)
    host = host.reshape(2, 3, 4, 16, channels)
    got = loaded(tile, x, 2 * 8 * 4 * channels, (1, 2, 1, 3))
    same(got, host[1, 2, 1:3, 3:11], swizzle)


def pixels_of(host, start, map_, offsets):
    """What a copy in im2col mode takes of an (N, H, W, C) array from `start`, a place of the filter's base."""
    n, h, w, c = start
    rows = []
    for _ in range(map_.pixels):
        rows.append(box_of(host, (n, h + offsets[1], w + offsets[0], c), (1, 1, 1, map_.channels)).ravel())
        w += 1
        if w > host.shape[2] - 1 + map_.upper[1]:
            w, h = map_.lower[1], h + 1
        if h > host.shape[1] - 1 + map_.upper[0]:
            h, n = map_.lower[0], n + 1
    return np.stack(rows)


@pytest.mark.parametrize("offsets", [(0, 0), (1, 0), (0, 2), (2, 2)])
@pytest.mark.parametrize("lower, upper", [((-1, -1), (-1, -1)), ((0, 0), (-2, -2)), ((-1, 0), (-1, -2))])
def test_im2col(lower, upper, offsets):
    """Three by three filters with and without padding, rows and columns apart."""
    x, host = random((3, 8, 10, 32))
    map_ = Im2col(lower, upper, 32, 64)
    start = (1, lower[0] + 2, lower[1] + 3, 0)
    got = loaded(Tile(3, 8, 10, 32, f32, tma_im2col=map_), x, 64 * 128, start, mode="im2col", offsets=offsets)
    same(got, pixels_of(host, start, map_, offsets))


@pytest.mark.parametrize("operation", [None, "add", "max"], ids=str)
@pytest.mark.parametrize(
    "lower, upper, start",
    [((0, 0), (0, 0), (1, 2, 3, 0)), ((1, 1), (-1, -1), (0, 6, 5, 32)), ((0, 0), (-2, -2), (2, 4, 2, 0))],
    ids=["all pixels", "inside of the image", "to the end of the last image"],
)
def test_im2col_stores(operation, lower, upper, start):
    """What lies outside of the tensor is not written; what the copy does not reach stays."""
    y = torch.randint(0, 100, (3, 8, 10, 64), dtype=torch.int32).view(torch.uint32)
    map_ = Im2col(lower, upper, 32, 64)
    x, data = random((64, 32), u32)
    before = bits(y).copy()
    place = np.arange(1, y.numel() + 1).reshape(y.shape)  # 0: none
    place = pixels_of(place, start, map_, (0, 0)).ravel()
    inside = place > 0
    make_pixels(Tile(3, 8, 10, 64, u32, tma_im2col=map_), data.nbytes, tuple(reversed(start)), operation)(
        x.reshape(-1), y
    )
    combine = {None: lambda old, new: new, "add": np.add, "max": np.maximum}[operation]
    wanted = before.reshape(-1)
    wanted[place[inside] - 1] = combine(wanted[place[inside] - 1], data.ravel()[inside])
    np.testing.assert_array_equal(bits(y).reshape(-1), wanted)


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
@pytest.mark.parametrize("lower, upper", [((-1, 0), (0, 0)), ((0, 0), (0, 1))])
def test_im2col_stores_that_an_h200_refuses(lower, upper):
    y, x = torch.zeros(3, 8, 10, 64, dtype=torch.uint32), torch.ones(16 * 32, dtype=torch.uint32)
    store = make_pixels(
        Tile(3, 8, 10, 64, u32, tma_im2col=Im2col(lower, upper, 32, 16)), 4 * x.numel(), (0, 3, 2, 0), None
    )
    with pytest.raises(LaunchValueError, match="lower corners are at least 0 and upper ones at most 0"):
        store(x, y)


def pixels_along_w(host, start, map_, main, halo, offset, every):
    """What a copy in mode im2col::w or im2col::w::128 takes, for each `main` pixels with `halo` behind them."""
    n, h, w, c = start
    first, last = map_.lower[1] + offset, host.shape[2] - 1 + map_.upper[1] + offset

    def column(n, w, pixels, rows):
        for _ in range(pixels):
            rows.append(box_of(host, (n, h, w, c), (1, 1, 1, map_.channels)).ravel())
            n, w = (n, w + every) if w + every <= last else (n + 1, first)
        return n, w

    rows, w = [], w + offset
    for pixels in main:
        n, w = column(n, w, pixels, rows)
        column(n, w, halo, rows)
    return np.stack(rows)


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
@pytest.mark.parametrize(
    "mode, lower, upper, start, every, halo, offset",
    [
        ("im2col::w", 0, 0, (0, 3, 2, 0), 1, 2, 0),  # the examples of manual 5.5.5.3
        ("im2col::w::128", 0, 0, (0, 3, 2, 0), 1, 2, 0),
        ("im2col::w", -1, 0, (0, 5, -1, 0), 2, 1, 0),  # and of 5.5.5.4
        ("im2col::w", -1, 0, (0, 5, -1, 0), 2, 0, 1),
        ("im2col::w", -1, -1, (0, -1, 2, 0), 3, 0, 2),  # a row of the image that is not there
        ("im2col::w::128", -1, -1, (1, 2, 3, 32), 1, 0, 1),
    ],
)
def test_im2col_along_w(mode, lower, upper, start, every, halo, offset):
    x, host = random((40, 7, 9, 64))
    map_ = Im2col((0, lower), (0, upper), 32, 64)
    main = [32] * 4 if mode.endswith("128") else [64]
    tile = Tile(40, 7, 9, 64, f32, tma_im2col=map_, tma_swizzle="128B", tma_element_strides=(1, 1, every, 1))
    expected = pixels_along_w(host, start, map_, main, halo, offset, every)
    got = loaded(tile, x, expected.nbytes, start, mode=mode, offsets=(halo, offset), arch="sm_100a")
    same(got, expected, "128B")


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
@pytest.mark.parametrize(
    "swizzle, halo, message", [("NONE", 0, "without a swizzle"), ("128B", 512, "has wHalo 512 and wOffset 0; there are 0 to 511")]
)  # fmt: skip
def test_im2col_along_w_has_limits(swizzle, halo, message):
    x, _ = random((3, 8, 10, 32))
    tile = Tile(3, 8, 10, 32, f32, tma_im2col=Im2col((0, 0), (0, 0), 32, 64), tma_swizzle=swizzle)
    with pytest.raises(LaunchValueError, match=message):
        loaded(tile, x, 8192, (0, 0, 0, 0), mode="im2col::w", offsets=(halo, 0), arch="sm_100a")


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_im2col_offsets_have_limits():
    x, _ = random((3, 8, 10, 32))
    tile = Tile(3, 8, 10, 32, f32, tma_im2col=Im2col((0, 0), (0, 0), 32, 64))
    with pytest.raises(LaunchValueError, match="has the im2col offset 256; with 4 dimensions there are 0 to 255"):
        loaded(tile, x, 8192, (0, 0, 0, 0), mode="im2col", offsets=(256, 0))


@pytest.mark.parametrize("space", ["shared::cluster", "shared::cta"])
@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_a_pair_signals_its_even_cta(space):
    x, host = random((64, 32), u32)
    np.testing.assert_array_equal(bits(pair_load(x, space=space)), host)


@pytest.mark.parametrize(
    "operation, expected", [("add", lambda y, x: y + x), ("min", np.minimum), ("xor", np.bitwise_xor)]
)
def test_reductions_through_a_map(operation, expected):
    y, host = random((64, 64), u32)
    x, addend = random((8, 32), u32)
    make_reduction(operation, (8, 32), u32)(x, y)
    wanted = host.copy()
    wanted[8:16, 4:36] = expected(host[8:16, 4:36], addend)
    np.testing.assert_array_equal(bits(y), wanted)


@pytest.mark.parametrize(
    "send, expected", [(STORE, [70, 3]), (ADD, [1070, 1003]), (GREATEST, [1000, 1000])], ids=["st.async", "add", "max"]
)
def test_what_a_cluster_sends(send, expected):
    arrived, done = send(torch.tensor([3, 70], dtype=torch.uint32))
    assert done.tolist() == [1, 1] and arrived.tolist() == expected


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_ctas_take_over_those_that_have_not_started():
    x = torch.arange(128, dtype=torch.int32).view(torch.uint32)
    assert steal(x).view(torch.int32).tolist() == list(range(1, 129))


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
@pytest.mark.parametrize(("seed", "ctas"), [(0, 1), (4, 1), (1, 2), (2, 4), (3, 8)])
def test_a_schedule_chooses_how_many_ctas_start_before_they_take_over_others(seed, ctas):
    x = torch.arange(64, dtype=torch.int32).view(torch.uint32)
    with simulator.options(seed=seed):
        done_by = taken_by(x).view(torch.int32).tolist()
    assert max(done_by) < ctas and done_by[:ctas] == list(range(ctas))


@pytest.mark.parametrize("device", [GPU], indirect=True)
def test_code_with_multimem_runs_where_its_addresses_are_not_used():
    """Memory of several devices under one address has to be made by the driver (cuMulticastCreate), which disturbs other
    programs of the machine: this test takes none, so multimem itself is loaded and not run."""
    x = torch.arange(32, dtype=torch.int32).view(torch.uint32)
    assert torch.equal(multimem(x, on=0).view(torch.int32), x.view(torch.int32))


@pytest.mark.parametrize("device", [GPU], indirect=True)
def test_the_polynomial_example():
    from polynomial import build_exponential

    x = torch.linspace(-4, 4, 4096)
    torch.testing.assert_close(build_exponential()(x), x.exp(), rtol=1e-5, atol=0)
