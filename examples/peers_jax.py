"""Kernels on several GPUs in JAX programs, by one process with a mesh of its GPUs.  Results are compared with jax.lax's collectives.

python examples/peers_jax.py [--gpus 2]
"""

import os

# Keep NVLink multicast off also for NCCL, which computes the results for comparison.
os.environ["NCCL_NVLS_ENABLE"] = "0"

import argparse
import sys

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from pyptx.kernels import peers

ROWS, COLUMNS, OUT = 256, 1024, 512


def close(found, wanted) -> None:
    found, wanted = found.astype("float32"), wanted.astype("float32")
    assert jnp.allclose(found, wanted, rtol=2e-2, atol=2e-2 * jnp.abs(wanted).max())


def work(mesh) -> None:
    ranks = mesh.size
    workspace = peers.MeshWorkspace(mesh, "gpus", room=1 << 20)

    def over_devices(function, *specs):
        return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=P("gpus")))

    parts = NamedSharding(mesh, P("gpus"))
    whole = NamedSharding(mesh, P())
    sums = {
        shots: over_devices(lambda x, shots=shots: peers.all_reduce(x, workspace, shots=shots), P("gpus"))
        for shots in (1, 2)
    }
    norm = over_devices(lambda x, w: peers.reduce_scatter_rms_norm(x, w, workspace)[0], P("gpus"), P())
    product = over_devices(lambda x, w: peers.all_gather_matmul(x, w, workspace), P("gpus"), P())
    for seed in range(3):
        keys = jax.random.split(jax.random.key(seed), 3)
        x = jax.device_put(jax.random.normal(keys[0], (ranks * ROWS, COLUMNS), jnp.bfloat16), parts)
        weight = jax.device_put(jax.random.normal(keys[1], (COLUMNS,), jnp.bfloat16), whole)
        w = jax.device_put(jax.random.normal(keys[2], (COLUMNS, OUT), jnp.bfloat16), whole)
        wide = jax.device_get(x).astype("float32").reshape(ranks, ROWS, COLUMNS)
        total = jnp.asarray(wide.sum(0))
        for reduce in sums.values():
            close(jax.device_get(reduce(x)), jnp.tile(total, (ranks, 1)))
        scale = jax.lax.rsqrt((total**2).mean(-1, keepdims=True) + 1e-6)
        close(jax.device_get(norm(x, weight)), total * scale * jax.device_get(weight))
        wanted = wide.reshape(-1, COLUMNS) @ jax.device_get(w).astype("float32")
        close(jax.device_get(product(x, w)), jnp.tile(wanted, (ranks, 1)))
    print(f"{ranks} devices: sums, norms and products are right")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=2)
    gpus = parser.parse_args().gpus
    devices = [each for each in jax.devices() if each.platform == "gpu"]
    if len(devices) < gpus:
        print(f"skipped: fewer than {gpus} CUDA devices")
        return 0
    work(jax.make_mesh((gpus,), ("gpus",), devices=devices[:gpus]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
