"""`kernels.attention` in PyTorch and JAX: its ops, torch.compile, torch's own words, sharding over heads and batch."""

from __future__ import annotations

import functools
import inspect
import sys

import numpy
import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from test_attention import near, reference, tensors  # noqa: E402

from pyptx import kernels  # noqa: E402
from pyptx.errors import LaunchValueError  # noqa: E402

MODULE = sys.modules["pyptx.kernels.attention"]
CHOICE = sys.modules["pyptx.kernels._attention.choice"]
FP8 = torch.float8_e4m3fn
theirs = torch.nn.functional.scaled_dot_product_attention


def plain(*given, **told):
    return kernels.attention(*given, causal=True, **told)


def sequences(*given, **told):
    begins = torch.tensor([0, 30, 80], dtype=torch.int32)
    return kernels.attention(*(each[0].transpose(0, 1) for each in given), cu_seqlens=begins, **told)


def narrow(*given, **told):
    return kernels.attention(*(each.detach().to(FP8) for each in given), **told)


def narrow_sequences(*given, **told):
    return sequences(*(each.detach().to(FP8) for each in given), **told)


def cache(*given, **told):
    counts = torch.tensor([30], dtype=torch.int32)
    return kernels.attention(given[0][:, :, :2], *(each.to(FP8) for each in given[1:]), lengths=counts, **told)


def pages(*given, **told):
    told |= {"lengths": torch.tensor([30], dtype=torch.int32), "block_table": torch.tensor([[1, 0]], dtype=torch.int32)}
    k, v = (each[0, :, :32].reshape(2, 2, 16, 64).transpose(1, 2) for each in given[1:])
    return kernels.attention(given[0][:, :, :2], k, v, **told)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("form", [plain, sequences])
def test_opcheck(form, target, monkeypatch):
    """Of the op of each version, with its gradient."""
    calls, choose = [], CHOICE.choose

    def noted(*key):
        made = choose(*key)

        def run(*given, **told):
            calls.append((made, given, told))
            return made(*given, **told)

        run.of_torch = made.of_torch
        return run

    monkeypatch.setattr(CHOICE, "choose", noted)
    given = [each.requires_grad_() for each in tensors("cpu", *[(1, 2, 80, 64)] * 3)]
    with kernels.simulated_target(target):
        form(*given)
        kernel, operands, told = calls[0]
        operands = [each.detach().requires_grad_(each.is_floating_point()) for each in operands]
        found = torch.library.opcheck(kernel.op, tuple(operands), told)
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("form", [plain, narrow, cache, pages])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_compiled_with_dynamic_shapes(form, target):
    """One graph serves all lengths after the second."""
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    with kernels.simulated_target(target):
        compiled = torch.compile(lambda *given: form(*given) * 2, fullgraph=True, dynamic=True, backend=backend)
        for length in (40, 70, 90):
            q, k, v = tensors("cpu", *[(1, 2, length, 64)] * 3, seed=length)
            torch.testing.assert_close(compiled(q, k, v), form(q, k, v) * 2)
    assert len(graphs) == 1


def test_deterministic_algorithms(monkeypatch):
    """torch's switch is that of the backward, for torch's words and for ours."""
    keys, choose = [], CHOICE.choose
    monkeypatch.setattr(CHOICE, "choose", lambda *key: keys.append(key) or choose(*key))
    given = [each.requires_grad_() for each in tensors("cpu", *[(1, 1, 8, 64)] * 3)]
    for switch in (False, True):
        torch.use_deterministic_algorithms(switch)
        try:
            kernels.scaled_dot_product_attention(*given)
            sequences(*tensors("cpu", *[(1, 2, 80, 64)] * 3), deterministic=False)
        finally:
            torch.use_deterministic_algorithms(False)
    assert [key[-3] for key in keys] == [False, False, True, True]


@pytest.mark.parametrize(("heads", "kind"), [(2, torch.bfloat16), (272, torch.float8_e4m3fn)])
def test_a_graph_of_symbols(heads, kind):
    """Also where so many heads would have their values transposed by attention itself, which numbers alone decide."""
    from torch.fx.experimental.proxy_tensor import make_fx

    given, longer = ([each.to(kind) for each in tensors("cpu", *[(1, heads, n, 64)] * 3)] for n in (8, 16))
    with torch.no_grad():
        graph = make_fx(plain, tracing_mode="symbolic")(*given)
        assert torch.equal(graph(*longer), plain(*longer))


