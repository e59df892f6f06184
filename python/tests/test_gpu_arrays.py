"""CuPy's arrays on a real GPU: inputs, outputs, streams, and beside torch's tensors."""

from __future__ import annotations

import pytest

cupy = pytest.importorskip("cupy", reason="skipped: no CuPy")
torch = pytest.importorskip("torch", reason="skipped: no torch")
if not torch.cuda.is_available():
    pytest.skip("skipped: no CUDA device", allow_module_level=True)

from pyptx.errors import LaunchValueError  # noqa: E402
from pyptx.kernels import add  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.fixture
def a():
    return cupy.random.standard_normal(1024, dtype=cupy.float32)


def test_outputs_are_of_cupy(a):
    for _ in range(3):  # the first call makes the plan, the others find it
        y = add(a, a)
        assert isinstance(y, cupy.ndarray) and y.device == a.device
        cupy.testing.assert_array_equal(y, a + a)


def test_out_and_in_place(a):
    expected = a + a
    y = cupy.empty_like(a)
    assert add(a, a, out=y) is y
    cupy.testing.assert_array_equal(y, expected)


def test_the_stream_of_cupy(a):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        late = a * 2  # the launch has to wait for it
        y = add(late, late)
    stream.synchronize()
    cupy.testing.assert_array_equal(y, a * 4)
    given = add(a, a, stream=stream)
    stream.synchronize()
    cupy.testing.assert_array_equal(given, a + a)


def test_beside_a_tensor_of_torch(a):
    x = torch.randn(1024, device="cuda")
    y = add(x, a)
    assert isinstance(y, torch.Tensor)
    torch.testing.assert_close(y, x + torch.from_dlpack(a))


def test_every_other_element_is_refused(a):
    with pytest.raises(LaunchValueError, match="its strides are"):
        add(a[::2], a[::2])
