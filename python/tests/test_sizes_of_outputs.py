"""Sizes, the device and the stream of a launch that only the outputs give."""

import pytest

np = pytest.importorskip("numpy", reason="skipped: no numpy")
torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import Tile, kernel, ptx, reg  # noqa: E402
from pyptx.errors import LaunchError, LaunchValueError  # noqa: E402
from pyptx.types import f32, u32  # noqa: E402


def make_rows(**inputs):
    """Y[m, n] = 100 m + n, plus X[n] if there is an X."""

    def body(X, Y):
        (py,) = ptx.global_ptrs(Y)
        row, column = reg.from_(ptx.special.ctaid.x(), u32), reg.from_(ptx.special.tid.x(), u32)
        value, number = reg.scalar(f32), row * 100 + column
        ptx.inst.cvt.rn.f32.u32(value, number)
        if X is not None:
            (px,) = ptx.global_ptrs(X)
            x = reg.scalar(f32)
            ptx.inst.ld.global_.f32(x, ptx.addr(px + column * 4))
            value += x
        ptx.inst.st.global_.f32(ptx.addr(py + (row * Y.shape[1] + column) * 4), value)
        ptx.ret()

    def rows(Y):
        body(None, Y)

    def rows_beside(X, Y):
        body(X, Y)

    launch = {"out_specs": (Tile("M", "N", f32),), "grid": lambda M: (M, 1, 1), "block": lambda N: (N, 1, 1)}
    return kernel(**launch, **inputs)(rows_beside if inputs else rows)


def wanted(m, n):
    return (100 * np.arange(m)[:, None] + np.arange(n)).astype(np.float32)


def test_a_kernel_without_inputs():
    """`in_specs` may be left out; the outputs are NumPy's where the call makes them."""
    rows = make_rows()
    for m, n in ((2, 32), (3, 64), (2, 32)):
        np.testing.assert_array_equal(rows(M=m, N=n), wanted(m, n))
        for y in (np.zeros((m, n), np.float32), torch.zeros(m, n)):
            assert rows(out=y) is y and rows(M=m, out=y) is y
            np.testing.assert_array_equal(np.asarray(y), wanted(m, n))
    with pytest.raises(TypeError, match="asks for M, which is not given: pass M="):
        rows(N=32)
    with pytest.raises(LaunchValueError, match="dimension 0 of shape .2, 32. is 2, the kernel takes 3"):
        rows(M=3, out=np.zeros((2, 32), np.float32))
    with pytest.raises(LaunchError, match="rows: argument `Y`: .*rank"):
        rows(M=2, N=32, out=np.zeros(64, np.float32))


def test_sizes_that_no_input_gives():
    rows = make_rows(in_specs=(Tile("N", f32),))
    x = torch.randn(32)
    for m in (2, 5, 2):
        y = rows(x, out=torch.empty(m, 32))
        np.testing.assert_array_equal(y, wanted(m, 32) + x.numpy())
    with pytest.raises(LaunchValueError, match="dimension 1 of shape .2, 64. is 64, the kernel takes 32"):
        rows(x, out=torch.empty(2, 64))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no CUDA device")
def test_the_outputs_say_where_and_on_which_stream():
    rows = make_rows()
    y = torch.zeros(64, 32, device="cuda")
    host = rows(M=64, N=32)
    np.testing.assert_array_equal(rows(out=y).cpu(), host)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        y.zero_()
        rows(M=64, N=32, out=y)
        assert not side.query(), "the side stream should still be busy"
    torch.cuda.current_stream().wait_stream(side)
    np.testing.assert_array_equal(y.cpu(), host)
    assert rows(out=np.zeros((64, 32), np.float32)).sum() == host.sum()
