"""`kernels.matmul` of tensors that nobody would make on purpose: sizes of 0 and 1, addresses and strides of every kind, transformations of
torch around it, and arguments that are no tensors.  On the simulator, against float64."""

from __future__ import annotations

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import kernels  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError  # noqa: E402
from pyptx.kernels._matmul.mma import mma_kernel  # noqa: E402
from pyptx.types import f32  # noqa: E402

F = torch.nn.functional
TYPES = {torch.bfloat16: 1e-2, torch.float32: 2e-3}
types = pytest.mark.parametrize("dtype", TYPES)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def close(got, wanted, dtype=torch.bfloat16, size=None) -> bool:
    """`size`: of what was added up, where sums may cancel."""
    assert got.shape == wanted.shape
    size = float((wanted if size is None else size).detach().norm())
    return float((got.detach().double() - wanted.detach()).norm()) <= TYPES[dtype] * max(size, 1e-9)


def product(a, b):
    return a.double() @ b.double()


@pytest.mark.parametrize(("m", "n", "k"), list(itertools.product((0, 1, 9), repeat=3)))
def test_sizes_of_none_and_one(m, n, k):
    for dtype in (torch.bfloat16, torch.float32, torch.int8, torch.float8_e4m3fn):
        a, b = (3 * torch.randn(m, k)).to(dtype), (3 * torch.randn(k, n)).to(dtype)
        assert close(kernels.matmul(a, b), product(a, b), size=a.double().abs() @ b.double().abs())
    a, b, bias, residual = (
        torch.randn(shape, requires_grad=len(shape) > 1) for shape in ((m, k), (k, n), (n,), (m, n))
    )
    y = kernels.matmul(a, b, bias=bias, residual=residual, activation="silu")
    assert close(y, F.silu(product(a, b) + bias.double()) + residual.double())
    ones = torch.ones(m, n).double()
    da, db = torch.autograd.grad(kernels.matmul(a, b).sum(), (a, b))
    assert close(da, ones @ b.double().mT, size=ones @ b.double().mT.abs())
    assert close(db, a.double().mT @ ones, size=a.double().mT.abs() @ ones)
    da, db = torch.autograd.grad(kernels.matmul(a.expand(2, m, k), b).sum(), (a, b))  # rows of more dimensions
    assert close(da, 2 * ones @ b.double().mT, size=2 * ones @ b.double().mT.abs())
    assert close(db, 2 * a.double().mT @ ones, size=2 * a.double().mT.abs() @ ones)
    x, w = (each.detach().numpy() for each in (a, b))
    assert np.allclose(kernels.matmul(x, w), x @ w, rtol=1e-2, atol=1e-2)


@types
@pytest.mark.parametrize("offset", [1, 2, 3, 4, 7, 8])
def test_addresses(dtype, offset):
    def placed(*shape):
        return torch.randn(int(np.prod(shape)) + 16).to(dtype)[offset : offset + int(np.prod(shape))].view(shape)

    for m, n, k in ((17, 24, 32), (17, 23, 31)):
        a, b, bias, residual = placed(m, k), placed(k, n), placed(n), placed(m, n)
        wanted = product(a, b)
        assert close(
            kernels.matmul(a, b, bias=bias, residual=residual), wanted + bias.double() + residual.double(), dtype
        )
        assert close(kernels.matmul(b.mT, a.mT), wanted.mT, dtype)
        room = torch.zeros(m * n + 16).to(dtype)
        out = room[offset : offset + m * n].view(m, n)
        kernels.matmul(a, b, out=out)
        assert close(out, wanted, dtype)
        assert not room[:offset].any() and not room[offset + m * n :].any()


