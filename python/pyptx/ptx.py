"""Instructions.  `ptx.inst` spells any of them; the rest are names for common ones and for control flow.

    ptx.inst.fma.rn.f32(d, a, b, c)            one instruction, modifiers as PTX writes them
    with ptx.if_(x < 5): ...                   labels and branches
    ptx.inst.vadd.s32.u32.s32(d, a.b0, b.h1)   parts of registers, for the video instructions
    ptx.inst.tex._2d.v4.f32.s32([r, g, b, a], ptx.bracket(texture, [x, y]))
    ptx.ld(f32, d, address, space="shared")    a typed wrapper

`::` is spelled `__`, a modifier that starts with a digit gets a leading `_`, a Python keyword a trailing `_`.
"""

from __future__ import annotations

from pyptx import _core, reg
from pyptx._core import (
    PipelineState,
    addr,
    bra,
    bracket,
    cluster,
    cp_async,
    cp_async_bulk,
    declare,
    elect_sync,
    else_,
    expr,
    fence,
    file_,
    global_ptrs,
    if_,
    inst,
    kloop,
    label,
    ldmatrix,
    loc,
    loop,
    mbarrier,
    minus,
    param,
    pipeline,
    range_,
    ret,
    scope,
    setmaxnreg,
    sreg,
    stmatrix,
    stmatrix_x4_trans_f32_bf16,
    tcgen05,
    tensor_copy,
    tensormap,
    var,
    warp,
    wgmma,
)
from pyptx.compat_copies import cp, tma
from pyptx.errors import AuthoringTypeError, AuthoringValueError
from pyptx.types import b64, s32, s64, u32, u64

__all__ = [
    "NamedBarrier", "PipelineState", "add", "addr", "and_", "bar", "bra", "bracket", "cluster", "cp", "cp_async", "cp_async_bulk", "ctaid_x", "ctaid_y", "cvt",
    "cvta", "declare", "elect_sync", "else_", "expr", "fence", "file_", "global_ptrs", "if_", "inst", "kloop", "label", "ld",
    "ldmatrix", "loc", "loop", "mad", "mbarrier", "minus", "mma", "mov", "mul", "named_barrier", "not_", "or_", "param", "pipe",
    "pipeline", "pragma", "range_", "raw", "ret", "scope", "selp", "setmaxnreg", "setmaxnreg_dec", "setmaxnreg_inc",
    "setp", "shl", "shr", "special", "sreg", "st", "stmatrix", "stmatrix_x4_trans_f32_bf16", "sub", "tcgen05", "tensor_copy", "tensormap", "tma", "var", "warp",
    "wgmma", "xor_",
]  # fmt: skip

_emit = _core.emit


# Special registers.


class _Axes:
    """The three registers of %tid and its like."""

    def __init__(self, name: str):
        self._name = name

    def x(self):
        return sreg(f"%{self._name}.x")

    def y(self):
        return sreg(f"%{self._name}.y")

    def z(self):
        return sreg(f"%{self._name}.z")


class _Special:
    """Special registers by name: `special.tid.x()`, `special.laneid()`.  Each is a register; nothing is written."""

    tid, ntid, ctaid, nctaid = (_Axes(name) for name in ("tid", "ntid", "ctaid", "nctaid"))
    clusterid, nclusterid = _Axes("clusterid"), _Axes("nclusterid")
    cluster_ctaid, cluster_nctaid = _Axes("cluster_ctaid"), _Axes("cluster_nctaid")

    def __getattr__(self, name: str):
        if name.startswith("_") or not _core.is_special_register(f"%{name}"):
            raise AttributeError(f"PTX has no special register %{name}")
        return lambda: sreg(f"%{name}")

    def __dir__(self):
        return [*super().__dir__(), *(name[1:] for name in _core.special_registers() if "." not in name)]


special = _Special()


def ctaid_x():
    return sreg("%ctaid.x")


def ctaid_y():
    return sreg("%ctaid.y")


# Declarations and text.


def pragma(value: str):
    """.pragma "value";"""
    _core.directive(f'.pragma "{value}";')


def raw(text: str):
    """PTX statements as text."""
    inst._raw_emit(text)


class _Pipe:
    """`pipe(a).add.u32(b, 3).shl.b32(c, 2)`: each call takes the register before as its first source."""

    def __init__(self, source, node=inst):
        self._source = source
        self._node = node

    def __getattr__(self, name: str):
        return _Pipe(self._source, getattr(self._node, name))

    def __call__(self, dst, *more, pred=None):
        self._node(dst, self._source, *more, pred=pred)
        return _Pipe(dst)


def pipe(src) -> _Pipe:
    return _Pipe(src)


# Typed wrappers: one instruction each.


def _one_of(what: str, value, known):
    if value not in known:
        raise AuthoringValueError(f"{what} is one of {', '.join(map(str, known))}, not {value!r}")


def mov(dtype, dst, src, *, pred=None):
    return _emit(f"mov.{dtype.name}", dst, src, pred=pred)


def add(dtype, dst, a, b, *, pred=None):
    return _emit(f"add.{dtype.name}", dst, a, b, pred=pred)


def sub(dtype, dst, a, b, *, pred=None):
    return _emit(f"sub.{dtype.name}", dst, a, b, pred=pred)


