"""The ready-made kernels against torch: on the simulator, and on a GPU where there is one."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import kernels  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError, PtxError  # noqa: E402
from pyptx.kernels._row_function import FUNCTIONS  # noqa: E402
from pyptx.kernels.column_sums import column_sums  # noqa: E402
from pyptx.kernels.norm import RMS_NORM  # noqa: E402
from pyptx.types import f32  # noqa: E402

rms_norm = RMS_NORM.kernel(f32, f32)

GPU = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no CUDA device")])  # fmt: skip
devices = pytest.mark.parametrize("device", ["cpu", GPU])


def random(*shape, device):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(device)


@devices
@pytest.mark.parametrize("n", [1, 255, 256, 1000])
def test_elementwise(n, device):
    x, y = random(n, device=device), random(n + 1, device=device)[1:]  # at no multiple of 8 bytes
    assert torch.equal(kernels.add(x, y), x + y)
    for alpha in (0.25, -3):
        torch.testing.assert_close(kernels.scaled_add(x, y, alpha=alpha), x + alpha * y)


@devices
def test_every_kernel_is_an_op(device):
    x, w = random(3, 33, device=device), random(33, device=device)
    for kernel, arguments, keywords in (
        (kernels.add, (w, w), {}),
        (kernels.scaled_add, (w, w), {"alpha": 0.5}),
        (rms_norm, (x, w), {}),
        (column_sums(f32), (x,), {}),
    ):
        kernel._prepare_op()
        assert set(torch.library.opcheck(kernel._torch_op, arguments, keywords).values()) == {"SUCCESS"}
    arguments = x.clone().requires_grad_(), w.clone().requires_grad_()
    assert set(
        torch.library.opcheck(FUNCTIONS["rms_norm"].run_for((torch.float32,) * 2, False, True).op, arguments).values()
    ) == {"SUCCESS"}


@devices
def test_permuted_dense_inputs_are_refused_by_call_and_op(device):
    permuted, w = random(8, 3, device=device).t(), random(8, device=device)
    for kernel, arguments in (
        (rms_norm, (permuted, w)),
        (rms_norm, (permuted.contiguous(), random(8, 2, device=device)[:, 0])),
        (kernels.add, (random(3, 2, device=device)[:, 1], w[:3])),
    ):
        kernel._prepare_op()
        for call in (kernel, kernel._torch_op):
            with pytest.raises(LaunchValueError, match=f"{kernel.__name__}: argument `[XYW]`.*contiguous"):
                call(*arguments)


@devices
def test_arguments_that_do_not_fit_are_refused(device):
    x, w = random(4, 8, device=device), random(8, device=device)
    for kernel, arguments, message in (
        (rms_norm, (x, w[:4]), "dimension 'N': 8 and 4"),
        (rms_norm, (x[0], w), "`X`: rank mismatch"),
        (rms_norm, (x.double(), w), "`X`.*f64"),
        (rms_norm, (random(65, device=device)[1:].view(8, 8), w), "`X`.*16"),
        (kernels.add, (w,), "expected 2 input arrays, got 1"),
        (kernels.scaled_add, (w, w), r"`alpha` \(f32\) is not given"),
    ):
        with pytest.raises((LaunchTypeError, LaunchValueError), match=message):
            kernel(*arguments)
    with pytest.raises(TypeError, match="no template parameter 'beta'"):
        kernels.scaled_add(w, w, beta=1.0)


def test_sizes_are_not_in_the_text():
    for kernel in (kernels.add, kernels.scaled_add):
        assert kernel.ptx(N=3) == kernel.ptx(N=50)


@devices
@pytest.mark.parametrize("shape", [(32, 32), (1, 4), (33, 100), (257, 64)])
def test_copy2d(shape, device):
    if device == "cuda" and torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("skipped: no device with tensor maps")
    x = random(*shape, device=device)
    assert torch.equal(kernels.copy2d(x), x)
    flat = random(shape[0] * shape[1] + 1, device=device)[1:].view(shape)
    with pytest.raises(LaunchValueError, match="`X`"):
        kernels.copy2d(flat)  # 4 bytes off
    with pytest.raises(PtxError, match="`X`|map"):
        kernels.copy2d(random(4, 3, device=device))  # rows of 12 bytes
    if device == "cpu":
        return
    result = torch.compile(lambda x: kernels.copy2d(x * 2), fullgraph=True)(x)
    assert torch.equal(result, x * 2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no CUDA device")
def test_the_simulator_and_the_gpu_agree():
    x, w = random(3, 100, device="cpu"), random(100, device="cpu")
    torch.testing.assert_close(kernels.rms_norm(x.cuda(), w.cuda()).cpu(), kernels.rms_norm(x, w), rtol=1e-6, atol=1e-7)
    assert torch.equal(kernels.add(w.cuda(), w.cuda()).cpu(), kernels.add(w, w))
