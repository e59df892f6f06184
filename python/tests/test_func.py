"""Device functions, variables of the module, tables of calls: what runs on the simulator, and what is refused where."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pyptx import Tile, kernel, ptx, reg
from pyptx._trace import trace_scope
from pyptx.errors import AuthoringError, AuthoringTypeError, AuthoringValueError
from pyptx.frameworks.identity import fingerprint
from pyptx.types import b64, bf16, f32, f64, pred, u8, u16, u32, u64

WEIGHTS = np.linspace(0, 1, 8, dtype=np.float32)
TABLE = ptx.const(f32, init=WEIGHTS, name="weights")


@ptx.func
def factorial(n: u32) -> u32:
    with ptx.if_(n == 0):
        ptx.ret(1)
    return n * factorial(n - 1)


@ptx.func
def is_even(n: u32) -> u32:
    with ptx.if_(n == 0):
        ptx.ret(1)
    return is_odd(n - 1)


@ptx.func
def is_odd(n: u32) -> u32:
    with ptx.if_(n == 0):
        ptx.ret(0)
    return is_even(n - 1)


@ptx.func
def swap(pair: (f64, u32), bytes_: ptx.param_array(8, align=4)) -> (u32, f64):
    low = reg.scalar(u32)
    ptx.inst.ld.param.u32(low, ptx.addr(bytes_, 4))
    return pair[1] + low, pair[0]


@ptx.func
def scaled(x: u32, *, by: int = 2) -> u32:
    return x * by


def run(body, count=32):
    """What `body` makes of each thread's number."""

    @kernel(in_specs=(Tile(count, u32),), out_specs=(Tile(count, u32),), grid=1, block=(count, 1, 1))
    def k(X, Y):
        x, y = ptx.global_ptrs(X, Y)
        at = reg.from_(ptx.special.tid.x(), u32) * 4
        value = reg.scalar(u32)
        ptx.inst.ld.global_.u32(value, ptx.addr(x + at))
        ptx.inst.st.global_.u32(ptx.addr(y + at), body(value))
        ptx.ret()

    return k(np.arange(count, dtype=np.uint32)), k


def trace(body) -> str:
    return kernel(body).ptx()


def refused(kind, match, body):
    with pytest.raises(kind, match=match) as caught:
        trace(body)
    return caught.value


def test_recursion():
    found, k = run(lambda x: factorial(x & 7))
    assert found.tolist() == [int(np.prod(np.arange(1, (i & 7) + 1))) for i in range(32)]
    text = k.ptx()
    assert text.count(".func") == 1 and "call (retval0), factorial, (param0);" in text


def test_mutual_recursion_has_a_prototype():
    found, k = run(is_even)
    assert found.tolist() == [1, 0] * 16
    assert re.findall(r"\.func \(.*\) (\w+)\([^)]*\)(;?)", k.ptx()) == [
        ("is_even", ";"),
        ("is_odd", ""),
        ("is_even", ""),
    ]


def test_structures_and_bytes():
    def body(x):
        number, real = swap((reg.scalar(f64, 2.0), x), [x, x])
        ptx.inst.cvt.rzi.u32.f64(x, real)
        return number + x

    assert run(body)[0].tolist() == [2 * i + 2 for i in range(32)]


def test_template_values_make_functions_of_their_own():
    found, k = run(lambda x: scaled(x) + scaled(x, by=5) + scaled(x, by=2))
    assert found.tolist() == [9 * i for i in range(32)]
    assert re.findall(r"\) (scaled\w*)\(", k.ptx()) == ["scaled", "scaled_1"]


def test_registers():
    @ptx.func(registers=True, params=(u32, u32), returns=(u32, u32))
    def both(a, b):
        return a + b, a - b

    def body(x):
        total, difference = both(x, 3)
        return total * difference

    found, k = run(body)
    assert found.tolist() == [(i * i - 9) & 0xFFFFFFFF for i in range(32)]
    assert re.search(r"call \(%r\d+, %r\d+\), both, \(%r\d+, 3\);", k.ptx())


def test_calls_through_registers():
    @ptx.func
    def one(x: u32) -> u32:
        return x + 1

    @ptx.func
    def two(x: u32) -> u32:
        return x + 2

    def body(x):
        table = ptx.const(u64, init=[one, two])
        pointer = reg.scalar(u64)
        ptx.inst.ld.const.u64(pointer, table[x & 1])
        y = ptx.call_targets(one, two)(pointer, x)
        ptx.inst.mov.u64(pointer, two)
        return ptx.prototype((u32,), u32)(pointer, ptx.alias("uno", one)(y))

    assert run(body)[0].tolist() == [i + (2 if i & 1 else 1) + 3 for i in range(32)]


def test_branch_table():
    def body(x):
        y = reg.scalar(u32, 0)
        ptx.inst.brx.idx(x & 1, ptx.branch_targets(["even", "odd"]))
        ptx.label("odd")
        ptx.inst.mov.u32(y, 7)
        ptx.label("even")
        return y

    assert run(body)[0].tolist() == [0, 7] * 16


