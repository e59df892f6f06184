"""What the tests of whole kernels with mistakes by name share (test_unseen_*.py).

A kernel is a function of a `Mistake`: it asks `mistake("no fence")` where it would leave the fence out, and gives pairs of what it computed and
what NumPy or torch computes in float64.  Numbers are small integers, so equal means equal.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

import pyptx  # noqa: E402

NONE = "no mistake"  # nothing is out of order without it
WRONG = "wrong numbers"  # nothing is out of order: the numbers are wrong, as they would be on a GPU
REFUSED = "refused"  # where it is written
TWO_LINES = {5050, 5051, 5052, 5053, 5054, 5055, 5058, 5061}
KERNELS: dict[str, dict[str, tuple]] = {}  # by module and name: the function, and what becomes of each mistake


class Mistake:
    def __init__(self, name: str = ""):
        self.name = name
        self.asked: set[str] = set()

    def __call__(self, name: str) -> bool:
        self.asked.add(name)
        return self.name == name


def kernel_with(mistakes: dict[str, str], one_result: bool = True):
    """Keeps the function, and for each mistake the codes of which one is the first report's, or NONE, WRONG, REFUSED.

    `one_result`: every schedule leaves the same in all arrays, also in those that CTAs share for a while.
    """

    def keep(function):
        function.one_result = one_result
        KERNELS.setdefault(function.__module__, {})[function.__name__] = (function, mistakes)
        return function

    return keep


def names(module: str) -> list[str]:
    return list(KERNELS[module])


def mistakes(module: str) -> list[tuple[str, str]]:
    return [(name, mistake) for name, (_, all_) in KERNELS[module].items() for mistake in all_]


def integers(*shape: int, low: int = -3, high: int = 4, dtype=torch.bfloat16, seed: int = 0):
    draw = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randint(low, high, shape, generator=draw).to(dtype)


def run(function, mistake: Mistake, seed: int = 0, explore: int = 0):
    """The recording, whether all results are equal, the seed that fails of `explore` more schedules."""
    equal = True
    with pyptx.simulator(check="all", raises=False, budget=1 << 24, seed=seed) as found:
        for got, want in function(mistake):
            equal = equal and bool((got.double() == want.double()).all())
    failed = found.explore(explore, compare=function.one_result) if explore else None
    return found, equal, failed


def check_right(module: str, name: str):
    function, all_ = KERNELS[module][name]
    mistake = Mistake()
    found, equal, failed = run(function, mistake, explore=20)
    assert [str(each) for each in found.reports] == []
    assert equal and failed is None
    assert mistake.asked == set(all_), "a mistake that the kernel does not know, or that has no line"


def check_mistake(module: str, name: str, mistake: str):
    function, all_ = KERNELS[module][name]
    expected = all_[mistake]
    if expected == REFUSED:
        with pytest.raises((pyptx.errors.AuthoringError, ValueError)):
            run(function, Mistake(mistake))
        return
    found, equal, _ = run(function, Mistake(mistake))
    said = [str(each) for each in found.reports]
    if expected in (NONE, WRONG):
        assert said == [] and equal == (expected == NONE)
        return
    assert said and f"PTX{found.reports[0].code}" in expected.split(), said[:1]
    if found.reports[0].code in TWO_LINES:
        assert said[0].count(f"{module}.py:") >= 2, said[0]
