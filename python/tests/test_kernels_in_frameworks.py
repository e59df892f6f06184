"""Ready-made kernels where frameworks hold their tensors in ways of their own."""

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import kernels  # noqa: E402
from pyptx.errors import LaunchTypeError  # noqa: E402

F = torch.nn.functional


@pytest.mark.parametrize(
    ("ours", "theirs", "vectors"),
    [
        (kernels.rms_norm, lambda x, w: F.rms_norm(x, w.shape, w, 1e-6), 1),
        (kernels.layer_norm, lambda x, w, b: F.layer_norm(x, w.shape, w, b), 2),
        (kernels.softmax, lambda x: x.softmax(-1), 0),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_batches_of_gradients(ours, theirs, vectors):
    """The older vmap of torch: kernels that a backward in Python calls, and that an op calls."""
    given = [torch.randn(4, 16, requires_grad=True), *(torch.randn(16, requires_grad=True) for _ in range(vectors))]
    exact = [each.detach().double().requires_grad_() for each in given]
    pulls = torch.randn(3, 4, 16)
    got = torch.autograd.grad(ours(*given), given, pulls, is_grads_batched=True)
    wanted = torch.autograd.grad(theirs(*exact), exact, pulls.double(), is_grads_batched=True)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5)
    rows = torch.autograd.functional.jacobian(ours, tuple(each.detach() for each in given), vectorize=True)
    assert rows[0].shape == (4, 16, 4, 16)


def test_arrays_of_two_frameworks():
    """By name, and without their values."""
    jnp = pytest.importorskip("jax", reason="skipped: no jax").numpy
    for x, w, which in ((torch.ones(2, 8), jnp.ones(8), "X"), (jnp.ones((2, 8)), torch.ones(8), "W")):
        with pytest.raises(
            LaunchTypeError, match=f"rms_norm: argument `{which}`: in a call with JAX arrays every argument is one"
        ):
            kernels.rms_norm(x, w)


def test_products_on_the_meta_device():
    """Where torch knows of no autocast."""
    a, b = (torch.empty(shape, device="meta", dtype=torch.bfloat16) for shape in ((12, 64), (4, 64, 16)))
    ends = torch.empty(4, device="meta", dtype=torch.int32)
    assert kernels.grouped_matmul(a, b, ends).shape == (12, 16)
    assert kernels.matmul(a, b[0]).shape == (12, 16)
    with torch.autocast("cpu", torch.bfloat16):
        assert kernels.matmul(a, b[0]).shape == (12, 16)


@pytest.mark.parametrize(
    ("name", "values"), [("window", (1, 2, 3, None)), ("softcap", (1.0, 2.0, 3.5)), ("scale", (1.0, 2.0, 3.5, None))]
)
def test_compiled_with_options_of_attention_that_change(name, values):
    """Numbers become symbols, of which Dynamo knows the class and no attribute."""
    torch.compiler.reset()
    q = torch.randn(1, 2, 6, 64).bfloat16()
    compiled = torch.compile(
        lambda q, n: kernels.attention(q, q, q, **{name: n}), backend="eager", fullgraph=True, dynamic=True
    )
    for value in values:
        assert torch.equal(compiled(q, value), kernels.attention(q, q, q, **{name: value}))


def test_compiled_with_a_normalized_shape_that_changes():
    torch.compiler.reset()
    compiled = torch.compile(lambda x, n: kernels.layer_norm(x, n), backend="eager", fullgraph=True, dynamic=True)
    for n in (8, 12, 20):
        x = torch.randn(3, n)
        assert torch.equal(compiled(x, n), kernels.layer_norm(x))
