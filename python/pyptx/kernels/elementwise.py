"""Kernels that compute vectors element by element, for any length: a thread has EACH elements, whose loads are in flight together."""

from pyptx import Tile, kernel, ptx, reg
from pyptx.types import f32, u32

__all__ = ["add", "scaled_add"]

BLOCK, EACH = 128, 4
SPAN = BLOCK * EACH  # elements that a CTA computes


def vectors(inputs: int, *scalars: tuple[str, str]):
    """The decorator of a kernel that computes one vector from several."""
    return kernel(
        in_specs=(Tile("N", f32),) * inputs,
        out_specs=(Tile("N", f32),),
        raw_params=[("u32", "N"), *scalars],
        grid=lambda N: ((N + SPAN - 1) // SPAN, 1, 1),
        block=(BLOCK, 1, 1),
        arch="sm_75",
        batch="N",
    )


def of_two(X, Y, Z, compute):
    """Writes the body of a kernel from X and Y to Z: `compute(x, y, pred=...)` leaves an element of the result in x."""
    px, py, pz = ptx.global_ptrs(X, Y, Z)
    i = reg.from_(ptx.special.ctaid.x(), u32) * SPAN + reg.from_(ptx.special.tid.x(), u32)
    n = ptx.param(u32, "N")
    inside = [i + k * BLOCK < n for k in range(EACH)]
    px, py, pz = px + i * 4, py + i * 4, pz + i * 4
    x, y = reg.array(f32, EACH), reg.array(f32, EACH)
    for k, there in enumerate(inside):
        ptx.inst.ld.global_.f32(x[k], ptx.addr(px, k * BLOCK * 4), pred=there)
        ptx.inst.ld.global_.f32(y[k], ptx.addr(py, k * BLOCK * 4), pred=there)
    for k, there in enumerate(inside):
        compute(x[k], y[k], pred=there)
        ptx.inst.st.global_.f32(ptx.addr(pz, k * BLOCK * 4), x[k], pred=there)
    ptx.ret()


@vectors(2)
def add(X, Y, Z):
    """z = x + y for vectors (N,) of f32.  Raises LaunchTypeError and LaunchValueError for other types and shapes.

    Example:
        z = kernels.add(torch.ones(100), torch.ones(100))
    """
    of_two(X, Y, Z, lambda x, y, pred: ptx.inst.add.f32(x, x, y, pred=pred))


@vectors(2, ("f32", "alpha"))
def scaled_add(X, Y, Z):
    """z = x + alpha * y, rounded once, for vectors (N,) of f32.  alpha is an argument of the call.  Raises LaunchTypeError and
    LaunchValueError for other types and shapes.

    Example:
        z = kernels.scaled_add(torch.ones(100), torch.ones(100), alpha=0.5)
    """
    alpha = ptx.param(f32, "alpha")
    of_two(X, Y, Z, lambda x, y, pred: ptx.inst.fma.rn.f32(x, alpha, y, x, pred=pred))
