"""What authors write who come from CUDA C++, Triton, Numba or CuTe: each is refused with what is written here instead."""

import linecache
import math
import pickle
import traceback
import types

import numpy as np
import pytest

from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.errors import AuthoringError, AuthoringTypeError, AuthoringValueError, LaunchTypeError
from pyptx.types import b32, bf16, f16, f32, u32, u64

OF_N = dict(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=(1, 1, 1), block=(128, 1, 1))
NUMBERS = np.arange(128, dtype=np.float32)


def body(written):
    """A kernel whose body is one expression of its two tensors."""

    def k(X, Y):
        written(X, Y)
        ptx.ret()

    return kernel(k, **OF_N)


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        (lambda X, Y: ptx.threadIdx.x, r"ptx has no `threadIdx`; it is ptx\.special\.tid\.x\(\)"),
        (lambda X, Y: ptx.program_id(0), r"it is ptx\.special\.ctaid\.x\(\)"),
        (lambda X, Y: ptx.syncthreads(), r"it is ptx\.bar\.sync\(0\)"),
        (lambda X, Y: ptx.printf("%d", 1), r"it is ptx\.print|did you mean ptx\.print\?"),
        (lambda X, Y: ptx.range(4), r"did you mean ptx\.range_\?"),
        (lambda X, Y: ptx.exp(1.0), r"ex2\.approx"),
        (lambda X, Y: ptx.atomic_add(X, 1.0), r"ptx\.inst\.red\.global_\.add\.f32"),
        (lambda X, Y: ptx.where(1, 2, 3), r"ptx\.inst\.selp\.u32\(d, a, b, p\)"),
        (lambda X, Y: ptx.fma(1, 2, 3), r"the instruction is ptx\.inst\.fma"),
        (lambda X, Y: ptx.frobnicate(), r"an instruction is ptx\.inst\.OPCODE"),
        (lambda X, Y: reg.f32(1.0), r"reg\.scalar\(f32, init=1\.0\)"),
        (lambda X, Y: smem.array((4,), f32), r"smem\.alloc\(f32, n\)"),
        (lambda X, Y: smem.allocate(f32, 4), r"did you mean smem\.alloc\?"),
        (lambda X, Y: ptx.cp.async_.wait(0), r"ptx\.cp\.async_ has no `wait`; .*wait_group"),
        (lambda X, Y: ptx.cp.asink, r"did you mean ptx\.cp\.async_\?|ptx\.cp has no `asink`"),
        (lambda X, Y: setattr(ptx.special.tid, "x", 3), r"read-only"),
        (lambda X, Y: smem.barrier(1), r"did you mean smem\.mbarrier\?"),
        (lambda X, Y: ptx.wgmma.commit(), r"ptx\.wgmma has no `commit`; .*commit_group"),
        (lambda X, Y: ptx.tma.load(1), r"ptx\.tma has no `load`; did you mean ptx\.tma\.load_3d"),
        (lambda X, Y: ptx.tma.load_2d(1), r"ptx\.tma has no `load_2d`; did you mean ptx\.tma\.load_3d\?"),
        (lambda X, Y: ptx.cp_async.wait(0), r"ptx\.cp_async has no `wait`; .*wait_group"),
        (lambda X, Y: ptx.warp.shfl_down(1, 16), r"ptx\.warp\.shfl\(mode, x, n\)"),
        (lambda X, Y: ptx.special.threadIdx.x(), r"no special register %threadIdx; it is ptx\.special\.tid\.x\(\)"),
        (lambda X, Y: ptx.special.lanemask(), r"did you mean ptx\.special\.lanemask_"),
        (lambda X, Y: ptx.special.lane_id(), r"it is ptx\.special\.laneid\(\)"),
        (lambda X, Y: X.stride(0), r"a tensor of a kernel has no `stride`: .* `p, = ptx\.global_ptrs\(X\)`"),
        (lambda X, Y: X.data_ptr(), r"`p, = ptx\.global_ptrs\(X\)`"),
        (lambda X, Y: reg.scalar(u32).to(f32), r"a register has no `to`: .* ptx\.inst\.cvt\.rn\.f32\.u32\(d, x\)"),
        (lambda X, Y: reg.scalar(u32).astype(f32), r"ptx\.inst\.cvt"),
    ],
)
def test_names_that_there_are_not(written, instead):
    with pytest.raises(AttributeError, match=instead):
        body(written).ptx(N=128)


