"""What a call launches, found without running it: so that a test runs each launch once, though several GPUs make it."""

from __future__ import annotations

import contextlib
import re
from unittest import mock

import pyptx
from pyptx import _core
from pyptx.launch import kept
from pyptx.specialise.specialisation import Specialisation

BUDGET_USED_UP = 5040


@contextlib.contextmanager
def noted():
    """A dictionary that fills with the launches made meanwhile: the text without the name of its target, with the shape of the launch, and
    the whole text."""
    launches, plan = {}, Specialisation.plan

    def noting(self, sizes, device):
        record, text = self.record(sizes), self.text()
        shape = (record.grid, record.dynamic_shared, tuple(sizes.items()))
        launches[re.sub(r"(?m)^\.target .*", "", text), shape] = text
        return plan(self, sizes, device)

    _core.keep_calls(True)  # no call is made without Python
    try:
        with mock.patch.object(Specialisation, "plan", noting):
            yield launches
    finally:
        kept.watch_calls()


def launches_of(call) -> set:
    """The keys of `noted` of a call whose launches all end at their first instruction."""
    with noted() as launches, pyptx.simulator(budget=1, raises=False) as run:
        call()
    assert {report.code for report in run.reports} == {BUDGET_USED_UP}
    return set(launches)
