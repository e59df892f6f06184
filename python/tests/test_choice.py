"""Functions that choose a kernel: a call that looks like an earlier one goes to its kernel in C++, every other one to Python."""

from __future__ import annotations

import dataclasses

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import Tile, _core, kernel, kernels, ptx, reg  # noqa: E402
from pyptx.errors import AuthoringRuntimeError  # noqa: E402
from pyptx.types import f32, u32  # noqa: E402

a, b = torch.randn(24, 40).bfloat16(), torch.randn(40, 32).bfloat16()
x, w = torch.randn(6, 64), torch.randn(64)


def near(found, wanted):
    return (found.double() - wanted.double()).norm() <= 6e-3 * wanted.double().norm()


def product(*arguments, **options):
    kernels.matmul(*arguments, **options)
    return kernels.matmul(*arguments, **options)


def test_a_call_like_an_earlier_one_asks_nobody(asked):
    product(a, b)
    kernels.rms_norm(x, w)
    asked.clear()
    other = torch.randn_like(a), torch.randn_like(b)
    assert near(kernels.matmul(*other), other[0].double() @ other[1].double())
    assert torch.allclose(kernels.rms_norm(2 * x, w), torch.nn.functional.rms_norm(2 * x, (64,), w, 1e-6), atol=1e-5)
    assert asked == []


def test_what_is_forgotten_is_chosen_anew(asked):
    def derive():
        needs = x.clone().requires_grad_()
        return torch.autograd.grad(kernels.rms_norm(needs, w).sum(), needs)

    _, gradient = product(a, b), derive()
    asked.clear()
    _core.forget_launches()
    assert near(kernels.matmul(a, b), a.double() @ b.double()) and torch.equal(*derive(), *gradient)
    assert asked == ["Matmul", "RowFunction"]
    product(a, b), derive()
    assert len(asked) == 2


