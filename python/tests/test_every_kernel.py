"""The calls of every_kernel.py: nothing is reported by the simulator with all checks, whichever GPU it stands for (each launch runs once, though
several GPUs make it); those for all GPUs since sm_80 assemble for sm_120; on a GPU, the same bits in 100 runs, and on eight streams at once."""

from __future__ import annotations

import shutil
import subprocess
import zlib

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from every_kernel import EVERY, LARGE  # noqa: E402
from launches import launches_of, noted  # noqa: E402

import pyptx  # noqa: E402
from pyptx import kernels  # noqa: E402

CALLS = EVERY | LARGE
hopper = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
on_a_gpu = pytest.mark.skipif(not hopper, reason="skipped: no sm_90 GPU")
RUNS, STREAMS = 100, 8


TARGETS = ("sm_80", "sm_90a", "sm_100a", "sm_103a")
assembled: set[str] = set()


@pytest.mark.parametrize("name", EVERY)
def test_nothing_is_reported(name, tmp_path):
    seen = set()
    for target in TARGETS:
        with kernels.simulated_target(target):
            wanted = launches_of(lambda: EVERY[name]("cpu"))
            if wanted <= seen:  # by an earlier target, too
                continue
            with pyptx.simulator(check="all", seed=zlib.crc32(name.encode()), raises=False) as run, noted() as launched:
                made = EVERY[name]("cpu")
        assert [str(report) for report in run.reports] == []
        assert all(each.float().isfinite().all() for each in made)
        assert set(launched) == wanted
        seen |= wanted
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
