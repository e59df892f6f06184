"""Instructions.  `ptx.inst` spells any of them; the other functions write common instructions and control flow.

    ptx.inst.fma.rn.f32(d, a, b, c)            one instruction, modifiers as PTX writes them
    with ptx.if_(x < 5): ...                   labels and branches
    ptx.inst.vadd.s32.u32.s32(d, a.b0, b.h1)   parts of registers, for the video instructions
    ptx.inst.tex._2d.v4.f32.s32([r, g, b, a], ptx.bracket(texture, [x, y]))
    ptx.ld(f32, d, address, space="shared")    a typed wrapper

`::` is spelled `__`, a modifier that starts with a digit gets a leading `_`, a Python keyword a trailing `_`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

from pyptx import _core, _names, compat, reg
from pyptx._core import (
    PipelineState,
    addr,
    bar,
    barrier,
    block,
    bra,
    bracket,
    branch_targets,
    case,
    check,
    cluster,
    clusterlaunchcontrol,
    cp_async,
    cp_async_bulk,
    cvta,
    declare,
    else_,
    expr,
    fence,
    file_,
    global_ptrs,
    griddepcontrol,
    if_,
    inst,
    kloop,
    label,
    loc,
    loop,
    loop_while,
    matrix,
    mbarrier,
    minus,
    mma,
    module_text,
    multimem,
    otherwise,
    param,
    pipeline,
    print,
    range_,
    ret,
    scope,
    sreg,
    switch,
    tcgen05,
    tensor_copy,
    tensormap,
    var,
    warp,
    wgmma,
    when,
    wmma,
)
from pyptx.compat.copies import cp, tma
from pyptx.errors import AuthoringTypeError, AuthoringValueError
from pyptx.module.func import alias, call_targets, func, function, param_array, prototype
from pyptx.module.module import module
from pyptx.module.variables import const, generic, global_, mask, shared
from pyptx.stamps.marks import mark, region
from pyptx.types import s32, s64, u32, u64

if TYPE_CHECKING:
    from pyptx._core import Guard, Integer, Number, PtxType, Reg
else:
    from pyptx._core import Reg

__all__ = [
    "NamedBarrier", "PipelineState", "add", "addr", "alias", "and_", "bar", "barrier", "block", "bra", "bracket", "branch_targets",
    "call_targets", "case", "check", "cluster", "clusterlaunchcontrol", "const", "cp", "cp_async", "cp_async_bulk", "ctaid_x", "ctaid_y", "cvt",
    "cvta", "declare", "elect_sync", "else_", "expr", "fence", "file_", "func", "function", "generic", "global_", "global_ptrs",
    "griddepcontrol", "if_", "inst", "kloop", "label", "ld", "ldmatrix", "loc", "loop", "loop_while", "mad", "mark", "mask", "matrix", "mbarrier", "minus", "mma",
    "module", "module_text", "mov", "mul", "multimem", "named_barrier", "nanosleep", "not_", "or_", "otherwise", "param", "param_array", "pipe",
    "pipeline", "pragma", "print", "prototype", "range_", "raw", "red_async", "red_async_mmio", "red_async_release", "region", "ret", "scope",
    "selp", "setmaxnreg", "setmaxnreg_dec", "setmaxnreg_inc", "setp", "shared", "shl", "shr", "spcompress", "spdecompress", "special", "sreg", "st", "st_async",
    "st_async_mmio", "st_async_release", "st_bulk", "stmatrix", "stmatrix_x4_trans_f32_bf16", "sub", "switch", "tcgen05", "tensor_copy",
    "tensormap", "tma", "var", "warp", "wgmma", "when", "wmma", "xor_",
]  # fmt: skip

_emit = _core.emit

ldmatrix, stmatrix = matrix.ldmatrix, matrix.stmatrix
stmatrix_x4_trans_f32_bf16 = matrix.stmatrix_x4_trans_f32_bf16


# Special registers.


class _Axes:
    """The three registers of %tid and its like."""

    __slots__ = ("_name",)

    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return f"ptx.special.{self._name}, which has three parts, .x(), .y() and .z(),"

    def x(self) -> Reg:
        return sreg(f"%{self._name}.x")

    def y(self) -> Reg:
        return sreg(f"%{self._name}.y")

    def z(self) -> Reg:
        return sreg(f"%{self._name}.z")

    def __call__(self) -> NoReturn:
        raise AuthoringTypeError(f"%{self._name} has three parts: ptx.special.{self._name}.x(), .y() and .z()")


def _no_special(name: str) -> str:
    import difflib

    if (instead := _names.INSTEAD.get(name, "")).startswith("ptx.special."):
        return f"PTX has no special register %{name}; it is {instead}"
    known = {each[1:].partition(".")[0] for each, *_ in _core.special_registers()}
    near = difflib.get_close_matches(name, known, 1)
    return f"PTX has no special register %{name}" + (f"; did you mean ptx.special.{near[0]}?" if near else "")


class _Special:
    """Special registers by name: `special.tid.x()`, `special.laneid()`.  Each is a register; nothing is written."""

    __slots__ = ()

    tid, ntid, ctaid, nctaid = (_Axes(name) for name in ("tid", "ntid", "ctaid", "nctaid"))
    clusterid, nclusterid = _Axes("clusterid"), _Axes("nclusterid")
    cluster_ctaid, cluster_nctaid = _Axes("cluster_ctaid"), _Axes("cluster_nctaid")

    def __getattr__(self, name: str) -> Callable[[], Reg]:
        if name.startswith("_") or not _core.is_special_register(f"%{name}"):
            raise AttributeError(_no_special(name))
        return lambda: sreg(f"%{name}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name[1:] for name, *_ in _core.special_registers() if "." not in name)]


special = _Special()


def ctaid_x() -> Reg:
    """%ctaid.x

    Example:
        block = reg.from_(ptx.ctaid_x(), u32)
    """
    return sreg("%ctaid.x")


def ctaid_y() -> Reg:
    """%ctaid.y

    Example:
        block = reg.from_(ptx.ctaid_y(), u32)
    """
    return sreg("%ctaid.y")


# Declarations and text.


def pragma(value: str) -> None:
    """.pragma "value";

    "nounroll" is for the loop at whose label it stands [PTX 12.1].  In the body of `ptx.range_` it comes behind the loop's condition, where the
    assembler ignores it; for all loops of a kernel, `raw_directives=[("pragma", ('"nounroll";',))]` of @kernel stands in front of the body.

    Example:
        ptx.pragma("nounroll")
    """
    if not isinstance(value, str) or any(mark in value for mark in '"\\\n'):
        raise AuthoringValueError(f"a pragma is a str without quotes, backslashes and line ends, not {value!r}")
    _core.directive(f'.pragma "{value}";')


def raw(text: str) -> None:
    """PTX statements as text.

    Example:
        ptx.raw("nanosleep.u32 100;")
    """
    inst._raw_emit(text)


class _Pipe:
    """`pipe(a).add.u32(b, 3).shl.b32(c, 2)`: each call takes the register before as its first source."""

    def __init__(self, source: Any, node: Any = inst):
        self._source = source
        self._node = node

    def __getattr__(self, name: str) -> _Pipe:
        return _Pipe(self._source, getattr(self._node, name))

    def __call__(self, dst: Any, *more: Any, pred: Guard = None) -> _Pipe:
        self._node(dst, self._source, *more, pred=pred)
        return _Pipe(dst)


def pipe(src: Any) -> _Pipe:
    """`src` as the first source of the instruction that follows, whose destination is that of the next, and so on.

    Example:
        ptx.pipe(x).add.u32(y, 3).shl.b32(y, 2)     # y = (x + 3) << 2
    """
    return _Pipe(src)


# Functions of one instruction each, by their rows (ptx/author/families/plain.def).

mov, add, sub, mul, shl, shr = _core.ptx.mov, _core.ptx.add, _core.ptx.sub, _core.ptx.mul, _core.ptx.shl, _core.ptx.shr
and_, or_, xor_, not_, selp = _core.ptx.and_, _core.ptx.or_, _core.ptx.xor_, _core.ptx.not_, _core.ptx.selp
cvt, ld, st, elect_sync, nanosleep = (
    _core.ptx.cvt,
    _core.ptx.ld,
    _core.ptx.st,
    _core.ptx.elect_sync,
    _core.ptx.nanosleep,
)
st_async, st_async_release, st_async_mmio = _core.ptx.st_async, _core.ptx.st_async_release, _core.ptx.st_async_mmio
red_async, red_async_release, red_async_mmio = (
    _core.ptx.red_async,
    _core.ptx.red_async_release,
    _core.ptx.red_async_mmio,
)
spcompress, spdecompress = _core.ptx.spcompress, _core.ptx.spdecompress
st_bulk, setmaxnreg_inc, setmaxnreg_dec = _core.ptx.st_bulk, _core.ptx.setmaxnreg_inc, _core.ptx.setmaxnreg_dec
setp, setmaxnreg = compat.setp, compat.setmaxnreg

_Wide = Literal["lo", "hi", "wide"]
_Rounding = Literal["rn", "rz", "rm", "rp"]


@overload
def mad(
    dtype: PtxType,
    dst: Reg,
    a: Number,
    b: Number,
    c: Number,
    /,
    *,
    mode: _Wide = "lo",
    rounding: _Rounding = "rn",
    pred: Guard = None,
) -> Reg: ...
@overload
def mad(
    a: Number, b: Number, c: Number, /, *, mode: _Wide = "lo", rounding: _Rounding = "rn", pred: Guard = None
) -> Reg: ...
def mad(*operands: Any, mode: _Wide = "lo", rounding: _Rounding = "rn", pred: Guard = None) -> Reg:
    """a * b + c: mad(dtype, dst, a, b, c), or mad(a, b, c), which returns a new register of the first register's type.

    `mode` is for integers: the low or high half of the product, or all of it.  `rounding` is for floating point.

    Example:
        y = ptx.mad(x, 4, n)                  # mad.lo.s32
        d = ptx.mad(a, b, 1.0)                # mad.rn.f32
    """
    if len(operands) not in (3, 5):
        raise AuthoringTypeError("mad takes (dtype, dst, a, b, c) or (a, b, c)")
    if len(operands) == 5:
        dtype, dst, *sources = operands
    else:
        dtype = next((each.dtype for each in operands if isinstance(each, Reg)), None)
        if dtype is None:
            raise AuthoringTypeError("mad(a, b, c) needs a register among its sources")
        dst, sources = reg.scalar(_WIDE.get(dtype.name, dtype) if mode == "wide" else dtype), list(operands)
        if dtype.name[0] != "f" and dtype.bits == 32 and mode == "lo":
            dtype = s32  # the low half of a product is the same for both signs
    if dtype.name[0] == "f":
        return _core.ptx.mad(dtype, dst, *sources, mode=None, rounding=rounding, pred=pred)
    return _core.ptx.mad(dtype, dst, *sources, mode=mode, pred=pred)


_WIDE = {"u16": u32, "s16": s32, "u32": u64, "s32": s64}


# Barriers and register budgets.


class NamedBarrier:
    """A barrier of a CTA by its number, and how many threads it waits for.

    Example:
        half = ptx.named_barrier(1, count=64)
        half.sync()
    """

    def __init__(self, barrier_id: Integer, count: Integer | None = None):
        self.barrier_id = barrier_id
        self.count = count

    def sync(self, *, pred: Guard = None) -> None:
        """`ptx.bar.sync` of this barrier."""
        bar.sync(self.barrier_id, self.count, pred=pred)

    def arrive(self, *, pred: Guard = None) -> None:
        """`ptx.bar.arrive` of this barrier, which needs its count."""
        if self.count is None:
            raise AuthoringValueError(
                "arriving at a barrier without waiting needs its count: named_barrier(n, count=...)"
            )
        bar.arrive(self.barrier_id, self.count, pred=pred)


def named_barrier(barrier_id: Integer, *, count: Integer | None = None) -> NamedBarrier:
    """The barrier `barrier_id` for `count` threads, all of the CTA unless given.

    Example:
        ptx.named_barrier(1, count=64).sync()       # bar.sync 1, 64;
    """
    return NamedBarrier(barrier_id, count)


# What is missing says what is there (pyptx/_names.py).

_names.hints(sys.modules[__name__], "ptx")
for _name in (
    "bar", "barrier", "cluster", "clusterlaunchcontrol", "cp_async", "cp_async_bulk", "cvta", "fence", "griddepcontrol", "matrix",
    "mbarrier", "mma", "multimem", "tcgen05", "tensor_copy", "tensormap", "warp", "wgmma", "wmma",
):  # fmt: skip
    _names.hints(globals()[_name], f"ptx.{_name}")
del _name
