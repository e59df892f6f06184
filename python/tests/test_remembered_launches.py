"""What functions of tensors remember of a call: launches, however many, and what torch.autograd records.  A call that looks like an earlier one
asks nobody, and has its own results; one that differs in anything that matters is chosen for itself."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy
import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import _core, kernels  # noqa: E402
from pyptx.errors import LaunchValueError  # noqa: E402
from pyptx.kernels._remembered import Remembered  # noqa: E402

functional = torch.nn.functional


def near(found, wanted, tolerance=1e-2):
    return (found.double() - wanted.double()).norm() <= tolerance * wanted.double().norm() + 1e-6


def of(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape).to(dtype)


TARGET = torch.tensor([1, 2, 99, -100, 0, 7])
ANGLES = torch.outer(torch.arange(9.0), 10000.0 ** (-torch.arange(0, 16, 2) / 16))


def rotated(x, first):
    cos, sin = (table[first : first + x.shape[-2]] for table in (ANGLES.cos(), ANGLES.sin()))
    one, two, rest = x.split((8, 8, x.shape[-1] - 16), -1)
    return torch.cat((one * cos - two * sin, two * cos + one * sin, rest), -1)


SEVERAL = {
    "two launches": (lambda x: kernels.cross_entropy(x, TARGET), (6, 100), lambda x: functional.cross_entropy(x, TARGET)),
    "three dimensions": (kernels.softmax, (2, 3, 64), lambda x: x.softmax(-1)),
    "positions": (
        lambda x: kernels.rope(x, ANGLES.cos(), ANGLES.sin(), positions=torch.arange(5) + 2),
        (2, 5, 16),
        lambda x: rotated(x, 2),
    ),
    "scales": (lambda x: kernels.quantize_fp8(x)[1], (2, 3, 64),
               lambda x: x.abs().amax(-1, keepdim=True) / 448),
    "attention in torch's words": (
        lambda x: kernels.scaled_dot_product_attention(*(x.bfloat16(),) * 3),
        (1, 1, 40, 64),
        lambda x: functional.scaled_dot_product_attention(x, x, x),
    ),
    "parts of keys": (
        lambda x: kernels.attention(x[:, :, :1].bfloat16(), *(x.bfloat16(),) * 2),
        (1, 1, 1024, 64),
        lambda x: functional.scaled_dot_product_attention(x[:, :, :1], x, x),
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", SEVERAL)
def test_launches_are_made_again_for_other_numbers(form, asked):
    call, shape, wanted = SEVERAL[form]
    first = call(given := of(*shape, dtype=torch.float32))
    kept = first.clone()
    asked.clear()
    other = of(*shape, dtype=torch.float32)
    assert near(call(other), wanted(other)) and near(call(given), wanted(given))
    assert asked == []
    assert torch.equal(first, kept)  # each call makes its own memory


def test_the_same_tensor_thrice_is_not_three_tensors():
    q, k, v = (of(1, 2, 40, 64) for _ in range(3))
    for given in ((q, q, q), (q, k, v), (q, k, k), (q, k, v), (k, k, k)):
        assert near(kernels.attention(*given), functional.scaled_dot_product_attention(*(t.double() for t in given)))


def test_parts_of_one_tensor_are_not_tensors_apart():
    packed = of(1, 40, 3, 2, 64).permute(2, 0, 3, 1, 4)
    apart = [of(1, 40, 3, 2, 64).permute(2, 0, 3, 1, 4)[0] for _ in range(3)]
    turned = packed[2], packed[0], packed[1]
    for given in (packed.unbind(), apart, turned, packed.unbind()):
        assert near(kernels.attention(*given), functional.scaled_dot_product_attention(*(t.double() for t in given)))


def test_results_in_place_and_elsewhere():
    x, w = of(6, 64, dtype=torch.float32), torch.randn(64)
    for _ in range(2):
        into, same = torch.empty_like(x), x.clone()
        wanted = functional.rms_norm(x, (64,), w, 1e-6)
        assert kernels.rms_norm(x, w, out=into) is into and near(into, wanted)
        assert kernels.rms_norm(same, w, out=same) is same and near(same, wanted)


def test_what_is_copied_to_its_place_is_copied_each_time():
    a, b = of(24, 40), of(40, 32)
    for _ in range(3):
        out = torch.zeros(32, 24, dtype=torch.bfloat16).T
        assert kernels.matmul(a, b, out=out) is out and near(out, a.double() @ b.double())


def test_numbers_in_tensors_are_checked_each_time():
    q = of(50, 2, 64)
    begins = torch.tensor([0, 20, 50], dtype=torch.int32)
    for _ in range(2):
        kernels.attention(q, q, q, cu_seqlens=begins)
    begins[1] = 60
    with pytest.raises(LaunchValueError, match="rises"):
        kernels.attention(q, q, q, cu_seqlens=begins)


def test_options_of_equal_value_are_the_same(asked):
    numpy = pytest.importorskip("numpy", reason="skipped: no numpy")
    q = of(1, 1, 40, 64)
    for _ in range(3):
        kernels.attention(q, q, q, scale=1 / numpy.sqrt(50.0), window=tuple([10, 5]))
    assert asked == ["Attention"]


def test_several_threads():
    given = [of(6, 100, dtype=torch.float32) for _ in range(8)]
    wanted = [functional.cross_entropy(x, TARGET) for x in given]
    kernels.cross_entropy(given[0], TARGET)
    wrong = []

    def work(i):
        for _ in range(20):
            if not near(kernels.cross_entropy(given[i], TARGET), wanted[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_no_class_has_lost_the_call_in_C():
    """A class that derives from one with a shown `__call__` would have it, in Python, in the type's slot."""
    found = {type(each) for each in gc.get_objects() if issubclass(type(each), _core.Choice)}
    assert found and all(each.__base__ is _core.Choice for each in found)


