"""Kernels of several GPUs beside NCCL and cuBLAS, a process a GPU, on one host.

    python bench/two_gpus.py [--quick] [--gpus 2]

Results are compared with float64 first.  Sums: microseconds on the device of one of 20 calls of a replayed CUDA graph, the slowest rank
counts; the others: milliseconds a call, ten in a row.  Medians of rounds that take turns; `ratio` is NCCL's time (then cuBLAS', or
torch's norm) over ours.  NVLink multicast stays off, in NCCL and in torch.
"""

from __future__ import annotations

import argparse
import datetime
import os
import statistics
import sys
import tempfile

for name, value in (
    ("NCCL_NVLS_ENABLE", "0"),
    ("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"),
    ("NVSHMEM_DISABLE_NVLS", "1"),
):
    os.environ[name] = value  # before torch is loaded, here and in the processes that are spawned

SIZES = tuple(1 << power for power in (12, 14, 16, 17, 18, 20, 22, 24))  # bytes
PRODUCTS = ((2048, 8192, 4096), (4096, 8192, 4096), (4096, 8192, 8192))  # rows of a rank, K, N
NORMS = ((1024, 8192), (4096, 8192))  # rows of all, columns
NODES = 20


class Rank:
    """What one process measures."""

    def __init__(self, rank: int, ranks: int, meeting: str, quick: bool):
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.rank, self.ranks, self.rounds = torch, dist, rank, ranks, 3 if quick else 7
        self.device = torch.device("cuda", rank)
        torch.cuda.set_device(self.device)
        wait = datetime.timedelta(seconds=90)
        dist.init_process_group(
            "nccl", init_method=f"file://{meeting}", rank=rank, world_size=ranks, device_id=self.device, timeout=wait
        )

    def say(self, text: str) -> None:
        if self.rank == 0:
            print(text, flush=True)

    def parts(self, shape, dtype, seed: int) -> list:
        """Of every rank, the same in every process."""
        torch = self.torch
        made = []
        for rank in range(self.ranks):
            generator = torch.Generator(self.device).manual_seed(1000 * seed + rank)
            made.append(torch.randn(shape, generator=generator, device=self.device, dtype=torch.float32).to(dtype))
        return made

    def distance(self, found, wanted) -> float:
        """The largest over ranks, relative to the largest value."""
        far = (found.double() - wanted).abs().max() / wanted.abs().max()
        self.dist.all_reduce(far, op=self.dist.ReduceOp.MAX)
        return far.item()

    def time(self, launch, count: int) -> float:
        """Milliseconds of one of so many in a row, of the slowest rank."""
        torch = self.torch
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.dist.barrier()
        torch.cuda.synchronize()
        first.record()
        for _ in range(count):
            launch()
        last.record()
        last.synchronize()
        taken = torch.tensor([first.elapsed_time(last) / count], device=self.device)
        self.dist.all_reduce(taken, op=self.dist.ReduceOp.MAX)
        return taken.item()

    def turns(self, arms: dict, count: int) -> dict[str, float]:
        times: dict[str, list[float]] = {name: [] for name in arms}
        for round_ in range(self.rounds + 2):
            for name, launch in arms.items():
                taken = self.time(launch, count)
                if round_ >= 2:
                    times[name].append(taken)
        return {name: statistics.median(each) for name, each in times.items()}

    def graph(self, launch):
        torch = self.torch
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(2):
                launch()
        torch.cuda.synchronize()
        self.dist.barrier()
        made = torch.cuda.CUDAGraph()
        with torch.cuda.graph(made, stream=stream, capture_error_mode="thread_local"):
            for _ in range(NODES):
                launch()
        return made.replay


