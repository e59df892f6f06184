"""RMSNorm over rows that are spread over processes: each normalises its own, and the gradients of the weight are summed.

    python examples/distributed_rms_norm.py [--processes 2]

If there are as many CUDA devices as processes, each process uses one, and NCCL adds up; otherwise the processes run on the simulator
and gloo adds up.  Every process compares its part with torch's result for the whole, computed on the CPU.
"""

import argparse
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from pyptx.kernels import rms_norm

ROWS, COLUMNS, EPS = 16, 256, 1e-6


def shard_step(x, w, g):
    """y of these rows, the gradient of these rows, and the weight's gradient over all processes."""
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    y = rms_norm(x, w, eps=EPS)
    y.backward(g)
    dist.all_reduce(w.grad)
    return y.detach(), x.grad, w.grad


def reference(x, w, g):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    y = torch.nn.functional.rms_norm(x, (COLUMNS,), w, EPS)
    y.backward(g)
    return y.detach(), x.grad, w.grad


def work(rank: int, processes: int, meeting: str, use_cuda: bool):
    device = torch.device("cuda", rank) if use_cuda else torch.device("cpu")
    if use_cuda:
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if use_cuda else "gloo", init_method=f"file://{meeting}", rank=rank, world_size=processes
    )
    generator = torch.Generator().manual_seed(0)  # the same whole in every process
    x, g = (torch.randn(ROWS, COLUMNS, generator=generator) for _ in range(2))
    w = torch.randn(COLUMNS, generator=generator)
    mine = slice(rank * ROWS // processes, (rank + 1) * ROWS // processes)
    y, dx, dw = (t.cpu() for t in shard_step(x[mine].to(device), w.to(device), g[mine].to(device)))
    expected_y, expected_dx, expected_dw = reference(x, w, g)
    torch.testing.assert_close(y, expected_y[mine], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(dx, expected_dx[mine], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(dw, expected_dw, rtol=1e-4, atol=1e-4)
    line = f"rank {rank} on {device}: rows {mine.start} to {mine.stop - 1} equal to torch\n"
    sys.stdout.write(line)  # whole: processes share the terminal
    sys.stdout.flush()
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    processes = parser.parse_args().processes
    use_cuda = torch.cuda.device_count() >= processes
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        meeting = os.path.join(folder, "meeting")
        mp.spawn(work, (processes, meeting, use_cuda), nprocs=processes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
