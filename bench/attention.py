"""`pyptx.kernels.attention` beside cuDNN, FlashAttention-2 and flex_attention of torch and Triton's tutorial on a GPU, by TFLOP/s;
decoding beside a device copy.

    python bench/attention.py [--rounds 5] [--heads 64,128,256] [--lengths 512,...,32768] [--parts sweep,features,fp8,bound,few,shared,masks,decode]
                              [--beside cuDNN,FA2,flex,Triton] [--seconds 55] [--file attention.md]

What is printed is appended to the file; lines of the sweep that are in it are passed over.  With `--seconds` no line is begun
after that time, so the same command again goes on where this one has ended.
The sweep is a table as docs/performance/attention.md has it, of which tools/picture_pages.py draws a picture.  bf16, randn; medians of interleaved rounds, which rest 50 ms before each arm.  A product of n numbers counts 2 n operations,
half of them under a causal mask; the backward counts five products, also where it takes seven.  Decoding: bytes of K and V
that a second reads, of those that a copy reads and writes.
"""

from __future__ import annotations

import argparse
import functools
import pathlib
import statistics
import sys
import time

from _gpu import device_times, graph_of, interleaved, torch_on

HEADS = ((64, 32, False), (64, 32, True), (128, 16, False), (128, 16, True), (256, 8, False), (256, 8, True))
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
COLUMNS = (
    "head",
    "mask",
    "length",
    "ours",
    "cuDNN",
    "FA2",
    "flex",
    "Triton",
    "ours / cuDNN",
    "backward, ours",
    "cuDNN",
    "ours / cuDNN",
)
TOKENS = 16384
FEW = (
    (1, 32, 8, 64, 8192, 128, True), (1, 32, 8, 128, 4096, 128, True), (1, 32, 8, 128, 32768, 128, True), (1, 32, 8, 256, 8192, 128, True),
    (1, 64, 8, 64, 4096, 128, True), (1, 16, 1, 64, 8192, 192, False), (2, 16, 16, 128, 4096, 128, False), (2, 16, 16, 77, 4096, 64, False),
    (1, 8, 8, 64, 2048, 128, False), (1, 16, 16, 128, 8192, 256, False), (1, 1, 1, 4096, 4096, 64, False), (1, 1, 1, 4096, 4096, 128, True),
    (1, 4, 4, 1024, 1024, 128, False), (1, 4, 4, 512, 512, 64, False),
)  # fmt: skip
SHARED = (  # batch, heads, heads of K, length, width
    (1, 71, 1, 2048, 64), (2, 16, 2, 4096, 128), (1, 32, 8, 2048, 128), (1, 32, 8, 333, 128), (1, 8, 4, 1024, 256), (4, 32, 8, 512, 128),
    (1, 64, 8, 4096, 128), (1, 16, 16, 2048, 128), (1, 32, 8, 8192, 128),
)  # fmt: skip
MASKED = ((16, 12, 197, 64), (16, 12, 200, 64), (8, 8, 512, 64), (2, 16, 2048, 64), (2, 16, 2048, 128))
CACHES = ((1, 8, 32768), (8, 8, 32768), (64, 8, 4096), (4, 32, 32768))  # batch, heads of K, keys


class Results:
    """What is printed and appended to a file, and until when."""

    def __init__(self, file: str | None, seconds: float):
        self.file, self.end = file and pathlib.Path(file), time.monotonic() + seconds
        self.there = self.file.read_text().splitlines() if self.file and self.file.exists() else []

    def say(self, line: str):
        print(line, flush=True)
        if self.file:
            with self.file.open("a") as file:
                file.write(line + "\n")

    def wanted(self, beginning: str) -> bool:
        """Whether there is time left, and no line that begins so."""
        return time.monotonic() < self.end and not any(line.startswith(beginning) for line in self.there)


def attempted(results: Results, what: str, measure, *arguments):
    """What `measure` returns; None where it fails, which is said."""
    try:
        return measure(*arguments)
    except Exception as reason:  # what others raise
        results.say(f"no {what}: {type(reason).__name__}: {str(reason).splitlines()[0][:120]}")


