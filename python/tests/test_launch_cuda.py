"""The CUDA path without a GPU: an invented libcuda (tests/cuda/fake), an invented tensor type with the exchange API."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILER = shutil.which("g++") or shutil.which("clang++")

PROGRAM = r'''
import ctypes as c, struct, sys

class Device(c.Structure):
    _fields_ = [("type", c.c_int32), ("id", c.c_int32)]
class Type(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]
class DLTensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device", Device), ("ndim", c.c_int32), ("dtype", Type),
                ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]
class Managed(c.Structure):
    _fields_ = [("major", c.c_uint32), ("minor", c.c_uint32), ("context", c.c_void_p), ("deleter", c.c_void_p),
                ("flags", c.c_uint64), ("tensor", DLTensor)]

class Tensor:
    """On device `cuda:device`; `address` is all there is of its memory."""
    def __init__(self, address, shape, device=0):
        self.address, self.shape, self.device = address, shape, device
        self.sizes = (c.c_int64 * len(shape))(*shape)

kept = []

@c.PYFUNCTYPE(c.c_int, c.POINTER(DLTensor), c.POINTER(c.POINTER(Managed)), c.c_void_p, c.c_void_p)
def allocate(prototype, out, context, set_error):
    wanted = prototype.contents
    managed = Managed(1, 3, None, None, 0, wanted)
    managed.tensor.data = 0xABCD00
    kept.append(managed)
    kept.append(Tensor(0xABCD00, tuple(wanted.shape[: wanted.ndim]), wanted.device.id))
    out[0] = c.pointer(managed)
    return 0

@c.PYFUNCTYPE(c.c_int, c.POINTER(Managed), c.POINTER(c.py_object))
def to_object(managed, out):
    c.pythonapi.Py_IncRef(c.py_object(kept[-1]))
    out[0] = kept[-1]
    return 0

@c.PYFUNCTYPE(c.c_int, c.py_object, c.POINTER(DLTensor))
def from_object(tensor, out):
    device, rank = Device(2, tensor.device), len(tensor.shape)
    out[0] = DLTensor(tensor.address, device, rank, Type(2, 32, 1), tensor.sizes, None, 0)
    return 0

@c.PYFUNCTYPE(c.c_int, c.c_int32, c.c_int32, c.POINTER(c.c_void_p))
def current_stream(kind, device, out):
    out[0] = 0x5000 + 16 * kind + device
    return 0

address = lambda function: c.cast(function, c.c_void_p).value
functions = [address(function) for function in (allocate, to_object, from_object, current_stream)]
table = (c.c_uint64 * 7)(1 | 3 << 32, 0, functions[0], 0, *functions[1:])
make = c.pythonapi.PyCapsule_New
make.restype, make.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]
Tensor.__dlpack_c_exchange_api__ = make(c.addressof(table), b"dlpack_exchange_api", None)

fake = c.CDLL(sys.argv[1])
fake.fake_journal.restype = c.c_char_p
fake.fake_parameters.restype = c.c_void_p
fake.fake_set_sizes((c.c_uint * 3)(8, 8, 4), 3)
journal = lambda: fake.fake_journal().decode().split("\n")[:-1]
parameters = lambda form: struct.unpack(form, c.string_at(fake.fake_parameters(), struct.calcsize(form)))

from pyptx import Tile, _core, kernel, ptx
from pyptx.errors import LaunchError, LaunchValueError
from pyptx.types import f32

matrix = Tile("B", 8, f32)

@kernel(in_specs=(matrix,), out_specs=(matrix,), raw_params=[("s32", "n")], grid=lambda B: (B,), block=(32, 1, 1))
def passes(X, Y):
    ptx.ret()

assert _core.devices() == [("Fake", 9, 0)], _core.devices()
for turn in range(3):
    result = passes(Tensor(0x1000 + 256 * turn, (4, 8)), n=-turn)
    assert result.shape == (4, 8) and result.address == 0xABCD00
    calls = journal()
    launch = ["push 1", "launch 4", "shared 0", f"stream {0x5020}", "bytes 20", "pop 0"]
    assert calls[-6:] == launch, calls
    assert len(calls) == (10 if turn == 0 else 6), calls  # module and function are loaded once
    assert parameters("<QQi") == (0x1000 + 256 * turn, 0xABCD00, -turn)
for rows in (6, 7):
    passes(Tensor(0x1000, (rows, 8)), n=1)
    calls = journal()
    assert f"launch {rows}" in calls and len(calls) == 6, calls  # a new size loads nothing
try:
    passes(Tensor(0x1000, (1 << 31, 8)), n=1)
    raise SystemExit("not refused")
except LaunchValueError as error:
    assert "grid" in str(error) and "2147483648" in str(error), error
assert journal() == []

fake.fake_fail_next_launch(700)
try:
    passes(Tensor(0x1000, (4, 8)), n=1)
    raise SystemExit("not refused")
except LaunchError as error:
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in str(error) and "passes" in str(error), error
for wrong, message in ((Tensor(0x1002, (4, 8)), "aligned to only 2 bytes"), (Tensor(0x1000, (4, 9)), "dim mismatch")):
    try:
        passes(wrong, n=1)
        raise SystemExit("not refused")
    except LaunchValueError as error:
        assert "passes: argument `X`" in str(error) and message in str(error), error
try:
    passes(Tensor(0x1000, (4, 8), device=1), n=1)
    raise SystemExit("not refused")
except LaunchError as error:
    assert "no device cuda:1" in str(error), error
print("done", _core.assembler_description())
'''


def run_on_the_invented_driver(tmp_path, program):
    library = tmp_path / "libcuda.so"
    source = ROOT / "tests/cuda/fake/libcuda.cpp"
    subprocess.run([COMPILER, "-std=c++20", "-shared", "-fPIC", "-I", ROOT, source, "-o", library], check=True)
    ran = subprocess.run(
        [sys.executable, "-c", program, library],
        env={**os.environ, "PYPTX_LIBCUDA": str(library)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "PTX4010" in ran.stderr:
        pytest.skip("skipped: no assembler")
    assert ran.returncode == 0 and ran.stdout.startswith("done"), ran.stdout + ran.stderr


@pytest.mark.skipif(COMPILER is None, reason="skipped: no C++ compiler")
def test_a_call_on_cuda_tensors_is_one_launch(tmp_path):
    run_on_the_invented_driver(tmp_path, PROGRAM)


@pytest.mark.skipif(COMPILER is None, reason="skipped: no C++ compiler")
@pytest.mark.parametrize(
    ("bench", "options", "printed"),
    [("dispatch.py", [], "args16 / args2"), ("calls_of_ops.py", ["--only", "rms_norm", "mean"], "cross_entropy mean")],
)
def test_the_call_benchmarks_run_without_a_gpu(bench, options, printed):
    pytest.importorskip("torch", reason="skipped: no torch")
    command = [sys.executable, ROOT / "bench" / bench, "--fake", "--rounds", "1", "--calls", "5", *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if "PTX4010" in ran.stderr:
        pytest.skip("skipped: no assembler")
    assert ran.returncode == 0 and printed in ran.stdout, ran.stdout + ran.stderr


FOREIGN = (
    PROGRAM[: PROGRAM.index("matrix = Tile(")]
    + r'''
import sys, types, numpy

class Array:
    """As CuPy's: known by its interface alone."""
    def __init__(self, address, shape, stream=None, strides=None):
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "<f4", "data": (address, False), "version": 3,
                                         "strides": strides, "stream": stream}

