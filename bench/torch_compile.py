"""What a kernel costs inside torch.compile and inside a CUDA graph, beside torch's own addition; then opcheck on the device.

    python bench/torch_compile.py [--rounds 40] [--calls 400] [--nodes 200]

Needs a CUDA device.  Vectors of 4,096 f32.  Microseconds, median of the rounds; a round times all columns one after the other.
  add       torch.add(a, b), eagerly
  kernel    pyptx.kernels.add(a, b), eagerly
  op        its torch op, called directly
  c(a+b)    a compiled `a + b`
  c(kernel) a compiled call of the kernel; target: 1.0 of c(a+b) or less
  g(a+b)    one node of a captured graph of NODES `torch.add`, replayed
  g(kernel) one node of a captured graph of NODES kernels; target: 1.0 of g(a+b) or less
The first five are the host's time alone; the device is idle when a column starts.  The last two are the device's, by events.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from _gpu import device_times, graph_of, torch_on

SIZE = 4096


def host_times(torch, columns, rounds: int, calls: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in columns}
    for round_ in range(rounds + 3):
        for name, function in columns.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(calls):
                function()
            elapsed = time.perf_counter() - start
            if round_ >= 3:  # the first rounds warm caches and clocks
                times[name].append(elapsed / calls * 1e6)
    torch.cuda.synchronize()
    return times


def check_ops(torch, kernels) -> None:
    from pyptx.kernels._row_function import FUNCTIONS
    from pyptx.kernels.norm import RMS_NORM
    from pyptx.kernels.softmax import SOFTMAX
    from pyptx.types import f32

    x, w = (torch.randn(*shape, device="cuda") for shape in ((8, 300), (300,)))
    for kernel, arrays, keywords in (
        (kernels.add, (w, w), {}),
        (kernels.scaled_add, (w, w), {"alpha": 0.5}),
        (SOFTMAX.kernel(f32), (x,), {}),
        (RMS_NORM.kernel(f32, f32), (x, w), {}),
        (kernels.copy2d, (x,), {}),
    ):
        if kernel is kernels.copy2d and torch.cuda.get_device_capability()[0] < 9:
            continue
        kernel._prepare_op()
        results = torch.library.opcheck(kernel._torch_op, arrays, keywords)
        print(f"opcheck {kernel._torch_op.name()}: {', '.join(sorted(set(results.values())))}")
    leaves = x.requires_grad_(), w.requires_grad_()
    results = torch.library.opcheck(FUNCTIONS["rms_norm"].run_for((torch.float32,) * 2, False, True).op, leaves)
    print(f"opcheck differentiable rms_norm: {', '.join(sorted(set(results.values())))}")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=40)
    arguments.add_argument("--calls", type=int, default=400, help="a round and column; fewer than the driver queues")
    arguments.add_argument("--nodes", type=int, default=200, help="of a graph")
    given = arguments.parse_args()
    if not (torch := torch_on()):
        return 0
    from pyptx import kernels

    a, b = (torch.randn(SIZE, device="cuda") for _ in range(2))
    kernel = kernels.add
    kernel._prepare_op()
    op = kernel._torch_op
    compiled_add = torch.compile(lambda a, b: a + b, fullgraph=True)
    compiled_kernel = torch.compile(lambda a, b: kernel(a, b), fullgraph=True)
    columns = {
        "add": lambda: torch.add(a, b),
        "kernel": lambda: kernel(a, b),
        "op": lambda: op(a, b),
        "c(a+b)": lambda: compiled_add(a, b),
        "c(kernel)": lambda: compiled_kernel(a, b),
    }
    for name, function in columns.items():
        assert torch.equal(function(), a + b), name
    graphs = {
        "g(a+b)": graph_of(torch, columns["add"], given.nodes),
        "g(kernel)": graph_of(torch, columns["kernel"], given.nodes),
    }
    times = host_times(torch, columns, given.rounds, given.calls) | device_times(
        torch, graphs, given.rounds, given.nodes
    )

    print(
        f"Python {sys.version.split()[0]}; {given.rounds} rounds of {given.calls} calls, graphs of {given.nodes} nodes, microseconds"
    )
    print("".join(f"{name:>12}" for name in times))
    print("".join(f"{statistics.median(row):12.2f}" for row in times.values()))
    for name, over, under in (("compiled", "c(kernel)", "c(a+b)"), ("graph", "g(kernel)", "g(a+b)")):
        ratio = statistics.median(x / y for x, y in zip(times[over], times[under], strict=True))
        print(f"ratio, {name}: {ratio:.2f}")
    check_ops(torch, kernels)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
