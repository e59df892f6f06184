"""Tracing and emitting from Python: microseconds an instruction, author's lines included.

Columns: instructions of the kernel; trace = running its Python body; finish = settling and checking the whole kernel; emit = the
text; all three together; the same with .loc lines.  Best of several runs; each run traces a kernel that was not seen before.
"""

from __future__ import annotations

import time

from pyptx import Tile, _core, kernel, ptx, reg
from pyptx.kernel import TensorSpec
from pyptx.types import f32, u32

WARP = 32


def rms_norm_body(columns: int):
    items = columns // WARP

    def body(X, W, Y):
        px, pw, py = ptx.global_ptrs(X, W, Y)
        row_bytes = reg.from_(ptx.special.ctaid.x(), u32) * (columns * 4)
        px += row_bytes
        py += row_bytes
        tid = reg.from_(ptx.special.tid.x(), u32)
        total = reg.scalar(f32, init=0.0)
        values = reg.array(f32, items)
        for i in range(items):
            ptr = px + (tid + i * WARP) * 4
            ptx.inst.ld.global_.f32(values[i], ptx.addr(ptr))
            ptx.inst.fma.rn.f32(total, values[i], values[i], total)
        ptx.warp.reduce_sum(total)
        for i in range(items):
            off = (tid + i * WARP) * 4
            weight, y = reg.scalar(f32), reg.scalar(f32)
            ptx.inst.ld.global_.f32(weight, ptx.addr(pw + off))
            ptx.inst.mul.f32(y, values[i], total)
            ptx.inst.mul.f32(y, y, weight)
            ptx.inst.st.global_.f32(ptx.addr(py + off), y)
        ptx.ret()

    return body


def measure(columns: int) -> list[float]:
    """Seconds of trace, finish, emit, and emit with lines; and how many instructions there are."""
    body = rms_norm_body(columns)
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
    made = kernel(
        in_specs=(Tile(1, columns, f32), Tile(columns, f32)),
        out_specs=(Tile(1, columns, f32),),
        block=(WARP, 1, 1),
    )(rms_norm_body(columns))
    start = time.perf_counter()
    made.ptx()
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


if __name__ == "__main__":
    main()
