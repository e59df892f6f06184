"""Values that no author means: each is refused by name, and the process lives on."""

from __future__ import annotations

import contextlib
import gc
import inspect
import operator
import random
import unittest.mock

import pytest

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.errors import AuthoringError, AuthoringTypeError, AuthoringValueError
from pyptx.types import b32, bf16, f32, pred, u8, u32, u64


def refused(written, error, said):
    def k():
        written()
        ptx.ret()

    with pytest.raises(error, match=said) as found:
        kernel(k).ptx()
    assert __file__ in str(found.value) or error is not AuthoringTypeError


def nested(kind, times):
    value = kind()
    for _ in range(times):
        value = kind((value,))
    return value


def in_itself():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize("kind", ["in itself", "list", "tuple", "mock"])
def test_a_value_without_end(kind):
    value = {"in itself": in_itself, "mock": unittest.mock.Mock}.get(
        kind, lambda: nested({"list": list, "tuple": tuple}[kind], 20_000)
    )()
    values = iter([value] * 4)  # an iterator's values are nothing that the body reads
    refused(lambda: ptx.inst.mov.u32(reg.scalar(u32), next(values)), AuthoringTypeError, "64 deep|Cannot convert")
    refused(lambda: ptx.addr(next(values)), AuthoringTypeError, "64 deep|Cannot convert")
    refused(lambda: ptx.global_(u8, init=next(values)), AuthoringError, "64 deep|number|int|init")
    assert "ret;" in kernel(lambda: ptx.ret()).ptx()


LATE: dict = {}


@kernel
def finished():
    LATE["f"], LATE["u"], LATE["p"], LATE["array"] = (
        reg.scalar(f32),
        reg.scalar(u32),
        reg.scalar(pred),
        reg.array(f32, 4),
    )
    ptx.ret()


@pytest.mark.parametrize("name", ["_", "%"])
@pytest.mark.parametrize(
    "declare",
    [
        lambda name: reg.scalar(f32, name=name),
        lambda name: reg.array(f32, 2, name=name),
        lambda name: smem.alloc(f32, 2, name=name),
        lambda name: smem.mbarrier(1, name=name),
        lambda name: ptx.label(name),
        lambda name: ptx.var("shared", u32, name),
    ],
)
def test_characters_that_are_no_name_alone(declare, name):
    refused(lambda: declare(name), AuthoringValueError, f"`{name}` is no name of .*; not _ or % alone")


@pytest.mark.parametrize(
    "use",
    [
        lambda: operator.iadd(LATE["f"], 0),
        lambda: operator.imul(LATE["u"], reg.scalar(u32)),
        lambda: LATE["u"] << 1,
        lambda: LATE["u"].max(1),
        lambda: -LATE["f"],
        lambda: ~LATE["u"],
        lambda: operator.setitem(LATE["array"], 0, reg.scalar(f32)),
        lambda: operator.setitem(reg.array(f32, 4), 0, LATE["f"]),
    ],
)
def test_a_register_of_a_kernel_that_is_finished(use):
    finished.ptx()
    gc.collect()
    assert repr(LATE["array"]) == "RegArray(%f1<4>, f32)" or "RegArray(" in repr(LATE["array"])
    refused(use, AuthoringError, "belongs to another kernel")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (lambda: ptx.inst.mov.u32(reg.scalar(u32), "\ud800"), "half a surrogate pair"),
        (lambda: reg.scalars(u32, "\ud800"), "half a surrogate pair"),
        (lambda: ptx.raw("\ud800"), "half a surrogate pair"),
        (lambda: ptx.raw(128), "a str is expected, not 128"),
        (lambda: ptx.label("\ud800"), "label: `name` is not a str that UTF-8 can say"),
        (lambda: ptx.declare("\ud800"), "declare: `text` is not a str that UTF-8 can say"),
        (lambda: ptx.print("\ud800"), "print: `format` is not a str that UTF-8 can say"),
        (lambda: reg.scalar(f32, name="\ud800", init=1.0), "scalar: `name` is not a str that UTF-8 can say"),
        (lambda: reg.array(f32, 2**70), "array: `count` is not an int that fits where it is stored"),
        (lambda: ptx.inst.mov.u32(reg.scalar(u32), type("R", (), {"__repr__": lambda self: "\ud800"})()), r"\\ud800"),
        (lambda: ptx.inst.mov.u32(reg.scalar(u32), type("R", (), {"__repr__": lambda self: "a" + "é" * 60})()), "é"),
        (lambda: ptx.mbarrier.arrive("bar", sem=2**70), "sem"),
    ],
)
def test_text_that_is_none(written, said):
    refused(written, AuthoringTypeError, said)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (
            lambda: ptx.cp.async_.bulk.tensor_2d(dst="s", src="t", coord=3, mbar="b"),
            "tensor_2d: coord is 2 coordinates",
        ),
        (lambda: ptx.tma.load_3d("s", "t", row=0, col="a b", mbar="b"), "col is a register or an int, not 'a b'"),
        (lambda: ptx.alias("again", reg.scalar(u32)), "function is a function of @ptx.func"),
        (lambda: ptx.mask(reg.scalar(u32).b0, 3), "mask covers one byte"),
        (lambda: ptx.prototype((u32,), u32, directives=3), "directives of a prototype are strings"),
        (lambda: ptx.pragma('a"b'), "a pragma is a str without quotes"),
    ],
)
def test_arguments_of_another_kind(written, said):
    refused(written, (AuthoringTypeError, AuthoringValueError), said)