@types
def test_strides(dtype):
    big = torch.randn(40, 60).to(dtype)
    views = (
        big[:, 3:35], big[::2, :32], big[:, ::2], big.mT, big[:1, :32].expand(20, 32), big[:, :1].expand(40, 32),
        big[:1, :1].expand(20, 32), torch.randn(32, 3, 20).to(dtype).permute(2, 1, 0)[:, 0], torch._neg_view(big),
    )  # fmt: skip
    for a, b in itertools.product(views, repeat=2):
        k = min(a.shape[1], b.shape[1])
        a, b = a[:, :k], b[:, :k].mT
        assert close(kernels.matmul(a, b), product(a, b), dtype, size=product(a.abs(), b.abs()))
    a, b = torch.randn(20, 32).to(dtype), torch.randn(32, 24).to(dtype)
    bias, residual = torch.randn(1).to(dtype).expand(24), torch.randn(1, 24).to(dtype).expand(20, 24)
    wanted = product(a, b)
    assert close(kernels.matmul(a, b, bias=bias, residual=residual), wanted + bias.double() + residual.double(), dtype)
    for out in (torch.zeros(24, 20).mT, torch.zeros(20, 48)[:, ::2], torch.zeros(40, 24)[::2]):
        out = out.to(dtype)
        assert close(kernels.matmul(a, b, out=out), wanted, dtype)


@types
def test_batches(dtype):
    a, b = torch.randn(5, 3, 20, 32).to(dtype), torch.randn(5, 3, 32, 24).to(dtype)
    for x, w in (
        (a, b), (a.transpose(0, 1), b.transpose(0, 1)), (a[:, :1].expand_as(a), b), (a, b[:1].expand_as(b)), (a, b[0, 0]), (a[0, 0], b),
        (a[::2], b[::2]), (a.transpose(1, 2)[:, :3], b), (a[0, :1], b[:, :1]), (a[:0], b[:0]),
    ):  # fmt: skip
        assert close(kernels.matmul(x, w), product(x, w), dtype)
        assert close(kernels.matmul(w.mT, x.mT), product(w.mT, x.mT), dtype)


def test_transformations():
    vmap, func = torch.vmap, torch.func
    xs, ws, bs, rs = (torch.randn(shape) for shape in ((4, 20, 32), (4, 32, 24), (4, 24), (4, 20, 24)))
    assert close(vmap(kernels.matmul, (1, 2))(xs.permute(1, 0, 2), ws.permute(1, 2, 0)), product(xs, ws))
    assert close(vmap(vmap(kernels.matmul, (None, 0)), (0, None))(xs, ws), xs.double()[:, None] @ ws.double()[None])
    every = vmap(lambda x, w, b, r: kernels.matmul(x, w, bias=b, residual=r, activation="relu"))(xs, ws, bs, rs)
    assert close(every, F.relu(product(xs, ws) + bs.double()[:, None]) + rs.double())
    none = vmap(lambda x, b: kernels.matmul(x, ws[0], bias=b))(xs[:0], bs[:0])
    assert none.shape == (0, 20, 24)
    one = product(xs[0], ws[0])
    assert close(vmap(lambda b: kernels.matmul(xs[0], ws[0], bias=b))(bs), one + bs.double()[:, None])
    assert close(vmap(lambda x: kernels.matmul(x, ws[0], residual=rs[0]))(xs), product(xs, ws[0]) + rs[0].double())

    def loss(w, x, activation=None):
        return (kernels.matmul(x, w, activation=activation) ** 2).sum()

    def exact(w, x, activation=None):
        z = x @ w
        gate, up = z.chunk(2, -1)
        return ((F.silu(gate) * up if activation else z) ** 2).sum()

    given = ws[0].double(), xs.double()
    for name in (None, "swiglu"):
        each = vmap(func.grad(loss), (None, 0, None))(ws[0], xs, name)
        assert close(each, vmap(func.grad(exact), (None, 0, None))(*given, name))
    whole = func.grad(lambda w: vmap(loss, (None, 0))(w, xs).sum())(ws[0])
    assert close(whole, func.grad(lambda w: vmap(exact, (None, 0))(w, given[1]).sum())(given[0]))
    second = func.grad(lambda w: (func.grad(loss)(w, xs[0]) ** 2).sum())(ws[0])
    assert close(second, func.grad(lambda w: (func.grad(exact)(w, given[1][0]) ** 2).sum())(given[0]))
    with pytest.raises(LaunchTypeError, match=r"no forward-mode derivative \(jvp\)"):
        func.jvp(kernels.matmul, (xs[0], ws[0]), (xs[0], ws[0]))


