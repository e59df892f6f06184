"""RMSNorm over the rows of a matrix, one warp a row: y = x * r * w with r = 1 / sqrt(mean(x * x) + eps).

Backward, for the gradient g of y:  dx = r * (g * w - x * r * r * mean(g * w * x)),  dw = sum over rows of g * x * r.
Sums are taken in a fixed order: the same inputs give the same bits.
"""

import functools

from pyptx import Tile, differentiable_kernel, kernel, ptx, reg
from pyptx.types import f32, u32

__all__ = ["differentiable_rms_norm", "rms_norm", "rms_norm_backward"]

WARP, BLOCK = 32, 128

MATRIX, COLUMNS, ROWS = Tile("M", "N", f32), Tile("N", f32), Tile("M", f32)


def warp_per_row(in_specs, out_specs):
    return kernel(
        in_specs=in_specs,
        out_specs=out_specs,
        raw_params=[("u32", "N")],
        grid=lambda M: (M, 1, 1),
        block=(WARP, 1, 1),
        arch="sm_75",
        batch="M",
    )


def load(register, pointer, index):
    ptx.inst.ld.global_.f32(register, ptx.addr(pointer + index * 4))


def scale_of(squares, n, eps):
    """r, of the sum of squares of a row."""
    count, r = reg.scalar(f32), reg.scalar(f32)
    ptx.inst.cvt.rn.f32.u32(count, n)
    ptx.inst.div.rn.f32(r, squares, count)
    ptx.inst.add.f32(r, r, eps)
    ptx.inst.sqrt.rn.f32(r, r)
    ptx.inst.rcp.rn.f32(r, r)
    return r


@warp_per_row((MATRIX, COLUMNS), (MATRIX,))
def rms_norm(X, W, Y, *, eps=1e-6):
    px, pw, py = ptx.global_ptrs(X, W, Y)
    n = ptx.param(u32, "N")
    lane = reg.from_(ptx.special.tid.x(), u32)
    row = reg.from_(ptx.special.ctaid.x(), u32) * (n * 4)
    px += row
    py += row

    x, w = reg.scalar(f32), reg.scalar(f32)
    squares = reg.scalar(f32, init=0.0)
    for i in ptx.range_(lane, n, WARP):
        load(x, px, i)
        ptx.inst.fma.rn.f32(squares, x, x, squares)
    ptx.warp.reduce_sum(squares)
    r = scale_of(squares, n, eps)

    for i in ptx.range_(lane, n, WARP):
        load(x, px, i)
        load(w, pw, i)
        ptx.inst.mul.f32(x, x, r)
        ptx.inst.mul.f32(x, x, w)
        ptx.inst.st.global_.f32(ptx.addr(py + i * 4), x)
    ptx.ret()


@warp_per_row((MATRIX, COLUMNS, MATRIX), (MATRIX, ROWS))
def rms_norm_dx(X, W, G, DX, R, *, eps=1e-6):
    """dx, and r of each row for dw."""
    px, pw, pg, pdx, pr = ptx.global_ptrs(X, W, G, DX, R)
    n = ptx.param(u32, "N")
    lane = reg.from_(ptx.special.tid.x(), u32)
    cta = reg.from_(ptx.special.ctaid.x(), u32)
    row = cta * (n * 4)
    px += row
    pg += row
    pdx += row

    x, w, g = reg.scalar(f32), reg.scalar(f32), reg.scalar(f32)
    squares, dot = reg.scalar(f32, init=0.0), reg.scalar(f32, init=0.0)
    for i in ptx.range_(lane, n, WARP):
        load(x, px, i)
        load(w, pw, i)
        load(g, pg, i)
        ptx.inst.fma.rn.f32(squares, x, x, squares)
        ptx.inst.mul.f32(g, g, w)
        ptx.inst.fma.rn.f32(dot, g, x, dot)
    ptx.warp.reduce_sum(squares)
    ptx.warp.reduce_sum(dot)
    r = scale_of(squares, n, eps)
    with ptx.if_(lane == 0):
        ptx.inst.st.global_.f32(ptx.addr(pr + cta * 4), r)

    pull, count = reg.scalar(f32), reg.scalar(f32)  # -r * r * mean(g * w * x)
    ptx.inst.cvt.rn.f32.u32(count, n)
    ptx.inst.div.rn.f32(pull, dot, count)
    ptx.inst.mul.f32(pull, pull, r)
    ptx.inst.mul.f32(pull, pull, r)
    ptx.inst.neg.f32(pull, pull)
    for i in ptx.range_(lane, n, WARP):
        load(x, px, i)
        load(w, pw, i)
        load(g, pg, i)
        ptx.inst.mul.f32(g, g, w)
        ptx.inst.fma.rn.f32(g, x, pull, g)
        ptx.inst.mul.f32(g, g, r)
        ptx.inst.st.global_.f32(ptx.addr(pdx + i * 4), g)
    ptx.ret()


@kernel(
    in_specs=(MATRIX, MATRIX, ROWS), out_specs=(COLUMNS,), raw_params=[("u32", "M"), ("u32", "N")],
    grid=lambda N: ((N + BLOCK - 1) // BLOCK, 1, 1), block=(BLOCK, 1, 1), arch="sm_75",
)  # fmt: skip
def rms_norm_dw(X, G, R, DW):
    """One thread a column: rows are added from the first to the last."""
    px, pg, pr, pdw = ptx.global_ptrs(X, G, R, DW)
    m, n = ptx.param(u32, "M"), ptx.param(u32, "N")
    column = reg.from_(ptx.special.ctaid.x(), u32) * BLOCK + reg.from_(ptx.special.tid.x(), u32)
    with ptx.if_(column < n):
        px += column * 4
        pg += column * 4
        pdw += column * 4
        row_bytes = n * 4
        x, g, r = reg.scalar(f32), reg.scalar(f32), reg.scalar(f32)
        total = reg.scalar(f32, init=0.0)
        for i in ptx.range_(0, m, 1):
            row = i * row_bytes
            ptx.inst.ld.global_.f32(x, ptx.addr(px + row))
            ptx.inst.ld.global_.f32(g, ptx.addr(pg + row))
            load(r, pr, i)
            ptx.inst.mul.f32(x, x, r)
            ptx.inst.fma.rn.f32(total, g, x, total)
        ptx.inst.st.global_.f32(ptx.addr(pdw), total)
    ptx.ret()


def rms_norm_backward(x, w, g, *, eps=1e-6):
    """(dx, dw) for the gradient g of y: two launches."""
    dx, r = rms_norm_dx(x, w, g, eps=eps)
    return dx, rms_norm_dw(x, g, r)


@functools.cache
def differentiable_rms_norm():
    """`rms_norm` and its backward as one function.  Get it before compiled code runs, not in it."""
    return differentiable_kernel(rms_norm, rms_norm_backward)
