"""Products for bench/kernels.py: ours beside torch.mm (cuBLAS), the best algorithm that cublasLt offers, Triton, torch.compile and torch._grouped_mm.

bf16, randn, B (N, K), medians of interleaved rounds.  Warm: replayed graphs with the same operands, which stay in L2 where they fit.  Cold: operands that
take turns, so many that L2 (60 MB) has none of them when its turn comes.  Sustained: half a second of launches each, with the clock and the power
shortly before their end.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess

from _cublaslt import quickest
from _gpu import device_times, graph_of

SHAPES = (
    (4096, 4096, 4096), (8192, 8192, 8192), (1024, 1024, 1024), (2048, 2048, 2048), (1, 4096, 4096), (16, 4096, 4096), (64, 14336, 4096),
    (256, 4096, 4096), (1024, 7168, 2048), (4096, 6144, 4096), (4096, 4096, 14336), (8192, 768, 3072),
)  # fmt: skip
EPILOGUES = ((4096, 4096, 4096), (8192, 3072, 768))
GROUPS = ((16384, 4096, 4096, 8), (8192, 1536, 2048, 128), (64, 2048, 7168, 32))  # rows, N, K, experts
COLD = 2**28  # bytes of operands that take turns


class Products:
    def __init__(self, torch, kernels, rounds: int):
        self.torch, self.kernels, self.rounds = torch, kernels, rounds

    def randn(self, *shape):
        return self.torch.randn(*shape, device="cuda", dtype=self.torch.bfloat16)

    def medians(self, arms: dict, nodes: int) -> dict[str, float]:
        """Microseconds of a launch."""
        graphs = {name: graph_of(self.torch, arm, nodes) for name, arm in arms.items()}
        return {
            name: statistics.median(row) for name, row in device_times(self.torch, graphs, self.rounds, nodes).items()
        }

    def print(self):
        self.plain()
        self.epilogues()
        self.groups()

    def plain(self):
        others = ["cuBLAS", "the best of cublasLt", "Triton"]
        print(
            f"\n| M x N x K | us | TFLOP/s | {' | '.join(others)} | cold, us | cuBLAS | sustained, TFLOP/s | cuBLAS | state |"
        )
        print("|---" * 11 + "|")
        for m, n, k in SHAPES:
            count = min(64, max(2, COLD // (2 * (m * k + n * k))))
            sets, out = [(self.randn(m, k), self.randn(n, k)) for _ in range(count)], self.randn(m, n)
            arms = {
                "ours": lambda a, b, out=out: self.kernels.matmul(a, b.mT, out=out),
                "cuBLAS": lambda a, b, out=out: self.torch.mm(a, b.mT, out=out),
            }
            a, b = sets[0]
            still = {name: lambda arm=arm, a=a, b=b: arm(a, b) for name, arm in arms.items()}
            best = {"the best of cublasLt": quickest(self.torch, a, b.mT, out), **self.triton(a, b, out)}
            nodes = max(3, min(30, int(1e12 / (m * n * k))))
            warm, cold = (
                self.medians(still | best, nodes),
                self.medians({name: in_turn(arm, sets) for name, arm in arms.items()}, max(nodes, count)),
            )
            held = {name: self.sustained(arm, warm[name]) for name, arm in still.items()}
            speed = 2 * m * n * k / 1e6
            cells = [f"{warm['ours']:.1f}", f"{speed / warm['ours']:.0f}"]
            cells += [f"{warm[name] / warm['ours']:.2f}" if name in warm else "" for name in others]
            cells += [f"{cold['ours']:.1f}", f"{cold['cuBLAS'] / cold['ours']:.2f}"]
            cells += [f"{speed / held['ours'][0]:.0f}", f"{held['cuBLAS'][0] / held['ours'][0]:.3f}", held["ours"][1]]
            print(f"| {m} x {n} x {k} | {' | '.join(cells)} |", flush=True)

    def triton(self, a, b, out) -> dict:
        try:
            from _triton_products import quickest as of_triton
        except ImportError:
            return {}
        product = of_triton(a, b, out)
        product(a, b)
        self.torch.testing.assert_close(out, a @ b.mT, rtol=2e-2, atol=0.5)
        return {"Triton": lambda: product(a, b)}

    def sustained(self, function, once: float) -> tuple[float, str]:
        """(microseconds of a launch over half a second, the clock and the power meanwhile)."""
        nodes = max(1, int(2e3 / once))
        graph, replays = graph_of(self.torch, function, nodes), max(1, int(5e5 / (once * nodes)))
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        query = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader"]
        state = subprocess.run(query, capture_output=True, text=True).stdout.strip().splitlines()[:1]
        end.synchronize()
        return start.elapsed_time(end) * 1e3 / (replays * nodes), "".join(state)

    def epilogues(self):
        torch, F = self.torch, self.torch.nn.functional
        print("\n| gelu(a b + bias), M x N x K | us | torch | torch.compile |")
        print("|---" * 4 + "|")
        for m, n, k in EPILOGUES:
            a, w, bias = self.randn(m, k), self.randn(n, k) / k**0.5, self.randn(n)

            def eager(a, w, bias):
                return F.gelu(F.linear(a, w, bias))

            compiled = torch.compile(eager, dynamic=False)
            arms = {
                "ours": lambda a=a, w=w, bias=bias: self.kernels.matmul(a, w.mT, bias=bias, activation="gelu"),
                "torch": lambda a=a, w=w, bias=bias: eager(a, w, bias),
                "torch.compile": lambda a=a, w=w, bias=bias, compiled=compiled: compiled(a, w, bias),
            }
            wanted = arms["torch"]()
            for arm in arms.values():
                torch.testing.assert_close(arm(), wanted, rtol=3e-2, atol=3e-2)
            times = self.medians(arms, 4)
            found = " | ".join(f"{times[name] / times['ours']:.2f}" for name in list(arms)[1:])
            print(f"| {m} x {n} x {k} | {times['ours']:.1f} | {found} |", flush=True)

    def groups(self):
        torch = self.torch
        print("\n| rows x N x K, experts | us | TFLOP/s | torch._grouped_mm |")
        print("|---" * 4 + "|")
        for t, n, k, experts in GROUPS:
            a, b, out = self.randn(t, k), self.randn(experts, n, k), self.randn(t, n)
            ends = torch.sort(torch.randint(0, t + 1, (experts,), device="cuda"))[0].int()
            ends[-1] = t
            arms = {
                "ours": lambda a=a, b=b, out=out, ends=ends: self.kernels.grouped_matmul(a, b.mT, ends, out=out),
                "torch": lambda a=a, b=b, ends=ends: torch._grouped_mm(a, b.mT, ends),
            }
            arms["ours"]()
            torch.testing.assert_close(out, arms["torch"](), rtol=2e-2, atol=0.5)
            times = self.medians(arms, 4)
            speed, ratio = 2 * t * n * k / 1e6 / times["ours"], times["torch"] / times["ours"]
            print(f"| {t} x {n} x {k}, {experts} | {times['ours']:.1f} | {speed:.0f} | {ratio:.2f} |", flush=True)


def in_turn(function, sets):
    turn = itertools.cycle(sets)
    return lambda: function(*next(turn))
