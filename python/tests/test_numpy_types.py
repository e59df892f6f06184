"""NumPy arrays of the types that ml_dtypes adds, which have no buffer: they are taken by the names of their types."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy", reason="skipped: no numpy")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="skipped: no ml_dtypes")

import pyptx  # noqa: E402
from pyptx import Tile, kernel, kernels, ptx, reg  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError  # noqa: E402
from pyptx.types import b16, bf16, e4m3, e5m2, u32, ue8m0  # noqa: E402

BF16 = ml_dtypes.bfloat16


def made(dtype):
    """Copies elements of 8 bits, and doubles those of bf16."""

    @kernel(in_specs=(Tile("N", dtype),), out_specs=(Tile("N", dtype),), raw_params=[("u32", "N")], block=(128, 1, 1))
    def same(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        i = reg.from_(ptx.special.tid.x(), u32)
        with ptx.if_(i < ptx.param(u32, "N")):
            if dtype is bf16:
                x = reg.scalar(bf16)
                ptx.inst.ld.global_.b16(x, ptx.addr(px + i * 2))
                ptx.inst.st.global_.b16(ptx.addr(py + i * 2), x + x)
            else:
                x = reg.scalar(b16)
                ptx.inst.ld.global_.u8(x, ptx.addr(px + i))
                ptx.inst.st.global_.u8(ptx.addr(py + i), x)
        ptx.ret()

    return same


double = made(bf16)
X = np.arange(100).astype(BF16)


@pytest.mark.parametrize(("dtype", "name"), [(e4m3, "float8_e4m3fn"), (e5m2, "float8_e5m2"), (ue8m0, "float8_e8m0fnu")])
def test_types_of_8_bits(dtype, name):
    x = np.arange(1, 100).astype(getattr(ml_dtypes, name))
    for _ in range(2):
        y = made(dtype)(x)
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y.view("u1"), x.view("u1"))


def test_outputs_have_the_type():
    for _ in range(2):
        y = double(X)
        assert type(y) is np.ndarray and y.dtype == BF16
        np.testing.assert_array_equal(y, X + X)
    assert double(X[:0]).shape == (0,)
    out = np.empty_like(X)
    assert double(X, out=out) is out and (out == X + X).all()
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8).astype(BF16)
    e = np.exp(x.astype(np.float32))
    np.testing.assert_allclose(kernels.softmax(x).astype(np.float32), e / e.sum(-1, keepdims=True), rtol=1e-2)


def test_memory_is_checked_as_that_of_other_types():
    with pytest.raises(LaunchValueError, match="strides"):
        double(X[::-1])
    still = X.copy()
    still.flags.writeable = False
    assert (double(still) == X + X).all()
    with pytest.raises(LaunchValueError, match="read-only"):
        double(X, out=still)
    with pytest.raises(LaunchValueError, match="shares a part"):
        double(X[:60], out=X[40:])


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (X.view("u2"), "its dtype is u16, the kernel takes bf16"),
        (X.astype(ml_dtypes.float8_e5m2), "its dtype is e5m2, the kernel takes bf16"),
        (np.zeros(3, "M8[D]"), r"elements of type datetime64\[D\]"),
        (np.zeros(3, ml_dtypes.float8_e4m3fnuz), "elements of type float8_e4m3fnuz"),
        (np.zeros(3, ml_dtypes.int4), "elements of type int4"),  # NumPy keeps one a byte
    ],
)
def test_other_types_are_refused_by_name(array, said):
    with pytest.raises(LaunchTypeError, match=said):
        double(array)


def test_subclasses_that_lie():
    class Same(np.ndarray):
        def view(self, *_):
            return self

    class Without(np.ndarray):
        @property
        def dtype(self):
            raise KeyError("none")

    assert (double(X.view(Same)) == X + X).all()
    with pytest.raises(LaunchTypeError, match="argument `X`"):
        double(X.view(Without))


def test_differences_are_shown_as_numbers():
    def subtract(module):
        module.find("add.bf16")[0].opcode = "sub"

    assert pyptx.diff(double, X, against=double) is None
    assert "is 0.0 there and 2.0 on the simulator" in str(pyptx.diff(double, X, against=double.rewritten(subtract)))


def test_beside_tensors_of_torch():
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    x, weight = torch.ones(2, 8, dtype=torch.bfloat16), np.full(8, 2, BF16)
    assert torch.equal(kernels.rms_norm(x, weight), x * 2)
    with pytest.raises(LaunchTypeError, match="argument `W`: it is ndarray, beside tensors of torch"):
        kernels.rms_norm(x.requires_grad_(), weight)