def test_special_registers_are_listed():
    assert {"tid", "laneid", "clock64", "globaltimer"} <= set(dir(ptx.special))


DEEP = nested(list, 3000)


def test_what_a_body_reads_may_be_nested_too_deep():
    @kernel
    def k():
        assert DEEP
        ptx.ret()

    with pytest.raises(AuthoringError, match="kernel k reads a value whose lists or tuples are nested"):
        k.ptx()


def test_a_template_value_is_part_of_the_text():
    class Traced:
        __hash__ = None

        def __reduce__(self):
            raise RuntimeError

    @kernel
    def k(*, factor=1):
        ptx.ret()

    with pytest.raises(
        AuthoringTypeError, match="template value `factor` of kernel k .* not Traced; .*static_argnames"
    ):
        k.ptx(factor=Traced())


class Raises:
    """Whatever is asked of it, raises."""

    def __getattr__(self, name):
        raise ZeroDivisionError(name)

    def __repr__(self):
        raise ZeroDivisionError("repr")


class Number(int):
    def __index__(self):
        raise ZeroDivisionError("index")

    def __add__(self, other):
        return "x"


def odd_values():
    return [
        *(0, -1, 3, 2**31, 2**63, 2**64, 10**50, 0.5, float("nan"), float("inf"), True, None, Ellipsis, 1j),
        *("", "x", "%r0", "a b", "a\0b", "\ud800", "é", '"', "128B", "K", b"ab", bytearray(3), memoryview(b"a")),
        *([], (), {}, set(), in_itself(), nested(list, 5000), [None], range(10**12), iter([1]), object(), object, len),
        *(Raises(), Number(3), unittest.mock.Mock(), ptx, ptx.inst, ptx.inst.add, f32, u32, bf16, pred, reg, smem),
    ]


def values_of_a_trace():
    r = reg.scalar(u32)
    return [
        *(r, reg.scalar(f32), reg.scalar(u64), reg.scalar(pred), reg.array(b32, 4), ~reg.scalar(pred), r < 3, r.b0),
        *(ptx.addr(r), ptx.special.tid.x(), smem.alloc(f32, (4, 4)), smem.mbarrier(2)[0], [r, r], (r, r), LATE["f"]),
    ]


def functions():
    spaces = [ptx, reg, smem, ptx.mbarrier, ptx.wgmma, ptx.tcgen05, ptx.warp, ptx.cluster, ptx.fence, ptx.cp_async]
    spaces += [ptx.cp.async_, ptx.cp.async_.bulk, ptx.tma, ptx.tensor_copy, ptx.mma, ptx.multimem, ptx.cvta, ptx.bar]
    found = [getattr(space, name) for space in spaces for name in dir(space) if not name.startswith("_")]
    left_out = (ptx.module, ptx.func, ptx.mark, ptx.region, ptx.inst)
    return [
        each
        for each in found
        if callable(each) and not inspect.isclass(each) and not inspect.ismodule(each) and each not in left_out
    ]


@pytest.mark.parametrize("seed", range(4))
def test_random_calls_are_refused_in_words(seed):
    chance, wrong = random.Random(seed), []
    finished.ptx()

    def call(function):
        odd, traced = odd_values(), values_of_a_trace()
        arguments = [chance.choice(traced if chance.random() < 0.5 else odd) for _ in range(chance.randrange(5))]
        try:
            parameters = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
        except ValueError:
            parameters = []
        named = {name: chance.choice(odd + traced) for name in parameters if chance.random() < 0.4}
        try:
            function(*arguments, **named)
        except (AuthoringError, ZeroDivisionError, TypeError):
            pass  # a TypeError of a call that does not fit is told anew where the body ends
        except Exception as error:
            wrong.append(f"{function}: {type(error).__name__}: {str(error)[:100]!r}")

    calls = iter(lambda: [call(chance.choice(functions())) for _ in range(400)] and None, 1)

    def k():
        next(calls)
        ptx.ret()

    with contextlib.suppress(AuthoringError, TypeError):
        kernel(k).ptx()
    assert wrong == []


def test_a_kernel_is_not_called_by_a_body():
    @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),))
    def inner(X, Y):
        ptx.ret()

    @kernel
    def bare():
        ptx.ret()

    for called in (lambda X: inner(X), lambda X: inner(X, X), lambda X: inner(reg.scalar(u32)), lambda X: bare()):
        with pytest.raises(
            AuthoringTypeError, match=r"test_hostile.py:\d+: PTX3001 (inner|bare) is a kernel, .*@ptx.func"
        ):
            kernel(in_specs=(Tile("N", f32),), out_specs=())(called).ptx(N=4)


def test_stars_are_named_as_written():
    with pytest.raises(TypeError, match=r"kernel k: \*\*more cannot be"):

        @kernel
        def k(**more):
            ptx.ret()
