"""Which GPU's kernels run on arrays in the memory of the CPU, on the simulator: `simulated_target`."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager

from pyptx import _core
from pyptx._arch import detect_arch

__all__ = ["family", "simulated", "simulated_target"]


OWN = ("sm_90a", "sm_100a", "sm_103a")  # targets whose tensor cores are not mma.sync's, and which have clusters


class Simulated:
    """`target`: what kernels run on arrays of the CPU; None: those that every GPU since sm_80 has.  `choices`: functions whose calls do not
    say it, so that what they remember holds outside of `simulated_target` alone."""

    def __init__(self):
        self.target: str | None = None
        self.choices: list[_core.Choice] = []


simulated = Simulated()


@contextmanager
def simulated_target(target: str) -> Iterator[None]:
    """Inside `with`, functions of arrays in the CPU's memory are made by the kernels that a GPU of this target runs, "sm_90a" or "sm_100a", on the
    simulator: products, attention, and functions of rows, of which Hopper and later GPUs have some by clusters.  It holds for the whole process.
    Raises ValueError for other targets, which all have the kernels of "sm_80".

    Example:
        a = torch.randn(128, 64).bfloat16()
        with kernels.simulated_target("sm_100a"):
            c = kernels.matmul(a, a.mT)                 # by tcgen05
    """
    if target not in ("sm_80", *OWN):
        raise ValueError(f"no kernels are written for {target!r}; there are some for sm_80, {', '.join(OWN)}")
    before, simulated.target = simulated.target, target
    _core.ask_python(simulated.choices, True)
    try:
        yield
    finally:
        simulated.target = before
        _core.ask_python(simulated.choices, before is not None)


def family(on_gpu: bool) -> str:
    """What multiplies: "sm_90a" by wgmma, "sm_100a" and "sm_103a" by tcgen05, "" by mma.sync."""
    return of_device() if on_gpu else named(simulated.target or "")


@functools.cache
def of_device() -> str:
    return named(detect_arch())


def named(target: str) -> str:
    return target if target in OWN else ""