def mul(dtype, dst, a, b, *, mode=None, pred=None):
    _one_of("mode", mode, (None, "lo", "hi", "wide"))
    return _emit(f"mul.{mode}.{dtype.name}" if mode else f"mul.{dtype.name}", dst, a, b, pred=pred)


def mad(*operands, mode="lo", pred=None):
    """mad(dtype, dst, a, b, c), or mad(a, b, c), which returns a new register."""
    _one_of("mode", mode, ("lo", "hi", "wide"))
    if len(operands) == 5:
        dtype, *rest = operands
        return _emit(f"mad.{mode}.{dtype.name}", *rest, pred=pred)
    if len(operands) != 3:
        raise AuthoringTypeError("mad takes (dtype, dst, a, b, c) or (a, b, c)")
    source = next((each.dtype for each in operands if isinstance(each, reg.Reg)), None)
    if source is None:
        raise AuthoringTypeError("mad(a, b, c) needs a register among its sources")
    if source.name.startswith("f"):
        return _emit(f"mad.rn.{source.name}", reg.scalar(source), *operands, pred=pred)
    if mode == "wide":
        return _emit(f"mad.wide.{source.name}", reg.scalar(_WIDE[source.name]), *operands, pred=pred)
    signed = "s32" if source.bits == 32 else source.name  # the low half of a product is the same for both signs
    return _emit(f"mad.{mode}.{signed if mode == 'lo' else source.name}", reg.scalar(source), *operands, pred=pred)


_WIDE = {"u16": u32, "s16": s32, "u32": u64, "s32": s64}


def shl(dtype, dst, a, b, *, pred=None):
    return _emit(f"shl.{dtype.name}", dst, a, b, pred=pred)


def shr(dtype, dst, a, b, *, pred=None):
    return _emit(f"shr.{dtype.name}", dst, a, b, pred=pred)


def and_(dtype, dst, a, b, *, pred=None):
    return _emit(f"and.{dtype.name}", dst, a, b, pred=pred)


def or_(dtype, dst, a, b, *, pred=None):
    return _emit(f"or.{dtype.name}", dst, a, b, pred=pred)


def xor_(dtype, dst, a, b, *, pred=None):
    return _emit(f"xor.{dtype.name}", dst, a, b, pred=pred)


def not_(dtype, dst, src, *, pred=None):
    return _emit(f"not.{dtype.name}", dst, src, pred=pred)


def setp(cmp_op, dtype, pred_out, a, b, *, pred_negate=None, pred=None):
    """setp.cmp.type.  `pred_negate` is an old name of `pred`."""
    _one_of("cmp_op", cmp_op, ("lt", "le", "gt", "ge", "eq", "ne", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"))  # fmt: skip
    return _emit(f"setp.{cmp_op}.{dtype.name}", pred_out, a, b, pred=pred if pred is not None else pred_negate)


def selp(dtype, dst, t, f, pred_reg, *, pred=None):
    return _emit(f"selp.{dtype.name}", dst, t, f, pred_reg, pred=pred)


def cvt(dst_type, src_type, dst, src, *, rounding=None, ftz=False, sat=False, pred=None):
    words = ["cvt", rounding, "ftz" if ftz else None, "sat" if sat else None, dst_type.name, src_type.name]
    return _emit(".".join(word for word in words if word), dst, src, pred=pred)


_SPACES = ("global", "shared", "local", "param", "const", "generic", "shared::cta", "shared::cluster")


def _memory(opcode: str, dtype, space: str, cache: str | None) -> str:
    _one_of("space", space, _SPACES)
    words = [opcode, None if space == "generic" else space, cache, dtype.name]
    return ".".join(word for word in words if word)


def ld(dtype, dst, address, *, space="global", cache=None, pred=None):
    return _emit(_memory("ld", dtype, space, cache), dst, addr(address), pred=pred)


def st(dtype, address, src, *, space="global", cache=None, pred=None):
    return _emit(_memory("st", dtype, space, cache), addr(address), src, pred=pred)


class _Cvta:
    """cvta between generic addresses and those of a state space; returns the destination."""

    def param(self, src, dst=None):
        dst = reg.scalar(b64) if dst is None else dst
        return _emit("cvta.param.u64", dst, src)

    def to_global(self, src, dst=None):
        dst = reg.scalar(b64) if dst is None else dst
        return _emit("cvta.to.global.u64", dst, src)


cvta = _Cvta()


# Barriers and register budgets.


class _Bar:
    """bar.sync"""

    sync = staticmethod(_core.bar_sync)


bar = _Bar()


class NamedBarrier:
    """A barrier of a CTA by its number, and how many threads it waits for."""

    def __init__(self, barrier_id, count=None):
        self.barrier_id = barrier_id
        self.count = count

    def sync(self, *, pred=None):
        bar.sync(self.barrier_id, self.count, pred=pred)


def named_barrier(barrier_id, *, count=None) -> NamedBarrier:
    return NamedBarrier(barrier_id, count)


def setmaxnreg_inc(n: int):
    setmaxnreg(n, inc=True)


def setmaxnreg_dec(n: int):
    setmaxnreg(n, inc=False)


# Matrices.


class _Mma:
    """mma.sync"""

    sync = staticmethod(_core.mma_sync)


mma = _Mma()
