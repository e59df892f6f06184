"""What every test here shares: a cache folder of the run's own, and numbers that are the same on every run.

Each test draws from generators that begin at its name, alone or beside others. `PYPTX_TEST_SEED=7` takes other numbers, and other examples
of hypothesis, to look for what these do not show.
"""

import atexit
import gc
import os
import random
import shutil
import sys
import tempfile
import zlib

import hypothesis
import numpy as np
import pytest

if "PYPTX_CACHE_DIR" not in os.environ:  # before the first kernel: the library reads it once
    os.environ["PYPTX_CACHE_DIR"] = tempfile.mkdtemp(prefix="pyptx-cache-")
    atexit.register(shutil.rmtree, os.environ["PYPTX_CACHE_DIR"], ignore_errors=True)

SEED = os.environ.get("PYPTX_TEST_SEED")
if SEED is None:
    hypothesis.settings.register_profile("same", derandomize=True, database=None)
    hypothesis.settings.load_profile("same")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    seed = zlib.crc32(f"{item.nodeid} {SEED}".encode())
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


@pytest.fixture
def asked(monkeypatch):
    """The types of the functions of tensors that Python was asked to choose for, in order."""
    from pyptx.kernels._call import Remembered, RowFunction
    from pyptx.kernels.attention import Attention
    from pyptx.kernels.matmul import Matmul

    seen = []
    for owner in (Matmul, RowFunction, Remembered, Attention):
        before = owner._choose

        def counted(self, *arguments, before=before, **options):
            seen.append(type(self).__name__)
            return before(self, *arguments, **options)

        monkeypatch.setattr(owner, "_choose", counted)
    return seen


@pytest.fixture
def nothing_remembered():
    """Functions of tensors choose their kernels at each call, as a test changes what they choose by."""
    from pyptx import _core
    from pyptx.kernels._target import simulated

    _core.ask_python(simulated.choices, True)
    yield
    _core.ask_python(simulated.choices, False)


@pytest.fixture
def gradients_choose_anew():
    """So do the gradients that earlier tests of this process asked for."""
    from pyptx import _core

    choices = [each for each in gc.get_objects() if issubclass(type(each), _core.Choice)]
    _core.ask_python(choices, True)
    yield
    _core.ask_python(choices, False)
