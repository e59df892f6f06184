"""Reports and stops name shared memory as its author does, also where it is beyond 48 KiB and a launch gives it as one piece."""

from __future__ import annotations

import numpy as np
import pytest
from simulator_kernels import OF_64, X64, line_of, start

import pyptx
from pyptx import kernel, ptx, smem
from pyptx.types import f32

SMALL, LARGE = 64, 16 * 1024  # elements: static, and dynamic shared memory


def hangs(elements: int, names=(None, None)):
    @kernel(**OF_64, arch="sm_90a")
    def k(X, Y):
        _, _, t = start(X, Y)
        smem.alloc(f32, (elements,))
        full, empty = smem.mbarrier(2, name=names[0]), smem.mbarrier(2, name=names[1])
        with ptx.if_(t == 0):
            for bar in (full, empty):
                ptx.mbarrier.init(bar[0], 1)
                ptx.mbarrier.init(bar[1], 1)
        ptx.bar.sync(0)
        ptx.mbarrier.wait(empty[1], 0)
        ptx.ret()

    return k


def first_report(k) -> pyptx.simulated.Report:
    with pyptx.simulator(check="all", raises=False) as run:
        k(X64)
    return run.reports[0]


@pytest.mark.parametrize("elements", [SMALL, LARGE])
def test_a_wait_names_the_authors_barrier(elements):
    k = hangs(elements)
    text = str(first_report(k))
    assert "waits for phase 0 (parity 0) of the mbarrier `mbar_1`+8" in text
    line = line_of(k, "full, empty =")
    assert f"`mbar_1` is allocated at {__file__}:{line}: `full, empty = smem.mbarrier(2, name=names[0])" in text
    assert "dyn_smem" not in text


@pytest.mark.parametrize("elements", [SMALL, LARGE])
def test_a_name_of_the_authors_is_not_explained(elements):
    names = ("names", "empty")  # both stand in the line that allocates
    text = str(first_report(hangs(elements, names)))
    assert "of the mbarrier `empty`+8" in text and "is allocated at" not in text


def past_its_array(elements: int, index: int):
    @kernel(**OF_64, arch="sm_90a")
    def k(X, Y):
        _, py, t = start(X, Y)
        first = smem.alloc(f32, (elements,), name="first")
        smem.alloc(f32, (64,), name="second")
        ptx.inst.st.shared.f32(ptx.addr(first, (t + index) * 4), 1.0)
        ptx.inst.st.global_.f32(ptx.addr(py + t * 4), 1.0)
        ptx.ret()

    return k


@pytest.mark.parametrize("elements", [SMALL, LARGE])
def test_an_index_that_leaves_its_allocation(elements):
    report = first_report(past_its_array(elements, elements - 32))
    assert report.name == "out_of_bounds"
    assert "writes 4 bytes of `second`, by an address made of that of `first`" in report.message
    with pyptx.simulator(check="all"):
        past_its_array(elements, 0)(X64)


def test_a_stop_has_each_allocation():
    def look(stop):
        assert stop.shared["second"].array().shape == (64,)
        assert stop.shared["first"].array().shape == (LARGE,)
        return "quit"

    with pyptx.simulator() as run, pytest.raises(pyptx.errors.SimulationError):
        run.stop_at_once(look)
        past_its_array(LARGE, 0)(np.zeros(64, np.float32))
