"""What a kernel costs inside XLA programs, beside XLA's own kernel of the same shapes.

    python bench/jax_calls.py [--rounds 40] [--calls 400]

Needs jax; on a CUDA device unless --cpu (which then times the simulator, and says little).  Three tables:
- host: microseconds a jitted call of RMSNorm 16 x 512 takes the caller, beside a jitted `x * w`; all columns in turn in
  each round, medians; the device is waited for between columns, outside the time.
- device: microseconds a node of a program of 100 calls, which XLA replays as one command buffer, beside a program of
  100 products of equal shapes that cannot be fused: a kernel that does the same, and RMSNorm, which does more; the
  device is waited for inside the time.
- second process: seconds from after `import jax` and a first operation on the device to the first result of a jitted
  kernel, with XLA's compilation cache and the cubin cache warm.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time

from _process import EXAMPLES, in_new_process

sys.path.insert(0, EXAMPLES)
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

ROWS, COLUMNS, NODES = 16, 512, 100


def timed(function, turns, *arrays, wait_inside):
    import jax

    start = time.perf_counter()
    for _ in range(turns):
        result = function(*arrays)
    if wait_inside:
        jax.block_until_ready(result)
    took = time.perf_counter() - start
    jax.block_until_ready(result)
    return took / turns * 1e6


def table(title, columns, rounds, turns, unit, wait_inside):
    """columns: name -> (function, arrays)."""
    rows = {name: [] for name in columns}
    for function, arrays in columns.values():
        timed(function, 3, *arrays, wait_inside=True)
    for _ in range(rounds):
        for name, (function, arrays) in columns.items():
            rows[name].append(timed(function, turns, *arrays, wait_inside=wait_inside) / unit)
    medians = {name: statistics.median(row) for name, row in rows.items()}
    base = next(iter(medians.values()))
    print(f"\n{title}")
    for name, row in rows.items():
        print(f"  {name:24} {medians[name]:9.3f} us   {medians[name] / base:5.2f} x   (least {min(row):.3f})")


def make_product():
    """x * w as XLA's kernel computes it: a CTA a row, four columns a thread."""
    from pyptx import Tile, kernel, ptx, reg
    from pyptx.types import f32, u32

    @kernel(
        in_specs=(Tile("B", COLUMNS, f32), Tile(COLUMNS, f32)),
        out_specs=(Tile("B", COLUMNS, f32),),
        grid=lambda B: (B,),
        block=(COLUMNS // 4, 1, 1),
    )
    def product(X, W, Y):
        px, pw, py = ptx.global_ptrs(X, W, Y)
        thread, row = reg.from_(ptx.special.tid.x(), u32), reg.from_(ptx.special.ctaid.x(), u32)
        x, w = reg.array(f32, 4), reg.array(f32, 4)
        offset = (row * (COLUMNS // 4) + thread) * 16
        ptx.inst.ld.global_.v4.f32(list(x), ptx.addr(px + offset))
        ptx.inst.ld.global_.v4.f32(list(w), ptx.addr(pw + thread * 16))
        for a, b in zip(x, w, strict=True):
            ptx.inst.mul.f32(a, a, b)
        ptx.inst.st.global_.v4.f32(ptx.addr(py + offset), list(x))
        ptx.ret()

    return product


def host_and_device(rounds, calls):
    import jax
    from rms_norm import build_rms_norm

    rms_norm = build_rms_norm(ROWS, COLUMNS)
    x = jax.random.normal(jax.random.key(0), (ROWS, COLUMNS))
    w = jax.random.uniform(jax.random.key(1), (COLUMNS,), minval=0.5, maxval=1.5)
    one = {
        "x * w": (jax.jit(lambda x, w: x * w), (x, w)),
        "rms_norm": (jax.jit(lambda x, w: rms_norm(x, w)), (x, w)),
    }
    table("host, a jitted call", one, rounds, calls, 1, wait_inside=False)

    def many(step):
        def program(x, w):
            for _ in range(NODES):
                x = step(x, w)
            return x

        return jax.jit(program)

    chain = {
        "x * w": (many(lambda x, w: jax.lax.optimization_barrier(x * w)), (x, w)),
        "product": (many(make_product()), (x, w)),
        "rms_norm": (many(rms_norm), (x, w)),
    }
    table(f"device, a node of {NODES}", chain, rounds, max(1, calls // 20), NODES, wait_inside=True)


SECOND = """
import sys, time, jax, jax.numpy as jnp
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
x, w = jax.device_put(jnp.ones((16, 512))), jax.device_put(jnp.ones(512))
jax.block_until_ready((x, w))
start = time.perf_counter()
from rms_norm import build_rms_norm
rms_norm = build_rms_norm(16, 512)
imported = time.perf_counter()
jax.block_until_ready(jax.jit(lambda x, w: rms_norm(x, w))(x, w))
end = time.perf_counter()
print(f"{imported - start:.3f} {end - start:.3f}")
"""


def second_process(turns=4):
    print("\nfirst result of a process, seconds after import jax and the device's start")
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(turns):
            said = in_new_process(SECOND, folder + "/xla", PYPTX_CACHE_DIR=folder + "/cubins")
            traced, total = said.split()
            print(f"  {'cold' if turn == 0 else 'warm'}  {total} (of it import pyptx and the decorator {traced})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--cpu", action="store_true", help="on the CPU platform, where the simulator runs the kernels")
    options = parser.parse_args()
    try:
        import jax
    except ImportError:
        print("skipped: no jax")
        return 0
    if jax.default_backend() != "gpu" and not options.cpu:
        print("skipped: jax has no CUDA device (--cpu times the simulator)")
        return 0
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}")
    host_and_device(options.rounds, options.calls)
    second_process()
    return 0


if __name__ == "__main__":
    sys.exit(main())
