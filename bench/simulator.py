"""A warp-specialised Hopper product with clusters, 512 x 512 x 512 of bf16 (examples/hopper_gemm.py, 128 CTAs), on the simulator:
seconds and peak memory beyond what a call of no work takes, without checks and with all of them; and the same of 132 CTAs that all
wait for each other.  Each row is a process of its own.

    python bench/simulator.py
"""

import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

CTAS = 132


def product(check: str) -> None:
    import torch
    from hopper_gemm import gemm, tile_schedule

    import pyptx

    a, b = torch.randn(512, 512).bfloat16(), torch.randn(512, 512).bfloat16()
    tiles = torch.from_numpy(tile_schedule(512, 512))
    measured("hopper_gemm", check, lambda: gemm(a, b, tiles, M=512, N=512, K=512), pyptx)


def meeting(check: str) -> None:
    """Each CTA fills 200 KB of shared memory and waits until all of them have."""
    import torch

    import pyptx
    from pyptx import Tile, kernel, ptx, reg, smem
    from pyptx.types import u32

    @kernel(
        in_specs=(Tile(1, u32),), out_specs=(Tile(CTAS, u32),), mutates="X",
        grid=(CTAS,), block=(128, 1, 1), arch="sm_90a",
    )  # fmt: skip
    def meet(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        lane, block = reg.from_(ptx.special.tid.x(), u32), reg.from_(ptx.special.ctaid.x(), u32)
        smem.alloc(u32, (51200,), name="data")
        for index in ptx.range_(lane, 51200, 128):
            ptx.inst.st.shared.u32(ptx.addr(smem.base("data") + index * 4), index)
        ptx.bar.sync(0)
        with ptx.if_(lane == 0):
            seen = reg.scalar(u32)
            ptx.inst.red.release.gpu.global_.add.u32(ptx.addr(px), 1)
            ptx.label("again")
            ptx.inst.ld.acquire.gpu.global_.u32(seen, ptx.addr(px))
            ptx.bra("again", pred=seen < CTAS)
            ptx.inst.st.global_.u32(ptx.addr(py + block * 4), seen)
        ptx.ret()

    x = torch.zeros(1, dtype=torch.int32).view(torch.uint32)
    measured(f"{CTAS} CTAs meet", check, lambda: meet(x), pyptx)


def measured(name: str, check: str, call, pyptx) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, processor = time.perf_counter(), time.process_time()
    with pyptx.simulator(check=check):
        call()
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{name:16} {check:6} {seconds:8.2f} {processor:12.2f} {peak / 1024:10.0f}", flush=True)


def main() -> int:
    if len(sys.argv) == 3:
        {"product": product, "meeting": meeting}[sys.argv[1]](sys.argv[2])
        return 0
    print(f"{'':16} {'checks':6} {'seconds':>8} {'of processor':>12} {'peak / MB':>10}", flush=True)
    rows = [("product", "none"), ("product", "all"), ("meeting", "none"), ("meeting", "all")]
    return sum(subprocess.run([sys.executable, __file__, *row]).returncode != 0 for row in rows)


if __name__ == "__main__":
    sys.exit(main())
