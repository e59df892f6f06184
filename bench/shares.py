"""How the multiprocessors of a GPU with clusters share memory: two matrices read, one written, nothing else done, by three ways to share rows.

    python bench/shares.py [--rows 16384] [--columns 4096]

A row a CTA; a CTA a multiprocessor, all with equal numbers of rows; such CTAs in waves, as in the backward of norms.  Printed are microseconds, the
speed as a part of a device copy's of as many bytes, and of the second and third when multiprocessors have ended.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
from dataclasses import replace

from _gpu import device_times, graph_of, torch_on

from pyptx import Tile, ptx, reg
from pyptx.kernels._call import matrix
from pyptx.kernels._registers import add
from pyptx.kernels._rows import Row
from pyptx.kernels._rows_split import Split, row_kernel
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


def going_over_rows(made: Split):
    split = functools.partial(given, made)

    @row_kernel((matrix(bf16), matrix(bf16)), (matrix(bf16), TIMES), split, over_rows=True)
    def moved(X, G, Y, T, *, P):
        row, (times,) = Row(split(X.shape[1])), ptx.global_ptrs(T)
        began = reg.from_(ptx.sreg("%globaltimer"), u64)
        for x, g in row.over(ptx.param(u32, "M"), P, X, G):
            row.conclude([(Y, row.map(add, x, g))], [])
        ptx.bar.sync(0)
        with ptx.if_(row.in_cta == 0):
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


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=16384)
    arguments.add_argument("--columns", type=int, default=4096)
    told = arguments.parse_args()
    if not (torch := torch_on(since=90)):
        return 0
    m, n = told.rows, told.columns
    x, g = (torch.randn(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    y, waves = torch.empty_like(x), Split.wide_looping(n, 16)
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
