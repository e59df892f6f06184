"""Calls of kernels with whatever Python can pass: never a crash, never a wrong result, only clean errors.

    python fuzz/calls.py [--calls 1000000 | --seconds 60] [--seed 1] [--jobs 1] [--chunk 20000]

Each call takes a kernel that is new (cold) or was called before (warm) and passes it tensors and arrays that fit and such
that do not, by position and by name, with and without `out=`, with template values and runtime scalars, under modes and
transformations of torch; among them objects whose attributes lie, raise or answer everything, and DLPack capsules of
nonsense.  An answer is compared with NumPy's.  Chunks of calls run in processes of their own: one that dies is reported
with the command that repeats it.  What no library can notice is not tried: pointers that lie, memory that was unmapped, a
storage that was cut to a part, and torch._neg_view of packed memory.
"""

from __future__ import annotations

import argparse
import array
import collections
import contextlib
import ctypes
import faulthandler
import functools
import json
import logging
import pathlib
import random
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python/tests"))
from dlpack_layout import DLTensor, Versioned

from pyptx import Tile, errors, kernel, ptx, reg, simulator
from pyptx.types import b32, f32, s32, u32

try:
    import torch
    from torch._subclasses import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError:
    torch = None

warnings.simplefilter("ignore")


class Hostile(Exception):
    """Raised by what is passed."""


# --- Kernels, and what they compute ---


def elements(count, *tensors):
    """The index of this thread's element, and a pointer to it in each tensor; 32 threads a CTA."""
    index = reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)
    return index < count, [pointer + index * 4 for pointer in ptx.global_ptrs(*tensors)]


OPTIONS = {"grid": lambda N: ((N + 31) // 32,), "block": (32, 1, 1)}


def make_scale():
    @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), **OPTIONS)
    def scale(X, Y, *, factor=2.0):
        inside, (x, y) = elements(X.shape[0], X, Y)
        value = reg.scalar(f32)
        with ptx.if_(inside):
            ptx.inst.ld.global_.f32(value, ptx.addr(x))
            ptx.inst.mul.f32(value, value, reg.scalar(f32, init=float(factor)))
            ptx.inst.st.global_.f32(ptx.addr(y), value)
        ptx.ret()

    return scale, lambda x, factor=2.0: (np.asarray(x) * np.float32(factor),), (np.float32,), (np.float32,)


def make_axpy():
    @kernel(in_specs=(Tile("N", f32), Tile("N", f32)), out_specs=(Tile("N", f32),), raw_params=[("f32", "alpha"), ("u32", "N")], **OPTIONS)  # fmt: skip
    def axpy(A, B, Y):
        inside, (a, b, y) = elements(ptx.param(u32, "N"), A, B, Y)
        left, right = reg.scalar(f32), reg.scalar(f32)
        with ptx.if_(inside):
            ptx.inst.ld.global_.f32(left, ptx.addr(a))
            ptx.inst.ld.global_.f32(right, ptx.addr(b))
            ptx.inst.mul.f32(left, left, ptx.param(f32, "alpha"))
            ptx.inst.add.f32(left, left, right)
            ptx.inst.st.global_.f32(ptx.addr(y), left)
        ptx.ret()

    def expected(a, b, alpha):
        return (np.asarray(a) * np.float32(float(alpha)) + np.asarray(b),)

    return axpy, expected, (np.float32, np.float32), (np.float32,)


def make_split():
    """Two outputs, of bits and of integers."""

    @kernel(in_specs=(Tile("N", b32),), out_specs=(Tile("N", b32), Tile("N", s32)), **OPTIONS)
    def split(X, Y, Z):
        inside, (x, y, z) = elements(X.shape[0], X, Y, Z)
        value = reg.scalar(b32)
        with ptx.if_(inside):
            ptx.inst.ld.global_.b32(value, ptx.addr(x))
            ptx.inst.st.global_.b32(ptx.addr(y), value)
            ptx.inst.not_.b32(value, value)
            ptx.inst.st.global_.b32(ptx.addr(z), value)
        ptx.ret()

    def expected(x):
        bits = np.asarray(x).view(np.uint32)
        return bits, (~bits).view(np.int32)

    return split, expected, (np.float32,), (np.uint32, np.int32)


