"""Activations of an epilogue, in few instructions: functions of an f32 register, for results of a type.

    relu(x) = max(x, 0),  gelu(x) = relu(x) - t Q(t),  silu(x) = relu(x) - t / (1 + exp t),  with t = |x|

Q(t) = erfc(t / sqrt 2) / 2 is 2 to the power of a polynomial, and 1 / (1 + exp t) is e = exp(-t) times a polynomial of e.  Each activation asks the unit of
special functions, which takes 16 values a clock, once; a quotient would ask it twice.  The differences cancel nothing: where x is
negative, relu(x) is 0.  So what errors there are, before the result is rounded, are relative to it: 3e-4 for bf16 and 6e-5 for f16, for gelu down to
x = -5; for f32 they are below 3e-7 |x|.
"""

from functools import partial

from pyptx import ptx
from pyptx.kernels._registers import LOG2_E, apply, constant, fma, mul, neg
from pyptx.types import bf16, f16, f32

__all__ = ["ACTIVATIONS", "GATED", "activated"]

# Tuples, because a list or dict, which can change, would be compared at each call of a kernel whose body reads it.
ACTIVATIONS, GATED = ("relu", "gelu", "silu"), ("swiglu", "geglu")

# For each type of the result: the largest t (beyond, the result is relu(x)), and the coefficients of 1, t, t^2 ... in log2 Q(t), fitted over
# [0, 5], [0, 5.5] and [0, 6].
GELU = {
    bf16: (13.0, (-1.00022834, -1.14778896, -0.466907355, -0.0463193968, 0.00529736196, -0.000269918858)),
    f16: (11.0, (-1.00003606, -1.15058399, -0.460329481, -0.0519704042, 0.0074883095, -0.000660981161, 2.61537473e-05)),
    f32: (
        12.0,
        (-0.999999707, -1.15111936, -0.459097046, -0.0528180133, 0.00750642436, -0.000458250454, -6.05939544e-05, 1.44589517e-05, -8.72823166e-07),
    ),
}  # fmt: skip
# The coefficients of 1, e, e^2 ... in 1 / (1 + e), for e of 0 to 1.
SILU = {
    bf16: (0.999702651, -0.984835014, 0.86589367, -0.532857683, 0.152245051),
    f16: (0.999948983, -0.996275715, 0.953420812, -0.770573051, 0.417937949, -0.104484486),
    f32: (0.999999742, -0.999958, 0.998844859, -0.987416596, 0.928642623, -0.758851071, 0.470719883, -0.185754936, 0.0337736245),
}  # fmt: skip
LARGEST = 88.0  # exp of -88 is 0 in ex2.approx.ftz


def relu(x):
    return apply(ptx.inst.max.NaN.f32, x, constant(0.0))


def polynomial(coefficients, x):
    result = constant(coefficients[-1])
    for each in coefficients[-2::-1]:
        result = fma(result, x, each)
    return result


def size(x, largest: float):
    return apply(ptx.inst.min.f32, apply(ptx.inst.abs.f32, x), largest)


def gelu(x, dtype):
    largest, coefficients = GELU[dtype]
    t = size(x, largest)
    return fma(neg(t), apply(ptx.inst.ex2.approx.ftz.f32, polynomial(coefficients, t)), relu(x))


def silu(x, dtype):
    t = size(x, LARGEST)
    e = apply(ptx.inst.ex2.approx.ftz.f32, mul(t, -LOG2_E))
    return fma(neg(mul(t, e)), polynomial(SILU[dtype], e), relu(x))


def activated(name: str, values: list, dtype) -> list:
    """The activation of the values; of gates, which come first, and as many ups: half as many.  dtype: what the results are rounded to."""
    of = relu if name == "relu" else partial(gelu if name in ("gelu", "geglu") else silu, dtype=dtype)
    if name not in GATED:
        return [of(value) for value in values]
    gates, ups = values[: len(values) // 2], values[len(values) // 2 :]
    return [mul(of(gate), up) for gate, up in zip(gates, ups, strict=True)]