def medians(torch, arms: dict, rounds: int, launches: int) -> dict[str, float]:
    times = interleaved(torch, arms, rounds, launches, 0.05)
    return {name: statistics.median(each) for name, each in times.items()}


def theirs(torch, backend: str, q, k, v, causal: bool):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(getattr(SDPBackend, backend)):
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
        )


def causal_mask(batch, head, query, key):
    return query >= key


@functools.cache
def flex():
    """flex_attention, compiled once for all lengths of a mask."""
    import torch
    from torch.nn.attention import flex_attention

    compiled = torch.compile(flex_attention.flex_attention, dynamic=True)
    masks = functools.cache(
        lambda length: flex_attention.create_block_mask(causal_mask, None, None, length, length, device="cuda")
    )

    def attention(q, k, v, causal: bool):
        return compiled(q, k, v, block_mask=masks(q.shape[2]) if causal else None)

    return attention


def by_triton(q, k, v, causal: bool):
    import _triton_attention

    return _triton_attention.attention(q, k, v, causal)


def those_that_run(arms: dict, wanted) -> dict:
    """The arms without those that this machine cannot compile; each is compared with the first."""
    there = {}
    for name, arm in arms.items():
        try:
            error = (arm().float() - wanted).norm() / wanted.norm()
        except Exception as reason:  # what others raise
            print(f"no {name}: {type(reason).__name__}: {str(reason).splitlines()[0][:120]}", file=sys.stderr)
            continue
        if error > 1e-2:
            raise ValueError(f"{name} is wrong: its relative error beside ours is {error:.1e}")
        there[name] = arm
    return there


