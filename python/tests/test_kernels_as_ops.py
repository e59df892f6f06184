"""Each function of the library as an operation of PyTorch and of JAX: compiled, batched, differentiated, checked, spread over devices."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from pyptx import kernels  # noqa: E402

ANGLES = np.linspace(0, 3, 16) * np.arange(1, 7)[:, None]
SCALE, SHIFT = np.linspace(0.5, 1, 32), np.linspace(-1, 1, 32)


def half(x):
    return x.half() if hasattr(x, "half") else x.astype("float16")


# name: a function of x (any, 6, 32), whose rows are the first dimensions, and the constants that it takes besides
FUNCTIONS = {
    "rms_norm": (lambda x, w: kernels.rms_norm(x, (32,), w), SCALE),
    "layer_norm": (lambda x, w, b: kernels.layer_norm(x, (32,), w, b), SCALE, SHIFT),
    "add_rms_norm": (lambda x, w: kernels.add_rms_norm(x, x, w)[0], SCALE),
    "softmax": (kernels.softmax,),
    "log_softmax": (kernels.log_softmax,),
    "softmax of columns": (lambda x: kernels.softmax(x, -2),),
    "swiglu": (lambda x: kernels.swiglu(x, x + x),),
    "geglu": (lambda x: kernels.geglu(x, x + x),),
    "rope": (kernels.rope, np.cos(ANGLES), np.sin(ANGLES)),
    "cross_entropy": (lambda x: kernels.cross_entropy(x, x.argmax(-1), dim=-1, reduction="none"),),
    "quantize_fp8": (lambda x: kernels.quantize_fp8(x)[1],),
    "matmul": (lambda x, w, b: kernels.matmul(x, w, bias=b, activation="silu"), np.eye(32, 24) + 0.5, np.ones(24)),
    "matmul, swiglu": (lambda x, w: kernels.matmul(x, w, activation="swiglu"), np.eye(32, 48) + 0.5),
    "attention": (lambda x: kernels.attention(*(half(x)[:, None],) * 3, causal=True),),
}  # fmt: skip
functions = pytest.mark.parametrize("name", list(FUNCTIONS))
differentiable = pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "quantize_fp8"])


def given(name: str, make) -> tuple:
    """The function, and its constants."""
    function, *constants = FUNCTIONS[name]
    return function, [make(each.astype(np.float32)) for each in constants]


def of_torch(name: str):
    """The function of x alone."""
    function, constants = given(name, torch.from_numpy)
    return lambda x: function(x, *constants)


class Recorded(TorchDispatchMode):
    """Calls of the library's ops."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        if op.namespace.startswith("pyptx"):
            self.calls.append((op, args, kwargs or {}))
        return op(*args, **(kwargs or {}))


def recorded(function, *given) -> list:
    with Recorded() as mode:
        function(*given)
    return mode.calls


@functions
def test_opcheck(name):
    calls = recorded(of_torch(name), torch.randn(4, 6, 32))
    assert calls
    for op, args, kwargs in calls:
        found = torch.library.opcheck(op, args, kwargs)
        assert set(found.values()) == {"SUCCESS"}


@functions
def test_compiled_with_sizes_that_change(name):
    torch.compiler.reset()
    compiled = torch.compile(of_torch(name), fullgraph=True, dynamic=True, backend="aot_eager")
    for count in (4, 3, 5):
        x = torch.randn(count, 6, 32)
        torch.testing.assert_close(compiled(x), of_torch(name)(x))
        if name != "quantize_fp8":
            x.requires_grad_()
            ours, theirs = (torch.autograd.grad(f(x).square().sum(), x)[0] for f in (compiled, of_torch(name)))
            torch.testing.assert_close(ours, theirs)


@functions
def test_vmap(name):
    function, x = of_torch(name), torch.randn(4, 6, 32)
    torch.testing.assert_close(torch.vmap(function)(x[:, None])[:, 0], function(x))
    torch.testing.assert_close(torch.vmap(function, 1, 1)(x[None])[0], function(x))


@differentiable
def test_gradients_of_torch_func(name):
    function, x = of_torch(name), torch.randn(4, 6, 32)
    each = torch.vmap(torch.func.grad(lambda x: function(x[None]).square().sum()))(x)
    torch.testing.assert_close(each, torch.func.grad(lambda x: function(x).square().sum())(x))


# JAX


@pytest.fixture(scope="module")
def jax():
    found = pytest.importorskip("jax", reason="skipped: no jax")
    import jax_kernels  # noqa: F401  eight devices of the CPU

    return found


def numbers() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((4, 6, 32), dtype=np.float32)


def near(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=2e-3)


@functions
def test_jit_and_vmap_of_jax(name, jax):
    function, constants = given(name, jax.numpy.asarray)
    x, wanted = numbers(), of_torch(name)(torch.from_numpy(numbers()))
    near(jax.jit(function)(x, *constants), wanted)
    near(jax.jit(jax.vmap(lambda x: function(x, *constants)))(x[:, None])[:, 0], wanted)


@differentiable
@pytest.mark.filterwarnings("ignore:vmap of the kernel")
def test_gradients_of_jax(name, jax):
    function, constants = given(name, jax.numpy.asarray)
    x, slope = numbers(), jax.grad(lambda x: (function(x, *constants) ** 2).sum())
    wanted = torch.func.grad(lambda x: of_torch(name)(x).square().sum())(torch.from_numpy(x))
    near(jax.jit(slope)(x), wanted)
    near(jax.jit(jax.vmap(slope))(x[:, None])[:, 0], wanted)


def mesh_of(jax, *axes: str):
    """Two devices along each axis."""
    devices, count = jax.devices("cpu"), 2 ** len(axes)
    if len(devices) < count:
        pytest.skip("skipped: too few devices")
    types = (jax.sharding.AxisType.Auto,) * len(axes)
    return jax.make_mesh((2,) * len(axes), axes, axis_types=types, devices=devices[:count])


