"""Shared memory: allocations, tiles for wgmma, mbarrier objects.

If all allocations of a kernel together exceed 48 KiB, they become dynamic shared memory; their use does not change.
"""

from __future__ import annotations

import sys
from typing import Any

from pyptx import _names
from pyptx._core import MbarrierArray, MbarrierRef, PtxType, SharedAlloc
from pyptx._core import smem_alloc as alloc
from pyptx._core import smem_apply_swizzle as apply_swizzle
from pyptx._core import smem_base as base
from pyptx._core import smem_load as load
from pyptx._core import smem_mbarrier as mbarrier
from pyptx._core import smem_store as store
from pyptx._core import smem_wgmma_tile as _wgmma_tile
from pyptx.wgmma_layout import GmmaLayout, Major, pick_gmma_layout

__all__ = [
    "MbarrierArray",
    "MbarrierRef",
    "SharedAlloc",
    "SharedSlice",
    "alloc",
    "alloc_with_layout",
    "apply_swizzle",
    "base",
    "load",
    "mbarrier",
    "store",
    "wgmma_tile",
]

SharedSlice = SharedAlloc  # a stage of an allocation is an allocation with an offset
SharedAlloc.gmma_layout = SharedAlloc.gmma_major = None  # of an allocation that no descriptor names


def alloc_with_layout(
    dtype: PtxType,
    shape: Any,
    swizzle: str | None = None,
    align: int | None = None,
    name: str | None = None,
    *,
    gmma_layout: GmmaLayout | None = None,
    gmma_major: str | Major | None = None,
) -> SharedAlloc:
    """`alloc`, with the layout for a descriptor.

    Example:
        from pyptx.wgmma_layout import layout_for_a

        tile = smem.alloc_with_layout(bf16, (64, 64), "128B", gmma_layout=layout_for_a(dtype=bf16, m=64, k=64), gmma_major="K")
    """
    made = alloc(dtype, shape, swizzle, align, name)
    made.gmma_layout, made.gmma_major = gmma_layout, gmma_major
    return made


def wgmma_tile(
    dtype: PtxType, shape: Any, major: str | Major = "K", *, align: int | None = None, name: str | None = None
) -> SharedAlloc:
    """A tile that a wgmma descriptor can name: (M, K) for major "K", (K, N) for "MN"; the last dimension is contiguous.

    A dimension before them counts stages, which `tile[stage]` chooses.

    Example:
        ring = smem.wgmma_tile(bf16, (4, 64, 64), major="K")       # four stages of (M, K) = (64, 64)
        stage = ring[1]
    """
    made = _wgmma_tile(dtype, shape, major, align=align, name=name)
    made.gmma_major = Major[major] if isinstance(major, str) else Major(major)
    mn, k = shape[-2:] if made.gmma_major is Major.K else reversed(shape[-2:])
    made.gmma_layout = pick_gmma_layout(elem_bytes=dtype.bits // 8, m_or_n=mn, k=k, major=made.gmma_major)
    return made


_names.hints(sys.modules[__name__], "smem")