def test_table_of_the_module():
    def body(x):
        first, second, third = (reg.scalar(f32) for _ in range(3))
        ptx.inst.ld.const.f32(first, TABLE[x & 7])
        ptx.inst.ld.const.f32(second, TABLE[2])
        ptx.ld(f32, third, ptx.addr(TABLE, 28), space="const")
        ptx.add(f32, first, first, second)
        ptx.add(f32, first, first, third)
        ptx.inst.mov.b32(x, first)
        return x

    found, k = run(body)
    assert found.view(np.float32).tolist() == [WEIGHTS[i & 7] + WEIGHTS[2] + WEIGHTS[7] for i in range(32)]
    assert k.ptx().count("weights[8] =") == 1


def test_initial_values_as_the_simulator_reads_them():
    words = ptx.global_(u32, (None, 2), init=np.array([[1, 2], [3, 4]]), name="words")

    def body(x):
        text = ptx.global_(u8, init="hi")
        bits = ptx.global_(bf16, init=[1.0, -2.0])
        pointers = ptx.global_(u64, init=[words, words + 8, ptx.generic(words) + 4])
        low = ptx.global_(u8, init=[ptx.mask(0xFF00, 0x1234), ptx.mask(0xFF, ptx.generic(words) + 4)])
        got, p, q = reg.scalar(u32), reg.scalar(u64), reg.scalar(u64)
        for address in (pointers[1], pointers[2]):
            ptx.inst.ld.global_.u64(p, address)
            ptx.inst.ld.global_.u32(got, ptx.addr(p))
            x += got
        for values, size in ((text[1], "u8"), (bits[1], "u16"), (low[0], "u8")):
            getattr(ptx.inst.ld.global_, size)(got, values)
            x += got
        ptx.inst.ld.global_.u8(q, low[1])
        p &= 255
        same = q == p
        with ptx.if_(same):
            x += 1
        return x

    assert run(body)[0].tolist() == [i + 3 + 2 + ord("i") + 0xC000 + 0x12 + 1 for i in range(32)]


def test_shared_variable_of_the_module():
    ring = ptx.shared(u32, 32, name="ring")

    @ptx.func
    def turned(i: u32) -> u32:
        found = reg.scalar(u32)
        ptx.inst.ld.shared.u32(found, ring[(i + 1) & 31])
        return found

    def body(x):
        ptx.inst.st.shared.u32(ring[x], x)
        ptx.bar.sync(0)
        return turned(x)

    assert run(body)[0].tolist() == [(i + 1) % 32 for i in range(32)]


def test_the_example_is_the_exponential():
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from examples.polynomial import build_exponential

    x = np.linspace(-4, 4, 256, dtype=np.float32)
    assert np.allclose(build_exponential()(x), np.exp(x), rtol=1e-5)


def test_text_of_the_module():
    def body():
        ptx.module_text('.pragma "nounroll";')
        ptx.module_text(".weak .global .u32 made[2] = {1, 2};")
        ptx.module_text(".section .debug_str\n{\ninfo:\n.b8 104, 105, 0\n}")
        ptx.inst.ld.global_.u32(reg.scalar(u32), ptx.addr("made", 4))
        ptx.ret()

    text = trace(body)
    assert (
        text.index(".pragma") < text.index(".weak .global .u32 made[2]") < text.index(".entry") < text.index(".section")
    )


def test_a_kernel_and_its_functions_have_one_name_everywhere():
    def one(table):
        @ptx.func
        def helper(x: u32) -> u32:
            y = reg.scalar(u32)
            ptx.inst.ld.const.u32(y, table[x])
            return y

        @kernel
        def k():
            helper(1)
            ptx.ret()

        return k

    names = [fingerprint(one(ptx.const(u32, init=list(values)))) for values in ([1, 2], [1, 2], [1, 3])]
    assert names[0] == names[1] != names[2]


def test_a_second_kernel_has_its_own_copy():
    assert run(factorial)[0][3] == 6
    assert run(factorial)[0][4] == 24


# Refusals.


def test_arguments_are_judged_at_the_call():
    def count():
        factorial(1, 2)

    error = refused(AuthoringError, r"`factorial` takes 1 argument, not 2", count)
    assert f"{__file__}:{count.__code__.co_firstlineno + 1}" in str(error)
    refused(AuthoringError, r"argument 1 \(n\) is \.u32, not %f0 of type \.f32", lambda: factorial(reg.scalar(f32)))
    refused(AuthoringError, r"argument 1 \(n\) is \.u32, not 1\.5", lambda: factorial(1.5))
    refused(AuthoringError, r"argument 1 \(pair\) is \.f64, \.u32: 2 values, not 1", lambda: swap(1.0, [1]))
    refused(AuthoringError, r"argument 2 \(bytes_\) has 8 bytes; the values have 12",
            lambda: swap((1.0, 1), [reg.scalar(u32) for _ in range(3)]))  # fmt: skip
    refused(AuthoringError, r"argument 2 \(bytes_\) is bytes: registers", lambda: swap((1.0, 1), [1, 2]))
    refused(
        AuthoringError,
        "a call with a guard may leave its result undefined",
        lambda: factorial(1, pred=reg.scalar(pred)),
    )
    refused(AuthoringTypeError, "has no template parameter 'times'; it has by", lambda: scaled(1, times=3))


