"""The kernels of the library on an H200 and on the simulator: the same bytes, forward and backward.

What both worlds run is one text, made for sm_90a, of the same inputs.  The kernels write mul.rn, of which the assembler makes no fma with an
add (manual 9.7.3), as the simulator never does.
"""

from __future__ import annotations

from unittest import mock

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import kernels  # noqa: E402
from pyptx.kernels._epilogue import Epilogue  # noqa: E402
from pyptx.kernels._matmul import hopper  # noqa: E402
from pyptx.kernels._matmul.hopper import product_kernel  # noqa: E402
from pyptx.kernels._matmul.tiles import Config  # noqa: E402
from pyptx.types import bf16  # noqa: E402


def is_hopper():
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9


def randn(*shape, dtype=torch.bfloat16):
    return torch.randn(shape).to(dtype)


def with_gradients(function, *given, **options):
    """A call, and its results with the gradients of what is of a type that has some."""

    def call(device):
        made = [each.detach().to(device).requires_grad_(each.is_floating_point()) for each in given]
        result = function(*made, **options)
        results = result if isinstance(result, tuple) else (result,)
        asked = [each for each in made if each.requires_grad]
        gradients = torch.autograd.grad([each.float().sum() for each in results], asked, allow_unused=True)
        return [*results, *(each for each in gradients if each is not None)]

    return call


def forward(function, *given, **options):
    def call(device):
        placed = {name: each.to(device) if isinstance(each, torch.Tensor) else each for name, each in options.items()}
        result = function(*(each.to(device) for each in given), **placed)
        return list(result) if isinstance(result, tuple) else [result]

    return call


def of_losses(rows, n, **options):
    target = torch.randint(0, n, (rows,))
    return with_gradients(lambda x: kernels.cross_entropy(x, target.to(x.device), **options), randn(rows, n))


def heads(q, k, v=None, **options):
    return with_gradients(kernels.attention, randn(*q), randn(*k), randn(*(v or k)), **options)


def bytes_of(*shape):
    return torch.randint(-100, 100, shape).to(torch.int8)


def fp8(*shape):
    return (torch.randn(shape) * 0.5).to(torch.float8_e4m3fn)


def three_ctas():
    """A product whose tiles are three for each CTA."""
    with mock.patch.dict(hopper.CLUSTERS, {1: 3}):
        epilogue = Epilogue(bf16, "gelu", bf16)
        return product_kernel.__wrapped__(Config(128, 256, 4, beside=2), bf16, epilogue=epilogue)