def test_a_group_of_functions_is_none_itself():
    with pytest.raises(
        TypeError, match=r"ptx\.cp\.async_ is a group of functions, and none itself: .*cg, commit_group"
    ):
        body(lambda X, Y: ptx.cp.async_(1)).ptx(N=128)


def test_no_hint_slows_the_names_that_there_are():
    """Python specialises `ptx.inst` only of a module without `__getattr__`; with one, a trace took a fifth longer."""
    modules = [ptx, reg, smem, *(each for each in vars(ptx).values() if isinstance(each, types.ModuleType))]
    assert len(modules) > 20 and not [each.__name__ for each in modules if "__getattr__" in vars(each)]


def test_a_hint_is_of_the_module_that_was_asked():
    other = types.SimpleNamespace()
    with pytest.raises(AttributeError, match="^'types.SimpleNamespace' object has no attribute 'threadIdx'$"):
        body(lambda X, Y: other.threadIdx).ptx(N=128)


def test_names_are_looked_for_as_in_any_module():
    assert not hasattr(ptx, "program_id") and not hasattr(reg, "zeros") and not hasattr(ptx.warp, "__wrapped__")
    assert getattr(smem, "array", None) is None


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        (
            lambda X, Y: X[0],
            r"X is a tensor, .* `p, = ptx\.global_ptrs\(X\)`, .*ptx\.inst\.ld\.global_\.f32\(d, ptx\.addr",
        ),
        (lambda X, Y: Y.__setitem__(0, 1.0), r"Y is a tensor, .*ptx\.inst\.st\.global_\.f32\(ptx\.addr"),
        (lambda X, Y: X + 4, r"X is a tensor, no number"),
        (lambda X, Y: 2.0 * X, r"X is a tensor, no number"),
        (lambda X, Y: X < Y, r"X is a tensor, no number"),
        (lambda X, Y: ptx.special.ctaid(), r"%ctaid has three parts: ptx\.special\.ctaid\.x\(\)"),
        (lambda X, Y: f"{reg.scalar(f32):.2f}", r"ptx\.print\("),
        (lambda X, Y: np.exp(reg.scalar(f32)), r"instructions compute with it, ptx\.inst\.ex2\.approx\.f32\(d, x\)"),
        (lambda X, Y: math.exp(reg.scalar(f32)), r"instructions convert it and compute with it"),
        (lambda X, Y: smem.alloc(f32, reg.scalar(u32)), r"a shape is an int or a tuple of ints, .*, not Reg"),
        (lambda X, Y: smem.alloc((128,), f32), r"a shape is an int or a tuple of ints"),
        (lambda X, Y: smem.alloc(f32, f32), r"a shape is an int or a tuple of ints"),
        (lambda X, Y: smem.alloc(f32, (4, 2.5)), r"a shape is an int or a tuple of ints"),
        (lambda X, Y: reg.scalar(b32) + reg.scalar(f32), r"reg\.from_\(x, f32\) takes the bits as a number"),
    ],
)
def test_values_that_python_could_not_have(written, instead):
    with pytest.raises(AuthoringTypeError, match=instead):
        body(written).ptx(N=128)


