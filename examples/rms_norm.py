"""RMSNorm, one warp for each row: y = x * rsqrt(mean(x * x) + eps) * w.

CPU tensors run on the simulator, CUDA tensors on their device.  examples/rms_norm.cpp prints the same PTX.

    python examples/rms_norm.py            run it and compare with torch
    python examples/rms_norm.py --ptx      print the text
"""

import sys

from pyptx import Tile, kernel, ptx, reg
from pyptx.types import f32, u32

WARP_SIZE = 32


def build_rms_norm(B: int, N: int, eps: float = 1e-6):
    items_per_thread = N // WARP_SIZE

    @kernel(
        in_specs=(Tile(B, N, f32), Tile(N, f32)),
        out_specs=(Tile(B, N, f32),),
        grid=(B, 1, 1),
        block=(WARP_SIZE, 1, 1),
        arch="sm_90a",
    )
    def rms_norm(X, W, Y):
        px, pw, py = ptx.global_ptrs(X, W, Y)
        row = reg.from_(ptx.special.ctaid.x(), u32)
        row_byte_off = row * (N * 4)
        px += row_byte_off
        py += row_byte_off

        tid = reg.from_(ptx.special.tid.x(), u32)
        sum_sq = reg.scalar(f32, init=0.0)
        x_vals = reg.array(f32, items_per_thread)

        for i in range(items_per_thread):
            idx = tid + i * WARP_SIZE
            ptr = px + idx * 4
            ptx.inst.ld.global_.f32(x_vals[i], ptx.addr(ptr))
            ptx.inst.fma.rn.f32(sum_sq, x_vals[i], x_vals[i], sum_sq)

        ptx.warp.reduce_sum(sum_sq)
        mean_sq = reg.scalar(f32)
        inv_n = reg.scalar(f32, init=1.0 / N)
        eps_reg = reg.scalar(f32, init=eps)
        rstd = reg.scalar(f32)
        ptx.inst.mul.f32(mean_sq, sum_sq, inv_n)
        ptx.inst.add.f32(mean_sq, mean_sq, eps_reg)
        ptx.inst.rsqrt.approx.f32(rstd, mean_sq)

        for i in range(items_per_thread):
            idx = tid + i * WARP_SIZE
            off = idx * 4
            w_val = reg.scalar(f32)
            y_val = reg.scalar(f32)
            ptx.inst.ld.global_.f32(w_val, ptx.addr(pw + off))
            ptx.inst.mul.f32(y_val, x_vals[i], rstd)
            ptx.inst.mul.f32(y_val, y_val, w_val)
            ptx.inst.st.global_.f32(ptx.addr(py + off), y_val)
        ptx.ret()

    return rms_norm


def rms_norm_reference(x, w, eps: float = 1e-6):
    return x * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * w


def main() -> int:
    if "--ptx" in sys.argv:
        print(build_rms_norm(16, 512).ptx(), end="")
        return 0
    import torch

    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    good = True
    for device in devices:
        x = torch.randn(16, 512, device=device) * 0.3
        w = torch.randn(512, device=device) * 0.1 + 1.0
        y = build_rms_norm(16, 512)(x, w)
        good = torch.allclose(y, rms_norm_reference(x, w), rtol=1e-5, atol=1e-6) and good
        print(f"{device}: {'equal to' if good else 'not equal to'} torch")
    return not good


if __name__ == "__main__":
    sys.exit(main())
