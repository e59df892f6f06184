"""What one eager call costs the host, beside torch's own operators and beside a C loop of launches.

    python bench/dispatch.py [--rounds 40] [--calls 400] [--fake]

Needs a CUDA device, and a C compiler for the loops of dispatch_native.c.  Times are microseconds a call, medians of the
rounds; a round times all columns one after the other, so that a clock that drifts drifts for all.  The device is idle
when a column starts and is waited for after it, outside the time.

--fake measures on a machine without a GPU: CPU tensors are passed off as CUDA tensors and tests/cuda/fake stands for
libcuda, so that what is left is the call without the driver and the device.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from _process import EXAMPLES, in_new_process

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, EXAMPLES)

ROWS, COLUMNS = 16, 512


class Columns:
    """Functions of a number of turns, timed in turn; `rows` has the microseconds of each."""

    def __init__(self, given, synchronize):
        self.given, self.synchronize = given, synchronize
        self.bodies: dict[str, tuple[str, object]] = {}
        self.rows: dict[str, list[float]] = {}

    def call(self, name, meaning, function, *arguments, **named):
        """`function(a0, a1, named=...)`, written so: `function(*arguments)` would make a tuple at every call."""
        given = {f"a{i}": argument for i, argument in enumerate(arguments)}
        written = ", ".join([*given, *(f"{name}={name}" for name in named)])
        body = f"""
def body(turns):
    start = clock()
    for _ in range(turns):
        function({written})
    return (clock() - start) / turns * 1e6
"""
        space = {"function": function, "clock": time.perf_counter, **given, **named}
        exec(body, space)
        self.bodies[name] = meaning, space["body"]

    def native(self, name, meaning, function, *arguments):
        """A loop of dispatch_native.c, which reports nanoseconds a turn."""
        self.bodies[name] = meaning, lambda turns: function(*arguments, turns) / 1e3

    def replay(self, name, meaning, graph, nodes):
        def body(turns):
            replays = max(1, turns // nodes)
            start = time.perf_counter()
            for _ in range(replays):
                graph.replay()
            self.synchronize()
            return (time.perf_counter() - start) / replays / nodes * 1e6

        self.bodies[name] = meaning, body

    def measure(self):
        self.rows = {name: [] for name in self.bodies}
        for round_ in range(self.given.rounds + 3):
            for name, (_, body) in self.bodies.items():
                self.synchronize()
                elapsed = body(self.given.calls)
                if round_ >= 3:  # the first rounds warm caches and clocks
                    self.rows[name].append(elapsed)
        self.synchronize()

    def ratio(self, name, to):
        if name not in self.rows or to not in self.rows:
            return None
        return statistics.median(a / b for a, b in zip(self.rows[name], self.rows[to], strict=True))

    def report(self, goals):
        for name, (meaning, _) in self.bodies.items():
            row = sorted(self.rows[name])
            spread = f"{row[len(row) // 10]:7.2f} to {row[-1 - len(row) // 10]:.2f}"
            print(f"  {name:18}{statistics.median(row):7.2f}   ({spread:>16})  {meaning}")
        print("\nratios (median over the rounds), and their goals")
        for name, to, goal in goals:
            if (ratio := self.ratio(name, to)) is not None:
                print(f"  {name + ' / ' + to:32}{ratio:7.2f}" + (f"   <= {goal}" if goal else ""))


def native_library(folder):
    """dispatch_native.c, compiled; None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    library = pathlib.Path(folder) / "dispatch_native.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", HERE / "dispatch_native.c", "-o", library], check=True)
    loaded = ctypes.PyDLL(str(library))  # the loops run with Python's lock held, as calls do
    for name in ("launch", "launch_ex", "launch_block", "context", "read", "stream", "exchange", "call", "floor"):
        getattr(loaded, f"turns_{name}").restype = ctypes.c_double
    loaded.fake_table.restype = ctypes.c_void_p
    loaded.fake_table.argtypes = [ctypes.c_void_p]
    return loaded


