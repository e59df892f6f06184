"""Calls every function of pyptx.kernels once, small, forward and backward: what compute-sanitizer watches (`tools/gpu sanitize`).

compute-sanitizer --tool memcheck python python/tests/every_kernel.py [name ...]
"""

from __future__ import annotations

import functools
import sys

import torch

from pyptx import kernels


def rows(function, matrices: int, vectors: int, *shape, **options):
    def call(device):
        sizes = [shape] * matrices + [shape[-1:]] * vectors
        given = [torch.randn(size, device=device).bfloat16().requires_grad_() for size in sizes]
        made = function(*given, **options)
        made = made if isinstance(made, tuple) else (made,)
        torch.autograd.grad([each.float().sum() for each in made], given)

    return call


def apart(function, matrices: int, vectors: int):
    """Heads of a wider projection, transposed."""

    def call(device):
        heads = [
            torch.randn(2, 9, 4, 3, 64, device=device).bfloat16()[:, :, :, 1].transpose(1, 2) for _ in range(matrices)
        ]
        given = [each.detach().requires_grad_() for each in heads] + [
            half(device, 64).requires_grad_() for _ in range(vectors)
        ]
        made = function(*given)
        torch.autograd.grad(made, given, torch.randn_like(made.transpose(1, 2)).transpose(1, 2))

    return call


def columns(device):
    x, target = half(device, 9, 21, 1000).requires_grad_(), torch.randint(0, 21, (9, 1000), device=device)
    torch.autograd.grad(kernels.cross_entropy(x, target, dim=1, label_smoothing=0.1), x)


def half(device, *shape):
    return torch.randn(shape, device=device).bfloat16()


def product(m: int, n: int, k: int, **options):
    """Forward, and the gradients, whose operands are transposed."""

    def call(device):
        a, b = (half(device, *shape).requires_grad_() for shape in ((m, k), (k, n)))
        torch.autograd.grad(kernels.matmul(a, b, **options).sum(), (a, b))
        kernels.matmul(a.detach(), half(device, n, k).mT)

    return call


def of_type(dtype, m: int, n: int, k: int):
    def call(device):
        a, b = (torch.randint(-3, 4, shape, device=device).to(dtype) for shape in ((m, k), (n, k)))
        kernels.matmul(a, b.mT)

    return call


def scaled(device):
    x, w = (torch.randn(shape, device=device) for shape in ((200, 300), (160, 300)))
    (q, s), (r, t) = kernels.quantize_fp8(x, block=128), kernels.quantize_fp8(w, block=(128, 128))
    kernels.matmul(q, r.mT, scale_a=s, scale_b=t.mT)
    kernels.quantize_fp8(x)


def groups(device, **options):
    a, b = half(device, 300, 64).requires_grad_(), half(device, 4, 64, 48).requires_grad_()
    ends = torch.tensor([130, 130, 140, 300], dtype=torch.int32, device=device)
    torch.autograd.grad(kernels.grouped_matmul(a, b, ends, **options).sum(), (a, b))


def groups_that_count(device):
    counts = torch.tensor([80, 0, 7], dtype=torch.int32, device=device)
    kernels.grouped_matmul(half(device, 3, 80, 64), half(device, 3, 64, 48), counts=counts)


def attention(q_shape, k_shape, backward=True, **options):
    def call(device):
        given = [half(device, *shape).requires_grad_() for shape in (q_shape, k_shape, k_shape)]
        made = kernels.attention(*given, **options)
        if backward:
            torch.autograd.grad(made.sum(), given)

    return call


def masked(device):
    q, k, v = (half(device, 1, 2, 70, 64) for _ in range(3))
    kernels.attention(q, k, v, mask=torch.ones(70, 70, dtype=torch.bool, device=device).tril())


def sequences(device):
    given = [half(device, 75, 2, 64).requires_grad_() for _ in range(3)]
    begins = torch.tensor([0, 5, 5, 75], dtype=torch.int32, device=device)
    torch.autograd.grad(kernels.attention(*given, cu_seqlens=begins, causal=True).sum(), given)


def pages(device):
    lengths, table = (torch.tensor(each, dtype=torch.int32, device=device) for each in ([40], [[1, 0, 2]]))
    kernels.attention(
        half(device, 1, 4, 1, 64), *(half(device, 3, 16, 2, 64) for _ in range(2)), lengths=lengths, block_table=table
    )


