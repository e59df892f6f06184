"""Kernels of several GPUs in JAX programs: what a device runs, on the simulator, with what the others pushed laid out beforehand; and
what programs are traced to.  On two GPUs the example does the rest."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import numpy as np
import pytest

from pyptx import Tile, kernel, ptx
from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.kernels import _peers, peers
from pyptx.types import f32, u32

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/peers_jax.py"
ROOM = 4096


@pytest.mark.parametrize("rank", [0, 1])
def test_the_rank_is_data(rank):
    """Each rank's body is in the kernel; addresses are scalars, of memory that the launch has as tensors only so that it is known."""
    other, count = 1 - rank, 64

    @kernel(
        in_specs=(Tile("N", f32), Tile(1, u32), Tile("P", u32), Tile("P", u32)), out_specs=(Tile("N", f32),), mutates=("S", "T"),
        raw_params=[("u32", "N"), ("u64", "S0"), ("u64", "S1")], grid=(1, 1, 1), block=(256, 1, 1), arch="sm_80",
    )  # fmt: skip
    def both(X, Rank, S, T, Y):
        def body(rank, pointers):
            peers.one_shot(f32, X, pointers, Y, rank, ROOM)

        _peers.by_rank(Rank, ["S0", "S1"], body)
        ptx.ret()

    spaces = [np.zeros(_peers.words_of(ROOM, 2), np.int32) for _ in range(2)]
    slot = (_peers.HEADER + other * ROOM) // 4
    mine, theirs = np.arange(count, dtype=np.float32), np.full(count, 0.5, np.float32)
    spaces[rank][slot : slot + count] = theirs.view(np.int32)
    spaces[rank][other * _peers.MOST_CTAS] = 1  # its flag of CTA 0 in the first phase
    s0, s1 = (space.ctypes.data for space in spaces)
    y = both(mine, np.array([rank], np.uint32), *spaces, S0=s0, S1=s1)
    assert np.array_equal(y, mine + theirs)
    pushed = (_peers.HEADER + rank * ROOM) // 4
    assert np.array_equal(spaces[other][pushed : pushed + count].view(np.float32), mine)
    assert spaces[other][rank * _peers.MOST_CTAS] == 1


@pytest.fixture(scope="module")
def traced():
    """What a process says that has two devices of JAX, of the host: they are traced for, and launched nowhere."""
    pytest.importorskip("jax", reason="skipped: no jax")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


PROGRAM = """
import jax
jax.config.update("jax_num_cpu_devices", 2)
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P
from pyptx.kernels import peers

mesh = jax.make_mesh((2,), ("gpus",))

def refused(name, make):
    try:
        make()
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}")

refused("axis", lambda: peers.MeshWorkspace(mesh, "x"))
refused("host", lambda: peers.MeshWorkspace(mesh, "gpus"))
refused("one", lambda: peers.MeshWorkspace(jax.make_mesh((1,), ("gpus",), devices=jax.devices()[:1]), "gpus"))
refused("two axes", lambda: peers.MeshWorkspace(jax.make_mesh((2, 1), ("x", "gpus")), "gpus"))

class Memory:
    addresses = [1 << 40, 1 << 41]

space = peers.MeshWorkspace.__new__(peers.MeshWorkspace)
space.axis, space.ranks, space.room, space._memory = "gpus", 2, 1 << 14, Memory
x, w = jnp.ones((8, 256), jnp.bfloat16), jnp.ones((256, 64), jnp.bfloat16)

def program(name, function, *given, check=True):
    specs = [P("gpus"), P()][: len(given)]
    given = [jax.device_put(each, NamedSharding(mesh, spec)) for each, spec in zip(given, specs)]
    over = jax.shard_map(function, mesh=mesh, in_specs=tuple(specs), out_specs=P("gpus"), check_vma=check)
    made = jax.jit(over).lower(*given)
    print(f"{name}: {made.out_info.shape} {made.as_text().count('@pyptx_launch')}")

for check in (True, False):
    program(f"sum {check}", lambda x: peers.all_reduce(x, space), x, check=check)
    program(f"two shots {check}", lambda x: peers.all_reduce(x, space, shots=2), x, check=check)
    program(f"norm {check}", lambda x, w: peers.reduce_scatter_rms_norm(x, w[:, 0], space)[0], x, w, check=check)
    program(f"product {check}", lambda x, w: peers.all_gather_matmul(x, w, space), x, w, check=check)
refused("out", lambda: program("", lambda x: peers.all_reduce(x, space, out=x), x))
refused("room", lambda: program("", lambda x: peers.all_reduce(jnp.tile(x, (16, 1)), space), x))
refused("type", lambda: program("", lambda x: peers.all_gather_matmul(x, x.T, space), x.astype("int8")))
"""


def test_programs(traced):
    for check in (True, False):
        assert traced[f"sum {check}"] == traced[f"two shots {check}"] == "(8, 256) 1"
        assert traced[f"norm {check}"] == "(4, 256) 1"
        assert traced[f"product {check}"] == "(16, 64) 2"


def test_what_is_refused(traced):
    assert "axis 'x' is none of the mesh's: 'gpus'" in traced["axis"]
    assert "of CUDA devices" in traced["host"] and "jax.lax.psum" in traced["host"]
    assert "2 to 8 devices, all along 'gpus', not of {'gpus': 1}" in traced["one"]
    assert "not of {'x': 2, 'gpus': 1}" in traced["two axes"]
    assert "`out` is for tensors" in traced["out"] and LaunchValueError.__name__ in traced["out"]
    assert "room for 16384" in traced["room"]
    assert "legal are float32, float16, bfloat16" in traced["type"] and LaunchTypeError.__name__ in traced["type"]


def devices() -> int:
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    return torch.cuda.device_count()


def test_the_example():
    pytest.importorskip("jax", reason="skipped: no jax")
    ran = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=240)
    right = "2 devices: sums, norms and products are right\n"
    wanted = right if devices() >= 2 else "skipped: fewer than 2 CUDA devices\n"
    assert (ran.returncode, ran.stdout) == (0, wanted), ran.stderr
