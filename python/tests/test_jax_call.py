"""Kernels on JAX values: what comes out, what the program says, and every way in which a call is refused."""

from __future__ import annotations

import gzip
import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from jax_kernels import (
    hlo,
    jax,
    jnp,
    load,
    make_axpb,
    make_counter,
    make_products,
    make_row_scale,
    make_step,
    marks,
    on_gpu,
    store,
    values,
)

from pyptx import Layout, Tile, kernel, ptx, reg
from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.frameworks.jax import call as jax_call
from pyptx.specialise.signature import Arguments
from pyptx.types import b16, bf16, e4m3, e5m2, f16, f32, f64, pred, s8, s32, u8, u16, u32

pytestmark = marks
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))


def test_the_seed_s_kernel_runs_as_documented():
    from examples.rms_norm import build_rms_norm

    k = build_rms_norm(16, 512)

    @jax.jit
    def fn(x, w):
        return k(x, w)

    x, w = values(16, 512), values(512, seed=1)
    expected = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * w
    for result in (fn(x, w), k(x, w), fn(x, w)):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
        assert isinstance(result, jax.Array) and result.dtype == jnp.float32


def test_sizes_are_bound_and_template_values_chosen_at_each_call():
    axpb = make_axpb()
    for n in (32, 96, 32):
        x = values(n)
        np.testing.assert_array_equal(axpb(x), 2 * x + 1)
        np.testing.assert_allclose(jax.jit(lambda x: axpb(x, a=3.0))(x), 3 * x + 1, rtol=1e-6, atol=1e-6)
    program = jax.jit(lambda x: axpb(axpb(x)) * 2)
    np.testing.assert_array_equal(program(x), (4 * x + 3) * 2)


def test_several_outputs_are_a_tuple():
    x, y = values(64), values(64, seed=1)
    for run in (make_products(), jax.jit(make_products())):
        product, total = run(x, y)
        np.testing.assert_array_equal(product, x * y)
        np.testing.assert_array_equal(total, x + y)


def test_runtime_scalars():
    add = make_counter()
    x = jnp.arange(32, dtype=jnp.int32)
    for n in (5, -3, np.int32(7)):
        np.testing.assert_array_equal(add(x, n=n), x + n)
        np.testing.assert_array_equal(jax.jit(lambda x, n=n: add(x, n=n))(x), x + n)
    with pytest.raises(LaunchTypeError, match="`n`.*not given"):
        add(x)
    with pytest.raises(LaunchTypeError, match=r"add: argument `n`: a runtime scalar becomes part of the program"):
        jax.jit(lambda x, n: add(x, n=n))(x, 5)
    with pytest.raises(LaunchTypeError, match="`n`.*does not fit"):
        add(x, n=1 << 40)


def test_another_scalar_is_no_other_program():
    add = make_counter()
    x = jnp.arange(32, dtype=jnp.int32)
    add(x, n=0)
    compiled = []
    listen = lambda event, seconds, **_: compiled.append(event) if "compile" in event else None  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for n in range(1, 20):
            np.testing.assert_array_equal(add(x, n=n), x + n)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert compiled == [] and len(add._jax_sites) == 1
    both = jax.vmap(lambda a: add(a, n=3))(jnp.stack([x, x]))  # a part of a program: the value is, too
    np.testing.assert_array_equal(both, jnp.stack([x, x]) + 3)


def test_an_input_that_the_kernel_writes_comes_back():
    step = make_step()
    x, g = values(64), values(64, seed=1)
    kept = np.array(x)
    np.testing.assert_allclose(step(x, g, rate=0.5), x - 0.5 * g, rtol=1e-6)
    np.testing.assert_array_equal(x, kept)  # JAX's arrays do not change: XLA copies what is still needed

    def program(x, g):
        return step(x, g, rate=0.5)

    text = hlo(program, x, g, donate_argnums=0)
    assert "output_to_operand_aliasing={{}: (0, {})}" in text or "output_to_operand_aliasing={{0}: (0, {})}" in text
    assert "input_output_alias={ {}: (0, {}, may-alias)" in text or "input_output_alias={ {0}: (0, {}" in text
    assert " copy(" not in text
    expected = x - 0.5 * g
    where = x.unsafe_buffer_pointer()
    result = jax.jit(program, donate_argnums=0)(x, g)
    assert x.is_deleted() and result.unsafe_buffer_pointer() == where
    np.testing.assert_allclose(result, expected, rtol=1e-6)


