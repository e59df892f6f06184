"""What clang 19 makes of clang_runs.c at each level, on the simulator, and again from the transpiled text: the bytes of the same
source compiled for this machine."""

from __future__ import annotations

import ctypes
import mmap
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pyptx import _core, codegen, parser, simulator

SOURCE = Path(__file__).with_name("clang_runs.c")
CLANG = "clang-19"
if not shutil.which(CLANG):
    pytest.skip(f"skipped: no {CLANG}", allow_module_level=True)

numbers = np.random.default_rng(3)


def integers(count: int, low: int, high: int, kind: str = "i4"):
    return numbers.integers(low, high, count).astype(kind)


PARTS = np.frombuffer(np.array([5, 77, 3 << 32 | (0xFFFE << 16) | 1, 0x40200000], "i8").tobytes(), "u1")
# Of a kernel: threads, then its arguments; arrays are buffers.
LAUNCHES = {
    "vectors": (8, numbers.standard_normal(32).astype("f4"), np.zeros(32, "f4"), integers(64, -50, 50), np.zeros(64, "i4"),
                integers(64, -1000, 1000, "i2"), np.zeros(64, "i2"), numbers.standard_normal(16), np.zeros(16)),
    "words": (32, integers(64, -(2**31), 2**31 - 1), np.zeros(288, "i4")),
    "doublewords": (32, integers(64, -(2**62), 2**62, "i8"), np.zeros(192, "i8")),
    "structs": (32, PARTS, integers(64, 0, 2**62, "u8"), np.zeros(32 * 32, "u1"), np.zeros(32, "u4")),
    "calls": (32, integers(5, 0, 9), np.zeros(32, "i4"), np.zeros(32, "f4")),
    "switches": (32, np.array([0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 0, 7, 8, 1, 5, 2], "i4"), 18, np.zeros(32, "i4")),
    "stack": (32, integers(32, 0, 40), np.zeros(32, "i4")),
    "floats": (32, numbers.standard_normal(32).astype("f4") * 3, np.zeros(256, "f4"), numbers.standard_normal(32) * 5, np.zeros(160)),
    "bytes": (32, integers(32, 0, 2, "u1"), np.zeros(32, "u1"), integers(32, 0, 256, "u1"), np.zeros(32, "i2")),
}  # fmt: skip


def compiled(to: Path, *options: str) -> Path:
    command = [CLANG, "-w", "-ffp-contract=off", *options, SOURCE, "-o", to]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return to


def aligned(array):
    """A copy at a multiple of 64 bytes, in memory that the simulator and the host take."""
    memory = mmap.mmap(-1, array.nbytes)
    memory[:] = array.tobytes()
    return memory


def by_host(library, name: str, threads: int, arguments) -> list[bytes]:
    given = [aligned(each) if isinstance(each, np.ndarray) else each for each in arguments]
    values = [ctypes.c_char.from_buffer(each) if isinstance(each, mmap.mmap) else each for each in given]
    pointers = [ctypes.byref(each) if isinstance(each, ctypes.c_char) else each for each in values]
    for thread in range(threads):
        ctypes.c_int.in_dll(library, "tid").value = thread
        getattr(library, name)(*pointers)
    return [bytes(each) for each in given if isinstance(each, mmap.mmap)]


def simulated(text: bytes, name: str, threads: int, arguments) -> list[bytes]:
    given = [aligned(each) if isinstance(each, np.ndarray) else np.int32(each).tobytes() for each in arguments]
    _core.run_text(text, "clang_runs.ptx", name, (1, 1, 1), (threads, 1, 1), (1, 1, 1), 0, given)
    return [bytes(each) for each in given if isinstance(each, mmap.mmap)]


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3", "-Os"])
def test_the_bytes_are_the_hosts(level, tmp_path):
    library = ctypes.CDLL(compiled(tmp_path / "host.so", "-DHOST", "-O1", "-shared", "-fPIC", "-lm"))
    device = ["--target=nvptx64-nvidia-cuda", "-march=sm_75", "-Xclang", "-target-feature", "-Xclang", "+ptx83", "-S"]
    text = compiled(tmp_path / "clang_runs.ptx", *device, level).read_bytes()
    assert [one for one in parser.check(text) if one.severity == "error"] == []
    programs = [codegen.run(codegen.ptx_to_python(text, sugar=sugar)).encode() for sugar in ("none", "all")]
    for name, (threads, *arguments) in LAUNCHES.items():
        right = by_host(library, name, threads, arguments)
        with simulator(check="all"):
            assert simulated(text, name, threads, arguments) == right, name
        for program in programs:
            assert simulated(program, name, threads, arguments) == right, name
