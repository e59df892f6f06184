"""Kernels with a backward on CPU tensors: gradients, what they compose with, and what is refused."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

import pyptx  # noqa: E402
from pyptx import Tile, kernel, ptx, reg, torch_support  # noqa: E402
from pyptx.errors import LaunchError  # noqa: E402
from pyptx.kernels._row_function import FUNCTIONS  # noqa: E402
from pyptx.types import f64, u32  # noqa: E402


def elementwise(inputs, outputs):
    """A kernel over vectors of f64; the body gets one element of each input and returns one of each output."""

    def make(body):
        arguments = [f"A{i}" for i in range(inputs)] + [f"B{i}" for i in range(outputs)]
        text = f"def {body.__name__}({', '.join(arguments)}, *, k=3.0): build([{', '.join(arguments)}], k)"

        def build(tensors, k):
            offset = (reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)) * 8
            pointers = ptx.global_ptrs(*tensors)
            values = [reg.scalar(f64) for _ in range(inputs)]
            for value, pointer in zip(values, pointers, strict=False):
                ptx.inst.ld.global_.f64(value, ptx.addr(pointer + offset))
            for pointer, result in zip(pointers[inputs:], body(*values, k), strict=True):
                ptx.inst.st.global_.f64(ptx.addr(pointer + offset), result)
            ptx.ret()

        scope = {"build": build}
        exec(text, scope)
        tiles = (Tile("N", f64),)
        options = {"in_specs": tiles * inputs, "out_specs": tiles * outputs, "grid": lambda N: (N // 32,)}
        return kernel(block=(32, 1, 1), **options)(scope[body.__name__])

    return make


def product(*factors):
    result = reg.scalar(f64)
    ptx.inst.mov.f64(result, factors[0])
    for factor in factors[1:]:
        ptx.inst.mul.f64(result, result, factor)
    return result


@elementwise(1, 1)
def cube(x, k):
    return [product(x, x, x)]


@elementwise(2, 1)
def cube_backward(x, g, k):
    return [product(x, x, g, k)]


@elementwise(3, 2)
def cube_backward_backward(x, g, gg, k):
    """Of 3 * x * x * g: for x and for g."""
    return [product(x, g, gg, 6.0), product(x, x, gg, 3.0)]


@elementwise(2, 2)
def swap_product(x, y, k):
    """(x * y, k * x)."""
    return [product(x, y), product(x, k)]


@elementwise(4, 2)
def swap_product_backward(x, y, g, h, k):
    dx = product(g, y)
    ptx.inst.fma.rn.f64(dx, h, k, dx)
    return [dx, product(g, x)]


def vector(*shape):
    return torch.randn(*shape, 32, dtype=torch.float64, requires_grad=True)


def test_gradients_of_one_output():
    function = pyptx.differentiable_kernel(cube, cube_backward)
    assert torch.autograd.gradcheck(function, (vector(),))
    assert function.forward_kernel is cube and function.backward_kernel is cube_backward


def test_gradients_of_several_outputs_and_template_values():
    function = pyptx.differentiable_kernel(swap_product, swap_product_backward)
    assert torch.autograd.gradcheck(lambda x, y: function(x, y, k=0.5), (vector(), vector()))
    x, y = vector(), vector()
    function(x, y)[1].sum().backward()  # the other output has no gradient: zeros
    torch.testing.assert_close(x.grad, torch.full_like(x, 3.0))
    torch.testing.assert_close(y.grad, torch.zeros_like(y))


def test_only_gradients_that_are_asked_for():
    function = pyptx.differentiable_kernel(swap_product, swap_product_backward)
    x, y = vector(), vector().detach()
    (gradient,) = torch.autograd.grad(function(x, y)[0].sum(), x)
    torch.testing.assert_close(gradient, y)
    first = pyptx.differentiable_kernel(swap_product, swap_product_backward, num_grad_inputs=1)
    x, y = vector(), vector()
    first(x, y)[0].sum().backward()
    assert x.grad is not None and y.grad is None


@elementwise(1, 3)
def triple(x, k):
    """(x * x, x * x * x, k * x)."""
    return [product(x, x), product(x, x, x), product(x, k)]


@elementwise(4, 1)
def triple_backward(x, kx, g, h, k):
    dx = product(x, g, 2.0)
    ptx.inst.fma.rn.f64(dx, h, product(x, kx), dx)  # k = 3
    return [dx]


def test_gradients_of_the_first_outputs():
    """An output that the backward only saves has none, and torch writes no zeros for it."""
    function = pyptx.differentiable_kernel(triple, triple_backward, save_outputs=[2], num_grad_outputs=2)
    assert torch.autograd.gradcheck(lambda x: function(x)[:2], (vector(),))
    x = vector()
    squares, cubes, beside = function(x)
    assert squares.requires_grad and cubes.requires_grad and not beside.requires_grad
    torch.testing.assert_close(torch.autograd.grad(cubes.sum(), x)[0], 3 * x.detach() ** 2)
    compiled = torch.compile(lambda x: function(x)[1].sum(), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(x), x)[0], 3 * x.detach() ** 2)
    torch.testing.assert_close(torch.func.grad(lambda x: function(x)[0].sum())(x.detach()), 2 * x.detach())
    assert set(torch.library.opcheck(function.op, (vector(),)).values()) == {"SUCCESS"}
    whole = pyptx.differentiable_kernel(triple, lambda x, kx, *given: given[0], save_outputs=[2])
    assert whole.op is not function.op


def test_gradients_that_are_not_contiguous():
    function = pyptx.differentiable_kernel(cube, cube_backward)
    x = vector()
    function(x).backward(torch.randn(32, 2, dtype=torch.float64)[:, 0])
    function(x).sum().backward()  # an expanded gradient
    function(x).backward(torch.ones(32, dtype=torch.float64).flip(0))
    assert x.grad.isfinite().all()


def test_only_saved_inputs_reach_the_backward():
    @elementwise(1, 1)
    def double(x, k):
        return [product(x, 2.0)]

    @elementwise(1, 1)
    def double_backward(g, k):
        return [product(g, 2.0)]

    function = pyptx.differentiable_kernel(double, double_backward, save_for_backward=[])
    x = vector()
    y = function(x)
    assert y.grad_fn.saved_tensors == ()
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 2.0))


def test_second_derivatives_are_refused():
    function = pyptx.differentiable_kernel(cube, cube_backward)
    x = vector()
    (gradient,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    torch.testing.assert_close(gradient, 3 * x * x)
    with pytest.raises(LaunchError, match="cube_backward: this kernel has no backward.*differentiable_kernel"):
        torch.autograd.grad(gradient.sum(), x)
    with pytest.raises(LaunchError, match="cube_backward: this kernel has no backward"):
        torch.func.grad(lambda x: torch.func.grad(lambda x: function(x).sum())(x).sum())(x.detach())


def test_a_kernel_without_a_backward_refuses_tensors_that_need_one():
    torch.compiler.reset()
    x = vector()
    call = torch.compile(lambda x: cube(x), fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match="cube: argument `A0`: it requires a gradient, and this kernel has no backward"):
        call(x)
    with torch.no_grad():
        torch.testing.assert_close(call(x), x**3)


def test_second_derivatives_of_a_differentiable_backward():
    backward = pyptx.differentiable_kernel(cube_backward, cube_backward_backward)
    function = pyptx.differentiable_kernel(cube, backward)
    assert torch.autograd.gradgradcheck(function, (vector(),))


def test_torch_func_transforms():
    function = pyptx.differentiable_kernel(cube, cube_backward)
    x = vector(4).detach()
    gradient = torch.func.vmap(torch.func.grad(lambda row: function(row).sum()))(x)
    torch.testing.assert_close(gradient, 3 * x * x)
    row = x[0]
    value, pullback = torch.func.vjp(function, row)
    torch.testing.assert_close(value, row**3)
    torch.testing.assert_close(pullback(torch.ones_like(row))[0], 3 * row * row)  # after the transform has ended
    torch.testing.assert_close(torch.func.jacrev(function)(row), torch.diag(3 * row * row))


def test_a_trace_of_torch_jit_has_the_kernel_in_it():
    x = vector().detach()
    traced = torch.jit.trace(lambda x: cube(x) + 1, (x,))
    assert "pyptx::" in str(traced.graph)
    torch.testing.assert_close(traced(x + 1), (x + 1) ** 3 + 1)
    pair = pyptx.differentiable_kernel(cube, cube_backward)
    torch.testing.assert_close(torch.jit.trace(lambda x: pair(x), (x,))(x + 2), (x + 2) ** 3)


def test_compiled_gradients():
    torch.compiler.reset()
    function = pyptx.differentiable_kernel(swap_product, swap_product_backward)
    call = torch.compile(lambda x, y: function(x * 2, y, k=0.5)[0] + 1, fullgraph=True, backend="aot_eager")
    x, y = vector(), vector()
    call(x, y).sum().backward()
    torch.testing.assert_close(x.grad, 2 * y.detach())
    torch.testing.assert_close(y.grad, 2 * x.detach())


def test_opcheck_with_gradients():
    function = pyptx.differentiable_kernel(swap_product, swap_product_backward)
    result = torch.library.opcheck(function.op, (vector(), vector()))
    assert set(result.values()) == {"SUCCESS"}


def test_the_same_pair_is_the_same_op():
    one, two = (pyptx.differentiable_kernel(cube, cube_backward) for _ in range(2))
    assert one.op is two.op
    assert one.op is not pyptx.differentiable_kernel(cube, cube_backward, num_grad_inputs=0).op


def test_autocast_reaches_the_gradients():
    function = FUNCTIONS["rms_norm"].run_for((torch.float32,) * 2, False, True)
    x, w = torch.randn(2, 8, dtype=torch.bfloat16, requires_grad=True), torch.randn(8, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = function(x, w)
    assert y.dtype is torch.float32
    y.sum().backward()
    assert x.grad.dtype is torch.bfloat16 and w.grad.dtype is torch.float32


def test_pairs_that_do_not_fit_are_refused():
    for options, error, message in (
        ({"save_for_backward": [1]}, ValueError, "cube has inputs 0 to 0, not 1"),
        ({"num_grad_inputs": 2}, ValueError, "cube has 1 inputs, not 2"),
        ({"save_for_backward": []}, TypeError, "cube_backward takes 2 tensors but is given 1"),
        ({"num_grad_outputs": 2}, ValueError, "cube has 1 outputs, not 2"),
        ({"num_grad_outputs": 0}, ValueError, "cube has 1 outputs, not 0"),
    ):
        with pytest.raises(error, match=message):
            pyptx.differentiable_kernel(cube, cube_backward, **options)
    with pytest.raises(TypeError, match="made by @pyptx.kernel"):
        pyptx.differentiable_kernel(lambda x: x, cube_backward)
    with pytest.raises(TypeError, match="must be a kernel or a function"):
        pyptx.differentiable_kernel(cube, None)
    few = pyptx.differentiable_kernel(swap_product, lambda x, y, g, h: (g,))
    with pytest.raises(TypeError, match="gave 1 gradients for 2 inputs"):
        few(vector(), vector())[0].sum().backward()


def test_the_documented_names():
    x = vector().detach()
    assert torch_support.is_torch_tensor(x) and not torch_support.is_torch_tensor(x.numpy())
    assert torch_support.any_torch_tensors([1, x]) and not torch_support.any_torch_tensors([1])
    assert torch_support.extract_input_shapes([x, x]) == ((32,), (32,))
    launch = {
        "out_specs": cube.out_specs,
        "grid": (1, 1, 1),
        "block": (32, 1, 1),
        "cluster": (1, 1, 1),
        "smem_bytes": 0,
    }
    for call in (torch_support.call_kernel_via_torch, torch_support.call_kernel_via_torch_compile):
        torch.testing.assert_close(call(x, cubin_handle=cube, out_shape_env={"N": 32}, **launch), x**3)
    specs, *rest = launch.values()
    op = torch_support.get_or_register_torch_op(cube, specs, {"N": 32}, *rest)
    torch.testing.assert_close(op(x), x**3)
    torch.testing.assert_close(op([x]), [x**3])
    with pytest.raises(TypeError, match="cubin_handle is the kernel itself"):
        torch_support.get_or_register_torch_op(7)
    with pytest.raises(ValueError, match=r"has block=\(32, 1, 1\)"):
        torch_support.call_kernel_via_torch(x, cubin_handle=cube, block=(64, 1, 1))
    with pytest.raises(TypeError, match="'threads' is none of"):
        torch_support.call_kernel_via_torch(x, cubin_handle=cube, threads=1)