TYPES = [u8, s8, u16, b16, s32, u32, f16, bf16, f32, e4m3, e5m2, pred]


@pytest.mark.parametrize("element", TYPES, ids=lambda element: element.name)
def test_every_type_passes_unchanged(element):
    bits = 8 if element.name == "pred" else element.bits

    @kernel(in_specs=(Tile(32, element),), out_specs=(Tile(32, element),), block=(32, 1, 1))
    def same(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        offset = reg.from_(ptx.special.tid.x(), u32) * (bits // 8)
        value = reg.scalar({8: u16, 16: b16, 32: u32}[bits])
        move = {8: "u8", 16: "b16", 32: "u32"}[bits]
        getattr(ptx.inst.ld.global_, move)(value, ptx.addr(px + offset))
        getattr(ptx.inst.st.global_, move)(ptx.addr(py + offset), value)
        ptx.ret()

    x = jnp.arange(32).astype(jax_call.dtype_of(same.in_specs[0]))
    y = same(x)
    assert y.dtype == x.dtype and bool((y == x).all())


def test_a_transposed_argument_is_made_row_major():
    row_scale = make_row_scale()
    x, w = values(32, 8), values(32, seed=1)
    np.testing.assert_array_equal(jax.jit(lambda x: row_scale(x.T, w))(x), x.T * w)


def test_column_major_tiles_lie_so_in_memory():
    """A kernel that copies memory as it lies tells in which order XLA laid it."""

    def memory(source, target):
        @kernel(in_specs=(source,), out_specs=(target,), block=(32, 1, 1))
        def copy(X, Y):
            px, py = ptx.global_ptrs(X, Y)
            lane = reg.from_(ptx.special.tid.x(), u32)
            store(py, lane, load(px, lane))
            ptx.ret()

        return copy

    x = values(8, 4)
    flat, column = Tile(32, f32), Tile(8, 4, f32, Layout.COL)
    np.testing.assert_array_equal(memory(column, flat)(x), x.T.ravel())
    np.testing.assert_array_equal(memory(Tile(8, 4, f32), flat)(x), x.ravel())
    np.testing.assert_array_equal(memory(flat, column)(x.T.ravel()), x)
    np.testing.assert_array_equal(jax.jit(memory(column, column))(x), x)


@pytest.mark.skipif(
    not on_gpu or jax.devices()[0].compute_capability != "9.0", reason="skipped: wgmma and its tensor maps are Hopper's"
)
def test_tensor_maps_are_made_of_xla_s_buffers():
    from examples.hopper_tile import M, N, build_hopper_tile

    tile = build_hopper_tile(256)
    run = jax.jit(lambda a, b: tile(a * 2, b))
    for seed in range(3):  # other buffers at each call
        a, b = values(M, 256, seed=seed, dtype="bfloat16"), values(256, N, seed=seed + 9, dtype="bfloat16")
        expected = jnp.dot(2 * a, b, preferred_element_type=jnp.float32)
        np.testing.assert_allclose(run(a, b), expected, rtol=1e-3, atol=1e-1)


def test_arrays_without_elements():
    assert make_axpb()(jnp.zeros(0, jnp.float32)).shape == (0,)


def test_the_same_kernel_takes_numpy_and_torch():
    axpb = make_axpb()
    x = np.arange(32, dtype=np.float32)
    for _ in range(2):
        assert isinstance(axpb(x), np.ndarray)
        assert isinstance(axpb(jnp.asarray(x)), jax.Array)
    row_scale = make_row_scale()
    assert isinstance(row_scale(np.ones((4, 32), np.float32), jnp.ones(32)), jax.Array)
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    assert isinstance(axpb(torch.ones(32)), torch.Tensor)
    with pytest.raises(LaunchTypeError, match=r"row_scale: argument `W`: .*torch.Tensor"):
        row_scale(jnp.ones((4, 32)), torch.ones(32))


def test_a_jax_array_is_no_output():
    with pytest.raises(LaunchTypeError, match="axpb: argument `Y`: no kernel writes a JAX array: .* as out="):
        make_axpb()(np.ones(32, np.float32), out=jnp.ones(32))


@pytest.mark.parametrize(
    ("argument", "error", "message"),
    [
        (
            lambda: jnp.zeros(64, jnp.int32),
            LaunchTypeError,
            "argument `X`: its dtype is int32, the kernel takes float32",
        ),
        (lambda: jnp.zeros((2, 32)), LaunchValueError, "argument `X`: rank"),
    ],
)
def test_what_a_kernel_does_not_take_is_refused_by_name(argument, error, message):
    axpb = make_axpb()
    with pytest.raises(error, match=f"axpb: {message}"):
        axpb(argument())
    with pytest.raises(error, match=f"axpb: {message}"):
        jax.jit(axpb)(argument())


def test_sizes_that_do_not_fit_are_refused():
    row_scale = make_row_scale()
    with pytest.raises(LaunchValueError, match=r"row_scale: argument `W`: dim mismatch"):
        row_scale(jnp.zeros((4, 32)), jnp.zeros(31))
    with pytest.raises(LaunchTypeError, match=r"row_scale: expected 2 input arrays, got 1"):
        row_scale(jnp.zeros((4, 32)))
    products = make_step()
    with pytest.raises(LaunchValueError, match=r"step: conflicting"):
        products(jnp.zeros(32), jnp.zeros(64), rate=1.0)


def test_types_of_64_bits_say_how_to_have_them():
    @kernel(in_specs=(Tile(32, f64),), out_specs=(Tile(32, f32),))
    def narrow(X, Y):
        ptx.ret()

    with pytest.raises(LaunchTypeError, match="narrow: argument `X`.*jax_enable_x64"):
        narrow(jnp.zeros(32))


def test_a_kernel_without_results_is_refused():
    @kernel(in_specs=(Tile(32, f32),), out_specs=())
    def silent(X):
        ptx.ret()

    with pytest.raises(LaunchTypeError, match="silent: it has no results.*mutates"):
        silent(jnp.zeros(32))


def test_a_kernel_without_specs_is_not_called():
    @kernel
    def bare(X):
        ptx.ret()

    with pytest.raises(NotImplementedError, match="in_specs"):
        bare(jnp.zeros(32))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mutates": ("Y",)}, "'Y' is not one of its inputs"),
        ({"batch": "M"}, "neither grid.x, grid.y or grid.z nor a dimension"),
        ({"batch": "N"}, "first dimension of every Tile that has it, and is not that of X"),
    ],
)
def test_options_that_do_not_fit_the_specs_are_refused(options, message):
    with pytest.raises(ValueError, match=message):

        @kernel(in_specs=(Tile("B", "N", f32),), out_specs=(Tile("B", f32),), **options)
        def bad(X, Y):
            ptx.ret()


