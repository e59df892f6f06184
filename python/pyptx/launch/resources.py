"""Registers, shared memory and occupancy of kernels, and assembling many kernels at once.  Neither needs a GPU."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from pyptx import _core
from pyptx.errors import AssemblerWarning, PerformanceWarning
from pyptx.launch import ahead

__all__ = ["Resources", "compile", "of", "warn"]

LIBRARY = os.path.join(os.path.dirname(os.path.dirname(__file__)), "kernels", "")


@dataclass(frozen=True)
class Resources:
    """The resources of one specialisation.  `registers`, `stack`, `spill_stores` and `spill_loads` are those of a thread, the others
    those of a CTA; memory is in bytes.  `blocks` CTAs of `threads` are resident on a multiprocessor; `limiter` says why no more."""

    registers: int
    barriers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int
    dynamic_shared: int
    threads: int
    blocks: int
    warps: int
    most_warps: int
    limiter: str

    @property
    def occupancy(self) -> float:
        """Resident warps, as a part of those that a multiprocessor holds."""
        return self.warps / self.most_warps


def of(found) -> Resources:
    """Assembles a specialisation (through the cache) and reads the assembler's log."""
    options, module = found.options, found.module
    threads = math.prod(found.block)
    dynamic = max(options.smem, module.dynamic_shared)
    used, fits, remarks = _core.resources(
        found.text(), options.arch, found.signature.entry, module.lines, threads, dynamic, options.assembler
    )
    warn(remarks)
    return Resources(*used, dynamic, threads, *fits)


def warn(remarks) -> None:
    """The assembler's remarks as Python warnings at the author's lines.  What it says of the speed of pyptx.kernels is not for those who call
    them: `kernel.report()` shows it."""
    for remark in remarks:
        category = PerformanceWarning if remark.severity == "note" else AssemblerWarning
        if category is PerformanceWarning and (remark.file or "").startswith(LIBRARY):
            continue
        text = "; ".join((f"PTX{remark.code} {remark.message}", *remark.notes))
        warnings.warn_explicit(text, category, remark.file or "<kernel>", remark.line or 1)


def _listed(kernels: Any) -> list[Any]:
    """The items of `compile`, of the right kind."""
    items = list(kernels) if isinstance(kernels, Iterable) else [kernels]
    for item in items:
        pair = isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], Mapping)
        if not (
            hasattr(item[0] if pair else item, "specialise") or isinstance(item, (FunctionType, MethodType, partial))
        ):
            raise TypeError(
                f"compile takes a list of kernels, of pairs (kernel, {{name: value}}), and of functions without arguments, not {item!r}"
            )
    return items


def compile(kernels: Iterable[Any], threads: int | None = None) -> list[Resources]:
    """Traces and assembles kernels before their first call, several at once.

    An item is a kernel whose sizes are all known, or a pair of a kernel and the keyword arguments of one specialisation:
    `pyptx.compile([rms_norm, (gemm, {"M": 4096, "BM": 128})])`.  Or it is a function without arguments, all of whose calls of kernels are
    assembled, and not launched.
    """
    made = []
    for item in _listed(kernels):  # bodies are Python: one after the other
        if isinstance(item, tuple):
            made.append(item[0].specialise(**item[1]))
        elif hasattr(item, "specialise"):
            made.append(item.specialise())
        else:
            made += ahead.met_by(item)
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:  # the assembler runs without Python's lock
        return list(pool.map(of, made))
