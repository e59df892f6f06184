"""`pyptx.kernels.attention` beside cuDNN and FlashAttention-2 of torch on a GPU, by TFLOP/s; decoding beside a device copy.

    python bench/attention.py [--rounds 5] [--quick]

bf16, randn; medians of interleaved rounds, which rest 50 ms before each arm.  A product of n numbers counts 2 n operations,
half of them under a causal mask; the backward counts five products, also where it takes seven.  Decoding: bytes of K and V
that a second reads, of those that a copy reads and writes.
"""

from __future__ import annotations

import argparse
import statistics
import sys

from _gpu import graph_of, interleaved, torch_on

HEADS = ((64, 32, False), (64, 32, True), (128, 16, False), (128, 16, True), (256, 8, False), (256, 8, True))
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
TOKENS = 16384
CACHES = ((1, 8, 32768), (8, 8, 32768), (64, 8, 4096), (4, 32, 32768))  # batch, heads of K, keys


def medians(torch, arms: dict, rounds: int, launches: int) -> dict[str, float]:
    times = interleaved(torch, arms, rounds, launches, 0.05)
    return {name: statistics.median(each) for name, each in times.items()}


def theirs(torch, backend: str, q, k, v, causal: bool):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(getattr(SDPBackend, backend)):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def row(torch, kernels, width: int, heads: int, causal: bool, length: int, rounds: int):
    """TFLOP/s of ours, cuDNN and FlashAttention-2 forward, of ours and cuDNN backward."""
    batch = max(1, TOKENS // length)
    shape = (batch, heads, length, width)
    q, k, v, g = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    flops = 4 * batch * heads * length**2 * width / (2 if causal else 1) / 1e9
    launches = min(40, max(3, int(10_000 / flops)))
    forward = {
        "pyptx": lambda: kernels.attention(q, k, v, causal=causal),
        "cuDNN": lambda: theirs(torch, "CUDNN_ATTENTION", q, k, v, causal),
        "FA2": lambda: theirs(torch, "FLASH_ATTENTION", q, k, v, causal),
    }
    speeds = [flops / each for each in medians(torch, forward, rounds, launches).values()]
    if width > 128:
        return [*speeds, None, None]
    inputs = [each.requires_grad_() for each in (q, k, v)]
    results = [kernels.attention(*inputs, causal=causal), theirs(torch, "CUDNN_ATTENTION", *inputs, causal)]
    backward = {
        name: (lambda result=result: torch.autograd.grad(result, inputs, g, retain_graph=True))
        for name, result in zip(("pyptx", "cuDNN"), results, strict=True)
    }
    launches = max(3, launches // 3)
    return [*speeds, *(2.5 * flops / each for each in medians(torch, backward, rounds, launches).values())]


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
    speeds = [flops / each for each in medians(torch, arms, rounds, 6).values()]
    leaves = [each.requires_grad_() for each in (q, k, v)]
    packed = [each.detach().transpose(1, 2).flatten(0, 1).contiguous().requires_grad_() for each in leaves]
    begins = torch.arange(batch + 1, device="cuda", dtype=torch.int32) * length
    arms = {
        "plain": gradient_of(torch, kernels.attention(*leaves, causal=causal), leaves),
        "fixed": gradient_of(torch, kernels.attention(*leaves, causal=causal, deterministic=True), leaves),
        "sequences": gradient_of(torch, kernels.attention(*packed, causal=causal, cu_seqlens=begins), packed),
    }
    return speeds + [2.5 * flops / each for each in medians(torch, arms, rounds, 3).values()]


def features(torch, kernels, rounds: int):
    print("\n4 x 4,096: forward; backward as it is, in a fixed order, of sequences behind each other")
    print("head  causal   plain  sinks    fp8    mma   backward  fixed order  sequences")
    for width, heads, causal in HEADS:
        speeds = features_row(torch, kernels, width, heads, causal, rounds)
        line = "  ".join(f"{each:{size}.0f}" for each, size in zip(speeds, (5, 5, 5, 5, 9, 11, 9), strict=True))
        print(f"{width:4}  {causal!s:6}   {line}", flush=True)


def decode(torch, kernels, rounds: int):
    source = torch.empty(1 << 29, device="cuda", dtype=torch.uint8)
    copy = torch.empty_like(source)
    print("\ndecoding, one query, 32 heads of 128\n  batch  heads of K   keys      us   of a copy")
    for batch, heads, keys in CACHES:
        q = torch.randn(batch, 32, 1, 128, device="cuda", dtype=torch.bfloat16)
        k, v = (torch.randn(batch, heads, keys, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        graph = graph_of(torch, lambda q=q, k=k, v=v: kernels.attention(q, k, v), 4)
        times = medians(torch, {"copy": lambda: copy.copy_(source), "ours": graph.replay}, rounds, 8)
        ours = times["ours"] / 4
        ratio = (2 * k.numel() * k.itemsize / ours) / (2 * source.numel() / times["copy"])
        print(f"  {batch:5}  {heads:10}  {keys:5}  {ours * 1e3:6.1f}   {ratio:9.2f}", flush=True)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--quick", action="store_true", help="two lengths")
    given = arguments.parse_args()
    if not (torch := torch_on(90, 90)):
        return 0
    from pyptx import kernels

    print(f"cuDNN {torch.backends.cudnn.version()}")
    print("head  causal  length   pyptx  cuDNN    FA2  pyptx/cuDNN   backward: pyptx  cuDNN  pyptx/cuDNN")
    for width, heads, causal in HEADS:
        for length in LENGTHS[1::2] if given.quick else LENGTHS:
            ours, cudnn, flash, back, cudnn_back = row(torch, kernels, width, heads, causal, length, given.rounds)
            line = (
                f"{width:4}  {causal!s:6}  {length:6}   {ours:5.0f}  {cudnn:5.0f}  {flash:5.0f}  {ours / cudnn:11.2f}"
            )
            if back is not None:
                line += f"   {back:15.0f}  {cudnn_back:5.0f}  {back / cudnn_back:11.2f}"
            print(line, flush=True)
    features(torch, kernels, given.rounds)
    decode(torch, kernels, given.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
