"""The calls of every_kernel.py: nothing is reported by the simulator with all checks, whichever GPU it stands for (each launch runs once, though
several GPUs make it); those for all GPUs since sm_80 assemble for sm_120; on a GPU, the same bits in 100 runs, and on eight streams at once."""

from __future__ import annotations

import re
import shutil
import subprocess
import zlib
from unittest import mock

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from every_kernel import EVERY, LARGE  # noqa: E402

import pyptx  # noqa: E402
from pyptx import _core, kernels  # noqa: E402
from pyptx.launch import kept as kept_calls  # noqa: E402
from pyptx.specialise.specialisation import Specialisation  # noqa: E402

CALLS = EVERY | LARGE
hopper = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
on_a_gpu = pytest.mark.skipif(not hopper, reason="skipped: no sm_90 GPU")
RUNS, STREAMS = 100, 8


TARGETS = ("sm_80", "sm_90a", "sm_100a", "sm_103a")
OVER = 5040  # PTX5040: the budget is used up
assembled: set[str] = set()


@pytest.fixture
def launched():
    """What launches since the test last cleared it: each text without the name of its target, and the shape of its launch."""
    launches, plan = {}, Specialisation.plan

    def kept(self, sizes, device):
        record, text = self.record(sizes), self.text()
        shape = (record.grid, record.dynamic_shared, tuple(sizes.items()))
        launches[re.sub(r"(?m)^\.target .*", "", text), shape] = text
        return plan(self, sizes, device)

    _core.keep_calls(True)  # no call is made without Python
    with mock.patch.object(Specialisation, "plan", kept):
        yield launches
    kept_calls.watch_calls()


@pytest.mark.parametrize("name", EVERY)
def test_nothing_is_reported(name, launched, tmp_path):
    seen = set()
    for target in TARGETS:
        launched.clear()
        with kernels.simulated_target(target), pyptx.simulator(budget=1, raises=False) as run:
            EVERY[name]("cpu")
        assert {report.code for report in run.reports} <= {OVER}
        begun = set(launched)
        assert begun
        if begun <= seen:  # the launches of an earlier target
            continue
        launched.clear()
        seed = zlib.crc32(name.encode())
        with kernels.simulated_target(target), pyptx.simulator(check="all", seed=seed, raises=False) as run:
            made = EVERY[name]("cpu")
        assert [str(report) for report in run.reports] == []
        assert all(each.float().isfinite().all() for each in made)
        assert set(launched) == begun
        seen |= begun
        if target == "sm_80":
            assembles_for_sm_120(set(launched.values()), tmp_path)


def assembles_for_sm_120(texts: set[str], folder):
    if not shutil.which("ptxas"):
        return
    for text in texts - assembled:
        (folder / "kernel.ptx").write_text(text)
        subprocess.run(["ptxas", "-arch=sm_120", "-o", "/dev/null", folder / "kernel.ptx"], check=True)
    assembled.update(texts)


def made_from(seed: int, name: str) -> list:
    torch.manual_seed(seed)
    return CALLS[name]("cuda")


def bits(tensor):
    return tensor.detach().contiguous().view(-1).view(torch.uint8)


def equal(one: list, two: list) -> bool:
    return all(torch.equal(bits(a), bits(b)) for a, b in zip(one, two, strict=True))


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize("name", CALLS)
def test_the_same_bits_every_time(name):
    first = made_from(0, name)
    assert all(equal(first, made_from(0, name)) for _ in range(RUNS))


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize("name", CALLS)
def test_eight_streams_at_once(name):
    alone = [made_from(seed, name) for seed in range(STREAMS)]
    torch.cuda.synchronize()
    streams, found = [torch.cuda.Stream() for _ in alone], [[] for _ in alone]
    for _ in range(5):
        for seed, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                found[seed].append(made_from(seed, name))
    torch.cuda.synchronize()
    assert all(equal(wanted, once) for wanted, kept in zip(alone, found, strict=True) for once in kept)
