"""What a kernel expects of its tensors: `Tile` (shape, element type, layout) and the sizes that its symbols take."""

from __future__ import annotations

import enum
import inspect
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyptx import _core
from pyptx._core import PtxType
from pyptx.frameworks.elements import FRAMEWORK_NAMES, element_of

__all__ = ["Im2col", "Layout", "Tile", "unify_envs"]


SWIZZLE_BYTES = {name: width for name, width, _ in _core.swizzles()}


_WRONG_RANK, _WRONG_DIMENSION, _CONFLICTING_DIMENSION = 4103, 4104, 4105  # ptx/base/diagnostic.def


class Misfit(ValueError):
    """A shape that a Tile does not take, or two that disagree.  `code`: of the diagnostic."""

    def __init__(self, code: int, message: str):
        super().__init__(message)
        self.code = code


class _LayoutType(enum.EnumMeta):
    """Layouts by their names alone; what is no name is refused with those that are."""

    if not TYPE_CHECKING:

        def __call__(cls, value, *more, **options):
            if more or options or not isinstance(value, (str, cls)):
                raise TypeError(f"a Layout is {cls._legal()}, not {(value, *more) if more else value!r}")
            return super().__call__(value)

        def __getattr__(cls, name):
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(f"Layout has no {name}: it is {cls._legal()}")

        def __getitem__(cls, name):
            if name not in cls.__members__:
                raise KeyError(f"Layout has no {name!r}: it is {cls._legal()}")
            return super().__getitem__(name)

    def _legal(cls) -> str:
        return ", ".join(f"Layout.{each.name}" for each in cls)


class Layout(enum.Enum, metaclass=_LayoutType):
    """How a tensor lies in memory, or how the copy engine arranges its tiles in shared memory.

    Example:
        Tile("M", "K", bf16, Layout.TMA_128B, tma_box=(64, 64))    # a swizzle of 128 bytes in shared memory
        Tile("M", "N", f32, Layout.COL)                            # column-major in memory
    """

    ROW = "row"
    COL = "col"
    TMA_128B = "tma_128b"
    TMA_64B = "tma_64b"
    TMA_32B = "tma_32b"
    INTERLEAVED = "interleaved"

    @classmethod
    def _missing_(cls, value: object):
        raise ValueError(f"a Layout is {cls._legal()}, not {value!r}")

    @property
    def swizzle_bytes(self) -> int:
        """Width of the swizzle; 0 for a layout without one."""
        return SWIZZLE_BYTES.get(self.swizzle, 0)

    @property
    def swizzle(self) -> str:
        """Name of the swizzle: "128B" for TMA_128B; "NONE" for a layout without one."""
        return self.name.removeprefix("TMA_") if self.name.startswith("TMA_") else "NONE"


