"""Programs with kernels that leave the process: exported, cached on disk, compiled ahead of time."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from jax_kernels import jax, jnp, make_axpb, make_row_scale, make_square, marks, values

import pyptx
from pyptx.jax_support import EXPORT_CHECKS

pytestmark = marks
HERE = pathlib.Path(__file__).resolve().parent


def run(code: str, *arguments, **environment) -> str:
    """Another process, which does not see the tests' kernels unless it is told where they are."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        cwd=pathlib.Path(sys.prefix),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


LOAD = """
import sys, numpy as np, jax
import pyptx.jax_support
exported = jax.export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
x, w = np.load(sys.argv[2]), np.load(sys.argv[3])
np.save(sys.argv[4], exported.call(x, w))
assert not any("kernels" in name for name in sys.modules if "jax" in name)
"""


def needs_flatbuffers():
    pytest.importorskip("flatbuffers", reason="skipped: no flatbuffers, which jax.export writes with")


@pytest.mark.parametrize("platforms", [None, ("cpu", "cuda")], ids=["here", "cpu and cuda"])
@pytest.mark.parametrize("batch", [None, "B"])
def test_an_exported_program_runs_where_the_kernel_is_not(tmp_path, platforms, batch):
    needs_flatbuffers()
    row_scale = make_row_scale(batch=batch)

    def program(x, w):
        return row_scale(row_scale(x, w), w) + 1

    x, w = values(4, 32), values(32, seed=1)
    exported = jax.export.export(jax.jit(program), platforms=platforms, disabled_checks=EXPORT_CHECKS)(x, w)
    if platforms:
        assert set(exported.platforms) == {"cpu", "cuda"}
    (tmp_path / "program").write_bytes(exported.serialize())
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "w.npy", w)
    run(LOAD, *(tmp_path / name for name in ("program", "x.npy", "w.npy", "y.npy")))
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), x * w * w + 1, rtol=1e-6)


def test_export_asks_for_the_call_by_name():
    axpb = make_axpb()
    with pytest.raises(ValueError, match="pyptx_launch"):
        jax.export.export(jax.jit(axpb))(values(32))


def test_a_gradient_is_exported_with_its_function():
    needs_flatbuffers()
    square = pyptx.differentiable_kernel(*make_square())
    exported = jax.export.export(jax.jit(square), disabled_checks=EXPORT_CHECKS)(values(32))
    again = jax.export.deserialize(exported.serialize(vjp_order=1))
    x = values(32)
    np.testing.assert_allclose(jax.grad(lambda x: again.call(x).sum())(x), 2 * x, rtol=1e-6)


CACHED = """
import sys, jax
sys.path.insert(0, sys.argv[2])
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
from jax_kernels import make_axpb, jnp
axpb = make_axpb()
y = jax.jit(lambda x: axpb(x) * 3)(jnp.ones(32))
assert float(y[0]) == 9.0 and float(y.sum()) == 288.0
print("hits", events.count("/jax/compilation_cache/cache_hits"), "misses", events.count("/jax/compilation_cache/cache_misses"))
"""


def test_the_compilation_cache_is_hit_by_a_second_process(tmp_path):
    first = run(CACHED, tmp_path, HERE).split()
    second = run(CACHED, tmp_path, HERE).split()
    assert int(first[3]) >= 1, first
    assert int(second[1]) >= 1 and int(second[3]) == 0, second


def test_the_example_runs():
    needs_flatbuffers()
    example = HERE.parents[1] / "examples" / "jax_kernels.py"
    done = subprocess.run([sys.executable, example], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("as it should be") == 5, done.stderr[-3000:]


def test_the_page_s_code_runs():
    page = (HERE.parents[1] / "docs" / "jax.md").read_text()
    names = {"jax": jax, "rms_norm": make_row_scale(), "x": values(4, 32), "w": values(32, seed=1)}
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
    np.testing.assert_array_equal(names["fn"](names["x"], names["w"]), names["x"] * names["w"] + 1)
    assert names["exported"].platforms == ("cpu", "cuda")


def test_ahead_of_time():
    axpb = make_axpb()
    lowered = jax.jit(lambda x: axpb(x)).lower(jax.ShapeDtypeStruct((64,), jnp.float32))
    compiled = lowered.compile()
    x = values(64)
    np.testing.assert_array_equal(compiled(x), 2 * x + 1)
    assert "pyptx_launch" in compiled.as_text()


def test_a_kernel_may_go_before_its_programs():
    x = values(32)
    axpb = make_axpb()
    compiled = jax.jit(axpb).lower(x).compile()
    del axpb
    np.testing.assert_array_equal(compiled(x), 2 * x + 1)
