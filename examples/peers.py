"""Kernels on several GPUs of one host.  Each result is compared with torch's, computed from the parts of all ranks.

torchrun --nproc-per-node=2 examples/peers.py
python examples/peers.py [--gpus 2]                  starts the processes itself
"""

# ruff: noqa: E402
import os

# Keep NVLink multicast off, which these kernels do not need: torch and NCCL read this when they are loaded.
os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"], os.environ["NCCL_NVLS_ENABLE"] = "1", "0"

import argparse
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from pyptx.kernels import peers

ROWS, COLUMNS, OUT = 256, 1024, 512


def parts(ranks: int, seed: int, *shape: int) -> list[torch.Tensor]:
    """What each rank has; every process makes all of it, to compare."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).bfloat16().cuda() for _ in range(ranks)]


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found.double(), wanted, rtol=2e-2, atol=2e-2 * wanted.abs().max().item())


def work(rank: int, ranks: int) -> None:
    workspace = peers.Workspace.symmetric(dist.group.WORLD, room=1 << 20)
    for seed in range(3):
        xs = parts(ranks, seed, ROWS, COLUMNS)
        total = sum(x.double() for x in xs)
        for shots in (1, 2):
            close(peers.all_reduce(xs[rank], workspace, shots=shots), total)

        (weight,) = parts(1, 10 + seed, COLUMNS)
        mine = slice(rank * ROWS // ranks, (rank + 1) * ROWS // ranks)
        y, h = peers.reduce_scatter_rms_norm(xs[rank], weight, workspace)
        close(h, total[mine])
        close(y, torch.nn.functional.rms_norm(total[mine], (COLUMNS,), weight.double(), 1e-6))

        (w,) = parts(1, 20 + seed, COLUMNS, OUT)
        close(peers.all_gather_matmul(xs[rank], w, workspace), torch.cat(xs).double() @ w.double())
    torch.cuda.synchronize()
    dist.barrier()
    # One write: the processes share the terminal.
    sys.stdout.write(f"rank {rank} of {ranks}: sums, norms and products are right\n")
    sys.stdout.flush()


def start(rank: int, ranks: int, meeting: str) -> None:
    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl", init_method=meeting, rank=rank, world_size=ranks, device_id=torch.device("cuda", rank)
    )
    work(rank, ranks)
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=2)
    gpus = parser.parse_args().gpus
    if "RANK" in os.environ:  # torchrun
        start(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), "env://")
        return 0
    if torch.cuda.device_count() < gpus:
        print(f"skipped: fewer than {gpus} CUDA devices")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(start, (gpus, f"file://{os.path.join(folder, 'meeting')}"), nprocs=gpus)
    return 0


if __name__ == "__main__":
    sys.exit(main())
