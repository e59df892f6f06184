"""What the tests of pyptx.simulator share."""

from __future__ import annotations

import inspect

import numpy as np

from pyptx import Tile, ptx, reg
from pyptx.types import f32, u32

OF_64 = {"in_specs": (Tile(64, f32),), "out_specs": (Tile(64, f32),), "grid": (1, 1, 1), "block": (64, 1, 1)}
X64 = np.arange(64, dtype=np.float32)


def start(X, Y):
    """Both pointers, and the thread's number."""
    return *ptx.global_ptrs(X, Y), reg.from_(ptx.special.tid.x(), u32)


def line_of(function, text: str) -> int:
    """The first line of a function, or of a kernel, that has this text."""
    lines, first = inspect.getsourcelines(getattr(function, "_fn", function))
    return first + next(i for i, line in enumerate(lines) if text in line)
