"""Uses of @kernel, Tile, Layout, reg, smem and ptx that no author means: what is legal is said, inside a body at the author's line."""

from __future__ import annotations

import dataclasses
import functools
import operator

import numpy as np
import pytest

from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.errors import AuthoringError, AuthoringTypeError, AuthoringValueError
from pyptx.types import bf16, f32, u32

TILES = {"in_specs": (Tile("N", f32),), "out_specs": (Tile("N", f32),), "grid": 1, "block": 32}


def body(X, Y):
    ptx.ret()


def written(use):
    """The text of a kernel whose body is `use`, which gets its tensors."""

    @kernel(**TILES)
    def k(X, Y):
        use(X, Y)
        ptx.ret()

    return k.ptx(N=4)


class Bodies:
    @classmethod
    def of_class(cls, X, Y):
        ptx.ret()

    def of_object(self, X, Y):
        ptx.ret()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            functools.partial(lambda X, Y, k: ptx.ret(), k=2),
            "partial.*; write a function that calls it, with a parameter",
        ),
        (Bodies.of_class, "bound method .*; write a function that calls it"),
        (Bodies().of_object, "bound method .*; write a function that calls it"),
        (functools.lru_cache(lambda X, Y: ptx.ret()), "lru_cache.*; write a function that calls it"),
        (Bodies.__dict__["of_class"], "; write @classmethod above @kernel"),
        (Bodies, "class '.*Bodies'>$"),
    ],
)
def test_bodies_that_are_no_function(body, said):
    with pytest.raises(TypeError, match=said):
        kernel(body)


@pytest.mark.parametrize("size", [np.array([4, 4]), np.array([4.0]), True, 4.0, "4"])
def test_sizes_that_are_no_int(size):
    with pytest.raises(TypeError, match="dimension 'N' of kernel <lambda> must be an int, not"):
        kernel(lambda Y: ptx.ret(), in_specs=(), out_specs=(Tile("N", f32),)).ptx(N=size)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"in_specs": 5}, TypeError, "in_specs needs a Tile for each tensor, not 5"),
        ({"mutates": 0}, TypeError, r'mutates is names of inputs, \("X",\), not 0'),
        ({"entry": 5}, TypeError, "entry must be a str, not 5"),
        ({"entry": "1 bad name"}, ValueError, "entry must be a name of PTX, letters, digits, _ and [$], not '1 bad name'"),
        ({"linkage": "strong"}, ValueError, 'linkage must be "visible", "weak" or "", not .strong.'),
        ({"linkage": None}, TypeError, "linkage must be a str, not None"),
        ({"attribute": 5}, TypeError, "attribute must be a str, not 5"),
        ({"attribute": "managed) ("}, ValueError, r"attribute is what stands inside .attribute\(...\)"),
        ({"address_size": 16}, ValueError, "address_size must be 64, 32 or None, not 16"),
        ({"reqntid": (0,)}, ValueError, "reqntid: `.reqntid` takes up to 3 numbers in 1"),
        ({"raw_params": [("u32", "größe")]}, ValueError, "raw_params: 'größe' is no name of PTX"),
        ({"raw_params": [("u32", "a b")]}, ValueError, "raw_params: 'a b' is no name of PTX"),
    ],
)  # fmt: skip
def test_options_that_say_something_else(options, error, said):
    with pytest.raises(error, match=said):
        kernel(body, **options)


def test_options_by_position():
    with pytest.raises(
        TypeError, match=r"options of @kernel are given by name, as in @kernel\(arch=...\), not 'sm_80'"
    ):
        kernel(body, "sm_80")
    with pytest.raises(TypeError, match=r"not of 'sm_80'; its options are given by name, @kernel\(arch=...\)"):
        kernel("sm_80")


def test_options_that_are_meant():
    tiles = [Tile("N", f32)]
    assert kernel(body, in_specs=(tile for tile in tiles), out_specs=iter(tiles)).in_specs == tuple(tiles)
    assert ".reqntid 128\n" in kernel(body, reqntid=128).ptx()
    assert kernel(body, grid=np.array([2, 3])).signature.grid.of({}, {}) == (2, 3, 1)


def test_a_tensor_whose_name_is_none_of_ptx():
    with pytest.raises(ValueError, match="by its name, which has ASCII letters, digits and _; 'größe' has others"):

        @kernel(**TILES)
        def k(größe, Y):
            ptx.ret()

    @kernel(**TILES)
    def größe(X, Y, *, höhe=3):
        reg.scalar(u32, init=höhe)

    assert ".entry gr__e(" in größe.ptx(N=4) and "mov.u32 %r0, 4;" in größe.ptx(N=4, höhe=4)