def test_vectors():
    """As torch.matmul has them."""
    a, b = torch.randn(5, 16, requires_grad=True), torch.randn(2, 16, 6, requires_grad=True)
    x = torch.randn(16, requires_grad=True)
    for one, two in ((a, x), (x, b), (x, b[0]), (x, x), (a[None], x)):
        got, wanted = kernels.matmul(one, two), one.double() @ two.double()
        assert close(got, wanted, size=one.double().abs() @ two.double().abs())
        pulls = torch.autograd.grad(got.sum(), (one, two)), torch.autograd.grad(wanted.sum(), (one, two))
        assert all(close(*pair, size=pair[1].abs() + 1) for pair in zip(*pulls, strict=True))
    assert torch.compile(kernels.matmul, backend="eager", fullgraph=True)(a, x).shape == (5,)
    bias = torch.randn(6)
    y = kernels.matmul(x, b[0], bias=bias, activation="relu")
    assert close(y, F.relu(x.double() @ b[0].double() + bias.double()))
    assert kernels.matmul(np.ones(4, np.float32), np.ones((4, 3), np.float32)).tolist() == [4, 4, 4]
    for call in (
        lambda: kernels.matmul(a, x, bias=bias[:1]),
        lambda: kernels.matmul(x, b[0], out=torch.empty(6)),
        lambda: kernels.matmul(x, b[0], residual=bias),
    ):
        with pytest.raises(LaunchValueError, match="at least two dimensions, not"):
            call()


def test_memory_of_the_result():
    """What is still read is not written over, also by calls that look like earlier ones."""
    a, b, residual, offs = *(torch.randn(200, 200) for _ in range(3)), torch.tensor([90, 200], dtype=torch.int32)
    wanted = kernels.matmul(a, b, residual=residual)
    for i, name in enumerate(("a", "b", "residual")):
        given = [each.clone() for each in (a, b, residual)]
        kernels.matmul(*given[:2], residual=given[2], out=torch.empty_like(a))
        if name == "residual":
            assert torch.equal(kernels.matmul(*given[:2], residual=given[2], out=given[2]), wanted)
            continue
        for out in (given[i], given[i].mT):
            with pytest.raises(LaunchValueError, match=f"matmul: out shares memory with {name}; legal is"):
                kernels.matmul(*given[:2], residual=given[2], out=out)
    wide = torch.randn(200, 400)
    beside = kernels.matmul(wide[:, :200], b, out=wide[:, 200:])
    assert torch.equal(beside, kernels.matmul(wide[:, :200], b))
    with pytest.raises(LaunchValueError, match="out shares memory with residual"):
        kernels.matmul(a, b, residual=residual.mT, out=residual)
    with pytest.raises(LaunchValueError, match=r"matmul: out has elements that share their memory"):
        kernels.matmul(a, b, out=torch.empty(200, 1).expand(200, 200))
    x = a.bfloat16()
    with pytest.raises(LaunchValueError, match="grouped_matmul: out shares memory with a; legal is memory of its own"):
        kernels.grouped_matmul(x, torch.stack([x, x]), offs, out=x)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_addresses_of_results_of_groups(target):
    a, b, offs = (
        torch.randn(30, 64).bfloat16(),
        torch.randn(2, 64, 16).bfloat16(),
        torch.tensor([9, 22], dtype=torch.int32),
    )
    out = torch.ones(30 * 16 + 1, dtype=torch.bfloat16)[1:].view(30, 16)
    with kernels.simulated_target(target):
        assert kernels.grouped_matmul(a, b, offs, out=out) is out
    assert close(out, torch.cat((product(a[:9], b[0]), product(a[9:22], b[1]), torch.ones(8, 16))))


