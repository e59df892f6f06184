"""The kernels of test_published_shapes.py with each synchronising statement left out in turn, or made weaker: all checks of the
simulator report it, unless the kernel is right without."""

from __future__ import annotations

import re

import pytest
import test_published_shapes as shapes

import pyptx
from pyptx import _core

SYNCHRONISES = re.compile(r"bar\.|barrier|fence|wait|commit|arrive|expect_tx|acquire|acq_rel|release|\.relaxed\.")
WEAKER = [(".release", ".relaxed"), (".acquire", ".relaxed"), (".acq_rel", ".relaxed"), (".gpu", ".cta")]

# Of a kernel: statements without which it is right, and why.
RIGHT_WITHOUT = {
    "decoupled_look_back": {"st.relaxed.gpu.global.u64 [%rd5], %rd6;": "the sum of all before it comes as well, later"},
    "radix_sort": {"bar.sync 0;": "the last of a pass: the next one's first stands before the keys are written again"},
    "exchange_of_a_cluster": {
        "fence.mbarrier_init.release.cluster;": "the arrival at the cluster's barrier releases",
        "barrier.cluster.wait.aligned;": "the last: each CTA has got all that comes to it, and has waited for it",
    },
    "attention_in_turns": {
        "@%p5 mbarrier.arrive.shared.b64 %rd20, [empty_keys+0];": "nobody fills the stage again",
        "@%p5 mbarrier.arrive.shared.b64 %rd20, [empty_keys+8];": "nobody fills the stage again",
        "@%p5 mbarrier.arrive.shared.b64 %rd20, [empty_values+8];": "nobody fills the stage again",
    },
}
NAMES = [name.removeprefix("test_") for name in vars(shapes) if name.startswith("test_")]


def launch_of(name: str, monkeypatch):
    """What a test of shapes launches: body, arrays, grid, block, cluster."""
    found = []

    def keep(body, *arrays, grid=1, block=32, cluster=1):
        found.append((body, arrays, grid, block, cluster))
        raise StopIteration

    monkeypatch.setattr(shapes, "launch", keep)
    with pytest.raises(StopIteration):
        getattr(shapes, f"test_{name}")(*([3] if name == "attention_in_turns" else []))
    return found[0]


def mutants(body: str):
    """(what was changed, the body then) for each statement that synchronises."""
    parts = re.split(r"(?<=;)|(?<=:)(?=\s)", body)
    for i, part in enumerate(parts):
        if not SYNCHRONISES.search(part) or ".shared .align" in part:
            continue
        wait = "mbarrier.try_wait" in part  # else its predicate is nobody's: it says yes at once
        changed = [re.sub(r"mbarrier\.try_wait.*;", "setp.eq.u32 %p30, 0, 0;", part) if wait else ""]
        changed += [part.replace(a, b) for a, b in WEAKER if a in part and not re.search("fence|barrier", part)]
        for instead in changed:
            yield part.strip(), "".join([*parts[:i], instead, *parts[i + 1 :]])


def is_reported(body, arrays, grid, block, cluster) -> bool:
    given = [shapes.aligned(a) for a in arrays]
    with pyptx.simulator(check="all", raises=False, budget=1 << 22) as run:
        _core.run_text(
            shapes.text_of(body, len(given)), "k.ptx", "", (grid, 1, 1), (block, 1, 1), (cluster, 1, 1), 0, given
        )
    return bool(run.reports)


@pytest.mark.parametrize("name", NAMES)
def test_each_statement_that_synchronises_is_missed(name, monkeypatch):
    body, *rest = launch_of(name, monkeypatch)
    assert not is_reported(body, *rest)
    silent = {statement for statement, mutant in mutants(body) if not is_reported(mutant, *rest)}
    assert silent == set(RIGHT_WITHOUT.get(name, {}))
