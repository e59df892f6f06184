"""The simulator's options and what it counts.

    with pyptx.simulator.options(seed=3, budget=10_000):
        y = k(x)                                            # another schedule, and an end to a loop that has none
    print(pyptx.simulator.statistics())

Options hold for the whole process, so that threads of JAX see them, too; statistics are of the calling thread's last run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from pyptx import _core

__all__ = ["Options", "Statistics", "current", "options", "statistics"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How kernels run on the simulator.

    cores: of this machine that run CTAs; 0: all.  CTAs that may talk to each other run on one.
    budget: instructions of warps that a launch may execute before it ends with an error.  The default is some minutes of one core.
    seed: of other schedules of warps; 0: the plain one.  The same seed gives the same bytes.
    uninitialised: whether it is reported what comes of registers, memory and outputs that nothing wrote.

    Example:
        assert pyptx.simulator.Options(seed=3).budget == 1 << 32
    """

    cores: int = 0
    budget: int = 1 << 32
    seed: int = 0
    uninitialised: bool = True

    def __post_init__(self):
        for name, least, most in (("cores", 0, 1 << 10), ("budget", 1, (1 << 63) - 1), ("seed", 0, (1 << 63) - 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise TypeError(f"{name} of the simulator is an int, not {value!r}")
            if not least <= value <= most:
                raise ValueError(f"{name} of the simulator is {least} to {most}, not {value!r}")


@dataclass(frozen=True)
class Statistics:
    """What a run executed.  An instruction that a warp executes counts once for the warp, and for each of its active threads.

    Example:
        executed = pyptx.simulator.statistics().warp_instructions
    """

    warp_instructions: int
    thread_instructions: int


def current() -> Options:
    """The options that hold now.

    Example:
        assert pyptx.simulator.current().seed == 0
    """
    return Options(**dict(zip((row.name for row in fields(Options)), _core.simulator_options(), strict=True)))


@contextmanager
def options(**changes: Any) -> Iterator[Options]:
    """Other options inside `with`: cores, budget, seed, uninitialised.  Those that are not named stay.

    Example:
        with pyptx.simulator.options(seed=3, budget=10_000):
            assert pyptx.simulator.current().seed == 3
    """
    before = current()
    try:
        after = replace(before, **changes)
    except TypeError as error:
        unknown = changes.keys() - asdict(before).keys()
        if not unknown:
            raise
        raise TypeError(f"the simulator has no option {min(unknown)!r}; it has {', '.join(asdict(before))}") from error
    _core.use_simulator_options(**asdict(after))
    try:
        yield after
    finally:
        _core.use_simulator_options(**asdict(before))


def statistics() -> Statistics:
    """What the last run on the simulator that this thread asked for executed.

    Example:
        print(pyptx.simulator.statistics())
    """
    return Statistics(*_core.simulator_statistics())