def make_increase():
    """Writes its input."""

    @kernel(in_specs=(Tile("N", s32),), out_specs=(), mutates=("X",), **OPTIONS)
    def increase(X):
        inside, (x,) = elements(X.shape[0], X)
        value = reg.scalar(s32)
        with ptx.if_(inside):
            ptx.inst.ld.global_.s32(value, ptx.addr(x))
            ptx.inst.add.s32(value, value, 1)
            ptx.inst.st.global_.s32(ptx.addr(x), value)
        ptx.ret()

    return increase, lambda x: (), (np.int32,), ()


def make_rows():
    """A fixed and a symbolic size, strides that are not packed, and an output as wide."""

    @kernel(in_specs=(Tile("M", 32, f32, packed=False), Tile("M", f32)), out_specs=(Tile("M", f32),), grid=lambda M: (M,), block=(32, 1, 1))  # fmt: skip
    def rows(X, W, Y):
        _, pw, py = ptx.global_ptrs(X, W, Y)
        row = reg.from_(ptx.special.ctaid.x(), u32)
        value = reg.scalar(f32)
        with ptx.if_(reg.from_(ptx.special.tid.x(), u32) == 0):
            ptx.inst.ld.global_.f32(value, ptx.addr(pw + row * 4))
            ptx.inst.st.global_.f32(ptx.addr(py + row * 4), value)
        ptx.ret()

    return rows, lambda x, w: (np.asarray(w),), (np.float32, np.float32), (np.float32,)


MAKERS = [make_scale, make_axpy, make_split, make_increase, make_rows]


# --- Objects that lie ---


class Older(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
NAMES = [b"dltensor_versioned", b"dltensor", b"used_dltensor", b"other"]  # kept: a capsule borrows its name


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def failing_deleter(managed):
    ctypes.pythonapi.PyErr_SetNone(ctypes.py_object(Hostile))


class Pretender:
    """The DLPack protocol over memory of its own, with any field made up."""

    def __init__(self, r: random.Random):
        self.memory = np.arange(256, dtype=np.float32)
        n = r.choice([1, 31, 64])
        self.sizes = (ctypes.c_int64 * 70)(*r.choice([[n], [n, 1], [4, 16], [-1], [0], [1 << 62, 8], [1 << 40]]))
        self.steps = (ctypes.c_int64 * 70)(*[r.choice([1, 1, 2, -1, 0]) for _ in range(70)])
        versioned = r.random() < 0.7
        managed = self.managed = Versioned() if versioned else Older()
        tensor = managed.tensor
        tensor.data = r.choice([self.memory.ctypes.data] * 6 + [None])
        tensor.device[0], tensor.device[1] = r.choice([(1, 0)] * 8 + [(3, 0), (9, 0), (-1, 0), (1, 7)])
        tensor.ndim = r.choice([1] * 8 + [2, 0, -1, 33, 64, 1 << 30])
        tensor.code, tensor.bits, tensor.lanes = r.choice(
            [(2, 32, 1)] * 8 + [(0, 32, 1), (1, 8, 4), (5, 64, 1), (255, 0, 0)]
        )
        tensor.shape = r.choice([ctypes.addressof(self.sizes)] * 9 + [None])
        tensor.strides = r.choice([None, None, ctypes.addressof(self.steps)])
        tensor.offset = r.choice([0, 0, 0, 4, 2])
        managed.deleter = ctypes.cast(failing_deleter, ctypes.c_void_p).value if r.random() < 0.2 else None
        if versioned:
            managed.major, managed.minor, managed.flags = (
                r.choice([1, 1, 1, 1, 0, 2]),
                r.randrange(9),
                r.choice([0, 0, 1, 2, 7]),
            )
        self.name = r.choice([NAMES[0 if versioned else 1]] * 9 + NAMES[2:])
        self.device = r.choice(
            [tuple(tensor.device)] * 8 + [5, None, (), (1,), ("cpu", 0), (None, None), (2, 0), (1 << 70, 0), [1, 0]]
        )
        self.answer = r.choice([True] * 9 + [False])

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        return new_capsule(ctypes.addressof(self.managed), self.name, None) if self.answer else None


class Echo:
    """Has every attribute, each of which is itself."""

    def __getattr__(self, name):
        return self

    def __call__(self, *arguments, **keywords):
        return self

    def __dlpack__(self, **keywords):
        return self

    def __dlpack_device__(self):
        return self


class Raising:
    """Every attribute raises."""

    def __getattribute__(self, name):
        raise Hostile(name)


class Interface:
    """A __cuda_array_interface__ of nonsense."""

    def __init__(self, r: random.Random):
        full = {
            "shape": r.choice([(4,), (-1,), ("a",), 5, (1 << 70,), (0,)]),
            "typestr": r.choice(["<f4", ">f4", "<\0004", "f", "|O8", 7, "<f3"]),
            "data": r.choice([(0, False), 3, (), ("a", 1), (-1, True), None]),
            "strides": r.choice([None, (4,), (4, 4), (3,), "x"]),
            "stream": r.choice([None, 1, "x", -1]),
            "mask": r.choice([None, 1]),
            "version": 3,
        }
        self.__cuda_array_interface__ = {name: value for name, value in full.items() if r.random() < 0.9}


class Freeing:
    """A number, or an array, that lets go of another argument's memory while it is read."""

    def __init__(self, victim, r: random.Random):
        self.victim, self.array = victim, np.zeros(r.choice([1, 64]), np.float32)

    def free(self):
        if torch is not None and isinstance(self.victim, torch.Tensor):
            with contextlib.suppress(Exception):
                self.victim.set_(torch.empty(0, dtype=self.victim.dtype).untyped_storage())

    def __index__(self):
        self.free()
        return 3

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **keywords):
        self.free()
        return self.array.__dlpack__(**{k: v for k, v in keywords.items() if k == "max_version"})


