"""The kernels over rows beside torch's own and beside a copy of the same bytes, by replayed graphs on a GPU; products (_products.py) beside cuBLAS, Triton,
torch.compile and torch._grouped_mm.

    python bench/kernels.py [rows] [products] [--rounds 7] [--quick] [--shapes 65536x1001 4096x10:float32] [--sustained] [--without compile triton] [--only norm]

Columns: microseconds a launch; the speed of a device copy of as many bytes (read and written) divided into ours: 1.00 is the
speed of memory; of cross_entropy, which only reads, also behind itself instead of other kernels, which leave in L2 what is still to be written;
the times of torch, torch.compile and Triton over ours.  Medians of interleaved rounds over randn data; matrices
above 60 MB do not stay in L2, the small ones do.  --shapes: others, of bfloat16 if no type is given; a copy is slow where 128 does not divide
their bytes.  Sums of a backward over the rows are part of it.  --sustained: two seconds of
launches of each of ours and of a copy, clocks and power at their end.  --only: of kernels whose names have one of the words in them.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

from _gpu import LARGE, behind_itself, device_times, graph_of, milliseconds, shape, torch_on
from _products import Products

SHAPES = (
    *LARGE,
    (32, 1024, "float32"), (512, 512, "float32"), (256, 4096, "bfloat16"), (64, 16384, "bfloat16"),
)  # fmt: skip


def arms(torch, kernels, rows: int, columns: int, dtype):
    """Name: (matrices read and written, ours, torch's or None)."""
    from pyptx.kernels._row_function import FUNCTIONS
    from pyptx.kernels._target import has_clusters

    F = torch.nn.functional
    x, u, g, gs = (torch.randn(rows, columns, device="cuda", dtype=dtype) for _ in range(4))
    w, b = (torch.randn(columns, device="cuda", dtype=dtype) for _ in range(2))
    y, target = torch.empty_like(x), torch.randint(0, columns, (rows,), device="cuda")
    wide = has_clusters(x)
    pull = torch.randn(rows, device="cuda")
    q = 1 + 1 / x.itemsize  # of the matrix: read, and written as bytes
    heads = x.view(1, rows, -1, 64) if columns % 64 == 0 else None
    angles = torch.rand(rows, 32, device="cuda")
    cos, sin = angles.cos(), angles.sin()
    turns = {"seq_dim": -3}

    def both(function, *given):
        """A call, and its gradients by autograd."""
        leaves = [each.detach().requires_grad_() for each in given]
        return lambda: torch.autograd.grad(function(*leaves), leaves, g)

    def backward(name, count, *arrays):
        function = FUNCTIONS[name].run_for(
            (dtype,) * count if name != "cross_entropy" else (dtype, torch.int64), wide, True
        )
        return lambda: function.backward_kernel(*arrays)

    logits = x.clone().requires_grad_()

    def mean(function):
        return lambda: torch.autograd.grad(function(logits, target), logits, one)

    one = torch.ones((), device="cuda")
    table = {
        "copy": (2, lambda: y.copy_(x), None),
        "rms_norm": (2, lambda: kernels.rms_norm(x, w, out=y), lambda: F.rms_norm(x, (columns,), w, 1e-6)),
        "layer_norm": (2, lambda: kernels.layer_norm(x, w, b, out=y), lambda: F.layer_norm(x, (columns,), w, b)),
        "add_rms_norm": (4, lambda: kernels.add_rms_norm(x, u, w), lambda: F.rms_norm(x + u, (columns,), w, 1e-6)),
        "softmax": (2, lambda: kernels.softmax(x, out=y), lambda: x.softmax(-1)),
        "log_softmax": (2, lambda: kernels.log_softmax(x, out=y), lambda: x.log_softmax(-1)),
        "swiglu": (3, lambda: kernels.swiglu(x, u, out=y), lambda: F.silu(x) * u),
        "geglu": (3, lambda: kernels.geglu(x, u, out=y), lambda: F.gelu(x) * u),
        "cross_entropy": (
            1,
            lambda: kernels.cross_entropy(x, target, reduction="none"),
            lambda: F.cross_entropy(x, target, reduction="none"),
        ),
        "rope": (
            2 + 2 * cos.numel() * cos.itemsize / (x.numel() * x.itemsize),
            lambda: kernels.rope(heads, cos, sin, out=y.view_as(heads), **turns),
            lambda: turned(torch, heads, cos, sin),
        ),
        "quantize_fp8 rows": (q, lambda: kernels.quantize_fp8(x), None),
        "quantize_fp8 blocks": (q, lambda: kernels.quantize_fp8(x, block=128), None),
        "quantize_fp8 squares": (q, lambda: kernels.quantize_fp8(x, block=(128, 128)), None),
        "rms_norm backward": (3, backward("rms_norm", 2, x, w, g), None),
        "layer_norm backward": (3, backward("layer_norm", 3, x, w, b, g), None),
        "add_rms_norm backward": (6, backward("add_rms_norm", 3, x, u, w, g, gs), None),
        "rms_norm and backward": (
            5,
            both(kernels.rms_norm, x, w),
            both(lambda x, w: F.rms_norm(x, (columns,), w, 1e-6), x, w),
        ),
        "layer_norm and backward": (
            5,
            both(kernels.layer_norm, x, w, b),
            both(lambda x, w, b: F.layer_norm(x, (columns,), w, b), x, w, b),
        ),
        "softmax backward": (3, backward("softmax", 1, x, g), lambda: torch._softmax_backward_data(g, x, -1, dtype)),
        "swiglu backward": (5, backward("swiglu", 2, x, u, g), None),
        "cross_entropy backward": (2, backward("cross_entropy", 2, x, target, pull), None),
        "cross_entropy mean and backward": (3, mean(kernels.cross_entropy), mean(F.cross_entropy)),
    }
    if heads is None:
        del table["rope"]
    return table


def others(torch, table: dict, without) -> dict[str, dict]:
    """What stands beside ours, by arm: torch's own, the same compiled, Triton's of `x`, `w`, `b` and `y`."""
    theirs = {arm: call for arm, (_, _, call) in table.items() if call}
    found = {"torch": theirs}
    if "compile" not in without:
        torch._dynamo.reset()
        found["compile"] = {
            arm: torch.compile(call, dynamic=False) for arm, call in theirs.items() if "backward" not in arm
        }
    return found


def triton_arms(torch, rows: int, columns: int, dtype) -> dict:
    try:
        from _triton_rows import arms as of_triton
    except ImportError:
        return {}
    x, w, b = (torch.randn(size, device="cuda", dtype=dtype) for size in ((rows, columns), (columns,), (columns,)))
    F, calls = torch.nn.functional, of_triton(x, w, b, y := torch.empty_like(x))
    wanted = {
        "rms_norm": F.rms_norm(x, (columns,), w, 1e-6), "layer_norm": F.layer_norm(x, (columns,), w, b), "softmax": x.softmax(-1),
    }  # fmt: skip
    for name, call in calls.items():
        call()
        torch.testing.assert_close(y, wanted[name], rtol=2e-2, atol=2e-2)
    return calls


def sustained(torch, table: dict):
    """GB/s over two seconds, a copy's between them; what nvidia-smi says at the end of each."""
    for arm, (matrices, call, _) in table.items():
        call()
        once = milliseconds(torch, call, 20)
        took = milliseconds(torch, call, max(20, int(2000 / once)))
        query = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader"]
        state = subprocess.run(query, capture_output=True, text=True).stdout.strip().splitlines()[:1]
        print(f"  {arm:24} {took * 1e3:8.1f} us, burst {once * 1e3:8.1f} us, {matrices:.3g} matrices; {state}")


def turned(torch, x, cos, sin):
    a, b = x.chunk(2, -1)
    cos, sin = cos[:, None].to(x.dtype), sin[:, None].to(x.dtype)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("parts", nargs="*", choices=("rows", "products", []), default=[])
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--quick", action="store_true", help="two shapes")
    arguments.add_argument("--sustained", action="store_true")
    arguments.add_argument("--without", nargs="*", default=[], choices=["compile", "triton"])
    arguments.add_argument(
        "--only", nargs="*", default=[""], help="arms with one of these words in their names, and a copy"
    )
    arguments.add_argument("--shapes", nargs="*", type=shape, metavar="ROWSxCOLUMNS:TYPE")
    given = arguments.parse_args()
    if not given.parts and (given.shapes or given.only != [""] or given.sustained or given.quick):
        given.parts = ["rows"]
    if not (torch := torch_on()):
        return 0
    from pyptx import kernels

    if "products" in given.parts or not given.parts:
        Products(torch, kernels, given.rounds).print()
    if given.parts and "rows" not in given.parts:
        return 0
    for rows, columns, name in given.shapes or (SHAPES[:8:5] if given.quick else SHAPES):
        table = arms(torch, kernels, rows, columns, getattr(torch, name))
        table = {arm: row for arm, row in table.items() if arm == "copy" or any(word in arm for word in given.only)}
        if given.sustained:
            print(f"\n{rows} x {columns} {name}, two seconds each")
            sustained(torch, table)
            continue
        functions = {arm: ours for arm, (_, ours, _) in table.items()}
        beside = others(torch, table, given.without)
        if "triton" not in given.without:
            beside["Triton"] = triton_arms(torch, rows, columns, getattr(torch, name))
        functions |= {f"{who} {arm}": call for who, calls in beside.items() for arm, call in calls.items()}
        nodes = 6 if rows * columns > 2**22 else 30
        graphs = {arm: graph_of(torch, function, nodes) for arm, function in functions.items()}
        times = {arm: statistics.median(row) for arm, row in device_times(torch, graphs, given.rounds, nodes).items()}
        matrix = rows * columns * getattr(torch, name).itemsize
        print(
            f"\n{rows} x {columns} {name}: a copy {times['copy']:.1f} us, {2 * matrix / times['copy'] / 1e3:.0f} GB/s"
        )
        for arm, (matrices, _, _) in table.items():
            speed = matrices / 2 * times["copy"] / times[arm]
            alone = behind_itself(torch, graphs[arm], given.rounds, nodes) if matrices == 1 else 0
            after = f"  {speed * times[arm] / alone:5.2f} behind itself" if alone else ""
            ratios = (
                f"{times[f'{who} {arm}'] / times[arm]:5.2f} x {who}" for who, calls in beside.items() if arm in calls
            )
            print(f"  {arm:24} {times[arm]:8.2f} us  {speed:5.2f} of a copy{after}  {'  '.join(ratios)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
