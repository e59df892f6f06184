"""A model of the library's functions in two processes: DistributedDataParallel, fully_shard, and DTensor by local_map.  Each process prints what
gave the gradients of one process.

    python parallel_models.py
"""

import copy
import socket

import torch
import torch.multiprocessing
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import local_map
from torch.nn.parallel import DistributedDataParallel

from pyptx import kernels

D = 32


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.Parameter(torch.ones(D))
        self.qkv, self.up, self.down = (
            nn.Parameter(torch.randn(size) / 6) for size in ((D, 3 * D), (D, 4 * D), (2 * D, D))
        )

    def forward(self, x):
        qkv = kernels.matmul(kernels.rms_norm(x, self.norm), self.qkv).bfloat16()
        heads = (each.unflatten(-1, (2, D // 2)).transpose(1, 2) for each in qkv.chunk(3, -1))
        x = x + kernels.attention(*heads, causal=True).transpose(1, 2).flatten(2).to(x.dtype)
        up = kernels.matmul(kernels.rms_norm(x, self.norm), self.up, activation="swiglu")
        return x + kernels.matmul(up, self.down)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList([Block(), Block()]), nn.Parameter(torch.randn(D, 48) / 6)

    def forward(self, x, target):
        for block in self.blocks:
            x = block(x)
        return kernels.cross_entropy(kernels.matmul(kernels.rms_norm(x), self.head), target, dim=-1)


def sharded(model, mesh, **policy):
    for each in (*model.blocks, model):
        fully_shard(each, mesh=mesh, **policy)
    return model


def differ(model, wanted) -> float:
    """The largest relative distance of a gradient."""
    far = []
    for got, want in zip(model.parameters(), wanted, strict=True):
        whole = got.grad.full_tensor() if hasattr(got.grad, "full_tensor") else got.grad
        far.append(((whole - want).norm() / want.norm()).item())
    return max(far)


def parts_of_a_tensor(mesh):
    """Rows of a DTensor, by each device's part."""
    x, w = torch.randn(4, 8, D), torch.ones(D)
    given = distribute_tensor(x, mesh, [Shard(0)]), distribute_tensor(w, mesh, [Replicate()])
    norm = local_map(kernels.rms_norm, out_placements=[Shard(0)], in_placements=([Shard(0)], [Replicate()]))
    torch.testing.assert_close(norm(*given).full_tensor(), kernels.rms_norm(x, w))


def work(rank: int, port: int):
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.manual_seed(0)
    model, x, target = Model(), torch.randn(2, 3, 10, D), torch.randint(0, 48, (2, 3, 10))
    alone = copy.deepcopy(model)
    (sum(alone(x[i], target[i]) for i in range(2)) / 2).backward()
    wanted = [each.grad for each in alone.parameters()]
    mesh = init_device_mesh("cpu", (2,))
    narrow = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    forms = {
        "DistributedDataParallel": (DistributedDataParallel, 1e-2),
        "fully_shard": (lambda model: sharded(model, mesh), 1e-2),
        "fully_shard in bf16": (lambda model: sharded(model, mesh, mp_policy=narrow), 5e-2),
    }
    for name, (spread, bound) in forms.items():
        made = spread(copy.deepcopy(model))
        for _ in range(2):
            made.zero_grad()
            made(x[rank], target[rank]).backward()
        assert differ(made, wanted) < bound, (name, differ(made, wanted))
        print(f"rank {rank}: {name}\n", end="", flush=True)
    parts_of_a_tensor(mesh)
    print(f"rank {rank}: local_map\n", end="", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(work, (port,), nprocs=2)