@pytest.mark.parametrize("offs", [[5, 3, 8], [3, 3, 9], [-1, 3, 8]])
def test_groups_outside_of_their_rows(offs):
    a, b = torch.randn(8, 16).bfloat16(), torch.randn(3, 16, 8).bfloat16()
    with pytest.raises(LaunchValueError, match=r"grouped_matmul: offs rise from 0 to 8, the rows of a; they are"):
        kernels.grouped_matmul(a, b, torch.tensor(offs, dtype=torch.int32))
    with pytest.raises(LaunchValueError, match=r"counts are 0 to 4, the rows of a group; they are"):
        kernels.grouped_matmul(a[:4].expand(3, 4, 16), b, counts=torch.tensor(offs, dtype=torch.int32))


def test_gradients_of_groups_by_torch_func():
    a, b, ends = (
        torch.randn(40, 16).bfloat16(),
        torch.randn(3, 16, 8).bfloat16(),
        torch.tensor([10, 10, 33], dtype=torch.int32),
    )
    got = torch.func.grad(lambda b: kernels.grouped_matmul(a, b, ends)[:33].float().sum())(b)
    wanted = torch.zeros(3, 16, 8).double()
    for e, rows in ((0, a[:10]), (2, a[10:33])):
        wanted[e] = rows.double().sum(0)[:, None]
    assert close(got, wanted)
    many, several = torch.stack([b, -b]), torch.stack([ends, ends + 7])
    got = torch.vmap(kernels.grouped_matmul, (None, 0, 0))(a, many, several)
    for i, rows in ((0, slice(33)), (1, slice(40))):
        assert torch.equal(got[i, rows], kernels.grouped_matmul(a, many[i], several[i])[rows])
    each = torch.vmap(torch.func.grad(lambda b: kernels.grouped_matmul(a, b, ends)[:33].float().sum()))(many)
    assert close(each[0], wanted)
    with pytest.raises(LaunchTypeError, match=r"grouped_matmul: it has gradients \(grad, vjp\), but no forward-mode"):
        torch.func.jvp(lambda b: kernels.grouped_matmul(a, b, ends), (b,), (b,))


def test_autocast():
    x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8, 6)
    with torch.autocast("cpu", torch.bfloat16):
        assert kernels.matmul(x.detach().half(), w, bias=torch.randn(6)).dtype == torch.bfloat16
        assert kernels.matmul(x.detach().char(), w.char()).dtype == torch.int32
        kernels.matmul(x, w).sum().backward()
    assert x.grad.dtype == torch.float32
    assert close(x.grad, torch.ones(4, 6).double() @ w.double().mT)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (LaunchTypeError, "`a` is of complex64; legal are bfloat16", lambda x, w: kernels.matmul(x + 0j, w + 0j)),
        (LaunchTypeError, "grouped_matmul: `offs` is list, not an array", lambda x, w: kernels.grouped_matmul(x.half(), w.half()[None], [4])),
        (LaunchTypeError, "grouped_matmul: `a` is int, not an array", lambda x, w: kernels.grouped_matmul(1, 2, 3)),
        (LaunchTypeError, "`a` is list, not an array", lambda x, w: kernels.matmul([[1.0]], [[1.0]])),
        (LaunchTypeError, "`b` is NoneType, not an array", lambda x, w: kernels.matmul(x, None)),
        (LaunchTypeError, "`b` is ndarray; beside a tensor of torch all are tensors of torch", lambda x, w: kernels.matmul(x, w.numpy())),
        (LaunchTypeError, "`a` is no dense tensor: .to_dense()", lambda x, w: kernels.matmul(x.to_sparse(), w)),
        (LaunchTypeError, "`b` is no dense tensor", lambda x, w: kernels.matmul(x, torch.nested.nested_tensor([w]))),
        (LaunchTypeError, "`a` is no dense tensor", lambda x, w: kernels.grouped_matmul(torch.nested.nested_tensor([x]), w, x)),
        (LaunchTypeError, "`a` is NoneType, not an array", lambda x, w: kernels.matmul(None, None)),
        (LaunchTypeError, "`bias` is list, not an array", lambda x, w: kernels.matmul(x, w, bias=[1] * 6)),
        (LaunchTypeError, "out is list, not an array", lambda x, w: kernels.matmul(x, w, out=[0])),
        (LaunchTypeError, "grouped_matmul: `b` is ndarray", lambda x, w: kernels.grouped_matmul(x.half(), w.half()[None].numpy(), torch.tensor([4], dtype=torch.int32))),
        (LaunchTypeError, "`a` is of bool", lambda x, w: kernels.matmul(x.bool(), w.bool())),
        (LaunchTypeError, "`a` is of >f4", lambda x, w: kernels.matmul(x.numpy().astype(">f4"), w.numpy().astype(">f4"))),
        (LaunchValueError, "bias has shape (), not (6,)", lambda x, w: kernels.matmul(x, w, bias=torch.tensor(1.0))),
        (LaunchValueError, "not 3", lambda x, w: kernels.matmul(x, w, activation=3)),
    ],
)  # fmt: skip
def test_what_is_refused(error, message, call):
    with pytest.raises(error) as raised:
        call(torch.randn(4, 8), torch.randn(8, 6))
    assert message in str(raised.value)