OTHERS = {
    "other sizes": lambda: (kernels.matmul(a[:17], b), a[:17].double() @ b.double()),
    "other strides": lambda: (kernels.matmul(a, b.T.contiguous().T), a.double() @ b.double()),
    "another address": lambda: (kernels.matmul(a[:, 1:], b[1:]), a[:, 1:].double() @ b[1:].double()),
    "another type": lambda: (kernels.matmul(a.half(), b.half()), a.double() @ b.double()),
    "an option": lambda: (kernels.matmul(a, b, activation="relu"), (a.double() @ b.double()).relu()),
    "one tensor more": lambda: (kernels.matmul(a, b, bias=b[0]), a.double() @ b.double() + b[0].double()),
    "a template value": lambda: (kernels.rms_norm(x, w, eps=1e-2), torch.nn.functional.rms_norm(x, (64,), w, 1e-2)),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_looks_otherwise_is_chosen_for_itself(other, asked):
    product(a, b)
    kernels.rms_norm(x, w)
    asked.clear()
    for _ in range(2):  # and once more, where it is remembered
        assert near(*OTHERS[other]())
    assert len(asked) == (2 if other == "another address" else 1)  # of which copies are multiplied


def test_out_is_written_and_returned(asked):
    out = torch.empty(24, 32, dtype=torch.bfloat16)
    for _ in range(2):
        out.zero_()
        assert kernels.matmul(a, b, out=out) is out and near(out, a.double() @ b.double())
    rows = torch.empty_like(x)
    for _ in range(2):
        assert kernels.rms_norm(x, w, out=rows) is rows
    assert torch.equal(rows, kernels.rms_norm(x, w))


def test_derivatives_are_taken(asked):
    product(a, b)
    kernels.rms_norm(x, w)
    needs = a.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(kernels.matmul(needs, b).sum(), needs)
    assert near(gradient, torch.ones(24, 32).double() @ b.double().T)
    rows = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(kernels.rms_norm(rows, w).sum(), rows)
    (wanted,) = torch.autograd.grad(torch.nn.functional.rms_norm(rows, (64,), w, 1e-6).sum(), rows)
    assert torch.allclose(gradient, wanted, atol=1e-4)
    with torch.no_grad():
        assert not kernels.matmul(needs, b).requires_grad


def test_modes_and_transformations_see_an_operator():
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    product(a, b)
    graph = make_fx(lambda a: kernels.matmul(a, b) + 1)(a)
    assert any("pyptx" in str(node.target) for node in graph.graph.nodes)
    with FakeTensorMode() as mode:
        fake = kernels.matmul(mode.from_tensor(a), mode.from_tensor(b))
    assert fake.shape == (24, 32)
    many = torch.func.vmap(lambda a: kernels.matmul(a, b))(torch.stack([a, a]))
    assert near(many[1], a.double() @ b.double())


def test_autocast_casts():
    wide = a.float(), b.float()
    assert product(*wide).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert product(*wide).dtype == torch.bfloat16
    assert kernels.matmul(*wide).dtype == torch.float32


def test_another_simulated_target_is_another_kernel(asked):
    product(a, b)
    asked.clear()
    with kernels.simulated_target("sm_90a"):
        assert near(product(a, b), a.double() @ b.double())
    assert asked == ["Matmul"]


def test_rows_are_not_remembered_for_another_target(asked):
    kernels.rms_norm(x, w)
    asked.clear()
    with kernels.simulated_target("sm_90a"):
        for _ in range(2):
            assert torch.allclose(kernels.rms_norm(x, w), torch.nn.functional.rms_norm(x, (64,), w, 1e-6), atol=1e-5)
    kernels.rms_norm(x, w)
    assert asked == ["RowFunction"] * 2


def test_attention_of_like_tensors():
    q, k = torch.randn(1, 2, 40, 64).bfloat16(), torch.randn(1, 2, 40, 64).bfloat16()
    wanted = torch.nn.functional.scaled_dot_product_attention(*(each.double() for each in (q, k, k)))
    for lse in (False, True, False):
        got = kernels.attention(q, k, k, lse=lse)
        assert near(got[0] if lse else got, wanted)
    causal = torch.nn.functional.scaled_dot_product_attention(*(each.double() for each in (q, k, k)), is_causal=True)
    assert near(kernels.attention(q, k, k, causal=True), causal)


def test_calls_without_end_do_not_fill_memory():
    needs = x.clone().requires_grad_()
    for scale in range(5000):
        told = kernels.norm.RMS_NORM, (needs, w), {"eps": float(scale)}
        _core.remember_derivative(*told, abs, [0])
    assert torch.allclose(kernels.rms_norm(x, w), torch.nn.functional.rms_norm(x, (64,), w, 1e-6), atol=1e-5)


# What a kernel's body reads: an object that cannot change is known by itself.


def times(setting):
    @kernel(
        in_specs=(Tile("N", f32),),
        out_specs=(Tile("N", f32),),
        grid=lambda N: (N // 32, 1, 1),
        block=(32, 1, 1),
        arch="sm_80",
    )
    def times(X, Y):
        source, target = ptx.global_ptrs(X, Y)
        at = (reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)) * 4
        value = reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, ptx.addr(source + at))
        ptx.inst.mul.f32(value, value, float(sum(setting.factors)))
        ptx.inst.st.global_.f32(ptx.addr(target + at), value)
        ptx.ret()

    return times


@dataclasses.dataclass(frozen=True)
class Frozen:
    factors: tuple | list


@pytest.mark.parametrize("factors, by_itself", [((1, 2), True), ([1, 2], False)])
def test_frozen_dataclasses_are_compared_by_identity(factors, by_itself):
    twice = times(Frozen(factors))
    assert torch.equal(twice(torch.ones(32)), 3 * torch.ones(32))
    assert (not twice._reads._others) == by_itself


def test_what_a_frozen_dataclass_holds_may_change():
    setting = Frozen([1, 2])
    twice = times(setting)
    twice(torch.ones(32))
    setting.factors.append(4)
    with pytest.raises(AuthoringRuntimeError, match="has changed"):
        twice(torch.ones(32))


def test_no_product_is_compared_by_its_content_at_each_call():
    """Which would take as long as the call."""
    from pyptx.kernels._matmul.blackwell import PAIR, blackwell_kernel
    from pyptx.kernels._matmul.choice import BLOCKS, WIDEST
    from pyptx.kernels._matmul.hopper import product_kernel
    from pyptx.types import bf16

    x, y = torch.randn(128, 128).bfloat16(), torch.randn(256, 128).bfloat16()
    made = [product_kernel(config, bf16) for config in (WIDEST, BLOCKS)]
    for each in (*made, blackwell_kernel(PAIR, bf16)):
        each(x, y)
        assert each._reads._others == []
