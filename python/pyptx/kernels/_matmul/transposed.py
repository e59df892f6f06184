"""Matrices of f32 transposed through shared memory, for products whose tensor cores take tf32 by rows of K alone."""

import functools

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernels._registers import LOAD, STORE, apply, move, smem_address, to_u64, wide_product
from pyptx.types import f32, u32

__all__ = ["MOST_LINES", "transposed_f32"]

TILE, THREADS = 64, 256
PITCH = TILE + 1  # elements of a line of shared memory: of 32 neighbours of a column, two share a bank
MOST_LINES = 65535 * TILE  # M, of a grid's y


def tiles(size):
    return -(-size // TILE)


@functools.cache
def transposed_f32(vector: int):
    """The kernel Y[b] = X[b]^T of X (B, M, N).  `vector`: how many elements a thread moves at a time; 4, if M and N are multiples of 4, or 1."""
    threads_abreast = TILE // vector
    abreast = THREADS // threads_abreast  # lines that the CTA moves at a time

    def transposed(X, Y):
        m, n = ptx.param(u32, "M"), ptx.param(u32, "N")
        source, to = ptx.global_ptrs(X, Y)
        base = smem_address(smem.alloc(f32, (TILE, PITCH), align=16))
        thread = reg.from_(ptx.special.tid.x(), u32)
        across, line = (thread & (threads_abreast - 1)) * vector, thread >> (threads_abreast.bit_length() - 1)
        column, row = (reg.from_(ptx.sreg(f"%ctaid.{axis}"), u32) * TILE for axis in "xy")
        behind = wide_product(reg.from_(ptx.special.ctaid.z(), u32), m)
        behind = behind * to_u64(n)
        for i in range(0, TILE, abreast):
            values = [reg.scalar(f32, init=0.0) for _ in range(vector)]
            inside = (row + line + i < m) & (column + across < n)
            move(LOAD, place(source, behind, row + line + i, n, column + across), 0, values, 4 * vector, pred=inside)
            at = base + across * (4 * PITCH) + line * 4
            for k, value in enumerate(values):
                ptx.inst.st.shared.f32(ptx.addr(at, 4 * (k * PITCH + i)), value)
        ptx.bar.sync(0)
        for i in range(0, TILE, abreast):
            at = base + line * (4 * PITCH) + across * 4
            values = [apply(ptx.inst.ld.shared.f32, ptx.addr(at, 4 * (i * PITCH + k))) for k in range(vector)]
            inside = (column + line + i < n) & (row + across < m)
            move(STORE, place(to, behind, column + line + i, m, row + across), 0, values, 4 * vector, pred=inside)
        ptx.ret()

    return kernel(
        in_specs=(Tile("B", "M", "N", f32),),
        out_specs=(Tile("B", "N", "M", f32),),
        raw_params=[("u32", "M"), ("u32", "N")],
        grid=lambda B, M, N: (tiles(N), tiles(M), B),
        block=(THREADS, 1, 1),
        reqntid=True,
        arch="sm_80",
    )(transposed)


def place(pointer, behind, line, pitch, column):
    """The address of an element, of lines of `pitch` elements."""
    element = behind + wide_product(line, pitch)
    return pointer + (element + to_u64(column)) * 4
