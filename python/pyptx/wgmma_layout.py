"""Shared-memory layouts that wgmma descriptors can name (PTX ISA 9.7.15.5.1), picked from the shape of a tile.

Pure arithmetic: nothing here emits an instruction.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["GmmaLayout", "LayoutType", "Major", "layout_for_a", "layout_for_b", "pick_gmma_layout"]


class LayoutType(enum.IntEnum):
    """Bits 62-63 of a descriptor."""

    INTERLEAVE = 0
    B128 = 1
    B64 = 2
    B32 = 3


class Major(enum.IntEnum):
    """The dimension whose elements lie next to each other."""

    K = 0
    MN = 1


@dataclass(frozen=True)
class GmmaLayout:
    """Byte offsets of a descriptor and the swizzle that the tensor copy and the shared tile must use with it."""

    layout_type: LayoutType
    leading_byte_offset: int
    stride_byte_offset: int
    tma_swizzle: str
    smem_swizzle: str | None

    @property
    def swizzle_code(self) -> int:
        return int(self.layout_type)


# Bytes of a row -> layout, for the widths that a descriptor can name.
_BY_WIDTH = {
    16: (LayoutType.INTERLEAVE, "NONE", None),
    32: (LayoutType.B32, "32B", "32B"),
    64: (LayoutType.B64, "64B", "64B"),
    128: (LayoutType.B128, "128B", "128B"),
}


def pick_gmma_layout(*, elem_bytes: int, m_or_n: int, k: int, major: Major) -> GmmaLayout:
    """The layout of an (m_or_n, k) operand stored with `major` contiguous; ValueError if no descriptor can name it."""
    major = Major(major)
    width = (k if major is Major.K else m_or_n) * elem_bytes
    if major is Major.K and m_or_n % 8:
        raise ValueError(f"a K-major operand needs M divisible by 8 (core matrices have 8 rows), not {m_or_n}")
    if major is Major.MN and k % 8:
        raise ValueError(f"an MN-major operand needs K divisible by 8 (core matrices have 8 rows), not {k}")
    stripes = width > 128 and width % 128 == 0
    if width not in _BY_WIDTH and not stripes:
        raise ValueError(
            f"rows of {width} bytes are not one of the canonical widths 16, 32, 64, 128 or a multiple of 128"
        )
    kind, tma, smem = _BY_WIDTH[128 if stripes else width]
    if stripes:
        leading, stride = (m_or_n if major is Major.K else k) * 128, 1024
    elif major is Major.MN and kind is LayoutType.INTERLEAVE:
        leading, stride = 8 * width, 16
    else:
        leading, stride = 16, 8 * width
    return GmmaLayout(kind, leading, stride, tma, smem)


def layout_for_a(*, dtype, m: int, k: int) -> GmmaLayout:
    """A(M, K), K contiguous."""
    return pick_gmma_layout(elem_bytes=dtype.bits // 8, m_or_n=m, k=k, major=Major.K)


def layout_for_b(*, dtype, k: int, n: int) -> GmmaLayout:
    """B(K, N), N contiguous."""
    return pick_gmma_layout(elem_bytes=dtype.bits // 8, m_or_n=n, k=k, major=Major.MN)
