"""Kernels of several GPUs in JAX programs beside XLA's collectives: one process, two devices, under shard_map.

    python bench/two_gpus_jax.py

All-reduce: microseconds of one of 20 in a program, each with a multiplication behind it; the others: microseconds a program.  Medians
of rounds that take turns; `ratio` is XLA's time over ours; `far`: the largest difference, of the largest value.  NVLink multicast stays
off in NCCL.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

os.environ["NCCL_NVLS_ENABLE"] = "0"

SIZES = tuple(1 << power for power in (12, 14, 16, 17, 18, 20, 22))  # bytes
NORMS = ((1024, 8192), (4096, 8192))  # rows of all, columns
PRODUCTS = ((1024, 8192, 4096),)  # rows of a device, K, N
STEPS, ROUNDS = 20, 9


def compared(title: str, arms: dict, given: tuple, steps: int) -> None:
    """Times of both in turns, and how far their results are apart."""
    import jax

    first, second = (jax.device_get(jax.tree.leaves(run(*given))[0]).astype("float32") for run in arms.values())
    far = abs(first - second).max() / abs(first).max()
    for run in arms.values():
        jax.block_until_ready([run(*given) for _ in range(3)])
    times: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(ROUNDS):
        for name, run in arms.items():
            began = time.perf_counter()
            jax.block_until_ready([run(*given) for _ in range(4)])
            times[name].append((time.perf_counter() - began) / (4 * steps) * 1e6)
    xla, ours = (statistics.median(each) for each in times.values())
    print(f"{title:>40}{xla:>10.1f}{ours:>10.1f}{xla / ours:>8.2f}   far {far:.1e}", flush=True)


def work(devices) -> None:
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    from pyptx.kernels import peers

    mesh = jax.make_mesh((2,), ("gpus",), devices=devices)
    workspace = peers.MeshWorkspace(mesh, "gpus", room=32 << 20)
    parts, whole = P("gpus"), P()

    def over(function, *specs):
        return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=parts, check_vma=False))

    def random(seed: int, *shape: int, spec=parts):
        return jax.device_put(jax.random.normal(jax.random.key(seed), shape, jnp.bfloat16), NamedSharding(mesh, spec))

    def steps(reduce):
        def run(x):
            for _ in range(STEPS):
                x = reduce(x) * x.dtype.type(0.5)
            return x

        return over(run, parts)

    def normed(x, weight, residual):
        h = jax.lax.psum_scatter(x, "gpus", tiled=True).astype("float32") + residual.astype("float32")
        return (h * jax.lax.rsqrt((h * h).mean(-1, keepdims=True) + 1e-6) * weight.astype("float32")).astype(x.dtype)

    print(f"{'':>40}{'XLA us':>10}{'pyptx us':>10}{'ratio':>8}")
    sums = {
        "xla": steps(lambda x: jax.lax.psum(x, "gpus")),
        "ours": steps(lambda x: peers.all_reduce(x, workspace)),
    }
    for size in SIZES:
        compared(f"all_reduce, bf16, {size >> 10} KB", sums, (random(0, size),), STEPS)
    norms = {
        "xla": over(normed, parts, whole, parts),
        "ours": over(
            lambda x, weight, residual: peers.reduce_scatter_rms_norm(x, weight, workspace, residual=residual)[0],
            parts, whole, parts,
        ),
    }  # fmt: skip
    for rows, columns in NORMS:
        given = random(1, 2 * rows, columns), random(2, columns, spec=whole), random(3, rows, columns)
        compared(f"reduce_scatter_rms_norm, {rows} x {columns}", norms, given, 1)
    products = {
        "xla": over(lambda x, w: jax.lax.all_gather(x, "gpus", tiled=True) @ w, parts, whole),
        "ours": over(lambda x, w: peers.all_gather_matmul(x, w, workspace), parts, whole),
    }
    for m, k, n in PRODUCTS:
        compared(f"all_gather_matmul, {m}, {k}, {n}", products, (random(1, 2 * m, k), random(2, k, n, spec=whole)), 1)


def main() -> int:
    try:
        import jax
    except ImportError:
        print("skipped: no jax")
        return 0
    devices = [each for each in jax.devices() if each.platform == "gpu"][:2]
    if len(devices) < 2:
        print("skipped: fewer than 2 CUDA devices")
        return 0
    print(f"2 x {devices[0].device_kind}, jax {jax.__version__}")
    work(devices)
    return 0


if __name__ == "__main__":
    sys.exit(main())