@dataclass(frozen=True)
class Im2col:
    """A tensor map that copies pixels for a convolution instead of boxes (`tma_im2col`).

    `lower` and `upper` are the corners between which pixels are taken, one offset for each dimension but the first and the
    last of an (N, ..., C) tensor, in its order: from the first pixel, and from the last one.  `channels` and `pixels` are
    the size of one copy.  CUDA Driver API, cuTensorMapEncodeIm2col.

    Example:
        window = pyptx.Im2col(lower=(-1, -1), upper=(-1, -1), channels=32, pixels=64)
        image = Tile(1, 8, 8, 32, f16, tma_im2col=window)
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int


def _meant(item: Any) -> str:
    """What an item that no Tile takes may be meant for: a type of a framework, a shape."""
    if isinstance(item, (tuple, list)):
        return f": its items are arguments of their own, Tile({', '.join(map(repr, item))}, f32)"
    name = getattr(item, "name", getattr(item, "__name__", str(item))).rpartition(".")[2]
    named = next((own for own, names in FRAMEWORK_NAMES.items() if name == own or name in names), None)
    return f": that is {named} of pyptx.types" if named else ""


def _sorted_out(
    given: tuple, dtype: PtxType | None, layout: Layout | None
) -> tuple[tuple[int | str, ...], PtxType, Layout]:
    """(sizes and names of sizes, type, layout) of what stands in a Tile, in any order."""
    shape: list[int | str] = []
    for item in given:
        if isinstance(item, PtxType):
            if dtype is not None and dtype != item:
                raise ValueError(f"Tile got two values for dtype: {dtype!r} and {item!r}")
            dtype = item
        elif isinstance(item, Layout):
            if layout is not None and layout is not item:
                raise ValueError(f"Tile got two layouts: {layout} and {item}")
            layout = item
        elif isinstance(item, (int, str)) and not isinstance(item, bool):
            shape.append(item)
        else:
            raise TypeError(f"Tile takes sizes, symbol names, a type and a Layout, not {item!r}{_meant(item)}")
    if dtype is None:
        named = next((size for size in shape if isinstance(size, str) and size in FRAMEWORK_NAMES), None)
        raise ValueError(
            "Tile needs a dtype, for example Tile(M, K, bf16)"
            + (f"; {named!r} in quotes is a dimension of this name" if named else "")
        )
    if not isinstance(dtype, PtxType):
        raise TypeError(f"the dtype of a Tile must be a PtxType, not {dtype!r}")
    if not shape:
        raise ValueError("Tile needs at least one dimension")
    for size in shape:
        if isinstance(size, int) and size < 0:
            raise ValueError(f"a dimension of a Tile must not be negative, got {size}")
        if isinstance(size, str) and not size.isidentifier():
            raise ValueError(f"a symbolic dimension of a Tile must be an identifier, got {size!r}")
    if layout is not None and not isinstance(layout, Layout):
        raise TypeError(f"the layout of a Tile is {', '.join(map(str, Layout))}, not {layout!r}")
    return tuple(shape), dtype, Layout.ROW if layout is None else layout


@dataclass(frozen=True, init=False, repr=False)
class Tile:
    """Describes a tensor argument: shape, element type, layout, tensor map.

    Positional arguments in any order: ints and symbol names are dimensions, a type is the element type, a `Layout` is the
    layout.  `packed=False` takes tensors with gaps between rows: any strides but an innermost one of 1.  `align=16` refuses
    tensors whose address is no multiple of 16 bytes, for a body that loads vectors; without, of the element's size.
    `whole=False`: an output of which the kernel may leave elements as they are; without, the simulator reports those.

    The `tma_*` fields say how `tensor.tma_desc()` cuts the tensor into boxes (tuples in the order of the shape):

    - `tma_box`: sizes of a box, in elements of `tma_dtype`; 1 to 256 each, the last a multiple of 16 bytes.
    - `tma_swizzle`: "NONE", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"; the layout's
      if not given.
    - `tma_dtype`: what the copy engine reads the bytes as, `tf32` of an f32 tensor or `e2m1` of bytes; the tensor's own.
    - `tma_element_strides`: 1 to 8 a dimension; every n-th element is copied.
    - `tma_interleave`: "none", "16B", "32B" (with a swizzle of 32B): the channels of a tensor of rank 3 to 5 lie in slices
      of so many bytes; docs/simulator.md says what a copy takes.
    - `tma_fill`: "zero" or "nan", what lies outside the tensor.
    - `tma_l2`: "none", "64B", "128B", "256B": what L2 reads at a time.
    - `tma_spread`: 16 values of 4 bits fill 16 bytes of shared memory, as `.kind::f8f6f4` reads them, instead of 8.
    - `tma_im2col`: an `Im2col` instead of a box.
    - `tma_rank=3`: a matrix in blocks of 64 columns; `tma_padding` puts 8 elements between their rows.

    Example:
        Tile("M", "N", f32)                                        # symbols, which all Tiles of a kernel share
        Tile("N", 128, f32)                                        # a size that is fixed
        Tile("M", "K", bf16, tma_box=(64, 64), tma_swizzle="128B")
    """

    shape: tuple[int | str, ...]
    dtype: PtxType
    layout: Layout
    tma_box: tuple[int | str, ...] | None
    tma_rank: int
    tma_padding: bool
    packed: bool
    align: int
    whole: bool
    tma_swizzle: str | None
    tma_dtype: PtxType | None
    tma_element_strides: tuple[int, ...] | None
    tma_interleave: str
    tma_fill: str
    tma_l2: str
    tma_spread: bool
    tma_im2col: Im2col | None

    def __init__(
        self,
        *dims_and_dtype: int | str | PtxType | Layout,
        dtype: PtxType | None = None,
        layout: Layout | None = None,
        packed: bool = True,
        align: int = 0,
        whole: bool = True,
        tma_box: Iterable[int | str] | None = None,
        tma_rank: int = 2,
        tma_padding: bool = False,
        tma_swizzle: str | None = None,
        tma_dtype: PtxType | None = None,
        tma_element_strides: Iterable[int] | None = None,
        tma_interleave: str = "none",
        tma_fill: str = "zero",
        tma_l2: str = "128B",
        tma_spread: bool = False,
        tma_im2col: Im2col | None = None,
    ):
        given = locals()
        tma = {name: given[name] for name in _TMA_DEFAULTS}
        shape, dtype, layout = _sorted_out(dims_and_dtype, dtype, layout)
        fields = {"shape": shape, "dtype": dtype, "layout": layout}
        if not packed and fields["layout"] is Layout.COL:
            raise ValueError("packed=False needs a row-major tensor, not Layout.COL")
        if align not in (0, 1, 2, 4, 8, 16, 32, 64, 128, 256):
            raise ValueError(f"align must be a power of two up to 256 bytes, not {align!r}")
        for name, value in (
            fields | {"packed": bool(packed), "align": align, "whole": bool(whole)} | _checked(tma, len(shape))
        ).items():
            object.__setattr__(self, name, value)

    def __repr__(self):
        parts = [repr(size) for size in self.shape] + [self.dtype.name]
        if self.layout is not Layout.ROW:
            parts.append(f"Layout.{self.layout.name}")
        if not self.packed:
            parts.append("packed=False")
        if self.align:
            parts.append(f"align={self.align}")
        if not self.whole:
            parts.append("whole=False")
        for name, default in _TMA_DEFAULTS.items():
            if (value := getattr(self, name)) != default:
                parts.append(f"{name}={value!r}")
        return f"Tile({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """The box of its tensor map in shared memory, where it has one that a picture can show."""
        from html import escape

        from pyptx import pictures

        try:
            return pictures.tile(self)._repr_html_()
        except ValueError:
            return f"<code>{escape(repr(self))}</code>"

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def symbolic_dims(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(size for size in self.shape if isinstance(size, str)))

    def resolve_shape(self, env: Mapping[str, int]) -> tuple[int, ...]:
        """The shape with every symbol replaced; KeyError for one that `env` does not bind.

        Example:
            assert Tile("M", 128, f32).resolve_shape({"M": 4}) == (4, 128)
        """
        return tuple(env[size] if isinstance(size, str) else size for size in self.shape)

    def extract_env(self, array_shape: Iterable[int]) -> dict[str, int]:
        """The sizes that a tensor of this shape gives to the symbols; ValueError if the tensor does not fit.

        Example:
            assert Tile("M", 128, f32).extract_env((4, 128)) == {"M": 4}
        """
        actual = tuple(array_shape)
        if len(actual) != self.rank:
            raise Misfit(_WRONG_RANK, f"rank mismatch: {self!r} has rank {self.rank}, the array has rank {len(actual)}")
        env: dict[str, int] = {}
        for axis, (want, have) in enumerate(zip(self.shape, actual, strict=True)):
            expected = env.setdefault(want, have) if isinstance(want, str) else want
            if expected != have:
                code = _CONFLICTING_DIMENSION if isinstance(want, str) else _WRONG_DIMENSION
                raise Misfit(code, f"dim mismatch: axis {axis} of {self!r} is {expected}, the array has {have}")
        return env

    def matches(self, shape: Iterable[int], dtype_name: str) -> bool:
        """Whether a tensor of this shape and type, named as PTX or a framework names it, may be passed.

        Example:
            assert Tile("M", 128, f32).matches((4, 128), "float32")
        """
        known = FRAMEWORK_NAMES.get(element_of(self.dtype), ())
        if str(dtype_name).rpartition(".")[2] not in (self.dtype.name, *known):
            return False
        try:
            self.extract_env(shape)
        except ValueError:
            return False
        return True

    @classmethod
    def wgmma_a(
        cls, m: int | str, k: int | str, dtype: PtxType, *, tile_m: int | None = None, tile_k: int | None = None
    ) -> Tile:
        """A(M, K) copied in (tile_m, tile_k) boxes, swizzled by the width of a box's row.

        Example:
            Tile.wgmma_a("M", "K", bf16, tile_m=128, tile_k=64)
        """
        return cls._wgmma(m, k, dtype, tile_m, tile_k)

    @classmethod
    def wgmma_b(
        cls, k: int | str, n: int | str, dtype: PtxType, *, tile_k: int | None = None, tile_n: int | None = None
    ) -> Tile:
        """B(K, N) copied in (tile_k, tile_n) boxes, swizzled by the width of a box's row.

        Example:
            Tile.wgmma_b("K", "N", bf16, tile_k=64, tile_n=64)
        """
        return cls._wgmma(k, n, dtype, tile_k, tile_n)

    @classmethod
    def _wgmma(cls, rows, columns, dtype, tile_rows, tile_columns):
        box = None
        if tile_rows is not None or tile_columns is not None:
            box = (rows if tile_rows is None else tile_rows, columns if tile_columns is None else tile_columns)
        return cls(rows, columns, dtype, _wgmma_layout(tile_columns or columns, dtype), tma_box=box)


# Keyword fields of a Tile for its tensor map, and what they are when not given.
_TMA_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(Tile.__init__).parameters.items()
    if name.startswith("tma_")
}


def _checked(fields: dict, rank: int) -> dict:
    """The `tma_*` fields of a Tile of this rank, in one spelling."""
    legal = _core.tensor_map_names() | {"tma_swizzle": (None, *SWIZZLE_BYTES)}
    for name, values in legal.items():
        if fields[name] not in values:
            raise ValueError(f"{name} must be one of {', '.join(str(v) for v in values if v)}, not {fields[name]!r}")
    if fields["tma_dtype"] is not None and not isinstance(fields["tma_dtype"], PtxType):
        raise TypeError(f"tma_dtype must be a PtxType, for example tf32, not {fields['tma_dtype']!r}")
    if fields["tma_im2col"] is not None and not isinstance(fields["tma_im2col"], Im2col):
        raise TypeError(f"tma_im2col must be an Im2col, not {fields['tma_im2col']!r}")
    if fields["tma_im2col"] is not None and fields["tma_box"] is not None:
        raise ValueError("tma_im2col and tma_box are two ways to cut a tensor: a Tile has one of them")
    if fields["tma_rank"] not in (2, 3):
        raise ValueError(
            f"tma_rank must be 2, for the tensor as it is, or 3, for a matrix in blocks of columns, not {fields['tma_rank']!r}"
        )
    for name, what in (("tma_box", "ints and names of dimensions"), ("tma_element_strides", "ints")):
        given = fields[name]
        if given is None:
            continue
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise TypeError(f"{name} must be a tuple of {what}, one for each dimension of the map, not {given!r}")
        fields[name] = tuple(given)
        for one in fields[name]:
            named = isinstance(one, str) and name == "tma_box"
            if isinstance(one, bool) or not (named or hasattr(one, "__index__")):
                raise TypeError(f"{name} must be a tuple of {what}, not of {one!r}")
    strides = fields["tma_element_strides"]
    if strides is not None and len(strides) != (3 if fields["tma_rank"] == 3 else rank):
        raise ValueError(f"tma_element_strides has {len(strides)} entries for a tensor map of rank {rank}")
    return fields


def _wgmma_layout(inner: int | str, dtype: PtxType) -> Layout:
    if isinstance(inner, str):
        return Layout.ROW
    width = inner * dtype.bits // 8
    by_width = {64: Layout.TMA_64B, 32: Layout.TMA_32B, 16: Layout.ROW}
    layout = Layout.TMA_128B if width >= 128 else by_width.get(width)
    if layout is None:
        raise ValueError(
            f"an inner width of {width} bytes fits no swizzle; it must be one of {{16, 32, 64, 128}} or more"
        )
    return layout


def unify_envs(envs: Iterable[Mapping[str, int]], whose: Iterable[str] = ()) -> dict[str, int]:
    """One binding for every symbol; ValueError if two tensors disagree.  `whose`: what the message calls each of them."""
    merged: dict[str, int] = {}
    first: dict[str, str] = {}  # by symbol: who bound it
    for env, owner in itertools.zip_longest(envs, whose, fillvalue=""):
        for name, size in env.items():
            if merged.setdefault(name, size) != size:
                message = f"conflicting sizes for dimension {name!r}: {merged[name]} and {size}"
                owners = f", of {first[name]} and {owner}" if owner else ""
                raise Misfit(_CONFLICTING_DIMENSION, message + owners)
            first.setdefault(name, owner)
    return merged
