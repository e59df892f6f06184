"""Tracing and emitting from Python: microseconds an instruction, author's lines included.

Columns: instructions of the kernel; trace = running its Python body; finish = settling and checking the whole kernel; emit = the
text; all three together; the same with .loc lines.  Best of several runs; each run traces a kernel that was not seen before.
Behind them .ptx() of a small kernel, whose function has been seen before or has not, the least of 300.
"""

from __future__ import annotations

import pathlib
import sys
import time
import types

from pyptx import Tile, _core, kernel, ptx, reg
from pyptx.kernel import TensorSpec
from pyptx.types import f32, u32

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
from rms_norm import build_rms_norm


def measure(columns: int) -> list[float]:
    """Seconds of trace, finish, emit, and emit with lines; and how many instructions there are."""
    body = build_rms_norm(1, columns)._fn
    names = ("X", "W", "Y")
    trace = _core.Trace("rms_norm", "sm_90a")
    for name in names:
        trace.add_pointer(name)
    tensors = [TensorSpec(name) for name in names]
    times = [time.perf_counter()]
    with trace:
        body(*tensors)
    times.append(time.perf_counter())
    module = trace.finish()
    times.append(time.perf_counter())
    module.emit()
    times.append(time.perf_counter())
    module.emit(lineinfo=True)
    times.append(time.perf_counter())
    return [after - before for before, after in zip(times, times[1:], strict=False)] + [module.instruction_count]


def whole(columns: int) -> float:
    """Seconds of `.ptx()` of a new kernel."""
    made = build_rms_norm(1, columns)
    start = time.perf_counter()
    made.ptx()
    return time.perf_counter() - start


def small(A, B, C):
    pa, pb, pc = ptx.global_ptrs(A, B, C)
    i = reg.from_(ptx.special.ctaid.x(), u32) * 128 + reg.from_(ptx.special.tid.x(), u32)
    off = i * 4
    a, b = reg.scalar(f32), reg.scalar(f32)
    with ptx.if_(i < A.shape[0]):
        ptx.inst.ld.global_.f32(a, ptx.addr(pa + off))
        ptx.inst.ld.global_.f32(b, ptx.addr(pb + off))
        ptx.inst.add.f32(a, a, b)
        ptx.inst.st.global_.f32(ptx.addr(pc + off), a)
    ptx.ret()


def whole_small(number: int, fresh: bool) -> float:
    """Seconds of `.ptx()` of a new kernel of `small`; `fresh`: its code is another one, though of the same lines."""
    code = small.__code__.replace(co_name=f"small{number}") if fresh else small.__code__
    function = types.FunctionType(code, globals(), "small")
    made = kernel(
        function, in_specs=(Tile("N", f32),) * 2, out_specs=(Tile("N", f32),), grid=lambda N: (N // 128, 1, 1)
    )
    start = time.perf_counter()
    made.ptx(N=1024)
    return time.perf_counter() - start


def main() -> None:
    print(__doc__.strip().partition("\n\n")[2])
    print(
        f"{'instructions':>12} {'trace':>7} {'finish':>7} {'emit':>7} {'.ptx()':>7} {'with .loc':>9}   us an instruction"
    )
    for columns in (512, 4096, 32768):
        runs = [measure(columns) for _ in range(7)]
        count = runs[0][-1]
        trace, finish, emit, lines = (min(run[i] for run in runs) * 1e6 / count for i in range(4))
        text = min(whole(columns) for _ in range(7)) * 1e6 / count
        print(f"{count:>12} {trace:>7.3f} {finish:>7.3f} {emit:>7.3f} {text:>7.3f} {trace + finish + lines:>9.3f}")
    for fresh in (False, True):
        least = min(whole_small(number, fresh) for number in range(300)) * 1e3
        print(f".ptx() of a small kernel, its function {'not ' * fresh}seen before: {least:.3f} ms")


if __name__ == "__main__":
    main()
