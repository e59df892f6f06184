"""Gated activations, element by element: swiglu = silu(gate) up, geglu = gelu(gate) up.

silu(x) = x s with s = 1 / (1 + exp(-x)); silu'(x) = s (1 + x (1 - s)).
gelu(x) = x p with p = (1 + erf(x / sqrt 2)) / 2; gelu'(x) = p + x exp(-x x / 2) / sqrt(2 pi).  erf is computed by formula 7.1.26 of
Abramowitz and Stegun, whose error is below 1.5e-7.
gelu by tanh: x (1 + tanh(z)) / 2 = x s with s = 1 / (1 + exp(-2 z)) and z = sqrt(2 / pi) (x + 0.044715 x^3);
its derivative is s + x s (1 - s) 2 z'.

An activation is a function from a register to (value, derivative), where the derivative is a function: only a backward calls it, which
then writes the instructions for it.
"""

import math
from typing import Any

from pyptx import Tile, ptx
from pyptx.errors import LaunchValueError
from pyptx.kernels._checks import rank_of
from pyptx.kernels._keywords import Nothing, Unpack, no_such_argument
from pyptx.kernels._registers import add, apply, constant, exp, fma, mul, neg, reciprocal, square, sub
from pyptx.kernels._row_function import Argument, RowFunction
from pyptx.kernels._rows.apart import Half
from pyptx.kernels._rows.row import Row
from pyptx.kernels._rows.split import paired, row_kernel, shorter, without_edges
from pyptx.kernels._rows.tiles import matrix

__all__ = ["geglu", "swiglu"]

TWICE, CUBE = 2 * math.sqrt(2 / math.pi), 0.044715
ERF_P = 0.3275911
ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)  # of t^5, t^4, ... t


def silu(x):
    """(silu(x), its derivative)."""
    s = reciprocal(fma(exp(neg(x)), 1.0, 1.0))
    return mul(x, s), lambda: mul(s, fma(x, sub(1.0, s), 1.0))


def gelu(x):
    """(gelu(x), its derivative)."""
    z = mul(apply(ptx.inst.abs.f32, x), math.sqrt(0.5))
    t = reciprocal(fma(z, ERF_P, 1.0))
    polynomial = constant(ERF[0])
    for coefficient in ERF[1:]:
        polynomial = fma(polynomial, t, coefficient)
    bell = exp(neg(square(z)))  # exp(-x x / 2)
    erf = apply(ptx.inst.copysign.f32, x, fma(mul(polynomial, t), neg(bell), 1.0))
    half = fma(erf, 0.5, 0.5)
    return mul(x, half), lambda: fma(mul(x, bell), 1 / math.sqrt(2 * math.pi), half)


def gelu_by_tanh(x):
    """(gelu(x) by tanh, its derivative)."""
    xx = square(x)
    s = reciprocal(add(exp(mul(x, fma(xx, -TWICE * CUBE, -TWICE))), 1.0))
    y = mul(x, s)
    return y, lambda: fma(mul(y, sub(1.0, s)), fma(xx, 3 * TWICE * CUBE, TWICE), s)


def pieces(n: int) -> int:
    """Into how many a row is cut."""
    return n // shorter(n) if n else 1


def make(name: str, activation):
    def of(split, gate_type, up_type):
        gates, ups = matrix(gate_type), matrix(up_type)

        def forward(GATE, UP, Y):
            gated(split, activation, GATE, UP, Y)

        def backward(GATE, UP, G, DGATE, DUP):
            gated_backward(split, activation, GATE, UP, G, DGATE, DUP)

        return kernels_of(name, split, forward, ((gates, ups), (gates,)), backward, ((gates, ups, gates), (gates, ups)))

    return RowFunction(name, of, Argument("gate", "rows"), Argument("up", "rows"), cut=True)


def make_of_halves(name: str, activation):
    """The function of one matrix, whose rows are a gate and an up one behind the other; so is its gradient."""

    def of(split, dtype):
        both, one, split = (Tile("M", "H", dtype, align=16),), (matrix(dtype),), without_edges(split)

        def forward(X, Y):
            gated(split, activation, *halves_of(X), Y)

        def backward(X, G, DX):
            gated_backward(split, activation, *halves_of(X), G, *halves_of(DX))

        return kernels_of(name, split, forward, (both, one), backward, ((*both, *one), both))

    return RowFunction(f"{name}_of_halves", of, Argument("gate", "rows"), called=name, cut=True, halves=True, N=None)