def row(torch, kernels, beside, width: int, heads: int, causal: bool, length: int, rounds: int) -> list:
    """TFLOP/s of all forward, of ours and cuDNN backward; of others those that are named."""
    batch = max(1, TOKENS // length)
    shape = (batch, heads, length, width)
    q, k, v, g = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    flops = 4 * batch * heads * length**2 * width / (2 if causal else 1) / 1e9
    launches = min(40, max(3, int(10_000 / flops)))
    forward = {
        "ours": lambda: kernels.attention(q, k, v, causal=causal),
        "cuDNN": lambda: theirs(torch, "CUDNN_ATTENTION", q, k, v, causal),
        "FA2": lambda: theirs(torch, "FLASH_ATTENTION", q, k, v, causal),
        "flex": lambda: flex()(q, k, v, causal),
        "Triton": lambda: by_triton(q, k, v, causal),
    }
    forward = {name: arm for name, arm in forward.items() if name in ("ours", *beside)}
    forward = those_that_run(forward, kernels.attention(q, k, v, causal=causal).float())
    speeds = {name: flops / each for name, each in medians(torch, forward, rounds, launches).items()}
    found = [speeds.get(name) for name in ("ours", "cuDNN", "FA2", "flex", "Triton")]
    if width > 128:
        return [*found, None, None]
    inputs = [each.requires_grad_() for each in (q, k, v)]
    results = [kernels.attention(*inputs, causal=causal), theirs(torch, "CUDNN_ATTENTION", *inputs, causal)]
    backward = {
        name: (lambda result=result: torch.autograd.grad(result, inputs, g, retain_graph=True))
        for name, result in zip(("ours", "cuDNN"), results, strict=True)
    }
    launches = max(3, launches // 3)
    return [*found, *(2.5 * flops / each for each in medians(torch, backward, rounds, launches).values())]


def sweep(torch, kernels, beside, widths, lengths, rounds: int, results: Results):
    title = "| " + " | ".join(COLUMNS) + " |"
    if results.wanted(title):
        results.say(title + "\n" + "|---" * len(COLUMNS) + "|")
    for width, heads, causal in HEADS:
        for length in lengths if width in widths else ():
            begin = f"| {width} | {'causal' if causal else ''} | {length} | "
            if not results.wanted(begin):
                continue
            found = attempted(results, begin, row, torch, kernels, beside, width, heads, causal, length, rounds)
            if found:
                results.say(begin + " | ".join(cells_of(*found)) + " |")


def cells_of(*speeds) -> list[str]:
    """TFLOP/s and, behind those of a direction, ours by cuDNN's."""
    *forward, back, cudnn_back = speeds
    ratios = [a / b if a and b else None for a, b in ((forward[0], forward[1]), (back, cudnn_back))]
    numbers = [f"{each:.0f}" if each else "" for each in (*forward, back, cudnn_back)]
    ratios = [f"{each:.2f}" if each else "" for each in ratios]
    return [*numbers[:5], ratios[0], *numbers[5:], ratios[1]]


def gradient_of(torch, result, inputs):
    g = torch.randn_like(result)
    return lambda: torch.autograd.grad(result, inputs, g, retain_graph=True)


def features_row(torch, kernels, width: int, heads: int, causal: bool, rounds: int) -> list[float]:
    """TFLOP/s of what is no plain attention, 4 sequences of 4,096."""
    module, batch, length = sys.modules["pyptx.kernels.attention"], 4, 4096
    q, k, v = (torch.randn(batch, heads, length, width, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    narrow, sinks = [each.to(torch.float8_e4m3fn) for each in (q, k, v)], torch.zeros(heads, device="cuda")
    flops = 4 * batch * heads * length**2 * width / (2 if causal else 1) / 1e9
    key = ("bfloat16", width, width, causal, False, False, True, True, False, False, False, False, "mma")
    by_mma, options = module._choose(*key), {"scale": width**-0.5, "together": 1} | ({"shift": 0} if causal else {})
    arms = {
        "plain": lambda: kernels.attention(q, k, v, causal=causal),
        "sinks": lambda: kernels.attention(q, k, v, causal=causal, sinks=sinks),
        "fp8": lambda: kernels.attention(*narrow, causal=causal),
        "mma": lambda: by_mma(q, k, v, **options),
    }
    begins = torch.arange(batch + 1, device="cuda", dtype=torch.int32) * length
    behind = [each.transpose(1, 2).flatten(0, 1) for each in narrow]
    arms["fp8 sequences"] = lambda: kernels.attention(*behind, causal=causal, cu_seqlens=begins)
    speeds = [flops / each for each in medians(torch, arms, rounds, 6).values()]
    leaves = [each.requires_grad_() for each in (q, k, v)]
    packed = [each.detach().transpose(1, 2).flatten(0, 1).contiguous().requires_grad_() for each in leaves]
    arms = {
        "plain": gradient_of(torch, kernels.attention(*leaves, causal=causal), leaves),
        "fixed": gradient_of(torch, kernels.attention(*leaves, causal=causal, deterministic=True), leaves),
        "capped": gradient_of(torch, kernels.attention(*leaves, causal=causal, softcap=30.0), leaves),
        "sequences": gradient_of(torch, kernels.attention(*packed, causal=causal, cu_seqlens=begins), packed),
    }
    return speeds + [2.5 * flops / each for each in medians(torch, arms, rounds, 3).values()]


def features(torch, kernels, widths, rounds: int, results: Results):
    results.say(
        "\n4 x 4,096: forward; backward as it is, in a fixed order, of capped scores, of sequences behind each other"
    )
    results.say("head  causal   plain  sinks    fp8    mma  fp8 sequences   backward  fixed order  capped  sequences")
    for width, heads, causal in HEADS:
        begin = f"{width:4}  {causal!s:6}   "
        if width in widths and results.wanted(begin):
            speeds = attempted(results, begin, features_row, torch, kernels, width, heads, causal, rounds)
            sizes = (5, 5, 5, 5, 13, 9, 11, 6, 9)
            if speeds:
                results.say(begin + "  ".join(f"{x:{size}.0f}" for x, size in zip(speeds, sizes, strict=True)))


def narrow_row(torch, kernels, width: int, heads: int, causal: bool, length: int, rounds: int) -> list[float]:
    """TFLOP/s of e4m3 and of bf16, by calls in graphs."""
    batch, nodes = max(1, TOKENS // length), 6
    wide = [torch.randn(batch, heads, length, width, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    narrow = [each.to(torch.float8_e4m3fn) for each in wide]
    results = [kernels.attention(*given, causal=causal).float() for given in (narrow, wide)]
    error = ((results[0] - results[1]).norm() / results[1].norm()).item()
    if error > 0.1:  # of inputs, p and result
        raise ValueError(f"e4m3 is wrong: its relative error beside bf16 is {error:.1e}")
    arms = {
        name: graph_of(torch, lambda given=given: kernels.attention(*given, causal=causal), nodes).replay
        for name, given in (("e4m3", narrow), ("bf16", wide))
    }
    flops = 4 * nodes * batch * heads * length**2 * width / (2 if causal else 1) / 1e9
    return [flops / each for each in medians(torch, arms, rounds, 1).values()]


def lines_of(results: Results, measure, torch, kernels, widths, lengths, rounds: int):
    """(the beginning of a line, what `measure` finds) of each shape that it finds something for."""
    for width, heads, causal in HEADS:
        for length in lengths if width in widths else ():
            begin = f"{width:4}  {causal!s:6}  {length:6}  "
            found = attempted(results, begin, measure, torch, kernels, width, heads, causal, length, rounds)
            if found:
                yield begin, found


def narrow(torch, kernels, widths, lengths, rounds: int, results: Results):
    results.say("\ne4m3 beside bf16, by calls: TFLOP/s\nhead  causal  length   e4m3   bf16  e4m3 / bf16")
    for begin, (e4m3, bf16) in lines_of(results, narrow_row, torch, kernels, widths, lengths, rounds):
        results.say(f"{begin}{e4m3:5.0f}  {bf16:5.0f}  {e4m3 / bf16:11.2f}")


def bare(width: int, causal: bool, long: bool):
    """The forward kernel whose blocks are products alone: scores are rounded, and are p."""
    from pyptx import ptx
    from pyptx.kernels._attention import forward
    from pyptx.types import bf16

    class Bare(forward.Warpgroup):
        def _block(self, index, masked: bool):
            stage = self._issue()
            ptx.wgmma.wait_group(0)
            self._free_block(self.shared.v_empty, stage)
            self._pack()

    plan = sys.modules["pyptx.kernels.attention"].plan(width, width, causal, False, False, long)
    return forward.forward_kernel(bf16, plan, Bare), plan


def bound_row(torch, kernels, width: int, heads: int, causal: bool, length: int, rounds: int) -> list[float]:
    """TFLOP/s of ours, of its products alone, of cuDNN."""
    from pyptx.kernels._attention.plan import taken_together

    batch = max(1, TOKENS // length)
    q, k, v = (torch.randn(batch, heads, length, width, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    flops = 4 * batch * heads * length**2 * width / (2 if causal else 1) / 1e9
    kernel, plan = bare(width, causal, length > (2048 if causal else 512))
    options = {"scale": width**-0.5, "together": taken_together(plan, batch * heads, 1, length, length, False)}
    options |= {"shift": 0} if causal else {}
    arms = {
        "ours": lambda: kernels.attention(q, k, v, causal=causal),
        "products": lambda: kernel(q, k, v, **options),
        "cuDNN": lambda: theirs(torch, "CUDNN_ATTENTION", q, k, v, causal),
    }
    launches = min(40, max(3, int(10_000 / flops)))
    return [flops / each for each in medians(torch, arms, rounds, launches).values()]


def bound(torch, kernels, widths, lengths, rounds: int, results: Results):
    results.say("\nproducts alone, in the same tiles: TFLOP/s, and what is that of cuDNN's attention")
    results.say("head  causal  length   ours  products  cuDNN   ours / cuDNN  products / cuDNN")
    for begin, (ours, products, cudnn) in lines_of(results, bound_row, torch, kernels, widths, lengths, rounds):
        numbers = f"{ours:5.0f}  {products:8.0f}  {cudnn:5.0f}"
        results.say(f"{begin}{numbers}  {ours / cudnn:13.2f}  {products / cudnn:16.2f}")


def caches(torch, kernels, batch: int, heads: int, keys: int) -> dict:
    """A query of 32 heads of 128 against a cache: whole, of e4m3, of e4m3 in pages of 16 that lie anywhere; with its bytes."""
    q = torch.randn(batch, 32, 1, 128, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(batch, heads, keys, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    narrow = [each.to(torch.float8_e4m3fn) for each in (k, v)]
    counts = torch.full((batch,), keys, device="cuda", dtype=torch.int32)
    pages = [each.view(torch.uint8).view(-1, 16, heads, 128).view(torch.float8_e4m3fn) for each in narrow]
    told = {"lengths": counts, "block_table": torch.randperm(batch * keys // 16, device="cuda").int().view(batch, -1)}
    return {
        "bf16": (lambda: kernels.attention(q, k, v), 2 * k.nbytes),
        "e4m3": (lambda: kernels.attention(q, *narrow, lengths=counts), k.nbytes),
        "pages": (lambda: kernels.attention(q, *pages, **told), k.nbytes),
    }


def decode(torch, kernels, rounds: int, results: Results):
    source = torch.empty(1 << 29, device="cuda", dtype=torch.uint8)
    copy = torch.empty_like(source)
    results.say(
        "\ndecoding, one query, 32 heads of 128: us, bytes a second as a part of a copy's; bf16, e4m3, e4m3 in pages of 16"
    )
    results.say("  batch  heads of K   keys     us  of a copy     us  of a copy     us  of a copy")
    for batch, heads, keys in CACHES:
        arms = caches(torch, kernels, batch, heads, keys)
        graphs = {name: graph_of(torch, arm, 4).replay for name, (arm, _) in arms.items()}
        times = medians(torch, {"copy": lambda: copy.copy_(source)} | graphs, rounds, 8)
        line = f"  {batch:5}  {heads:10}  {keys:5}"
        for name, (_, bytes_) in arms.items():
            ours = times[name] / 4
            line += f"  {ours * 1e3:5.1f}  {bytes_ / ours / (2 * source.numel() / times['copy']):9.2f}"
        results.say(line)


def few_arms(
    torch, kernels, batch: int, heads: int, shared: int, queries: int, keys: int, width: int, causal: bool
) -> dict:
    """`whole`: as for gradients, a tile of queries has all keys."""
    q = torch.randn(batch, heads, queries, width, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(batch, shared, keys, width, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    leaf = q.clone().requires_grad_()
    arms = {
        "ours": lambda: kernels.attention(q, k, v, causal=causal),
        "whole": lambda: kernels.attention(leaf, k, v, causal=causal).detach(),
    }
    if heads == shared and (queries == keys or not causal):  # torch aligns the first query with the first key
        arms["cuDNN"] = lambda: theirs(torch, "CUDNN_ATTENTION", q, k, v, causal)
        arms["FA2"] = lambda: theirs(torch, "FLASH_ATTENTION", q, k, v, causal)
    return those_that_run(arms, kernels.attention(q, k, v, causal=causal).float())


def few(torch, kernels, rounds: int, results: Results):
    """Few tiles of queries and many keys, which CTAs share."""
    names = ("ours", "whole", "cuDNN", "FA2")
    results.say(f"\nfew tiles, us: batch, heads, heads of K, queries x keys, width: {', '.join(names)}")
    for batch, heads, shared, queries, keys, width, causal in FEW:
        arms = few_arms(torch, kernels, batch, heads, shared, queries, keys, width, causal)
        times = medians(torch, {name: graph_of(torch, arm, 4).replay for name, arm in arms.items()}, rounds, 8)
        cells = [f"{times[name] / 4 * 1e3:7.1f}" if name in times else "      -" for name in names]
        shape = f"{batch}, {heads}, {shared}, {queries} x {keys}, {width}{' causal' * causal}"
        results.say(f"  {shape:38}{''.join(cells)}")


def shared_arms(torch, kernels, batch: int, heads: int, shared: int, length: int, width: int, causal: bool) -> dict:
    """Forward and backward; each returns all gradients."""
    q, k, v = (
        torch.randn(batch, each, length, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for each in (heads, shared, shared)
    )
    do = torch.randn_like(q)

    def both(forward):
        return torch.cat([each.flatten() for each in torch.autograd.grad(forward(), (q, k, v), do)])

    forwards = {
        "ours": lambda: kernels.attention(q, k, v, causal=causal),
        "cuDNN": lambda: theirs(torch, "CUDNN_ATTENTION", q, k, v, causal),
        "FA2": lambda: theirs(torch, "FLASH_ATTENTION", q, k, v, causal),
    }
    there = those_that_run(
        {name: lambda each=each: both(each) for name, each in forwards.items()}, both(forwards["ours"]).float()
    )
    return {name: lambda name=name: torch.autograd.grad(forwards[name](), (q, k, v), do) for name in there}


def shared_heads(torch, kernels, rounds: int, results: Results):
    """Heads of q that share those of K, with gradients."""
    results.say("\n| batch, heads / of K, length, head | mask | ours, us | cuDNN | FA2 |\n|---|---|---|---|---|")
    for *shape, causal in [(*each, causal) for causal in (False, True) for each in SHARED]:
        batch, heads, shared, length, width = shape
        line = f"| {batch}, {heads} / {shared}, {length}, {width} | {'causal' * causal} |"
        if not results.wanted(line):
            continue
        graphs = {name: graph_of(torch, arm, 3) for name, arm in shared_arms(torch, kernels, *shape, causal).items()}
        times = {name: statistics.median(each) for name, each in device_times(torch, graphs, rounds, 3).items()}
        cells = [f"{times[name]:.1f}" if name in times else "" for name in ("ours", "cuDNN", "FA2")]
        results.say(f"{line} {' | '.join(cells)} |")


def masks(torch, kernels, rounds: int, results: Results):
    results.say("\n| batch, heads, length, head | mask | ours, us | cuDNN |\n|---|---|---|---|")
    for batch, heads, length, width in MASKED:
        q, k, v = (torch.randn(batch, heads, length, width, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        padded = torch.randn(batch, heads, length, -(-length // 8) * 8, device="cuda", dtype=torch.bfloat16)[..., :length]  # fmt: skip
        given = {"added": padded, "of bool": torch.rand(batch, 1, length, length, device="cuda") > 0.3}
        if length % 2:
            given["added, odd rows"] = padded.contiguous()  # which cuDNN does not take
        for name, mask in given.items():
            beside = padded if name.startswith("added") else mask
            arms = {
                "ours": lambda mask=mask, q=q, k=k, v=v: kernels.attention(q, k, v, mask=mask),
                "cuDNN": lambda mask=beside, q=q, k=k, v=v: with_mask(torch, q, k, v, mask),
            }
            torch.testing.assert_close(*(arm() for arm in arms.values()), rtol=3e-2, atol=3e-2)
            graphs = {arm: graph_of(torch, call, 8).replay for arm, call in arms.items()}
            ours, other = (each / 8e-3 for each in medians(torch, graphs, rounds, 1).values())
            results.say(
                f"| {batch}, {heads}, {length}, {width} | {name} | {ours:.1f} ({other / ours:.2f}) | {other:.1f} |"
            )


def with_mask(torch, q, k, v, mask):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    for name, default in (("heads", "64,128,256"), ("lengths", ",".join(map(str, LENGTHS)))):
        arguments.add_argument(f"--{name}", type=lambda text: [int(each) for each in text.split(",")], default=default)
    arguments.add_argument("--parts", default="sweep,features,decode")
    arguments.add_argument("--beside", default="cuDNN,FA2,flex,Triton")
    arguments.add_argument("--seconds", type=float, default=float("inf"))
    arguments.add_argument("--file")
    given = arguments.parse_args()
    if not (torch := torch_on(90, 90)):
        return 0
    from pyptx import kernels

    results = Results(given.file, given.seconds)
    results.say(f"cuDNN {torch.backends.cudnn.version()}")
    parts = given.parts.split(",")
    if "sweep" in parts:
        sweep(torch, kernels, given.beside.split(","), given.heads, given.lengths, given.rounds, results)
    if "features" in parts:
        features(torch, kernels, given.heads, given.rounds, results)
    if "fp8" in parts:
        narrow(torch, kernels, given.heads, given.lengths, given.rounds, results)
    if "bound" in parts:
        bound(torch, kernels, given.heads, given.lengths, given.rounds, results)
    if "few" in parts:
        attempted(results, "few tiles", few, torch, kernels, given.rounds, results)
    if "shared" in parts:
        attempted(results, "shared heads", shared_heads, torch, kernels, given.rounds, results)
    if "masks" in parts:
        attempted(results, "masks", masks, torch, kernels, given.rounds, results)
    if "decode" in parts:
        attempted(results, "decoding", decode, torch, kernels, given.rounds, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