def fake_machine(torch, native, folder):
    """Sets the invented libcuda up, and passes CPU tensors off as CUDA tensors."""
    library = pathlib.Path(folder) / "libcuda.so"
    source = HERE.parent / "tests/cuda/fake/libcuda.cpp"
    subprocess.run(
        ["g++", "-O2", "-std=c++20", "-shared", "-fPIC", "-I", HERE.parent, source, "-o", library], check=True
    )
    os.environ["PYPTX_LIBCUDA"] = str(library)
    ctypes.CDLL(str(library)).fake_quiet(1)

    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = make(native.fake_table(exchange_table(torch)), b"dlpack_exchange_api", None)
    torch.Tensor.__dlpack_c_exchange_api__ = capsule  # not a subclass's: torch reads those more slowly
    torch._C._dynamo.guards._empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cpu


def exchange_table(torch):
    found = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None) or torch.Tensor.__c_dlpack_exchange_api__
    if isinstance(found, int):
        return found
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return read(found, b"dlpack_exchange_api")


def many_arguments(inputs, maps=0, element="f32"):
    """A kernel that does nothing with `inputs` matrices and one output; `maps` of the inputs have a tensor map."""
    from pyptx import Tile, kernel, ptx
    from pyptx.types import from_name

    tile = Tile(64, 32, from_name(element), tma_box=(64, 32))
    names = [f"A{i}" for i in range(inputs)]
    space: dict = {}
    body = "".join(f"    {name}.tma_desc()\n" for name in names[:maps])
    exec(
        f"def idle_{inputs}_{maps}({', '.join(names)}, Y):\n{body}    ptx.ret()\n",
        {"ptx": ptx},
        space,
    )
    return kernel(
        in_specs=(tile,) * inputs, out_specs=(Tile(64, 32, from_name(element)),), grid=(1,), block=(32, 1, 1)
    )(*space.values())


def bare_launch(torch, norm, x, w):
    """(driver, function, shape, pointers, block): RMSNorm loaded by the driver from its text, apart from pyptx."""
    driver = ctypes.CDLL("libcuda.so.1")
    torch.cuda.current_stream().synchronize()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    text = norm.ptx().encode()
    if driver.cuModuleLoadData(ctypes.byref(module), text) != 0:
        return None
    if driver.cuModuleGetFunction(ctypes.byref(function), module, b"rms_norm") != 0:
        return None
    y = torch.empty_like(x)
    block = (ctypes.c_uint64 * 3)(*(tensor.data_ptr() for tensor in (x, w, y)))
    pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(block) + 8 * i for i in range(3)))
    shape = (ctypes.c_uint * 6)(ROWS, 1, 1, 32, 1, 1)
    return driver, function, shape, pointers, block, y


def address(function):
    return ctypes.cast(function, ctypes.c_void_p)


def output_maker(torch, x):
    """(function, arguments): the quickest way of torch to an output, the one that Inductor's code takes."""
    from torch._C._dynamo import guards

    empty = guards._empty_strided_cuda if x.is_cuda else guards._empty_strided_cpu
    return empty, ((ROWS, COLUMNS), (COLUMNS, 1), torch.float32)


def add_driver_columns(columns, torch, native, norm, x, w):
    bare = bare_launch(torch, norm, x, w)
    if bare is None:
        print("no bare loop: the driver does not take the text")
        return
    driver, function, shape, pointers, block, y = bare
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    columns.kept = y
    columns.native(
        "bare", "C loop of cuLaunchKernel with the same kernel", native.turns_launch,
        address(driver.cuLaunchKernel), function, shape, stream, pointers,
    )  # fmt: skip
    columns.native(
        "bare_ex", "the same by cuLaunchKernelEx", native.turns_launch_ex,
        address(driver.cuLaunchKernelEx), function, shape, stream, pointers,
    )  # fmt: skip
    columns.native(
        "bare_block", "the same with the parameters as one block", native.turns_launch_block,
        address(driver.cuLaunchKernel), function, shape, stream, block, ctypes.c_size_t(24),
    )  # fmt: skip
    release, call = address(ctypes.pythonapi.Py_DecRef), address(ctypes.pythonapi.PyObject_Call)
    make, arguments = output_maker(torch, x)
    columns.kept_made = arguments
    columns.native(
        "floor", "C loop of an output, cuLaunchKernel, and the output let go", native.turns_floor, call,
        ctypes.py_object(make), ctypes.py_object(arguments), release, address(driver.cuLaunchKernel), function, shape,
        stream, pointers,
    )  # fmt: skip
    columns.native("context", "cuCtxGetCurrent", native.turns_context, address(driver.cuCtxGetCurrent))


