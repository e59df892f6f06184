"""Operators on registers, elements of shared memory, and what of the body is refused at its line."""

import inspect
import math
import re

import numpy as np
import pytest

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.errors import AuthoringError, AuthoringTypeError, AuthoringValueError
from pyptx.types import b8, b16, b32, bf16, bf16x2, e4m3, f16, f16x2, f32, f64, pred, s16, s32, tf32, u8, u16, u32, u64


def written(body, **options) -> list[str]:
    """Instructions of a body, without those that give the registers x and y."""

    def k():
        body()
        ptx.ret()

    text = kernel(k, **options).ptx()
    lines = [line.strip() for line in text[text.index("{") :].splitlines() if line.endswith(";")]
    return [line for line in lines if not line.startswith((".reg", ".shared", "ret"))]


REAL = {f32: "f32", f64: "f64", f16: "f16", bf16: "bf16", f16x2: "f16x2", bf16x2: "bf16x2"}
WHOLE = {u16: "u16", s16: "s16", b16: "u16"}


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_arithmetic_is_the_instruction_of_the_type(dtype):
    def body():
        x, y = reg.scalar(dtype), reg.scalar(dtype)
        x + y, x - y, x * y, -x, x.max(y)
        x *= y

    name = REAL[dtype]
    assert [line.split()[0] for line in written(body)] == [
        f"{op}.{name}" for op in ("add", "sub", "mul", "neg", "max", "mul")
    ]


@pytest.mark.parametrize("dtype", [f32, f64, f16, bf16], ids=str)
def test_comparisons_of_floating_point(dtype):
    def body():
        x, y = reg.scalar(dtype), reg.scalar(dtype)
        x < y, x <= y, x == y, x != y, x > y, x >= y

    names = ["lt", "le", "eq", "ne", "gt", "ge"]
    assert [line.split()[0] for line in written(body)] == [f"setp.{op}.{REAL[dtype]}" for op in names]


def test_a_comparison_of_halves_has_two_results():
    def body():
        x, y = reg.scalar(f16x2), reg.scalar(f16x2)
        low, high = x < y
        assert (low.dtype, high.dtype) == (pred, pred)
        ptx.bra("out", pred=low & high)
        ptx.label("out")

    assert written(body)[0] == "setp.lt.f16x2 %p0|%p1, %hh0, %hh1;"


@pytest.mark.parametrize(
    ("dtype", "literal"), [(f32, "0f40200000"), (f64, "0d4004000000000000"), (f16, 16640), (bf16, 16416), (f16x2, 1090535680)],
    ids=str,
)  # fmt: skip
def test_numbers_beside_floating_point_are_of_its_type(dtype, literal):
    def body():
        x = reg.scalar(dtype)
        x * 2.5
        2.5 - x

    text = "\n".join(written(body))
    assert text.count(str(literal)) == 2
    assert ("mov" in text) == isinstance(literal, int)  # PTX has no literals of 16 bits


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_integers_of_16_bits(dtype):
    def body():
        x, y, n = reg.scalar(dtype), reg.scalar(dtype), reg.scalar(u32)
        x + y, x - 1, x * y, x << n, x >> 2, x & y, x | 3, x ^ y, ~x, -x, x < y, x.min(y)

    t = WHOLE[dtype]
    expected = [
        "add",
        "sub",
        "mul.lo",
        "shl.b16",
        "shr",
        "and.b16",
        "or.b16",
        "xor.b16",
        "not.b16",
        "neg.s16",
        "setp.lt",
        "min",
    ]
    assert [line.split()[0] for line in written(body)] == [op if op[-1] == "6" else f"{op}.{t}" for op in expected]


def test_narrow_integers_are_widened_by_their_sign():
    def body():
        s, u = reg.scalar(s16), reg.scalar(u16)
        s + reg.scalar(s32)
        reg.scalar(u64) + u

    lines = written(body)
    assert [line.split()[0] for line in lines] == ["cvt.s32.s16", "add.s32", "cvt.u64.u16", "add.s64"]


