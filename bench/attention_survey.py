"""`pyptx.kernels.attention` as frameworks call it, beside the quickest of cuDNN, FlashAttention-2 and efficient attention of torch that takes the
call: masks, windows, sequences behind each other, caches in pages; forward, and forward with backward.

    python bench/attention_survey.py [--rounds 3] [--only WORDS] [--seconds 100]

bf16, randn, by graphs of two calls that are replayed in turn, medians; results are compared first.  `--only`: cases whose line has one of these
words, which semicolons separate.  FlashAttention-2 takes the keys of a cache without pages, and in bf16.
"""

from __future__ import annotations

import argparse
import functools
import random
import statistics
import sys

from _gpu import device_times, graph_of, torch_on
from attention import Results, attempted, those_that_run

NODES = 2  # calls of a graph
BACKENDS = {"cuDNN": "CUDNN_ATTENTION", "FA2": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
# batch, heads, heads of K, queries, keys, elements of a head, of one of v; what it is beside that
WHOLE = (
    (1, 16, 16, 2048, 2048, 64, 64, ""), (1, 16, 16, 2048, 2048, 64, 64, "causal"), (1, 8, 8, 4096, 4096, 64, 64, ""),
    (1, 24, 24, 1024, 1024, 64, 64, "causal"), (1, 1, 1, 32768, 32768, 64, 64, ""), (2, 16, 16, 2048, 2048, 80, 80, ""),
    (2, 16, 16, 2048, 2048, 96, 96, "causal"), (2, 16, 16, 2048, 2048, 160, 160, ""), (2, 16, 16, 2048, 2048, 256, 128, "causal"),
    (1, 128, 128, 4096, 4096, 192, 128, "causal"), (1, 24, 24, 4608, 4608, 128, 128, ""), (1, 40, 40, 9000, 512, 128, 128, ""),
    (8, 16, 16, 256, 256, 64, 64, ""), (64, 12, 12, 197, 197, 64, 64, ""), (32, 32, 8, 128, 128, 128, 128, "causal"),
    (2, 16, 16, 1, 8192, 128, 128, ""), (8, 16, 16, 1, 2048, 64, 64, ""), (32, 16, 16, 1, 576, 64, 64, ""), (4, 16, 16, 16, 4096, 128, 128, ""),
    (1, 32, 8, 8192, 8192, 128, 128, "window 1024"), (2, 16, 16, 4096, 4096, 64, 64, "window 128"),
)  # fmt: skip
MASKED = (  # batch, heads, heads of K, queries, keys, elements of a head; the mask
    (1, 32, 32, 1, 4096, 128, "keys"), (64, 16, 16, 1, 1024, 64, "keys"), (1, 32, 8, 1, 8192, 128, "keys"), (8, 32, 8, 1, 2048, 128, "keys"),
    (1, 32, 8, 16, 4096, 128, "tree"), (1, 16, 16, 128, 2048, 64, "added"), (1, 32, 8, 2048, 2048, 128, "keys"),
    (1, 32, 32, 2048, 2048, 128, "slopes"), (2, 16, 16, 2048, 2048, 64, "keys"), (32, 8, 8, 64, 64, 64, "of bool"), (256, 4, 4, 49, 49, 32, "added"),
    (32, 12, 12, 128, 128, 64, "keys"),
)  # fmt: skip
DRAWN = random.Random(1)
LENGTHS = {  # of queries and keys
    "16 of 64 to 2048": [DRAWN.randint(64, 2048) for _ in range(16)],
    "8192 and 63 of 16 to 256": [8192] + [DRAWN.randint(16, 256) for _ in range(63)],
    "256 of 16 to 128": [DRAWN.randint(16, 128) for _ in range(256)],
    "4 of 4096": [4096] * 4, "16 of 512": [512] * 16, "32 of 256": [256] * 32, "64 of 128": [128] * 64, "512 of 20": [20] * 512,
}  # fmt: skip
SEQUENCES = (  # lengths, heads, heads of K, elements of a head; what it is beside that
    ("16 of 64 to 2048", 32, 8, 128, "causal"), ("8192 and 63 of 16 to 256", 16, 16, 128, "causal"), ("4 of 4096", 16, 16, 128, "causal"),
    ("256 of 16 to 128", 12, 12, 64, ""), ("256 of 16 to 128", 8, 8, 128, "causal"), ("16 of 512", 16, 16, 64, ""), ("32 of 256", 16, 16, 64, ""),
    ("64 of 128", 16, 16, 64, ""), ("512 of 20", 12, 12, 64, ""),
)  # fmt: skip
CACHES = (  # queries of each sequence, keys of each, heads, heads of K, elements of a head, keys of a page; the type of keys, if not bf16
    ([512] * 4, [4096] * 4, 32, 8, 128, 16), ([512] * 4, [4096] * 4, 32, 8, 128, 256), ([2048], [8192], 32, 8, 128, 16), ([128] * 16, [2048] * 16, 32, 8, 128, 16),
    ([2048] + [1] * 63, [4096] + [2048] * 63, 32, 8, 128, 16), ([32] * 8, [4096] * 8, 32, 8, 128, 16), ([16] * 8, [8192] * 8, 32, 8, 128, 16),
    ([1] * 64, [4096] * 64, 32, 8, 128, 16), ([1024] * 4, [4096] * 4, 16, 16, 64, 16), ([1024] * 2, [4096] * 2, 16, 8, 256, 16),
    ([512] * 4, [4096] * 4, 32, 8, 128, 16, "e4m3"), ([2048] + [1] * 63, [4096] + [2048] * 63, 32, 8, 128, 16, "e4m3"),
    ([1024] * 4, [4096] * 4, 16, 16, 64, 16, "e4m3"), ([1024] * 2, [4096] * 2, 16, 8, 256, 16, "e4m3"),
    ([2048] + [1] * 63, [4096] + [2048] * 63, 28, 4, 128, 16),
)  # fmt: skip


def draw(torch, *shape):
    return torch.randn(shape, device="cuda").bfloat16()


def whole(torch, kernels, case, back: bool):
    batch, heads, shared, queries, keys, width, values, words = case
    sizes = (heads, queries, width), (shared, keys, width), (shared, keys, values)
    leaves = [draw(torch, batch, *each).requires_grad_(back) for each in sizes]
    causal, window = words != "", int(words.split()[1]) if words.startswith("window") else None
    function = torch.nn.functional.scaled_dot_product_attention

    def by_flash():
        q, k, v = (each.transpose(1, 2) for each in leaves)
        told = {} if window is None else {"window_size_left": window - 1, "window_size_right": 0}
        made = torch.ops.aten._flash_attention_forward(q, k, v, None, None, queries, keys, 0.0, causal, False, **told)
        return made[0].transpose(1, 2)

    def by(backend):
        with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, backend)):
            return function(*leaves, is_causal=causal, enable_gqa=heads != shared)

    others = {"FA2": by_flash} if window else {name: functools.partial(by, each) for name, each in BACKENDS.items()}
    return leaves, lambda: kernels.attention(*leaves, causal=causal, window=window), others