def add_steps(columns, torch, native, x, table):
    """Single steps of a call, as C loops."""
    release, call = address(ctypes.pythonapi.Py_DecRef), address(ctypes.pythonapi.PyObject_Call)
    table = ctypes.c_void_p(table)
    columns.native("read", "one tensor read by the exchange API", native.turns_read, table, ctypes.py_object(x))
    columns.native("exchange_empty", "an output by the exchange API, and let go", native.turns_exchange, table,
                   ctypes.py_object(x), release)  # fmt: skip
    if x.is_cuda:
        columns.native("stream", "the current stream by the exchange API", native.turns_stream, table, 0)
    columns.native("requires_grad", "x.requires_grad", native.turns_call, address(ctypes.pythonapi.PyObject_GetAttr),
                   ctypes.py_object(x), ctypes.py_object("requires_grad"), release)  # fmt: skip
    columns.kept_self = (x,)
    columns.native("is_neg", "torch.Tensor.is_neg(x)", native.turns_call, call, ctypes.py_object(torch.Tensor.is_neg),
                   ctypes.py_object(columns.kept_self), release)  # fmt: skip
    make, arguments = output_maker(torch, x)
    columns.kept_arguments = arguments
    columns.native("strided_empty", "an output by the function that Inductor's code calls", native.turns_call, call,
                   ctypes.py_object(make), ctypes.py_object(arguments), release)  # fmt: skip


def add_calls(columns, torch, norm, x, w):
    b = torch.randn_like(x)
    columns.call("kernel", "examples/rms_norm.py, 2 inputs, 1 output", norm, x, w)
    y = torch.empty_like(x)
    columns.call("out", "the same with out=", norm, x, w, out=y)
    columns.call("add", "torch.add(a, b)", torch.add, x, b)
    columns.call("empty_like", "torch.empty_like(a)", torch.empty_like, x)
    columns.call("nothing", "the loop itself", lambda: None)
    matrices = [torch.randn(64, 32, device=x.device) for _ in range(15)]
    for name, meaning, inputs, maps in (
        ("args2", "1 input, 1 output", 1, 0),
        ("args16", "15 inputs, 1 output", 15, 0),
        ("maps0", "3 inputs, 1 output", 3, 0),
        ("maps3", "the same with 3 tensor maps", 3, 3),
    ):
        idle = many_arguments(inputs, maps)
        idle(*matrices[:inputs])
        columns.call(name, meaning, idle, *matrices[:inputs])
    integers = [torch.zeros(64, 32, device=x.device, dtype=torch.int32) for _ in range(2)]
    for name, meaning, element, arrays in (
        ("args3", "2 inputs, 1 output", "f32", matrices[:2]),
        ("args3_s32", "the same of integers, which have no gradients and negations to check", "s32", integers),
    ):
        idle = many_arguments(2, 0, element)
        idle(*arrays)
        columns.call(name, meaning, idle, *arrays)
    # Tensors in turn, so that no tensor map is the last one again.
    turning, turn = many_arguments(3, 3), iter(range(1 << 60))

    def in_turn():
        i = next(turn) % 4 * 3
        turning(*matrices[i : i + 3])

    in_turn()
    columns.call("maps3_turning", "the same, four sets of tensors in turn (and choosing them)", in_turn)


def add_graphs(columns, torch, norm, x, w, nodes=100):
    from pyptx.kernels import add

    a, b = x.flatten(), torch.randn(x.numel(), device=x.device)
    for name, meaning, body in (
        ("graph_kernel", f"replay of {nodes} nodes of pyptx.kernels.add, waited for, a node", lambda: add(a, b)),
        ("graph_add", f"the same of torch.add, {x.numel()} elements", lambda: torch.add(a, b)),
        ("graph_rms_norm", "the same of the RMSNorm, which does more", lambda: norm(x, w)),
    ):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = [body() for _ in range(nodes)]
        del kept
        graph.replay()
        columns.replay(name, meaning, graph, nodes)


