"""Calls of kernels in profilers: torch's, and NVTX ranges where they are asked for."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

import pyptx.profiling
from pyptx import Tile, kernel, ptx, reg
from pyptx.types import f32, u32

torch = pytest.importorskip("torch", reason="skipped: no torch")


def make(name: str, offset: int = 0):
    def body(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        off = reg.from_(ptx.special.tid.x(), u32) * 4
        value = reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, ptx.addr(px + off, offset))
        ptx.inst.st.global_.f32(ptx.addr(py + off), value)
        ptx.ret()

    body.__name__ = body.__qualname__ = name
    return kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=(1, 1, 1), block=(32, 1, 1))(body)


def counts(profile) -> dict[str, int]:
    return {event.key: event.count for event in profile.key_averages()}


def test_each_call_is_an_event_with_the_kernels_name():
    named = make("copied_in_a_profile")
    x = torch.ones(32)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as first:
        for _ in range(3):  # the first is traced, the others are warm
            named(x)
    assert counts(first)["copied_in_a_profile"] == 3
    named(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as second:
        torch.add(x, x)
    assert "copied_in_a_profile" not in counts(second)


def test_a_call_in_a_compiled_graph_is_an_event_too():
    named = make("copied_in_a_graph")
    compiled = torch.compile(lambda x: named(x) + 1, backend="aot_eager")
    x = torch.ones(32)
    compiled(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        compiled(x)
    assert counts(profile)["copied_in_a_graph"] == 1


def test_an_event_ends_with_a_call_that_fails():
    beyond = make("reads_beyond", offset=4)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(2):
            with pytest.raises(pyptx.errors.SimulationError):
                beyond(torch.ones(32))
        torch.add(torch.ones(1), 1)
    events = {event.name: event for event in profile.events()}
    assert counts(profile)["reads_beyond"] == 2
    assert events["aten::add"].cpu_parent is None


@pytest.fixture
def said(monkeypatch):
    """A package `nvtx` that writes down what it is told."""
    told: list[str] = []
    fake = types.ModuleType("nvtx")
    fake.push_range = lambda name: told.append(f"+{name}")
    fake.pop_range = lambda: told.append("-")
    monkeypatch.setitem(sys.modules, "nvtx", fake)
    pyptx.profiling._ranges.cache_clear()
    yield told
    pyptx.profiling._ranges.cache_clear()


def test_nvtx_ranges_where_asked(said):
    named, beyond, x = make("copied_in_a_range"), make("fails_in_a_range", offset=4), torch.ones(32)
    named(x)
    with pyptx.profiling.nvtx():
        named(x)
        with pytest.raises(pyptx.errors.SimulationError):
            beyond(x)
        with pyptx.profiling.nvtx():
            pass
        named(x)
    named(x)
    assert said == ["+copied_in_a_range", "-", "+fails_in_a_range", "-", "+copied_in_a_range", "-"]


def test_a_profiler_that_fails_stops_no_call(said, monkeypatch):
    named, x = make("copied_all_the_same"), torch.ones(32)
    monkeypatch.setattr(sys.modules["nvtx"], "push_range", lambda name: 1 // 0)
    with pyptx.profiling.nvtx():
        monkeypatch.setattr(sys, "unraisablehook", lambda what: said.append(what.exc_type.__name__))
        assert torch.equal(named(x), x)
    assert said == ["ZeroDivisionError"]


def test_nvtx_without_anyone_who_knows_it_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "nvtx", None)
    monkeypatch.setattr(torch.version, "cuda", None)
    pyptx.profiling._ranges.cache_clear()
    with pytest.raises(ImportError, match="pip install nvtx"), pyptx.profiling.nvtx():
        raise AssertionError("not reached")


PROGRAM = """
import sys, types
fake = types.ModuleType("nvtx")
fake.push_range, fake.pop_range = (lambda name: print("range", name)), (lambda: None)
sys.modules["nvtx"] = fake
sys.path.insert(0, {folder!r})
import torch
from test_profiling import make
sys.modules.pop("pyptx.profiling")
make("in_a_process")(torch.ones(32))
print("listened" if "pyptx.profiling" in sys.modules else "nobody listened")
"""


@pytest.mark.parametrize(("value", "said"), [("1", "range in_a_process\nlistened\n"), ("0", "nobody listened\n")])
def test_the_environment_asks_too(tmp_path, monkeypatch, value, said):
    monkeypatch.setenv("PYPTX_NVTX", value)
    program = PROGRAM.format(folder=str(__file__).rpartition("/")[0])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, said), done.stderr