@pytest.mark.parametrize(
    "written",
    [lambda X, Y: smem.alloc(f32, f32), lambda X, Y: X[0], lambda X, Y: ptx.special.tid(), lambda X, Y: ptx.mad(1, 2)],
)
def test_what_is_refused_in_python_has_its_line_too(written):
    with pytest.raises(AuthoringTypeError, match=r"test_newcomers\.py:\d+: PTX3001 ") as caught:
        body(written).ptx(N=128)
    assert caught.value.diagnostics[0].file == __file__
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (lambda X, Y: smem.mbarrier(), r"smem\.mbarrier needs `count`; its arguments: count, name$"),
        (lambda X, Y: smem.mbarrier("full"), r"smem\.mbarrier: `count` is int, not str$"),
        (
            lambda X, Y: smem.mbarrier(1, "full", 2),
            r"smem\.mbarrier takes 2 arguments by position, not 3; its arguments",
        ),
        (
            lambda X, Y: smem.alloc(f32, 4, lines=3),
            r"smem\.alloc has no argument `lines`; its arguments: dtype, shape, ",
        ),
        (lambda X, Y: smem.alloc(f32, 4, align=16.0), r"smem\.alloc: `align` is int \| None, not float$"),
        (lambda X, Y: ptx.loop(), r"loop needs `"),
        (lambda X, Y: reg.array(f32, "4"), r"array: `count` is int, not str$"),
        (lambda X, Y: reg.wgmma_frag(m=64, n=128, dtype=f32, name=3), r"array: `name` is str \| None, not int$"),
        (lambda X, Y: reg.scalar("f32"), r"PTX3001 `dtype` is a type, for example pyptx\.types\.f32, not 'f32'$"),
        (lambda X, Y: smem.alloc(3, 4), r"PTX3001 `dtype` is a type, for example pyptx\.types\.f32, not 3$"),
    ],
)
def test_what_the_library_says_of_arguments_is_said_at_the_authors_line(written, said):
    with pytest.raises(AuthoringTypeError, match=said) as caught:
        body(written).ptx(N=128)
    assert caught.value.diagnostics[0].file == __file__ and "incompatible function arguments" not in str(caught.value)


def test_blocks_and_calls_that_write_nothing():
    def no_with(X, Y):
        i = reg.from_(ptx.special.tid.x(), u32)
        ptx.if_(i > 0)
        ptx.ret()

    def no_for(X, Y):
        ptx.range_(0, 4)
        ptx.ret()

    def no_call(X, Y):
        i = reg.from_(ptx.special.tid.x(), u32)
        with ptx.if_(i > 0):
            ptx.inst.bar.sync
        ptx.ret()

    def no_with_scope(X, Y):
        ptx.scope()
        ptx.ret()

    for function, message in (
        (no_with_scope, r":\d+: PTX3008 `ptx.scope\(...\)` alone is no block: write `with ptx.scope\(...\):`"),
        (no_with, r":\d+: PTX3008 `ptx.if_\(...\)` alone is no block: write `with ptx.if_\(...\):`"),
        (no_for, r"alone is no loop: write `for i in ptx.range_\(...\):`"),
        (no_call, r"`ptx.inst.bar.sync` alone writes nothing: it is called, with \(\)"),
    ):
        with pytest.raises(AuthoringError, match=message) as caught:
            kernel(function, **OF_N).ptx(N=128)
        assert caught.value.diagnostics[0].file == __file__


def test_a_body_returns_nothing():
    def returns_a_tensor(X, Y):
        ptx.ret()
        return Y

    def returns_a_register(X, Y):
        v = reg.scalar(f32)
        ptx.ret()
        return v

    for function in (returns_a_tensor, returns_a_register):
        with pytest.raises(AuthoringTypeError, match=r"returns .*, which is lost: .*parameters of the body") as caught:
            kernel(function, **OF_N).ptx(N=128)
        at = caught.value.diagnostics[0]
        assert at.file == __file__ and linecache.getline(at.file, at.line).strip().startswith("return ")


def test_a_block_is_no_condition():
    def an_if(X, Y):
        if ptx.if_(reg.scalar(u32, init=1) > 0):
            ptx.ret()

    def a_while(X, Y):
        while ptx.loop("again"):
            ptx.ret()

    def a_scope(X, Y):
        scope = ptx.scope()
        assert scope

    for function in (an_if, a_while, a_scope):
        with pytest.raises(AuthoringTypeError, match=r":\d+: PTX3001 a block is neither true nor false: write `with`"):
            kernel(function, **OF_N).ptx(N=128)