def test_operators_compute_on_the_simulator():
    @kernel(in_specs=(Tile(32, b32), Tile(32, b16)), out_specs=(Tile(32, b32), Tile(32, b16)), block=32)
    def k(X, B, Y, C):
        px, pb, py, pc = ptx.global_ptrs(X, B, Y, C)
        lane = reg.from_(ptx.special.tid.x(), u32)
        x, b = reg.scalar(f16x2), reg.scalar(bf16)
        ptx.inst.ld.global_.b32(x, ptx.addr(px + lane * 4))
        ptx.inst.ld.global_.b16(b, ptx.addr(pb + lane * 2))
        ptx.inst.st.global_.b32(ptx.addr(py + lane * 4), (x * 2 - 0.5) * -x)
        ptx.inst.st.global_.b16(ptx.addr(pc + lane * 2), b * b + 1)
        ptx.ret()

    x = np.arange(64, dtype=np.float16) / 8
    b = np.arange(32, dtype=np.float32)
    y, c = k(x.view(np.uint32), (b.view(np.uint32) >> 16).astype(np.uint16))
    np.testing.assert_array_equal(y.view(np.float16), (x * np.float16(2) - np.float16(0.5)) * -x)
    expected = (b * b + 1).astype(np.float32)
    np.testing.assert_allclose((c.astype(np.uint32) << 16).view(np.float32), expected, rtol=2**-7)


