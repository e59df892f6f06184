"""Ready-made kernels where frameworks hold their tensors in ways of their own."""

import sys

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")
from functorch.compile import make_boxed_func  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from pyptx import kernels  # noqa: E402
from pyptx.errors import AuthoringValueError, LaunchTypeError, LaunchValueError  # noqa: E402

F = torch.nn.functional
GPU = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no CUDA device")])  # fmt: skip


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


def half(*shape):
    return torch.randn(shape).bfloat16()


def numbers(*values):
    return torch.tensor(values, dtype=torch.int32)


PACKED = [half(19, 2, 64) for _ in range(3)]
HEADS = [half(1, 2, 9, 64) for _ in range(3)]
CALLS = {
    "matmul": (kernels.matmul, half(4, 6, 64), half(64, 32)),
    "matmul of fp8": (lambda a, b, s: kernels.matmul(a, b, scale_a=s, scale_b=s), half(6, 64).to(torch.float8_e4m3fn), half(64, 32).to(torch.float8_e4m3fn), torch.ones(1)),
    "grouped_matmul": (kernels.grouped_matmul, half(24, 64), half(4, 64, 32), numbers(3, 3, 10, 24)),
    "grouped_matmul of fp8": (
        lambda a, b, ends, s, t: kernels.grouped_matmul(a, b, ends, scale_a=s, scale_b=t), half(24, 128).to(torch.float8_e4m3fn),
        half(2, 128, 128).to(torch.float8_e4m3fn), numbers(10, 24), torch.rand(24, 1), torch.rand(2, 1, 1),
    ),
    "attention of sequences": (lambda q, k, v, begins: kernels.attention(q, k, v, cu_seqlens=begins), *PACKED, numbers(0, 5, 19)),
    "attention under a mask": (lambda q, k, v, mask: kernels.attention(q, k, v, mask=mask), *HEADS, torch.rand(9, 9) > 0.3),
    "attention from pages": (
        lambda q, k, v, lengths, table: kernels.attention(q, k, v, lengths=lengths, block_table=table), half(1, 2, 1, 64), half(3, 16, 2, 64),
        half(3, 16, 2, 64), numbers(40), numbers(1, 0, 2)[None],
    ),
    "rope": (kernels.rope, half(2, 6, 64), torch.rand(6, 32), torch.rand(6, 32)),
    "rope at positions": (lambda x, cos, sin, at: kernels.rope(x, cos, sin, positions=at), half(2, 6, 64), torch.rand(6, 32), torch.rand(6, 32), torch.arange(6)),
    "quantize_fp8": (lambda x: kernels.quantize_fp8(x, block=128)[1], half(4, 6, 300)),
    "quantize_fp8 of squares": (lambda x: kernels.quantize_fp8(x, block=(128, 128))[1], half(140, 300)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", ["torch.jit.trace", "make_fx", "vmap"])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_calls_that_are_traced(name, way, target):
    """Sizes are tensors, or symbols; tensors have no address."""
    call, *given = CALLS[name]
    with kernels.simulated_target(target):
        wanted = call(*given)
        if way == "vmap":
            got = torch.vmap(call)(*(each[None] for each in given))[0]
        elif way == "make_fx":
            got = make_fx(lambda *given: call(*given), tracing_mode="symbolic")(*given)(*given)
        else:
            got = torch.jit.trace(call, tuple(given), check_trace=False)(*given)
    assert torch.equal(got.float(), wanted.float())


@pytest.mark.filterwarnings("ignore")
def test_a_traced_product_takes_other_sizes():
    with kernels.simulated_target("sm_90a"):
        traced = torch.jit.trace(kernels.matmul, (half(8, 64), half(64, 32)), check_trace=False)
        x, w = half(200, 32), half(24, 32).mT
        assert torch.equal(traced(x, w), kernels.matmul(x, w))


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("name", ["matmul", "grouped_matmul", "softmax", "add_rms_norm"])
def test_results_that_are_changed_in_place(name, device):
    """As those of torch's operators, which are no views."""
    x = torch.randn(3, 5, 16).bfloat16().to(device).requires_grad_()
    w = torch.randn(3, 16, 16).bfloat16().to(device)
    y = {
        "matmul": lambda: kernels.matmul(x, w[0]),
        "grouped_matmul": lambda: kernels.grouped_matmul(x, w, counts=numbers(5, 5, 5).to(device)),
        "softmax": lambda: kernels.softmax(x, 1),
        "add_rms_norm": lambda: kernels.add_rms_norm(x, x, w[0, 0])[0],
    }[name]()
    before = torch.autograd.grad(y.float().sum(), x, retain_graph=True)[0]
    y += 1
    y.mul_(2)
    assert torch.equal(torch.autograd.grad(y.float().sum(), x)[0], 2 * before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (kernels.softmax, "the directives of kernel softmax depend on N, which is not known: give N="),
        (lambda x: kernels.quantize_fp8(x, block=(128, 128)), "quantize_fp8_squares: dimension [PB] of the result is left open"),
    ],
    ids=["columns", "blocks"],
)  # fmt: skip
def test_sizes_that_an_exported_program_cannot_leave_open(call, message):
    class Model(torch.nn.Module):
        def forward(self, x):
            return call(x)

    shapes = ({0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO},)
    with pytest.raises((AuthoringValueError, LaunchValueError), match=message):
        torch.export.export(Model(), (torch.randn(6, 256),), dynamic_shapes=shapes)


@pytest.mark.parametrize("tokens", [9, 40])
def test_an_exported_program_of_any_batch_and_length(tokens):
    """Nothing that chooses a kernel guards either size."""

    class Model(torch.nn.Module):
        def forward(self, x, w):
            q = kernels.rms_norm(x, w)
            return kernels.attention(q, q, x, causal=True)

    shapes = ({0: torch.export.Dim("batch", max=100), 2: torch.export.Dim("tokens", max=4096)}, None)
    model, w = Model(), torch.rand(64).bfloat16()
    program = torch.export.export(model, (half(2, 3, tokens, 64), w), dynamic_shapes=shapes).module()
    for x in (half(1, 3, 1, 64), half(2, 3, 33, 64)):
        assert torch.equal(program(x, w), model(x, w))


ATTENDED = [half(1, 2, 9, 64).requires_grad_() for _ in range(3)]
ROW, WEIGHT = torch.randn(4, 8, requires_grad=True), torch.randn(8, requires_grad=True)


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (kernels.rms_norm, (ROW, WEIGHT)),
        (kernels.layer_norm, (ROW, WEIGHT)),
        (kernels.add_rms_norm, (ROW, ROW, WEIGHT)),
        (kernels.softmax, (ROW,)),
        (kernels.swiglu, (ROW,)),
        (lambda x: kernels.rope(x, torch.ones(4, 4), torch.ones(4, 4)), (ROW,)),
        (kernels.attention, ATTENDED),
    ],
    ids=["rms_norm", "layer_norm", "add_rms_norm", "softmax", "swiglu", "rope", "attention"],
)
def test_second_derivatives_are_refused_when_they_are_asked_for(call, given):
    """Not before: torch makes first ones with create_graph=True, too."""
    leaves = list(dict.fromkeys(given))
    y = call(*given)
    y = y[0] if isinstance(y, tuple) else y
    first = torch.autograd.grad(y.square().sum(), leaves, retain_graph=True)
    graph = torch.autograd.grad(y.square().sum(), leaves, create_graph=True)
    assert all(torch.equal(*pair) for pair in zip(first, graph, strict=True))
    with pytest.raises(LaunchValueError, match="no second derivative|_backward: this kernel has no backward"):
        torch.autograd.grad(sum(each.float().sum() for each in graph), leaves)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, w: kernels.rms_norm(x, w, eps=1e-5),
        lambda x, w: kernels.layer_norm(x, w, w),
        lambda x, w: kernels.add_rms_norm(x, x, w)[0],
        lambda x, _: kernels.softmax(x),
        lambda x, _: kernels.swiglu(x),
        lambda x, _: kernels.matmul(x, x.mT),
        lambda x, _: kernels.rope(x, torch.ones(len(x), 4), torch.ones(len(x), 4)),
        lambda x, _: kernels.cross_entropy(x, torch.arange(len(x))),
        lambda x, _: kernels.attention(*[x.bfloat16().expand(1, 1, *x.shape)] * 3),
    ],
    ids=["rms_norm", "layer_norm", "add_rms_norm", "softmax", "swiglu", "matmul", "rope", "cross_entropy", "attention"],
)
def test_compiled_autograd(call, dynamic):
    """The forward is eager, the compiler gets the graph of the backward."""
    torch.compiler.reset()
    compiler = torch.compile(backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for rows in (4, 5):
        given = [torch.randn(rows, 8, requires_grad=True), torch.randn(8, requires_grad=True)]
        loss = call(*given).float().square().sum()
        wanted = torch.autograd.grad(loss, given, retain_graph=True, materialize_grads=True)
        with torch._dynamo.compiled_autograd._enable(compiler):
            got = torch.autograd.grad(loss, given, materialize_grads=True)
        torch.testing.assert_close(got, wanted)


EXPERTS = half(1, 8, 8)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "call",
    [
        kernels.softmax,
        lambda x: kernels.matmul(x, x.mT),
        lambda x: kernels.grouped_matmul(x.bfloat16(), EXPERTS, numbers(4)),
    ],
    ids=["softmax", "matmul", "grouped_matmul"],
)
def test_derivatives_that_torch_does_not_compile(call):
    """torch.func.grad of an op within what is compiled, of which torch says nothing that helps, even where it need not compile all."""
    torch.compiler.reset()
    x = torch.randn(4, 8)

    def derived(f):
        return torch.func.grad(lambda x: f(x).float().sin().sum())

    wanted = derived(call)(x)
    torch.testing.assert_close(torch.compile(derived(call), backend="aot_eager")(x), wanted)
    torch.testing.assert_close(derived(torch.compile(call, backend="aot_eager"))(x), wanted)
    torch.compiler.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"torch\.func\.grad\(torch\.compile\(f\)\)"):
        torch.compile(derived(call), backend="aot_eager", fullgraph=True)(x)


