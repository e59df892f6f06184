"""Shared-memory layouts that wgmma descriptors can name (PTX ISA 9.7.15.5.1), picked from the shape of a tile.

The rules are the library's (ptx/arch/matrix.h). Nothing here emits an instruction.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pyptx import _core
from pyptx._core import PtxType

__all__ = ["GmmaLayout", "LayoutType", "Major", "layout_for_a", "layout_for_b", "pick_gmma_layout"]

# Bits 62-63 of a descriptor, by the names of 0.1.1: B128 for the swizzle of 128 bytes.
_CODES = {name: code for name, _, code in _core.swizzles() if code >= 0}
LayoutType = enum.IntEnum(
    "LayoutType",
    {"INTERLEAVE" if name == "NONE" else f"B{name[:-1]}": code for name, code in _CODES.items()},
    module=__name__,
)
LayoutType.__doc__ = """The swizzle of a wgmma descriptor.

Example:
    assert pyptx.wgmma_layout.LayoutType.B128 == 1
"""


class Major(enum.IntEnum):
    """The dimension whose elements lie next to each other.

    Example:
        assert pyptx.wgmma_layout.Major["MN"] == 1
    """

    K = 0
    MN = 1


@dataclass(frozen=True)
class GmmaLayout:
    """Byte offsets of a descriptor and the swizzle that the tensor copy and the shared tile must use with it.

    Example:
        stride = pyptx.wgmma_layout.layout_for_a(dtype=bf16, m=64, k=64).stride_byte_offset
    """

    layout_type: LayoutType
    leading_byte_offset: int
    stride_byte_offset: int
    tma_swizzle: str
    smem_swizzle: str | None

    @property
    def swizzle_code(self) -> int:
        return int(self.layout_type)


def _pick(bits: int, m_or_n: int, k: int, major: Major) -> GmmaLayout:
    rows, columns = (m_or_n, k) if major is Major.K else (k, m_or_n)
    swizzle, leading, stride = _core.tile_layout(bits, rows, columns, major is Major.MN)
    return GmmaLayout(LayoutType(_CODES[swizzle]), leading, stride, swizzle, None if swizzle == "NONE" else swizzle)


def pick_gmma_layout(*, elem_bytes: float, m_or_n: int, k: int, major: Major) -> GmmaLayout:
    """The layout of an (m_or_n, k) operand stored with `major` contiguous; ValueError if no descriptor can name it.

    `elem_bytes` is 0.5 for 4-bit elements.

    Example:
        layout = pyptx.wgmma_layout.pick_gmma_layout(elem_bytes=2, m_or_n=64, k=64, major=pyptx.wgmma_layout.Major.K)
        assert layout.tma_swizzle == "128B"
    """
    return _pick(round(elem_bytes * 8), m_or_n, k, Major(major))


def layout_for_a(*, dtype: PtxType, m: int, k: int) -> GmmaLayout:
    """A(M, K), K contiguous.

    Example:
        assert pyptx.wgmma_layout.layout_for_a(dtype=bf16, m=64, k=32).tma_swizzle == "64B"
    """
    return _pick(dtype.bits, m, k, Major.K)


def layout_for_b(*, dtype: PtxType, k: int, n: int) -> GmmaLayout:
    """B(K, N), N contiguous.

    Example:
        assert pyptx.wgmma_layout.layout_for_b(dtype=bf16, k=64, n=64).tma_swizzle == "128B"
    """
    return _pick(dtype.bits, n, k, Major.MN)
