"""`matmul` of JAX under vmap: one product of more rows, or of a batch, whose kernels are chosen for its size."""

import warnings

import numpy as np
import pytest

from pyptx import kernels

jax = pytest.importorskip("jax", reason="skipped: no JAX")
jnp = jax.numpy
matmul = kernels.matmul


def values(*shape: int, dtype="bfloat16"):
    return jnp.asarray(np.random.default_rng(sum(shape)).standard_normal(shape, "float32") / 2, dtype)


def exact(x, w, bias=None, residual=None, activation=None):
    z = x.astype("float32") @ w.astype("float32")
    z = z if bias is None else z + bias.astype("float32")
    if activation == "swiglu":
        gates, ups = jnp.split(z, 2, -1)
        z = jax.nn.silu(gates) * ups
    return z if residual is None else z + residual.astype("float32")


def close(got, wanted):
    got, wanted = np.asarray(got, "float64"), np.asarray(wanted, "float64")
    assert got.shape == wanted.shape
    return np.linalg.norm(got - wanted) < 2e-2 * np.linalg.norm(wanted)


@pytest.fixture(params=["sm_80", "sm_90a"], autouse=True)
def _target(request):
    with kernels.simulated_target(request.param), warnings.catch_warnings():
        warnings.simplefilter("error")  # as of launches one after the other
        yield


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_rows_are_joined_and_weights_make_a_batch(dtype):
    x, w, ws = (values(*shape, dtype=dtype) for shape in ((5, 3, 64), (64, 48), (5, 64, 48)))
    bias, residual = values(48, dtype=dtype), values(5, 3, 24, dtype=dtype)
    assert close(jax.vmap(matmul, (0, None))(x, w), exact(x, w))
    assert close(jax.vmap(matmul)(x, ws), exact(x, ws))
    assert close(jax.vmap(matmul, (None, 0))(x[0], ws), exact(x[0], ws))
    assert close(jax.vmap(jax.vmap(matmul, (0, None)), (None, 0))(x, ws), exact(x[None], ws[:, None]))

    def gated(function):
        return lambda x, w, residual: function(x, w, bias=bias, residual=residual, activation="swiglu")

    def slopes(function):
        return jax.grad(lambda *given: gated(function)(*given).astype("float32").sum(), (0, 1))

    for axes, given in (
        ((0, None, 0), (x, w, residual)),
        ((None, 0, None), (x[0], ws, residual[0])),
        (0, (x, ws, residual)),
    ):
        assert close(jax.vmap(gated(matmul), axes)(*given), jax.vmap(gated(exact), axes)(*given))
        assert all(map(close, jax.vmap(slopes(matmul), axes)(*given), jax.vmap(slopes(exact), axes)(*given)))


def test_scales_of_rows_are_joined():
    x, w = values(5, 3, 64).astype("float8_e4m3fn"), values(64, 48).astype("float8_e4m3fn")
    scales, of_columns = abs(values(5, 3, dtype="float32")), abs(values(48, dtype="float32"))

    def product(x, scales):
        return matmul(x, w, scale_a=scales, scale_b=of_columns)

    assert close(jax.vmap(product)(x, scales), exact(x, w) * scales[..., None] * of_columns)
    with pytest.raises(NotImplementedError, match="matmul: a kernel has no derivative"):
        jax.grad(lambda x: product(x, scales[0]).astype("float32").sum())(x[0])


def test_a_bias_for_each_goes_one_by_one_and_says_so():
    x, w, biases = values(5, 3, 64), values(64, 48), values(5, 48)
    with pytest.warns(UserWarning, match="vmap of the kernel matmul runs 5 launches one after the other"):
        got = jax.vmap(lambda x, bias: matmul(x, w, bias=bias))(x, biases)
    assert close(got, exact(x, w) + biases.astype("float32")[:, None])