# What torch.autograd records.

W = torch.randn(64)
DERIVED = {
    "rms_norm": (lambda x: kernels.rms_norm(x, W), lambda x: functional.rms_norm(x, (64,), W, 1e-6)),
    "softmax": (kernels.softmax, lambda x: x.softmax(-1)),
    "cross_entropy": (
        lambda x: kernels.cross_entropy(x.flatten(0, 1), TARGET.clamp(max=63)),
        lambda x: functional.cross_entropy(x.flatten(0, 1), TARGET.clamp(max=63)),
    ),
    "losses": (
        lambda x: kernels.cross_entropy(x.flatten(0, 1), TARGET.clamp(max=63), reduction="none"),
        lambda x: functional.cross_entropy(x.flatten(0, 1), TARGET.clamp(max=63), reduction="none"),
    ),
    "weighted sum of three dimensions": (
        lambda x: kernels.cross_entropy(
            x, TARGET.clamp(max=63).view(2, 3), W.abs(), dim=-1, reduction="sum", label_smoothing=0.2
        ),
        lambda x: functional.cross_entropy(
            x.flatten(0, 1), TARGET.clamp(max=63), W.abs(), reduction="sum", label_smoothing=0.2
        ),
    ),
    "rope": (
        lambda x: kernels.rope(x, ANGLES.cos(), ANGLES.sin()),
        lambda x: rotated(x, 0),
    ),
    "matmul": (lambda x: kernels.matmul(x, (W * torch.ones(8, 64)).mT), lambda x: x @ ((W * torch.ones(8, 64)).mT)),
    "attention": (
        lambda x: kernels.attention(*(x[:, None].bfloat16(),) * 3),
        lambda x: functional.scaled_dot_product_attention(*(x[:, None],) * 3),
    ),
    "attention in torch's words": (
        lambda x: kernels.scaled_dot_product_attention(*(x[:, None].bfloat16(),) * 3, is_causal=True),
        lambda x: functional.scaled_dot_product_attention(*(x[:, None],) * 3, is_causal=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", DERIVED)
def test_gradients_of_remembered_calls(form, asked):
    call, wanted = DERIVED[form]
    for turn in range(3):
        x = torch.randn(2, 3, 64, requires_grad=True)
        pull = torch.randn_like(wanted(x))
        if turn == 2:
            asked.clear()
        made = call(x)
        if turn == 2:
            assert asked == []
        gradient = torch.autograd.grad(made, x, pull.to(made.dtype))[0]
        assert near(gradient, torch.autograd.grad(wanted(x), x, pull)[0], 2e-2)


def test_results_may_be_changed_in_place_and_what_was_saved_may_not():
    for _ in range(2):
        x = torch.randn(2, 3, 64, requires_grad=True)
        y = kernels.rms_norm(x, W)
        y.add_(1)  # a view that a Function makes could not
        y.sum().backward()
        assert x.grad is not None
        z = x.detach().clone().requires_grad_()
        y = kernels.rms_norm(z * 1, W)
        inner = z * 1
        y = kernels.rms_norm(inner, W)
        inner.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


KEPT = {
    "matmul": (kernels.matmul, (3, 16, 72), (72, 40)),
    "matmul of a transpose": (lambda a, b: kernels.matmul(a, b.mT), (16, 72), (40, 72)),
    "matmul of a vector": (kernels.matmul, (72,), (72, 40)),
    "matmul of many": (kernels.matmul, (2, 16, 72), (2, 72, 40)),
    "matmul with a bias": (lambda a, b, c: kernels.matmul(a, b, bias=c, activation="gelu"), (16, 72), (72, 40), (40,)),
    "grouped_matmul": (
        lambda a, b: kernels.grouped_matmul(a.bfloat16(), b.bfloat16(), torch.tensor([3, 16], dtype=torch.int32)),
        (16, 72),
        (2, 72, 40),
    ),
    "attention": (lambda q: kernels.attention(*(q.bfloat16(),) * 3), (1, 2, 24, 72)),
    "rms_norm": (kernels.rms_norm, (5, 72), (72,)),
    "cross_entropy": (lambda x: kernels.cross_entropy(x, TARGET), (6, 104)),
}  # fmt: skip


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("form", KEPT)
def test_no_call_keeps_the_memory_of_its_arguments(form, gradients):
    function, *shapes = KEPT[form]
    for _ in range(2):
        memory, gone = [numpy.ones(shape, numpy.float32) for shape in shapes], []
        for at, each in enumerate(memory):
            weakref.finalize(each, gone.append, at)
        given = [torch.from_numpy(each).requires_grad_(gradients) for each in memory]
        result = function(*given)
        if gradients:
            result.float().sum().backward()
        del memory, each, given, result
        gc.collect()
        assert sorted(gone) == list(range(len(shapes)))


def test_a_mean_may_be_changed_in_place_and_its_rows_may_lie_anywhere():
    x = torch.randn(6, 128, requires_grad=True)
    for view in (x, x[:, :100], x[:, ::2], x[::2].repeat(2, 1)):
        for _ in range(3):
            loss, target = kernels.cross_entropy(view, TARGET.clamp(max=63)), TARGET.clamp(max=63)
            (gradient,) = torch.autograd.grad(loss.mul_(2), x)
            wanted = 2 * functional.cross_entropy(view, target)
            assert near(loss.detach(), wanted.detach()) and near(gradient, torch.autograd.grad(wanted, x)[0])
        inner = view * 1
        loss = kernels.cross_entropy(inner, target)
        inner.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_gradients_with_other_strides():
    x = torch.randn(3, 64, requires_grad=True)
    for pull in (torch.randn(3, 64), torch.randn(64, 3).T, torch.ones(1).expand(3, 64)):
        found, wanted = (
            torch.autograd.grad(call(x), x, pull)[0]
            for call in (lambda x: kernels.rms_norm(x, W), lambda x: functional.rms_norm(x, (64,), W, 1e-6))
        )
        assert near(found, wanted)


def test_autocast_is_part_of_what_a_call_looks_like():
    a, b = of(24, 40), of(40, 32)
    for _ in range(2):
        assert kernels.matmul(a, b).dtype == torch.bfloat16
        with torch.autocast("cpu", torch.float16):
            assert kernels.matmul(a, b).dtype == torch.float16
            assert kernels.matmul(a.clone().requires_grad_(), b).dtype == torch.float16


def test_deterministic_algorithms_are_part_of_it(asked):
    q = of(1, 2, 40, 64).requires_grad_()
    for _ in range(2):
        kernels.attention(q, q, q)
    asked.clear()
    torch.use_deterministic_algorithms(True)
    try:
        kernels.attention(q, q, q)
    finally:
        torch.use_deterministic_algorithms(False)
    assert asked == ["Attention"]


def test_transformations_find_their_own_way():
    x, needs = torch.randn(3, 64), W.clone().requires_grad_()  # which is not the transformation's, but autograd's
    for _ in range(2):
        gradient = torch.func.grad(lambda x: kernels.rms_norm(x, W).square().sum())(x)
        wanted = torch.func.grad(lambda x: functional.rms_norm(x, (64,), W, 1e-6).square().sum())(x)
        assert near(gradient, wanted)
        kernels.rms_norm(x, needs)
        per_row = torch.func.vmap(torch.func.grad(lambda x: kernels.rms_norm(x, needs).square().sum()))(x)
        assert near(per_row, wanted)


@pytest.mark.parametrize("form", ["rms_norm", "softmax", "matmul"])
def test_gradients_of_many_pulls_at_once(form):
    """torch's older vmap, whose tensors have no memory, runs the backward."""
    call, wanted = DERIVED[form]
    x = torch.randn(2, 64)
    for _ in range(2):
        found = torch.autograd.functional.jacobian(call, x, vectorize=True)
        assert near(found, torch.autograd.functional.jacobian(wanted, x))


def test_many_pulls_of_a_matrix_for_all_rows():
    x, w = torch.randn(2, 3, 16), torch.randn(16, 4)
    found = torch.autograd.functional.jacobian(lambda w: kernels.matmul(x, w), w, vectorize=True)
    assert near(found, torch.autograd.functional.jacobian(lambda w: x @ w, w))


def test_what_is_made_inside_of_a_target_remembers_nothing_there():
    calls, x = [], torch.randn(3, 64)

    def function(x, w, out):
        calls.append(x)
        return kernels.rms_norm(x, w)

    with kernels.simulated_target("sm_90a"):
        made = Remembered(function)
        made((x, W))
        made((x, W))
    assert len(calls) == 2
    made((x, W))
    made((x, W))
    assert len(calls) == 3
