"""Copies under the names that pyptx 0.1.1 gave them: `ptx.cp.async_`, `ptx.cp.async_.bulk` and `ptx.tma`.

Each call is one call of `ptx.cp_async`, `ptx.cp_async_bulk` or `ptx.tensor_copy`, which new code uses.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from pyptx import _core, _names, reg
from pyptx.errors import AuthoringTypeError, AuthoringValueError
from pyptx.types import u32

if TYPE_CHECKING:
    from pyptx._core import Address, Guard, Integer

__all__ = ["cp", "tma"]


def _coordinates(name: str, rank: int, coord: Sequence[Integer] | None) -> Sequence[Integer]:
    if coord is None:
        raise AuthoringValueError(f"{name} needs coord=, {rank} coordinates, innermost first")
    if isinstance(coord, str) or not isinstance(coord, (Sequence, reg.RegArray)):
        raise AuthoringTypeError(f"{name}: coord is {rank} coordinates, a tuple of registers and ints, not {coord!r}")
    if len(coord) != rank:
        raise AuthoringValueError(f"{name} takes {rank} coordinates, got {len(coord)}")
    return coord


def _barrier(mbar: Address | None) -> Address:
    if mbar is None:
        raise AuthoringValueError("a tensor load needs mbar=, the mbarrier that counts its bytes")
    return mbar


def _group(cta_group: int) -> int | None:
    """`cta_group=1` is what an instruction without the modifier means; it is left out."""
    if cta_group not in (1, 2):
        raise AuthoringValueError(f"cta_group must be 1 or 2, not {cta_group!r}")
    return None if cta_group == 1 else cta_group


class TensorCopy:
    """Tensor copies of one rank: a load when called, `.store`, and the load into this CTA's shared memory.

    Example:
        box, bar = smem.alloc(f32, (32, 32)), smem.mbarrier(1)[0]
        ptx.cp.async_.bulk.tensor_2d(dst=box, src=px, coord=(0, i), mbar=bar)
    """

    def __init__(self, rank: int):
        self._rank = rank
        self._name = f"tensor_{rank}d"

    def __call__(
        self,
        *,
        dst: Address,
        src: Integer,
        coord: Sequence[Integer] | None = None,
        mbar: Address | None = None,
        cta_group: int = 1,
        multicast_mask: Integer | None = None,
        cache_hint: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """A box from global to shared memory; its bytes complete at `mbar`."""
        at = _coordinates(self._name, self._rank, coord)
        _core.tensor_copy.load(
            dst, src, at, _barrier(mbar),
            cta_group=_group(cta_group), multicast_mask=multicast_mask, cache_hint=cache_hint, pred=pred,
        )  # fmt: skip

    def store(
        self,
        *,
        dst: Integer,
        src: Address,
        coord: Sequence[Integer],
        cache_hint: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """A box from shared to global memory, in a bulk group."""
        at = _coordinates(self._name, self._rank, coord)
        _core.tensor_copy.store(dst, at, src, cache_hint=cache_hint, pred=pred)

    def shared_cta_global_tile(
        self,
        *,
        dst: Address,
        src: Integer,
        coord: Sequence[Integer],
        mbar: Address,
        cta_group: int = 1,
        pred: Guard = None,
    ) -> None:
        """The load with .shared::cta and .tile written out."""
        at = _coordinates(self._name, self._rank, coord)
        _core.tensor_copy.load(
            dst, src, at, _barrier(mbar), mode="tile", space="shared::cta", cta_group=_group(cta_group), pred=pred
        )


class TensorLoad:
    """A tensor load of one rank and mode, with its coordinates by position.

    Example:
        box, bar = smem.alloc(f32, (32, 32)), smem.mbarrier(1)[0]
        ptx.cp.async_.bulk.tile_2d(ptx.addr(box), px, (0, i), mbar=bar)
    """

    def __init__(self, name: str, coordinates: int, mode: str):
        self._name, self._coordinates, self._mode = name, coordinates, mode

    def __call__(
        self,
        dst: Address,
        src: Integer,
        coord: Sequence[Integer],
        *,
        mbar: Address | None = None,
        offsets: Sequence[Integer] = (),
        cache_hint: Integer | None = None,
        multicast_mask: Integer | None = None,
        cta_group: int = 1,
        pred: Guard = None,
    ) -> None:
        """A box from global to shared memory; its bytes complete at `mbar`."""
        if self._mode == "im2col" and not offsets:
            raise AuthoringValueError(
                f"{self._name} needs offsets=, {self._coordinates - 2} of them: one for each dimension but N and C"
            )
        _core.tensor_copy.load(
            dst, src, _coordinates(self._name, self._coordinates, coord), _barrier(mbar),
            mode=self._mode, offsets=offsets or None, cache_hint=cache_hint, multicast_mask=multicast_mask,
            cta_group=_group(cta_group), pred=pred,
        )  # fmt: skip


class TensorStore:
    """A tensor store of one rank and mode, with its coordinates by position.

    Example:
        box = smem.alloc(f32, (32, 32))
        ptx.cp.async_.bulk.store_2d(px, ptx.addr(box), (0, i))
    """

    def __init__(self, name: str, coordinates: int, mode: str | None = None):
        self._name, self._coordinates, self._mode = name, coordinates, mode

    def __call__(
        self,
        dst: Integer,
        src: Address,
        coord: Sequence[Integer],
        *,
        cache_hint: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """A box from shared to global memory, in a bulk group."""
        at = _coordinates(self._name, self._coordinates, coord)
        _core.tensor_copy.store(dst, at, src, mode=self._mode, cache_hint=cache_hint, pred=pred)


class _Group:
    """Functions under one name; a missing one says what is there."""

    __slots__ = ()
    _spelled: str

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(_names.reason(self, self._spelled, name), name=name, obj=self)

        def __call__(self, *_: object, **__: object) -> NoReturn:
            functions = ", ".join(each for each in dir(self) if not each.startswith("_"))
            raise TypeError(f"{self._spelled} is a group of functions, and none itself: {functions}")


class Tensor(_Group):
    """Tensor copies by rank and mode.

    Example:
        box = smem.alloc(f32, (32, 32))
        ptx.cp.async_.bulk.tensor.store_2d(px, ptx.addr(box), (0, i))
    """

    __slots__ = ()
    _spelled = "ptx.cp.async_.bulk.tensor"

    tensor_1d, tensor_2d, tensor_3d, tensor_4d, tensor_5d = (TensorCopy(rank) for rank in range(1, 6))
    tile_1d, tile_2d, tile_3d, tile_4d, tile_5d = (TensorLoad(f"tile_{rank}d", rank, "tile") for rank in range(1, 6))
    store_1d, store_2d, store_3d, store_4d, store_5d = (TensorStore(f"store_{rank}d", rank) for rank in range(1, 6))
    im2col_3d, im2col_4d, im2col_5d = (TensorLoad(f"im2col_{rank}d", rank, "im2col") for rank in range(3, 6))
    gather4_2d = TensorLoad("gather4_2d", 5, "tile::gather4")
    scatter4_2d = TensorStore("scatter4_2d", 5, "tile::scatter4")


class Bulk(Tensor):
    """Bulk copies and their groups.

    Example:
        ptx.cp.async_.bulk.commit_group()
        ptx.cp.async_.bulk.wait_group(0)
    """

    __slots__ = ()
    _spelled = "ptx.cp.async_.bulk"

    tensor = Tensor()
    commit_group = staticmethod(_core.cp_async_bulk.commit_group)
    wait_group = staticmethod(_core.cp_async_bulk.wait_group)


class Async(_Group):
    """`ptx.cp.async_`: the functions of ptx.cp_async.

    Example:
        buffer = smem.alloc(f32, 128)
        ptx.cp.async_.cg(ptx.addr(buffer), ptx.addr(px), 16)
        ptx.cp.async_.wait_all()
    """

    __slots__ = ()
    _spelled = "ptx.cp.async_"

    cg = staticmethod(_core.cp_async.cg)
    ca = staticmethod(_core.cp_async.ca)
    commit_group = staticmethod(_core.cp_async.commit_group)
    wait_group = staticmethod(_core.cp_async.wait_group)
    wait_all = staticmethod(_core.cp_async.wait_all)
    bulk = Bulk()


class Cp(_Group):
    """Asynchronous copies.

    Example:
        ptx.cp.async_.commit_group()
    """

    __slots__ = ()
    _spelled = "ptx.cp"

    async_ = Async()
    async_bulk = async_.bulk


cp = Cp()


class Tma(_Group):
    """Rank 3 tensor copies by (row, column) of a matrix seen as blocks of 64 columns.

    Example:
        box, bar = smem.alloc(bf16, (64, 64), align=1024), smem.mbarrier(1)[0]
        ptx.tma.load_3d(ptx.addr(box), px, row=i, col=n, mbar=bar)
    """

    __slots__ = ()
    _spelled = "ptx.tma"

    @staticmethod
    def _at(row: Integer | None, col: Integer | None, coords: Sequence[Integer] | None) -> Sequence[Integer]:
        if coords is not None:
            return coords
        if row is None or col is None:
            raise AuthoringTypeError("give row and col, or coords")
        if not isinstance(col, reg.Reg):
            if not hasattr(type(col), "__index__"):
                raise AuthoringTypeError(f"col is a register or an int, not {col!r}")
            return (0, row, operator.index(col) // 64)
        block = reg.scalar(u32)
        _core.emit("shr.u32", block, col, 6)
        return (0, row, block)

    def load_3d(
        self,
        dst: Address,
        src: Integer,
        row: Integer | None = None,
        col: Integer | None = None,
        mbar: Address | None = None,
        coords: Sequence[Integer] | None = None,
        *,
        pred: Guard = None,
    ) -> None:
        """A box of a matrix from global to shared memory; its bytes complete at `mbar`.

        Example:
            box, bar = smem.alloc(bf16, (64, 64), align=1024), smem.mbarrier(1)[0]
            ptx.tma.load_3d(ptx.addr(box), px, row=i, col=n, mbar=bar)
        """
        _core.tensor_copy.load(dst, src, self._at(row, col, coords), _barrier(mbar), mode="tile", pred=pred)

    def load_3d_multicast(
        self,
        dst: Address,
        src: Integer,
        row: Integer | None = None,
        col: Integer | None = None,
        mbar: Address | None = None,
        mask: Integer | None = None,
        coords: Sequence[Integer] | None = None,
        *,
        issuer: int | Guard = None,
        pred: Guard = None,
    ) -> None:
        """`load_3d` into the CTAs of `mask`; `issuer` is the rank of the CTA that copies, or a predicate.

        Example:
            box, bar = smem.alloc(bf16, (64, 64), align=1024), smem.mbarrier(1)[0]
            ptx.tma.load_3d_multicast(ptx.addr(box), px, row=i, col=n, mbar=bar, mask=reg.scalar(b16, init=3), issuer=0)
        """
        if issuer is not None and pred is not None:
            raise AuthoringValueError("issuer= and pred= both choose the thread that copies; give one")
        at = self._at(row, col, coords)
        if isinstance(issuer, int):
            issuer = _core.cluster.rank(issuer)
        guard = pred if issuer is None else issuer
        _core.tensor_copy.load(dst, src, at, _barrier(mbar), mode="tile", multicast_mask=mask, pred=guard)

    def store_3d(
        self,
        dst: Integer,
        src: Address,
        row: Integer | None = None,
        col: Integer | None = None,
        coords: Sequence[Integer] | None = None,
        *,
        pred: Guard = None,
    ) -> None:
        """A box of a matrix from shared to global memory, in a bulk group.

        Example:
            box = smem.alloc(bf16, (64, 64), align=1024)
            ptx.tma.store_3d(px, ptx.addr(box), row=i, col=n)
        """
        _core.tensor_copy.store(dst, self._at(row, col, coords), src, mode="tile", pred=pred)


tma = Tma()
