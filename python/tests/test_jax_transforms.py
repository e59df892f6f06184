"""What JAX does to programs, done to kernels: vmap, derivatives, control flow, sharding."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from jax_kernels import hlo, jax, jnp, make_axpb, make_products, make_row_scale, make_square, make_step, marks, values

import pyptx
from pyptx.errors import LaunchTypeError

pytestmark = marks
PartitionSpec, NamedSharding = jax.sharding.PartitionSpec, jax.sharding.NamedSharding

CALL = 'custom_call_target="pyptx_launch"'


def quietly(function, *arrays):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return function(*arrays)


# vmap


def test_vmap_over_rows_is_one_launch_over_more_rows():
    row_scale = make_row_scale(batch="B")
    x, w = values(3, 4, 32), values(32, seed=1)
    run = jax.vmap(row_scale, in_axes=(0, None))
    np.testing.assert_array_equal(quietly(run, x, w), x * w)
    text = hlo(run, x, w)
    assert text.count(CALL) == 1 and "while" not in text
    np.testing.assert_array_equal(jax.vmap(row_scale, in_axes=(1, None), out_axes=1)(x, w), x * w)
    twice = jax.vmap(jax.vmap(row_scale, in_axes=(0, None)), in_axes=(0, None))
    many = values(2, 3, 4, 32)
    np.testing.assert_array_equal(quietly(twice, many, w), many * w)
    assert hlo(twice, many, w).count(CALL) == 1


def test_vmap_of_an_argument_without_rows_goes_one_by_one_and_says_so():
    row_scale = make_row_scale(batch="B")
    x, w = values(4, 32), values(3, 32, seed=1)
    with pytest.warns(UserWarning, match="row_scale runs 3 launches one after the other: an argument without.*B"):
        result = jax.vmap(row_scale, in_axes=(None, 0))(x, w)
    np.testing.assert_array_equal(result, x[None] * w[:, None])


def test_vmap_along_the_grid_is_one_launch_of_more_grids():
    products = make_products()
    x, y = values(5, 64), values(5, 64, seed=1)
    product, total = quietly(jax.vmap(products), x, y)
    np.testing.assert_array_equal(product, x * y)
    np.testing.assert_array_equal(total, x + y)
    assert hlo(jax.vmap(products), x, y).count(CALL) == 1
    product, _ = quietly(jax.vmap(products, in_axes=(0, None)), x, y[0])
    np.testing.assert_array_equal(product, x * y[0])
    many = values(2, 5, 64)
    product, total = quietly(jax.vmap(jax.vmap(products, in_axes=(0, None)), in_axes=(0, None)), many, y[1])
    np.testing.assert_array_equal(product, many * y[1])
    np.testing.assert_array_equal(total, many + y[1])


def test_vmap_without_a_batch_goes_one_by_one_and_says_so():
    axpb = make_axpb()
    x = values(3, 32)
    with pytest.warns(UserWarning, match=r"axpb runs 3 launches one after the other: no batch= of @kernel"):
        np.testing.assert_array_equal(jax.vmap(axpb)(x), 2 * x + 1)
    with pytest.warns(UserWarning):
        np.testing.assert_array_equal(jax.jit(jax.vmap(jax.vmap(axpb)))(x[None]), 2 * x[None] + 1)


def test_a_grid_that_is_in_use_cannot_count_a_batch():
    products = make_products(grid=(2, 1, 2))
    with pytest.raises(ValueError, match="products: the axis of the grid that counts the batch is 2 blocks long"):
        jax.vmap(products)(values(3, 64), values(3, 64))


# derivatives


def differentiable(**options):
    return pyptx.differentiable_kernel(*make_square(**options))


def test_grad_and_vjp_call_the_backward_kernel():
    square = differentiable()
    x = values(64)
    np.testing.assert_allclose(jax.grad(lambda x: square(x).sum())(x), 2 * x, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: (square(x) * 3).sum()))(x), 6 * x, rtol=1e-6)
    y, back = jax.vjp(square, x)
    np.testing.assert_array_equal(y, x * x)
    np.testing.assert_allclose(back(jnp.full(64, 0.5))[0], x, rtol=1e-6)


def test_the_gradient_agrees_with_differences():
    from jax.test_util import check_grads

    check_grads(differentiable(), (values(32),), order=1, modes=["rev"], rtol=2e-2, atol=2e-2)


def partial():
    """X * X * W with a gradient for X alone, which is wrong but for W = 1."""
    _, gradient = make_square()

    @pyptx.kernel(**pair_specs())
    def weighted(X, W, Y):
        body(X, W, Y)

    return pyptx.differentiable_kernel(weighted, gradient, save_for_backward=[0], num_grad_inputs=1)


def test_saved_inputs_and_gradients_of_some():
    run = partial()
    x, w = values(32), jnp.ones(32)
    dx, dw = jax.grad(lambda x, w: run(x, w).sum(), argnums=(0, 1))(x, w)
    np.testing.assert_allclose(dx, 2 * x, rtol=1e-6)
    np.testing.assert_array_equal(dw, jnp.zeros(32))


def pair_specs():
    tile = pyptx.Tile("N", pyptx.types.f32)
    return {"in_specs": (tile, tile), "out_specs": (tile,), "grid": lambda N: (N // 32,), "block": (32, 1, 1)}


def body(X, W, Y):
    from jax_kernels import element_index, load, store

    from pyptx import ptx

    px, pw, py = ptx.global_ptrs(X, W, Y)
    index = element_index()
    value = load(px, index)
    ptx.inst.mul.f32(value, value, value)
    ptx.inst.mul.f32(value, value, load(pw, index))
    store(py, index, value)
    ptx.ret()


def test_gradients_of_the_first_outputs():
    """`make_products` gives (X * Y, X + Y); the backward, one of those, gets the gradient of the product, in place of Y."""
    products = make_products()
    run = pyptx.differentiable_kernel(
        products,
        lambda x, y, beside, g: (products(g, y)[0], products(g, beside)[1]),
        save_outputs=[1],
        num_grad_outputs=1,
    )
    x, y = values(64), values(64) + 1
    dx, dy = jax.jit(jax.grad(lambda x, y: (3 * run(x, y)[0]).sum(), argnums=(0, 1)))(x, y)
    np.testing.assert_allclose(dx, 3 * y, rtol=1e-6)
    np.testing.assert_allclose(dy, 3 + x + y, rtol=1e-6)


def test_vmap_of_grad_and_grad_of_vmap():
    square = differentiable(batch="N")
    x = values(3, 64)
    loss = lambda x: square(x).sum()  # noqa: E731
    np.testing.assert_allclose(quietly(jax.vmap(jax.grad(loss)), x), 2 * x, rtol=1e-6)
    np.testing.assert_allclose(quietly(jax.grad(lambda x: jax.vmap(square)(x).sum()), x), 2 * x, rtol=1e-6)
    assert hlo(jax.vmap(jax.grad(loss)), x).count(CALL) == 1


def test_the_hijax_route_does_the_same():
    pytest.importorskip("jax.experimental.hijax", reason="skipped: this jax has no hijax")
    from pyptx.jax_support import hijax_kernel

    square = hijax_kernel(differentiable(batch="N"))
    x = values(3, 64)
    np.testing.assert_array_equal(jax.jit(square)(x[0]), x[0] * x[0])
    assert "KernelPrimitive" in str(jax.make_jaxpr(square)(x[0]))
    loss = lambda x: square(x).sum()  # noqa: E731
    np.testing.assert_allclose(jax.grad(loss)(x[0]), 2 * x[0], rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(x[0]), 2 * x[0], rtol=1e-6)
    np.testing.assert_allclose(quietly(jax.vmap(jax.grad(loss)), x), 2 * x, rtol=1e-6)
    np.testing.assert_allclose(quietly(jax.grad(lambda x: jax.vmap(square)(x).sum()), x), 2 * x, rtol=1e-6)
    some = hijax_kernel(partial())
    dx, dw = jax.grad(lambda x, w: some(x, w).sum(), argnums=(0, 1))(x[0, :32], jnp.ones(32))
    np.testing.assert_allclose(dx, 2 * x[0, :32], rtol=1e-6)
    np.testing.assert_array_equal(dw, jnp.zeros(32))
    with pytest.raises(NotImplementedError, match="square: its derivative is a kernel for reverse mode"):
        jax.jvp(square, (x[0],), (x[0],))


def test_forward_mode_is_refused_clearly():
    axpb, square = make_axpb(), differentiable()
    x = values(32)
    for run in (lambda: jax.jvp(axpb, (x,), (x,)), lambda: jax.grad(lambda x: axpb(x).sum())(x)):
        with pytest.raises(
            NotImplementedError, match=r"axpb: a kernel has no derivative of its own.*differentiable_kernel"
        ):
            run()
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(square, (x,), (x,))


def test_second_derivatives_are_refused_clearly():
    square = differentiable()
    once = jax.grad(lambda x: square(x).sum())
    with pytest.raises(NotImplementedError, match="square_gradient: a kernel has no derivative of its own"):
        jax.grad(lambda x: once(x).sum())(values(32))
    forward, gradient = make_square()
    again = pyptx.differentiable_kernel(gradient, lambda x, g, gg: (gradient(g, gg), gradient(x, gg)))
    twice = pyptx.differentiable_kernel(forward, again)
    second = jax.grad(lambda x: jax.grad(lambda x: twice(x).sum())(x).sum())
    np.testing.assert_allclose(second(values(32)), jnp.full(32, 2.0), rtol=1e-6)


def test_the_ready_made_rms_norm():
    from pyptx.kernels import rms_norm

    def reference(x, w):
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * w

    x, w, g = values(6, 100), values(100, seed=1), values(6, 100, seed=2)
    got, back = jax.vjp(rms_norm, x, w)
    expected, expected_back = jax.vjp(reference, x, w)
    for ours, theirs in ((got, expected), *zip(back(g), expected_back(g), strict=True)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    many = values(3, 6, 100)
    np.testing.assert_allclose(
        quietly(jax.vmap(rms_norm, in_axes=(0, None)), many, w), reference(many, w), rtol=1e-4, atol=1e-5
    )


def test_too_few_gradients_are_refused():
    _, gradient = make_square()

    @pyptx.kernel(**pair_specs())
    def weighted(X, W, Y):
        body(X, W, Y)

    run = pyptx.differentiable_kernel(weighted, lambda x, w, dy: gradient(x, dy))
    with pytest.raises(LaunchTypeError, match="the backward of kernel weighted gave 1 gradients for 2 inputs"):
        jax.grad(lambda x: run(x, jnp.ones(64)).sum())(values(64))


# control flow, remat, donation


def test_scan_and_while_loop():
    step = make_step()
    x, g = values(32), values(10, 32, seed=1) * 0.1

    @jax.jit
    def train(x, g):
        return jax.lax.scan(lambda x, g: (step(x, g, rate=0.5), ()), x, g)[0]

    np.testing.assert_allclose(train(x, g), x - 0.5 * g.sum(0), rtol=1e-4, atol=1e-5)
    axpb = make_axpb()
    four = jax.jit(lambda x: jax.lax.fori_loop(0, 4, lambda _, x: axpb(x), x))
    np.testing.assert_allclose(four(x), 16 * x + 15, rtol=1e-6)
    either = jax.jit(lambda p, x: jax.lax.cond(p, axpb, lambda x: x, x))
    np.testing.assert_array_equal(either(True, x), 2 * x + 1)


def test_remat_runs_the_forward_again():
    square = differentiable()
    x = values(32)

    def loss(x):
        return jnp.sin(square(x)).sum()

    plain, again = jax.value_and_grad(loss), jax.value_and_grad(jax.checkpoint(loss))
    np.testing.assert_allclose(again(x)[1], plain(x)[1], rtol=1e-6)
    assert [jax.jit(run).lower(x).as_text().count("@pyptx_launch") for run in (plain, again)] == [2, 3]


# sharding


@pytest.fixture(scope="module", params=["Auto", "Explicit"])
def mesh(request):
    devices = jax.devices() if len(jax.devices()) > 1 else jax.devices("cpu")
    if len(devices) < 2:
        pytest.skip("skipped: one device")
    kind = getattr(jax.sharding.AxisType, request.param)
    return jax.make_mesh((len(devices),), ("rows",), axis_types=(kind,), devices=devices)


def test_shard_map_gathers_nothing(mesh):
    row_scale = make_row_scale()
    count = mesh.devices.size
    x, w = values(2 * count, 32), values(32, seed=1)
    specs = {"in_specs": (PartitionSpec("rows"), PartitionSpec()), "out_specs": PartitionSpec("rows")}
    run = jax.jit(jax.shard_map(row_scale, mesh=mesh, **specs))
    sharded = jax.device_put(x, NamedSharding(mesh, PartitionSpec("rows")))
    w = jax.device_put(w, NamedSharding(mesh, PartitionSpec()))
    result = run(sharded, w)
    np.testing.assert_array_equal(result, x * w)
    assert result.sharding.is_equivalent_to(sharded.sharding, 2)
    text = run.lower(sharded, w).compile().as_text()
    assert CALL in text and "all-gather" not in text and "all-reduce" not in text


def test_grad_under_shard_map(mesh):
    square = differentiable()
    rows = PartitionSpec("rows")
    x = jax.device_put(values(32 * mesh.devices.size), NamedSharding(mesh, rows))
    grad = jax.shard_map(jax.grad(lambda x: square(x).sum()), mesh=mesh, in_specs=rows, out_specs=rows)
    np.testing.assert_allclose(jax.jit(grad)(x), 2 * x, rtol=1e-6)


def test_a_row_parallel_kernel_is_partitioned_without_a_gather(mesh):
    count = mesh.devices.size
    x, w = values(2 * count, 32), values(32, seed=1)
    sharded = jax.device_put(x, NamedSharding(mesh, PartitionSpec("rows")))
    whole = jax.device_put(w, NamedSharding(mesh, PartitionSpec()))

    def program(kernel):
        return jax.jit(lambda x, w: kernel(x * 2, w) + 1)

    run = program(make_row_scale(batch="B"))
    result = run(sharded, whole)
    np.testing.assert_array_equal(result, x * 2 * w + 1)
    assert result.sharding.is_equivalent_to(sharded.sharding, 2)
    text = run.lower(sharded, whole).compile().as_text()
    assert CALL in text and "all-gather" not in text
    assert "f32[2,32]{1,0} custom-call" in text  # each device has its rows alone
    # Without `batch` XLA knows of no way to split the call: it gathers.  The kernel then still gets it right.
    plain = program(make_row_scale())
    np.testing.assert_array_equal(plain(sharded, whole), x * 2 * w + 1)
    assert "all-gather" in plain.lower(sharded, whole).compile().as_text()


def test_arrays_from_outside_of_the_mesh_that_is_set(mesh):
    """Of which the partitioner tells no PartitionSpec."""
    from pyptx import kernels

    x = jnp.asarray(values(4, 6, 32))
    with jax.set_mesh(mesh):
        got = jax.jit(lambda x: kernels.softmax(x, 1))(x)
    np.testing.assert_allclose(got, jax.nn.softmax(x, 1), atol=1e-5)


def test_second_derivatives_of_rows_that_are_spread(mesh):
    """Of a backward that has derivatives itself, which each device makes for its own rows."""
    from pyptx import kernels

    def slopes(product):
        def slope(x, w):
            return sum((each**2).sum() for each in jax.grad(lambda *given: (product(*given) ** 3).sum(), (0, 1))(x, w))

        return jax.jit(jax.grad(slope, (0, 1)))

    x, w = values(len(mesh.devices) * 4, 16), values(16, 24, seed=1)
    spread = jax.device_put(x, NamedSharding(mesh, PartitionSpec("rows")))
    for got, wanted in zip(slopes(kernels.matmul)(spread, w), slopes(jnp.matmul)(x, w), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=3e-2, atol=3e-2 * float(abs(wanted).max()))


def test_inputs_without_a_gradient_are_refused_outside_of_jit_too(mesh):
    from pyptx import kernels

    spec = PartitionSpec("rows"), PartitionSpec()
    given = values(mesh.devices.size, 6, 32), values(6, 16, seed=1)
    x, table = (jax.device_put(each, NamedSharding(mesh, how)) for each, how in zip(given, spec, strict=True))
    run = jax.shard_map(lambda x, t: kernels.rope(x, t, t), mesh=mesh, in_specs=spec, out_specs=PartitionSpec("rows"))
    with jax.set_mesh(mesh):
        for function in (run, jax.jit(run)):
            assert jax.grad(lambda x, function=function: function(x, table).sum())(x).shape == x.shape
            with pytest.raises(LaunchTypeError, match="rope: argument `COS` gets no gradient: .*stop_gradient"):
                jax.grad(lambda t, function=function: function(x, t).sum())(table)


@pytest.mark.parametrize("simulated", ["sm_80", "sm_90a"])  # whose products of few rows differ
@pytest.mark.parametrize("name", ["rms_norm", "matmul", "attention", "losses"])
def test_gradients_have_the_types_of_what_they_are_gradients_of(name, simulated, mesh):
    """Also where types say how arrays are spread, as on a mesh that jax.make_mesh makes by itself."""
    from pyptx import kernels

    target = jnp.arange(3)
    function, *more = {
        "rms_norm": (kernels.rms_norm, values(64, seed=1)),
        "matmul": (kernels.matmul, values(64, 24, seed=1)),
        "attention": (lambda x: kernels.attention(*(x[:, None].astype("float16"),) * 3, causal=True),),
        "losses": (
            lambda x: kernels.cross_entropy(x, jnp.broadcast_to(target, x.shape[:2]), dim=-1, reduction="none"),
        ),
    }[name]

    def slopes(*arrays):
        return jax.grad(lambda *given: (function(*given).astype("float32") ** 2).sum(), tuple(range(len(arrays))))(
            *arrays
        )

    given = values(mesh.devices.size, 3, 64), *more
    spread = [NamedSharding(mesh, PartitionSpec(*["rows"][: array.ndim == 3])) for array in given]
    with kernels.simulated_target(simulated), jax.set_mesh(mesh):
        arrays = [jax.device_put(array, how) for array, how in zip(given, spread, strict=True)]
        run = jax.jit(slopes)
        found = run(*arrays)
        assert "all-gather" not in run.lower(*arrays).compile().as_text()
        assert [jax.typeof(each) for each in found] == [jax.typeof(each) for each in arrays]
    for got, wanted in zip(found, slopes(*given), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=3e-2, atol=1e-2)


def test_columns_that_are_sharded_are_gathered_first(mesh):
    x, w = values(16, 32), values(32, seed=1)
    if 32 % mesh.devices.size:
        pytest.skip("skipped: 32 columns do not divide by the devices")
    split = jax.device_put(x, NamedSharding(mesh, PartitionSpec(None, "rows")))
    whole = jax.device_put(w, NamedSharding(mesh, PartitionSpec()))
    np.testing.assert_array_equal(jax.jit(make_row_scale(batch="B"))(split, whole), x * w)


def test_calls_on_every_device(mesh):
    axpb = make_axpb()
    for device in mesh.devices.flat:
        x = jax.device_put(values(32), device)
        y = axpb(x)
        assert y.devices() == {device}
        np.testing.assert_array_equal(y, 2 * values(32) + 1)


def test_a_sharded_array_outside_of_jit(mesh):
    row_scale = make_row_scale(batch="B")
    x = jax.device_put(values(16, 32), NamedSharding(mesh, PartitionSpec("rows")))
    w = jax.device_put(values(32, seed=1), NamedSharding(mesh, PartitionSpec()))
    np.testing.assert_array_equal(row_scale(x, w), values(16, 32) * values(32, seed=1))


def test_symbolic_sizes_are_refused_by_name():
    rows = jax.export.symbolic_shape("b, 32")
    with pytest.raises(LaunchTypeError, match="row_scale: argument `X`.*known sizes"):
        jax.eval_shape(make_row_scale(), jax.ShapeDtypeStruct(rows, jnp.float32), jnp.ones(32))
