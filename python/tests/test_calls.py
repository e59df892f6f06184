"""What reaches a call and is no plain tensor: tensors of other kinds, modes, transformations; inputs by name.

Each is called cold and warm: a call that has seen its arguments before goes past Python.
"""

from __future__ import annotations

import pytest
from test_launch import make_pair, make_scale

np = pytest.importorskip("numpy", reason="skipped: no numpy")

from pyptx import Tile, differentiable_kernel, kernel, ptx  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError  # noqa: E402
from pyptx.types import f32  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="skipped: no torch")


def ones(n=64):
    return np.ones(n, np.float32)


@pytest.fixture(params=["cold", "warm"])
def scale(request):
    made = make_scale()
    if request.param == "warm":
        made(ones())
        if torch is not None:
            made(torch.ones(64))
    return made


def test_inputs_may_be_given_by_name(scale):
    x = ones()
    for _ in range(2):
        np.testing.assert_array_equal(scale(X=x), 2 * x)
        y = np.zeros(64, np.float32)
        assert scale(X=x, out=y, factor=3.0) is y and y[0] == 3
    pair = make_pair()
    for call in (lambda: pair(ones(32), B=ones(32)), lambda: pair(B=ones(32), A=ones(32))):
        np.testing.assert_array_equal(call()[0], 2 * ones(32))
    with pytest.raises(LaunchTypeError, match="argument `X` is given twice"):
        scale(x, X=x)
    with pytest.raises(LaunchTypeError, match="argument `A` is not given"):
        pair(B=ones(32))
    with pytest.raises(TypeError, match="no template parameter 'Z'"):
        scale(x, Z=x)


@needs_torch
def test_inputs_by_name_everywhere():
    scale, x = make_scale(), torch.ones(64)
    assert torch.equal(torch.compile(lambda a: scale(X=a), backend="eager", fullgraph=True)(x), 2 * x)
    assert torch.equal(torch.vmap(lambda a: scale(X=a))(torch.ones(2, 64)), torch.full((2, 64), 2.0))
    both = differentiable_kernel(scale, lambda x, g: scale(g))
    leaf = torch.ones(64, requires_grad=True)
    both(X=leaf).sum().backward()
    assert torch.equal(leaf.grad, 2 * x)


def test_a_template_value_without_a_default_is_asked_for():
    @kernel(in_specs=(Tile(32, f32),), out_specs=(Tile(32, f32),), block=(32, 1, 1))
    def k(X, Y, *, scale):
        ptx.ret()

    calls = [k.ptx, k.module, k.specialise, lambda: k(ones(32)), lambda: k(ones(32), out=ones(32))]
    if torch is not None:
        calls += [lambda: torch.vmap(k)(torch.ones(2, 32)), lambda: k(torch.ones(32, device="meta"))]
    for call in calls[:5]:
        with pytest.raises(TypeError, match=r"template parameter 'scale' has no default: pass scale=\.\.\."):
            call()
    assert "entry k" in k.ptx(scale=None)  # None is a value


@needs_torch
def test_meta_tensors_give_meta_tensors(scale):
    y = scale(torch.empty(64, device="meta"))
    assert y.is_meta and y.shape == (64,)
    with pytest.raises(LaunchValueError, match="pair: argument `B`: it is on cpu, the call is on meta"):
        make_pair()(torch.empty(32, device="meta"), torch.ones(32))


@needs_torch
def test_forward_mode_of_torch_func_is_refused_in_words(scale):
    x = torch.ones(64)
    for transform in (lambda f: torch.func.jvp(f, (x,), (x,)), lambda f: torch.func.jacfwd(f)(x)):
        for function in (scale, differentiable_kernel(make_scale(), lambda x, g: make_scale()(g))):
            with pytest.raises(LaunchValueError, match="scale: .*no derivative forwards.*reverse mode"):
                transform(function)


@needs_torch
def test_vmap_over_nothing(scale):
    assert torch.vmap(scale)(torch.ones(0, 64)).shape == (0, 64)
    assert torch.vmap(scale, in_dims=1)(torch.ones(64, 0)).shape == (0, 64)
    y, z = torch.vmap(make_pair())(torch.ones(0, 32), torch.ones(0, 32))
    assert y.shape == z.shape == (0, 32)


@needs_torch
def test_functionalize(scale):
    x = torch.ones(64)
    assert torch.equal(torch.func.functionalize(scale)(x), 2 * x)


@needs_torch
def test_tensors_of_other_kinds_are_refused_with_what_to_pass(scale):
    x = torch.ones(64)
    freed = torch.ones(64)
    freed.untyped_storage().resize_(0)
    kinds = [
        (x.to_sparse(), r"layout is torch.sparse_coo.*\.to_dense\(\)"),
        (torch.eye(64).to_sparse_csr(), r"layout is torch.sparse_csr"),
        (x.to_mkldnn(), r"layout is torch._mkldnn.*\.to_dense\(\)"),
        (torch.nested.nested_tensor([x, x]), r"nested tensor.*\.unbind\(\)"),
        (torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), r"quantised.*\.dequantize\(\)"),
        (freed, "its storage was freed"),
    ]
    for tensor, message in kinds:
        with pytest.raises(LaunchTypeError, match=f"scale: argument `X`: .*{message}") as caught:
            scale(tensor)
        assert "frame #" not in str(caught.value)
