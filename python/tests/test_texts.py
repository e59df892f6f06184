"""How many kernels functions have for many sizes.  A process that serves meets ever new numbers of rows, sequences and keys, and assembles
each new text while somebody waits; so sizes are what a launch is told, or few ranges of them choose."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import kernels  # noqa: E402
from pyptx.kernels._matmul import calls_in_torch  # noqa: E402
from pyptx.launch.ahead import met_by  # noqa: E402

E4M3 = torch.float8_e4m3fn
# All up to 128, then ever larger steps: 400 numbers up to 16,384.
MANY = [*range(1, 129), *(int(129 * 1.01796**i) + i % 7 for i in range(272))]
SHORT = [m for m in MANY if m <= 2048]


def empty(*shape, dtype=torch.bfloat16):
    return torch.empty(shape, dtype=dtype)


def product(n: int, k: int, by_columns=False, dtype=torch.bfloat16, scales=False, **options):
    b = empty(k, n, dtype=dtype) if by_columns else empty(n, k, dtype=dtype).mT

    def call(m):
        blocks = {}
        if scales:
            of_a, of_b = (m, -(-k // 128)), (-(-k // 128), -(-n // 128))
            blocks = {"scale_a": empty(*of_a, dtype=torch.float32), "scale_b": empty(*of_b, dtype=torch.float32)}
        kernels.matmul(empty(m, k, dtype=dtype), b, **blocks, **options)

    return call


def with_bias(m):
    kernels.matmul(empty(m, 4096), WIDE.mT, bias=WIDE[0], activation="gelu")


def trained(m):
    x, w = empty(m, 1024), WIDE[:, :1024].detach().requires_grad_()
    torch.autograd.grad(kernels.matmul(x.requires_grad_(), w.mT), (x, w), empty(m, 4096))


def groups(experts: int, dtype=torch.bfloat16, **options):
    b = empty(experts, 512, 1024, dtype=dtype).mT

    def call(m):
        ends = (torch.arange(1, experts + 1) * m // experts).int()
        more = {}
        if dtype == E4M3:
            more = {
                "scale_a": empty(m, 8, dtype=torch.float32),
                "scale_b": empty(experts, 8, 4, dtype=torch.float32),
            }
        kernels.grouped_matmul(empty(m, 1024, dtype=dtype), b, ends, **more, **options)

    return call


def attention(queries, keys, backward=False, **options):
    def call(m):
        q, k = (empty(*[m if each == "m" else each for each in shape], 128) for shape in (queries, keys))
        given = [each.requires_grad_(backward) for each in (q, k, torch.empty_like(k))]
        made = kernels.attention(*given, **options)
        if backward:
            torch.autograd.grad(made, given, torch.empty_like(made))

    return call


def sequences(m):
    begins = (torch.arange(8) * m // 7).int()
    kernels.attention(empty(m, 4, 128), empty(m, 2, 128), empty(m, 2, 128), cu_seqlens=begins, causal=True)


def pages(m):
    cache, table = empty(512, 16, 2, 128), torch.zeros(4, -(-m // 16), dtype=torch.int32)
    lengths = torch.full((4,), m, dtype=torch.int32)
    kernels.attention(empty(4, 8, 1, 128), cache, cache, lengths=lengths, block_table=table)


def rows(function, matrices: int, vectors: int, n: int):
    def call(m):
        given = [empty(m, n).requires_grad_() for _ in range(matrices)]
        given += [empty(n).requires_grad_() for _ in range(vectors)]
        made = function(*given)
        made = made if isinstance(made, tuple) else (made,)
        torch.autograd.grad(made, given, [torch.empty_like(each) for each in made])

    return call


def losses(m):
    x = empty(m, 32000).requires_grad_()
    torch.autograd.grad(kernels.cross_entropy(x, torch.zeros(m, dtype=torch.long)), x)


def turned(m):
    kernels.rope(empty(2, 4, m, 128), empty(m, 64), empty(m, 64))


WIDE = empty(4096, 4096)
# A call of a function for a number, which numbers, and the most texts.  Most of those of products are tiles, which were measured to differ.
FUNCTIONS = {
    "matmul": (product(4096, 4096), MANY, 54),
    "matmul, by columns": (product(4096, 4096, by_columns=True), MANY, 52),
    "matmul, a long K": (product(4096, 14336), MANY, 54),
    "matmul, a narrow one": (product(1000, 4096), MANY, 54),
    "matmul, in parts": (product(256, 16384), MANY, 40),
    "matmul, a vocabulary": (product(128256, 4096), MANY, 33),
    "matmul, few columns": (product(8, 4096), MANY, 24),
    "matmul, f32": (product(4096, 4096, dtype=torch.float32), MANY, 26),
    "matmul, int8": (product(4096, 4096, dtype=torch.int8), MANY, 26),
    "matmul, e4m3 with scales of blocks": (product(2112, 7168, dtype=E4M3, scales=True), MANY, 12),
    "matmul, an epilogue": (with_bias, MANY, 30),
    "matmul, gates": (product(4096, 4096, activation="swiglu"), MANY, 6),
    "matmul, gradients": (trained, SHORT, 75),
    "grouped_matmul": (groups(8), MANY, 8),
    "grouped_matmul, e4m3": (groups(64, E4M3), MANY, 5),
    "grouped_matmul, gates": (groups(64, activation="swiglu"), MANY, 6),
    "attention": (attention((1, 4, "m"), (1, 2, "m"), causal=True), MANY, 5),
    "attention, gradients": (attention((1, 4, "m"), (1, 2, "m"), backward=True, causal=True), MANY, 10),
    "attention, a batch": (attention(("m", 4, 100), ("m", 4, 100)), SHORT, 1),
    "attention, decoding": (attention((1, 8, 1), (1, 2, "m")), MANY, 7),
    "attention, decoding in batches": (attention(("m", 8, 1), ("m", 2, 300)), SHORT, 5),
    "attention, sequences": (sequences, MANY, 2),
    "attention, pages": (pages, MANY, 3),
    "rms_norm": (rows(kernels.rms_norm, 1, 1, 4096), MANY, 5),
    "layer_norm": (rows(kernels.layer_norm, 1, 2, 4096), MANY, 5),
    "add_rms_norm": (rows(kernels.add_rms_norm, 2, 1, 4096), MANY, 5),
    "softmax": (rows(kernels.softmax, 1, 0, 1000), MANY, 2),
    "swiglu": (rows(kernels.swiglu, 2, 0, 4096), MANY, 2),
    "swiglu, odd": (rows(kernels.swiglu, 2, 0, 333), MANY, 4),
    "cross_entropy": (losses, SHORT, 4),
    "quantize_fp8": (lambda m: kernels.quantize_fp8(empty(m, 4096), block=128), MANY, 1),
    "rope": (turned, MANY, 1),
    "add": (lambda m: kernels.add(empty(m), empty(m)), MANY, 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_few_texts_for_many_sizes(name):
    call, sizes, most = FUNCTIONS[name]
    calls_in_torch.CALLS.clear()
    with kernels.simulated_target("sm_90a"):
        met = met_by(lambda: [call(size) for size in sizes])
    texts = {each.text() for each in met}
    assert 0 < len(texts) <= most
