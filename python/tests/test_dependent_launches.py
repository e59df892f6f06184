"""A launch that may start before the one ahead of it has ended waits for it (griddepcontrol.wait) before it touches what that one
writes; the simulator, which runs them one after the other, reports who does not."""

from __future__ import annotations

import numpy as np
import pytest
from simulator_kernels import OF_64, X64, line_of, start

import pyptx
from pyptx import kernel, ptx, reg
from pyptx.types import f32


def element(pointer, thread):
    return ptx.addr(pointer + thread * 4)


def make_first(tells: bool = True):
    @kernel(**OF_64, arch="sm_90")
    def first(X, Y):
        px, py, thread = start(X, Y)
        if tells:
            ptx.griddepcontrol.launch_dependents()
        value = reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, element(px, thread))
        ptx.inst.add.f32(value, value, 1.0)
        ptx.inst.st.global_.f32(element(py, thread), value)
        ptx.ret()

    return first


def make_second(waits: str, dependent: bool = True):
    @kernel(**OF_64, arch="sm_90", dependent_launch=dependent)
    def second(X, Y):
        px, py, thread = start(X, Y)
        value = reg.scalar(f32)
        if waits == "all":
            ptx.griddepcontrol.wait()
        if waits in ("one", "one and a barrier"):
            with ptx.if_(thread == 0):
                ptx.griddepcontrol.wait()
        if waits == "one and a barrier":
            ptx.bar.sync(0)
        ptx.inst.ld.global_.f32(value, element(px, thread))
        if waits == "behind the load":
            ptx.griddepcontrol.wait()
        ptx.inst.add.f32(value, value, 1.0)
        ptx.inst.st.global_.f32(element(py, thread), value)
        ptx.ret()

    return second


def reports(first, second, between=lambda y: y):
    with pyptx.simulator(check="all", raises=False) as run:
        y = first(X64)
        second(between(y))
    return run.reports


@pytest.mark.parametrize("waits", ["never", "one", "behind the load"])
def test_a_dependent_launch_that_does_not_wait_is_reported(waits):
    first, second = make_first(), make_second(waits)
    said = reports(first, second)
    assert [r.name for r in said] == ["missing_wait"]
    assert said[0].line == line_of(second, "ld.global_")
    assert f":{line_of(first, 'st.global_')} (`st.global.f32`)" in said[0].message
    assert "griddepcontrol.wait" in said[0].notes[0]


@pytest.mark.parametrize("waits", ["all", "one and a barrier"])
def test_one_that_waits_is_not(waits):
    assert reports(make_first(), make_second(waits)) == []


def test_nor_is_a_launch_behind_one_that_lets_nobody_start():
    assert reports(make_first(tells=False), make_second("never")) == []
    assert reports(make_first(), make_second("never", dependent=False)) == []


def test_nor_is_one_that_reads_what_others_have_written_since():
    def changed(y):
        y += np.float32(1)
        return y

    assert reports(make_first(), make_second("never"), changed) == []
    assert reports(make_first(), make_second("never"), lambda y: X64) == []