def test_every_output_has_the_batch_dimension():
    with pytest.raises(ValueError, match="it must be the first dimension of every output, and is not that of Y"):

        @kernel(in_specs=(Tile("B", 32, f32),), out_specs=(Tile(32, f32),), batch="B")
        def bad(X, Y):
            ptx.ret()


def test_the_program_carries_everything_and_no_handle():
    axpb = make_axpb()
    text = jax.jit(axpb).lower(values(32)).as_text()
    assert "custom_call @pyptx_launch" in text and ".entry axpb" in text
    assert re.findall(r"0x[0-9a-f]{9,}", text) == []
    other = jax.jit(make_axpb()).lower(values(32)).as_text()
    assert other == text


def events(function, x, folder) -> list[str]:
    """Names of what the profiler saw of one call."""
    with jax.profiler.trace(folder):
        jax.block_until_ready(function(x))
    (path,) = pathlib.Path(folder).rglob("*.trace.json.gz")
    return [event.get("name", "") for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]]


def test_calls_are_replayed_as_one_command_buffer(tmp_path):
    x = values(32)
    axpb = make_axpb()

    def many(x):
        for _ in range(8):
            x = axpb(x)
        return x

    assert hlo(many, x).count('custom_call_target="pyptx_launch"') == 8
    run = jax.jit(many)
    for _ in range(2):  # XLA captures in the first or second run
        np.testing.assert_allclose(run(x), 256 * x + 255, rtol=1e-6)
    if on_gpu:  # XLA makes command buffers of its program's thunks, of which the HLO says nothing
        seen = events(run, x, tmp_path)
        assert seen.count("axpb") == 8 and sum(name.startswith("cuGraphLaunch") for name in seen) == 1, seen
        assert not any(name.startswith("cuLaunchKernel") for name in seen), seen


