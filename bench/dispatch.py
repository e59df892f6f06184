"""What one eager call costs the host: RMSNorm of 16 x 512 f32 (2 inputs, 1 output) beside torch's own operators.

    python bench/dispatch.py [--rounds 40] [--calls 400]

Needs a CUDA device.  Columns, in microseconds a call, median of the rounds (every round times all columns one after the
other, so that a clock that drifts drifts for all; the device is idle when a column starts and is waited for after it,
outside the time):
  kernel      examples/rms_norm.py, called with the same two tensors
  add         torch.add(a, b), which the target compares with
  empty_like  torch.empty_like(a): the allocation that every one of these calls contains
ratio is the median over the rounds of kernel / add; the target is 0.80 or less.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples"))

ROWS, COLUMNS = 16, 512


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=40)
    arguments.add_argument("--calls", type=int, default=400, help="a round and column; fewer than the driver queues")
    given = arguments.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: no torch")
        return 0
    if not torch.cuda.is_available():
        print("skipped: no CUDA device")
        return 0

    from rms_norm import build_rms_norm

    norm = build_rms_norm(ROWS, COLUMNS)
    x, w = torch.randn(ROWS, COLUMNS, device="cuda"), torch.randn(COLUMNS, device="cuda")
    b = torch.randn_like(x)
    expected = torch.nn.functional.rms_norm(x, (COLUMNS,), w, 1e-6)
    torch.testing.assert_close(norm(x, w), expected, rtol=1e-4, atol=1e-5)

    def kernel(calls):
        for _ in range(calls):
            norm(x, w)

    def add(calls, add=torch.add):
        for _ in range(calls):
            add(x, b)

    def empty_like(calls, empty_like=torch.empty_like):
        for _ in range(calls):
            empty_like(x)

    columns = {"kernel": kernel, "add": add, "empty_like": empty_like}
    times: dict[str, list[float]] = {name: [] for name in columns}
    for round_ in range(given.rounds + 3):
        for name, column in columns.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            column(given.calls)
            elapsed = time.perf_counter() - start
            if round_ >= 3:  # the first rounds warm caches and clocks
                times[name].append(elapsed / given.calls * 1e6)
    torch.cuda.synchronize()

    from pyptx import _core

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Python {sys.version.split()[0]}")
    print(f"assembler: {_core.assembler_description()}")
    print(f"{given.rounds} rounds of {given.calls} calls, microseconds a call")
    print("".join(f"{name:>12}" for name in columns) + f"{'ratio':>12}")
    ratio = statistics.median(k / a for k, a in zip(times["kernel"], times["add"], strict=True))
    print("".join(f"{statistics.median(row):12.2f}" for row in times.values()) + f"{ratio:12.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
