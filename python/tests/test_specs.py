"""Tile, Layout, the sizes of symbols, and the layouts of wgmma operands."""

import copy
import pickle

import pytest

from pyptx import Im2col, Layout, Tile, _core, types
from pyptx.specs import unify_envs
from pyptx.types import bf16, e4m3, f32, u32
from pyptx.wgmma_layout import GmmaLayout, LayoutType, Major, layout_for_a, layout_for_b, pick_gmma_layout


def test_positional_arguments_come_in_any_order():
    tile = Tile("M", f32, 64, Layout.TMA_128B)
    assert (tile.shape, tile.dtype, tile.layout, tile.rank) == (("M", 64), f32, Layout.TMA_128B, 2)
    assert tile == Tile("M", 64, dtype=f32, layout=Layout.TMA_128B)
    assert hash(tile) == hash(Tile("M", 64, f32, Layout.TMA_128B))
    assert repr(tile) == "Tile('M', 64, f32, Layout.TMA_128B)"


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ((4, f32, u32), {}, ValueError, "dtype"),
        ((4, f32), {"dtype": u32}, ValueError, "dtype"),
        ((4, 4), {}, ValueError, "dtype"),
        ((f32,), {}, ValueError, "dimension"),
        ((4, 4.0, f32), {}, TypeError, "4.0"),
        ((4, True, f32), {}, TypeError, "True"),
        ((-1, f32), {}, ValueError, "negative"),
        (("M*2", f32), {}, ValueError, "identifier"),
        ((4, f32, Layout.ROW, Layout.COL), {}, ValueError, "layouts"),
    ],
)
def test_refusals(arguments, options, error, words):
    with pytest.raises(error, match=words.replace("*", r"\*")):
        Tile(*arguments, **options)


def test_shapes_and_symbols():
    tile = Tile("M", "K", "M", f32)
    assert tile.symbolic_dims == ("M", "K")
    assert tile.resolve_shape({"M": 2, "K": 3}) == (2, 3, 2)
    assert tile.extract_env((2, 3, 2)) == {"M": 2, "K": 3}
    with pytest.raises(KeyError):
        tile.resolve_shape({"M": 2})
    with pytest.raises(ValueError, match="rank"):
        tile.extract_env((2, 3))
    with pytest.raises(ValueError, match="dim mismatch"):
        tile.extract_env((2, 3, 4))
    assert unify_envs([{"M": 1}, {"M": 1, "N": 2}]) == {"M": 1, "N": 2}
    with pytest.raises(ValueError, match="conflicting"):
        unify_envs([{"M": 1}, {"M": 2}])


def test_matches_by_ptx_and_framework_names():
    tile = Tile("M", 8, bf16)
    assert tile.matches((4, 8), "bf16") and tile.matches((4, 8), "bfloat16") and tile.matches((4, 8), "torch.bfloat16")
    assert not tile.matches((4, 8), "float16")
    assert not tile.matches((4, 9), "bf16")
    assert not tile.matches((8,), "bf16")


def test_tiles_are_values():
    tile = Tile("M", 8, bf16, tma_box=[8, 8])
    assert tile.tma_box == (8, 8)
    assert pickle.loads(pickle.dumps(tile)) == tile == copy.deepcopy(tile)
    with pytest.raises(AttributeError):
        tile.layout = Layout.COL


@pytest.mark.parametrize(
    ("k", "layout"), [(64, "TMA_128B"), (128, "TMA_128B"), (32, "TMA_64B"), (16, "TMA_32B"), (8, "ROW")]
)
def test_wgmma_tiles_take_the_swizzle_of_their_width(k, layout):
    assert Tile.wgmma_a(64, k, bf16).layout is Layout[layout]
    assert Tile.wgmma_b(64, k, bf16).layout is Layout[layout]
    assert Tile.wgmma_a(256, 512, bf16, tile_m=64, tile_k=k).layout is Layout[layout]


def test_wgmma_tiles():
    assert Tile.wgmma_a(64, 64, bf16).tma_box is None
    assert Tile.wgmma_b(512, 64, bf16, tile_k=16).tma_box == (16, 64)
    assert Tile.wgmma_a("M", "K", bf16).layout is Layout.ROW
    with pytest.raises(ValueError, match="48.*16, 32, 64, 128"):
        Tile.wgmma_a(64, 24, bf16)


def test_types():
    assert (f32.name, f32.bits, f32.ptx, repr(f32)) == ("f32", 32, ".f32", "f32")
    assert types.from_name("f32") == types.from_name(".f32") == f32
    assert f32 != u32 and len({f32, types.PtxType("f32", 32)}) == 1
    assert {name: getattr(types, name).bits for name in ("pred", "b128", "bf16x2", "e5m2", "tf32")} == {
        "pred": 1,
        "b128": 128,
        "bf16x2": 32,
        "e5m2": 8,
        "tf32": 32,
    }
    with pytest.raises(ValueError, match="f31"):
        types.from_name("f31")