def with_gradients(name: str, jax):
    """The result, and the gradients of x and the constants that have some."""
    function, constants = given(name, jax.numpy.asarray)
    of = tuple(range(1 + len(constants))) if name in SHARED else (0,)

    def both(x, *constants):
        slopes = jax.grad(lambda *arrays: (function(*arrays) ** 2).sum(), of)(x, *constants)
        return function(x, *constants), slopes[0], list(slopes[1:])

    return both, constants


SHARED = ("rms_norm", "layer_norm", "add_rms_norm", "matmul", "matmul, swiglu")  # whose constants have gradients


spread = pytest.mark.parametrize(
    ("name", "axes"),
    [
        *((name, ["rows"]) for name in FUNCTIONS if name != "quantize_fp8"),
        *((name, ["rows", "others"]) for name in ("rms_norm", "cross_entropy", "attention")),
    ],
)


@spread
def test_shard_map(name, axes, jax):
    """Rows, and their gradients, stay where they are; also outside of jit, and where shard_map has some axes of the mesh."""
    mesh, spec = mesh_of(jax, *axes), jax.sharding.PartitionSpec
    both, constants = with_gradients(name, jax)
    specs = spec("rows"), *(spec() for _ in constants)
    run = jax.shard_map(
        lambda *arrays: both(*arrays)[:2], mesh=mesh, in_specs=specs, out_specs=spec("rows"), axis_names={"rows"}
    )
    wanted = both(numbers(), *constants)[:2]
    if len(axes) == 1:
        text = jax.jit(run).lower(numbers(), *constants).compile().as_text()
        assert "all-gather" not in text and "all-reduce" not in text
        for got, want in zip(run(numbers(), *constants), wanted, strict=True):
            near(got, want)
    for got, want in zip(jax.jit(run)(numbers(), *constants), wanted, strict=True):
        near(got, want)


@spread
def test_rows_of_a_mesh_under_jit(name, axes, jax):
    """Each device makes the results and the gradients of its rows; gradients of what all have are added up, and nothing is gathered."""
    mesh = mesh_of(jax, *axes)
    sharding, spec = jax.sharding.NamedSharding, jax.sharding.PartitionSpec
    both, constants = with_gradients(name, jax)
    x = jax.device_put(numbers(), sharding(mesh, spec("rows")))
    shared = [jax.device_put(each, sharding(mesh, spec())) for each in constants]
    run = jax.jit(both)
    text = run.lower(x, *shared).compile().as_text()
    assert "all-gather" not in text and ("all-reduce" in text) == (name in SHARED)
    for got, want in zip(jax.tree.leaves(run(x, *shared)), jax.tree.leaves(both(numbers(), *constants)), strict=True):
        near(got, want)


@differentiable
def test_checkpoint_and_scan_and_export(name, jax):
    from pyptx.jax_support import EXPORT_CHECKS

    both, constants = with_gradients(name, jax)
    x = numbers()
    _, wanted, _ = both(x, *constants)
    function, _ = given(name, jax.numpy.asarray)

    def twice(x):
        again = jax.checkpoint(lambda x: (function(x, *constants) ** 2).sum(), prevent_cse=False)
        return jax.lax.scan(lambda total, _: (total + again(x), None), 0.0, None, length=2)[0]

    slope = jax.jit(jax.grad(twice))
    near(slope(x), 2 * wanted)
    exported = jax.export.deserialize(jax.export.export(slope, disabled_checks=EXPORT_CHECKS)(x).serialize())
    near(exported.call(x), 2 * wanted)


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "matmul", "matmul, swiglu"])
def test_gradients_of_what_all_devices_have_are_added_up(name, jax):
    mesh, spec = mesh_of(jax, "rows"), jax.sharding.PartitionSpec
    function, constants = given(name, jax.numpy.asarray)
    slope = jax.grad(lambda constants, x: (function(x, *constants) ** 2).sum())
    spread = jax.jit(jax.shard_map(slope, mesh=mesh, in_specs=(spec(), spec("rows")), out_specs=spec()))
    for got, wanted in zip(spread(constants, numbers()), slope(constants, numbers()), strict=True):
        near(got, wanted)


def test_a_compiled_call_compares_no_names():
    """Which only messages name: each would be a guard, which every call of the compiled function checks."""
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    def function(x, w):
        return kernels.rms_norm(kernels.swiglu(x, x), w)

    x, w = torch.randn(3, 64), torch.randn(64)
    torch.compile(function, backend="eager", fullgraph=True)(x, w)
    (entry,) = _debug_get_cache_entry_list(function.__code__)
    guards = [line.partition("#")[0] for line in str(entry.guard_manager).splitlines() if "_MATCH" in line]
    assert guards and not any(".names" in line or "input_names" in line for line in guards)


def test_calls_without_gradients_make_no_op(monkeypatch):
    """Which takes longer than the rest of a first call."""
    from pyptx.frameworks.differentiable import DifferentiableKernel
    from pyptx.kernels.softmax import SOFTMAX

    made, make = [], DifferentiableKernel._make_torch
    monkeypatch.setattr(DifferentiableKernel, "_make_torch", lambda self: made.append(self) or make(self))
    SOFTMAX[0].run_for.cache_clear()
    x = torch.randn(3, 70)
    for given in (x, x.view(1, 3, 70), x.T, torch.randn(2, 70, 3).mT):  # packed, in rows, apart
        kernels.softmax(given)
    with torch.no_grad():
        kernels.softmax(x.clone().requires_grad_())
    assert not made
    torch.autograd.grad(kernels.softmax(x.requires_grad_()).sum(), x)
    assert made
