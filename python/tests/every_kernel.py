"""Calls every function of pyptx.kernels, small, forward and backward, by every path that a product or a row may take.  compute-sanitizer watches these
calls (`tools/gpu sanitize`), and test_every_kernel.py repeats them.

compute-sanitizer --tool memcheck python python/tests/every_kernel.py [name ...]

A call takes the device, draws its tensors and returns its results; what may differ from run to run is not among them.
"""

from __future__ import annotations

import functools
import sys
from unittest import mock

import torch

from pyptx import kernels
from pyptx.kernels import _row_function

E4M3 = torch.float8_e4m3fn


def half(device, *shape):
    return torch.randn(shape, device=device).bfloat16()


def numbers(device, *values):
    return torch.tensor(values, dtype=torch.int32, device=device)


def with_gradients(function, given, *more, **options) -> list:
    """The results, and the gradients of the tensors `given`."""
    given = [each.requires_grad_() for each in given]
    made = function(*given, *more, **options)
    made = made if isinstance(made, tuple) else (made,)
    return [*made, *torch.autograd.grad([each.float().sum() for each in made], given)]


def rows(function, matrices: int, vectors: int, *shape, dtype=torch.bfloat16, of_vectors=None, **options):
    def call(device):
        sizes = [(shape, dtype)] * matrices + [(shape[-1:], of_vectors or dtype)] * vectors
        given = [torch.randn(size, device=device).to(kind) for size, kind in sizes]
        return with_gradients(function, given, **options)

    return call


def as_of_many(call):
    """A call by the kernels for many rows."""

    def made(device):
        with mock.patch.object(_row_function, "FEW_ROWS", ()):
            return call(device)

    return made


def turned_rows(function):
    """Of channels in front of their pixels, in 16 bits and, of an odd number, in f32."""

    def call(device):
        given = torch.randn(2, 40, 48, device=device).bfloat16().mT, torch.randn(33, 21, device=device).mT
        return [each for x in given for each in with_gradients(function, [x.detach()])]

    return call


def apart(function, matrices: int, vectors: int):
    """Heads of a wider projection, transposed."""

    def call(device):
        wide = [torch.randn(2, 9, 4, 3, 64, device=device).bfloat16() for _ in range(matrices)]
        given = [each[:, :, :, 1].transpose(1, 2).detach().requires_grad_() for each in wide]
        given += [half(device, 64).requires_grad_() for _ in range(vectors)]
        made = function(*given)
        return [made, *torch.autograd.grad(made, given, torch.randn_like(made.transpose(1, 2)).transpose(1, 2))]

    return call


def losses_of_columns(matrices: int, classes: int, columns: int):
    def call(device):
        x, target = (
            half(device, matrices, classes, columns),
            torch.randint(0, classes, (matrices, columns), device=device),
        )
        return with_gradients(kernels.cross_entropy, [x], target, dim=1, label_smoothing=0.1)

    return call


