"""Tensor maps as tiles describe them: what is made on the simulator, what is refused and by which name."""

import numpy as np
import pytest

from pyptx import Layout, Tile, kernel, ptx, reg, types
from pyptx.errors import LaunchError
from pyptx.specs import Im2col
from pyptx.types import bf16, f32, u8, u32


def made(tile):
    """A kernel that takes a map of its input and copies the first number of it, read through the pointer."""

    @kernel(in_specs=(tile,), out_specs=(Tile(1, u32),), grid=(1, 1, 1), block=(1, 1, 1), arch="sm_90a")
    def first(X, Y):
        X.tma_desc()
        x, y = ptx.global_ptrs(X, Y)
        number = reg.scalar(u32)
        ptx.inst.ld.global_.u32(number, ptx.addr(x))
        ptx.inst.st.global_.u32(ptx.addr(y), number)

    return first


CUBE = np.zeros((4, 16, 64), np.float32)
BYTES = np.zeros((64, 256), np.uint8)
MATRIX = np.zeros((64, 64), np.float32)
IMAGE = np.zeros((2, 16, 16, 32), np.float32)


def aligned(array):
    """A copy whose data lie at a multiple of 64 bytes."""
    room = np.zeros(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.mark.parametrize(
    ("tile", "array"),
    [
        (Tile(64, 64, f32, tma_box=(8, 32), tma_element_strides=(2, 1)), MATRIX),
        (Tile(64, 64, f32, tma_dtype=types.tf32, tma_fill="nan", tma_l2="256B"), MATRIX),
        (Tile(64, 64, f32, Layout.TMA_128B), MATRIX),
        (Tile(64, 64, f32, tma_box=(8, 32), tma_swizzle="128B_ATOM_32B"), MATRIX),
        (Tile(64, 256, u8, tma_dtype=types.e2m1, tma_box=(8, 256)), BYTES),
        (Tile(64, 256, u8, tma_dtype=types.e2m1, tma_spread=True, tma_swizzle="128B"), BYTES),
        (Tile(4, 16, 64, f32, tma_box=(1, 16, 8), tma_interleave="32B", tma_swizzle="32B"), CUBE),
        (Tile(2, 16, 16, 32, f32, tma_im2col=Im2col((-1, -1), (-1, -1), 32, 64)), IMAGE),
    ],
)
def test_maps_that_the_engine_takes(tile, array):
    assert made(tile)(aligned(array)) == [0]


@pytest.mark.parametrize(
    ("tile", "array", "words"),
    [
        (
            Tile(64, 64, f32, tma_box=(257, 32)),
            MATRIX,
            "tma_box: a box must have 1 to 256 elements in each dimension, not 257",
        ),
        (
            Tile(64, 64, f32, tma_box=(8, 3)),
            MATRIX,
            "tma_box: the inner dimension of a box must be a multiple of 16 bytes",
        ),
        (
            Tile(64, 64, f32, tma_box=(8, 64), tma_swizzle="128B"),
            MATRIX,
            "128-byte swizzle needs an inner box of at most",
        ),
        (
            Tile(64, 64, f32, tma_box=(8, 32), tma_element_strides=(9, 1)),
            MATRIX,
            "tma_element_strides must be 1 to 8, not 9",
        ),
        (Tile(64, 64, f32, tma_interleave="16B"), MATRIX, "tma_interleave needs a tensor of rank 3 to 5"),
        (Tile(64, 256, u8, tma_fill="nan"), BYTES, "tma_fill = nan is for"),
        (Tile(64, 64, f32, tma_spread=True), MATRIX, "tma_spread needs 4-bit elements"),
        (Tile(64, 256, u8, tma_dtype=types.f32), BYTES, "tma_dtype = f32 is wider"),
        (Tile(64, 64, f32, tma_im2col=Im2col((), (), 32, 64)), MATRIX, "tma_im2col: a tensor of rank 2"),
        (Tile(2, 16, 16, 32, f32, tma_im2col=Im2col((0,), (0,), 32, 64)), IMAGE, "corners of 2 offsets, not 1 and 1"),
        (Tile(2, 16, 16, 32, f32, tma_im2col=Im2col((0, 0), (0, 0), 32, 2000)), IMAGE, "1 to 1024 pixels"),
    ],
)
def test_refusals_name_the_field(tile, array, words):
    with pytest.raises((LaunchError, ValueError), match=words):
        made(tile)(aligned(array))


def test_rows_may_lie_apart():
    wide = aligned(np.arange(64 * 128, dtype=np.float32).reshape(64, 128))
    part = wide[:, :64]
    apart = made(Tile("M", 64, f32, packed=False))
    assert apart(part).view(np.float32) == [0]
    assert apart(part[1:]).view(np.float32) == [128]
    assert apart(np.ascontiguousarray(part)[4:]).view(np.float32) == [512]
    with pytest.raises(LaunchError, match="innermost dimension has stride 1"):
        apart(wide.T[:, :64])
    with pytest.raises(LaunchError, match="contiguous"):
        made(Tile("M", 64, f32))(part)


def test_torch_passes_small_floats():
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("skipped: this torch has no 4-bit floats")
    pairs = torch.arange(64 * 64, dtype=torch.uint8).reshape(64, 64)
    take = made(Tile(64, 64, types.e2m1x2, tma_box=(8, 128)))
    assert take(pairs.view(torch.float4_e2m1fn_x2)).view(torch.int32) == 0x03020100
    scales = made(Tile(64, 64, types.ue8m0))
    assert scales(pairs.view(torch.float8_e8m0fnu)).view(torch.int32) == 0x03020100


def test_bf16_keeps_its_default_box():
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    array = torch.zeros(128, 512, dtype=torch.bfloat16)
    assert made(Tile(128, 512, bf16, Layout.TMA_128B))(array).view(torch.int32) == 0
