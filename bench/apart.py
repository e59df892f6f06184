"""Functions over rows that lie apart, over halves of one tensor, of transposed matrices and over another dimension, beside packed rows, torch and a device copy of as many bytes.

    python bench/apart.py [words of the cases to measure ...]

Device time in graphs of four launches, medians of rounds that take turns; randn data in bf16.
"""

import statistics
import sys

from _gpu import device_times, graph_of, torch_on

NODES, ROUNDS = 4, 9


def cases(torch):
    """Yields (what it is, bytes that it moves, its functions by name)."""
    from pyptx import kernels

    F = torch.nn.functional

    def halves(*shape):
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    h = halves(8192, 28672)
    gate, up = h.chunk(2, -1)
    packed = gate.contiguous(), up.contiguous()
    for name, activation in (("swiglu", F.silu), ("geglu", F.gelu)):
        function = getattr(kernels, name)
        arms = {
            "halves": lambda f=function: f(h), "slices": lambda f=function: f(gate, up), "packed": lambda f=function: f(*packed),
            "torch": lambda a=activation: a(gate) * up,
        }  # fmt: skip
        yield f"{name} of 8192 x 28672", 3 * gate.numel() * 2, arms
    odd = halves(20000, 2 * 2730)
    arms = {
        "halves": lambda: kernels.swiglu(odd), "torch": lambda: F.silu(odd[:, :2730]) * odd[:, 2730:],
    }  # fmt: skip
    yield "swiglu of 20000 x 5460", 3 * odd.numel(), arms
    rows, heads, qkv = halves(65536, 3072)[:, 1024:2048], halves(16, 4096, 16, 64), halves(16, 4096, 3, 16, 64)
    for what, x in (
        ("a slice of rows", rows),
        ("transposed heads", heads.transpose(1, 2)),
        ("heads of qkv", qkv[:, :, 1]),
        ("channels in front", halves(8, 768, 4096).mT),
    ):
        w, y = halves(x.shape[-1]), x.contiguous()
        for name, ours, theirs in (
            ("rms_norm", lambda x, w=w: kernels.rms_norm(x, w), lambda x, w=w: F.rms_norm(x, w.shape, w, 1e-6)),
            ("layer_norm", lambda x, w=w: kernels.layer_norm(x, w, w), lambda x, w=w: F.layer_norm(x, w.shape, w, w)),
            ("softmax", kernels.softmax, lambda x: x.softmax(-1)),
        ):
            arms = {
                "as it lies": lambda f=ours, x=x: f(x), "packed": lambda f=ours, y=y: f(y), "torch": lambda f=theirs, x=x: f(x),
            }  # fmt: skip
            yield f"{name} of {what}", 2 * x.numel() * 2, arms
    for shape in (
        (8, 21, 512, 512),
        (16, 150, 256, 256),
        (8, 2, 512, 512),
        (2, 1000, 64, 64),
        (64, 1024, 512),
        (1, 4096, 4096),
        (1, 8192, 4096),
        (4, 50000, 128),
    ):
        x, target = halves(*shape), torch.randint(0, shape[1], (shape[0], *shape[2:]), device="cuda")
        arms = {"ours": lambda x=x: kernels.softmax(x, 1), "torch": lambda x=x: x.softmax(1)}
        yield f"softmax of {shape} over 1", 2 * x.numel() * 2, arms
        leaf, g = x.clone().requires_grad_(), halves(*shape)
        arms = {
            name: lambda f=f, x=leaf, g=g: torch.autograd.grad(f(x, 1), x, g)[0]
            for name, f in (("ours", kernels.softmax), ("torch", torch.softmax))
        }
        yield f"softmax of {shape} over 1, both directions", 5 * x.numel() * 2, arms
        arms = {
            "ours": lambda x=x, t=target: kernels.cross_entropy(x, t, dim=1),
            "torch": lambda x=x, t=target: F.cross_entropy(x, t),
        }
        yield f"cross_entropy of {shape} over 1", x.numel() * 2, arms
    wide, columns = halves(8192, 12288), halves(4096, 8192)
    for block in (None, 128, (128, 128)):
        for what, x in (("a slice of rows", wide[:, 4096:8192]), ("a transposed matrix", columns.mT)):
            arms = {
                "as it lies": lambda x=x, b=block: kernels.quantize_fp8(x, block=b)[1],
                "packed first": lambda x=x, b=block: kernels.quantize_fp8(x.contiguous(), block=b)[1],
            }
            yield f"quantize_fp8 of {what}, block={block}", x.numel() * 3, arms


def main() -> int:
    if (torch := torch_on()) is None:
        return 0
    for what, size, arms in cases(torch):
        if not all(word in what for word in sys.argv[1:]):
            continue
        source = torch.empty(size // 2, dtype=torch.uint8, device="cuda")
        target = torch.empty_like(source)
        results = [arm().float() for arm in arms.values()]
        for result in results[1:]:
            torch.testing.assert_close(result, results[0], rtol=2e-2, atol=2e-2)
        arms = {**arms, "copy": lambda to=target, of=source: to.copy_(of)}
        graphs = {name: graph_of(torch, arm, NODES) for name, arm in arms.items()}
        times = {name: statistics.median(found) for name, found in device_times(torch, graphs, ROUNDS, NODES).items()}
        print(
            f"{what}: "
            + ", ".join(f"{name} {time:.1f} us ({times['copy'] / time:.2f})" for name, time in times.items()),
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
