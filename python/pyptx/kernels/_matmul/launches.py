"""Products of torch's tensors that are quicker by several kernels, or by one that JAX's vmap cannot widen: `launches_of` chooses, and makes one
callable of them, (A, B, ...) -> C."""

import math
from dataclasses import replace

import torch

from pyptx.kernels._epilogue import NOTHING
from pyptx.kernels._matmul.arguments import NAMES
from pyptx.kernels._matmul.choice import Problem, engine, kernel_of, mma_of
from pyptx.kernels._matmul.cuts import parts_by_mma
from pyptx.kernels._matmul.padded import Padded, is_padded, padded_microseconds
from pyptx.kernels._matmul.parts import in_parts
from pyptx.kernels._matmul.tiles import MULTIPROCESSORS
from pyptx.kernels._matmul.vectors import LONG, MOST_ROWS, Columns, body_of_vectors, vectors_of
from pyptx.kernels.column_sums import column_sums
from pyptx.types import bf16, f16, f32

__all__ = ["DTYPES", "Parts", "is_line_by_columns", "launches_of"]

FLOATS, SMALL = (bf16, f16, f32), 64  # columns
DTYPES = {dtype: getattr(torch, name) for name, dtype in NAMES.items()}


def launches_of(p: Problem):
    if p.turned:
        return kernel_of(p)
    if is_vector(p):
        parts = vector_parts(p)
        return Parts(parts, p, vectors_of(p, parts=True)) if parts > 1 else vectors_of(p)
    if in_parts_of_k := in_parts(p):
        return in_parts_of_k
    padded = is_padded(p)
    if is_plain(p) and not engine(p.on_gpu, p.dtype, p.a_width, p.b_width, p.out_width):
        told = p.m, p.n, p.k * p.dtype.bits // 8, min(p.a_width, p.b_width, 16)
        parts, cut = parts_by_mma(*told, padded_microseconds(p) if padded else math.inf)
        if parts > 1:
            return Parts(parts, p, mma_of(replace(p, out=f32), cut, parts=True))
    return Padded(p, DTYPES[p.out]) if padded else kernel_of(p)


def is_plain(p: Problem) -> bool:
    """Whether parts of K may be added up afterwards."""
    return p.batch is None and p.epilogue == NOTHING and p.dtype in FLOATS and (p.m > 128 or not takes_stream(p))


def is_vector(p: Problem) -> bool:
    """Whether A has so few rows that f32 arithmetic is as quick as what reads B, and TMA cannot address one of them, or C is as small."""
    epilogue = p.epilogue
    if (
        p.m > MOST_ROWS
        or not (p.a_k_major and p.packed)
        or p.dtype not in FLOATS
        or epilogue.scales is not None
        or epilogue.gated
    ):
        return False
    if is_line_by_columns(p):
        return True
    if takes_stream(p) or engine(p.on_gpu, p.dtype, p.a_width, p.b_width, p.out_width):
        return p.b_k_major and p.n <= SMALL and p.batch is None
    if p.b_k_major:
        return p.batch is None or p.k >= LONG
    return p.m == 1 or not fills(p)


def is_line_by_columns(p: Problem) -> bool:
    """Whether B (K, N) of a batch is f32, of which other kernels want rows of K, and every multiprocessor has a CTA."""
    lying = p.dtype == f32 and not p.b_k_major and p.batch is not None and not p.epilogue.gated
    return lying and p.m <= MOST_ROWS and -(-p.n // Columns.across) * p.batch >= MULTIPROCESSORS


def takes_stream(p: Problem) -> bool:
    """Whether a stream takes few rows of such addresses."""
    return engine(p.on_gpu, p.dtype, p.a_width, p.b_width) == "sm_90a"


def fills(p: Problem) -> bool:
    """Whether tiles of 64 columns give every multiprocessor one."""
    return p.n * (p.batch or 1) > 64 * MULTIPROCESSORS


def vector_parts(p: Problem) -> int:
    """How many parts of K give every multiprocessor some CTAs, if each has something to do: whole rounds of their loops."""
    if p.batch is not None or p.epilogue != NOTHING:
        return 1
    body = body_of_vectors(p)
    most = max(1, 2 * MULTIPROCESSORS // -(-p.n // body.across))
    rounds = -(-p.k // (body.round * most))
    return -(-p.k // (body.round * rounds))


class Parts:
    """Sums of parts of K by one kernel, and the sums of these."""

    def __init__(self, parts: int, p: Problem, kernel):
        self.shape, self.kernel, self.sums = (parts, p.m, p.n), kernel, column_sums(p.out)

    def __call__(self, a, b, out=None):
        made = self.kernel(a, b, P=self.shape[0])
        sums = self.sums(made.view(self.shape[0], -1), **({} if out is None else {"out": out.view(-1)}))
        return sums.view(self.shape[1:]) if out is None else out
