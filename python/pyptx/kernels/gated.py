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

from pyptx import ptx
from pyptx.errors import LaunchValueError
from pyptx.kernels._call import RowFunction, matrix, rank_of, shorter
from pyptx.kernels._keywords import Nothing, Unpack, no_such_argument
from pyptx.kernels._registers import add, apply, constant, exp, fma, mul, neg, reciprocal, square, sub
from pyptx.kernels._rows import Row
from pyptx.kernels._rows_split import paired, row_kernel

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
        gates, ups, two, three = matrix(gate_type), matrix(up_type), paired(split), paired(split, 2)

        def forward(GATE, UP, Y):
            row = Row.own(two(GATE.shape[1]), agrees=False)
            row.store(Y, row.map(lambda gate, up: mul(activation(gate)[0], up), row.load(GATE), row.load(UP)))
            ptx.ret()

        def backward(GATE, UP, G, DGATE, DUP):
            row = Row.own(three(GATE.shape[1]), agrees=False)
            gate, up, g = row.load(GATE), row.load(UP), row.load(G)
            row.store(DGATE, row.map(lambda gate, up, g: mul(mul(g, up), activation(gate)[1]()), gate, up, g))
            row.store(DUP, row.map(lambda gate, g: mul(g, activation(gate)[0]), gate, g))
            ptx.ret()

        forward.__name__ = forward.__qualname__ = name
        backward.__name__ = backward.__qualname__ = name + "_backward"
        return (
            row_kernel((gates, ups), (gates,), two, pieces=pieces)(forward),
            row_kernel((gates, ups, gates), (gates, ups), three, pieces=pieces)(backward),
        )

    return RowFunction(name, 2, of, over_rows=False, names="gate up")


SWIGLU, GEGLU, GEGLU_BY_TANH = make("swiglu", silu), make("geglu", gelu), make("geglu_by_tanh", gelu_by_tanh)


def halves(name: str, gate, up) -> tuple:
    """(gate, up); without `up`, the halves of the rows of `gate`."""
    if up is not None:
        return gate, up
    rank_of(name, "gate", gate)
    columns = gate.shape[-1]
    if columns % 2:
        raise LaunchValueError(f"{name}: rows of {columns} elements have no halves: pass gate and up")
    return gate[..., : columns // 2], gate[..., columns // 2 :]


def swiglu(gate: Any, up: Any = None, *, out: Any = None, **named: Unpack[Nothing]) -> Any:
    """silu(gate) * up, element by element, as torch.nn.functional.silu(gate) * up.  f32, f16 or bf16, computed in f32.

    gate, up: both (..., N).  swiglu(x) takes the first half of each row as gate and the second as up; they are copied first.
    Differentiable.

    Raises LaunchTypeError for other types and what is no array, LaunchValueError for shapes that do not fit.

    Example:
        y = kernels.swiglu(torch.randn(4, 64), torch.randn(4, 64))
    """
    for name in named:
        raise no_such_argument(swiglu, name)
    return SWIGLU(halves("swiglu", gate, up), out)


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
    return (GEGLU_BY_TANH if approximate == "tanh" else GEGLU)(halves("geglu", gate, up), out)
