"""Products that are small, or whose rows TMA cannot address: small tiles of `_matmul/mma.py`, vectors, copies to other rows, streams of the transposed
result, and which of them `kernels.matmul` takes.  On the simulator, against float64."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import assembler, kernels  # noqa: E402
from pyptx.kernels._epilogue import Epilogue  # noqa: E402
from pyptx.kernels._matmul import calls_in_torch, cuts, dense  # noqa: E402
from pyptx.kernels._matmul.arguments import width_of  # noqa: E402
from pyptx.kernels._matmul.choice import Problem, stream_of  # noqa: E402
from pyptx.kernels._matmul.launches import Parts, launches_of  # noqa: E402
from pyptx.kernels._matmul.mma import Cut, mma_kernel  # noqa: E402
from pyptx.kernels._matmul.padded import Padded, is_padded  # noqa: E402
from pyptx.kernels._matmul.pitched import pitched_kernel  # noqa: E402
from pyptx.kernels._matmul.stream import stream_kernel  # noqa: E402
from pyptx.kernels._matmul.vectors import vectors_kernel  # noqa: E402
from pyptx.types import bf16, e4m3, f32, s8  # noqa: E402

needs_ptxas = pytest.mark.skipif(
    not any(row.name.startswith("ptxas") and "PTX up to" in row.name for row in assembler.found()),
    reason="skipped: no ptxas",
)
TOLERANCE = {torch.bfloat16: 8e-3, torch.float16: 2e-3, torch.float32: 2e-3, torch.float8_e4m3fn: 8e-3, torch.int8: 0}


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def half(*shape):
    return torch.randn(shape).bfloat16()


def close(got, wanted, dtype=torch.bfloat16, size=None) -> bool:
    assert got.shape == wanted.shape
    size = float((wanted if size is None else size).norm())
    return float((got.double() - wanted).norm()) <= TOLERANCE[dtype] * max(size, 1e-9)


def product(a, b):
    return a.double() @ b.double()


def stored(x, k_last: bool):
    """(the matrix with K as its last dimension or as the one before, the bytes that divide its rows)."""
    x = x if k_last else x.mT.contiguous()
    return x, min(16, width_of(x.shape[-1] * x.element_size()))


CUTS = (
    Cut(64, 64, 2, 2), Cut(64, 64, 2, 4), Cut(32, 32, 2, 2, 4), Cut(128, 16, 4, 1), Cut(16, 128, 1, 4), Cut(64, 64, 4, 1, 1),
    Cut(16, 16, 1, 1, 1, 32, 4), Cut(32, 32, 1, 1, 1, 64, 4), Cut(16, 16, 1, 1, 2, 128, 4), Cut(128, 16, 4, 1, 1, 32), Cut(128, 64, 4, 2, 1, 32),
)  # fmt: skip


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_cuts(cut):
    """Any cut with K of any length, also one of a single stage; whole rows and rows of an odd number of elements, of A, B and C."""
    for batch, m, n, k in (((), 37, 45, 71), ((3,), 40, 48, 80), ((2,), 19, 36, 70), ((5,), 16, 16, 16)):
        a, b = half(*batch, m, k), half(*batch, n, k)
        for (a_k_major, b_k_major), out in itertools.product(itertools.product((True, False), repeat=2), (bf16, f32)):
            (x, x_width), (y, y_width) = stored(a, a_k_major), stored(b, b_k_major)
            made = mma_kernel(bf16, out, a_k_major, b_k_major, x_width, y_width, batched=bool(batch), cut=cut)
            assert close(made(x, y), product(a, b.mT))


@pytest.mark.parametrize(("dtype", "of"), [(torch.float32, f32), (torch.int8, s8), (torch.float8_e4m3fn, e4m3)])
def test_cuts_of_other_types(dtype, of):
    for k, width in ((71, of.bits // 8), (76, 4), (128, 16)):
        a, b = ((3 * torch.randn(37, k)).to(dtype), (3 * torch.randn(45, k)).to(dtype))
        width = min(width, width_of(k * a.element_size()), 16)
        for cut in (Cut(64, 64, 2, 2), Cut(32, 32, 2, 2), Cut(16, 16, 1, 1, 1, 128, 4)):
            made = mma_kernel(of, {s8: calls_in_torch.NAMES["int32"]}.get(of, f32), True, True, width, width, cut=cut)
            assert close(made(a, b), product(a, b.mT), dtype if dtype != torch.float8_e4m3fn else torch.bfloat16)


def test_warps_behind_the_last_tile():
    """A CTA of four tiles, of which there are five: what lies behind C stays."""
    a, b, room = half(5, 16, 16), half(5, 16, 16), torch.zeros(8, 16, 16).bfloat16()
    mma_kernel(bf16, bf16, batched=True, cut=Cut(16, 16, 1, 1, 1, 32, 4))(a, b, out=room[:5])
    assert close(room[:5], product(a, b.mT)) and not room[5:].any()


def test_small_matrices_of_a_batch():
    """Tiles of mma.sync, several to a multiprocessor, on Hopper, too."""
    with kernels.simulated_target("sm_90a"):
        for m, n, k in ((16, 16, 16), (24, 40, 56), (64, 64, 64), (8, 264, 128)):
            a, b = half(140, m, k), half(140, k, n)
            for y in (b, b.mT.contiguous().mT):
                made, by = kernel_of(a, y)
                assert "mma_matmul" in by.ptx() and close(made, product(a, y))
        assert "wgmma" in kernel_of(half(140, 64, 512), half(140, 512, 64))[1].ptx()
        assert "wgmma" in kernel_of(half(3, 64, 64), half(3, 64, 64))[1].ptx()


def kernel_of(a, b, **more):
    """(the result, what made it)."""
    calls_in_torch.CALLS.clear()
    made = kernels.matmul(a, b, **more)
    (call,) = calls_in_torch.CALLS.values()
    return made, call.kernel


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("shape", [(1, 1, 4096), (1, 1, 100), (1, 333, 77), (3, 130, 2000), (2, 7, 4097), (4, 50, 66)])
def test_vectors(shape, dtype):
    m, n, k = shape
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    size = product(a.abs(), b.abs())
    for y in (b, b.mT.contiguous().mT):
        got = kernels.matmul(a, y)
        assert close(got, product(a, b), dtype, size)
        assert torch.equal(got, kernels.matmul(a, y))
    bias, residual = torch.randn(n).to(dtype), torch.randn(m, n).to(dtype)
    got = kernels.matmul(a, b, bias=bias, residual=residual, activation="relu")
    assert close(got, (product(a, b) + bias.double()).relu() + residual.double(), dtype, size)


def test_vectors_of_batches():
    for k in (37, 1101):
        a, b = half(5, 2, k), half(5, k, 41)
        for y in (b, b.mT.contiguous().mT):
            made, by = kernel_of(a, y)
            assert close(made, product(a, b))
            assert y is b or ("dot_matmul" in by.ptx()) == (k > 1000)
            assert close(kernels.matmul(a[:1].expand(5, 2, k), y), product(a[:1], b))


def test_vectors_in_parts():
    """Of a long K and few columns: every multiprocessor has something to do, and C the bits of every other call."""
    a, b = half(2, 5001), half(5001, 45)
    made, by = kernel_of(a, b)
    assert isinstance(by, Parts) and by.shape[0] > 4
    assert close(made, product(a, b)) and torch.equal(made, kernels.matmul(a, b))
    out = torch.empty(2, 45).bfloat16()
    assert kernels.matmul(a, b, out=out) is out and torch.equal(out, made)
    assert torch.equal(kernels.matmul(half(2, 0), half(0, 45)), torch.zeros(2, 45).bfloat16())


@pytest.mark.parametrize(
    "cut", [Cut(32, 32, 2, 2), Cut(64, 64, 2, 2, 1), Cut(16, 16, 1, 1, 1, apart=4), Cut()], ids=str
)
def test_parts_by_mma(cut):
    """More parts than there are steps of K, too, the last of which have none."""
    for k in (333, 200, 62):
        a, b = half(37, k), half(45, k)
        for a_k_major, b_k_major in itertools.product((True, False), repeat=2):
            (x, x_width), (y, y_width) = stored(a, a_k_major), stored(b, b_k_major)
            made = mma_kernel(bf16, f32, a_k_major, b_k_major, x_width, y_width, cut=cut, parts=True)
            for parts in (2, 7):
                room = torch.empty(parts, 37, 45)
                made(x, y, out=room)
                assert close(room.sum(0), product(a, b.mT))
                steps = -(-k // (cut.deep // 2))
                first = min(k, -(-steps // parts) * (cut.deep // 2))
                assert close(room[0], product(a[:, :first], b.mT[:first]))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_long_odd_k(target):
    a, b = half(40, 9001), half(9001, 33)
    with kernels.simulated_target(target):
        made, by = kernel_of(a, b)
        assert isinstance(by, Parts) and by.shape[0] > 4
        assert close(made, product(a, b)) and torch.equal(made, kernels.matmul(a, b))
        bias = half(33)
        assert close(kernels.matmul(a, b, bias=bias), product(a, b) + bias.double())


def test_few_elements_of_a_long_k():
    with kernels.simulated_target("sm_90a"):
        for n in (1, 8):
            assert "dot_matmul" in kernel_of(half(1, 4096), half(n, 4096).mT)[1].ptx()
    a, b = half(1, 4096), half(4096, 1)
    assert close(kernels.matmul(a, b), product(a, b), size=product(a.abs(), b.abs()))


def test_tall(monkeypatch):
    """Many short rows, of few columns; not of fp8, whose scales of blocks other tiles do not know."""
    monkeypatch.setattr(cuts, "TALL", 300)
    with kernels.simulated_target("sm_90a"):
        for n, k in ((24, 8), (8, 64), (64, 128)):
            a, b, bias = half(300, k), half(k, n), half(n)
            made, by = kernel_of(a, b, bias=bias)
            assert "mma_matmul" in by.ptx() and close(made, product(a, b) + bias.double())
        a, b = torch.randn(300, 128), torch.randn(64, 128)
        (q, s), (r, t) = kernels.quantize_fp8(a, block=128), kernels.quantize_fp8(b, block=(128, 128))
        made, by = kernel_of(q, r.mT, scale_a=s, scale_b=t.mT)
        assert "wgmma" in by.ptx()
        assert float((made.double() - product(a, b.mT)).norm()) < 0.05 * float(product(a, b.mT).norm())


@pytest.mark.parametrize("columns", [1, 31, 200, 1030])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int8])
def test_pitched(columns, dtype):
    x = (5 * torch.randn(19, columns)).to(dtype)
    for pitch in (columns + 5, max(1, columns - 3)):
        y, both = torch.ones(19, pitch).to(dtype), min(columns, pitch)
        pitched_kernel({torch.int8: s8, torch.float32: f32, torch.bfloat16: bf16}[dtype])(x, out=y)
        assert torch.equal(y[:, :both], x[:, :both]) and (y[:, both:] == 1).all()


@pytest.mark.parametrize(
    ("m", "n", "k", "batch"), [(260, 45, 37, None), (277, 277, 278, None), (263, 45, 40, 2), (20, 48, 37, None)]
)
def test_padded(m, n, k, batch):
    lead = () if batch is None else (batch,)
    a, b = half(*lead, m, k), half(*lead, n, k)
    with kernels.simulated_target("sm_90a"):
        for a_k_major, b_k_major in itertools.product((True, False), repeat=2):
            (x, x_width), (y, y_width) = stored(a, a_k_major), stored(b, b_k_major)
            p = Problem(
                m, n, k, batch, bf16, bf16, a_k_major, b_k_major, x_width, y_width, width_of(n * 2), on_gpu=False
            )
            made, out = Padded(p, torch.bfloat16)(x, y), torch.zeros(*lead, m, n).bfloat16()
            assert (
                close(made, product(a, b.mT))
                and Padded(p, torch.bfloat16)(x, y, out=out) is out
                and torch.equal(out, made)
            )


@pytest.mark.parametrize(
    ("dtype", "of", "out"),
    [(torch.int8, s8, torch.int32), (torch.float8_e4m3fn, e4m3, torch.bfloat16), (torch.float32, f32, torch.float32)],
)
def test_padded_of_other_types(dtype, of, out):
    a, b = (3 * torch.randn(270, 77)).to(dtype), (3 * torch.randn(45, 77)).to(dtype)
    widths = [width_of(columns * each.itemsize) for columns, each in ((77, dtype), (77, dtype), (45, out))]
    with kernels.simulated_target("sm_90a"):
        p = Problem(270, 45, 77, None, of, calls_in_torch.NAMES[str(out)[6:]], True, True, *widths, on_gpu=False)
        assert close(Padded(p, out)(a, b), product(a, b.mT), dtype)


def test_padded_by_jax(monkeypatch):
    jax = pytest.importorskip("jax", reason="skipped: no jax")
    answers = []

    def is_any(p):
        answers.append(min(p.a_width, p.b_width, p.out_width) < 16)
        return answers[-1]

    monkeypatch.setattr(dense, "is_padded", is_any)
    jnp, half = jax.numpy, jax.numpy.bfloat16
    with kernels.simulated_target("sm_90a"):
        for shape, columns, bias in (
            ((20, 37), 45, False),
            ((2, 21, 37), 45, False),
            ((20, 37), 48, True),
            ((20, 40), 45, True),
        ):
            a, b = (
                jnp.asarray(torch.randn(shape).numpy(), half),
                jnp.asarray(torch.randn(shape[-1], columns).numpy(), half),
            )
            more = {"bias": jnp.ones(columns, half)} if bias else {}

            def loss(a, b, more=more):
                return kernels.matmul(a, b, **more).astype(jnp.float32).sum()

            assert jnp.allclose(kernels.matmul(a, b, **more), a @ b + bias, rtol=2e-2, atol=1e-1)
            da, db = jax.grad(loss, (0, 1))(a, b)
            assert jnp.allclose(da, jnp.broadcast_to(b.astype(jnp.float32).sum(1), a.shape), rtol=2e-2, atol=1e-1)
            assert jnp.allclose(
                db, a.astype(jnp.float32).reshape(-1, a.shape[-1]).sum(0)[:, None], rtol=2e-2, atol=1e-1
            )


def test_gaps_between_rows():
    """Where TMA takes the strides, nothing is copied, whatever is quicker for matrices without gaps; a dimension of one has any stride."""
    qkv, wide = half(150, 16, 3, 16), half(8, 4200)
    given = [
        (qkv[:, :, 1], qkv[:, :, 2].mT), (half(150, 16, 32)[:, :, :16], half(150, 16, 16)), (half(140, 8, 264)[:, :, :128], half(140, 264, 136)[:, :128, :128]),
        (wide[:1, :4096], wide[:, :4096].mT), (wide[:1, :4097], wide[:, :4097].mT), (half(1, 1).as_strided((1, 1), (2, 1)), half(1, 1).as_strided((1, 1), (2, 1))),
    ]  # fmt: skip
    for target in ("sm_80", "sm_90a", "sm_100a"):
        with kernels.simulated_target(target):
            for a, b in given:
                made, by = kernel_of(a, b)
                assert close(made, product(a, b), size=product(a.abs(), b.abs()))
                assert target != "sm_90a" or a.shape[0] < 140 or "wgmma" in by.ptx()
        for dtype in (torch.float8_e4m3fn, torch.int8):
            a, b = torch.ones(64, 5).to(dtype)[:, :1], torch.ones(1, 1).to(dtype).as_strided((1, 1), (1, 6))
            assert (kernels.matmul(a, b) == 1).all()


def test_what_is_padded():
    """What takes mma.sync long, on Hopper, and no epilogue that reads C's rows."""
    large = Problem(4097, 4097, 4097, None, bf16, bf16, True, True, 2, 2, 2, on_gpu=False)
    with kernels.simulated_target("sm_90a"):
        assert is_padded(large) and isinstance(launches_of(large), Padded)
        for other in (
            {"m": 90, "n": 90, "k": 777},
            {"epilogue": Epilogue(bf16)},
            {"a_width": 16, "b_width": 16, "out_width": 16},
        ):
            assert not is_padded(Problem(**{**vars(large), **other}))
        assert is_padded(Problem(**{**vars(large), "epilogue": Epilogue(bf16), "n": 4096, "out_width": 32}))
    assert not is_padded(large)


