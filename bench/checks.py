"""What all checks cost: ready-made kernels, and kernels of nothing but barriers or atomics, on one core of the simulator without and with check="all".

python bench/checks.py [NAME...]       processor time, least of --runs
"""

import argparse
import time

import torch

import pyptx
from pyptx import Tile, kernel, kernels, ptx, reg, smem
from pyptx.types import f32, u32

CTAS, THREADS, ROUNDS = 16, 256, 64


def bf16(*shape):
    return torch.randn(shape).bfloat16()


def on(target: str, call):
    def run(*tensors):
        with kernels.simulated_target(target):
            return call(*tensors)

    return run


def causal(q, k, v):
    return kernels.attention(q, k, v, causal=True)


def backward(q, k, v):
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    return torch.autograd.grad(causal(*leaves).sum(), leaves)


def rounds_of(name: str):
    """A kernel of ROUNDS rounds of one thing."""

    @kernel(
        in_specs=(Tile(64, f32),), out_specs=(Tile(CTAS * THREADS, u32),), mutates="X",
        grid=(CTAS,), block=(THREADS, 1, 1), arch="sm_90a",
    )  # fmt: skip
    def rounds(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        smem.alloc(u32, (THREADS,), name="cells")
        cells = smem.base("cells")
        lane, cta = reg.from_(ptx.special.tid.x(), u32), reg.from_(ptx.special.ctaid.x(), u32)
        value, total = reg.scalar(u32), reg.scalar(u32)
        ptx.inst.mov.u32(total, 0)
        ptx.inst.st.shared.u32(ptx.addr(cells + lane * 4), lane)
        ptx.bar.sync(0)
        for i in range(ROUNDS):
            if name == "barriers":
                ptx.inst.ld.shared.u32(value, ptx.addr(cells + (lane ^ (i + 1)) * 4))
                ptx.inst.add.u32(total, total, value)
                ptx.bar.sync(0)
                ptx.inst.st.shared.u32(ptx.addr(cells + lane * 4), total)
                ptx.bar.sync(0)
            elif name == "shared atomics":
                ptx.inst.atom.shared.add.u32(value, ptx.addr(cells + (lane & 31) * 4), 1)
                ptx.inst.add.u32(total, total, value)
            else:
                ptx.inst.red.global_.add.f32(ptx.addr(px + (lane & 63) * 4), 1.0)
        ptx.inst.st.global_.u32(ptx.addr(py + (cta * THREADS + lane) * 4), total)
        ptx.ret()

    return rounds


def calls() -> dict:
    """name -> kernel, its tensors."""
    square = (bf16(512, 512), bf16(512, 512))
    made = {
        "rms_norm": (kernels.rms_norm, (torch.randn(512, 2048), torch.randn(2048))),
        "softmax": (kernels.softmax, (torch.randn(256, 4096),)),
        "cross_entropy": (kernels.cross_entropy, (torch.randn(64, 32000), torch.arange(64))),
        "copy2d": (kernels.copy2d, (torch.randn(1024, 1024),)),
        "matmul, mma.sync": (on("sm_80", kernels.matmul), square),
        "matmul, wgmma": (on("sm_90a", kernels.matmul), square),
        "matmul of 16 rows": (on("sm_90a", kernels.matmul), (bf16(16, 2048), bf16(2048, 512))),
        "matmul, tcgen05": (on("sm_100a", kernels.matmul), square),
        "matmul of f32": (kernels.matmul, (torch.randn(256, 256), torch.randn(256, 256))),
        "attention, wgmma": (causal, (bf16(1, 4, 512, 128),) * 3),
        "attention, mma.sync": (on("sm_80", causal), (bf16(1, 2, 256, 64),) * 3),
        "attention, tcgen05": (on("sm_100a", causal), (bf16(1, 2, 256, 128),) * 3),
        "gradients of attention": (backward, (bf16(1, 2, 256, 64),) * 3),
        "attention of one query": (causal, (bf16(1, 8, 1, 128), bf16(1, 8, 4096, 128), bf16(1, 8, 4096, 128))),
    }
    made |= {name: (rounds_of(name), (torch.zeros(64),)) for name in ("barriers", "shared atomics", "global sums")}
    return made


def seconds(call, tensors, check: str, runs: int) -> float:
    least = float("inf")
    for _ in range(runs):
        start = time.process_time()
        with pyptx.simulator(check=check, cores=1, lines=False, trace=False, launches=False):
            call(*tensors)
        least = min(least, time.process_time() - start)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'':24} {'ms':>8} {'checked':>8} {'ratio':>6}", flush=True)
    for name, (call, tensors) in calls().items():
        if arguments.names and not any(part in name for part in arguments.names):
            continue
        plain, checked = (seconds(call, tensors, check, arguments.runs) for check in ("none", "all"))
        print(f"{name:24} {plain * 1e3:8.1f} {checked * 1e3:8.1f} {checked / plain:6.2f}", flush=True)


if __name__ == "__main__":
    main()
