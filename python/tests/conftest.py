"""What every test here shares: a cache folder of the run's own, numbers that are the same on every run, and functions of tensors that
choose their kernels anew, whatever tests before it have called.

Each test draws from generators that begin at its name, alone or beside others. `PYPTX_TEST_SEED=7` takes other numbers, and other examples
of hypothesis, to look for what these do not show.
"""

import atexit
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

# Before jax is imported: other processes share the device.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

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
    if "pyptx._core" in sys.modules:
        sys.modules["pyptx._core"].forget_launches()


@pytest.fixture
def asked(monkeypatch):
    """The types of the functions of tensors that Python was asked to choose for, in order."""
    from pyptx.kernels._remembered import Remembered
    from pyptx.kernels._row_function import RowFunction
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
