"""Each function of the library, with each of its arguments, in each way that torch may call it.  A way is a function of a call, its tensors, and
which of them have gradients."""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from pyptx import kernels  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError  # noqa: E402

E4M3 = torch.float8_e4m3fn
ANGLES = torch.outer(torch.arange(6.0), torch.linspace(0, 1, 16))


def real(*shape):
    return torch.randn(shape)


def half(*shape):
    return torch.randn(shape).bfloat16()


def numbers(*values):
    return torch.tensor(values, dtype=torch.int32)


def heads(keys: int = 6, shared: int = 2, width: int = 32):
    return [half(2, 2, 6, width), half(2, shared, keys, width), half(2, shared, keys, width)]


# name: (a call of tensors, what makes them, which have gradients; None: all)
CALLS = {
    "rms_norm": (lambda x, w: kernels.rms_norm(x, (32,), w), lambda: [real(4, 6, 32), real(32)], None),
    "rms_norm, two dimensions": (lambda x, w: kernels.rms_norm(x, (6, 32), w), lambda: [half(4, 6, 32), real(6, 32)], None),
    "rms_norm, no weight": (kernels.rms_norm, lambda: [real(4, 6, 32)], None),
    "layer_norm": (kernels.layer_norm, lambda: [real(4, 6, 32), real(32), real(32)], None),
    "layer_norm, bias alone": (lambda x, b: kernels.layer_norm(x, (32,), None, b), lambda: [real(4, 6, 32), real(32)], None),
    "add_rms_norm": (kernels.add_rms_norm, lambda: [real(4, 6, 32), real(4, 6, 32), real(32)], None),
    "softmax": (kernels.softmax, lambda: [real(4, 6, 32)], None),
    "softmax, columns": (lambda x: kernels.softmax(x, 1), lambda: [real(4, 6, 32)], None),
    "log_softmax": (lambda x: kernels.log_softmax(x, dtype=torch.float32), lambda: [half(4, 6, 32)], None),
    "swiglu": (kernels.swiglu, lambda: [real(4, 6, 32), real(4, 6, 32)], None),
    "geglu, halves": (lambda x: kernels.geglu(x, approximate="tanh"), lambda: [real(4, 6, 32)], None),
    "cross_entropy": (
        lambda x, t, w: kernels.cross_entropy(x, t, w, label_smoothing=0.1, reduction="sum", dim=-1),
        lambda: [real(4, 6, 32), torch.randint(0, 32, (4, 6)), torch.rand(32)], [0],
    ),
    "cross_entropy, columns": (kernels.cross_entropy, lambda: [real(4, 6, 32), torch.randint(0, 6, (4, 32))], [0]),
    "cross_entropy, probabilities": (
        lambda x, t: kernels.cross_entropy(x, t, dim=-1), lambda: [real(4, 6, 32), torch.rand(4, 6, 32).softmax(-1)], None,
    ),
    "rope": (kernels.rope, lambda: [real(4, 2, 6, 32), ANGLES.cos(), ANGLES.sin()], [0]),
    "rope, positions": (
        lambda x, c, s, at: kernels.rope(x, c, s, positions=at, seq_dim=-3, interleaved=True),
        lambda: [real(4, 6, 2, 32), ANGLES.cos(), ANGLES.sin(), torch.arange(6)], [0],
    ),
    "quantize_fp8": (kernels.quantize_fp8, lambda: [real(4, 6, 32)], []),
    "quantize_fp8, blocks": (lambda x: kernels.quantize_fp8(x, block=128), lambda: [half(4, 6, 256)], []),
    "matmul": (lambda a, b: kernels.matmul(a, b.mT), lambda: [half(4, 6, 32), half(24, 32)], None),
    "matmul, a batch": (kernels.matmul, lambda: [real(4, 6, 32), real(4, 32, 24)], None),
    "matmul, epilogue": (
        lambda a, b, bias, r: kernels.matmul(a, b, bias=bias, residual=r, activation="gelu"),
        lambda: [real(4, 6, 32), real(32, 24), real(24), real(4, 6, 24)], None,
    ),
    "matmul, a vector": (kernels.matmul, lambda: [real(32), real(32, 24)], None),
    "matmul, fp8": (
        lambda a, b, s, t: kernels.matmul(a, b, scale_a=s, scale_b=t),
        lambda: [half(6, 32).to(E4M3), half(32, 24).to(E4M3), torch.ones(1), torch.ones(1)], [],
    ),
    "grouped_matmul": (kernels.grouped_matmul, lambda: [half(24, 32), half(4, 32, 24), numbers(3, 3, 10, 24)], [0, 1]),
    "attention": (lambda q, k, v: kernels.attention(q, k, v, causal=True), heads, None),
    "attention, sinks": (
        lambda q, k, v, s: kernels.attention(q, k, v, sinks=s, lse=True), lambda: [*heads(9, 1), real(2)], None,
    ),
    "attention, a mask": (lambda q, k, v, m: kernels.attention(q, k, v, mask=m), lambda: [*heads(), torch.rand(6, 6) > 0.3], []),
    "attention, sequences": (
        lambda q, k, v, at: kernels.attention(q, k, v, cu_seqlens=at),
        lambda: [half(19, 2, 32), half(19, 2, 32), half(19, 2, 32), numbers(0, 5, 19)], [0, 1, 2],
    ),
    "attention, pages": (
        lambda q, k, v, n, table: kernels.attention(q, k, v, lengths=n, block_table=table),
        lambda: [half(1, 2, 1, 64), half(3, 16, 2, 64), half(3, 16, 2, 64), numbers(40), numbers(1, 0, 2)[None]], [],
    ),
}  # fmt: skip
WAYS = {}