def of_length(n: int, width: int = 64):
    return [half(1, 2, n, width).requires_grad_() for _ in range(3)]


@pytest.mark.parametrize(
    ("call", "made"),
    [
        (lambda *qkv: kernels.attention(*qkv, causal=True), of_length),
        (kernels.attention, lambda n: of_length(n, 192)),
        (
            lambda q, k, v, begins: kernels.attention(q, k, v, cu_seqlens=begins),
            lambda n: [*(half(n, 2, 64).requires_grad_() for _ in range(3)), numbers(0, 3, n)],
        ),
        (kernels.matmul, lambda n: [half(n, 64).requires_grad_(), half(64, 32).requires_grad_()]),
        (kernels.layer_norm, lambda n: [half(n, 64).requires_grad_(), half(64).requires_grad_()]),
    ],
    ids=["attention", "wide attention", "attention of sequences", "matmul", "layer_norm"],
)
def test_one_compilation_for_all_lengths(call, made, monkeypatch):
    """Also of the backward, and of the first product of a process."""
    monkeypatch.setattr(sys.modules["pyptx.kernels.matmul"], "FACES", {})
    torch.compiler.reset()
    graphs = []

    def count(graph, _):
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    compiler = aot_autograd(fw_compiler=count, bw_compiler=count)
    compiled = torch.compile(call, backend=compiler, fullgraph=True, dynamic=True)
    for n in (9, 20, 150):
        given = made(n)
        leaves = [each for each in given if each.requires_grad]
        got, wanted = (torch.autograd.grad(f(*given).float().square().sum(), leaves) for f in (compiled, call))
        torch.testing.assert_close(got, wanted)
    assert len(graphs) == 2


