"""Which GPU's kernels run: those of the device or, for arrays in the CPU's memory, which the simulator runs, those that `simulated_target` names."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyptx import _core
from pyptx._arch import detect_arch
from pyptx.kernels._compiled import constant_for_compiler

__all__ = ["family", "has_clusters", "is_in_cpu", "on_gpu", "simulated", "simulated_target"]


OWN = ("sm_90a", "sm_100a", "sm_103a")  # targets whose tensor cores are not mma.sync's, and which have clusters


class Simulated:
    """`target`: the GPU whose kernels run on arrays of the CPU; None: the kernels for every GPU since sm_80.  `choices`: functions whose
    calls do not name the target; what they remember is used outside of `simulated_target` only."""

    def __init__(self):
        self.target: str | None = None
        self.choices: list[_core.Choice] = []

    def add(self, choice: _core.Choice):
        """A module may be loaded inside of `simulated_target`."""
        self.choices.append(choice)
        _core.ask_python([choice], self.target is not None)


simulated = Simulated()


@contextmanager
def simulated_target(target: str) -> Iterator[None]:
    """Inside `with`, functions of arrays in the CPU's memory run the kernels for a GPU of this target, on the simulator.  The targets are
    "sm_90a", "sm_100a" and "sm_103a", which have products and attention by their own tensor cores and functions of rows by clusters, and
    "sm_80", whose kernels all other GPUs run.  It holds for the whole process.

    Raises ValueError for other targets.

    Example:
        a = torch.randn(128, 64).bfloat16()
        with kernels.simulated_target("sm_100a"):
            c = kernels.matmul(a, a.mT)                 # by tcgen05
    """
    if target not in ("sm_80", *OWN):
        raise ValueError(
            f"no kernels are written for {target!r}; legal are sm_80 (also for all other GPUs), {', '.join(OWN)}"
        )
    before, simulated.target = simulated.target, target
    _core.ask_python(simulated.choices, True)
    try:
        yield
    finally:
        simulated.target = before
        _core.ask_python(simulated.choices, before is not None)


def family(on_gpu: bool) -> str:
    """Which kernels multiply: "sm_90a", those by wgmma; "sm_100a" and "sm_103a", those by tcgen05; "", those by mma.sync."""
    return of_device() if on_gpu else named(simulated.target or "")


@functools.cache
def of_device() -> str:
    return named(detect_arch())


def named(target: str) -> str:
    return target if target in OWN else ""


def has_clusters(tensor) -> bool:
    """Whether the kernels that run on this tensor may use clusters of CTAs: it is on a GPU since Hopper, or in the CPU's memory inside a
    `simulated_target` that has clusters."""
    return of_hopper() if getattr(tensor, "is_cuda", False) else is_in_cpu(tensor) and simulated.target in OWN


def is_in_cpu(array) -> bool:
    """Whether the simulator runs the kernels of this array of NumPy or torch."""
    return not getattr(array, "is_cuda", not hasattr(array, "__array_interface__"))


def on_gpu(array) -> bool:
    """Whether kernels run on a GPU for this array; those of JAX's values, which may be part of a program, where its programs run."""
    if hasattr(array, "is_cuda"):
        return array.is_cuda
    return hasattr(array, "aval") and sys.modules["jax"].default_backend() == "gpu"


@constant_for_compiler
def of_hopper() -> bool:
    """Whether the GPU is a Hopper or a later one."""
    return int(detect_arch().strip("sm_af")) >= 90