# Widths of a row in bytes -> (layout, leading, stride) for 64 rows, K-major.
@pytest.mark.parametrize(
    ("k", "expected"),
    [
        (8, (LayoutType.INTERLEAVE, 16, 128, "NONE", None)),
        (16, (LayoutType.B32, 16, 256, "32B", "32B")),
        (32, (LayoutType.B64, 16, 512, "64B", "64B")),
        (64, (LayoutType.B128, 16, 1024, "128B", "128B")),
        (128, (LayoutType.B128, 64 * 128, 1024, "128B", "128B")),
    ],
)
def test_k_major(k, expected):
    assert layout_for_a(dtype=bf16, m=64, k=k) == GmmaLayout(*expected)


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (8, (LayoutType.INTERLEAVE, 128, 16, "NONE", None)),
        (16, (LayoutType.B32, 16, 256, "32B", "32B")),
        (64, (LayoutType.B128, 16, 1024, "128B", "128B")),
        (256, (LayoutType.B128, 32 * 128, 1024, "128B", "128B")),
    ],
)
def test_mn_major(n, expected):
    layout = layout_for_b(dtype=bf16, k=32, n=n)
    assert layout == GmmaLayout(*expected)
    assert layout.swizzle_code == int(expected[0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"elem_bytes": 2, "m_or_n": 60, "k": 64, "major": Major.K}, "M divisible by 8"),
        ({"elem_bytes": 2, "m_or_n": 64, "k": 12, "major": Major.MN}, "K divisible by 8"),
        ({"elem_bytes": 2, "m_or_n": 64, "k": 24, "major": Major.K}, "not one of the canonical"),
        ({"elem_bytes": 2, "m_or_n": 64, "k": 96, "major": Major.K}, "not one of the canonical"),
        ({"elem_bytes": 2, "m_or_n": 24, "k": 16, "major": Major.MN}, "not one of the canonical"),
        ({"elem_bytes": 2, "m_or_n": 4, "k": 16, "major": Major.MN}, "not one of the canonical"),
    ],
)
def test_layout_refusals(options, words):
    with pytest.raises(ValueError, match=words):
        pick_gmma_layout(**options)


def test_eight_bit_elements():
    assert layout_for_a(dtype=e4m3, m=64, k=128).layout_type is LayoutType.B128


def test_fields_of_tensor_maps_are_checked_where_the_tile_is_written():
    tile = Tile("M", 64, bf16, packed=False, tma_box=[64, 64], tma_fill="nan", tma_element_strides=[2, 1])
    assert repr(tile) == (
        "Tile('M', 64, bf16, packed=False, tma_box=(64, 64), tma_element_strides=(2, 1), tma_fill='nan')"
    )
    assert pickle.loads(pickle.dumps(tile)) == copy.copy(tile) == tile
    assert hash(tile) != hash(Tile("M", 64, bf16))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"tma_bocks": (1, 1)}, TypeError, "tma_bocks"),
        ({"tma_fill": "one"}, ValueError, "tma_fill must be one of zero, nan, not 'one'"),
        ({"tma_l2": 128}, ValueError, "tma_l2 must be one of none, 64B, 128B, 256B, not 128"),
        ({"tma_interleave": "8B"}, ValueError, "tma_interleave must be one of none, 16B, 32B"),
        ({"tma_swizzle": "96B"}, ValueError, "tma_swizzle must be one of NONE, 32B, 64B, 128B, 128B_ATOM_32B"),
        ({"tma_dtype": "tf32"}, TypeError, "tma_dtype must be a PtxType"),
        ({"tma_im2col": (1, 2)}, TypeError, "tma_im2col must be an Im2col"),
        ({"tma_im2col": Im2col((), (), 1, 1), "tma_box": (4, 4)}, ValueError, "tma_im2col and tma_box are two ways"),
        ({"tma_element_strides": (1,)}, ValueError, "tma_element_strides has 1 entries"),
        ({"layout": Layout.COL, "packed": False}, ValueError, "row-major"),
    ],
)
def test_refused_fields_of_tensor_maps(options, error, words):
    with pytest.raises(error, match=words):
        Tile(64, 64, f32, **options)


def test_every_element_type_is_a_tile_s():
    names = {row[0] for row in _core.elements()} - {"bool"}
    assert names <= {name for name, _ in _core.types()}
    for name in names:
        assert types.from_name(name).name == name
    assert Tile(4, types.ue8m0).matches((4,), "torch.float8_e8m0fnu")
    assert Tile(4, types.e2m1x2).matches((4,), "torch.float4_e2m1fn_x2")
    assert Tile(4, types.u4).matches((4,), "uint4")
    with pytest.raises(TypeError, match="no elements of type b128"):
        Tile(4, types.b128).matches((4,), "b128")


def test_layouts_of_four_bit_tiles():
    assert layout_for_a(dtype=types.e2m1, m=64, k=128) == GmmaLayout(LayoutType.B64, 16, 512, "64B", "64B")
    assert pick_gmma_layout(elem_bytes=0.5, m_or_n=64, k=256, major=Major.K).layout_type is LayoutType.B128
    assert {kind.name: int(kind) for kind in LayoutType} == {"INTERLEAVE": 0, "B128": 1, "B64": 2, "B32": 3}


def test_align():
    assert repr(Tile("N", f32, align=16)) == "Tile('N', f32, align=16)"
    with pytest.raises(ValueError, match="align must be a power of two up to 256 bytes, not 3"):
        Tile("N", f32, align=3)