class Stream:
    def __init__(self, address): self.address = address
    def __cuda_stream__(self): return 0, self.address

@kernel(in_specs=(Tile("B", 8, f32), Tile("B", 8, f32)), out_specs=(Tile("B", 8, f32),), block=(32, 1, 1))
def both(X, W, Y):
    ptx.ret()

fake.fake_set_sizes((c.c_uint * 3)(8, 8, 8), 3)
plain, there = Array(0x1000, (4, 8)), Array(0x3000, (4, 8))
def refused(kind, message, *arguments, **options):
    try:
        both(*arguments, **options)
    except kind as error:
        assert message in str(error), error
    else:
        raise SystemExit("not refused: " + message)

for turn in range(2):
    # Outputs: brought, or refused with the way out.
    refused(TypeError, "pass them as out=...", plain, plain)
    out = Array(0x2000, (4, 8))
    assert both(plain, there, out=out) is out
    assert parameters("<QQQ") == (0x1000, 0x3000, 0x2000)
    assert "stream 0" in journal()
    # The stream: of the producer, of the argument, and the launch waits for other producers.
    both(Array(0x1000, (4, 8), stream=7), there, out=out)
    calls = journal()
    assert "stream 7" in calls and "wait 7" not in calls, calls
    both(Array(0x1000, (4, 8), stream=7), Array(0x1000, (4, 8), stream=9), out=out)
    calls = journal()
    assert "record 9" in calls and "wait 7" in calls and "stream 7" in calls, calls
    both(Array(0x1000, (4, 8), stream=1), there, out=out, stream=Stream(99))
    calls = journal()
    assert "record 0" in calls and "wait 99" in calls and "stream 99" in calls, calls
    both(plain, there, out=out, stream=98)
    assert "stream 98" in journal()
    refused(TypeError, "__cuda_stream__", plain, there, out=out, stream="no stream")
    # Beside a framework with a current stream, that one counts.
    both(Tensor(0x1000, (4, 8)), Array(0x1000, (4, 8), stream=7))
    calls = journal()
    assert "record 7" in calls and f"stream {0x5020}" in calls, calls
    refused(ValueError, "current stream", Tensor(0x1000, (4, 8)), there, stream=98)
    both(Tensor(0x1000, (4, 8)), there, stream=0x5020)
    journal()
    refused(LaunchValueError, "both: argument `W`: its strides are (1, 4)", plain, Array(0x1000, (4, 8), strides=(4, 16)), out=out)
    refused(LaunchValueError, "both: argument `X`: its data is aligned to only 2 bytes", Array(0x1002, (4, 8)), there, out=out)