class Lists(list):
    """A list that is not what it says when it is iterated."""

    def __iter__(self):
        raise Hostile("iter")

    def __len__(self):
        return 1 << 40


NOTHING = [
    *(
        None,
        0,
        1.5,
        True,
        1j,
        1 << 80,
        float("nan"),
        np.float32(2),
        np.int64(5),
        Ellipsis,
        NotImplemented,
        int,
        lambda: 0,
    ),
    *("text", b"bytes" * 16, bytearray(256), ("a", "b"), [], {}, range(3), object()),
]


def plain(r: random.Random, dtype, shape):
    """An array that fits, of one of the frameworks."""
    found = np.asarray(np.random.default_rng(r.randrange(1 << 30)).integers(-9, 9, shape), dtype)
    kind = r.random()
    if torch is not None and kind < 0.55:
        return torch.from_numpy(found)
    if kind < 0.6 and found.ndim == 1:
        return array.array({"f": "f", "i": "i", "u": "I"}[np.dtype(dtype).kind], found.tolist())
    if kind < 0.65:
        return memoryview(found)
    if kind < 0.7:  # packed, and says nothing of strides
        return np.ctypeslib.as_ctypes(np.ascontiguousarray(found))
    return found


@functools.cache
def costly(kind: str):
    """Tensors that take long to make."""
    x = torch.randn(64)
    if kind == "nested":
        return torch.nested.nested_tensor([x, x])
    return torch.quantize_per_tensor(x, 0.1, 0, torch.qint32 if kind == "wide" else torch.qint8)