def sums(here: Rank, workspace) -> None:
    from pyptx.kernels import peers

    torch, dist = here.torch, here.dist
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for shots in (1, 2):
            xs = here.parts(40_000, dtype, 1)
            y = peers.all_reduce(xs[here.rank], workspace, shots=shots)
            far = here.distance(y, sum(x.double() for x in xs))
            here.say(f"all_reduce, {dtype}, shots={shots}: distance to float64 {far:.1e}")
            assert far < (2e-2 if dtype is torch.bfloat16 else 2e-3), far
    here.say(f"{'all_reduce, bf16':>20}{'NCCL us':>12}{'pyptx us':>12}{'ratio':>8}{'two shots us':>14}{'ratio':>8}")
    for size in SIZES:
        x = torch.randn(size // 2, device=here.device).bfloat16()
        y = torch.empty_like(x)
        arms = {
            "nccl": here.graph(lambda y=y: dist.all_reduce(y)),
            "one": here.graph(lambda x=x, y=y: peers.all_reduce(x, workspace, out=y, shots=1)),
            "two": here.graph(lambda x=x, y=y: peers.all_reduce(x, workspace, out=y, shots=2)),
        }
        found = {name: 1e3 * each / NODES for name, each in here.turns(arms, 5).items()}
        nccl, one, two = found["nccl"], found["one"], found["two"]
        here.say(f"{size >> 10:>17} KB{nccl:>12.1f}{one:>12.1f}{nccl / one:>8.2f}{two:>14.1f}{nccl / two:>8.2f}")
        y = torch.zeros_like(x)
        eager = here.turns(
            {"nccl": lambda y=y: dist.all_reduce(y), "one": lambda x=x, y=y: peers.all_reduce(x, workspace, out=y)}, 50
        )
        here.say(
            f"{'eager':>20}{1e3 * eager['nccl']:>12.1f}{1e3 * eager['one']:>12.1f}{eager['nccl'] / eager['one']:>8.2f}"
        )


def products(here: Rank, workspace) -> None:
    from pyptx.kernels import matmul, peers

    torch, dist = here.torch, here.dist
    head = f"{'M of a rank, K, N':>20}{'gather+cuBLAS ms':>18}{'pyptx ms':>10}{'ratio':>8}{'gather':>9}{'cuBLAS':>9}{'matmul':>9}"
    here.say(head)
    for m, k, n in PRODUCTS:
        xs = here.parts((m, k), torch.bfloat16, 2)
        x, w = xs[here.rank], torch.randn(k, n, device=here.device).bfloat16()
        whole, out = x.new_empty(here.ranks * m, k), x.new_empty(here.ranks * m, n)
        for _ in range(3):
            peers.all_gather_matmul(x, w, workspace, out=out)
        rows = torch.arange(0, here.ranks * m, 97, device=here.device)
        far = here.distance(out[rows], torch.cat(xs)[rows].double() @ w.double())
        assert far < 2e-2, far

        def nccl(whole=whole, x=x, w=w, out=out):
            dist.all_gather_into_tensor(whole, x)
            torch.mm(whole, w, out=out)

        found = here.turns(
            {
                "nccl": nccl,
                "ours": lambda x=x, w=w, out=out: peers.all_gather_matmul(x, w, workspace, out=out),
                "gather": lambda whole=whole, x=x: dist.all_gather_into_tensor(whole, x),
                "cublas": lambda whole=whole, w=w, out=out: torch.mm(whole, w, out=out),
                "matmul": lambda whole=whole, w=w, out=out: matmul(whole, w, out=out),
            },
            10,
        )
        here.say(
            f"{f'{m}, {k}, {n}':>20}{found['nccl']:>18.3f}{found['ours']:>10.3f}{found['nccl'] / found['ours']:>8.2f}"
            f"{found['gather']:>9.3f}{found['cublas']:>9.3f}{found['matmul']:>9.3f}   distance {far:.1e}"
        )


def norms(here: Rank, workspace) -> None:
    from pyptx.kernels import peers

    torch, dist = here.torch, here.dist
    here.say(f"{'rows, columns':>20}{'NCCL+torch us':>18}{'pyptx us':>10}{'ratio':>8}")
    for rows, columns in NORMS:
        xs = here.parts((rows, columns), torch.bfloat16, 3)
        weight = here.parts(columns, torch.bfloat16, 4)[0]
        part = rows // here.ranks
        x, mine = xs[here.rank], slice(here.rank * part, (here.rank + 1) * part)
        residual = here.parts((part, columns), torch.bfloat16, 5)[here.rank]
        y, h = peers.reduce_scatter_rms_norm(x, weight, workspace, residual=residual)
        wanted = sum(each[mine].double() for each in xs) + residual.double()
        far = here.distance(h, wanted)
        normed = wanted / (wanted.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double()
        farther = here.distance(y, normed)
        assert far < 2e-2 and farther < 2e-2, (far, farther)
        reduced = torch.empty_like(residual)

        def nccl(reduced=reduced, x=x, residual=residual, weight=weight, columns=columns):
            dist.reduce_scatter_tensor(reduced, x)
            reduced.add_(residual)
            return torch.nn.functional.rms_norm(reduced, (columns,), weight, 1e-6)

        arms = {
            "nccl": here.graph(nccl),
            "ours": here.graph(
                lambda x=x, weight=weight, residual=residual: peers.reduce_scatter_rms_norm(
                    x, weight, workspace, residual=residual
                )
            ),
        }
        found = {name: 1e3 * each / NODES for name, each in here.turns(arms, 5).items()}
        ratio = found["nccl"] / found["ours"]
        here.say(
            f"{f'{rows}, {columns}':>20}{found['nccl']:>18.1f}{found['ours']:>10.1f}{ratio:>8.2f}   distance {far:.1e}, {farther:.1e}"
        )


def work(rank: int, ranks: int, meeting: str, quick: bool) -> None:
    here = Rank(rank, ranks, meeting, quick)
    import pyptx
    from pyptx.kernels import peers

    torch = here.torch
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    here.say(
        f"{ranks} x {torch.cuda.get_device_name()}, torch {torch.__version__}, NCCL {nccl}, pyptx {pyptx.__version__}"
    )
    small = peers.Workspace.symmetric(here.dist.group.WORLD, room=32 << 20)
    here.say(f"workspace {small}; buffers on {[str(each.device) for each in small.buffers]}")
    sums(here, small)
    norms(here, small)
    large = peers.Workspace.symmetric(here.dist.group.WORLD, room=max(2 * m * k for m, k, _ in PRODUCTS))
    products(here, large)
    torch.cuda.synchronize()
    here.dist.barrier()
    here.dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--gpus", type=int, default=2)
    options = parser.parse_args()
    try:
        import torch
        import torch.multiprocessing as mp
    except ImportError:
        print("skipped: no torch")
        return 0
    if torch.cuda.device_count() < options.gpus:
        print(f"skipped: fewer than {options.gpus} CUDA devices")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (options.gpus, os.path.join(folder, "meeting"), options.quick), nprocs=options.gpus)
    return 0


if __name__ == "__main__":
    sys.exit(main())
