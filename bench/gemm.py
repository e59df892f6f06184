"""A bf16 product by examples/hopper_gemm.py beside torch.mm (cuBLAS): TFLOP/s, medians of interleaved rounds.

    python bench/gemm.py [--rounds 5] [--launches 16]

Needs an sm_90 GPU.  Operands are drawn from a normal distribution; each round rests 0.3 s, then launches in a row.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from _process import EXAMPLES

sys.path.insert(0, EXAMPLES)


def milliseconds(torch, function, launches: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(launches):
        function()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / launches


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--launches", type=int, default=16)
    given = arguments.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: no torch")
        return 0
    if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
        print("skipped: no sm_90 GPU")
        return 0
    from hopper_gemm import gemm, tile_schedule

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n  size   pyptx  cuBLAS  ratio   TFLOP/s")
    for n in (2048, 4096, 6144, 8192):
        a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        tiles, ours, theirs = torch.from_numpy(tile_schedule(n, n)).cuda(), torch.empty_like(a), torch.empty_like(a)
        arms = (
            lambda a=a, b=b, tiles=tiles, ours=ours, n=n: gemm(a, b, tiles, M=n, N=n, K=n, out=ours),
            lambda a=a, b=b, theirs=theirs: torch.mm(b, a.T, out=theirs),
        )
        rows: tuple[list[float], list[float]] = ([], [])
        for round_ in range(given.rounds + 1):
            for arm, row in zip(arms, rows, strict=True):
                time.sleep(0.3)
                elapsed = milliseconds(torch, arm, given.launches)
                if round_:  # the first warms caches and clocks
                    row.append(2 * n**3 / elapsed / 1e9)
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=1.0)
        flops = [statistics.median(row) for row in rows]
        ratio = statistics.median(x / y for x, y in zip(*rows, strict=True))
        print(f"  {n:5}  {flops[0]:6.0f}  {flops[1]:6.0f}  {ratio:5.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
