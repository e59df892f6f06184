"""What the gradients of `grouped_matmul` and of gated products need beside products: rows of no group become zeros; the gradient of
gates and ups, of which the others that torch has are one kernel already."""

import functools

from pyptx import Tile, kernel, ptx, reg
from pyptx.kernels._matmul.arguments import width_of
from pyptx.kernels._matmul.tiles import MULTIPROCESSORS
from pyptx.kernels._registers import (
    LOAD,
    STORE,
    apply_to,
    move,
    mul,
    narrowed,
    quotient,
    registers,
    to_u64,
    wide_product,
    widened,
)
from pyptx.kernels.gated import gelu, silu
from pyptx.types import f32, s32, u32, u64

__all__ = ["clear_kernel", "gated_gradient_kernel", "vector_of"]

THREADS = 128
CTAS = 8 * MULTIPROCESSORS
GATES = {"swiglu": silu, "geglu": gelu}


def vector_of(columns: int, dtype) -> int:
    """How many elements of rows of so many a thread moves at a time."""
    return min(16, width_of(columns * dtype.bits // 8)) * 8 // dtype.bits


@functools.cache
def clear_kernel(dtype, vector: int):
    """The kernel that makes the rows of C (E, R, N) from COUNTS[e] on, of each e, zeros."""

    def clear_rows(COUNTS, C):
        counts, to = ptx.global_ptrs(COUNTS, C)
        rows, columns, groups = (ptx.param(u32, name) for name in ("R", "N", "E"))
        number = reg.from_(ptx.special.ctaid.x(), u32)
        each = quotient(reg.from_(ptx.special.nctaid.x(), u32), groups)  # CTAs of a group
        group = quotient(number, each)
        first, pieces = reg.scalar(u32), quotient(columns, vector)
        ptx.inst.ld.global_.nc.u32(first, ptx.addr(counts + group * 4))
        ptx.inst.max.s32(first, first, 0)
        zeros = registers(dtype, vector, init=0.0 if dtype == f32 else 0)
        for row in ptx.range_(first + (number - group * each), rows, each, dtype=u32):
            line = wide_product(group, rows)
            line = line + to_u64(row)
            start = to + line * wide_product(columns, dtype.bits // 8)
            for piece in ptx.range_(reg.from_(ptx.special.tid.x(), u32), pieces, THREADS, dtype=u32):
                move(STORE, start + piece * (vector * dtype.bits // 8), 0, zeros, vector * dtype.bits // 8)
        ptx.ret()

    return kernel(
        in_specs=(Tile("E", s32), Tile("E", "R", "N", dtype)),
        out_specs=(),
        mutates=("C",),
        raw_params=[("u32", name) for name in ("E", "R", "N")],
        grid=lambda E, R: (E * max(1, min(CTAS // E, R)), 1, 1),
        block=(THREADS, 1, 1),
        reqntid=True,
        arch="sm_80",
    )(clear_rows)


@functools.cache
def gated_gradient_kernel(activation: str, dtype, vector: int):
    """The kernel (Z (M, 2, N), G (M, N)) -> DZ (M, 2, N): the gradient of gates and ups from that of activation(gate) up, in f32.  A thread
    has a vector of elements."""

    def gated_gradient(Z, G, DZ):
        z, g, dz = ptx.global_ptrs(Z, G, DZ)
        rows, columns = ptx.param(u32, "M"), ptx.param(u32, "N")
        pieces, bytes_ = quotient(columns, vector), vector * dtype.bits // 8
        # In u64, as elements may be more than 2^32.
        at = wide_product(reg.from_(ptx.special.ctaid.x(), u32), THREADS)
        at = at + to_u64(reg.from_(ptx.special.tid.x(), u32))
        wide = to_u64(pieces)
        line = apply_to(reg.scalar(u64), ptx.inst.div.u64, at, wide)
        ptx.ret(pred=line >= to_u64(rows))
        gates = (at + line * wide) * bytes_
        ups = gates + wide * bytes_
        loaded = [registers(dtype, vector) for _ in range(3)]
        for bits, where in zip(loaded, (z + gates, z + ups, g + at * bytes_), strict=True):
            move(LOAD, where, 0, bits, bytes_)
        made: list = [], []
        for words in zip(*loaded, strict=True):
            for gate, up, pull in zip(*(widened(word, dtype) for word in words), strict=True):
                value, slope = GATES[activation](gate)
                made[0].append(mul(mul(pull, up), slope()))
                made[1].append(mul(pull, value))
        for values, where in zip(made, (gates, ups), strict=True):
            move(STORE, dz + where, 0, narrowed(values, dtype), bytes_)
        ptx.ret()

    both = Tile("M", 2, "N", dtype, align=vector * dtype.bits // 8)
    return kernel(
        in_specs=(both, Tile("M", "N", dtype, align=vector * dtype.bits // 8)),
        out_specs=(both,),
        raw_params=[("u32", "M"), ("u32", "N")],
        grid=lambda M, N: (-(-M * (N // vector) // THREADS), 1, 1),
        block=(THREADS, 1, 1),
        reqntid=True,
        arch="sm_80",
    )(gated_gradient)