def odd_tensor(r: random.Random, shape):
    """A tensor of torch that is not quite what a kernel takes."""
    x = torch.randn(shape if len(shape) else (4,))
    choice = r.randrange(26)
    if choice == 0:
        return x.to(
            r.choice(
                [torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int8, torch.bool, torch.complex64]
            )
        )
    if choice == 1:
        return x.requires_grad_()
    if choice == 2:
        return x.to_sparse()
    if choice == 3:
        return torch.eye(4).to_sparse_csr()
    if choice == 4:
        return x.to("meta")
    if choice == 5:
        return FakeTensorMode().from_tensor(x)
    if choice == 6:
        return costly(r.choice(["wide", "narrow"]))
    if choice == 7:
        return costly("nested")
    if choice == 8:
        x.untyped_storage().resize_(0)
        return x
    if choice == 9:
        return torch.randn(2 * len(x)) if x.dim() != 1 else torch.randn(2 * len(x))[::2]
    if choice == 10:
        return torch.zeros(1).expand(x.shape)
    if choice == 11:
        return torch.frombuffer(bytearray(4 * x.numel() + 1), dtype=torch.uint8)[1:].view(torch.uint8)
    if choice == 12:
        return torch.randn(x.shape, dtype=torch.complex64).conj().imag
    if choice == 13:
        return torch.randn(x.shape, dtype=torch.complex64).conj()
    if choice == 14:
        return torch.nn.Parameter(x)
    if choice == 15:
        return x.as_subclass(Sub)
    if choice == 16:
        return x.as_subclass(Refusing)
    if choice == 17:
        return torch.tensor(3.0)
    if choice == 18:
        return torch.empty(0)
    if choice == 19:
        return x.to_mkldnn()
    if choice == 20:
        with torch.inference_mode():
            return x * 2
    if choice == 21:
        return torch.fx.Proxy(torch.fx.Node(torch.fx.Graph(), "x", "placeholder", "x", (), {}))
    if choice == 22:
        return TwoTensor(x, x)
    if choice == 23:
        return x.unsqueeze(0)
    if choice == 24:
        return torch.ones((1,) * r.choice([2, 30, 40]))
    return torch.as_strided(torch.zeros(1), (1 << 40,), (0,))


def odd_array(r: random.Random, dtype, shape):
    choice = r.randrange(8)
    fits = np.zeros(shape, dtype)
    if choice == 0:
        fits.flags.writeable = False
        return fits
    if choice == 1:
        return np.frombuffer(bytes(fits.nbytes), dtype).reshape(shape)
    if choice == 2:
        return np.zeros(
            shape, r.choice([">f4", "f8", "i8", "O", "S4", "V4", "M8[s]", "c8", "?", "f2", "g", "U1", "f4,i4"])
        )
    if choice == 3:
        return np.ma.masked_array(fits)
    if choice == 4:
        return np.zeros((1,) * r.choice([2, 33, 64]), dtype)
    if choice == 5:
        return np.frombuffer(bytearray(fits.nbytes + 1), np.uint8)[1:].view(np.uint8)
    if choice == 6:
        return fits[..., ::-1] if fits.ndim else fits
    return np.lib.stride_tricks.as_strided(np.zeros(1, dtype), shape, (0,) * len(shape))


def anything(r: random.Random, dtype, shape):
    kind = r.random()
    if kind < 0.35 and torch is not None:
        return odd_tensor(r, shape)
    if kind < 0.55:
        return odd_array(r, dtype, shape)
    if kind < 0.75:
        return Pretender(r)
    return r.choice(
        [Echo(), Raising(), Interface(r), Lists([1]), plain(r, dtype, (r.choice([0, 3, 63]),)), *r.sample(NOTHING, 4)]
    )


if torch is not None:
    from torch.testing._internal.two_tensor import TwoTensor

    class Sub(torch.Tensor):
        pass

    class Refusing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, arguments=(), keywords=None):
            raise Hostile("function")

    class Passing(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            return function(*arguments, **(keywords or {}))

    class Functions(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), keywords=None):
            return function(*arguments, **(keywords or {}))


def of_torch(error) -> bool:
    frame = error.__traceback__
    while frame.tb_next is not None:
        frame = frame.tb_next
    return torch is not None and (type(error) is RuntimeError or "/torch/" in frame.tb_frame.f_code.co_filename)


# --- Calls ---