def way(function):
    WAYS[function.__name__] = function
    return function


def results(made) -> tuple:
    return made if isinstance(made, tuple) else (made,)


def near(got, wanted, tolerance: float = 2e-2):
    for one, other in zip(results(got), results(wanted), strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one.float(), other.float(), rtol=tolerance, atol=tolerance)


def total(made):
    return sum(each.float().square().sum() for each in results(made))


def asking(given, which) -> list:
    return [each.detach().clone().requires_grad_() if at in which else each for at, each in enumerate(given)]


def gradients(call, given, which) -> tuple:
    given = asking(given, which)
    return torch.autograd.grad(total(call(*given)), [given[at] for at in which])


def instead(given, at: int, other) -> list:
    return [other if i == at else each for i, each in enumerate(given)]


def refused(call, given, *errors):
    with pytest.raises((LaunchTypeError, LaunchValueError, *errors)) as caught:
        call(*given)
    return str(caught.value)


@way
def gradients_of_some_of_them(call, given, which):
    """Also after calls that asked for others."""
    whole = gradients(call, given, which) if which else ()
    for count in range(1, len(which)):
        for some in itertools.combinations(which, count):
            near(gradients(call, given, some), tuple(whole[which.index(at)] for at in some))
    for at, each in enumerate(given):
        if at not in which and each.is_floating_point() and each.dtype != E4M3:
            assert "gradient" in refused(call, asking(given, [at]))
            if which:
                assert "gradient" in refused(call, asking(given, [*which, at]))


@way
def vmap_over_each(call, given, _):
    wanted = call(*given)
    for at, dim in itertools.product(range(len(given)), (0, -1)):
        mapped = instead(given, at, torch.stack([given[at]] * 2, dim))
        made = torch.vmap(call, tuple(dim if i == at else None for i in range(len(given))))(*mapped)
        near(tuple(each[1] for each in results(made)), wanted)


@way
def vmap_of_vmap(call, given, _):
    many = [torch.stack([torch.stack([each] * 3)] * 2) for each in given]
    near(tuple(each[1, 2] for each in results(torch.vmap(torch.vmap(call))(*many))), call(*given))


@way
def vmap_of_gradients(call, given, which):
    if which:
        derive = torch.func.grad(lambda *given: total(call(*given)), tuple(which))
        wanted = derive(*given)
        # A vector is multiplied in f32, a batch as tf32.
        near(tuple(each[1] for each in torch.vmap(derive)(*[torch.stack([each] * 2) for each in given])), wanted, 0.1)
        near(wanted, gradients(call, given, which), 0.1)


@way
def forward_mode(call, given, which):
    if which:
        at = which[0]
        one = torch.ones_like(given[at])
        with pytest.raises(Exception, match=r"forward[- ]mode|tangent|jvp"):
            torch.func.jvp(lambda x: call(*instead(given, at, x)), (given[at],), (one,))


@way
def checkpoints(call, given, which):
    if which:
        again = gradients(lambda *given: checkpoint(call, *given, use_reentrant=False), given, which)
        near(again, gradients(call, given, which))


@way
def traced_with_symbols(call, given, which):
    near(make_fx(lambda *given: call(*given), tracing_mode="symbolic")(*given)(*given), call(*given))
    if which:
        derive = torch.func.grad(lambda *given: total(call(*given)), tuple(which))
        near(make_fx(derive, tracing_mode="symbolic")(*given)(*given), derive(*given))


@way
def without_memory(call, given, which):
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(each) for each in given]
        made = results(call(*fake))
        slopes = gradients(call, fake, which) if which else ()
    for one, other in zip(made, results(call(*given)), strict=True):
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())
    assert [each.shape for each in slopes] == [given[at].shape for at in which]
    assert all(each.is_meta for each in results(call(*[each.to("meta") for each in given])))


