"""exp(x) by range reduction and a polynomial: a device function that reads a table of constants, called from a kernel.

CPU tensors run on the simulator, CUDA tensors on their device.  examples/polynomial.cpp prints the same PTX.

    python examples/polynomial.py            run it and compare with NumPy
    python examples/polynomial.py --ptx      print the text
"""

import sys

from pyptx import Tile, kernel, ptx, reg
from pyptx.types import f32, s32, u32

THREADS = 128
DEGREE = 6

# Taylor's coefficients of 2 ** r, highest first; good to 1e-6 for r in [-0.5, 0.5].
COEFFICIENTS = ptx.const(
    f32,
    init=[0.00015403530, 0.0013333558, 0.0096181291, 0.055504109, 0.24022651, 0.69314718, 1.0],
    name="coefficients",
)


@ptx.func
def power_of_two(x: f32) -> f32:
    """2 ** x: the whole part goes into the exponent, the rest through Horner's scheme."""
    whole, rest, y, factor = (reg.scalar(f32) for _ in range(4))
    exponent = reg.scalar(s32)
    ptx.inst.cvt.rni.f32.f32(whole, x)
    ptx.inst.sub.f32(rest, x, whole)
    ptx.inst.ld.const.f32(y, COEFFICIENTS[0])
    for i in range(1, DEGREE + 1):
        ptx.inst.ld.const.f32(factor, COEFFICIENTS[i])
        ptx.inst.fma.rn.f32(y, y, rest, factor)
    ptx.inst.cvt.rni.s32.f32(exponent, whole)
    ptx.inst.shl.b32(exponent, exponent + 127, 23)
    ptx.inst.mov.b32(factor, exponent)
    ptx.inst.mul.f32(y, y, factor)
    return y


def build_exponential():
    @kernel(
        in_specs=(Tile("N", f32),),
        out_specs=(Tile("N", f32),),
        grid=lambda N: (N // THREADS, 1, 1),
        block=(THREADS, 1, 1),
        arch="sm_90a",
    )
    def exponential(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        index = reg.from_(ptx.special.ctaid.x(), u32)
        lane = reg.from_(ptx.special.tid.x(), u32)
        ptx.inst.mad.lo.u32(index, index, THREADS, lane)
        offset = index * 4
        x = reg.scalar(f32)
        ptx.inst.ld.global_.f32(x, ptx.addr(px + offset))
        ptx.inst.mul.f32(x, x, 1.4426950408889634)
        y = power_of_two(x)
        ptx.inst.st.global_.f32(ptx.addr(py + offset), y)
        ptx.ret()

    return exponential


def main():
    import numpy as np

    x = np.linspace(-4, 4, 4 * THREADS, dtype=np.float32)
    error = np.max(np.abs(build_exponential()(x) / np.exp(x) - 1))
    print(f"{x.size} values, largest relative error {error:.1e}")
    assert error < 1e-5


if __name__ == "__main__":
    if "--ptx" in sys.argv:
        print(build_exponential().ptx(N=THREADS), end="")
    else:
        main()