def mask_of(torch, batch: int, heads: int, queries: int, keys: int, kind: str):
    if kind == "keys":  # of a batch whose sequences are padded
        return (torch.arange(keys, device="cuda") < keys - keys // 5).expand(batch, 1, 1, keys)
    if kind == "of bool":
        return torch.rand(batch, 1, queries, keys, device="cuda") > 0.3
    if kind == "tree":  # the last keys are guesses, which see some of each other
        mask = torch.zeros(1, 1, queries, keys, device="cuda")
        mask[..., keys - queries :].masked_fill_(torch.rand(queries, queries, device="cuda") > 0.5, float("-inf"))
        return mask.bfloat16()
    if kind == "slopes":
        slopes = torch.arange(1, heads + 1, device="cuda")[None, :, None, None] / heads
        return (slopes * torch.arange(keys, device="cuda") * -0.01).bfloat16()
    return draw(torch, batch, heads, queries, keys)


def masked(torch, kernels, case, back: bool):
    batch, heads, shared, queries, keys, width, kind = case
    leaves = [draw(torch, batch, each, length, width) for each, length in ((heads, queries), (shared, keys), (shared, keys))]  # fmt: skip
    mask = mask_of(torch, batch, heads, queries, keys, kind)

    def by(backend):
        with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, backend)):
            return torch.nn.functional.scaled_dot_product_attention(*leaves, attn_mask=mask, enable_gqa=heads != shared)

    others = {name: functools.partial(by, each) for name, each in BACKENDS.items()}
    return leaves, lambda: kernels.attention(*leaves, mask=mask), others


def begins_of(torch, lengths):
    return torch.tensor([0, *lengths], device="cuda").cumsum(0).int()