def test_a_range_is_no_block():
    def with_range(X, Y):
        with ptx.range_(0, 4):
            ptx.ret()

    with pytest.raises(AuthoringTypeError, match=r":\d+: PTX3001 range_ is a loop and no block: write `for i in ptx"):
        kernel(with_range, **OF_N).ptx(N=128)


def done(X, Y):
    ptx.ret()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: kernel(done, **OF_N)[(1,), (128,)](NUMBERS), r"done\[\.\.\.\] chooses nothing: grid= and block= are options of @kernel"),
        (lambda: kernel(done, **OF_N)(NUMBERS, np.empty_like(NUMBERS)), r"expected 1 input array, got 2: outputs are returned, and out="),
        (lambda: kernel(done, **OF_N)(NUMBERS, 2.0), r"expected 1 input array, got 2: numbers are given by name"),
        (lambda: kernel(done, **OF_N | {"grid": "N // 128"}), r"the sizes of grid must be integers, not 'N // 128'; for sizes of a call write a function, grid=lambda N:"),
        (lambda: kernel(done, **OF_N | {"grid": lambda N: N / 128})(NUMBERS), r"// gives integers, / does not"),
        (lambda: kernel(done, **OF_N | {"arch": 90}), r'arch must be the name of a target, "sm_90a", not 90'),
        (lambda: kernel(done, **OF_N, arch="sm_95"), r"^arch: `\.target sm_95`: no target has this name; they are sm_75, "),
        (lambda: kernel(done, **OF_N, arch="compute_90"), r"^arch: .*no target has this name"),
        (lambda: kernel(done, **OF_N, version=(7, 0)), r"^version: `\.target sm_90a` needs \.version 8\.0"),
        (lambda: kernel(done, **OF_N, version=(8, 9)), r"^version: `\.version 8\.9`: there is no such version"),
        (lambda: kernel(done, **OF_N, raw_params=[("n", "u32")]), r"the type is the first part of an entry, \('u32', 'n'\)"),
        (lambda: kernel(done, **OF_N, raw_params=[("int", "n")]), r"^raw_params: 'int' of 'n': unknown PTX type"),
        (lambda: kernel(done, **OF_N, version="8.5"), r"version must be two numbers, \(8, 5\), not '8.5'"),
        (lambda: kernel(done, **OF_N, smem=1 << 50), r"smem must be a number of bytes, not 1125899906842624"),
        (lambda: kernel(done, **OF_N, extern_smem="1 2"), r'extern_smem must be True or the name of the memory, "smem", not \'1 2\''),
        (lambda: kernel(done, **OF_N, raw_directives=[("bogus", (1,))]), r"raw_directives: no directive .*`\.bogus`"),
        (lambda: kernel(done, **OF_N, raw_directives=[("maxntid", ("x",))]), r"`\.maxntid` takes up to 3 numbers"),
        (lambda: kernel(lambda X: ptx.ret(), **OF_N), r"takes 1 tensors but has specs for 2: .* then one for each output"),
    ],
)  # fmt: skip
def test_options_and_calls(call, said):
    with pytest.raises((TypeError, ValueError), match=said):
        call()


def test_numbers_of_a_body_are_behind_the_star():
    def sized(X, Y, BLOCK=32):
        ptx.ret()

    with pytest.raises(TypeError, match=r"says what BLOCK is; a number of the body is a parameter behind a `\*`"):
        kernel(sized, **OF_N)(NUMBERS)


