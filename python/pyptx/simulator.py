"""The simulator, from Python: options, reports, counts, traces, schedules, breakpoints.

    with pyptx.simulator(seed=3, budget=10_000) as run:
        y = k(x)
    print(run.lines())                                      # counts for each line of the source
    run.trace.save("k.json")                                # for ui.perfetto.dev
    failing = run.explore(20)                               # the same launches under 20 other schedules

simulated.py has the class of `run`.  `pyptx.simulator.options(...)` only changes options.  Both apply to the whole process, so that they also
apply to threads of JAX.  `statistics()` describes the last run of the calling thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from pyptx import _core

if TYPE_CHECKING:
    from pyptx.simulated import Run

__all__ = ["Options", "Simulator", "Statistics", "current", "options", "simulator", "statistics"]

Schedule = Literal["random", "synchronisation"]
_SCHEDULES = ("random", "synchronisation")


@dataclass(frozen=True, kw_only=True)
class Options:
    """How kernels run on the simulator.

    cores: the number of this machine's cores to use; 0: all.  A kernel whose CTAs may communicate runs on one.
    budget: the number of instructions of warps after which a launch ends with an error.  The default takes one core some minutes.
    seed: chooses a schedule of the warps; 0 is the plain one.  The same seed gives the same bytes.
    uninitialised: whether uses of undefined registers and memory, and outputs that are not written, are reported.
    schedule: the kind of schedule.  "random": warps take turns after few instructions, in random order.  "synchronisation": warps
    have random priorities, which change at a few of the instructions that synchronise.
    checks: rules of docs/sanitizer.md, separated by commas; or "all", or "none".
    heap: the number of bytes that `malloc` of kernels may have given and not got back; beyond them it returns 0.

    Example:
        assert pyptx.simulator.Options(seed=3).budget == 1 << 32
    """

    cores: int = 0
    budget: int = 1 << 32
    seed: int = 0
    uninitialised: bool = True
    schedule: Schedule = "random"
    checks: str = "none"
    heap: int = 8 << 20

    def __post_init__(self):
        ranges = {"cores": (0, 1 << 10), "budget": (1, (1 << 63) - 1), "seed": (0, (1 << 63) - 1), "heap": (0, 1 << 40)}
        for name, (least, most) in ranges.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise TypeError(f"{name} of the simulator must be an int, not {value!r}")
            if not least <= value <= most:
                raise ValueError(f"{name} of the simulator must be {least} to {most}, not {value!r}")
        if self.schedule not in _SCHEDULES:
            raise ValueError(f"schedule of the simulator must be one of {', '.join(_SCHEDULES)}, not {self.schedule!r}")

    def _use(self):
        told = asdict(self)
        told["schedule"] = _SCHEDULES.index(self.schedule)
        _core.use_simulator_options(**told)


@dataclass(frozen=True)
class Statistics:
    """Numbers of executed instructions: an instruction counts once for its warp, and once for each active thread of the warp.

    Example:
        executed = pyptx.simulator.statistics().warp_instructions
    """

    warp_instructions: int
    thread_instructions: int


def current() -> Options:
    """The options in effect.

    Example:
        assert pyptx.simulator.current().seed == 0
    """
    *plain, schedule, checks, heap = _core.simulator_options()
    names = [row.name for row in fields(Options)]
    return Options(**dict(zip(names, [*plain, _SCHEDULES[schedule], checks, heap], strict=True)))


def changed(before: Options, changes: dict[str, Any]) -> Options:
    """`before` with these changes; TypeError for an unknown name."""
    try:
        return replace(before, **changes)
    except TypeError as error:
        unknown = changes.keys() - asdict(before).keys()
        if not unknown:
            raise
        raise TypeError(f"the simulator has no option {min(unknown)!r}; it has {', '.join(asdict(before))}") from error


@contextmanager
def options(**changes: Any) -> Iterator[Options]:
    """Changes options inside `with`: cores, budget, seed, uninitialised, schedule, heap.  The others stay.

    Example:
        with pyptx.simulator.options(seed=3, budget=10_000):
            assert pyptx.simulator.current().seed == 3
    """
    before = current()
    after = changed(before, changes)
    after._use()
    try:
        yield after
    finally:
        before._use()


def statistics() -> Statistics:
    """What the last run on the simulator that this thread asked for executed.

    Example:
        print(pyptx.simulator.statistics())
    """
    return Statistics(*_core.simulator_statistics())


def _checks(check: str | Iterable[str]) -> dict[str, Any]:
    """The options of names of checks; that of what nobody wrote is on but for "none"."""
    if not isinstance(check, Iterable):
        raise TypeError(f'check= of the simulator takes names of checks, "all" or "none", not {check!r}')
    names = [check] if isinstance(check, str) else list(check)
    rules = [name for name in names if name != "uninitialised"]
    return {"uninitialised": names != ["none"], "checks": ",".join(rules) or "none"}


class Simulator:
    """`pyptx.simulator`: called, it is a block whose launches are looked into; its functions are those of this module.

    Example:
        with pyptx.simulator(seed=3) as run:
            assert pyptx.simulator.current().seed == 3
    """

    Options, Statistics = Options, Statistics
    current, options, statistics = staticmethod(current), staticmethod(options), staticmethod(statistics)

    def __call__(
        self,
        *,
        check: str | Iterable[str] = "uninitialised",
        seed: int | None = None,
        schedule: Schedule | None = None,
        budget: int | None = None,
        cores: int | None = None,
        heap: int | None = None,
        lines: bool = True,
        trace: bool = True,
        launches: bool = True,
        writers: bool = False,
        raises: bool = True,
    ) -> Run:
        """A block whose launches on the simulator are looked into: `with pyptx.simulator(...) as run`.

        check: "uninitialised", which holds anyhow; "all", or names of rules of docs/sanitizer.md, beside it ("all,-data_race" leaves
        one out); "none".
        seed, schedule, budget, cores, heap: see `Options`; those that are not given stay.
        lines, trace, launches, writers: what is recorded, for `run.lines()`, `run.trace`, `run.explore()` and `run.writer()`.  A
        launch that records lines, a trace or writers runs on one core, several times slower.
        raises: False: a launch that ends with a report counts as done, with what it wrote until then.

        Example:
            with pyptx.simulator(seed=3, budget=10_000) as run:
                pass                                        # y = k(x)
            print(run.lines())
        """
        from pyptx.simulated import Run  # not by `import pyptx`: it needs time

        told = {"seed": seed, "schedule": schedule, "budget": budget, "cores": cores, "heap": heap}
        chosen = {name: value for name, value in told.items() if value is not None}
        recorded = {"lines": lines, "trace": trace, "launches": launches, "writers": writers, "raises": raises}
        return Run({**chosen, **_checks(check)}, recorded)

    def __repr__(self) -> str:
        return "<pyptx.simulator>"


simulator = Simulator()
