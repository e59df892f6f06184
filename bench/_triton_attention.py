"""Attention, forward, in Triton as its tutorial has it ("Fused Attention"): a program a tile of queries, a loop over the keys that all
of them see, one over those that a causal mask cuts; block sizes by the autotuner.  Contiguous tensors, lengths that are multiples of 128."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"ROWS": rows, "KEYS": keys}, num_stages=stages, num_warps=warps)
    for rows, keys, stages, warps in ((128, 64, 3, 4), (128, 64, 3, 8), (128, 128, 2, 8), (64, 64, 3, 4))
]


@triton.jit
def _blocks(
    acc,
    total,
    top,
    q,
    k,
    v,
    row,
    begin,
    end,
    n,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    MASKED: tl.constexpr,
):
    rows, keys, columns = row + tl.arange(0, ROWS), tl.arange(0, KEYS), tl.arange(0, D)
    for first in range(begin, end, KEYS):
        at = first + keys
        scores = tl.dot(q, tl.load(k + at[None, :] * D + columns[:, None]))
        if MASKED:
            scores = tl.where(rows[:, None] >= at[None, :], scores, -1.0e6)
        largest = tl.maximum(top, tl.max(scores, 1))
        p = tl.math.exp2(scores - largest[:, None])
        factor = tl.math.exp2(top - largest)
        total = total * factor + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype.element_ty), tl.load(v + at[:, None] * D + columns[None, :]), acc * factor[:, None])
        top = largest
    return acc, total, top


@triton.autotune(configs=CONFIGS, key=["D", "CAUSAL"])
@triton.jit
def _attention(q, k, v, o, scale, n, D: tl.constexpr, CAUSAL: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr):
    row, head = tl.program_id(0) * ROWS, tl.program_id(1).to(tl.int64) * n * D
    rows, columns = row + tl.arange(0, ROWS), tl.arange(0, D)
    place = head + rows[:, None] * D + columns[None, :]
    queries = (tl.load(q + place) * (scale * 1.44269504)).to(q.dtype.element_ty)
    acc = tl.zeros([ROWS, D], tl.float32)
    total, top = tl.zeros([ROWS], tl.float32), tl.full([ROWS], -float("inf"), tl.float32)
    whole = row if CAUSAL else n
    acc, total, top = _blocks(acc, total, top, queries, k + head, v + head, row, 0, whole, n, D, ROWS, KEYS, False)
    if CAUSAL:
        acc, total, top = _blocks(
            acc, total, top, queries, k + head, v + head, row, row, row + ROWS, n, D, ROWS, KEYS, True
        )
    tl.store(o + place, (acc / total[:, None]).to(o.dtype.element_ty))


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    batch, heads, length, width = q.shape
    out = torch.empty_like(q)

    def grid(chosen):
        return (length // chosen["ROWS"], batch * heads)

    _attention[grid](q, k, v, out, width**-0.5, length, width, causal)
    return out