class Torch:
    """A type as torch spells its own."""

    def __str__(self):
        return "torch.bfloat16"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Tile("N", np.float32), r"not <class 'numpy\.float32'>: that is f32 of pyptx\.types"),
        (lambda: Tile("N", np.dtype(np.float16)), r"that is f16 of pyptx\.types"),
        (lambda: Tile("N", Torch()), r"that is bf16 of pyptx\.types"),
        (lambda: Tile(("M", "N"), f32), r"its items are arguments of their own, Tile\('M', 'N', f32\)"),
        (lambda: Tile("N", "f32"), r"'f32' in quotes is a dimension of this name"),
        (lambda: Layout((4, 8), (1, 4)), r"a Layout is Layout\.ROW, .*, not \(\(4, 8\), \(1, 4\)\)"),
        (lambda: Layout("swizzle128"), r"a Layout is Layout\.ROW, .*, not 'swizzle128'"),
        (lambda: Tile("N", f32, layout="row"), r"the layout of a Tile is Layout\.ROW, .*, not 'row'"),
        (
            lambda: Tile("M", "N", f32, tma_box=32),
            r"tma_box must be a tuple of ints and names of dimensions, one for each .*, not 32",
        ),
        (lambda: Tile("M", "N", f32, tma_box="32"), r"tma_box must be a tuple of .*, not '32'"),
        (lambda: Tile("M", "N", f32, tma_box=(32.0, 32)), r"tma_box must be a tuple of .*, not of 32\.0"),
        (
            lambda: Tile("M", "N", f32, tma_element_strides=2),
            r"tma_element_strides must be a tuple of ints, one for each .*, not 2",
        ),
        (lambda: Tile("M", "N", f32, tma_rank=6), r"tma_rank must be 2, for the tensor as it is, or 3"),
        (lambda: Layout.SWIZZLE_128B, r"Layout has no SWIZZLE_128B: it is Layout\.ROW, .*Layout\.TMA_128B"),
    ],
)
def test_tiles_and_layouts(made, said):
    with pytest.raises((TypeError, ValueError, AttributeError), match=said):
        made()


def test_layouts_are_found_by_name_and_value():
    assert Layout("tma_128b") is Layout.TMA_128B is Layout["TMA_128B"] is Layout(Layout.TMA_128B)
    assert len(Layout) == 6 and not hasattr(Layout, "CUTE")


@pytest.mark.parametrize("dtype", [f32, f16, bf16, u32])
def test_numbers_are_stored_into_a_matrix(dtype):
    @kernel(in_specs=(), out_specs=(Tile(4, u32),), block=(4, 1, 1))
    def stored(Y):
        (py,) = ptx.global_ptrs(Y)
        t = reg.from_(ptx.special.tid.x(), u32)
        tile = smem.alloc(dtype, (4, 4))
        tile[t, 1] = 2
        bits, word = reg.from_(tile[t, 1], dtype), reg.scalar(u32)
        if dtype.bits == 16:
            ptx.inst.mov.b32(word, [bits, bits])
        else:
            ptx.inst.mov.b32(word, bits)
        ptx.inst.st.global_.u32(ptx.addr(py + t * 4), word)
        ptx.ret()

    two = {"f32": 0x40000000, "f16": 0x40004000, "bf16": 0x40004000, "u32": 2}[dtype.name]
    assert (stored() == two).all()


def test_an_index_outside_names_the_array():
    with pytest.raises(IndexError, match=r"index 7 of tile is not in 0\.\.3"):
        body(lambda X, Y: smem.alloc(f32, 4, name="tile").__setitem__(7, 1.0)).ptx(N=128)


def test_a_number_where_the_form_has_none_names_the_form():
    with pytest.raises(AuthoringTypeError, match=r"1\.0 as operand 2 is not a value of its type; the form is `atom"):
        body(lambda X, Y: ptx.inst.atom.add.f32(ptx.addr(reg.scalar(u32)), 1.0)).ptx(N=128)


def test_text_is_written_as_it_is_and_numbers_fit_their_type():
    def stored(value):
        return body(lambda X, Y: ptx.inst.st.global_.u16(ptx.addr(reg.scalar(u64)), value)).ptx(N=128)

    for text, written in (("65536", "65536"), ("-70000", "-70000"), ("0x1234567890", "78187493520"), ("3", "3")):
        assert f"], {written};" in stored(text)
    with pytest.raises(AuthoringTypeError, match=r"65536 as operand 2 is not a value of u16$"):
        stored(65536)
    with pytest.raises(
        AuthoringError, match="PTX2032 .*`18446744073709551616`, which has no value: it needs more than 64 bits"
    ):
        stored("18446744073709551616")