def test_sizes_that_only_the_data_gives():
    torch.compiler.reset()
    x, w = torch.randn(10, 64), torch.rand(64)

    def call(x, chosen):
        some = kernels.rms_norm(x[chosen], w).bfloat16()[None, None]
        return kernels.attention(some, some, some, causal=True)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
        for chosen in (x[:, 0] > 0, x[:, 0] > 9):
            assert torch.equal(compiled(x, chosen), call(x, chosen))


NAMES = ("rms_norm", "layer_norm", "softmax", "log_softmax", "cross_entropy", "scaled_dot_product_attention")


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (lambda: torch.nn.RMSNorm(8), (torch.randn(3, 8),)),
        (lambda: torch.nn.LayerNorm((3, 8)), (torch.randn(2, 3, 8),)),
        (lambda: torch.nn.Softmax(1), (torch.randn(3, 8),)),
        (lambda: torch.nn.LogSoftmax(0), (torch.randn(3, 8),)),
        (lambda: torch.nn.CrossEntropyLoss(label_smoothing=0.1), (torch.randn(3, 8), torch.tensor([1, 7, -100]))),
        (lambda: torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), (torch.randn(2, 5, 32),)),
    ],
    ids=["RMSNorm", "LayerNorm", "Softmax", "LogSoftmax", "CrossEntropyLoss", "TransformerEncoderLayer"],
)
def test_modules_of_torch_that_call_ours(make, given, monkeypatch):
    """torch.nn.functional has ours in the place of its own, to which attention of f32 and with dropout goes."""
    module = make()
    for training in (False, True):
        module.train(training)
        results = []
        for ours in (False, True):
            with monkeypatch.context() as patched:
                for name in NAMES if ours else ():
                    patched.setattr(F, name, getattr(kernels, name))
                torch.manual_seed(0)
                results.append(module(*given))
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
