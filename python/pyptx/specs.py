"""What a kernel expects of its tensors: `Tile` (shape, element type, layout) and the sizes that its symbols take."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyptx.types import PtxType

__all__ = ["Layout", "Tile", "unify_envs"]


class Layout(enum.Enum):
    """How a tensor lies in memory, or how the copy engine arranges its tiles in shared memory."""

    ROW = "row"
    COL = "col"
    TMA_128B = "tma_128b"
    TMA_64B = "tma_64b"
    TMA_32B = "tma_32b"
    INTERLEAVED = "interleaved"

    @property
    def swizzle_bytes(self) -> int:
        """Width of the swizzle; 0 for a layout without."""
        return {"TMA_128B": 128, "TMA_64B": 64, "TMA_32B": 32}.get(self.name, 0)


# What frameworks call the types.
_FRAMEWORK_NAMES = {
    "f16": ("float16", "half"),
    "bf16": ("bfloat16",),
    "f32": ("float32", "float"),
    "f64": ("float64", "double"),
    "e4m3": ("float8_e4m3fn",),
    "e5m2": ("float8_e5m2",),
    "pred": ("bool",),
    **{f"s{n}": (f"int{n}",) for n in (8, 16, 32, 64)},
    **{f"{sign}{n}": (f"uint{n}",) for sign in "ub" for n in (8, 16, 32, 64)},
}


@dataclass(frozen=True, init=False, repr=False)
class Tile:
    """The contract of one tensor argument.

    Positional arguments in any order: ints and symbol names are dimensions, a type is the element type, a `Layout` is the
    layout.  The `tma_*` fields say how `tensor.tma_desc()` cuts the tensor into boxes.
    """

    shape: tuple[int | str, ...]
    dtype: PtxType
    layout: Layout
    tma_box: tuple[int | str, ...] | None
    tma_rank: int
    tma_padding: bool

    def __init__(self, *dims_and_dtype, dtype=None, layout=None, tma_box=None, tma_rank=2, tma_padding=False):
        shape = []
        for item in dims_and_dtype:
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
                raise TypeError(f"Tile takes sizes, symbol names, a type and a Layout, not {item!r}")
        if dtype is None:
            raise ValueError("Tile needs a dtype, for example Tile(M, K, bf16)")
        if not isinstance(dtype, PtxType):
            raise TypeError(f"the dtype of a Tile is a PtxType, not {dtype!r}")
        if not shape:
            raise ValueError("Tile needs at least one dimension")
        for size in shape:
            if isinstance(size, int) and size < 0:
                raise ValueError(f"a dimension of a Tile is not negative, got {size}")
            if isinstance(size, str) and not size.isidentifier():
                raise ValueError(f"a symbolic dimension of a Tile is an identifier, got {size!r}")
        for name, value in (
            ("shape", tuple(shape)),
            ("dtype", dtype),
            ("layout", Layout.ROW if layout is None else layout),
            ("tma_box", None if tma_box is None else tuple(tma_box)),
            ("tma_rank", tma_rank),
            ("tma_padding", tma_padding),
        ):
            object.__setattr__(self, name, value)

    def __repr__(self):
        parts = [repr(size) for size in self.shape] + [self.dtype.name]
        if self.layout is not Layout.ROW:
            parts.append(f"Layout.{self.layout.name}")
        if self.tma_box is not None:
            parts.append(f"tma_box={self.tma_box}")
        if self.tma_rank != 2:
            parts.append(f"tma_rank={self.tma_rank}")
        if self.tma_padding:
            parts.append("tma_padding=True")
        return f"Tile({', '.join(parts)})"

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def symbolic_dims(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(size for size in self.shape if isinstance(size, str)))

    def resolve_shape(self, env: Mapping[str, int]) -> tuple[int, ...]:
        """The shape with every symbol replaced; KeyError for one that `env` does not bind."""
        return tuple(env[size] if isinstance(size, str) else size for size in self.shape)

    def extract_env(self, array_shape: Iterable[int]) -> dict[str, int]:
        """The sizes that a tensor of this shape gives to the symbols; ValueError if the tensor does not fit."""
        actual = tuple(array_shape)
        if len(actual) != self.rank:
            raise ValueError(f"rank mismatch: {self!r} has rank {self.rank}, the array has rank {len(actual)}")
        env: dict[str, int] = {}
        for axis, (want, have) in enumerate(zip(self.shape, actual, strict=True)):
            expected = env.setdefault(want, have) if isinstance(want, str) else want
            if expected != have:
                raise ValueError(f"dim mismatch: axis {axis} of {self!r} is {expected}, the array has {have}")
        return env

    def matches(self, shape: Iterable[int], dtype_name: str) -> bool:
        """Whether a tensor of this shape and type, named as PTX or a framework names it, may be passed."""
        if str(dtype_name).rpartition(".")[2] not in (self.dtype.name, *_FRAMEWORK_NAMES.get(self.dtype.name, ())):
            return False
        try:
            self.extract_env(shape)
        except ValueError:
            return False
        return True

    @classmethod
    def wgmma_a(cls, m, k, dtype, *, tile_m=None, tile_k=None) -> Tile:
        """A(M, K) copied in (tile_m, tile_k) boxes, swizzled by the width of a box's row."""
        return cls._wgmma(m, k, dtype, tile_m, tile_k)

    @classmethod
    def wgmma_b(cls, k, n, dtype, *, tile_k=None, tile_n=None) -> Tile:
        """B(K, N) copied in (tile_k, tile_n) boxes, swizzled by the width of a box's row."""
        return cls._wgmma(k, n, dtype, tile_k, tile_n)

    @classmethod
    def _wgmma(cls, rows, columns, dtype, tile_rows, tile_columns):
        box = None
        if tile_rows is not None or tile_columns is not None:
            box = (rows if tile_rows is None else tile_rows, columns if tile_columns is None else tile_columns)
        return cls(rows, columns, dtype, _wgmma_layout(tile_columns or columns, dtype), tma_box=box)


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


def unify_envs(envs: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """One binding for every symbol; ValueError where two tensors disagree."""
    merged: dict[str, int] = {}
    for env in envs:
        for name, size in env.items():
            if merged.setdefault(name, size) != size:
                raise ValueError(f"conflicting sizes for dimension {name!r}: {merged[name]} and {size}")
    return merged