@pytest.mark.parametrize(
    "written",
    [
        lambda X, Y: reg.scalar(f32, name="a b"),
        lambda X, Y: reg.array(f32, 4, name="1st"),
        lambda X, Y: smem.alloc(f32, 4, name="tile-0"),
        lambda X, Y: ptx.label("again:"),
    ],
)
def test_names_that_the_text_would_not_survive(written):
    with pytest.raises(AuthoringValueError, match=r"is no name of .*: letters, digits, _ and \$") as caught:
        body(written).ptx(N=128)
    assert caught.value.diagnostics[0].file == __file__


def test_addresses_that_were_not_unpacked():
    with pytest.raises(TypeError, match=r"to a PTX address: unpack it, `p, = \.\.\.`"):
        body(lambda X, Y: ptx.addr(ptx.global_ptrs(X))).ptx(N=128)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda k: k(NUMBERS), r"expected 2 input arrays, got 1: B is not given"),
        (lambda k: k(), r"expected 2 input arrays, got 0: A, B are not given"),
        (lambda k: k(NUMBERS, C=NUMBERS), r"`C` is an output, which the call returns; pass memory for it as out="),
        (lambda k: k.ptx(N=-1), r"dimension 'N' of kernel two must not be negative, got -1"),
    ],
)
def test_arguments_that_are_missing(call, said):
    @kernel(in_specs=(Tile("N", f32), Tile("N", f32)), out_specs=(Tile("N", f32),), grid=1, block=128)
    def two(A, B, C):
        ptx.ret()

    with pytest.raises((LaunchTypeError, ValueError), match=said):
        call(two)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (lambda X, Y: ptx.inst.add.u32(reg.scalar(u32), object(), 1), "Cannot convert <object .* to PTX operand: a register, a number"),
        (lambda X, Y: ptx.global_ptrs(3), "global_ptrs takes tensors of the kernel, or names of its parameters, not 3"),
        (lambda X, Y: ptx.inst.mov.u32(reg.scalar(u32), 1, when=True), "an instruction takes pred= and no 'when'"),
        (lambda X, Y: ptx.inst.mov.u32(reg.scalar(u32), 1, pred=1), "pred= is a predicate register or ~register, not 1"),
        (lambda X, Y: ptx.inst(1), r"ptx\.inst is called with an instruction"),
        (lambda X, Y: ptx.addr(object()), "to a PTX address"),
        (lambda X, Y: ptx.addr(ptx.global_ptrs(X)), "unpack it"),
        (lambda X, Y: ptx.addr(ptx.global_ptrs(X)[0], 1.5), "an offset is an int or a register, not 1.5"),
        (lambda X, Y: ptx.check(1, "no"), "ptx.check needs a predicate, not 1"),
        (lambda X, Y: reg.scalar("f32"), "`dtype` is a type"),
        (lambda X, Y: reg.array(f32, 4)["a"], "indexed by an int or a slice"),
        (lambda X, Y: smem.mbarrier(2)[1.5], "an mbarrier is chosen by an int or a register"),
        (lambda X, Y: smem.alloc(f32, (4, 4))["a"], "Cannot convert|shared memory is indexed|stage|index"),
        (lambda X, Y: reg.scalar(u32) < X.shape, r"not a shape: X\.shape\[0\] is one of its sizes"),
        (lambda X, Y: ptx.addr(reg.scalar(u64)) + 4, r"an address, ptx\.addr\(base, bytes\), is no number"),
        (lambda X, Y: ptx.cp.async_.bulk.tensor_2d(smem.alloc(f32, 4), X, (0, 0), 0), r"takes its arguments by name: dst=, src=, coord=, mbar="),
        (lambda X, Y: ptx.cp.async_.bulk.tensor_2d.store(X, 0, (0, 0)), r"takes its arguments by name: dst=, src=, coord=, cache_hint="),
        (lambda X, Y: ptx.bracket(X, [0, 0]), r"X is a tensor, .* a tensor copy its map, `X\.tma_desc\(\)`"),
    ],
)  # fmt: skip
def test_values_of_the_wrong_kind_have_a_place(written, message):
    with pytest.raises(AuthoringTypeError, match=rf"test_newcomers\.py:\d+: PTX3001 .*({message})"):
        body(written).ptx(N=128)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (lambda X, Y: smem.mbarrier(2)[3], r"PTX3004 index 3 of 2 mbarriers is not in 0\.\.1"),
        (
            lambda X, Y: list(ptx.range_(1.5)),
            "PTX3003 range_ takes integers and integer registers, not the real number 1.5",
        ),
        (
            lambda X, Y: ptx.print(f"x = {reg.scalar(u32)}"),
            r"PTX3003 `x = Reg\(%r0, u32\)` has the name of a register in it.*write \{\} there",
        ),
        (
            lambda X, Y: ptx.check(reg.scalar(u32) > 0, f"{X.name} = {reg.scalar(f32)}"),
            r"has the name of a register in it",
        ),
        (lambda X, Y: smem.alloc(f32, (8, 4))[8, 0], r"PTX3004 row 8 of smem_0 is not in 0\.\.7"),
        (lambda X, Y: smem.alloc(f32, (8, 4))[0, -1], r"PTX3004 column -1 of smem_0 is not in 0\.\.3"),
        (lambda X, Y: ptx.addr(smem.alloc(f32, 4), 20), r"PTX3004 byte 20 of smem_0 is not in 0\.\.16"),
        (lambda X, Y: ptx.addr(smem.alloc(f32, 4), -4), r"PTX3004 byte -4 of smem_0 is not in 0\.\.16"),
        (lambda X, Y: ptx.addr(smem.alloc(f32, (2, 4))[1], 20), r"PTX3004 byte 36 of smem_0 is not in 0\.\.32"),
    ],
)
def test_numbers_out_of_place_say_what_is_legal(written, message):
    with pytest.raises(AuthoringError, match=message):
        body(written).ptx(N=128)


