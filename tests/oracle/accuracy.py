"""What the simulator computes beside float64 and beside recorded bytes, as the table of docs/simulator.md:

    python tests/oracle/accuracy.py            prints it
    python tests/oracle/accuracy.py --write    writes it into the page
    python tests/oracle/accuracy.py --check    compares it with the page

Each ready-made kernel runs once, on CPU tensors.  The error is the norm of the difference to float64 over the norm
of the result; beyond its bound, the command fails.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from pyptx import _core, kernels
from pyptx.errors import PtxError

REPO = Path(__file__).resolve().parents[2]
CORPUS = REPO.parent / "shared" / "corpus"
PAGE = REPO / "docs" / "simulator.md"
BEGIN, END = "<!-- python tests/oracle/accuracy.py --write -->\n", "<!-- the end of it -->\n"
EXACT, F32, BF16 = 0.0, 1e-6, 6e-3  # bounds by the type of the result; sums of bf16 products are rounded once


def f32(*shape):
    return torch.randn(shape)


def bf16(*shape):
    return torch.randn(shape).to(torch.bfloat16)


def attend(q, k, v):
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(k.shape[-2] - q.shape[-2])
    return (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf).softmax(-1) @ v


def causal(q, k, v):
    return kernels.attention(q, k, v, causal=True)


def attention_of(target: str):
    """As a GPU of this target computes it."""

    def attention(q, k, v):
        with kernels.simulated_target(target):
            return causal(q, k, v)

    return attention


def gradient_of(attention):
    """dq, dk and dv in one."""

    def gradients(q, k, v):
        leaves = [each.detach().clone().requires_grad_() for each in (q, k, v)]
        made = torch.autograd.grad(attention(*leaves).sum(), leaves)
        return torch.cat([each.double().flatten() for each in made])

    return gradients


def multiplied(target: str, product):
    def multiply(*tensors):
        with kernels.simulated_target(target):
            return product(*tensors)

    return multiply


def rows_of_groups(a, b, ends):
    begins = [0, *ends.tolist()]
    return torch.cat([a[i:j] @ b[e] for e, (i, j) in enumerate(zip(begins, begins[1:], strict=False))])


def example(name: str):
    sys.path.insert(0, str(REPO / "examples"))
    try:
        return __import__(name)
    finally:
        sys.path.remove(str(REPO / "examples"))


def cluster_product(a, b):
    made = example("hopper_gemm")
    tiles = torch.from_numpy(made.tile_schedule(len(a), len(b)))
    return made.gemm(a, b, tiles, M=len(a), N=len(b), K=a.shape[1])


def transposed_product(a, b):
    return (a @ b.mT).mT


def blackwell(pair: bool):
    return lambda a, b: example("blackwell_gemm").build_gemm(len(a), len(b), a.shape[1], pair)(a, b)


def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def fp8_and_back(x):
    data, scales = kernels.quantize_fp8(x)
    return data.double() * scales.double().reshape(len(x), -1)


# name -> kernel, the same in float64, inputs, bound
KERNELS = {
    "add": (kernels.add, torch.add, lambda: (f32(4096), f32(4096)), F32),
    "scaled_add": (lambda x, y: kernels.scaled_add(x, y, alpha=0.5), lambda x, y: x + 0.5 * y, lambda: (f32(4096), f32(4096)), F32),
    "copy2d": (kernels.copy2d, lambda x: x, lambda: (f32(128, 128),), EXACT),
    "rms_norm": (kernels.rms_norm, lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6), lambda: (f32(8, 1000), f32(1000)), F32),
    "add_rms_norm": (
        lambda x, r, w: kernels.add_rms_norm(x, r, w)[0],
        lambda x, r, w: F.rms_norm(x + r, x.shape[-1:], w, 1e-6),
        lambda: (f32(8, 1000), f32(8, 1000), f32(1000)),
        F32,
    ),
    "layer_norm": (
        kernels.layer_norm,
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        lambda: (f32(8, 1000), f32(1000), f32(1000)),
        F32,
    ),
    "softmax": (kernels.softmax, lambda x: x.softmax(-1), lambda: (f32(8, 1000),), F32),
    "log_softmax": (kernels.log_softmax, lambda x: x.log_softmax(-1), lambda: (f32(8, 1000),), F32),
    "cross_entropy": (kernels.cross_entropy, F.cross_entropy, lambda: (f32(8, 1000), torch.arange(8)), F32),
    "swiglu": (kernels.swiglu, lambda x, y: F.silu(x) * y, lambda: (f32(8, 1000), f32(8, 1000)), F32),
    "geglu": (kernels.geglu, lambda x, y: F.gelu(x, approximate="tanh") * y, lambda: (f32(8, 1000), f32(8, 1000)), 1e-3),
    "matmul by mma.sync, of sm_80": (kernels.matmul, torch.matmul, lambda: (bf16(256, 256), bf16(256, 256)), BF16),
    "matmul by wgmma, of sm_90a": (
        multiplied("sm_90a", kernels.matmul), torch.matmul, lambda: (bf16(256, 256), bf16(256, 256)), BF16
    ),
    "matmul by tcgen05, of sm_100a": (
        multiplied("sm_100a", kernels.matmul), torch.matmul, lambda: (bf16(128, 256), bf16(256, 512)), BF16
    ),
    "the same by pairs of CTAs": (
        multiplied("sm_100a", kernels.matmul), torch.matmul, lambda: (bf16(512, 256), bf16(256, 512)), BF16
    ),
    "matmul of f32": (kernels.matmul, torch.matmul, lambda: (f32(64, 64), f32(64, 64)), 1e-3),
    **{
        f"grouped_matmul {how}": (
            multiplied(target, kernels.grouped_matmul),
            rows_of_groups,
            lambda: (bf16(128, 128), bf16(3, 128, 128), torch.tensor([40, 40, 128], dtype=torch.int32)),
            BF16,
        )
        for target, how in (("sm_80", "by mma.sync"), ("sm_90a", "by wgmma"), ("sm_100a", "by tcgen05"))
    },
    "rope": (kernels.rope, rotated, lambda: (f32(1, 2, 8, 64), f32(8, 32), f32(8, 32)), F32),
    "quantize_fp8, and back": (fp8_and_back, lambda x: x, lambda: (f32(8, 512),), 5e-2),
    "gemm of examples/hopper_gemm.py": (cluster_product, transposed_product, lambda: (bf16(512, 192), bf16(512, 192)), BF16),
    "gemm of examples/blackwell_gemm.py": (blackwell(False), lambda a, b: a @ b.mT, lambda: (bf16(256, 192), bf16(256, 192)), F32),
    "the gemm by a pair of CTAs": (blackwell(True), lambda a, b: a @ b.mT, lambda: (bf16(256, 192), bf16(256, 192)), F32),
    **{
        f"attention {how}": (
            kernel,
            attend,
            lambda: (bf16(1, 2, 128, 64), bf16(1, 2, 200, 64), bf16(1, 2, 200, 64)),
            BF16,
        )
        for kernel, how in (
            (causal, "by wgmma"), (attention_of("sm_80"), "by mma.sync"), (attention_of("sm_100a"), "by tcgen05")
        )
    },
    "gradients of attention": (
        gradient_of(causal), gradient_of(attend), lambda: (bf16(1, 2, 128, 64), bf16(1, 2, 200, 64), bf16(1, 2, 200, 64)), BF16
    ),
    "attention of one query": (causal, attend, lambda: (bf16(1, 4, 1, 64), bf16(1, 4, 1100, 64), bf16(1, 4, 1100, 64)), BF16),
}  # fmt: skip


def error_of(kernel, exact, inputs) -> float:
    torch.manual_seed(0)
    given = inputs()
    wide = [each.double() if each.is_floating_point() else each for each in given]
    got, want = kernel(*given).double(), exact(*wide)
    return float((got - want).norm() / want.norm())


def accuracy() -> tuple[list[str], bool]:
    rows, fine = ["| kernel | inputs | error | at most |", "|---|---|---|---|"], True
    for name, (kernel, exact, inputs, bound) in KERNELS.items():
        error = error_of(kernel, exact, inputs)
        shapes = ", ".join("x".join(map(str, each.shape)) for each in inputs())
        fine &= error <= bound
        rows.append(f"| `{name}` | {shapes} | {error:.0e} | {bound:.0e} |".replace("0e+00", "0"))
    return rows, fine


def aligned(content: bytes) -> np.ndarray:
    """The bytes where a device's allocations begin: at a multiple of 256."""
    memory = np.zeros(len(content) + 256, np.uint8)
    start = -memory.ctypes.data % 256
    memory[start : start + len(content)] = np.frombuffer(content, np.uint8)
    return memory[start : start + len(content)]