@pytest.mark.parametrize(
    ("expression", "legal"),
    [
        (lambda: reg.scalar(f32) / 2, r"div\.rn\.f32\(d, a, b\) .* ptx\.inst\.div\.full\.f32 or ptx\.inst\.div\.approx\.f32"),
        (lambda: 1.0 / reg.scalar(f64), r"div\.rn\.f64"),
        (lambda: reg.scalar(u32) / 2, r"ptx\.inst\.div\.u32\(d, a, b\) .* or >> for a power of two"),
        (lambda: reg.scalar(s32) // 2, r"div\.s32"),
        (lambda: reg.scalar(u16) % 8, r"ptx\.inst\.rem\.u16\(d, a, b\), or & \(n - 1\)"),
        (lambda: reg.scalar(f32) // 2, r"div\.rn\.f32\(d, a, b\) and ptx\.inst\.cvt\.rmi\.f32\.f32"),
        (lambda: reg.scalar(f16) / 2, r"PTX divides f32 and f64: convert f16"),
        (lambda: reg.scalar(e4m3) + 1, r"`\+` takes integers of 16, 32 and 64 bits, .*f16x2.*; not e4m3: convert it first"),
        (lambda: reg.scalar(u8) * 2, r"not u8: convert it first"),
        (lambda: reg.scalar(tf32) - reg.scalar(tf32), "not tf32"),
        (lambda: reg.scalar(f32) + reg.scalar(s32), "registers of one type, not f32 and s32: convert one first"),
        (lambda: reg.scalar(f32) << 1, r"`<<` takes integers of 16, 32 and 64 bits; not f32"),
        (lambda: reg.scalar(u32) + 1.5, r"`\+` beside u32 takes registers and integers"),
        (lambda: reg.scalar(pred) + reg.scalar(pred), "not pred"),
        (lambda: reg.scalar(pred) & 1, "takes registers of predicates"),
        (lambda: reg.scalar(pred) & reg.scalar(u32), "registers of one type, not pred and u32"),
        (lambda: reg.scalar(pred) == ~reg.scalar(pred), r"predicates are combined with & \| \^ ~"),
        (lambda: smem.alloc(f32, 4)[0] + reg.scalar(f32), r"smem_0\[i\] by a number is an address.*smem_0\[i,\]"),
    ],
)  # fmt: skip
def test_what_no_instruction_computes_is_refused_with_what_does(expression, legal):
    with pytest.raises(AuthoringTypeError, match=legal):
        written(expression)


@pytest.mark.parametrize(
    ("expression", "legal"),
    [
        (lambda: abs(reg.scalar(f32)), r"`abs\(\)` is no operator of registers; legal: ptx\.inst\.abs\.f32\(d, x\)"),
        (lambda: abs(reg.scalar(s16)), r"legal: ptx\.inst\.abs\.s16\(d, x\)$"),
        (lambda: abs(reg.scalar(u32)), r"ptx\.inst\.abs\.s32\(d, x\) of a signed number"),
        (lambda: abs(reg.scalar(e4m3)), r"convert e4m3 first"),
        (lambda: abs(reg.scalar(pred)), r"ptx\.inst\.selp\.u32\(d, 1, 0, p\)"),
        (lambda: reg.scalar(f32) ** 2, r"`\*\*` .* legal: x \* x; of 2, ptx\.inst\.ex2\.approx\.f32"),
        (lambda: 2 ** reg.scalar(u64), r"ptx\.inst\.shl\.b64\(d, 1, n\)"),
        (lambda: pow(reg.scalar(u32), 2, 7), r"x \* x; of 2"),
        (lambda: divmod(reg.scalar(u32), 3), r"`divmod\(\)` .* ptx\.inst\.div\.u32.*ptx\.inst\.rem\.u32"),
        (lambda: divmod(7, reg.scalar(s32)), r"ptx\.inst\.div\.s32.*ptx\.inst\.rem\.s32"),
        (lambda: round(reg.scalar(f32)), r"ptx\.inst\.cvt\.rni\.f32\.f32\(d, x\) \(to nearest.*ptx\.inst\.cvt\.rni\.s32\.f32"),
        (lambda: round(reg.scalar(f64), 2), r"cvt\.rni\.f64\.f64"),
        (lambda: math.floor(reg.scalar(f16)), r"`math\.floor\(\)` .*cvt\.rmi\.f16\.f16"),
        (lambda: math.ceil(reg.scalar(e4m3)), r"convert e4m3 to f32 first, then ptx\.inst\.cvt\.rpi"),
        (lambda: math.trunc(reg.scalar(u32)), r"the register itself, as a u32 is whole"),
        (lambda: reg.scalar(f32) @ reg.scalar(f32), r"ptx\.mma, ptx\.wgmma and ptx\.tcgen05"),
        (lambda: 1 << reg.scalar(u32), r"`<<` .* ptx\.inst\.shl\.b32\(d, 1, n\) for a number that is shifted"),
        (lambda: 8 >> reg.scalar(u32), r"ptx\.inst\.shr\.u32\(d, 1, n\)"),
        (lambda: +reg.scalar(u32), r"x itself, or its copy reg\.from_\(x, u32\)"),
        (lambda: math.sqrt(reg.scalar(f32)), r"PTX3201 register %f0 has no value .* ptx\.inst\.sqrt\.rn\.f32"),
        (lambda: int(reg.scalar(f32)), r"PTX3201 .*ptx\.inst\.cvt\.rzi\.s32\.f32"),
        (lambda: range(reg.scalar(u32)), r"PTX3201 .*`for i in ptx\.range_\(n\):`"),
        (lambda: [1, 2][reg.scalar(u32)], r"PTX3201 .*load indexed data from memory"),
        (lambda: max(reg.scalar(u32), 1), r"PTX3201 .*ptx\.inst\.selp, a\.max\(b\)"),
        (lambda: reg.scalar(u64)[3], r"register %rd0 is no array; .* ptx\.inst\.ld\.global_\.f32\(d, ptx\.addr\(p \+ i \* 4\)\)"),
        (lambda: reg.scalar(u64).__setitem__(reg.scalar(u32), 1), r"no array; .* ptx\.inst\.st\.global_"),
        (lambda: reg.array(f32, 4, name="v") * 2, r"`\*` takes one register; of the array .*v\[i\] = v\[i\] \* x"),
        (lambda: reg.scalar(f32) - reg.array(f32, 4), r"`-` takes one register"),
        (lambda: reg.scalar(pred) + 1, r"not pred: ptx\.inst\.selp\.u32\(d, 1, 0, p\)"),
        (lambda: reg.scalar(pred) & reg.scalar(u32), r"x != 0 converts a number to a predicate \(setp\), and ptx\.inst\.selp"),
        (lambda: reg.scalar(f32) & 1, r"not f32: copy its bits into a b32 register first \(mov\)"),
        (lambda: ptx.ret(pred=reg.scalar(u32)), r"a guard has to be a predicate, .*: x != 0 converts a number to one"),
    ],
)  # fmt: skip
def test_what_python_has_and_ptx_has_not(expression, legal):
    with pytest.raises(AuthoringTypeError, match=legal) as caught:
        written(expression)
    assert caught.value.diagnostics[0].file == __file__


@pytest.mark.parametrize(
    ("expression", "legal"),
    [
        (lambda: ptx.inst.add.u32(reg.scalar(u32), reg.scalar(pred), 1), "; selp makes a number of a predicate"),
        (lambda: ptx.inst.selp.u32(reg.scalar(u32), 1, 0, reg.scalar(u32)), "; setp makes a predicate of a number"),
        (lambda: ptx.warp.ballot(reg.scalar(u32)), "; setp makes a predicate of a number"),
        (lambda: ptx.inst.add.f32(reg.scalar(f32), reg.scalar(u32), 1.0), "it must be a .f32 register or constant  "),
    ],
)
def test_predicates_and_numbers_are_no_matter_of_cvt(expression, legal):
    with pytest.raises(AuthoringError, match=legal):
        written(expression)


def test_predicates():
    def body():
        p, q = reg.scalar(pred), reg.scalar(pred)
        r = p & q
        r ^= p
        r |= ~q
        with ptx.if_(p | q):
            pass
        ptx.ret(pred=(p & ~q) | r)

    assert [line for line in written(body) if "pred" in line] == [
        "and.pred %p2, %p0, %p1;",
        "xor.pred %p2, %p2, %p0;",
        "not.pred %p3, %p1;",
        "or.pred %p2, %p2, %p3;",
        "or.pred %p4, %p0, %p1;",
        "not.pred %p5, %p1;",
        "and.pred %p6, %p0, %p5;",
        "or.pred %p7, %p6, %p2;",
    ]


def test_two_predicates_are_a_value_where_one_is_read():
    def body():
        p, q, d = reg.scalar(pred), reg.scalar(pred), reg.scalar(u32)
        ptx.inst.selp.u32(d, 1, 0, p | q)
        ptx.warp.ballot(p | q)
        ptx.inst.setp.lt.and_.u32(p | q, d, 3, p | q)

    assert written(body) == [
        "or.pred %p2, %p0, %p1;",
        "selp.u32 %r0, 1, 0, %p2;",
        "or.pred %p3, %p0, %p1;",
        "vote.sync.ballot.b32 %r1, %p3, 4294967295;",
        "or.pred %p4, %p0, %p1;",
        "setp.lt.and.u32 %p0|%p1, %r0, 3, %p4;",
    ]


def test_two_destinations_stay_two_destinations():
    def body():
        p, q = reg.scalar(pred), reg.scalar(pred)
        ptx.inst.setp.lt.u32(p | q, 1, reg.scalar(u32))

    assert written(body) == ["setp.lt.u32 %p0|%p1, 1, %r0;"]


def test_elements_of_shared_memory():
    @kernel(in_specs=(Tile(64, f32),), out_specs=(Tile(64, f32),), block=64)
    def reverse(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        buffer = smem.alloc(f32, 64)
        i = reg.from_(ptx.special.tid.x(), u32)
        x = reg.scalar(f32)
        ptx.inst.ld.global_.f32(x, ptx.addr(px + i * 4))
        buffer[i] = x
        ptx.bar.sync(0)
        with ptx.if_(i == 0):
            buffer[7] = 1.5  # by a number, too
        ptx.bar.sync(0)
        ptx.inst.st.global_.f32(ptx.addr(py + i * 4), buffer[63 - i] + buffer[0,])
        ptx.ret()

    x = np.arange(64, dtype=np.float32) + 1
    expected = x[::-1] + x[0]
    expected[63 - 7] = 1.5 + x[0]
    np.testing.assert_array_equal(reverse(x), expected)


def test_elements_are_of_the_type_of_the_allocation():
    def body():
        i = reg.scalar(s32)
        halves, bytes_ = smem.alloc(f16, (2, 8)), smem.alloc(b8, 16)
        assert halves[1][i].dtype == f16 and bytes_[i].dtype == b8
        halves[0][i] = 0.5

    lines = written(body)
    assert [line.split()[0] for line in lines if line.startswith(("ld", "st"))] == [
        "ld.shared.b16",
        "ld.shared.b8",
        "st.shared.b16",
    ]


@pytest.mark.parametrize(
    ("access", "message"),
    [
        (lambda: smem.alloc(f32, 8)[8,], "index 8 of smem_0 is not in 0..7"),
        (lambda: smem.alloc(f32, 8)[reg.scalar(f32)], "an index must be an integer or a 32-bit register"),
        (lambda: smem.alloc(f32, (2, 8))[0,], "needs shared memory of one dimension, not 2"),
        (lambda: smem.alloc(f32, 8).__setitem__(reg.scalar(u32), reg.scalar(u32)), "st.shared.f32"),
    ],
)
def test_wrong_elements(access, message):
    with pytest.raises((AuthoringError, TypeError), match=re.escape(message)):
        written(access)


def line_of(function, text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_a_register_outside_of_its_scope():
    def k():
        with ptx.scope():
            inner = reg.scalar(u32, init=1)
            p = inner < 3
        reg.from_(inner, u32)  # here
        ptx.ret(pred=p)

    with pytest.raises(
        AuthoringError, match="%r0 was declared in a scope.. that is closed: declare it before"
    ) as caught:
        kernel(k).ptx()
    assert caught.value.diagnostics[0].line == line_of(k, "# here")


def leaves_by_return():
    x = reg.from_(ptx.special.tid.x(), u32)
    with ptx.if_(x > 3):
        return  # here
    ptx.inst.mov.u32(x, 1)
    ptx.ret()


def leaves_by_break():
    for k in ptx.range_(0, 4):
        if k is not None:
            break  # here
    ptx.ret()


# fmt: off
def leaves_in_one_line():
    with ptx.if_(reg.scalar(pred)): return  # noqa: E701 # here
# fmt: on


def leaves_in_a_long_with():
    with (
        ptx.scope(),
        ptx.if_(reg.scalar(pred)),
    ):
        return  # here


@pytest.mark.parametrize("body", [leaves_by_return, leaves_by_break, leaves_in_one_line, leaves_in_a_long_with])
def test_python_does_not_leave_blocks(body):
    with pytest.raises(AuthoringError, match="ends the writing of the kernel there, for every thread") as caught:
        kernel(body).ptx()
    assert caught.value.diagnostics[0].line == line_of(body, "# here")
    assert caught.value.diagnostics[0].name == "open_block"


# fmt: off
def idle_behind_a_scope():
    with ptx.scope(): ptx.if_(reg.scalar(pred))  # noqa: E701 # here
    ptx.ret()
# fmt: on


def test_a_block_without_with_is_seen_in_a_line_of_another():
    with pytest.raises(AuthoringError, match="alone is no block") as caught:
        kernel(idle_behind_a_scope).ptx()
    assert caught.value.diagnostics[0].line == line_of(idle_behind_a_scope, "# here")


def test_functions_do_not_leave_blocks_either():
    @ptx.func
    def f(n: u32) -> u32:
        with ptx.if_(n == 0):
            return n
        return n + 1

    with pytest.raises(AuthoringError, match="ptx.ret"):
        written(lambda: f(1))


def test_what_only_looks_like_it_is_taken():
    class other:
        @staticmethod
        def if_(p):
            return ptx.scope()

    def helper(x):
        for _ in range(2):
            if x is not None:
                break
        with other.if_(x):
            return x

    def k():
        helper(reg.scalar(u32))
        ptx.ret()

    kernel(k).ptx()


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (
            lambda f: kernel(f, in_specs=(Tile(4, f32),), raw_params=(("u32", "X"),)),
            ValueError,
            "'X' is the name of a tensor",
        ),
        (lambda f: kernel(f, raw_params=(("u32",),)), TypeError, "an entry is a type and a name"),
    ],
)
def test_options_are_refused_with_what_is_legal(made, error, message):
    with pytest.raises(error, match=message):
        made(lambda X: ptx.ret())


def test_types_of_raw_parameters_may_be_types():
    k = kernel(
        lambda X: (ptx.param(f32, "a"), ptx.ret()), in_specs=(Tile(4, f32),), raw_params=((f32, "a"), (b32, "b"))
    )
    assert ".param .f32 a,\n\t.param .b32 b" in k.ptx()


@pytest.mark.parametrize("write", [lambda a: a + 2**70, lambda a: ptx.inst.add.u64(a, a, -(2**63) - 1)])
def test_integers_beyond_64_bits_are_refused_at_their_line(write):
    with pytest.raises(AuthoringValueError, match=r"test_operators.py:\d+: PTX3003 -?\d+ does not fit into 64 bits"):
        kernel(lambda: write(reg.scalar(u64))).ptx()


def _generator(X):
    yield ptx.ret()


async def _coroutine(X):
    ptx.ret()


async def _both(X):
    yield ptx.ret()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (_generator, "a generator"),
        (_coroutine, "`async`"),
        (_both, "`async`"),
        (lambda X: (ptx.ret() for _ in range(2)), "a generator"),
    ],
)
def test_bodies_that_python_does_not_run_are_refused(body, kind, recwarn):
    k = kernel(body, in_specs=(Tile(4, f32),))
    for use in (k.ptx, lambda: k(np.ones(4, np.float32))):
        with pytest.raises(AuthoringTypeError, match=f"the body of .* is {kind}, so none of it has run"):
            use()
    device = ptx.func(params=[f32])(body)
    with pytest.raises(AuthoringTypeError, match=f"is {kind}"):
        kernel(lambda: device(reg.scalar(f32))).ptx()
    assert not recwarn.list


def test_a_method_is_no_kernel():
    with pytest.raises(TypeError, match="k is a method: a kernel has no `self`"):

        class Layer:
            @kernel(in_specs=(Tile(4, f32),))
            def k(self, X):
                ptx.ret()