def test_a_dataclass_as_a_template_value():
    @dataclasses.dataclass
    class Loose:
        stages: int = 3

    @dataclasses.dataclass(frozen=True)
    class Firm:
        stages: int = 3

    @kernel
    def k(*, config):
        reg.scalar(u32, init=config.stages)
        ptx.ret()

    assert "mov.u32 %r0, 5;" in k.ptx(config=Firm(5))
    with pytest.raises(AuthoringTypeError, match="`config` .* not Loose; a dataclass is one with frozen=True"):
        k.ptx(config=Loose())


@pytest.mark.parametrize(
    ("use", "error", "said"),
    [
        # A register or a tensor where Python wants a list, a number, a truth.
        (lambda X, Y: list(reg.scalar(u32)), AuthoringTypeError, "a register holds one value and is no sequence.*ptx.range_"),
        (lambda X, Y: len(reg.scalar(u32)), AuthoringTypeError, r"a register holds one value.*reg.array\(f32, n\)"),
        (lambda X, Y: len(X), AuthoringTypeError, "a tensor of a kernel is no sequence: X.shape has its sizes"),
        (lambda X, Y: X**2, AuthoringTypeError, "X is a tensor, no number"),
        (lambda X, Y: X // 2, AuthoringTypeError, "X is a tensor, no number"),
        (lambda X, Y: 1 % X, AuthoringTypeError, "X is a tensor, no number"),
        (lambda X, Y: X & 1, AuthoringTypeError, "X is a tensor, no number"),
        (lambda X, Y: ~X, AuthoringTypeError, "X is a tensor, no number"),
        (lambda X, Y: reg.scalar(u32) + None, AuthoringTypeError, "`[+]` beside a register takes .* not NoneType"),
        (lambda X, Y: "1" * reg.scalar(u32), AuthoringTypeError, "a loop as|beside a register takes"),
        (lambda X, Y: reg.scalar(u32) - "1", AuthoringTypeError, "`-` beside a register takes .* not str"),
        # Counts, shapes and names.
        (lambda X, Y: reg.array(f32, -1), AuthoringValueError, "an array has 1 to 65536 registers, not -1"),
        (lambda X, Y: reg.array(f32, 1 << 20), AuthoringValueError, "an array has 1 to 65536 registers, not 1048576"),
        (lambda X, Y: reg.scalar(f32, name="X"), AuthoringValueError, "register `X` has the name of a parameter"),
        (lambda X, Y: smem.alloc(f32, 4, name="X"), AuthoringValueError, "shared memory `X` has the name of a parameter"),
        (lambda X, Y: smem.alloc(f32, -4), AuthoringValueError, "a dimension of -4; legal: 1 to 1073741824"),
        (lambda X, Y: smem.alloc(f32, (1 << 20, 1 << 20)), AuthoringValueError, "dimension of|shared memory of"),
        (lambda X, Y: smem.mbarrier(1 << 31), AuthoringValueError, "an array of 2147483648 mbarriers; legal: 1 to 1048576"),
        (lambda X, Y: smem.mbarrier(-1), AuthoringTypeError, "`count` is not an int that fits where it is stored"),
        # None for what is needed, too many arguments.
        (lambda X, Y: smem.load(f32, None), AuthoringTypeError, "smem.load: `address` must not be None"),
        (lambda X, Y: smem.store(f32, 0, None), AuthoringTypeError, "smem.store: `value` must not be None"),
        (lambda X, Y: ptx.addr(None), AuthoringTypeError, "addr: `base` must not be None"),
        (lambda X, Y: smem.wgmma_tile(bf16, (64, 64), major=None), AuthoringTypeError, "`major` must not be None"),
        (lambda X, Y: ptx.scope(3), AuthoringTypeError, "scope takes 0 arguments by position, not 1; its arguments: none"),
        # Text that leaves the body.
        (lambda X, Y: ptx.raw("ret; } .entry z() { ret;"), AuthoringError, "closes the body of the kernel"),
    ],
)  # fmt: skip
def test_bodies(use, error, said):
    with pytest.raises(error, match=said) as refused:
        written(use)
    (found,) = refused.value.diagnostics
    assert (found.file, found.line) == (__file__, use.__code__.co_firstlineno)


def test_a_tensor_of_torch_is_no_operand():
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    with pytest.raises(AuthoringTypeError, match=r"Cannot convert tensor\(\[1., 1., 1.\]\) to PTX operand"):
        written(lambda X, Y: operator.add(reg.scalar(u32), torch.ones(3)))


def test_a_block_of_its_own_may_hide_a_parameter():
    def hides(X, Y):
        with ptx.scope():
            reg.scalar(f32, name="X")

    assert ".reg .f32 X;" in written(hides)


def test_layouts_by_name():
    with pytest.raises(KeyError, match="Layout has no 'DIAG': it is Layout.ROW, "):
        Layout["DIAG"]
    assert Layout["ROW"] is Layout.ROW


def test_a_pass_that_returns_something_else():
    with pytest.raises(
        TypeError, match="the function of rewritten edits the module that it gets, or returns another, not 3"
    ):
        kernel(body, **TILES).rewritten(lambda module: 3).ptx(N=4)
