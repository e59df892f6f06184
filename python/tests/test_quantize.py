"""quantize_fp8 against torch's own arithmetic, bit for bit: on the simulator, and on a GPU where there is one."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import kernels  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError  # noqa: E402

GPU = pytest.param(
    "cuda",
    marks=[
        pytest.mark.gpu,
        pytest.mark.skipif(
            not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 9),
            reason="skipped: no CUDA device of sm_89 or later",
        ),
    ],
)
devices = pytest.mark.parametrize("device", ["cpu", GPU])
types = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16], ids=lambda dtype: str(dtype).removeprefix("torch.")
)
BLOCKS = {None: (1, None), 128: (1, 128), (128, 128): (128, 128)}


def quantised(x, block):
    """(q, s) of a matrix by torch: padded, cut into blocks, divided."""
    m, n = x.shape
    height, width = BLOCKS[block]
    width = n if width is None else width
    p, b = -(-m // height), -(-n // width)
    blocks = torch.nn.functional.pad(x.float(), (0, b * width - n, 0, p * height - m)).view(p, height, b, width)
    largest = blocks.abs().amax((1, 3)).clamp_min(1e-12)
    # A tensor: on a GPU, torch takes the product by the reciprocal for a quotient by a number.
    most = torch.full_like(largest, 448.0)
    inverse = most / largest
    q = (blocks * inverse[:, None, :, None]).to(torch.float8_e4m3fn)
    return q.view(p * height, b * width)[:m, :n], largest / most


def same(got, wanted):
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    return torch.equal(got.float(), wanted.float())


@devices
@types
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(
    "shape", [(5, 64), (12, 1000), (7, 31), (70, 3), (300, 10), (70, 33), (2, 2056), (130, 260), (3, 130), (2, 20000)]
)
def test_against_torch(shape, block, dtype, device):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(device, dtype)
    q, s = kernels.quantize_fp8(x, block=block)
    values, scales = quantised(x, block)
    assert same(q, values) and same(s, scales)


@devices
@types
@pytest.mark.parametrize("block", [128, (128, 128)])
@pytest.mark.parametrize(
    "shape", [(70, 129), (35, 131), (9, 135), (1, 257), (40, 251), (33, 386), (17, 388), (2, 1023)]
)
def test_blocks_that_begin_inside_vectors(shape, block, dtype, device):
    test_against_torch(shape, block, dtype, device)


@devices
@types
@pytest.mark.parametrize("block", [128, (128, 128)])
@pytest.mark.parametrize("shape", [(128, 128), (200, 132), (8, 4), (264, 400), (136, 130)])
def test_transposed(shape, block, dtype, device):
    """What `x.mT` is, is read as it lies."""
    x = torch.randn(shape[::-1], generator=torch.Generator().manual_seed(sum(shape))).to(device, dtype).mT
    q, s = kernels.quantize_fp8(x, block=block)
    values, scales = quantised(x, block)
    assert same(q, values) and same(s, scales) and q.is_contiguous() and s.is_contiguous()
    x[3, 1] = torch.nan
    q, s = kernels.quantize_fp8(x, block=block)
    assert q[3, : min(128, shape[1])].float().isnan().all() and s[0 if block != 128 else 3, 0].isnan()


@devices
def test_leading_dimensions_and_strides(device):
    x = torch.randn(3, 4, 6, 200, device=device).bfloat16().transpose(0, 1)
    for block, blocks in ((None, 1), (128, 2)):
        q, s = kernels.quantize_fp8(x, block=block)
        values, scales = quantised(x.reshape(-1, 200), block)
        assert same(q, values.view(x.shape)) and same(s, scales.view(4, 3, 6, blocks))
    q, s = kernels.quantize_fp8(x[:0])
    assert q.shape == (0, 3, 6, 200) and s.shape == (0, 3, 6, 1)


@devices
@pytest.mark.parametrize("block", BLOCKS)
def test_zeros_infinities_and_nan(block, device):
    x = torch.zeros(2, 128, device=device)
    q, s = kernels.quantize_fp8(x, block=block)
    assert not q.float().any() and torch.equal(s, torch.full_like(s, 1e-12) / 448)
    for odd in (torch.inf, torch.nan):
        x[1, 3] = odd
        q, s = kernels.quantize_fp8(x, block=block)
        assert q[1, 3].float().isnan() and not s[-1].isfinite().any()


@devices
def test_a_product_of_what_was_quantised(device):
    x, w = torch.randn(200, 300, device=device).bfloat16(), torch.randn(160, 300, device=device).bfloat16()
    wanted = x.double() @ w.double().mT
    for one, two in ((128, (128, 128)), (None, None)):
        (q, s), (r, t) = kernels.quantize_fp8(x, block=one), kernels.quantize_fp8(w, block=two)
        y = kernels.matmul(q, r.mT, scale_a=s, scale_b=t.mT if two else t)
        assert float((y.double() - wanted).norm() / wanted.norm()) < 0.05  # 3 bits of significand


@devices
@pytest.mark.parametrize("block", BLOCKS)
def test_compiled(block, device):
    torch.compiler.reset()
    backend = "aot_eager" if device == "cpu" else "inductor"
    compiled = torch.compile(lambda x: kernels.quantize_fp8(x, block=block), fullgraph=True, backend=backend)
    for rows in (3, 4, 200):
        x = torch.randn(rows, 256, device=device)
        for ours, wanted in zip(compiled(x), kernels.quantize_fp8(x, block=block), strict=True):
            assert same(ours, wanted)


def test_of_jax():
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    x = jax.random.normal(jax.random.key(0), (3, 4, 256))
    for block, blocks in ((None, 1), (128, 2)):
        q, s = jax.jit(lambda x, block=block: kernels.quantize_fp8(x, block=block))(x)
        assert q.dtype == jax.numpy.float8_e4m3fn and s.shape == (3, 4, blocks)
        back = q.astype(float).reshape(3, 4, blocks, -1) * s[..., None]
        assert abs(back.reshape(x.shape) - x).max() < 0.15


def test_refusals():
    x = torch.randn(4, 256)
    with pytest.raises(LaunchValueError, match=r"block is None, 128 or \(128, 128\), not 64"):
        kernels.quantize_fp8(x, block=64)
    with pytest.raises(LaunchValueError, match=r"blocks of 128 x 128 are of a matrix; x has shape \(2, 2, 256\)"):
        kernels.quantize_fp8(x.view(2, 2, 256), block=(128, 128))
    with pytest.raises(LaunchTypeError, match="quantize_fp8: `x` is of float64"):
        kernels.quantize_fp8(x.double())
    with pytest.raises(LaunchValueError, match="requires a gradient, and there is none; legal are"):
        kernels.quantize_fp8(x.requires_grad_())