class Worker:
    def __init__(self, seed: int):
        self.r = random.Random(seed)
        self.kernels = [make() for make in MAKERS]
        self.counts: collections.Counter = collections.Counter()

    def one(self):
        r = self.r
        which = r.randrange(len(MAKERS))
        if r.random() < 0.01:
            self.kernels[which] = MAKERS[which]()
        call, expected, inputs, outputs = self.kernels[which]
        n = r.choice([1, 7, 32, 33, 64]) if r.random() < 0.97 else 1 + r.randrange(200)
        shapes = [(n, 32) if call.__name__ == "rows" and i == 0 else (n,) for i in range(len(inputs))]
        arrays = [plain(r, dtype, shape) for dtype, shape in zip(inputs, shapes, strict=True)]
        good = r.random() < 0.4
        keywords = self.keywords(call, arrays, good)
        if not good:
            for i in range(len(arrays)):
                if r.random() < 0.5:
                    arrays[i] = anything(r, inputs[i], shapes[i])
            if len(arrays) == 2 and r.random() < 0.05:
                arrays[1] = Freeing(arrays[0], r)
            if r.random() < 0.03:
                arrays.append(anything(r, np.float32, (n,)))
            if r.random() < 0.03:
                arrays.pop()
        out = self.out(outputs, (n,), arrays, good)
        if out is not None:
            keywords["".join(("o", "ut"))] = out  # no interned string
        if r.random() < 0.1 and arrays:
            names = call.signature.input_names
            last = arrays.pop()
            keywords[names[min(len(arrays), len(names) - 1)]] = last
        self.call(call, expected, arrays, keywords, outputs, good)

    def keywords(self, call, arrays, good):
        r, found = self.r, {}
        if call.__name__ == "scale" and r.random() < 0.3:
            found["factor"] = r.choice([2.0, 3.0, -1]) if good else r.choice([2, "a", None, [], Echo(), float("nan")])
        if call.__name__ == "axpy":
            found["alpha"] = r.choice([1, 2.5, True, np.float32(3), np.int8(2)])
            if torch is not None and r.random() < 0.1:
                found["alpha"] = torch.tensor(4.0)
            if not good and r.random() < 0.5:
                tensors = [] if torch is None else [torch.ones(3), torch.ones((), requires_grad=True)]
                found["alpha"] = r.choice([*NOTHING, Echo(), Raising(), Freeing(arrays[0], r), *tensors])
        if not good and r.random() < 0.05:
            found[r.choice(["N", "Q", "stream", "out", "self", ""])] = r.choice([*NOTHING, Echo()])
        return found

    def out(self, outputs, shape, arrays, good):
        r = self.r
        if not outputs or r.random() < 0.7:
            return None
        made = [np.zeros(shape, dtype) for dtype in outputs]
        if torch is not None and r.random() < 0.6:
            made = [torch.from_numpy(each) for each in made]
        if not good:
            made = [anything(r, np.float32, shape) if r.random() < 0.5 else each for each in made]
            if r.random() < 0.1 and arrays:
                made[0] = r.choice(arrays)
            if r.random() < 0.1 and arrays:  # one lies across the other
                memory, ahead = np.ones(shape[0] + 4, np.float32), r.randrange(5)
                arrays[-1], made[0] = memory[: shape[0]], memory[ahead : ahead + shape[0]]
            if r.random() < 0.05:
                made = made * 2
        if len(made) == 1 and r.random() < 0.7:
            return made[0]
        return r.choice([tuple, list])(made) if good else r.choice([tuple, list, Lists])(made)

    def context(self, good, arrays):
        if torch is None or self.r.random() < 0.8:
            return contextlib.nullcontext()
        makers = [torch.no_grad, torch.inference_mode, Functions]
        if not good or all(isinstance(each, torch.Tensor) for each in arrays):
            makers += [Passing]
        if not good:
            makers += [
                FakeTensorMode,
                torch.autograd.forward_ad.dual_level,
                lambda: torch.autocast("cpu"),
                torch._C._DisableTorchDispatch,
            ]
        return self.r.choice(makers)()

    def call(self, call, expected, arrays, keywords, outputs, good):
        before = [np.array(each, copy=True) for each in arrays] if good else None
        given = {name: value for name, value in keywords.items() if name not in ("out", *call.signature.input_names)}
        named = [
            np.array(value, copy=True)
            for name, value in keywords.items()
            if good and name in call.signature.input_names
        ]
        try:
            brought = keywords.get("out", ())
            by_name = [keywords[name] for name in call.signature.input_names if name in keywords]
            with self.context(
                good, [*arrays, *by_name, *(brought if isinstance(brought, (tuple, list)) else [brought])]
            ):
                result = (
                    self.transformed(call, arrays, keywords)
                    if not good and self.r.random() < 0.03
                    else call(*arrays, **keywords)
                )
        except (errors.PtxError, Hostile, TypeError, ValueError, NotImplementedError) as error:
            if good:
                raise
            self.check(error)
            self.counts[type(error).__name__] += 1
            return
        except Exception as error:  # torch's own, of its modes and transformations
            if good or isinstance(error, (RecursionError, SystemError)) or not of_torch(error):
                raise
            self.counts["torch's"] += 1
            return
        self.counts["answer"] += 1
        if not good:
            return
        results = result if isinstance(result, (tuple, list)) else [] if result is None else [result]
        wanted = expected(*before, *named, **given)
        if len(results) != len(wanted):
            raise AssertionError(f"{call!r} gave {len(results)} results")
        for each, want in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(each), want)
        if not outputs:  # in place
            changed = arrays[0] if arrays else keywords["X"]
            np.testing.assert_array_equal(np.asarray(changed), (before + named)[0] + 1)

    def transformed(self, call, arrays, keywords):
        functions = (
            [torch.vmap, torch.func.jacfwd, torch.func.grad, torch.func.functionalize] if torch is not None else []
        )
        transform = self.r.choice([*functions, lambda function: function])
        return transform(lambda *given: call(*given, **keywords))(*arrays)

    def check(self, error):
        if isinstance(error, errors.LaunchError) and not str(error):
            raise AssertionError("an error without words") from error