def test_an_instruction_that_is_not_called():
    def helper():
        ptx.inst.bar.sync

    without_source = "def k(X, Y):\n    ptx.ret()\n    ptx.inst.bar.sync\n"
    exec(compile(without_source, "typed.py", "exec"), names := {"ptx": ptx})

    def has_helper(X, Y):
        helper()
        ptx.ret()

    def right(X, Y):
        assert ptx.inst.bar.sync
        sync = ptx.bar.sync
        sync(0)
        ptx.ret()

    for function, place in ((names["k"], "typed.py:3"), (has_helper, r"test_newcomers.py:\d+")):
        with pytest.raises(AuthoringError, match=rf"{place}: PTX3008 `ptx\.inst\.bar\.sync` alone writes nothing"):
            kernel(function, **OF_N).ptx(N=128)
    assert "bar.sync 0;" in kernel(right, **OF_N).ptx(N=128)


def _frames(call) -> list[str]:
    """The functions of the traceback of what the call raises, but for this one."""
    try:
        call()
    except Exception as error:
        return [frame.name for frame in traceback.extract_tb(error.__traceback__)][1:]
    raise AssertionError("nothing was raised")


def test_tracebacks_leave_out_the_frames_between_caller_and_author(monkeypatch):
    def wrong(X, Y):
        ptx.inst.add.f32(1, 2)

    def own_mistake(X, Y):
        return {}["missing"]

    for body in (wrong, own_mistake):
        assert _frames(lambda body=body: kernel(body, **OF_N)(NUMBERS)) == ["<lambda>", "_slow_call", body.__name__]
    assert _frames(lambda: kernel(wrong, **OF_N)(NUMBERS, NUMBERS)) == ["<lambda>", "_slow_call"]
    monkeypatch.setenv("PYPTX_TRACEBACK", "1")
    assert "write_body" in _frames(lambda: kernel(wrong, **OF_N)(NUMBERS))


def test_tracebacks_keep_what_fails_in_the_package(monkeypatch):
    monkeypatch.setattr("pyptx.specialise.specialisation.blocks.check_returned", None)
    assert _frames(lambda: body(lambda X, Y: None)(NUMBERS))[-2:] == ["_trace", "write_body"]