def halves_of(tensor) -> list[Half]:
    return [Half(tensor, which, pieces(tensor.shape[1] // 2)) for which in range(2)]


def kernels_of(name: str, split, forward, forward_tiles, backward, backward_tiles) -> tuple:
    forward.__name__ = forward.__qualname__ = name
    backward.__name__ = backward.__qualname__ = name + "_backward"
    return (
        row_kernel(*forward_tiles, paired(split), pieces=pieces)(forward),
        row_kernel(*backward_tiles, paired(split, 2), pieces=pieces)(backward),
    )


def gated(split, activation, GATE, UP, Y):
    row = row_of(paired(split), GATE)
    row.store(Y, row.map(lambda gate, up: mul(activation(gate)[0], up), row.load(GATE), row.load(UP)))
    ptx.ret()


def gated_backward(split, activation, GATE, UP, G, DGATE, DUP):
    row = row_of(paired(split, 2), GATE)
    gate, up, g = row.load(GATE), row.load(UP), row.load(G)
    row.store(DGATE, row.map(lambda gate, up, g: mul(mul(g, up), activation(gate)[1]()), gate, up, g))
    row.store(DUP, row.map(lambda gate, g: mul(g, activation(gate)[0]), gate, g))
    ptx.ret()


def row_of(split, gate) -> Row:
    """A piece of a row."""
    n = gate.shape[1]
    return Row.own(split(n // pieces(n)), agrees=False, pieces=pieces(n))


SWIGLU, GEGLU, GEGLU_BY_TANH = make("swiglu", silu), make("geglu", gelu), make("geglu_by_tanh", gelu_by_tanh)
SWIGLU_OF_HALVES, GEGLU_OF_HALVES = make_of_halves("swiglu", silu), make_of_halves("geglu", gelu)
GEGLU_BY_TANH_OF_HALVES = make_of_halves("geglu_by_tanh", gelu_by_tanh)


def of_halves(whole: RowFunction, gate, out):
    """`whole` of the rows of one tensor, whose halves it takes."""
    rank_of(whole.called, "gate", gate)
    columns = gate.shape[-1]
    if columns % 2:
        raise LaunchValueError(f"{whole.called}: rows of {columns} elements have no halves: pass gate and up")
    return whole((gate,), out, N=columns // 2)


def swiglu(gate: Any, up: Any = None, *, out: Any = None, **named: Unpack[Nothing]) -> Any:
    """silu(gate) * up, element by element, as torch.nn.functional.silu(gate) * up.  f32, f16 or bf16, computed in f32.

    gate, up: both (..., N).  swiglu(x) takes the first half of each row as gate and the second as up.
    Differentiable.

    Raises LaunchTypeError for other types and what is no array, LaunchValueError for shapes that do not fit.

    Example:
        y = kernels.swiglu(torch.randn(4, 64), torch.randn(4, 64))
    """
    for name in named:
        raise no_such_argument(swiglu, name)
    if up is None:
        return of_halves(SWIGLU_OF_HALVES, gate, out)
    return SWIGLU((gate, up), out)


def geglu(gate: Any, up: Any = None, *, approximate: str = "none", out: Any = None, **named: Unpack[Nothing]) -> Any:
    """gelu(gate) * up, as torch.nn.functional.gelu(gate, approximate=approximate) * up.

    approximate: "none", by the error function, with an absolute error below 4e-7 of |gate up|; or "tanh".  Types and shapes are those of
    `swiglu`; geglu(x) takes the halves of each row, too.

    Raises LaunchTypeError and LaunchValueError as `swiglu` does, and LaunchValueError for another `approximate`.

    Example:
        y = kernels.geglu(torch.randn(4, 64), torch.randn(4, 64), approximate="tanh")
    """
    for name in named:
        raise no_such_argument(geglu, name)
    if approximate not in ("none", "tanh"):
        raise LaunchValueError(f"geglu: approximate is 'none' or 'tanh', not {approximate!r}")
    of_two, of_one = (GEGLU_BY_TANH, GEGLU_BY_TANH_OF_HALVES) if approximate == "tanh" else (GEGLU, GEGLU_OF_HALVES)
    return of_halves(of_one, gate, out) if up is None else of_two((gate, up), out)
