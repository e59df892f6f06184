"""Element by element over vectors of any length, one thread an element."""

from pyptx import Tile, kernel, ptx, reg
from pyptx.types import f32, u32

__all__ = ["add", "scaled_add"]

BLOCK = 256


def vectors(inputs: int, *scalars: tuple[str, str]):
    """The decorator of a kernel that makes one vector of several."""
    return kernel(
        in_specs=(Tile("N", f32),) * inputs,
        out_specs=(Tile("N", f32),),
        raw_params=[("u32", "N"), *scalars],
        grid=lambda N: ((N + BLOCK - 1) // BLOCK, 1, 1),
        block=(BLOCK, 1, 1),
        arch="sm_75",
        batch="N",
    )


def element():
    """The thread's place in the grid."""
    return reg.from_(ptx.special.ctaid.x(), u32) * BLOCK + reg.from_(ptx.special.tid.x(), u32)


def of_two(X, Y, Z, compute):
    """Z of X and Y: `compute(x, y)` leaves the thread's result in x."""
    px, py, pz = ptx.global_ptrs(X, Y, Z)
    i = element()
    with ptx.if_(i < ptx.param(u32, "N")):
        offset = i * 4
        x, y = reg.scalar(f32), reg.scalar(f32)
        ptx.inst.ld.global_.f32(x, ptx.addr(px + offset))
        ptx.inst.ld.global_.f32(y, ptx.addr(py + offset))
        compute(x, y)
        ptx.inst.st.global_.f32(ptx.addr(pz + offset), x)
    ptx.ret()


@vectors(2)
def add(X, Y, Z):
    """z = x + y."""
    of_two(X, Y, Z, lambda x, y: ptx.inst.add.f32(x, x, y))


@vectors(2, ("f32", "alpha"))
def scaled_add(X, Y, Z):
    """z = x + alpha * y, rounded once.  alpha is an argument of the call: `scaled_add(x, y, alpha=0.5)`."""
    of_two(X, Y, Z, lambda x, y: ptx.inst.fma.rn.f32(x, ptx.param(f32, "alpha"), y, x))