@way
def inference(call, given, which):
    with torch.inference_mode():
        made = call(*asking(given, which))
        given = [each.clone() for each in given]
    near(made, call(*given))


def lying(tensor) -> list:
    """Tensors of the same elements that lie otherwise."""
    *lead, n = tensor.shape
    made = [
        torch.empty(*lead, 2 * n + 3, dtype=tensor.dtype)[..., 3 : 3 + n],
        torch.empty(*lead, 2 * n, dtype=tensor.dtype)[..., ::2],
    ]
    made += [torch.empty(tensor.numel() + 1, dtype=tensor.dtype)[1:].view(tensor.shape)]
    of_bytes = np.empty(tensor.nbytes + 32, np.uint8)
    begin = -of_bytes.ctypes.data % 16 + max(tensor.itemsize, 2)  # whose storage begins there, too
    made += [torch.from_numpy(of_bytes[begin : begin + tensor.nbytes]).view(tensor.dtype).view(tensor.shape)]
    if lead:
        made += [
            torch.empty_like(tensor.transpose(0, dim), memory_format=torch.contiguous_format).transpose(0, dim)
            for dim in (1, -1)
        ]
        made += [torch.empty(2 * lead[0], *tensor.shape[1:], dtype=tensor.dtype)[::2]]
    return [each.copy_(tensor) for each in made]


@way
def memory_of_every_kind(call, given, which):
    wanted, slopes = call(*given), gradients(call, given, which) if which else ()
    for at, each in enumerate(given):
        for other in lying(each):
            near(call(*instead(given, at, other)), wanted, 1e-3)
            if which and at in which:
                asked = asking(given, which)
                asked[at] = other.detach().requires_grad_()
                near(torch.autograd.grad(total(call(*asked)), [asked[i] for i in which]), slopes)


@way
def other_types(call, given, _):
    for at, each in enumerate(given):
        for kind in (torch.float64, torch.complex64, torch.int16):
            if not call_takes(each, kind):
                text = refused(call, instead(given, at, torch.ones_like(each, dtype=kind)))
                assert str(kind).removeprefix("torch.") in text, text


def call_takes(tensor, kind) -> bool:
    """log_softmax casts to `dtype` first, as torch's; a mask may be of any type that q may have."""
    return tensor.shape == (4, 6, 32) and tensor.dtype == torch.bfloat16


@way
def no_elements(call, given, _):
    """A first tensor without elements has a result without elements, or is refused."""
    for dim in range(given[0].dim()):
        with contextlib.suppress(LaunchTypeError, LaunchValueError):
            call(given[0].narrow(dim, 0, 0), *given[1:])


@way
def no_dimensions(call, given, _):
    for at, each in enumerate(given):
        if each.numel() > 1 and each.dtype != torch.bool:
            refused(
                call,
                instead(given, at, torch.zeros((), dtype=each.dtype)),
                IndexError if "mT" in call.__code__.co_names else LaunchTypeError,
            )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("how", WAYS)
def test_every_way(how, name):
    torch.manual_seed(0)
    call, make, which = CALLS[name]
    given = make()
    WAYS[how](call, given, list(range(len(given))) if which is None else which)


WITH_OUT = {
    "rms_norm": (kernels.rms_norm, CALLS["rms_norm"][1]),
    "softmax": (kernels.softmax, CALLS["softmax"][1]),
    "softmax, columns": (lambda x, out: kernels.softmax(x, 1, out=out), CALLS["softmax"][1]),
    "swiglu": (kernels.swiglu, CALLS["swiglu"][1]),
    "swiglu, halves": (lambda x, out: kernels.swiglu(x, out=out), CALLS["softmax"][1]),
    "rope": (kernels.rope, CALLS["rope"][1]),
    "matmul": (kernels.matmul, CALLS["matmul, a batch"][1]),
    "attention": (kernels.attention, heads),
}


@pytest.mark.parametrize("name", WITH_OUT)
def test_results_in_memory_of_every_kind(name):
    torch.manual_seed(0)
    call, make = WITH_OUT[name]
    given = make()
    wanted = call(*given, out=None)
    for out in (torch.zeros_like(wanted), *lying(torch.zeros_like(wanted))):
        assert call(*given, out=out) is out
        near(out, wanted, 1e-3)
    for at, each in enumerate(given):
        if each.shape == wanted.shape and each.dtype == wanted.dtype:
            own = each.clone()
            with contextlib.suppress(LaunchValueError):  # a product reads what it has written
                near(call(*instead(given, at, own), out=own), wanted, 1e-3)