@pytest.mark.parametrize("n", [2, 8, 10, 31])
def test_streams_of_the_transposed_result(n):
    x, few = half(333, 128), half(n, 128)
    made = stream_kernel(stream_of(n, 333, 128), bf16, True, bf16, whole=False, turned=True)(few, x)
    assert close(made, product(x, few.mT))


def test_few_columns():
    """A large A, also one with gaps between its rows, is not copied; B may lie anyhow."""
    big, b = half(2050, 4200), half(4096, 8)
    with kernels.simulated_target("sm_90a"):
        for y in (b, b.mT.contiguous().mT, torch.cat((b[:1], b))[1:]):
            made, by = kernel_of(big[:, :4096], y)
            assert "stream_matmul" in by.ptx() and close(made, product(big[:, :4096], y))
            out = torch.empty(2050, 9).bfloat16()[:, 1:]
            assert kernels.matmul(big[:, :4096], y, out=out) is out and torch.equal(out, made)
        for other in (half(4096, 17), half(4096, 1)):
            assert close(kernels.matmul(big[:, :4096], other), product(big[:, :4096], other))
        assert close(kernels.matmul(big[:, 1:4097], b), product(big[:, 1:4097], b))


def test_streams_to_rows_of_any_length():
    """C alone has rows that are no multiple of 16 bytes."""
    with kernels.simulated_target("sm_90a"):
        for m in (1, 20):
            a, w, bias = half(m, 64), half(333, 64), half(333)
            made, by = kernel_of(a, w.mT, bias=bias)
            assert "stream_matmul" in by.ptx() and close(made, product(a, w.mT) + bias.double())


@needs_ptxas
def test_registers_for_all():
    """No value of any tile, with element loads or copies, nor of vectors, goes to memory."""
    sizes = {"M": 512, "N": 512, "K": 512}
    kept = {(cut, width) for cut, costs in cuts.COSTS for width in costs}
    kept |= {(cut, width) for width in (2, 16) for cut, *_ in cuts.ONCE}
    for cut, width in sorted(kept, key=str):
        made = mma_kernel(bf16, bf16, True, False, width, width, cut=None if cut == Cut() else cut)
        assert made.resources(**sizes).spill_stores == 0, (cut, width)
    for shared, rows, (dtype, width) in itertools.product(
        (None, (8, 4), (8, 1), (1, 4)), (1, 2, 4), ((bf16, 2), (bf16, 16), (f32, 16))
    ):
        for epilogue in (Epilogue(), Epilogue(bf16, "gelu", bf16)):
            made = vectors_kernel(shared, dtype, dtype, rows, width, False, epilogue)
            assert made.resources(N=512, K=512).spill_stores == 0, (shared, rows, dtype, width, epilogue)
