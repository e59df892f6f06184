"""`kernels.matmul` beside torch.mm (cuBLAS), bf16, randn, medians of interleaved rounds: TFLOP/s, and the ratio of ours.

    python bench/gemm.py [burst] [sustained] [shapes] [models] [odd] [weights] [few] [gradients] [floor] [grouped] [masked] [epilogues] [gated] [fp8] [blocks] [experts] [decode] [heads] [mx] [tune]
                         [--rounds 5] [--minutes 10]

burst      16 launches in a row after half a second of rest
sustained  two seconds of launches; clocks and power at their end
shapes     squares and sizes of models, B stored (N, K) and (K, N), beside the best of cublasLt's algorithms, too; device time in a graph;
           operands stay in L2 where they fit
models     layers of models of random numbers of rows: products, of B (N, K) and (K, N), gradients of weights, and epilogues beside torch's
           kernels; results are compared first; device time in a graph; the slowest, and how many are below 0.95 and 0.9
odd        small and odd products, also of batches, whose results are compared with f64 first; microseconds; device time in a graph
weights    M up to 128, device time in a graph; the weights come from memory: several take turns
few        the same of other types and shapes, and batches: microseconds; results are compared with f64 first
gradients  of weights: A (K, M), B (K, N), few tiles and a long K; and of whole layers, forward and backward; device time in a graph
floor      of the weights with M of 32 to 128: the same kernels without products, and without copies of A either
grouped    kernels.grouped_matmul beside torch._grouped_mm
masked     the same of (experts, rows, K) of which some count, bf16 and fp8, beside torch.bmm of all rows
epilogues  bias, activations and residuals in the epilogue beside torch's kernels, one after the other; microseconds in a graph
gated      swiglu in the epilogue, beside the product and kernels.swiglu behind it
fp8        with scales of tensors and of blocks, beside torch._scaled_mm and our own bf16
blocks     the same with M up to 512, whose weights come from memory: several take turns; microseconds in a graph
experts    grouped_matmul of few rows an expert, fp8 with scales of blocks, beside a copy of as many bytes as weights; GB/s of weights
decode     grouped_matmul where few groups have rows, or all have room for more, beside a copy; GB/s of the weights of groups that have rows
heads      batches with few columns (p @ v), and of heads that lie transposed; results are compared with torch's first
mx         mxfp8 and nvfp4 beside our own bf16 (sm_100a and sm_103a; nothing here has run it)
tune       the tiles that pyptx/kernels/_matmul/costs.py finds quickest, by shape, for at most so many minutes: what they take, and what it says

Needs an sm_90 GPU; matmul's parts run on sm_100 and sm_103, too.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import subprocess
import sys
import time

from _cublaslt import quickest
from _gpu import device_times, graph_of, interleaved, milliseconds, torch_on

SQUARES = (4096, 6144, 8192, 16384)
WEIGHTS = ((4096, 4096), (14336, 4096), (4096, 14336), (6144, 4096), (2112, 7168), (28672, 8192))
MODELS = [(m, n, k) for m in (256, 1024, 4096, 16384) for n, k in ((4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (7168, 2048), (2112, 7168), (1536, 7168))]  # fmt: skip
LONG = (
    (64, 64, 65536), (96, 96, 50176), (128, 512, 32768), (256, 256, 32768), (384, 384, 32768), (512, 512, 12544), (512, 512, 65536),
    (768, 768, 8192), (768, 768, 16384), (768, 3072, 8192), (1024, 512, 8192), (1024, 1024, 8192),
)  # fmt: skip
LAYERS = ((8192, 768, 768), (12544, 512, 512), (50176, 96, 96), (50176, 384, 96), (50176, 96, 384), (8192, 3072, 768), (8192, 768, 3072), (1024, 4096, 4096))  # fmt: skip
# (of a batch,) M, N, K, and whether B is (N, K)
ODD = (
    (4097, 4097, 4097, False), (4097, 4097, 4097, True), (2049, 2049, 2049, False), (1025, 1025, 1025, False), (4096, 50257, 768, True),
    (333, 555, 777, False), (333, 555, 777, True), (100, 100, 100, False), (500, 500, 500, False), (10000, 10, 300, False), (777, 777, 778, True),
    (2048, 16, 16, 16, False), (8192, 8, 8, 8, False), (2048, 16, 16, 256, False), (4096, 64, 64, 64, False), (2048, 48, 48, 48, False),
    (128, 197, 197, 64, False), (128, 197, 197, 64, True), (128, 197, 64, 197, False), (64, 1, 4096, 128, True), (512, 256, 64, 256, False),
    (1048576, 64, 64, False), (262144, 64, 128, True), (262144, 24, 16, False), (1, 1, 4096, True), (1, 4097, 4097, False), (1, 4097, 4097, True),
    (1, 50257, 4096, False), (1, 50257, 4096, True), (8, 50257, 4096, False), (100, 100, 10001, False), (8192, 8, 4096, True), (8192, 32, 8192, True),
)  # fmt: skip
SMALL = [(n, n, n) for n in (512, 768, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584)]
FEW = [(m, n, k) for n, k in ((4096, 4096), (4096, 7168), (7168, 2048), (2112, 7168), (1536, 7168), (24576, 1536), (14336, 4096)) for m in (1, 16, 64, 128)]  # fmt: skip
FEW += [(256, 4096, 4096), (256, 2112, 7168), (512, 2112, 7168), (512, 4096, 7168)]
EXPERTS = ((32, 8, 4096, 7168), (32, 64, 4096, 7168), (8, 16, 4096, 4096), (128, 4, 1536, 2048), (32, 128, 7168, 2048))
# (Of a batch,) M, N, K, the type, and whether B is (N, K)
FEW_ROWS = [(m, 4096, k, "int8", True) for k in (4096, 14336) for m in (1, 32, 128)]
FEW_ROWS += [(m, 4096, 4096, "float32", False) for m in (1, 16, 64, 128)] + [
    (16, 4096, 14336, "float32", False),
    (1, 14336, 4096, "float32", False),
]
FEW_ROWS += [
    (*size, "bfloat16", True)
    for size in (
        (16, 256, 8192),
        (64, 256, 8192),
        (16, 512, 8192),
        (64, 512, 8192),
        (16, 1024, 16384),
        (32, 1024, 16384),
        (16, 1408, 8192),
    )
]
FEW_ROWS += [
    (32, 1024, 16384, "bfloat16", False),
    (16, 4095, 4096, "bfloat16", True),
    (16, 50257, 4096, "bfloat16", True),
]
FEW_ROWS += [
    (*size, "bfloat16", True)
    for size in ((1, 128256, 4096), (64, 128256, 4096), (128, 128256, 4096), (64, 32000, 4096))
]
FEW_ROWS += [(8, m, 4096, 4096, "bfloat16", b_k_major) for m in (1, 32) for b_k_major in (True, False)] + [
    (256, 16, 128, 512, "bfloat16", False),
    (8, 1, 4096, 4096, "float32", False),
]
# Experts, of which so many have rows, how many, the room for rows (None: offs), N, K, whether fp8
DECODE = [(128, 8, 1, None, 1536, 2048, fp8) for fp8 in (False, True)] + [
    (256, 8, 1, None, 4096, 7168, fp8) for fp8 in (False, True)
]
DECODE += [(256, 60, 2, None, 4096, 2048, fp8) for fp8 in (False, True)]
DECODE += [
    (32, 32, rows, room, 4096, 7168, fp8) for fp8 in (False, True) for rows, room in ((8, 64), (8, 512), (48, 512))
] + [(64, 64, 16, 1024, 1536, 2048, False)]
# Batch, M, N, K, and whether B is (N, K)
HEADS = (
    (256, 1024, 64, 1024, False), (256, 1024, 64, 1024, True), (256, 1024, 32, 1024, False), (256, 1024, 96, 1024, False),
    (64, 2048, 128, 2048, False), (256, 1024, 64, 256, False), (256, 64, 1024, 1024, False),
)  # fmt: skip
# N and K of layers of Llama, Qwen, Gemma, DeepSeek, Mixtral, GPT-2, ViT, Whisper and DiT
OF_MODELS = (
    (6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (1280, 8192), (8192, 1024), (7168, 8192), (8192, 3584), (4608, 3584), (3584, 3584),
    (37888, 3584), (3584, 18944), (2048, 1536), (1536, 1536), (17920, 1536), (1536, 8960), (4096, 1024), (1024, 2048), (6144, 1024), (1024, 3072),
    (8192, 3584), (3584, 4096), (28672, 3584), (3584, 14336), (2560, 2048), (32768, 2048), (2048, 16384), (2048, 2048), (2112, 7168), (24576, 1536),
    (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048), (576, 2048), (3072, 2048), (2816, 2048), (2048, 1408), (14336, 4096), (2304, 768), (768, 768),
    (3072, 768), (768, 3072), (3072, 1024), (1024, 1024), (4096, 1024), (1024, 4096), (1280, 1280), (3840, 1280), (5120, 1280), (1280, 5120), (384, 384),
    (1536, 384), (384, 1536), (512, 512), (2048, 512), (512, 2048), (3456, 1152), (1152, 1152), (4608, 1152), (1152, 4608), (5120, 5120), (27648, 5120),
    (5120, 13824), (10240, 2560), (2560, 10240), (2560, 2560), (896, 896), (9728, 896), (896, 4864), (1152, 896),
)  # fmt: skip
ROWS = (
    136, 144, 160, 192, 197, 200, 256, 300, 320, 384, 392, 400, 448, 500, 512, 577, 600, 640, 700, 768, 788, 800, 1000, 1024, 1182, 1280, 1500, 1536, 1576,
    2000, 2048, 2500, 3000, 3072, 3152, 4000, 4096,
)  # fmt: skip
EPILOGUES = ((4096, 4096, 4096), (1024, 4096, 4096), (8192, 768, 768), (8192, 3072, 768), (8192, 768, 3072), (50176, 96, 96), (50176, 384, 96), (12544, 512, 512), (64, 4096, 4096), (128, 14336, 4096))  # fmt: skip

TUNED = 5  # tiles of a shape


def of_models(rng: random.Random) -> list:
    """(kind, M, N, K); the K of gradients is the number of rows."""
    cases = [("(N, K)", rng.choice(ROWS), n, k) for n, k in OF_MODELS for _ in range(2)]
    cases += [("(K, N)", rng.choice(ROWS), n, k) for n, k in rng.sample(OF_MODELS, 36)]
    many = [*(rows for rows in ROWS if rows % 8 == 0 and rows > 500), 8192, 4096, 2048]
    cases += [("gradient", n, k, rng.choice(many)) for n, k in rng.sample(OF_MODELS, 36)]
    for kind in ("bias", "gelu", "residual"):
        cases += [(kind, rng.choice(ROWS), n, k) for n, k in rng.sample(OF_MODELS, 14)]
    return [(kind, m, n, k) for kind, m, n, k in dict.fromkeys(cases) if m * n * k < 4.2e11]


class Bench:
    def __init__(self, torch, kernels, rounds: int, minutes: float):
        self.torch, self.kernels, self.rounds, self.minutes = torch, kernels, rounds, minutes

    def randn(self, *shape):
        return self.torch.randn(*shape, device="cuda", dtype=self.torch.bfloat16)

    def arms(self, m: int, n: int, k: int):
        a, b, out = self.randn(m, k), self.randn(k, n), self.randn(m, n)
        return {"ours": lambda: self.kernels.matmul(a, b, out=out), "cuBLAS": lambda: self.torch.mm(a, b, out=out)}

    def interleaved(self, arms, launches: int, rest: float):
        return interleaved(self.torch, arms, self.rounds, launches, rest)

    def report(self, what: str, flops: float, rows, note: str = ""):
        """Times, in any unit of time that `flops` is per 1e-9 of: milliseconds and flops / 1e9, microseconds and flops / 1e6."""
        speeds = {name: flops / statistics.median(row) for name, row in rows.items()}
        base = list(rows)[-1]
        ratios = {
            name: statistics.median(y / x for x, y in zip(row, rows[base], strict=True)) for name, row in rows.items()
        }
        found = " | ".join(f"{speed:.0f} ({ratios[name]:.3f})" for name, speed in speeds.items())
        print(f"| {what} | {found} | {note}", flush=True)
        return ratios

    def header(self, title: str, *names: str):
        print(f"\n{title}\n\n| shape | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}", flush=True)

    def in_graphs(self, arms, nodes: int):
        graphs = {name: graph_of(self.torch, arm, nodes) for name, arm in arms.items()}
        return device_times(self.torch, graphs, self.rounds, nodes)

    def bursts(self, arms, launches: int, rest: float):
        """Milliseconds a launch of graphs of so many, after a rest: what a call costs the host does not count."""
        graphs = {name: graph_of(self.torch, arm, launches).replay for name, arm in arms.items()}
        rows = self.interleaved(graphs, 1, rest)
        return {name: [elapsed / launches for elapsed in row] for name, row in rows.items()}

    # What is measured.

    def burst(self):
        self.header("Burst, TFLOP/s (ratio)", "ours", "cuBLAS")
        for n in SQUARES:
            self.report(n, 2 * n**3 / 1e9, self.interleaved(self.arms(n, n, n), 16 if n < 16384 else 4, 0.5))

    def sustained(self):
        self.header("Sustained, TFLOP/s (ratio)", "ours", "cuBLAS")
        for n in SQUARES:
            arms = self.arms(n, n, n)
            launches = max(2, int(2e3 / milliseconds(self.torch, arms["cuBLAS"], 3)))
            rows = self.interleaved(arms, launches, 0)
            state = subprocess.run(
                ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader"],
                capture_output=True,
                text=True,
            )
            self.report(n, 2 * n**3 / 1e9, rows, state.stdout.strip().splitlines()[0] if state.stdout else "")

    def shapes(self):
        for b_k_major in (True, False):
            title = "(N, K)" if b_k_major else "(K, N)"
            self.header(f"Shapes, B {title}, TFLOP/s (ratio), in a graph", "ours", "cuBLAS", "the best of cublasLt")
            ratios = []
            for m, n, k in (*SMALL, *MODELS):
                nodes = max(3, min(30, int(3e12 / (m * n * k))))
                a, out = self.randn(m, k), self.randn(m, n)
                b = self.randn(n, k).mT if b_k_major else self.randn(k, n)
                arms = {
                    "ours": lambda a=a, b=b, out=out: self.kernels.matmul(a, b, out=out),
                    "cuBLAS": lambda a=a, b=b, out=out: self.torch.mm(a, b, out=out),
                    "best": quickest(self.torch, a, b, out),
                }
                found = self.report(f"{m} x {n} x {k}", 2 * m * n * k / 1e6, self.in_graphs(arms, nodes))
                ratios.append(found["ours"])
            print(f"median {statistics.median(ratios):.3f}, least {min(ratios):.3f}")

    def models(self):
        self.header("Layers of models, us (ratio), in a graph", "ours", "torch")
        ratios = []
        for kind, m, n, k in of_models(random.Random(7)):
            arms = self.of_layer(kind, m, n, k)
            got, wanted = (arms[name]().double() for name in ("ours", "torch"))
            assert float((got - wanted).norm() / wanted.norm()) < 8e-3, f"{kind} {m} x {n} x {k}"
            times = self.in_graphs(arms, max(2, min(12, int(2e11 / (m * n * k)))))
            ours, other = (statistics.median(times[name]) for name in ("ours", "torch"))
            ratios.append(
                (other / ours, f"| {m} x {n} x {k}, {kind} | {ours:.1f} ({other / ours:.3f}) | {other:.1f} |")
            )
        less, least = (sum(ratio < limit for ratio, _ in ratios) for limit in (0.95, 0.9))
        print(*(line for _, line in sorted(ratios)[: less + 5]), sep="\n")
        median = statistics.median(ratio for ratio, _ in ratios)
        print(f"{len(ratios)}: median {median:.3f}, below 0.95 {less}, below 0.9 {least}")

    def of_layer(self, kind: str, m: int, n: int, k: int) -> dict:
        torch, matmul, functional = self.torch, self.kernels.matmul, self.torch.nn.functional
        a = self.randn(k, m).mT if kind == "gradient" else self.randn(m, k)
        b = self.randn(k, n) if kind in ("gradient", "(K, N)") else self.randn(n, k).mT
        more, (out, other) = self.randn(n), (self.randn(m, n) for _ in range(2))
        ours, theirs = {
            "bias": (lambda: matmul(a, b, bias=more), lambda: functional.linear(a, b.mT, more)),
            "gelu": (
                lambda: matmul(a, b, bias=more, activation="gelu"),
                lambda: functional.gelu(functional.linear(a, b.mT, more)),
            ),
            "residual": (lambda: matmul(a, b, residual=other), lambda: torch.addmm(other, a, b)),
        }.get(kind, (lambda: matmul(a, b, out=out), lambda: torch.mm(a, b, out=other)))
        return {"ours": ours, "torch": theirs}

    def odd(self):
        self.header("Small and odd, us (ratio), in a graph", "ours", "cuBLAS")
        for *sizes, b_k_major in ODD:
            *batch, m, n, k = sizes
            a, out = self.randn(*batch, m, k), self.randn(*batch, m, n)
            b = self.randn(*batch, n, k).mT if b_k_major else self.randn(*batch, k, n)
            arms = {
                "ours": lambda a=a, b=b, out=out: self.kernels.matmul(a, b, out=out),
                "cuBLAS": lambda a=a, b=b, out=out: self.torch.matmul(a, b, out=out),
            }
            wanted = a.double() @ b.double()
            off = float((arms["ours"]().double() - wanted).norm() / wanted.norm())
            assert off < 4e-3, f"{sizes}: {off}"
            times = self.in_graphs(arms, max(3, min(30, int(3e11 / (m * n * k)))))
            ours, cublas = (statistics.median(times[name]) for name in arms)
            layout = "(N, K)" if b_k_major else "(K, N)"
            print(
                f"| {' x '.join(map(str, sizes))} | {ours:.1f} ({cublas / ours:.2f}) | {cublas:.1f} | B {layout}",
                flush=True,
            )

    def weights(self):
        self.header("Weights from memory, GB/s (ratio), in a graph", "ours", "copy", "cuBLAS")
        for n, k in WEIGHTS:
            count = max(2, int(4e8 / (n * k * 2)))
            weights, source = [self.randn(n, k) for _ in range(count)], self.randn(n * k)
            target = self.torch.empty_like(source)
            for m in (1, 8, 16, 32, 64, 128):
                a, out = self.randn(m, k), self.randn(m, n)
                turns = {
                    "ours": lambda w, a=a, out=out: self.kernels.matmul(a, w.mT, out=out),
                    "cuBLAS": lambda w, a=a, out=out: self.torch.mm(a, w.mT, out=out),
                }
                arms = {name: self.in_turn(turn, weights) for name, turn in turns.items()}
                times = self.in_graphs(arms | {"copy": lambda t=target, s=source: t.copy_(s)}, 2 * count)
                times["copy"] = [each / 2 for each in times["copy"]]  # it also writes
                ours, copy, cublas = (statistics.median(times[name]) for name in ("ours", "copy", "cuBLAS"))
                goal = "met" if cublas / ours >= 1.15 or copy / ours >= 0.88 else "missed"
                self.report(
                    f"{m} x {n} x {k}",
                    n * k * 2 / 1e3,
                    {"ours": times["ours"], "copy": times["copy"], "cuBLAS": times["cuBLAS"]},
                    f"{copy / ours:.2f} of a copy; the goal of 1.15 of cuBLAS or 0.88 of a copy is {goal}",
                )

    def few(self):
        self.header("Few rows, us (torch's time over ours), in a graph", "ours", "torch", "GB/s of B")
        torch = self.torch
        for *sizes, name, b_k_major in FEW_ROWS:
            *batch, m, n, k = sizes
            dtype = getattr(torch, name)

            def made(*shape, dtype=dtype):
                if dtype == torch.int8:
                    return torch.randint(-128, 128, shape, device="cuda", dtype=dtype)
                return torch.randn(*shape, device="cuda", dtype=dtype)

            of_b = (*batch, n, k) if b_k_major else (*batch, k, n)
            a, bytes_ = made(*batch, m, k), dtype.itemsize * n * k * (batch or [1])[0]
            weights = [made(*of_b) for _ in range(max(2, int(3e8 / bytes_)))]
            weights = [each.mT if b_k_major else each for each in weights]
            ours = self.kernels.matmul(a, weights[0])
            out, wanted = torch.empty_like(ours), a.double() @ weights[0].double()
            assert (ours - wanted).norm() < 6e-3 * wanted.norm(), sizes
            turns = {"ours": lambda w, a=a, out=out: self.kernels.matmul(a, w, out=out)}
            if dtype != torch.int8:
                turns["torch"] = lambda w, a=a, out=out: torch.matmul(a, w, out=out)
            elif m > 16:
                turns["torch"] = lambda w, a=a: torch._int_mm(a, w)
            arms = {name: self.in_turn(turn, weights) for name, turn in turns.items()}
            found = {name: statistics.median(each) for name, each in self.in_graphs(arms, max(8, len(weights))).items()}
            mine, other = found["ours"], found.get("torch")
            cells = f"{mine:.1f}" + (f" ({other / mine:.2f}) | {other:.1f}" if other else " | ")
            shape = f"{' x '.join(map(str, sizes))} {name}, {'(N, K)' if b_k_major else '(K, N)'}"
            print(f"| {shape} | {cells} | {bytes_ / mine / 1e3:.0f}", flush=True)

    def gradients(self):
        self.header("Gradients of weights, M x N x K, TFLOP/s (ratio)", "ours", "cuBLAS")
        for m, n, k in LONG:
            x, g, out = self.randn(k, m), self.randn(k, n), self.randn(m, n)
            arms = {
                "ours": lambda x=x, g=g, out=out: self.kernels.matmul(x.mT, g, out=out),
                "cuBLAS": lambda x=x, g=g, out=out: self.torch.mm(x.mT, g, out=out),
            }
            self.report(f"{m} x {n} x {k}", 2 * m * n * k / 1e6, self.in_graphs(arms, 6))
        self.header("Layers, rows x N x K, forward and backward, TFLOP/s (ratio)", "ours", "cuBLAS")
        for rows, n, k in LAYERS:
            (x, dx), (w, dw), (g, y) = (
                [self.randn(*size) for _ in range(2)] for size in ((rows, k), (n, k), (rows, n))
            )

            def layer(product, x=x, w=w, g=g, y=y, dx=dx, dw=dw):
                return product(x, w.mT, out=y), product(g, w, out=dx), product(g.mT, x, out=dw)

            arms = {
                "ours": lambda layer=layer: layer(self.kernels.matmul),
                "cuBLAS": lambda layer=layer: layer(self.torch.mm),
            }
            self.report(f"{rows} x {n} x {k}", 6 * rows * n * k / 1e6, self.in_graphs(arms, 6))

    def floor(self):
        from unittest import mock

        from pyptx.kernels._matmul import stream as streams
        from pyptx.kernels._matmul.choice import stream_of
        from pyptx.types import bf16

        class Copies(streams.Stream):
            def issue(self, *_):
                pass

        class Weights(Copies):
            @property
            def copied_bytes(self):
                return self.c.deep * self.b.bytes

            def copy_a(self, *_):
                pass

        self.header("Streams, GB/s of weights (ratio)", "whole", "copies alone", "copies of weights alone", "copy")
        for n, k in WEIGHTS[:1] + WEIGHTS[2:5]:
            count = max(2, int(4e8 / (n * k * 2)))
            weights, source = [self.randn(n, k) for _ in range(count)], self.randn(n * k)
            target = self.torch.empty_like(source)
            for m in (32, 64, 128):
                a, out, arms = self.randn(m, k), self.randn(m, n), {}
                for body in (streams.Stream, Copies, Weights):
                    with mock.patch.object(streams, "Stream", body):
                        kernel = streams.stream_kernel.__wrapped__(stream_of(m, n, k), bf16)
                        kernel(a, weights[0], out=out)
                    turn = lambda w, kernel=kernel, a=a, out=out: kernel(a, w, out=out)  # noqa: E731
                    arms[body.__name__] = self.in_turn(turn, weights)
                times = self.in_graphs(arms | {"copy": lambda t=target, s=source: t.copy_(s)}, 2 * count)
                times["copy"] = [each / 2 for each in times["copy"]]  # it also writes
                self.report(f"{m} x {n} x {k}", n * k * 2 / 1e3, times)

    def in_turn(self, function, weights):
        turn = iter(range(1 << 60))
        return lambda: function(weights[next(turn) % len(weights)])

    def grouped(self):
        self.header("Groups, TFLOP/s (ratio)", "ours", "ours, fp8 with scales of blocks", "torch._grouped_mm")
        for t, k, n, experts in (
            (16384, 4096, 4096, 8),
            (32768, 6144, 4096, 16),
            (65536, 4096, 2048, 32),
            (65536, 2048, 1536, 128),
        ):
            a, b = self.randn(t, k), self.randn(experts, n, k)
            cuts = self.torch.arange(1, experts + 1, device="cuda") * (t // experts)
            cuts[:-1] += self.torch.randint(-t // experts // 4, t // experts // 4, (experts - 1,), device="cuda")
            offs, out = cuts.int(), self.randn(t, n)
            given = self.scaled(a, b, offs, out)
            arms = {
                "ours": lambda a=a, b=b, offs=offs, out=out: self.kernels.grouped_matmul(a, b.mT, offs, out=out),
                "fp8": lambda given=given: self.kernels.grouped_matmul(*given[0], **given[1]),
                "torch": lambda a=a, b=b, offs=offs: self.torch._grouped_mm(a, b.mT, offs),
            }
            self.report(f"{t} x {n} x {k}, {experts}", 2 * t * n * k / 1e9, self.bursts(arms, 8, 0.2))

    def scaled(self, a, b, offs, out):
        """Arguments of grouped_matmul for these as fp8."""
        (t, k), (experts, n, _) = a.shape, b.shape
        scales = [self.torch.rand(shape, device="cuda") for shape in ((t, k // 128), (experts, k // 128, n // 128))]
        fp8 = [each.to(self.torch.float8_e4m3fn) for each in (a, b)]
        return (fp8[0], fp8[1].mT, offs), {"scale_a": scales[0], "scale_b": scales[1], "out": out}

    def masked(self):
        self.header(
            "Groups of rows that count, TFLOP/s of those (ratio)",
            "ours",
            "ours, fp8 with scales of blocks",
            "torch.bmm of all",
        )
        torch = self.torch
        for experts, rows, k, n in ((8, 4096, 4096, 4096), (32, 2048, 4096, 2048), (64, 256, 7168, 4096)):
            a, b, out = self.randn(experts, rows, k), self.randn(experts, n, k), self.randn(experts, rows, n)
            counts = torch.randint(rows // 4, rows + 1, (experts,), device="cuda").int()
            scales = [
                torch.rand(shape, device="cuda") for shape in ((experts, rows, k // 128), (experts, k // 128, n // 128))
            ]
            small, of_b = (each.to(torch.float8_e4m3fn) for each in (a, b))
            told = {"counts": counts, "out": out}
            arms = {
                "ours": lambda a=a, b=b, told=told: self.kernels.grouped_matmul(a, b.mT, **told),
                "fp8": lambda a=small, b=of_b, s=scales, told=told: self.kernels.grouped_matmul(a, b.mT, scale_a=s[0], scale_b=s[1], **told),
                "torch": lambda a=a, b=b, out=out: torch.bmm(a, b.mT, out=out),
            }  # fmt: skip
            flops = 2 * int(counts.sum()) * n * k
            self.report(f"{experts} x {rows} x {n} x {k}", flops / 1e9, self.bursts(arms, 8, 0.2))

    def epilogues(self):
        """Each cell: ours, and how many times as long torch's kernels take; results are compared before."""
        torch, F = self.torch, self.torch.nn.functional
        given = {
            "none": {}, "bias": {"bias": 1}, "bias, gelu": {"bias": 1, "activation": "gelu"}, "bias, silu": {"bias": 1, "activation": "silu"},
            "residual": {"residual": 1}, "bias, gelu, residual": {"bias": 1, "activation": "gelu", "residual": 1},
        }  # fmt: skip
        self.header("Epilogues, microseconds (torch's kernels by ours)", *given)
        for m, n, k in EPILOGUES:
            a, w, out = self.randn(m, k), self.randn(n, k) / k**0.5, self.randn(m, n)
            more = {"bias": self.randn(n), "residual": self.randn(m, n)}
            cells = []
            for options in given.values():
                told = {name: more.get(name, value) for name, value in options.items()}

                def theirs(told=told, a=a, w=w):
                    if "residual" in told and len(told) == 1:
                        return torch.addmm(told["residual"], a, w.mT)
                    z = F.linear(a, w, told.get("bias"))
                    z = getattr(F, told["activation"])(z) if "activation" in told else z
                    return z + told["residual"] if "residual" in told else z

                def ours(told=told, a=a, w=w, out=out):
                    return self.kernels.matmul(a, w.mT, out=out, **told)

                torch.testing.assert_close(ours(), theirs(), rtol=3e-2, atol=3e-2)
                nodes = max(3, min(40, int(1e12 / (m * n * k))))
                times = self.in_graphs({"ours": ours, "torch": theirs}, nodes)
                mine, other = (statistics.median(each) for each in times.values())
                cells.append(f"{mine:.1f} ({other / mine:.2f})")
            print(f"| {m} x {n} x {k} | {' | '.join(cells)} |", flush=True)

    def gated(self):
        self.header("swiglu, TFLOP/s (ratio)", "in the epilogue", "behind the product", "torch.mm, then torch")
        silu, kernels = self.torch.nn.functional.silu, self.kernels
        for m, n, k in ((4096, 4096, 4096), (8192, 14336, 4096), (1024, 2048, 7168)):
            a, w = self.randn(m, k), self.randn(2 * n, k)

            def behind(product, gate, a=a, w=w):
                return gate(*product(a, w.mT).chunk(2, -1))

            arms = {
                "fused": lambda a=a, w=w: kernels.matmul(a, w.mT, activation="swiglu"),
                "behind": lambda behind=behind: behind(kernels.matmul, kernels.swiglu),
                "torch": lambda behind=behind: behind(self.torch.mm, lambda gate, up: silu(gate) * up),
            }
            self.report(f"{m} x {n} x {k}", 4 * m * n * k / 1e9, self.bursts(arms, 8, 0.2))

    def fp8(self):
        self.header("fp8, TFLOP/s (ratio to our bf16)", "blocks", "tensors", "torch._scaled_mm", "our bf16")
        torch, one = self.torch, self.torch.ones(1, device="cuda")
        for m, n, k in (
            (4096, 4096, 7168),
            (4096, 7168, 16384),
            (4096, 24576, 1536),
            (4096, 2112, 7168),
            (4096, 7168, 2048),
        ):
            wide, wider = self.randn(m, k), self.randn(n, k)
            a, b = wide.to(torch.float8_e4m3fn), wider.to(torch.float8_e4m3fn)
            blocks = torch.rand(m, k // 128, device="cuda"), torch.rand(k // 128, -(-n // 128), device="cuda")
            arms = {
                "blocks": lambda a=a, b=b, s=blocks: self.kernels.matmul(a, b.mT, scale_a=s[0], scale_b=s[1]),
                "tensors": lambda a=a, b=b: self.kernels.matmul(a, b.mT, scale_a=one, scale_b=one),
                "torch": lambda a=a, b=b: torch._scaled_mm(
                    a, b.mT, one, one, out_dtype=torch.bfloat16, use_fast_accum=True
                ),
                "bf16": lambda a=wide, b=wider: self.kernels.matmul(a, b.mT),
            }
            self.report(f"{m} x {n} x {k}", 2 * m * n * k / 1e9, self.bursts(arms, 8, 0.3))

    def blocks(self):
        self.header(
            "fp8, scales of blocks, us (of torch's bf16), in a graph", "blocks", "tensors", "our bf16", "torch.mm, bf16"
        )
        torch, product, one = self.torch, self.kernels.matmul, self.torch.ones(1, device="cuda")
        for m, n, k in FEW:
            count = max(2, int(3e8 / (n * k)))
            weights = [self.randn(n, k).to(torch.float8_e4m3fn) for _ in range(count)]
            wide, x, out = [self.randn(n, k) for _ in range(-(-count // 2))], self.randn(m, k), self.randn(m, n)
            a, s = x.to(torch.float8_e4m3fn), torch.rand(m, k // 128, device="cuda")
            t = torch.rand(k // 128, -(-n // 128), device="cuda")
            turns = {
                "blocks": lambda w, a=a, s=s, t=t, out=out: product(a, w.mT, scale_a=s, scale_b=t, out=out),
                "tensors": lambda w, a=a, out=out: product(a, w.mT, scale_a=one, scale_b=one, out=out),
            }
            arms = {name: self.in_turn(turn, weights) for name, turn in turns.items()}
            arms["bf16"] = self.in_turn(lambda w, x=x, out=out: product(x, w.mT, out=out), wide)
            arms["torch"] = self.in_turn(lambda w, x=x, out=out: torch.mm(x, w.mT, out=out), wide)
            found = {name: statistics.median(each) for name, each in self.in_graphs(arms, count).items()}
            cells = " | ".join(f"{each:.1f} ({found['torch'] / each:.2f})" for each in found.values())
            print(f"| {m} x {n} x {k} | {cells} |", flush=True)

    def experts(self):
        self.header("Few rows an expert, GB/s of weights (of a copy)", "offs", "counts", "copy")
        torch = self.torch
        for experts, rows, n, k in EXPERTS:
            a, b = self.randn(experts * rows, k), self.randn(experts, n, k)
            ends = torch.arange(1, experts + 1, device="cuda", dtype=torch.int32) * rows
            given, told = self.scaled(a, b, ends, self.randn(experts * rows, n))
            counts = torch.full((experts,), rows, device="cuda", dtype=torch.int32)
            each = (x.view(experts, rows, -1) for x in (given[0], told["scale_a"], told["out"]))
            room, scales, out = each
            masked = {"scale_a": scales, "scale_b": told["scale_b"], "out": out, "counts": counts}
            source = torch.empty(experts * n * k, device="cuda", dtype=torch.uint8)
            target = torch.empty_like(source)
            arms = {
                "offs": lambda given=given, told=told: self.kernels.grouped_matmul(*given, **told),
                "counts": lambda a=room, b=given[1], masked=masked: self.kernels.grouped_matmul(a, b, **masked),
                "copy": lambda t=target, s=source: t.copy_(s),
            }
            times = self.in_graphs(arms, 4)
            times["copy"] = [each / 2 for each in times["copy"]]  # it also writes
            self.report(f"{experts} x {rows} x {n} x {k}", experts * n * k / 1e3, times)

    def decode(self):
        self.header("Groups of few rows, GB/s (of a copy)", "ours", "copy", "torch._grouped_mm")
        torch = self.torch
        for experts, some, rows, room, n, k, fp8 in DECODE:
            bytes_, t, cuts = some * n * k * (1 if fp8 else 2), experts * room if room else some * rows, []
            for _ in range(1 + int(2e8 / bytes_)):  # other groups take turns
                counts = torch.zeros(experts, device="cuda", dtype=torch.int32)
                counts[torch.randperm(experts, device="cuda")[:some]] = rows
                cuts.append(counts if room else counts.cumsum(0).int())
            a, b = self.randn(t, k), self.randn(experts, n, k)
            told, arms = {"out": self.randn(t, n)}, {}
            if not (fp8 or room):
                arms["torch"] = self.in_turn(lambda ends, a=a, b=b: torch._grouped_mm(a, b.mT, ends), cuts)
            if fp8:
                (a, b, _), told = self.scaled(a, b, cuts[0], told["out"])
                b = b.mT
            if room:
                a = a.view(experts, room, k)
                told |= {name: told[name].view(experts, room, -1) for name in {"out", "scale_a"} & set(told)}
            turns = [told | {"counts" if room else "offs": each} for each in cuts]
            ours = self.in_turn(lambda told, a=a, b=b: self.kernels.grouped_matmul(a, b.mT, **told), turns)
            source = torch.empty(bytes_, device="cuda", dtype=torch.uint8)
            target = torch.empty_like(source)
            times = self.in_graphs(
                {"ours": ours, "copy": lambda t=target, s=source: t.copy_(s), **arms}, max(4, len(cuts))
            )
            times["copy"] = [each / 2 for each in times["copy"]]  # it also writes
            what = f"{experts}, {some} of {rows} rows" + (f" of {room}" if room else "")
            found = {name: bytes_ / 1e3 / statistics.median(each) for name, each in times.items()}
            cells = " | ".join(f"{each:.0f} ({each / found['copy']:.2f})" for each in found.values())
            print(f"| {what}, {n} x {k}{', fp8' if fp8 else ''} | {cells} |", flush=True)

    def heads(self):
        self.header("Batches, GB/s (ratio), in a graph", "ours", "torch.matmul")
        randn, torch = self.randn, self.torch
        given = {}
        for b, m, n, k, b_k_major in HEADS:
            name = f"{b}, {m} x {n} x {k}, B {'(N, K)' if b_k_major else '(K, N)'}"
            given[name] = randn(b, m, k), randn(b, n, k).mT if b_k_major else randn(b, k, n)
        q, key, v = (randn(4, 1024, 16, 64).transpose(1, 2) for _ in range(3))
        given |= {
            "q @ k.mT of transposed heads": (q, key.mT),
            "p @ v of transposed heads": (randn(4, 16, 1024, 1024), v),
        }
        for name, (a, b) in given.items():
            torch.testing.assert_close(self.kernels.matmul(a, b), a @ b, rtol=3e-2, atol=3e-1)
            arms = {
                "ours": lambda a=a, b=b: self.kernels.matmul(a, b),
                "cuBLAS": lambda a=a, b=b: torch.matmul(a, b),
            }
            bytes_ = 2 * (a.numel() + b.numel() + a.shape[:-1].numel() * b.shape[-1])
            self.report(name, bytes_ / 1e3, self.in_graphs(arms, 4))

    def mx(self):
        torch = self.torch
        if torch.cuda.get_device_capability() < (10, 0):
            print("skipped: mxfp8 and nvfp4 want sm_100a or sm_103a")
            return
        self.header("Block scales, TFLOP/s (ratio to our bf16)", "mxfp8", "nvfp4", "our bf16")
        formats = {
            "mxfp8": (torch.float8_e4m3fn, torch.float8_e8m0fnu, 1, 32),
            "nvfp4": (torch.float4_e2m1fn_x2, torch.float8_e4m3fn, 2, 16),
        }
        for m, n, k in ((4096, 4096, 7168), (8192, 8192, 8192)):
            wide, wider, arms = self.randn(m, k), self.randn(n, k), {}
            for name, (dtype, factor, per_byte, block) in formats.items():
                a, b = (
                    torch.randint(0, 120, (rows, k // per_byte), device="cuda", dtype=torch.uint8).view(dtype)
                    for rows in (m, n)
                )
                s, t = (torch.rand(rows, k // block, device="cuda").to(factor) for rows in (m, n))
                arms[name] = lambda a=a, b=b, s=s, t=t: self.kernels.matmul(a, b.mT, scale_a=s, scale_b=t.mT)
            arms["bf16"] = lambda a=wide, b=wider: self.kernels.matmul(a, b.mT)
            self.report(f"{m} x {n} x {k}", 2 * m * n * k / 1e9, self.bursts(arms, 8, 0.3))

    def tune(self):
        from pyptx.kernels._matmul.costs import Sizes, is_taken, microseconds, tiles
        from pyptx.kernels._matmul.hopper import product_kernel
        from pyptx.types import bf16

        end, off = time.monotonic() + 60 * self.minutes, []
        shapes = [
            (*size, *majors) for size in (*SMALL, *MODELS) for majors in ((True, True), (True, False), (False, False))
        ]
        self.header("Tiles that costs find quickest, us (their costs)", "cuBLAS", *(f"{i + 1}." for i in range(TUNED)))
        for m, n, k, a_k_major, b_k_major in random.Random(0).sample(shapes, len(shapes)):
            if time.monotonic() > end:
                print("the others: out of time")
                break
            s = Sizes(m, n, -(-k // 64), 1, a_k_major, b_k_major, plain=True)
            legal = sorted((microseconds(c, s), i, c) for i, c in enumerate(tiles(*s.kinds)) if is_taken(c, s))
            about = {named(c): cost for cost, _, c in legal[:TUNED]}
            a, out = self.randn(*((m, k) if a_k_major else (k, m))), self.randn(m, n)
            b = self.randn(*((n, k) if b_k_major else (k, n)))
            arms = {}
            for _, _, c in legal[:TUNED]:
                kernel = product_kernel(c, bf16, a_k_major, b_k_major)
                arms[named(c)] = lambda kernel=kernel, a=a, b=b, out=out: kernel(a, b, out=out)
            left, right = a if a_k_major else a.mT, b.mT if b_k_major else b
            arms["cuBLAS"] = lambda a=left, b=right, out=out: self.torch.mm(a, b, out=out)
            times = self.in_graphs(arms, max(3, min(30, int(3e12 / (m * n * k)))))
            found = {name: statistics.median(each) for name, each in times.items()}
            off += [abs(math.log(cost / found[name])) for name, cost in about.items()]
            cells = (f"{name}: {found[name]:.1f} ({cost:.1f})" for name, cost in about.items())
            how = ("(M, K)" if a_k_major else "(K, M)") + (" (N, K)" if b_k_major else " (K, N)")
            print(f"| {m} x {n} x {k}, {how} | {found['cuBLAS']:.1f} | {' | '.join(cells)} |", flush=True)
        print(f"on average {statistics.mean(off):.3f} off")


def named(c) -> str:
    size = "C^T " * c.turned + f"{c.bm} x {c.bn}" + f" in {c.cm} x {c.cn}" * (c.cm * c.cn > 1)
    return size + (f", {c.parts} parts of K" if c.parts > 1 else ", one each" * c.once)


def main() -> int:
    parts = (
        "burst", "sustained", "shapes", "models", "odd", "weights", "gradients", "floor", "grouped", "masked", "epilogues", "gated", "fp8",
        "blocks", "experts", "decode", "heads", "few",
    )  # fmt: skip
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("parts", nargs="*", choices=(*parts, "mx", "tune", []), default=[])
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--minutes", type=float, default=10)
    given = arguments.parse_args()
    if not (torch := torch_on(90, 103)):
        return 0
    from pyptx import kernels

    bench = Bench(torch, kernels, given.rounds, given.minutes)
    for part in given.parts or parts:
        getattr(bench, part)()
    return 0


if __name__ == "__main__":
    sys.exit(main())