def test_results_are_judged_at_the_return():
    def returns(value, kind):
        return lambda: ptx.func(params=(), returns=kind)(lambda: value)()

    refused(AuthoringError, "returns nothing", returns(1, None))
    refused(AuthoringError, "ends without a result", returns(None, u32))
    refused(AuthoringError, r"the result is \.u32: 1 value, not 2", returns((1, 2), u32))
    refused(AuthoringError, "is a kernel: it returns nothing", lambda: ptx.ret(1))

    def guarded():
        @ptx.func
        def f(x: u32) -> u32:
            ptx.ret(x, pred=reg.scalar(pred))

        f(1)

    refused(AuthoringError, "ret with a value takes no guard", guarded)


def test_signatures():
    with pytest.raises(AuthoringTypeError, match="parameter x of f has no type: write `x: u32`"):

        @ptx.func
        def f(x): ...

    with pytest.raises(AuthoringTypeError, match=r"parameter x of f must be a type \(u32\), a tuple of types"):

        @ptx.func
        def f(x: int): ...

    with pytest.raises(AuthoringTypeError, match="annotations of f cannot be read: name 'unknown' is not defined"):

        @ptx.func
        def f(x: unknown): ...  # noqa: F821

    with pytest.raises(
        AuthoringTypeError, match="linkage of f must be one of '', 'visible', 'weak', 'extern', not 'common'"
    ):

        @ptx.func(linkage="common")
        def f(): ...

    with pytest.raises(AuthoringTypeError, match="f has 1 parameters, params= has 2"):

        @ptx.func(params=(u32, u32))
        def f(x): ...

    with pytest.raises(AuthoringTypeError, match=r"\*xs cannot be a parameter in PTX"):

        @ptx.func
        def f(*xs: u32): ...

    refused(
        AuthoringError,
        "a function cannot take or return a predicate",
        lambda: ptx.func(lambda x: None, params=(pred,))(1),
    )
    refused(
        AuthoringError, "must have 32 bits or more", lambda: ptx.func(lambda x: None, params=(u16,), registers=True)(1)
    )
    refused(AuthoringError, "`factorial` is declared already in this module",
            lambda: (factorial(1), ptx.func(lambda: None, params=(), name="factorial")()))  # fmt: skip
    with pytest.raises(RuntimeError, match="No active kernel trace"):
        factorial(3)


def test_variables():
    with pytest.raises(AuthoringTypeError, match="the type of variable v must be one of pyptx.types, not 'u32'"):
        ptx.global_("u32", name="v")
    with pytest.raises(AuthoringValueError, match="linkage of variable must be one of"):
        ptx.global_(u32, linkage="static")
    with pytest.raises(AuthoringValueError, match="vector= of variable must be 1, 2 or 4, not 3"):
        ptx.global_(u32, vector=3)
    with pytest.raises(AuthoringValueError, match="a dimension must be a number from 1, not 0"):
        ptx.global_(u32, (2, 0))
    with pytest.raises(AuthoringValueError, match="not None; the first may be None"):
        ptx.global_(u32, (None,))
    with pytest.raises(AuthoringValueError, match="mask covers one byte"):
        ptx.mask(0xFFFF, 1)
    refused(AuthoringError, "3 values for 2 elements", lambda: ptx.global_(u32, 2, [1, 2, 3]))
    refused(AuthoringError, r"256 is not a value of \.u8", lambda: ptx.global_(u8, init=256))
    refused(AuthoringError, r"a real number for \.u32", lambda: ptx.global_(u32, init=0.5))
    refused(AuthoringError, r"an address in \.u16", lambda: ptx.global_(u16, init=factorial))
    refused(TypeError, "an initial value is a number, bytes, a str, a list", lambda: ptx.global_(u32, init=object()))
    refused(AuthoringError, "element 8 of `weights`, which has 8", lambda: TABLE[8])
    refused(TypeError, "indexed by an int or a register, not 'x'", lambda: TABLE["x"])
    refused(AuthoringError, "a number or a 32-bit integer register", lambda: TABLE[reg.scalar(b64)])
    refused(AuthoringError, "an index is a register of another kernel", lambda: TABLE[foreign()])
    refused(AuthoringError, "`weights` is declared already",
            lambda: (TABLE[0], ptx.const(f32, init=[1.0], name="weights")))  # fmt: skip


def foreign():
    with trace_scope():
        return reg.scalar(u32)