def recorded() -> tuple[int, int]:
    """How many of the kernels with recorded bytes of an H200 give them, of how many."""
    equal = total = 0
    with open(CORPUS / "zluda" / "expected.tsv", newline="") as table:
        for row in csv.DictReader(table, delimiter="\t"):
            total += 1
            given = aligned(bytes.fromhex(row["input_bytes"]))
            out = aligned(bytes(len(row["output_bytes"]) // 2))
            try:
                text = (CORPUS / "zluda" / row["file"]).read_bytes()
                _core.run_text(text, row["file"], "", (1, 1, 1), (1, 1, 1), (1, 1, 1), 1024, [given, out])
            except PtxError:
                continue
            equal += out.tobytes().hex() == row["output_bytes"]
    return equal, total


def table() -> tuple[str, bool]:
    rows, fine = accuracy()
    if CORPUS.exists():
        equal, total = recorded()
        rows += ["", f"Of {total} single-thread kernels with the bytes that an H200 gave (ZLUDA's), {equal} give them."]
    return "\n".join(rows) + "\n", fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    parser.add_argument("--check", action="store_true", help="fail if the page has another table")
    arguments = parser.parse_args()
    text, fine = table()
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    old, _, after = rest.partition(END)
    if arguments.write:
        PAGE.write_text(before + BEGIN + text + END + after)
    elif arguments.check:
        fine &= old == text
    if not arguments.check or old != text:
        print(text, end="")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
