"""Element types of a call: integers of one width are one type, bits take any type of their width, all else is refused."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy", reason="skipped: no numpy")

from pyptx import Tile, kernel, ptx, reg  # noqa: E402
from pyptx.errors import LaunchTypeError  # noqa: E402
from pyptx.types import b8, b16, b32, b64, f16, f32, f64, s8, s32, s64, u16, u32, u64  # noqa: E402

try:
    import torch
except ImportError:
    torch = None
try:
    import jax
except ImportError:
    jax = None

needs_torch = pytest.mark.skipif(torch is None, reason="skipped: no torch")


def make_same(element):
    """Y = X, 32 elements, without a look at what they are."""

    @kernel(
        in_specs=(Tile("N", element),), out_specs=(Tile("N", element),), grid=lambda N: (N // 32,), block=(32, 1, 1)
    )
    def same(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        index = reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)
        value = reg.scalar({8: u16, 16: b16, 32: u32, 64: u64}[element.bits])
        move = f"b{element.bits}"
        getattr(ptx.inst.ld.global_, move)(value, ptx.addr(px + index * (element.bits // 8)))
        getattr(ptx.inst.st.global_, move)(ptx.addr(py + index * (element.bits // 8)), value)
        ptx.ret()

    return same


TAKEN = [
    (u32, "int32", "uint32"), (s32, "uint32", "int32"), (u64, "int64", "uint64"), (s64, "uint64", "int64"), (s8, "uint8", "int8"),
    (b8, "int8", "uint8"), (b8, "bool", "uint8"), (b16, "float16", "uint16"), (b32, "float32", "uint32"), (b32, "int32", "uint32"),
    (b64, "float64", "uint64"), (f32, "float32", "float32"),
]  # fmt: skip
REFUSED = [
    (u32, "float32", "f32", "u32"), (u32, "int64", "s64", "u32"), (u32, "int16", "s16", "u32"), (f32, "int32", "s32", "f32"),
    (f16, "int16", "s16", "f16"), (f64, "float32", "f32", "f64"), (s8, "bool", "bool", "s8"), (b32, "float16", "f16", "any type of 32 bits"),
    (b32, "int64", "s64", "any type of 32 bits"), (b64, "float32", "f32", "any type of 64 bits"),
]  # fmt: skip


def values(name):
    return (np.arange(64) % 5 - 2).astype(name)


@pytest.mark.parametrize(("element", "given", "made"), TAKEN)
def test_taken(element, given, made):
    x = values(given)
    y = make_same(element)(x)
    assert y.dtype == made and y.tobytes() == x.tobytes()


@pytest.mark.parametrize(("element", "given", "has", "takes"), REFUSED)
def test_refused(element, given, has, takes):
    with pytest.raises(LaunchTypeError, match=f"same: argument `X`: its dtype is {has}, the kernel takes {takes}$"):
        make_same(element)(values(given))


def test_one_kernel_takes_both_in_turn():
    same = make_same(u32)
    for given in ("int32", "uint32", "int32"):
        assert same(values(given)).tobytes() == values(given).tobytes()
    out = np.zeros(64, np.int32)
    assert same(values("uint32"), out=out) is out and out.tobytes() == values("uint32").tobytes()


@needs_torch
@pytest.mark.parametrize(("element", "given", "made"), TAKEN)
def test_taken_from_torch(element, given, made):
    same, x = make_same(element), torch.from_numpy(values(given))
    y = same(x)
    assert y.dtype is getattr(torch, made)
    assert y.numpy().tobytes() == x.numpy().tobytes()
    same._prepare_op()
    torch._dynamo.reset()  # every case compiles the lambda again
    traced = torch.compile(lambda x: same(x), fullgraph=True, backend="eager")(x)
    assert traced.dtype is y.dtype and traced.numpy().tobytes() == x.numpy().tobytes()


@needs_torch
@pytest.mark.parametrize(("element", "given", "has", "takes"), REFUSED)
def test_refused_while_torch_traces(element, given, has, takes):
    same, x = make_same(element), torch.from_numpy(values(given))
    same._prepare_op()
    with torch._subclasses.FakeTensorMode() as mode, pytest.raises(LaunchTypeError, match="argument `X`: expected"):
        same._torch_op(mode.from_tensor(x))


@needs_torch
def test_autocast_leaves_bits_alone():
    same, x = make_same(b32), torch.from_numpy(values("float32"))
    with torch.autocast("cpu", torch.bfloat16):
        assert same(x).numpy().tobytes() == x.numpy().tobytes()


@pytest.mark.skipif(jax is None, reason="skipped: no jax")
def test_jax_takes_the_same():
    for element, given in ((u32, "int32"), (b32, "float32"), (b16, "float16"), (s8, "uint8")):
        x = jax.numpy.asarray(values(given))
        assert np.asarray(jax.jit(make_same(element))(x)).tobytes() == values(given).tobytes()
    for element, given in ((u32, "float32"), (f32, "int32"), (b32, "float16")):
        with pytest.raises(LaunchTypeError, match="argument `X`: its dtype is"):
            make_same(element)(jax.numpy.asarray(values(given)))


@pytest.mark.skipif(jax is None, reason="skipped: no jax")
def test_jax_keeps_the_type_of_what_is_written():
    @kernel(in_specs=(Tile("N", u32),), out_specs=(), mutates="X", grid=lambda N: (N // 32,), block=(32, 1, 1))
    def clear(X):
        (px,) = ptx.global_ptrs(X)
        ptx.inst.st.global_.u32(ptx.addr(px + reg.from_(ptx.special.tid.x(), u32) * 4), 0)
        ptx.ret()

    y = clear(jax.numpy.arange(32, dtype="int32"))
    assert y.dtype == "int32" and not y.any()
