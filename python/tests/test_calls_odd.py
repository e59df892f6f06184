"""Memory that is laid out or owned in odd ways, and calls for which there is too little of it."""

from __future__ import annotations

import ctypes
import pathlib
import subprocess
import sys

import pytest
from test_launch import make_scale

np = pytest.importorskip("numpy", reason="skipped: no numpy")

from pyptx.errors import LaunchError, LaunchTypeError  # noqa: E402


@pytest.fixture(params=["cold", "warm"])
def scale(request):
    made = make_scale()
    if request.param == "warm":
        made(np.ones(64, np.float32))
    return made


def test_arrays_of_ctypes_say_nothing_of_strides(scale):
    x, y = (ctypes.c_float * 64)(*range(64)), (ctypes.c_float * 64)()
    for _ in range(2):
        np.testing.assert_array_equal(scale(x), 2 * np.arange(64))
        assert scale(x, out=y) is y and y[63] == 126
        assert len(scale((ctypes.c_float * 0)())) == 0
        with pytest.raises(LaunchError, match="scale: argument `X`"):
            scale(((ctypes.c_float * 4) * 16)())
        with pytest.raises(LaunchTypeError, match="scale: argument `X`"):
            scale((ctypes.c_float.__ctype_be__ * 64)())


def test_a_mask_is_not_lost(scale):
    x = np.ma.masked_array(np.ones(64, np.float32), mask=np.arange(64) < 3)
    for _ in range(2):
        with pytest.raises(LaunchTypeError, match=r"scale: argument `X`: .*its mask would be lost \(pass \.data"):
            scale(x)
        with pytest.raises(LaunchTypeError, match="scale: argument `Y`: .*its mask would be lost"):
            scale(np.ones(64, np.float32), out=x)
        np.testing.assert_array_equal(scale(x.filled(0))[:4], [0, 0, 0, 2])


LIMITED = """
import resource, sys
sys.path.insert(0, {tests!r})
import numpy as np
from pyptx import simulator
from test_launch import make_scale

scale = make_scale()
with simulator.options(cores=1):
    scale(np.ones(4096, np.float32))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
x = np.zeros({count}, np.float32)
resource.setrlimit(resource.RLIMIT_AS, (used + {bytes}, resource.RLIM_INFINITY))
with simulator.options(cores=4):
    try:
        y = scale(x)
    except MemoryError:
        print("no memory")
    else:
        print(y[-1])
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
print(scale(np.ones(4096, np.float32))[4095])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="skipped: limits of memory as Linux has them")
@pytest.mark.parametrize(
    ("count", "bytes_", "said"),
    [
        (1 << 26, 300 << 20, "no memory"),  # for y, and not for the notes of what is written of it
        (4096, 4 << 20, "0.0"),  # for no stack of a thread: this thread does it all
    ],
)
def test_too_little_memory_is_an_error_and_no_end(count, bytes_, said):
    script = LIMITED.format(tests=str(pathlib.Path(__file__).parent), count=count, bytes=bytes_)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == [said, "2.0"]