def test_gradients_around_vmap():
    """A tensor of vmap does not say that a grad outside wants its derivative."""
    given = [torch.stack([each, 2 * each]) for each in tensors("cpu", *[(1, 2, 24, 64)] * 3)]

    def loss(call, *given):
        return (torch.vmap(call)(*given).float() ** 2).sum()

    got = torch.func.grad(loss, (1, 2, 3))(plain, *given)
    exact = functools.partial(theirs, is_causal=True)
    for one, wanted in zip(
        got, torch.func.grad(loss, (1, 2, 3))(exact, *[each.double() for each in given]), strict=True
    ):
        assert (one.double() - wanted).norm() <= 2e-2 * wanted.norm()


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("length", [40, 150])
def test_many_at_once_are_one_launch_of_each_kernel(target, length):
    """vmap makes one of the sequences of all, in torch and in JAX."""
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    numbers = tensors("cpu", (3, 1, 2, length, 64), (3, 1, 2, length, 64), (3, 1, 2, length, 64))
    arrays = [jax.numpy.asarray(each.float().numpy(), jax.numpy.bfloat16) for each in numbers]

    def loss(*given):
        return (plain(*given) ** 2).sum()

    def slopes(*given):
        return jax.grad(loss, (0, 1, 2))(*given)

    exact = [each.double().flatten(0, 1).requires_grad_() for each in numbers]
    wanted = torch.autograd.grad((reference(*exact, causal=True)[0] ** 2).sum(), exact)
    with kernels.simulated_target(target):
        one, all_ = (
            jax.jit(each).lower(*given).as_text().count("pyptx_launch")
            for each, given in ((slopes, [each[0] for each in arrays]), (jax.vmap(slopes), arrays))
        )
        assert one == all_
        for got, want in zip(jax.vmap(slopes)(*arrays), wanted, strict=True):
            near(torch.tensor(got.astype("float32").tolist()), want.unflatten(0, (3, 1)), 2e-2)
        for got, want in zip(torch.vmap(torch.func.grad(loss, (0, 1, 2)))(*numbers), wanted, strict=True):
            near(got, want.unflatten(0, (3, 1)), 2e-2)


def test_arrays_that_are_not_of_torch_on_gpus_before_hopper():
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    (q,) = tensors("cpu", (1, 2, 24, 64))
    array = jax.numpy.asarray(q.float().numpy(), jax.numpy.bfloat16)
    with kernels.simulated_target("sm_80"):
        for given in (array, numpy.asarray(array)):
            for mask in (None, numpy.ones((24, 24), bool)):
                got = kernels.attention(given, given, given, mask=mask)
                near(torch.tensor(got.astype("float32").tolist()), reference(*(q.double(),) * 3)[0])


def test_without_keys_sinks_have_a_gradient():
    (q,), sinks = tensors("cpu", (1, 2, 0, 64)), torch.zeros(2, requires_grad=True)
    o = kernels.attention(q, q, q, sinks=sinks)
    assert o.dtype == q.dtype and torch.equal(torch.autograd.grad(o.sum(), sinks)[0], torch.zeros(2))


def test_a_mask_on_another_device_is_refused():
    (q,) = tensors("cpu", (1, 2, 24, 64))
    with pytest.raises(LaunchValueError, match="attention: mask is on cpu as q is, not on meta"):
        kernels.attention(q, q, q, mask=torch.ones(24, 24, dtype=torch.bool, device="meta"))


def test_numbers_of_functionalize_are_not_read():
    (q, k), lengths = tensors("cpu", (2, 2, 1, 64), (2, 2, 40, 64)), torch.tensor([3, 30], dtype=torch.int32)

    def call(q, k, lengths):
        return kernels.attention(q, k, k, lengths=lengths)

    assert torch.equal(torch.func.functionalize(call)(q, k, lengths), call(q, k, lengths))