def product(X, Y, *, a, b, shape, trans_b):
    tile_a = smem.wgmma_tile(bf16, a)
    tile_b = smem.wgmma_tile(bf16, b, major="MN" if trans_b else "K")
    acc = reg.wgmma_frag(m=64, n=shape[1], dtype=f32)
    kinds = dict(dtype_d=f32, dtype_a=bf16, dtype_b=bf16)
    ptx.wgmma.mma_async(shape=shape, d=acc, a=tile_a, b=tile_b, trans_b=trans_b, **kinds)
    ptx.ret()


@pytest.mark.parametrize(
    ("a", "b", "shape", "trans_b", "said"),
    [
        ((32, 16), (16, 32), (64, 32, 16), 1, r'`smem_0` is a tile of 32 x 16 with major="K", .* reads 64 of M and 16 of K'),
        ((64, 16), (16, 16), (64, 32, 16), 1, r'`smem_1` is a tile of 16 x 16 with major="MN", .* reads 32 of N and 16 of K'),
        ((64, 16), (8, 32), (64, 32, 16), 1, r'`smem_1` is a tile of 8 x 32 with major="MN", .* reads 32 of N and 16 of K'),
        ((64, 16), (16, 16), (64, 32, 16), 0, r'`smem_1` is a tile of 16 x 16 with major="K", .* reads 32 of N and 16 of K'),
        ((64, 8), (32, 16), (64, 32, 16), 0, r'`smem_0` is a tile of 64 x 8 .* reads 64 of M and 16 of K'),
        ((64, 32), (32, 32), (64, 32, 32), 0, r"`\.m64n32k16` stands in place of `\.m64n32k32`, or .* \.sp"),
    ],
)  # fmt: skip
def test_a_product_reads_no_more_than_its_tiles(a, b, shape, trans_b, said):
    with pytest.raises(AuthoringError, match=rf"test_newcomers\.py:\d+: .*{said}"):
        kernel(product, **OF_N).ptx(N=128, a=a, b=b, shape=shape, trans_b=trans_b)


def test_variables_lie_where_ptx_declares_them():
    def in_a_cta(X, Y):
        ptx.var("shared__cta", b32, "scratch", size=4)
        ptx.inst.st.shared.b32(ptx.addr("scratch"), 1)
        ptx.ret()

    assert "\t.shared .b32 scratch[4];\n" in kernel(in_a_cta, **OF_N).ptx(N=128)
    for space in ("reg", "sreg", "param::func", "shared::cluster"):
        with pytest.raises(AuthoringValueError, match=rf":\d+: PTX3003 a variable lies in .*, not in {space}$"):
            body(lambda X, Y, space=space: ptx.var(space, b32, "x")).ptx(N=128)


LONG = ptx.const(u32, 2, init=[1, 2, 3], name="long")
REAL = ptx.global_(u32, init=[1.5], name="real")


@pytest.mark.parametrize(("variable", "said"), [(LONG, "3 values for 2 elements"), (REAL, "a real number for .u32")])
def test_a_variable_beside_kernels_is_refused_where_it_was_made(variable, said):
    with pytest.raises(AuthoringValueError, match=said) as caught:
        body(lambda X, Y: ptx.addr(variable)).ptx(N=128)
    at = caught.value.diagnostics[0]
    assert at.file == __file__ and linecache.getline(at.file, at.line).startswith(variable._name.upper())


@ptx.func
def of_another_type(x: u32) -> u32:
    y = reg.scalar(f32)
    return y  # here


@ptx.func
def of_no_type(x: u32):
    return x  # here


@pytest.mark.parametrize("function", [of_another_type, of_no_type])
def test_a_result_is_refused_where_it_is_returned(function):
    with pytest.raises(AuthoringError, match=r"PTX2203 `of_") as caught:
        body(lambda X, Y: function(reg.scalar(u32))).ptx(N=128)
    at = caught.value.diagnostics[0]
    assert at.file == __file__ and "# here" in linecache.getline(at.file, at.line)


def test_a_body_that_did_not_run_has_its_line():
    def k():
        yield 1

    with pytest.raises(AuthoringTypeError, match=r"test_newcomers\.py:\d+: PTX3001 the body of k is a generator"):
        kernel(k).ptx()