# Frameworks that are known by the module of their arrays make the outputs.
cupy = types.ModuleType("cupy")
class Device:
    def __init__(self, index): assert index == 0
    def __enter__(self): return self
    def __exit__(self, *_): pass
cupy.cuda = types.SimpleNamespace(Device=Device)
class ndarray(Array, numpy.ndarray):
    __cuda_array_interface__ = None  # of the type, as CuPy's, and beside a buffer, which is not to be read
    def __new__(cls, *_, **__): return numpy.ndarray.__new__(cls, 0)
ndarray.__module__ = "cupy._core.core"
def empty(shape, dtype):
    assert dtype == "float32", dtype
    return ndarray(0x7000, shape)
cupy.empty = empty
sys.modules["cupy"] = cupy
x = ndarray(0x1000, (4, 8), stream=7)
for turn in range(2):
    y = both(x, there)
    assert type(y) is ndarray and parameters("<QQQ") == (0x1000, 0x3000, 0x7000)

# What a launch asks of the driver beside its shape.
@kernel(in_specs=(Tile("B", 8, f32),), out_specs=(), cooperative=True, dependent_launch=True, priority=-2, shared_carveout=25)
def asks(X):
    ptx.ret()
fake.fake_set_sizes(None, 0)
journal()
asks(plain)
calls = journal()
assert [line for line in calls if line.startswith("attribute")] == [
    "attribute 2001", "attribute 6001", "attribute 7998", "attribute 14025"], calls
try:
    kernel(shared_carveout=101)(lambda: None)
    raise SystemExit("not refused")
except ValueError as error:
    assert "percentage" in str(error)
print("done")
'''
)


@pytest.mark.skipif(COMPILER is None, reason="skipped: no C++ compiler")
def test_arrays_without_the_exchange_api_and_what_launches_ask(tmp_path):
    run_on_the_invented_driver(tmp_path, FOREIGN)