def test_a_report_of_the_simulator_names_kernel_argument_and_line():
    if on_gpu:
        pytest.skip("skipped: the GPU has no reports")

    @kernel(in_specs=(Tile(32, f32),), out_specs=(Tile(32, f32),), block=(32, 1, 1))
    def beyond(X, Y):
        (px, py) = ptx.global_ptrs(X, Y)
        value = reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, ptx.addr(px + 4096))  # here
        ptx.inst.st.global_.f32(ptx.addr(py), value)
        ptx.ret()

    line = pathlib.Path(__file__).read_text().split("# here")[0].count("\n") + 1
    for run in (beyond, jax.jit(beyond)):
        with pytest.raises(jax.errors.JaxRuntimeError) as caught:
            jax.block_until_ready(run(jnp.zeros(32)))
        for part in ("beyond", f"test_jax_call.py:{line}", "PTX5010", "X"):
            assert part in str(caught.value), str(caught.value)


def raw_call(**attributes):
    good = make_axpb()
    site = jax_call.Site.of(good, Arguments({"a": 2.0}, {"N": 32}, {}))
    given = {**site.attributes, **attributes}
    given = {name: value for name, value in given.items() if value is not None}
    result = jax.ShapeDtypeStruct((32,), jnp.float32)
    return jax.jit(lambda x: jax.ffi.ffi_call("pyptx_launch", result)(x, **given))(jnp.ones(32))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"record": b"nonsense"}, "PTX4114.*begin otherwise"),
        ({"record": None}, "PTX4114.*has the attributes"),
        ({"scalars": b"12345678"}, "PTX4114.*other scalars"),
        ({"in_place": b"\0"}, "takes 1 results of a kernel with 1 and 2"),
        ({"ptx": "not PTX"}, "PTX"),
    ],
)
def test_attributes_that_say_nothing_are_errors_not_crashes(attributes, message):
    np.testing.assert_array_equal(raw_call(), np.full(32, 3.0))
    with pytest.raises(jax.errors.JaxRuntimeError, match=rf"(?s){message}"):
        jax.block_until_ready(raw_call(**attributes))


def test_arguments_of_another_program_are_refused_by_the_handler():
    site = jax_call.Site.of(make_axpb(), Arguments({"a": 2.0}, {"N": 32}, {}))

    def call(x, shape, dtype=jnp.float32):
        made = jax.ffi.ffi_call("pyptx_launch", jax.ShapeDtypeStruct(shape, dtype))(x, **site.attributes)
        return jax.block_until_ready(made)

    with pytest.raises(jax.errors.JaxRuntimeError, match=r"axpb: argument `X`.*is 64, the kernel takes 32"):
        call(jnp.ones(64), (32,))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"axpb: argument `X`.*dtype is s32"):
        call(jnp.ones(32, jnp.int32), (32,))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"axpb: argument `Y`"):
        call(jnp.ones(32), (64,))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"argument `X` is of a type that no kernel takes"):
        call(jnp.ones(32, jnp.complex64), (32,))


def test_importing_pyptx_does_not_import_jax():
    code = "import sys, pyptx; assert not any(name.split('.')[0] == 'jax' for name in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_older_releases_of_jax_are_refused():
    with pytest.raises(ImportError, match=r"need jax 0\.10\.2 or later; this is 0\.9\.1"):
        jax_call.check_version((0, 9, 1))


def test_the_documented_names():
    from pyptx import jax_support

    assert jax_support.ensure_ffi_registered() and jax_support.shim_is_available()
    assert jax_support.shim_load_error() is None
    x, axpb = values(32), make_axpb()
    launch = {"cubin_handle": axpb, "out_shape_env": {"N": 32}, "out_specs": axpb.out_specs, "block": (32, 1, 1)}
    np.testing.assert_array_equal(jax_support.call_kernel_via_ffi(x, **launch), 2 * x + 1)
    with pytest.raises(ValueError, match="block"):
        jax_support.call_kernel_via_ffi(x, **{**launch, "block": (64, 1, 1)})
    with pytest.raises(TypeError, match="cubin_handle is the kernel itself"):
        jax_support.call_kernel_via_ffi(x, cubin_handle=1)


def test_a_shape_without_values_is_refused_by_name():
    x, axpb = values(32), make_axpb()
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    for _ in range(2):  # the second time a call of this shape and type is known
        with pytest.raises(LaunchTypeError, match=r"argument `\w+`: .* not <class 'jax.ShapeDtypeStruct'>"):
            jax_call.call(axpb, (shape,), {})
        axpb(x)