def small(device):
    x = torch.randn(1000, device=device)
    kernels.add(x, x)
    kernels.scaled_add(x, x, alpha=0.5)


def losses(device):
    x = torch.randn(5, 1000, device=device, requires_grad=True)
    torch.autograd.grad(kernels.cross_entropy(x, torch.tensor([1, 2, -100, 4, 999], device=device)), x)


def turned(device):
    x, angles = torch.randn(2, 6, 3, 64, device=device, requires_grad=True), torch.rand(6, 32, device=device)
    torch.autograd.grad(kernels.rope(x, angles.cos(), angles.sin(), seq_dim=-3).sum(), x)


EVERY = {
    "rms_norm": rows(kernels.rms_norm, 1, 1, 9, 1000),
    "rms_norm, odd": rows(kernels.rms_norm, 1, 1, 9, 333),
    "rms_norm, long": rows(kernels.rms_norm, 1, 1, 300, 20000),
    "rms_norm, alone": rows(kernels.rms_norm, 1, 0, 9, 4096),
    "layer_norm": rows(kernels.layer_norm, 1, 2, 9, 1000),
    "layer_norm, long": rows(kernels.layer_norm, 1, 2, 300, 20000),
    "add_rms_norm": rows(kernels.add_rms_norm, 2, 1, 9, 1000),
    "softmax": rows(kernels.softmax, 1, 0, 9, 1000),
    "softmax, long": rows(kernels.softmax, 1, 0, 300, 20000),
    "softmax, not kept": rows(kernels.softmax, 1, 0, 3, 300001),
    "log_softmax": rows(kernels.log_softmax, 1, 0, 9, 1000),
    "swiglu": rows(kernels.swiglu, 2, 0, 9, 1000),
    "geglu": rows(kernels.geglu, 2, 0, 9, 1000),
    "swiglu, halves": rows(kernels.swiglu, 1, 0, 9, 12000),
    "rms_norm, apart": apart(kernels.rms_norm, 1, 1),
    "layer_norm, apart": apart(kernels.layer_norm, 1, 2),
    "swiglu, apart": apart(kernels.swiglu, 2, 0),
    "softmax, columns": rows(functools.partial(kernels.softmax, dim=1), 1, 0, 9, 21, 1000),
    "softmax, many columns": rows(functools.partial(kernels.softmax, dim=1), 1, 0, 9, 100, 1000),
    "cross_entropy, columns": columns,
    "cross_entropy": losses,
    "rope": turned,
    "elementwise": small,
    "matmul": product(200, 136, 320),
    "matmul, activation": product(200, 136, 320, activation="gelu"),
    "matmul, few rows": product(16, 256, 1024),
    "matmul, odd": product(33, 45, 71),
    "matmul, f32": of_type(torch.float32, 200, 136, 320),
    "matmul, int8": of_type(torch.int8, 200, 144, 320),
    "matmul, fp8 with scales of blocks, quantize_fp8": scaled,
    "grouped_matmul": groups,
    "grouped_matmul, swiglu": lambda device: groups(device, activation="swiglu"),
    "grouped_matmul, counts": groups_that_count,
    "attention": attention((1, 2, 70, 64), (1, 1, 200, 64), causal=True),
    "attention, 128": attention((1, 2, 70, 128), (1, 1, 200, 128)),
    "attention, 256": attention((1, 2, 70, 256), (1, 1, 200, 256)),
    "attention, short": attention((1, 2, 70, 64), (1, 2, 100, 64), causal=True),
    "attention, 256, few queries": attention((1, 1, 70, 256), (1, 1, 600, 256)),
    "attention, 256 in pairs": attention((1, 2, 200, 256), (1, 1, 200, 256), backward=False),
    "attention, a mask": masked,
    "attention, a fixed order": attention((1, 2, 70, 64), (1, 1, 200, 64), deterministic=True),
    "attention, decoding": attention((1, 4, 1, 64), (1, 2, 500, 64), backward=False),
    "attention, sequences": sequences,
    "attention, pages": pages,
}


def main() -> int:
    names = sys.argv[1:] or EVERY
    for name in names:
        EVERY[name]("cuda")
        torch.cuda.synchronize()
        print(name, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
