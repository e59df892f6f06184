"""Kernels in JAX programs: jit, grad, vmap, sharding, export.  On the CPU the simulator runs them.

    python examples/jax_kernels.py

The devices of the sharding part are whatever jax has; on the CPU the script asks for eight.
"""

import sys
import tempfile

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from pyptx import Tile, differentiable_kernel, kernel, ptx, reg
from pyptx.jax_support import EXPORT_CHECKS
from pyptx.types import f32, u32

ROW = 32  # elements, a thread each


def indices():
    """Of this thread's element of the matrix, and of its column."""
    column = reg.from_(ptx.special.tid.x(), u32)
    return reg.from_(ptx.special.ctaid.x(), u32) * ROW + column, column


def load(pointer, index):
    value = reg.scalar(f32)
    ptx.inst.ld.global_.f32(value, ptx.addr(pointer + index * 4))
    return value


# batch="B" declares that rows are independent: vmap merges calls, and sharded rows stay where they are.
rows = {"grid": lambda B: (B,), "block": (ROW, 1, 1), "arch": "sm_75", "batch": "B"}
matrix, vector = Tile("B", ROW, f32), Tile(ROW, f32)


@kernel(in_specs=(matrix, vector), out_specs=(matrix,), **rows)
def scaled_square(X, W, Y):
    """Y = X * X * w."""
    px, pw, py = ptx.global_ptrs(X, W, Y)
    element, column = indices()
    value = load(px, element)
    ptx.inst.mul.f32(value, value, value)
    ptx.inst.mul.f32(value, value, load(pw, column))
    ptx.inst.st.global_.f32(ptx.addr(py + element * 4), value)
    ptx.ret()


@kernel(in_specs=(matrix, vector, matrix), out_specs=(matrix,), **rows)
def scaled_square_backward(X, W, DY, DX):
    """dX = 2 * X * w * dY."""
    px, pw, pdy, pdx = ptx.global_ptrs(X, W, DY, DX)
    element, column = indices()
    value = load(px, element)
    ptx.inst.add.f32(value, value, value)
    ptx.inst.mul.f32(value, value, load(pw, column))
    ptx.inst.mul.f32(value, value, load(pdy, element))
    ptx.inst.st.global_.f32(ptx.addr(pdx + element * 4), value)
    ptx.ret()


def jit(x, w):
    @jax.jit
    def program(x, w):
        return scaled_square(x, w) + 1

    assert jnp.allclose(program(x, w), x * x * w + 1)


def grad(x, w):
    function = differentiable_kernel(scaled_square, scaled_square_backward, num_grad_inputs=1)  # w is taken as constant
    dx = jax.jit(jax.grad(lambda x: function(x, w).sum()))(x)
    assert jnp.allclose(dx, 2 * x * w)


def vmap(x, w):
    many = jnp.stack([x, 2 * x, 3 * x])
    run = jax.jit(jax.vmap(scaled_square, in_axes=(0, None)))
    assert jnp.allclose(run(many, w), many * many * w)
    assert run.lower(many, w).compile().as_text().count('"pyptx_launch"') == 1  # one launch of three times the rows


def shard(x, w):
    mesh = jax.make_mesh((len(jax.devices()),), ("rows",))
    split = NamedSharding(mesh, PartitionSpec("rows"))
    x, w = jax.device_put(x, split), jax.device_put(w, NamedSharding(mesh, PartitionSpec()))
    by_hand = jax.shard_map(
        scaled_square, mesh=mesh, in_specs=(PartitionSpec("rows"), PartitionSpec()), out_specs=PartitionSpec("rows")
    )
    for run in (jax.jit(scaled_square), jax.jit(by_hand)):
        y = run(x, w)
        assert jnp.allclose(y, x * x * w) and y.sharding.is_equivalent_to(split, 2)
        assert "all-gather" not in run.lower(x, w).compile().as_text()


def export(x, w):
    exported = jax.export.export(jax.jit(scaled_square), platforms=("cpu", "cuda"), disabled_checks=EXPORT_CHECKS)(x, w)
    with tempfile.TemporaryFile() as file:  # any process with pyptx.jax_support imported may read it
        file.write(exported.serialize())
        file.seek(0)
        again = jax.export.deserialize(bytearray(file.read()))
    assert jnp.allclose(again.call(x, w), x * x * w)


def main() -> int:
    jax.config.update("jax_num_cpu_devices", 8)
    x, w = jax.random.normal(jax.random.key(0), (16, ROW)), jnp.linspace(0.5, 1.5, ROW)
    for part in (jit, grad, vmap, shard, export):
        part(x, w)
        print(f"{part.__name__}: as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