CASES = {
    "rms_norm": lambda: with_gradients(kernels.rms_norm, randn(9, 1000), randn(1000)),
    "rms_norm, f32": lambda: with_gradients(
        kernels.rms_norm, randn(9, 333, dtype=torch.float32), randn(333, dtype=torch.float32)
    ),
    "rms_norm, few columns": lambda: with_gradients(kernels.rms_norm, randn(37, 96), randn(96)),
    "layer_norm, few columns": lambda: with_gradients(kernels.layer_norm, randn(37, 64), randn(64), randn(64)),
    "layer_norm": lambda: with_gradients(kernels.layer_norm, randn(9, 1000), randn(1000), randn(1000)),
    "add_rms_norm": lambda: with_gradients(kernels.add_rms_norm, randn(9, 1000), randn(9, 1000), randn(1000)),
    "softmax": lambda: with_gradients(kernels.softmax, randn(9, 1000)),
    "log_softmax": lambda: with_gradients(kernels.log_softmax, randn(9, 1000)),
    "softmax, odd": lambda: with_gradients(kernels.softmax, randn(9, 1001)),
    "softmax, long and odd": lambda: with_gradients(kernels.softmax, randn(3, 50_257)),
    "softmax, of a few elements": lambda: with_gradients(kernels.softmax, randn(300, 10)),
    "layer_norm, odd": lambda: with_gradients(kernels.layer_norm, randn(9, 1001), randn(1001), randn(1001)),
    "cross_entropy": lambda: of_losses(9, 1001),
    "cross_entropy, long": lambda: of_losses(3, 50_257, label_smoothing=0.1),
    "cross_entropy, many rows": lambda: of_losses(9000, 10),
    "swiglu": lambda: with_gradients(kernels.swiglu, randn(9, 1000), randn(9, 1000)),
    "geglu": lambda: with_gradients(kernels.geglu, randn(9, 1000), randn(9, 1000)),
    "rope": lambda: forward(
        kernels.rope, randn(2, 6, 3, 64), torch.rand(6, 32).cos(), torch.rand(6, 32).sin(), seq_dim=-3
    ),
    "quantize_fp8": lambda: forward(kernels.quantize_fp8, randn(200, 300, dtype=torch.float32), block=128),
    "matmul, wgmma": lambda: with_gradients(kernels.matmul, randn(264, 320), randn(320, 392)),
    "matmul, f16": lambda: forward(
        kernels.matmul, randn(264, 320, dtype=torch.float16), randn(320, 136, dtype=torch.float16)
    ),
    "matmul, tf32": lambda: forward(
        kernels.matmul, randn(200, 320, dtype=torch.float32), randn(136, 320, dtype=torch.float32).mT
    ),
    "matmul, int8": lambda: forward(kernels.matmul, bytes_of(200, 320), bytes_of(144, 320).mT),
    "matmul, fp8": lambda: forward(kernels.matmul, fp8(200, 320), fp8(144, 320).mT),
    "matmul, a stream": lambda: forward(kernels.matmul, randn(16, 1024), randn(264, 1024).mT),
    "matmul, epilogue": lambda: forward(
        kernels.matmul,
        randn(200, 320),
        randn(136, 320).mT,
        bias=randn(136),
        residual=randn(200, 136),
        activation="silu",
    ),
    "matmul, epilogue beside the next tile": lambda: forward(
        three_ctas(), randn(264, 656), randn(648, 656), randn(648), randn(264, 648)
    ),
    "matmul, odd": lambda: forward(kernels.matmul, randn(33, 71), randn(71, 45)),
    "grouped_matmul": lambda: forward(
        kernels.grouped_matmul, randn(300, 64), randn(4, 64, 48), torch.tensor([130, 130, 140, 300], dtype=torch.int32)
    ),
    "attention, 64": lambda: heads((1, 2, 200, 64), (1, 1, 200, 64), causal=True, deterministic=True),
    "attention, short": lambda: heads((1, 2, 70, 64), (1, 2, 100, 64), causal=True),
    "attention, 128": lambda: heads((1, 2, 70, 128), (1, 1, 200, 128), deterministic=True),
    "attention, 256": lambda: forward(
        kernels.attention, randn(1, 2, 200, 256), randn(1, 1, 200, 256), randn(1, 1, 200, 256)
    ),
    "attention, 192 and 128": lambda: forward(
        kernels.attention, randn(1, 2, 200, 192), randn(1, 1, 200, 192), randn(1, 1, 200, 128), causal=True
    ),
    "attention, e4m3": lambda: forward(
        kernels.attention, fp8(1, 2, 200, 128), fp8(1, 2, 200, 128), fp8(1, 2, 200, 128)
    ),
    "attention, decoding": lambda: forward(
        kernels.attention, randn(1, 4, 1, 64), randn(1, 2, 500, 64), randn(1, 2, 500, 64)
    ),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_an_h200_and_the_simulator_give_the_same_bytes(name):
    if not is_hopper():
        pytest.skip("skipped: no sm_90 GPU")
    torch.manual_seed(20261124)
    call = CASES[name]()
    there = call("cuda")
    with kernels.simulated_target("sm_90a"):
        here = call("cpu")
    assert len(here) == len(there) > 0
    for ours, theirs in zip(here, there, strict=True):
        theirs = theirs.cpu()
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        bits = [each.detach().reshape(-1).view(torch.uint8) for each in (ours, theirs)]
        differ = int((bits[0] != bits[1]).sum())
        assert differ == 0, f"{name}: {differ} of {bits[0].numel()} bytes differ"


@pytest.mark.parametrize("name", CASES)
def test_the_calls_run_on_the_simulator(name):
    torch.manual_seed(20261124)
    with kernels.simulated_target("sm_90a"):
        assert all(torch.isfinite(each.float()).all() for each in CASES[name]()("cpu"))