def work(seed: int, calls: int) -> int:
    faulthandler.enable()
    logging.disable(logging.CRITICAL)  # torch logs errors of fake tensors
    sys.unraisablehook = lambda _: None  # deleters that raise
    worker = Worker(seed)
    with simulator.options(cores=1):  # a thread more costs more than these kernels
        for number in range(calls):
            try:
                worker.one()
            except BaseException:
                print(f"call {number}", file=sys.stderr)
                raise
    print(json.dumps(worker.counts))
    return 0


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--calls", type=int, default=1_000_000)
    arguments.add_argument(
        "--seconds", type=float, help="begin no chunk later than this, however many calls there were"
    )
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--jobs", type=int, default=1)
    arguments.add_argument("--chunk", type=int, default=20_000, help="calls of one process")
    arguments.add_argument("--here", action="store_true", help="all in this process")
    given = arguments.parse_args()
    if given.here:
        return work(given.seed, given.calls)
    start, total = time.monotonic(), collections.Counter()
    seconds = float("inf") if given.seconds is None else given.seconds
    chunks = -(-given.calls // given.chunk)

    def chunk(index):
        if time.monotonic() - start > seconds:
            return None
        calls = min(given.chunk, given.calls - index * given.chunk)
        command = [sys.executable, __file__, "--here", f"--seed={given.seed + index}", f"--calls={calls}"]
        return command, subprocess.run(command, capture_output=True, text=True)

    with ThreadPoolExecutor(given.jobs) as pool:
        for command, done in filter(None, pool.map(chunk, range(chunks))):
            if done.returncode != 0:
                print(f"{done.stdout}{done.stderr}\nexit status {done.returncode}: {' '.join(command)}", flush=True)
                pool.shutdown(cancel_futures=True)
                return 1
            total.update(json.loads(done.stdout))
            print(f"{total.total()} calls after {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    kinds = ", ".join(f"{count} {kind}" for kind, count in total.most_common())
    print(f"{total.total()} calls in {time.monotonic() - start:.0f} s: {kinds}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
