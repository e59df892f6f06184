"""A kernel with a backward: train the scales of the columns of a matrix, eagerly and compiled.

python examples/autograd.py        uses CUDA tensors if there is a device, otherwise CPU tensors on the simulator
"""

import sys

import torch

from pyptx import Tile, differentiable_kernel, kernel, ptx, reg
from pyptx.types import f32, u32

MATRIX, COLUMNS = Tile("M", "N", f32), Tile("N", f32)


@kernel(in_specs=(MATRIX, COLUMNS), out_specs=(MATRIX,), grid=lambda M: (M, 1, 1), block=(64, 1, 1), arch="sm_75")
def scale(X, W, Y):
    """y = x * w, a row a CTA."""
    px, pw, py = ptx.global_ptrs(X, W, Y)
    columns = X.shape[1]
    row = reg.from_(ptx.special.ctaid.x(), u32) * (columns * 4)
    x, w = reg.scalar(f32), reg.scalar(f32)
    for i in ptx.range_(reg.from_(ptx.special.tid.x(), u32), columns, 64):
        ptx.inst.ld.global_.f32(x, ptx.addr(px + row + i * 4))
        ptx.inst.ld.global_.f32(w, ptx.addr(pw + i * 4))
        ptx.inst.mul.f32(x, x, w)
        ptx.inst.st.global_.f32(ptx.addr(py + row + i * 4), x)
    ptx.ret()


@kernel(
    in_specs=(MATRIX, MATRIX), out_specs=(COLUMNS,), raw_params=[("u32", "M"), ("u32", "N")],
    grid=lambda N: (N, 1, 1), arch="sm_75",
)  # fmt: skip
def column_products(X, G, DW):
    """The sum of x * g over the rows, a column a CTA."""
    px, pg, pdw = ptx.global_ptrs(X, G, DW)
    column = reg.from_(ptx.special.ctaid.x(), u32)
    x, g, total = reg.scalar(f32), reg.scalar(f32), reg.scalar(f32, init=0.0)
    n = ptx.param(u32, "N")
    for row in ptx.range_(0, ptx.param(u32, "M")):
        at = (row * n + column) * 4
        ptx.inst.ld.global_.f32(x, ptx.addr(px + at))
        ptx.inst.ld.global_.f32(g, ptx.addr(pg + at))
        ptx.inst.fma.rn.f32(total, x, g, total)
    ptx.inst.st.global_.f32(ptx.addr(pdw + column * 4), total)
    ptx.ret()


def scale_backward(x, w, g):
    """The backward gets the saved inputs and the gradient of each output, and returns a gradient for each input."""
    return scale(g, w), column_products(x, g)


scaled = differentiable_kernel(scale, scale_backward)


def loss(x, w, target):
    return (scaled(x, w) - target).square().mean()


def train(loss, steps: int = 30) -> float:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    x, wanted = torch.randn(4, 64, device=device), torch.linspace(0.5, 1.5, 64, device=device)
    target = x * wanted
    w = torch.ones(64, device=device, requires_grad=True)
    optimiser = torch.optim.SGD([w], lr=8.0)
    for _ in range(steps):
        optimiser.zero_grad()
        value = loss(x, w, target)
        value.backward()
        optimiser.step()
    return value.item()


def main() -> int:
    eager = train(loss)
    compiled = train(torch.compile(loss, fullgraph=True, backend="aot_eager"))
    print(f"loss after training: eager {eager:.2e}, compiled {compiled:.2e}")
    return not (eager < 1e-2 and abs(eager - compiled) < 1e-6)


if __name__ == "__main__":
    sys.exit(main())