def sequences(torch, kernels, case, back: bool):
    name, heads, shared, width, words = case
    lengths, causal = LENGTHS[name], words != ""
    begins, longest = begins_of(torch, lengths), max(lengths)
    leaves = [draw(torch, sum(lengths), each, width).requires_grad_(back) for each in (heads, shared, shared)]

    def by_flash():
        return torch.ops.aten._flash_attention_forward(*leaves, begins, begins, longest, longest, 0.0, causal, False)[0]

    def by_efficient():
        packed = [each[None] for each in leaves]
        kind = int(causal)  # CausalFromTopLeft
        return torch.ops.aten._efficient_attention_forward(*packed, None, begins, begins, longest, longest, 0.0, kind, back)[0][0]  # fmt: skip

    others = {"FA2": by_flash} | ({"efficient": by_efficient} if heads == shared else {})
    return leaves, lambda: kernels.attention(*leaves, causal=causal, cu_seqlens=begins), others


def caches(torch, kernels, case, back: bool):
    queries, keys, heads, shared, width, page, *narrow = case
    room = -(-max(keys) // page)
    k, v = (draw(torch, len(keys) * room, page, shared, width) for _ in range(2))
    if narrow:
        k, v = k.to(torch.float8_e4m3fn), v.to(torch.float8_e4m3fn)
    table = torch.randperm(len(keys) * room, device="cuda").int().view(len(keys), room)
    q, begins = draw(torch, sum(queries), heads, width), begins_of(torch, queries)
    own = [torch.cat([each[row.long()].flatten(0, 1)[:count].bfloat16() for row, count in zip(table, keys, strict=True)]) for each in (k, v)]  # fmt: skip
    told = {"lengths": torch.tensor(keys, device="cuda").int(), "block_table": table}

    def by_flash():
        of_keys, most = begins_of(torch, keys), (max(queries), max(keys))
        return torch.ops.aten._flash_attention_forward(q, *own, begins, of_keys, *most, 0.0, True, False)[0]

    return [q], lambda: kernels.attention(q, k, v, causal=True, cu_seqlens=begins, **told), {"FA2": by_flash}


def cell(torch, kernels, measured, case, back: bool, rounds: int) -> str:
    """Microseconds, and how often as quick that is as the quickest other."""
    leaves, ours, others = measured(torch, kernels, case, back)
    want = ours()
    pull = torch.randn_like(want)
    there = those_that_run({"ours": ours, **others}, want.float())
    if back:
        there = {name: lambda arm=arm: torch.autograd.grad(arm(), leaves, pull) for name, arm in there.items()}
        for arm in there.values():  # a second call is still not what a graph captures in each of them
            arm(), arm()
    graphs = {name: graph_of(torch, arm, NODES) for name, arm in there.items()}
    times = {name: statistics.median(each) for name, each in device_times(torch, graphs, rounds, NODES).items()}
    own = times.pop("ours")
    best = min(times, key=times.get) if times else None
    return f"{own:.1f} ({times[best] / own:.2f} of {best})" if best else f"{own:.1f}"


def told(case) -> str:
    """A case in words."""
    if isinstance(case[0], list):
        queries, keys, heads, shared, width, page, *narrow = case
        sequences_ = ", ".join(
            f"{queries.count(each)} x {each} of {keys[queries.index(each)]}" for each in dict.fromkeys(queries)
        )
        return f"cache: {sequences_} keys, {heads} / {shared}, {width}, pages of {page}{' in e4m3' if narrow else ''}"
    if isinstance(case[0], str):
        name, heads, shared, width, words = case
        return f"sequences: {name}, {heads} / {shared}, {width} {words}".strip()
    batch, heads, shared, queries, keys, width, *values, words = case
    values = f" and {values[0]}" if values and values[0] != width else ""
    return f"{batch} x {heads} / {shared}, {queries} x {keys}, {width}{values} {'' if len(case) == 8 else 'mask '}{words}".strip()


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--seconds", type=float, default=float("inf"))
    given = arguments.parse_args()
    if not (torch := torch_on(90, 90)):
        return 0
    from pyptx import kernels

    results = Results(None, given.seconds)
    results.say("| batch x heads / of K, queries x keys, head | forward, us | with backward |\n|---|---|---|")
    for measured, cases in ((whole, WHOLE), (masked, MASKED), (sequences, SEQUENCES), (caches, CACHES)):
        for case in cases:
            line = told(case)
            if any(word in line for word in given.only.split(";")) and results.wanted(line):
                both = (False, True) if measured in (whole, sequences) else (False,)
                cells = [
                    attempted(results, line, cell, torch, kernels, measured, case, back, given.rounds) for back in both
                ]
                results.say(f"| {line} | {' | '.join(each or '' for each in (*cells, '')[:2])} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