@pytest.mark.parametrize("name", [None, "relu", "gelu", "silu", "swiglu", "geglu"])
def test_second_derivatives(name):
    """Of a penalty on gradients, as torch has it."""

    def exact(a, b, c):
        z = a @ b + c
        if name in ("swiglu", "geglu"):
            return (F.silu if name == "swiglu" else F.gelu)(z[:, :6]) * z[:, 6:]
        return getattr(F, name)(z) if name else z

    def penalty(product, given):
        first = torch.autograd.grad(product(*given).square().sum(), given, create_graph=True)
        return torch.autograd.grad(sum(each.square().sum() for each in first), given)

    given = [torch.randn(shape, requires_grad=True) for shape in ((5, 16), (16, 12), (12,))]
    doubles = [each.detach().double().requires_grad_() for each in given]
    found = penalty(lambda a, b, c: kernels.matmul(a, b, bias=c, activation=name), given)
    for got, wanted in zip(found, penalty(exact, doubles), strict=True):
        assert float((got.double() - wanted).norm()) < 6e-3 * float(wanted.norm())


def test_many_matrices():
    """More than a grid has along y or z; of several tiles each."""
    made = mma_kernel(f32, f32, batched=True)
    assert made.grid(130, 200, 70_000) == (4 * 70_000, 1, 1)
    a, b = torch.randn(3, 130, 20), torch.randn(3, 200, 20)
    assert close(made(a, b), product(a, b.mT), torch.float32)


def test_threads_that_trace_one_kernel():
    """Its body is a method of an object that keeps registers, of which each trace has its own."""
    together, before = Barrier(4), sys.getswitchinterval()

    def traced(made):
        together.wait()
        return made.ptx()

    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(3):
                assert len(set(pool.map(traced, [mma_kernel.__wrapped__(f32, f32)] * 4))) == 1
    finally:
        sys.setswitchinterval(before)


def test_groups_of_numpy_of_any_strides():
    a, b, ends = (
        np.random.default_rng(0).standard_normal(shape).astype(np.float16) for shape in ((10, 64), (2, 32, 64), 4)
    )
    ends[::2] = 3, 10
    ends, b = ends.astype(np.int32)[::2], b.swapaxes(1, 2)
    wanted = kernels.grouped_matmul(a, np.ascontiguousarray(b), ends.copy())
    assert np.allclose(wanted[:3], a[:3].astype(float) @ b[0], rtol=1e-2, atol=1e-1)
    assert (kernels.grouped_matmul(np.asfortranarray(a), b, ends) == wanted).all()
    out = np.empty((10, 64), np.float16)[:, ::2]
    assert kernels.grouped_matmul(a, b, ends, out=out) is out and (out == wanted).all()


@pytest.mark.parametrize(("m", "n"), [(201, 256), (300, 201)])
def test_tiles_that_end_with_the_matrix_begin_where_copies_do(m, n):
    """At multiples of 16 bytes of the innermost dimension, which here is no multiple of that: the rows have gaps behind them."""
    a, b = (torch.randn(64, 304).bfloat16()[:, :columns] for columns in (m, n))
    with kernels.simulated_target("sm_90a"):
        assert close(kernels.matmul(a.mT, b), product(a.mT, b))