def test_autocast():
    """f32, which has no kernels, gets the type of autocast, also beside a mask and in a graph."""
    q, k, v = (each.float() for each in tensors("cpu", *[(1, 2, 24, 64)] * 3))
    mask = torch.randn(24, 24)
    for call in (plain, lambda *given: kernels.attention(*given, mask=mask)):
        with pytest.raises(TypeError, match="q is of float32"):
            call(q, k, v)
        with torch.autocast("cpu", torch.bfloat16):
            got, traced = call(q, k, v), torch.compile(call, fullgraph=True, backend="eager")(q, k, v)
        wanted = kernels.attention(
            q.bfloat16(),
            k.bfloat16(),
            v.bfloat16(),
            **({"causal": True} if call is plain else {"mask": mask.bfloat16()}),
        )
        assert torch.equal(got, wanted) and torch.equal(traced, wanted)


def test_the_words_are_those_of_torch():
    """Names, order and defaults of what torch takes, by its documentation."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    parameters = inspect.signature(kernels.scaled_dot_product_attention).parameters
    assert tuple(parameters) == names
    assert [parameters[name].default for name in names[3:]] == [None, 0.0, False, None, False]
    assert [name for name in names if parameters[name].kind is inspect.Parameter.KEYWORD_ONLY] == [
        "scale",
        "enable_gqa",
    ]


@pytest.mark.parametrize(
    ("shapes", "told", "by_us"),
    [
        (((2, 4, 50, 64),) * 3, {}, True),
        (((1, 4, 50, 64), *[(1, 2, 70, 64)] * 2), {"enable_gqa": True, "is_causal": True, "scale": 0.3}, True),
        (((1, 2, 70, 64), *[(1, 2, 40, 64)] * 2), {"is_causal": True}, True),
        (((1, 2, 20, 64), (1, 2, 30, 64), (1, 2, 30, 32)), {"attn_mask": None, "dropout_p": 0.0}, True),
        (((1, 2, 20, 64), *[(1, 2, 30, 64)] * 2), {"attn_mask": torch.ones(20, 30, dtype=torch.bool).tril()}, False),
        (((2, 20, 64), *[(2, 30, 64)] * 2), {}, False),
        (((1, 2, 20, 12), *[(1, 2, 30, 12)] * 2), {}, False),
        (((1, 2, 20, 64), *[(1, 2, 30, 64)] * 2), {"scale": -0.1}, False),
        (((1, 2, 20, 32), (1, 2, 30, 32), (1, 2, 30, 64)), {}, False),
    ],
)
def test_in_the_place_of_torch(shapes, told, by_us, monkeypatch):
    calls, attention = [], MODULE._attention
    monkeypatch.setattr(MODULE, "CHOICE", MODULE.Attention())  # which remembers no call
    monkeypatch.setattr(MODULE, "_attention", lambda *given: calls.append(given) or attention(*given))
    given = tensors("cpu", *shapes)
    near(kernels.scaled_dot_product_attention(*given, **told), theirs(*(each.double() for each in given), **told))
    assert bool(calls) == by_us


@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_without_gradients_few_queries_share_their_keys(dynamic):
    def compiled(gradients, needed=False):
        ops, given = [], (q.clone().requires_grad_(needed), k, k)

        def backend(graph, inputs):
            ops.extend(str(node.target) for node in graph.graph.nodes if "pyptx" in str(node.target))
            return graph.forward

        torch._dynamo.reset()
        with torch.set_grad_enabled(gradients), kernels.simulated_target("sm_90a"):
            function = torch.compile(kernels.attention, backend=backend, fullgraph=True, dynamic=dynamic)
            near(function(*given).detach(), theirs(*(each.detach().double() for each in given)))
        return ops

    q, k = tensors("cpu", (1, 2, 1, 64), (1, 2, 1024, 64))
    for of in ((False, False), (False, True), (True, False)):
        assert ["decode" in each or "combine" in each for each in compiled(*of)] == [True, True]
    assert len(compiled(True, True)) == 1


@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_masks_of_few_queries_and_caches_of_many(dynamic):
    """Sizes may be symbols, which choose kernels by comparisons alone."""
    q, k = tensors("cpu", (2, 4, 1, 64), (2, 2, 700, 64))
    mask = torch.rand(2, 1, 1, 700) > 0.3
    rows, pages = tensors("cpu", (200, 4, 64), (9, 16, 2, 64))
    table, counts, begins = (
        torch.arange(8).reshape(2, 4).int() + 1,
        torch.tensor([60, 50]).int(),
        torch.tensor([0, 90, 200]).int(),
    )
    calls = (
        (lambda q, k: kernels.attention(q, k, k, mask=mask), (q, k)),
        (lambda q, k: kernels.attention(q, k, k, cu_seqlens=begins, lengths=counts, block_table=table), (rows, pages)),
    )
    for call, given in calls:
        torch._dynamo.reset()
        with kernels.simulated_target("sm_90a"):
            near(
                torch.compile(call, backend="aot_eager", fullgraph=True, dynamic=dynamic)(*given), call(*given).double()
            )


def test_gradients_around_what_was_compiled_without_them():
    """torch.func.grad does not show in the tensors, only in its state."""
    q, k = tensors("cpu", (1, 2, 1, 64), (1, 2, 1024, 64))
    torch._dynamo.reset()
    compiled = torch.compile(lambda q: kernels.attention(q, k, k), backend="aot_eager")
    for _ in range(2):
        near(compiled(q), theirs(*(each.double() for each in (q, k, k))))
        slope, wanted = (
            torch.func.grad(lambda q, call=call: (call(q).float() ** 2).sum())(q)
            for call in (compiled, lambda q: kernels.attention(q, k, k))
        )
        near(slope, wanted)


def test_dropout_and_errors_are_those_of_torch():
    q, k, v = tensors("cpu", *[(1, 2, 20, 64)] * 3)
    torch.manual_seed(0)
    ours = kernels.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    torch.manual_seed(0)
    assert torch.equal(ours, theirs(q, k, v, dropout_p=0.5))
    with pytest.raises(RuntimeError):
        kernels.scaled_dot_product_attention(q, k[:, :1], v[:, :1, :, :32].float())
    zero = kernels.scaled_dot_product_attention(q[:, :, :0], k, v)
    assert zero.shape == (1, 2, 0, 64)


def test_inside_a_module_that_calls_torch(monkeypatch):
    """A layer of torch that is given our function for its own, with gradients."""
    layer = torch.nn.TransformerEncoderLayer(64, 2, 64, dropout=0.0, batch_first=True, dtype=torch.bfloat16)
    x = torch.randn(1, 33, 64, dtype=torch.bfloat16)
    want = layer(x)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", kernels.scaled_dot_product_attention)
    near(layer(x), want, 2e-2)


@pytest.mark.parametrize("axis", ["batch", "heads"])
def test_shard_map(axis):
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    import jax_kernels  # noqa: F401  two devices of the CPU

    devices = jax.devices("cpu")
    if len(devices) < 2:
        pytest.skip("skipped: one device")
    numpy, spec = jax.numpy, jax.sharding.PartitionSpec
    mesh = jax.make_mesh((2,), (axis,), axis_types=(jax.sharding.AxisType.Auto,), devices=devices[:2])
    spread = spec(*[axis if name == axis else None for name in ("batch", "heads", "length", "D")])
    numbers = tensors("cpu", (2, 4, 40, 64), (2, 2, 40, 64), (2, 2, 40, 64))
    q, k, v = (numpy.asarray(each.float().numpy(), numpy.bfloat16) for each in numbers)

    def loss(q, k, v):
        return (kernels.attention(q, k, v, causal=True).astype(numpy.float32) ** 2).sum()

    run = jax.jit(
        jax.shard_map(
            lambda *given: (kernels.attention(*given, causal=True), *jax.grad(loss, argnums=(0, 1, 2))(*given)),
            mesh=mesh, in_specs=(spread,) * 3, out_specs=(spread,) * 4,
        )
    )  # fmt: skip
    text = run.lower(q, k, v).compile().as_text()
    assert "all-gather" not in text and "all-reduce" not in text
    got = [torch.tensor(each.astype(numpy.float32).tolist()) for each in run(q, k, v)]
    exact = [each.double().requires_grad_() for each in numbers]
    o = reference(*exact, causal=True)[0]
    for one, other in zip(got, (o, *torch.autograd.grad((o**2).sum(), exact)), strict=True):
        near(one, other.detach(), 2e-2)


@pytest.mark.parametrize(
    ("shapes", "told", "by_us"),
    [
        (((2, 50, 4, 64), (2, 70, 2, 64)), {}, True),
        (((2, 50, 4, 64), (2, 70, 2, 64)), {"is_causal": True, "scale": 0.3}, True),
        (((90, 2, 64),) * 2, {"is_causal": True, "local_window_size": 20}, True),
        (((1, 90, 2, 64),) * 2, {"local_window_size": (20, 20)}, True),
        (((1, 90, 2, 64),) * 2, {"is_causal": True, "local_window_size": (20, 0)}, True),
        (((1, 90, 2, 64),) * 2, {"local_window_size": (20, 3)}, True),
        (((1, 90, 2, 64),) * 2, {"local_window_size": (20, -1)}, False),
        (((1, 90, 2, 64),) * 2, {"mask": (1, 1, 90, 90)}, False),
        (((1, 20, 2, 12),) * 2, {}, False),
    ],
)
def test_in_the_place_of_jax(shapes, told, by_us, monkeypatch):
    """Forward, residual and gradient of (B, T, N, H), beside JAX's own in f32."""
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    module = sys.modules["pyptx.kernels.dot_product_attention"]
    calls, ours = [], module.of_plain
    monkeypatch.setattr(module, "of_plain", lambda *given, **more: calls.append(given) or ours(*given, **more))
    if "mask" in told:
        told = {"mask": jax.numpy.tril(jax.numpy.ones(told["mask"], bool))}
    q, k, v = (
        jax.numpy.asarray(each.float().numpy(), "bfloat16") for each in tensors("cpu", shapes[0], *shapes[1:] * 2)
    )
    wide = [each.astype("float32") for each in (q, k, v)]
    form = functools.partial(kernels.dot_product_attention, **told)
    compiled = (lambda given: given) if by_us else jax.jit  # JAX's own takes longer operation by operation
    o, residual = compiled(functools.partial(form, return_residual=True))(q, k, v)
    theirs = functools.partial(jax.nn.dot_product_attention, **told)
    want, logs = jax.jit(functools.partial(theirs, return_residual=True))(*wide)
    for got, wanted in ((o, want), (residual, logs)):
        near(torch.tensor(got.astype("float32").tolist()), torch.tensor(wanted.tolist()))
    assert bool(calls) == by_us

    def loss(attention):
        return lambda *given: (attention(*given).astype("float32") ** 2).sum()

    gradients = compiled(jax.grad(loss(form), (0, 1, 2)))(q, k, v)
    wanted = jax.jit(jax.grad(loss(theirs), (0, 1, 2)))(*wide)
    for got, wanted_ in zip(gradients, wanted, strict=True):
        near(torch.tensor(got.astype("float32").tolist()), torch.tensor(wanted_.tolist()), 2e-2)


def test_what_is_no_array_is_for_jax():
    pytest.importorskip("jax", reason="skipped: no jax")
    x = [[[1.0] * 8], [[2.0] * 8]]  # (T, N, H)
    assert kernels.dot_product_attention(x, x, x, is_causal=True)[0].tolist() == x[0]


def test_the_words_are_those_of_jax():
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    ours, others = (
        inspect.signature(each).parameters for each in (kernels.dot_product_attention, jax.nn.dot_product_attention)
    )
    assert [(name, each.kind, each.default) for name, each in ours.items()] == [
        (name, each.kind, each.default) for name, each in others.items()
    ]


def test_in_the_place_of_jax_own(monkeypatch):
    """What goes to JAX's own does not come back."""
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    x = jax.numpy.linspace(-1, 1, 5 * 2 * 8).reshape(1, 5, 2, 8)
    wanted = jax.nn.dot_product_attention(x, x, x)
    monkeypatch.setattr(jax.nn, "dot_product_attention", kernels.dot_product_attention)
    assert (jax.nn.dot_product_attention(x, x, x) == wanted).all()