GOALS = (  # those of 0 are no goals: what they would be if a call did nothing but launch and make its output
    ("kernel", "add", 0.65),
    ("floor", "add", 0),
    ("floor", "bare", 0),
    ("kernel", "floor", 1.12),
    ("kernel", "bare", 1.6),
    ("out", "bare", 1.25),
    ("args16", "args2", 1.4),
    ("maps3", "maps0", 1.5),
    ("graph_kernel", "graph_add", 1.0),
)

FIRST = """
import time; t0 = time.perf_counter()
import torch; t1 = time.perf_counter()
x, w = torch.randn(16, 512, device="cuda"), torch.randn(512, device="cuda"); torch.cuda.synchronize()
t2 = time.perf_counter()
import pyptx; t3 = time.perf_counter()
from rms_norm import build_rms_norm
build_rms_norm(16, 512)(x, w); torch.cuda.synchronize(); t4 = time.perf_counter()
print(f"  import torch {1e3 * (t1 - t0):.0f} ms; CUDA starts, two tensors {1e3 * (t2 - t1):.0f} ms; "
      f"import pyptx {1e3 * (t3 - t2):.1f} ms; trace, assemble or load, first call {1e3 * (t4 - t3):.1f} ms")
"""


def second_process():
    print("\na new process, three times (the first may have to assemble)")
    for _ in range(3):
        print(in_new_process(FIRST), end="")


def arguments_of(about: str, rounds: int, calls: int) -> argparse.ArgumentParser:
    """The arguments of a benchmark of calls."""
    arguments = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=rounds)
    arguments.add_argument("--calls", type=int, default=calls, help="a round and column; fewer than the driver queues")
    arguments.add_argument("--fake", action="store_true", help="without a GPU: all but the driver and the device")
    return arguments


def torch_for(given):
    """torch, if the benchmark can run with these arguments; else None, and it is said why."""
    try:
        import torch
    except ImportError:
        print("skipped: no torch")
        return None
    if not given.fake and not torch.cuda.is_available():
        print("skipped: no CUDA device")
        return None
    return torch


def main() -> int:
    given = arguments_of(__doc__, 40, 400).parse_args()
    torch = torch_for(given)
    if torch is None:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        native = native_library(folder)
        if native is None and given.fake:
            print("skipped: no C compiler")
            return 0
        return run(given, torch, native, folder)


def run(given, torch, native, folder) -> int:
    table = exchange_table(torch)
    if given.fake:
        fake_machine(torch, native, folder)
    device = "cpu" if given.fake else "cuda"

    from rms_norm import build_rms_norm

    from pyptx import _core

    norm = build_rms_norm(ROWS, COLUMNS)
    x, w = torch.randn(ROWS, COLUMNS, device=device), torch.randn(COLUMNS, device=device)
    columns = Columns(given, (lambda: None) if given.fake else torch.cuda.synchronize)
    if given.fake:
        norm(x, w)
    else:
        expected = torch.nn.functional.rms_norm(x, (COLUMNS,), w, 1e-6)
        torch.testing.assert_close(norm(x, w), expected, rtol=1e-4, atol=1e-5)
    add_calls(columns, torch, norm, x, w)
    if native is not None:
        if not given.fake:
            add_driver_columns(columns, torch, native, norm, x, w)
        add_steps(columns, torch, native, x, table)
    if not given.fake:
        add_graphs(columns, torch, norm, x, w)
    columns.measure()
    where = "no GPU (--fake)" if given.fake else torch.cuda.get_device_name()
    print(f"{where}, torch {torch.__version__}, Python {sys.version.split()[0]}")
    print(f"assembler: {_core.assembler_description()}")
    print(f"{given.rounds} rounds of {given.calls} calls, microseconds a call (10th to 90th percentile)")
    columns.report(GOALS)
    if not given.fake:
        second_process()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
