"""Modules of several kernels, functions and variables: one text, a launch of each kernel, what is refused."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import subprocess
import sys
from typing import Annotated

import numpy as np
import pytest

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.errors import AuthoringError, AuthoringTypeError, AuthoringValueError, LaunchValueError
from pyptx.frameworks.identity import fingerprint
from pyptx.reg import Reg
from pyptx.types import f32, u32, u64

TABLE = ptx.const(u32, init=[[1, 2, 3], [4, 5, 6]], name="table")


@ptx.func
def twice(x: u32) -> u32:
    return x + x


@ptx.func
def typed(x: Annotated[Reg, u32], pair: tuple[Annotated[Reg, u32], Annotated[Reg, u32]]) -> Annotated[Reg, u32]:
    return x + pair[0] + pair[1]


def make(**options):
    options = {"in_specs": (Tile("N", u32),), "out_specs": (Tile("N", u32),), "grid": 1, "block": (32, 1, 1)} | options

    @kernel(**options)
    def double(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        at, value = reg.from_(ptx.special.tid.x(), u32) * 4, reg.scalar(u32)
        ptx.inst.ld.global_.u32(value, ptx.addr(px + at))
        ptx.inst.st.global_.u32(ptx.addr(py + at), twice(value))
        ptx.ret()

    @kernel(**options)
    def plus(X, Y, *, value=1):
        px, py = ptx.global_ptrs(X, Y)
        at, x = reg.from_(ptx.special.tid.x(), u32) * 4, reg.scalar(u32)
        ptx.inst.ld.global_.u32(x, ptx.addr(px + at))
        ptx.inst.st.global_.u32(ptx.addr(py + at), twice(x) + value + X.shape[0])
        ptx.ret()

    return double, plus


X = np.arange(32, dtype=np.uint32)

COUNT = ptx.global_(u32, linkage="visible", init=0, name="count")


@kernel(in_specs=(), out_specs=(), block=(1, 1, 1))
def counts():
    ptx.inst.red.global_.add.u32(ptx.addr(COUNT), 1)
    ptx.ret()


@kernel(in_specs=(), out_specs=(Tile(1, u32),), block=(1, 1, 1))
def asked(Y):
    (py,) = ptx.global_ptrs(Y)
    count = reg.scalar(u32)
    ptx.inst.ld.global_.u32(count, ptx.addr(COUNT))
    ptx.inst.st.global_.u32(ptx.addr(py), twice(count))
    ptx.ret()


NAMED = ptx.module([COUNT, twice, counts, asked])


def run(held):
    return [np.asarray(each(X)).tolist() for each in held]


def test_kernels_of_modules_travel_as_that():
    double, plus = make()
    local = ptx.module([COUNT, twice, double, (plus, {"value": 3, "N": 32})])
    back = pickle.loads(pickle.dumps([NAMED.asked, local.plus, local.double, local, twice]))
    assert back[0] is NAMED.asked and back[4] is twice
    assert back[3].ptx() == local.ptx() == back[1].ptx() == back[2].ptx() and back[3] is not local
    assert run(back[1:3]) == run([local.plus, local.double])
    assert copy.deepcopy(local) is local and copy.copy(twice) is twice
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(run, (back[1:3],)) == run(back[1:3])


def test_kernels_of_one_module_stay_together():
    double, plus = make()
    local = ptx.module([double, (plus, {"N": 32})])
    first, second = pickle.loads(pickle.dumps((local.double, local.plus)))
    assert first._module is second._module and first is first._module.double


def test_a_local_variable_stays_one_variable():
    total = ptx.global_(u32, init=5, name="total")

    @kernel(in_specs=(), out_specs=(), block=(1, 1, 1))
    def first():
        ptx.inst.red.global_.add.u32(ptx.addr(total), 1)
        ptx.ret()

    @kernel(in_specs=(), out_specs=(), block=(1, 1, 1))
    def second():
        ptx.inst.red.global_.add.u32(ptx.addr(total), 2)
        ptx.ret()

    both = ptx.module([total, first, second])
    assert both.ptx().count("total = 5") == 1
    assert pickle.loads(pickle.dumps(both)).ptx() == both.ptx()


def test_each_kernel_is_launched_from_one_text():
    double, plus = make()
    both = ptx.module([double, (plus, {"value": 3, "N": 32})])
    text = both.ptx()
    assert text.count(".entry") == 2 and text.count(".func") == 1
    assert both.double.ptx() == both.plus.ptx() == text
    assert (both.double(X) == 2 * X).all()
    assert (both["plus"](X) == 2 * X + 35).all()
    assert [each.signature.entry for each in both] == ["double", "plus"] and "plus" in dir(both)
    assert "plus" not in double.ptx(), "a kernel that is alone stays so"


def test_text_is_of_what_was_given():
    double, plus = make()
    both = ptx.module([double, (plus, {"value": 3, "N": 32})])
    with pytest.raises(LaunchValueError, match="plus: this module has the kernel for value = 3, not 4"):
        both.plus(X, value=4)
    with pytest.raises(LaunchValueError, match="the kernel for N = 32, not 64"):
        both.plus(np.zeros(64, np.uint32))
    longer = np.zeros(64, np.uint32)
    assert both.double(longer, out=longer.copy()).shape == (64,), "its body reads no size"
    with pytest.raises(AuthoringError, match="the shape of X in kernel plus is not known: give N="):
        ptx.module([plus]).ptx()
    names = [fingerprint(ptx.module([(plus, {"value": v, "N": 32}), double]).double) for v in (1, 1, 2)]
    assert names[0] == names[1] != names[2]


def test_functions_variables_and_text_stand_in_it():
    double, _ = make()
    text = ptx.module(
        [TABLE, twice, ".visible .func g(.param .u32 a)\n{\n\tret;\n}", '.pragma "nounroll";', double]
    ).ptx()
    assert [text.index(each) for each in (".const", "twice", ".func g(", ".pragma", ".entry double")] == sorted(
        text.index(each) for each in (".const", "twice", ".func g(", ".pragma", ".entry double")
    )
    library = ptx.module([ptx.func(linkage="visible", name="f", params=(u32,))(lambda x: None)])
    assert ".entry" not in library.ptx() and ".target sm_90a" in library.ptx()


def test_shared_memory_is_each_kernels_own():
    def body():
        smem.alloc(f32, (20000,), name="large")
        ptx.ret()

    large, small = kernel(body, arch="sm_90a"), make()[0]
    both = ptx.module([large, small])
    assert both.body.specialise().module.dynamic_shared == 80000
    assert both.double.specialise().module.dynamic_shared == 0


def test_variables_of_a_module_on_the_simulator_are_each_kernels_own():
    count = ptx.global_(u32, init=5, name="count")

    @kernel(in_specs=(Tile(1, u32),), out_specs=(), mutates="Y")
    def more(Y):
        (py,) = ptx.global_ptrs(Y)
        value = reg.scalar(u32)
        ptx.inst.atom.global_.add.u32(value, ptx.addr(count), 1)
        ptx.inst.st.global_.u32(ptx.addr(py), value)
        ptx.ret()

    @kernel(in_specs=(Tile(1, u32),), out_specs=(), mutates="Y")
    def other(Y):
        (py,) = ptx.global_ptrs(Y)
        value = reg.scalar(u32)
        ptx.inst.ld.global_.u32(value, ptx.addr(count))
        ptx.inst.st.global_.u32(ptx.addr(py), value)
        ptx.ret()

    both, y = ptx.module([more, other]), np.zeros(1, np.uint32)
    for wanted in (5, 6):
        both.more(y)
        assert y[0] == wanted
    both.other(y)
    assert y[0] == 5


def test_what_is_no_module():
    double, plus = make()
    with pytest.raises(AuthoringTypeError, match=r"a module has kernels, pairs of a kernel .* not 3"):
        ptx.module([3])
    with pytest.raises(AuthoringValueError, match="two kernels of the module are called double"):
        ptx.module([double, double])
    with pytest.raises(AuthoringValueError, match="must have the same target, not sm_80, sm_90a"):
        ptx.module([double, make(arch="sm_80")[1]])
    with pytest.raises(AttributeError, match="the module has no kernel triple; it has double, plus"):
        ptx.module([double, plus]).triple
    with pytest.raises(TypeError, match="kernel double has no template parameter 'size'; there are "):
        ptx.module([(double, {"size": 3})])
    with pytest.raises(AuthoringError, match="`f` is declared already in this module"):
        ptx.module([".func f() { ret; }", ".func f() { ret; }"]).ptx()


def test_types_of_type_checkers_are_those_of_ptx():
    @kernel
    def k():
        typed(1, (2, 3))
        ptx.ret()

    assert "typed(.param.u32x,.param.align4.b8pair[8])" in "".join(k.ptx().split())


def lines(body):
    def k():
        body()
        ptx.ret()

    return [line.strip() for line in kernel(k).ptx().splitlines() if "table" in line and ".const ." not in line]


def test_elements_of_rows():
    def body():
        x, i, p = reg.scalar(u32), reg.scalar(u32, init=1), reg.scalar(u64)
        ptx.inst.ld.const.u32(x, TABLE[1][2])
        ptx.ld(u32, x, TABLE[1, 2], space="const")
        ptx.ld(u32, x, TABLE[1][i], space="const")
        ptx.ld(u32, x, ptx.addr(TABLE[1], 4), space="const")
        ptx.mov(u64, p, TABLE[1])

    assert lines(body) == [
        "ld.const.u32 %r0, [table+20];",
        "ld.const.u32 %r0, [table+20];",
        "ld.const.u32 %r0, table[%r1+3];",
        "ld.const.u32 %r0, [table+16];",
        "mov.u64 %rd0, table+12;",
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (lambda: TABLE[2], "element 2 of `table`, which has 2"),
        (lambda: TABLE[1][3], "element 3 of `table`, which has 3"),
        (lambda: TABLE[1][2][0], "`table` has 2 dimensions; this is one index too many"),
        (lambda: TABLE[reg.scalar(u32), 1], "only the last index may be a register"),
        (lambda: ptx.bracket("t", [1, 2])[0], "only an array of several dimensions has rows"),
        (lambda: ptx.ld(u32, reg.scalar(u32), ptx.bracket("t", [1, 2])), "`address` is an address"),
    ],
)
def test_elements_that_are_none(body, words):
    with pytest.raises(AuthoringError, match=words):
        lines(body)


def test_a_call_table_is_an_array_of_functions():
    @ptx.func
    def one(x: u32) -> u32:
        return x + 1

    table = ptx.global_(u64, init=[twice, one], name="calls")

    @kernel(in_specs=(Tile(32, u32),), out_specs=(Tile(32, u32),), block=(32, 1, 1))
    def k(X, Y):
        lane, f = reg.from_(ptx.special.tid.x(), u32), reg.scalar(u64)
        ptx.inst.ld.global_.u64(f, table[lane & 1])
        with ptx.scope():
            ptx.var("param", u32, "given"), ptx.var("param", u32, "got")
            ptx.inst.st.param.u32(ptx.addr("given"), lane)
            ptx.inst.call(("got",), f, ("given",), table)
        ptx.ret()

    assert "call (got), %rd2, (given), calls;" in k.ptx() or "(given), calls;" in k.ptx()


MANY = """
import resource
from pyptx import kernel, ptx, reg
from pyptx.types import b32

def one(number):
    @kernel(arch="sm_90", entry=f"k{number}")
    def body():
        r = reg.array(b32, 2)
        for i in range(1000):
            ptx.inst.mov.b32(r[i & 1], i)
        ptx.ret()
    return body

peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
kernels, before = [one(i) for i in range(150)], peak()
text = ptx.module(kernels).ptx()
print(text.count("mov.b32"), peak() - before)
"""


def test_kernels_of_a_module_share_it():
    made = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=True)
    moves, mebibytes = map(int, made.stdout.split())
    assert moves == 150_000
    assert mebibytes < 400, (
        "150 kernels of 1,000 instructions, and each with a copy of the whole module, take 2,300 MiB"
    )