def losses(rows: int, columns: int, dtype=torch.bfloat16, weighted=False, **options):
    def call(device):
        x, target = (
            torch.randn(rows, columns, device=device).to(dtype),
            torch.randint(0, columns, (rows,), device=device),
        )
        target[rows // 2] = -100
        weight = torch.rand(columns, device=device) if weighted else None
        return with_gradients(kernels.cross_entropy, [x], target, weight, **options)

    return call


def losses_of_probabilities(device):
    return with_gradients(
        kernels.cross_entropy, [torch.randn(5, 1000, device=device)], torch.rand(5, 1000, device=device).softmax(-1)
    )


def turned(device):
    x, angles = torch.randn(2, 6, 3, 64, device=device), torch.rand(6, 32, device=device)
    return with_gradients(kernels.rope, [x], angles.cos(), angles.sin(), seq_dim=-3)


def quantized(*shape, of=lambda x: x, **options):
    return lambda device: list(kernels.quantize_fp8(of(half(device, *shape)), **options))


def small(device):
    x = torch.randn(1000, device=device)
    return [kernels.add(x, x), kernels.scaled_add(x, x, alpha=0.5)]


def product(m: int, n: int, k: int, *batch, more=(), **options):
    """Forward, and the gradients, whose operands are transposed.  `more`: "bias", "residual"."""

    def call(device):
        columns = n // 2 if options.get("activation") in ("swiglu", "geglu") else n
        shapes = {"bias": (n,), "residual": (*batch, m, columns)}
        names = ["a", "b", *more]
        given = [half(device, *shapes.get(each, (*batch, m, k) if each == "a" else (*batch, k, n))) for each in names]
        found = with_gradients(lambda *given: kernels.matmul(**dict(zip(names, given, strict=True)), **options), given)
        told = dict(zip(names[2:], given[2:], strict=True))
        with torch.no_grad():
            return [*found, kernels.matmul(given[0], half(device, *batch, n, k).mT, **told, **options)]

    return call


def of_type(dtype, m: int, n: int, k: int, k_last=(True, True), scales: str | None = None, **options):
    """`k_last`: whether A and B lie along K.  `scales`: of the "tensor", each "row" or each "block"."""

    def call(device):
        a, b = (
            torch.randint(-3, 4, (size, k) if along else (k, size), device=device).to(dtype)
            for size, along in zip((m, n), k_last, strict=True)
        )
        a, b = a if k_last[0] else a.mT, b.mT if k_last[1] else b
        blocks = -(-k // 128)
        of_a, of_b = {"tensor": ((1,), (1,)), "row": ((m, 1), (1, n)), "block": ((m, blocks), (blocks, -(-n // 128))), None: (0, 0)}[scales]  # fmt: skip
        told = (
            {"scale_a": torch.rand(of_a, device=device), "scale_b": torch.rand(of_b, device=device)} if scales else {}
        )
        return [kernels.matmul(a, b, **told, **options)]

    return call


def groups(k: int, n: int, *ends, dtype=torch.bfloat16, counts=None, rows: int = 0, **options):
    """Groups of rows that end at `ends`, or of `rows` rows each, of which `counts` count; e4m3 has scales of blocks."""

    def call(device):
        experts, lead = len(counts or ends), (len(counts), rows) if counts else (ends[-1],)
        a, b = torch.randn(*lead, k, device=device).to(dtype), torch.randn(experts, n, k, device=device).to(dtype).mT
        told = {"counts": numbers(device, *counts)} if counts else {"offs": numbers(device, *ends)}
        told |= options
        if dtype != E4M3:
            if counts:  # other rows are whatever was there
                told["out"] = torch.zeros(*lead, n, device=device, dtype=dtype)
                return [kernels.grouped_matmul(a, b, **told)]
            return with_gradients(kernels.grouped_matmul, [a, b], **told)
        blocks, columns = -(-k // 128), n // 2 if "activation" in options else n
        told["scale_a"] = torch.rand(*lead, blocks, device=device)
        told["scale_b"] = torch.rand(experts, blocks, -(-n // 128), device=device)
        out = torch.zeros(*lead, columns, device=device, dtype=torch.bfloat16)
        return [kernels.grouped_matmul(a, b, **told, out=out)]

    return call


def attention(q_shape, k_shape, backward=True, dtype=torch.bfloat16, **options):
    """Gradients may differ from run to run, but for `deterministic`."""

    def call(device):
        given = [torch.randn(shape, device=device).to(dtype) for shape in (q_shape, k_shape, k_shape)]
        if not backward:
            return [kernels.attention(*given, **options)]
        made, *gradients = with_gradients(kernels.attention, given, **options)
        return [made, *(gradients if options.get("deterministic") else ())]

    return call


def masked(queries: int, keys: int):
    def call(device):
        q, k, v = (half(device, 1, 2, length, 64) for length in (queries, keys, keys))
        mask = torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
        return [kernels.attention(q, k, v, mask=mask)]

    return call


def sequences(*begins: int):
    def call(device):
        given = [half(device, begins[-1], 2, 64) for _ in range(3)]
        return with_gradients(kernels.attention, given, cu_seqlens=numbers(device, *begins), causal=True)[:1]

    return call


def pages(device):
    given = half(device, 1, 4, 1, 64), *(half(device, 3, 16, 2, 64) for _ in range(2))
    return [kernels.attention(*given, lengths=numbers(device, 40), block_table=numbers(device, 1, 0, 2)[None])]


def many_queries_of_pages(device):
    """So many that tiles of the forward take them, of 132 and more in all."""
    given = half(device, 160, 68, 64), *(half(device, 3, 16, 34, 64) for _ in range(2))
    table, counts = numbers(device, 1, 0, 2, 0)[:, None], numbers(device, 16, 3, 0, 9)
    begins = numbers(device, 0, 40, 80, 120, 160)
    return [kernels.attention(*given, cu_seqlens=begins, lengths=counts, block_table=table, causal=True)]


EVERY = {
    "rms_norm": rows(kernels.rms_norm, 1, 1, 9, 1000),
    "rms_norm, odd": rows(kernels.rms_norm, 1, 1, 9, 333),
    "rms_norm, long": rows(kernels.rms_norm, 1, 1, 20, 20000),
    "rms_norm, alone": rows(kernels.rms_norm, 1, 0, 9, 4096),
    "rms_norm, few columns": rows(kernels.rms_norm, 1, 1, 70, 96),
    "rms_norm, of a few elements": rows(kernels.rms_norm, 1, 1, 300, 10),
    "rms_norm, weights of f32": rows(kernels.rms_norm, 1, 1, 9, 1000, of_vectors=torch.float32),
    "layer_norm": rows(kernels.layer_norm, 1, 2, 9, 1000),
    "layer_norm, odd": rows(kernels.layer_norm, 1, 2, 9, 1001),
    "layer_norm, long": rows(kernels.layer_norm, 1, 2, 20, 20000),
    "layer_norm, f32": rows(kernels.layer_norm, 1, 2, 40, 2048, dtype=torch.float32),
    "add_rms_norm": rows(kernels.add_rms_norm, 2, 1, 9, 1000),
    "add_rms_norm, long": rows(kernels.add_rms_norm, 2, 1, 3, 40000),
    "softmax": rows(kernels.softmax, 1, 0, 9, 1000),
    "softmax, odd": rows(kernels.softmax, 1, 0, 70, 1001),
    "softmax, of a few elements": as_of_many(rows(kernels.softmax, 1, 0, 300, 7)),
    "softmax, of few rows": rows(kernels.softmax, 1, 0, 70, 33),
    "softmax, turned": turned_rows(kernels.softmax),
    "softmax, long": rows(kernels.softmax, 1, 0, 20, 20000),
    "softmax, not kept": rows(kernels.softmax, 1, 0, 3, 300001),
    "softmax, to f32": rows(functools.partial(kernels.softmax, dtype=torch.float32), 1, 0, 9, 1000),
    "softmax, of few columns": rows(kernels.softmax, 1, 0, 9, 21, 1000, dim=1),
    "softmax, of many columns": rows(kernels.softmax, 1, 0, 9, 100, 1000, dim=1),
    "softmax, of wide columns": rows(kernels.softmax, 1, 0, 8, 20, 2048, dim=1),
    "softmax, of long columns": rows(kernels.softmax, 1, 0, 1, 4096, 16, dim=1),
    "softmax, of a row a thread": as_of_many(rows(kernels.softmax, 1, 0, 300, 33)),
    "log_softmax": rows(kernels.log_softmax, 1, 0, 9, 1000),
    "swiglu": rows(kernels.swiglu, 2, 0, 9, 1000),
    "swiglu, halves": rows(kernels.swiglu, 1, 0, 9, 16384),
    "swiglu, halves that are not cut": rows(kernels.swiglu, 1, 0, 9, 12000),
    "swiglu, odd halves": rows(kernels.swiglu, 1, 0, 9, 2 * 333),
    "swiglu, of few elements": lambda device: [kernels.swiglu(half(device, 9, 48), half(device, 9, 48))],
    "swiglu, apart": apart(kernels.swiglu, 2, 0),
    "rms_norm, apart": apart(kernels.rms_norm, 1, 1),
    "layer_norm, apart": apart(kernels.layer_norm, 1, 2),
    "geglu": rows(kernels.geglu, 2, 0, 9, 1000),
    "geglu, halves by tanh": rows(kernels.geglu, 1, 0, 9, 2000, approximate="tanh"),
    "cross_entropy": losses(5, 1000, torch.float32),
    "cross_entropy, odd": losses(9, 1001, reduction="none"),
    "cross_entropy, long": losses(3, 50257, label_smoothing=0.1),
    "cross_entropy, a cluster a row": losses(3, 131072),
    "cross_entropy, of a few elements": losses(300, 10, weighted=True),
    "cross_entropy, many rows": losses(9000, 24, reduction="sum"),
    "cross_entropy, probabilities": losses_of_probabilities,
    "cross_entropy, columns": losses_of_columns(9, 21, 1000),
    "cross_entropy, columns that groups share": losses_of_columns(2, 500, 40),
    "cross_entropy, very many rows": losses(140_000, 3),
    "rope": turned,
    "quantize_fp8": quantized(40, 1000),
    "quantize_fp8, blocks": quantized(40, 1000, block=128),
    "quantize_fp8, squares": quantized(140, 300, block=(128, 128)),
    "quantize_fp8, blocks apart": quantized(40, 1000, block=128, of=lambda x: x[:, 200:600]),
    "quantize_fp8, blocks transposed": quantized(400, 136, block=128, of=lambda x: x.mT),
    "quantize_fp8, squares transposed": quantized(400, 136, block=(128, 128), of=lambda x: x.mT),
    "elementwise": small,
    "matmul": product(200, 136, 320),
    "matmul, activation": product(200, 136, 320, activation="gelu"),
    "matmul, epilogue": product(264, 648, 656, more=("bias", "residual"), activation="silu"),
    "matmul, gates": product(200, 272, 320, more=("bias",), activation="swiglu"),
    "matmul, a batch": product(70, 72, 136, 3),
    "matmul, small matrices": product(16, 24, 40, 40),
    "matmul, few rows": product(16, 256, 1024),
    "matmul, few rows and an epilogue": product(64, 264, 1024, more=("bias", "residual"), activation="gelu"),
    "matmul, one row": product(1, 333, 515),
    "matmul, one column": product(300, 1, 520),
    "matmul, odd": product(33, 45, 71),
    "matmul, odd with an epilogue": product(150, 141, 203, more=("bias", "residual"), activation="gelu"),
    "matmul, a long K": of_type(torch.bfloat16, 72, 136, 4096, (False, False)),
    "matmul, a long odd K": of_type(torch.bfloat16, 72, 33, 4099),
    "matmul, f16": of_type(torch.float16, 200, 136, 320, (False, True)),
    "matmul, f32": of_type(torch.float32, 200, 136, 320),
    "matmul, f32 by columns": of_type(torch.float32, 200, 136, 320, (False, False)),
    "matmul, int8": of_type(torch.int8, 200, 144, 320),
    "matmul, int8, odd": of_type(torch.int8, 33, 45, 71, (True, False)),
    "matmul, fp8": of_type(E4M3, 200, 144, 320, scales="tensor"),
    "matmul, fp8 with scales of rows": of_type(E4M3, 200, 144, 320, (False, False), scales="row"),
    "matmul, fp8 with scales of blocks": of_type(E4M3, 200, 300, 400, scales="block"),
    "matmul, fp8 with scales of blocks and gates": of_type(E4M3, 150, 512, 400, scales="block", activation="swiglu"),
    "matmul, fp8 with scales of blocks, few rows": of_type(E4M3, 9, 264, 1040, scales="block"),
    "matmul, fp8 with scales of blocks, up to 128 rows": of_type(E4M3, 100, 264, 1040, scales="block"),
    "matmul, fp8 with scales of rows, few rows": of_type(E4M3, 9, 264, 1040, scales="row"),
    "grouped_matmul": groups(64, 48, 130, 130, 140, 300),
    "grouped_matmul, swiglu": groups(64, 48, 130, 130, 140, 300, activation="swiglu"),
    "grouped_matmul, odd": groups(50, 74, 13, 13, 150),
    "grouped_matmul, counts": groups(64, 48, counts=(80, 0, 7), rows=80),
    "grouped_matmul, fp8": groups(264, 256, 130, 130, 300, dtype=E4M3),
    "grouped_matmul, fp8, counts, swiglu": groups(
        264, 256, counts=(80, 0, 7), rows=80, dtype=E4M3, activation="swiglu"
    ),
    "attention": attention((1, 2, 70, 64), (1, 1, 200, 64), causal=True),
    "attention, 128": attention((1, 2, 70, 128), (1, 1, 200, 128)),
    "attention, 256": attention((1, 2, 70, 256), (1, 1, 200, 256)),
    "attention, short": attention((1, 2, 70, 64), (1, 2, 100, 64), causal=True),
    "attention, 256, few queries": attention((1, 1, 70, 256), (1, 1, 600, 256)),
    "attention, heads in parts": attention((1, 8, 200, 64), (1, 1, 200, 64), causal=True),
    "attention, 256, heads in parts": attention((1, 8, 70, 256), (1, 1, 70, 256)),
    "attention, 256 in pairs": attention((1, 2, 200, 256), (1, 1, 200, 256), backward=False),
    "attention, a mask": masked(150, 170),
    "attention, a mask of short sequences": masked(70, 70),
    "attention, a mask of few queries": masked(3, 700),
    "attention, e4m3": attention((1, 2, 200, 128), (1, 2, 200, 128), backward=False, dtype=E4M3),
    "attention, a fixed order": attention((1, 2, 70, 64), (1, 1, 200, 64), deterministic=True),
    "attention, decoding": attention((1, 4, 1, 64), (1, 2, 500, 64), backward=False),
    "attention, sequences": sequences(0, 5, 5, 75),
    "attention, pages": pages,
    "attention, many queries of pages": many_queries_of_pages,
}
# What the simulator takes too long for: copies to other rows are for large products, CTAs go over many rows in waves, products have many tiles.
LARGE = {
    "rms_norm, many rows": rows(kernels.rms_norm, 1, 1, 3000, 4096),
    "layer_norm, many rows": rows(kernels.layer_norm, 1, 2, 3000, 4096),
    "layer_norm, a row ahead": rows(kernels.layer_norm, 1, 2, 300, 65536),
    "rms_norm, odd, many rows": rows(kernels.rms_norm, 1, 1, 3000, 2047),
    "layer_norm, odd, many rows": rows(kernels.layer_norm, 1, 2, 3000, 2047),
    "layer_norm, odd, long": rows(kernels.layer_norm, 1, 2, 300, 32003),
    "add_rms_norm, many rows": rows(kernels.add_rms_norm, 2, 1, 20000, 128),
    "matmul, few rows of weights": of_type(torch.bfloat16, 16, 4096, 4096),
    "matmul, a tall stream": of_type(torch.bfloat16, 100, 1536, 4096),
    "matmul, fp8 with scales of blocks, weights": of_type(E4M3, 16, 4096, 4096, scales="block"),
    "matmul, 1024 cubed": of_type(torch.bfloat16, 1024, 1024, 1024),
    "matmul, padded": of_type(torch.bfloat16, 1025, 1025, 1025),
    "matmul, many tiles": product(1500, 2000, 1000, more=("bias", "residual"), activation="gelu"),
    "matmul, fp8 with scales of blocks, many tiles": of_type(E4M3, 1500, 4000, 1024, scales="block"),
    "matmul, 8192 rows by few columns": of_type(torch.bfloat16, 8192, 8, 4096),
    "attention, long sequences": sequences(0, 700, 1300, 2200),
}


def main() -> int:
    calls = EVERY | LARGE
    for name in sys.argv[1:] or calls:
        calls[name]("cuda")
        torch.cuda.synchronize()
        print(name, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
