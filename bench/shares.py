"""How the multiprocessors of a GPU with clusters share memory, and what bounds the kernels over rows.

    python bench/shares.py [--rows 16384] [--columns 4096]
    python bench/shares.py --bounds [--shapes 16384x4096 1024x65536:float32] [--only backward]

Two matrices read, one written, nothing else done, by three ways to share rows: a row a CTA; a CTA a multiprocessor, all with equal numbers of rows;
such CTAs in waves, as in the backward of norms.  Printed are microseconds, the speed as a part of a device copy's of as many bytes, and of the second
and third when multiprocessors have ended.

--bounds: of each kernel its time and speed, and beside them those of the same CTAs, rings and grid that move the same bytes, but compute nothing (of layer_norm's
forward also with its weight and bias; of cross_entropy, which writes next to nothing, those that read them, both behind themselves); of a backward also without the
sums over the parts of workers, whose launch no other kernel may overtake, and with that
launch, but of one part.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
from dataclasses import replace

from _gpu import LARGE, behind_itself, device_times, graph_of, shape, torch_on

from pyptx import Tile, ptx, reg
from pyptx.kernels import cross_entropy, layer_norm, rms_norm
from pyptx.kernels._registers import add, constant, fma, tree
from pyptx.kernels._row_function import FUNCTIONS
from pyptx.kernels._rows.loops import wide_looping
from pyptx.kernels._rows.losses import RESULTS
from pyptx.kernels._rows.ring import Stream
from pyptx.kernels._rows.row import Row
from pyptx.kernels._rows.split import Split, row_kernel
from pyptx.kernels._rows.tiles import columns, matrix
from pyptx.kernels._types import TYPES
from pyptx.kernels.column_sums import column_sums
from pyptx.kernels.norm import layer_norm_backward_kernel, rms_norm_backward_kernel
from pyptx.types import bf16, u32, u64

TIMES = Tile("P", 3, u64)  # of a worker: when it begins and ends, where it is


def given(made: Split, n: int) -> Split:
    return made


def a_row_a_cta(made: Split):
    split = functools.partial(given, made)

    @row_kernel((matrix(bf16), matrix(bf16)), (matrix(bf16),), split)
    def moved(X, G, Y):
        row = Row.own(split(X.shape[1]))
        row.store(Y, row.map(add, row.load(X), row.load(G)))
        ptx.ret()

    return moved


def going_over_rows(made: Split, dtype=bf16):
    split = functools.partial(given, made)

    @row_kernel((matrix(dtype), matrix(dtype)), (matrix(dtype), TIMES), split, over_rows=True)
    def moved(X, G, Y, T):
        row, (times,) = Row(split(X.shape[1])), ptx.global_ptrs(T)
        began = reg.from_(ptx.sreg("%globaltimer"), u64)
        for x, g in row.over(ptx.param(u32, "M"), ptx.param(u32, "P"), X, G):
            row.conclude([(Y, row.map(add, x, g))], [])
        ptx.bar.sync(0)
        with ptx.if_(row.thread == 0 if made.ctas > 1 else row.in_cta == 0):
            at = reg.scalar(u64)
            ptx.inst.mad.wide.u32(at, row.worker, 24, times)
            place = reg.scalar(u64)
            ptx.inst.cvt.u64.u32(place, reg.from_(ptx.sreg("%smid"), u32))
            for i, value in enumerate((began, reg.from_(ptx.sreg("%globaltimer"), u64), place)):
                ptx.inst.st.global_.u64(ptx.addr(at, 8 * i), value)
        ptx.ret()

    return moved


def ends(torch, times) -> str:
    """When multiprocessors have ended, in microseconds since the first began."""
    began, ended, place = times.cpu().view(torch.int64).unbind(1)
    last: dict[int, float] = {}
    for end, where in zip(((ended - began.min()) / 1e3).tolist(), place.tolist(), strict=True):
        last[where] = max(end, last.get(where, 0.0))
    cuts = [sorted(last.values())[int(part * (len(last) - 1))] for part in (0, 0.05, 0.25, 0.5, 0.75, 1)]
    return " ".join(f"{cut:.1f}" for cut in cuts)


def moving(made: Split, dtype, matrices: int, vectors: int):
    """Rows of so many matrices, read and added up, or of one with a weight and a bias."""
    split, given_types = functools.partial(given, made), (matrix(dtype),) * matrices + (columns(dtype),) * vectors

    def body(read, shared, Y):
        for row, *values in Row.each(split(Y.shape[1]), *read, shared=shared):
            result = values[0] if len(values) == 1 else row.map(fma if shared else add, *values)
            row.store(Y, result, last=True)
        ptx.ret()

    def of_one(X, Y):
        body((X,), (), Y)

    def of_two(X, G, Y):
        body((X, G), (), Y)

    def beside_vectors(X, W, B, Y):
        body((X,), (W, B), Y)

    moved = beside_vectors if vectors else of_two if matrices == 2 else of_one
    return row_kernel(given_types, (matrix(dtype),), split)(moved)


def reading(made: Split, dtype):
    """Rows that are read and added up."""
    split = functools.partial(given, made)

    @row_kernel((matrix(dtype),), (RESULTS,), split)
    def read(X, L):
        for row, x in Row.each(split(X.shape[1]), X):
            if made.fits:
                (total,) = row.sum(x)
            else:
                mine = constant(0.0)
                for _, _, values in Stream(row, X).vectors():
                    ptx.inst.add.f32(mine, mine, tree(values, ptx.inst.add.f32))
                (total,) = row.agree.sums([mine])
            with ptx.if_(row.thread == 0):
                row.store_of_row(L, total)
        ptx.ret()

    return read


def of_one_part(backward, sums):
    _, *parts = backward()
    return sums(*(each[:1] for each in parts))


def bounds(torch, rows: int, n: int, name: str) -> dict:
    """Of each kernel: (matrices read and written, {what: a call})."""
    dtype, kind = getattr(torch, name), TYPES[name]
    x, g = (torch.randn(rows, n, device="cuda", dtype=dtype) for _ in range(2))
    w, b, y = *(torch.randn(n, device="cuda", dtype=dtype) for _ in range(2)), torch.empty_like(x)
    table = {"copy": (2, {"": lambda: y.copy_(x)})}
    call = functools.partial
    for norm, function, vectors, loop in (
        (1, rms_norm, (w,), rms_norm_backward_kernel),
        (2, layer_norm, (w, b), layer_norm_backward_kernel),
    ):
        forward, looping = (functools.partial(of, bits=kind.bits, norm=norm) for of in (Split.wide, wide_looping))
        if forward(n).batch == 1:
            arms = {"": call(function, x, None, *vectors, out=y)}
            arms["moved"] = call(moving(forward(n), kind, 1, 0), x, out=y)
            if norm == 2:
                arms["moved, vectors"] = call(moving(forward(n), kind, 1, 2), x, w, b, out=y)
            table[function.__name__] = 2, arms
        told = {"P": looping(n).workers(rows, (kind, kind))}
        whole = FUNCTIONS[function.__name__].run_for((dtype,) * (1 + norm), True, True).backward_kernel
        table[f"{function.__name__} backward"] = (
            3,
            {
                "": call(whole, x, *vectors, g),
                "moved": call(going_over_rows(looping(n), kind), x, g, **told),
                "without sums": (alone := call(loop(looping, *(kind,) * (1 + norm)), x, w, g, **told)),
                "sums of one part": call(of_one_part, alone, column_sums(*(kind,) * norm, hopper=True)),
            },
        )
    target = torch.randint(0, n, (rows,), device="cuda")
    table["cross_entropy"] = (
        1,
        {
            "": call(cross_entropy, x, target, reduction="none"),
            "read": call(reading(Split.wide_reading(n, kind.bits), kind), x),
        },
    )
    table["softmax backward"] = (
        3,
        {
            "": call(FUNCTIONS["softmax"].run_for((dtype,), True, True).backward_kernel, x, g),
            "moved": call(moving(Split.wide(n, kind.bits, arrays=2), kind, 2, 0), x, g, out=y),
        },
    )
    return table


def print_bounds(torch, shapes, only):
    for rows, n, name in shapes:
        table = {
            f"{kernel}: {what}" if what else kernel: (matrices, call)
            for kernel, (matrices, calls) in bounds(torch, rows, n, name).items()
            for what, call in calls.items()
            if kernel == "copy" or any(word in kernel for word in only)
        }
        graphs = {arm: graph_of(torch, call, 6) for arm, (_, call) in table.items()}
        times = {arm: statistics.median(row) for arm, row in device_times(torch, graphs, 7, 6).items()}
        for arm, (matrices, _) in table.items():
            if matrices == 1:
                times[arm] = behind_itself(torch, graphs[arm], 7, 6)
        print(f"\n{rows} x {n} {name}: a copy {times['copy']:.1f} us")
        for arm, took in times.items():
            print(f"  {arm:36} {took:8.1f} us  {table[arm][0] / 2 * times['copy'] / took:5.2f} of a copy", flush=True)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=16384)
    arguments.add_argument("--columns", type=int, default=4096)
    arguments.add_argument("--bounds", action="store_true")
    arguments.add_argument("--shapes", nargs="*", type=shape, metavar="ROWSxCOLUMNS:TYPE", default=LARGE)
    arguments.add_argument("--only", nargs="*", default=[""], help="kernels with one of these words in their names")
    told = arguments.parse_args()
    if not (torch := torch_on(since=90)):
        return 0
    if told.bounds:
        print_bounds(torch, told.shapes, told.only)
        return 0
    m, n = told.rows, told.columns
    x, g = (torch.randn(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    y, waves = torch.empty_like(x), wide_looping(n, 16)
    arms = {"copy": lambda: y.copy_(x)}
    single = a_row_a_cta(replace(Split.once(n, 16), hopper=True))
    arms["a row a CTA"] = lambda: single(x, g)
    for name, made in (("equal numbers of rows", replace(waves, waves=())), ("waves", waves)):
        kernel, workers = going_over_rows(made), made.workers(m, (bf16, bf16))
        arms[name] = functools.partial(kernel, x, g, P=workers)
    for name, call in arms.items():
        result = call()
        assert name == "copy" or torch.equal(result[0] if isinstance(result, tuple) else result, x + g), name
    graphs = {name: graph_of(torch, call, 6) for name, call in arms.items()}
    times = {name: statistics.median(row) for name, row in device_times(torch, graphs, 7, 6).items()}
    for name, took in times.items():
        print(f"{name:24} {took:8.1f} us  {(1 if name == 'copy' else 1.5) * times['copy'] / took:5.2f} of a copy")
    for name in ("equal numbers of rows", "waves"):
        print(f"{name}: multiprocessors end at (least, 5 %, 25 %, 50 %, 75 %, most) {ends(torch, arms[name]()[1])} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
