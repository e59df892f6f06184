"""Products with a long K in parts, and of one column, as a user's call makes them on Hopper: on the simulator, and on a GPU where there is one."""

import contextlib
import functools
import shutil
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

import pyptx  # noqa: E402
from pyptx import kernels  # noqa: E402
from pyptx.kernels._epilogue import Epilogue  # noqa: E402
from pyptx.kernels._matmul import calls_in_torch, dense  # noqa: E402
from pyptx.kernels._matmul.choice import Problem, microseconds_in_one, sizes_of  # noqa: E402
from pyptx.kernels._matmul.costs import quickest as quickest_tile  # noqa: E402
from pyptx.kernels._matmul.parts import TILES, InParts, in_parts, quickest  # noqa: E402
from pyptx.kernels._matmul.split import Split, shares_of, split_kernel, sums_kernel  # noqa: E402
from pyptx.kernels._matmul.transposed import transposed_f32  # noqa: E402
from pyptx.types import bf16, f32, s8  # noqa: E402

GPU = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no CUDA device")])  # fmt: skip
devices = pytest.mark.parametrize("device", ["cpu", GPU])
needs_ptxas = pytest.mark.skipif(shutil.which("ptxas") is None, reason="skipped: no ptxas")
majors = pytest.mark.parametrize("major", ["NN", "NT", "TN", "TT"])
TOLERANCE = {torch.bfloat16: 4e-3, torch.float16: 1e-3, torch.float32: 1e-3}


def matrices(m, n, k, major, dtype, device):
    torch.manual_seed(k)
    a, b = (torch.randn(size, device=device).to(dtype) for size in ((m, k), (k, n)))
    return [*turned(major, a, b), a.double() @ b.double()]


def turned(major, *matrices) -> list:
    return [each.mT.contiguous().mT if how == "T" else each for each, how in zip(matrices, major, strict=True)]


def distance(got, wanted) -> float:
    return float((got.double() - wanted).norm() / wanted.norm())


def called(a, b):
    return calls_in_torch.Call((a, b, None, None, None, None), None, None)


@devices
@majors
@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
def test_a_long_k_is_multiplied_in_parts(dtype, major, device):
    a, b, wanted = matrices(72, 64, 8192, major, dtype, device)
    with kernels.simulated_target("sm_90a"):
        assert isinstance(called(a, b).kernel, InParts)
        got, out = kernels.matmul(a, b), torch.empty(64, 72, device=device, dtype=dtype).mT
        assert got.dtype == dtype and distance(got, wanted) < TOLERANCE[dtype]
        assert torch.equal(kernels.matmul(a, b), got)
        assert torch.equal(kernels.matmul(a, b, out=out), got)
        assert torch.equal(kernels.matmul(a, b, out=torch.empty_like(got)), got)
        wide = torch.empty(72, 64, device=device)
        assert distance(kernels.matmul(a, b, out=wide), wanted) < 1e-3


@devices
@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
@pytest.mark.parametrize("residual", [None, torch.bfloat16, torch.float32], ids=str)
def test_sums_of_parts_have_epilogues(batch, residual, device):
    torch.manual_seed(0)
    a, b = (torch.randn(*batch, rows, 2048, device=device).bfloat16() for rows in (136, 72))
    bias = torch.randn(72, device=device).bfloat16()
    more = None if residual is None else torch.randn(*batch, 136, 72, device=device).to(residual)
    wanted = torch.nn.functional.gelu(a.double() @ b.double().mT + bias.double())
    given = {"bias": bias, "activation": "gelu", "residual": more}
    with kernels.simulated_target("sm_90a"):
        call = calls_in_torch.Call((a, b.mT, bias, more, None, None), "gelu", None)
        assert isinstance(call.kernel, InParts)
        got, out = kernels.matmul(a, b.mT, **given), torch.empty(*batch, 136, 72, device=device).bfloat16()
        assert torch.equal(kernels.matmul(a, b.mT, **given, out=out), got)
    assert distance(got, wanted if more is None else wanted + more) < 4e-3


@devices
@majors
def test_batches_in_parts(major, device):
    torch.manual_seed(0)
    a, b = torch.randn(3, 72, 4160, device=device).bfloat16(), torch.randn(3, 4160, 200, device=device).bfloat16()
    wanted = a.double() @ b.double()
    with kernels.simulated_target("sm_90a"):
        a, b = turned(major, a, b)
        assert isinstance(called(a, b).kernel, InParts)
        assert distance(kernels.matmul(a, b), wanted) < 4e-3


def test_parts_are_clean():
    a, b, wanted = matrices(64, 64, 4096, "TN", torch.bfloat16, "cpu")
    with kernels.simulated_target("sm_90a"), pyptx.simulator(check="all"):
        assert distance(kernels.matmul(a, b), wanted) < 4e-3


@devices
def test_gradient_of_a_weight(device):
    """Of many rows: its K."""
    x = torch.randn(2, 4096, 64, device=device).bfloat16()
    w = torch.randn(48, 64, device=device).bfloat16().requires_grad_()
    g = torch.randn(2, 4096, 48, device=device).bfloat16()
    with kernels.simulated_target("sm_90a"):
        (got,) = torch.autograd.grad(kernels.matmul(x, w.mT), w, g)
    assert distance(got, g.flatten(0, 1).double().mT @ x.flatten(0, 1).double()) < 4e-3


def test_gradient_of_a_weight_in_jax():
    """And the gradient of that, whose g is f32."""
    jax = pytest.importorskip("jax", reason="skipped: no JAX")
    random = np.random.default_rng(0)
    x, w, g = (
        jax.numpy.asarray(random.standard_normal(size), "bfloat16") for size in ((8192, 64), (64, 48), (8192, 48))
    )

    def gradient(w, x, matmul):
        return jax.grad(lambda w: (matmul(x, w) * g).astype("float32").sum())(w)

    with kernels.simulated_target("sm_90a"), monitored(dense, "in_parts") as found:
        got = gradient(w, x, kernels.matmul)
        assert sum(each is not None for each in found) == 1
        pull = jax.grad(lambda x: (gradient(w, x, kernels.matmul) * w).astype("float32").sum())(x)
    wanted = gradient(w, x, lambda x, w: x.astype("float32") @ w.astype("float32"))
    assert (
        got.dtype == w.dtype
        and distance(torch.tensor(np.asarray(got, "float32")), torch.tensor(np.asarray(wanted, "float32"))) < 4e-3
    )
    assert (
        distance(
            torch.tensor(np.asarray(pull, "float32")),
            torch.tensor(np.asarray(g.astype("float32") @ w.astype("float32").T)),
        )
        < 1e-2
    )


def test_vmap_in_jax_is_a_product_of_more_rows():
    jax = pytest.importorskip("jax", reason="skipped: no JAX")
    random = np.random.default_rng(0)
    x, g = (jax.numpy.asarray(random.standard_normal((3, 4096, n)), "bfloat16") for n in (64, 48))
    with kernels.simulated_target("sm_90a"), monitored(dense, "in_parts") as found, warnings.catch_warnings():
        warnings.simplefilter("error")  # as launches one after the other would be
        got = jax.vmap(lambda x, g: kernels.matmul(x.T, g), in_axes=(0, None))(x, g[0])
    assert len(found) == 2 and all(found)  # its K is split, too
    wanted = torch.tensor(np.asarray(x, "float64")).mT @ torch.tensor(np.asarray(g[0], "float64"))
    assert distance(torch.tensor(np.asarray(got, "float64")), wanted) < 4e-3


def test_sums_of_parts_have_epilogues_in_jax():
    jax = pytest.importorskip("jax", reason="skipped: no JAX")
    random = np.random.default_rng(0)
    x, w, bias, more = (
        jax.numpy.asarray(random.standard_normal(size), "bfloat16")
        for size in ((136, 2048), (2048, 72), (72,), (136, 72))
    )

    def loss(matmul, x, bias):
        return (matmul(x, bias) ** 2).astype("float32").sum()

    def ours(x, bias):
        return kernels.matmul(x, w, bias=bias, activation="relu", residual=more)

    with kernels.simulated_target("sm_90a"), monitored(dense, "in_parts") as found:
        got, gradients = ours(x, bias), jax.grad(functools.partial(loss, ours), (0, 1))(x, bias)
    assert found[0] is not None

    def theirs(x, bias):
        wide = x.astype("float32") @ w.astype("float32") + bias.astype("float32")
        return (jax.nn.relu(wide) + more.astype("float32")).astype("bfloat16")

    wanted = (theirs(x, bias), *jax.grad(functools.partial(loss, theirs), (0, 1))(x, bias))
    for one, other in zip((got, *gradients), wanted, strict=True):
        assert distance(*(torch.tensor(np.asarray(each, "float64")) for each in (one, other))) < 1e-2


def test_vmap_of_vmap_in_jax_is_one_batch():
    jax = pytest.importorskip("jax", reason="skipped: no JAX")
    random = np.random.default_rng(0)
    x, g = (jax.numpy.asarray(random.standard_normal((2, 3, 2048, n)), "bfloat16") for n in (64, 48))
    with kernels.simulated_target("sm_90a"):
        got = jax.vmap(jax.vmap(lambda x, g: kernels.matmul(x.T, g)))(x, g)
    x, g = (torch.tensor(np.asarray(each, "float64")) for each in (x, g))
    assert distance(torch.tensor(np.asarray(got, "float64")), x.mT @ g) < 4e-3


@contextlib.contextmanager
def monitored(module, name):
    """What calls of a function return meanwhile."""
    function, found = getattr(module, name), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, lambda *given: found.append(function(*given)) or found[-1])
        yield found


def test_who_is_in_parts():
    def problem(m, n, k, *more, **told):
        return Problem(m, n, k, None, *(more or (bf16, bf16)), on_gpu=False, **told)

    def parts(*sizes, **told):
        p = problem(*sizes, **told)
        with kernels.simulated_target("sm_90a"):
            return quickest(p).parts if in_parts(p) else 1

    assert parts(64, 64, 65536) == 64 and parts(128, 128, 65536, a_k_major=False) > 8
    assert parts(4096, 4096, 65536) == parts(64, 64, 1024) == parts(16, 4096, 4096) == parts(8, 64, 4096) == 1
    assert parts(64, 64, 65536, bf16, f32) > 1 and parts(64, 64, 65536, s8, f32) == 1
    assert parts(64, 64, 65536, epilogue=Epilogue(bf16, "gelu", f32)) > 1
    for epilogue in (Epilogue(activation="swiglu"), Epilogue(scales="tensor")):
        assert parts(64, 64, 65536, epilogue=epilogue) == 1
    assert parts(64, 64, 8 * 8191) > 1  # any K
    assert in_parts(problem(64, 64, 65536)) is None  # without wgmma
    # Blocks of 64 columns of B, none of them outside of it, or within a line of memory.
    for m, n in ((128, 512), (96, 384), (384, 96)):
        assert quickest(problem(m, n, 32768, a_k_major=False, b_k_major=False)).bn == (96 if n == 96 else 128)
    with kernels.simulated_target("sm_90a"):  # one pair of kernels, whatever K is
        assert in_parts(problem(64, 64, 65536)) is in_parts(problem(64, 64, 65600))


def test_one_part_is_estimated_as_it_is_multiplied():
    """As the tiles that take it, or as a stream, which is tall for B (N, K) alone."""

    def one(m, n, k, **told):
        return microseconds_in_one(Problem(m, n, k, None, bf16, bf16, **told))

    assert (
        one(768, 768, 8192, a_k_major=False)
        == quickest_tile(sizes_of(Problem(768, 768, 8192, None, bf16, bf16, False)))[1]
    )
    tall, wide = (one(128, 1536, 8192, b_k_major=each) for each in (True, False))  # in four parts, and in two
    assert tall < wide


@needs_ptxas
@pytest.mark.parametrize("tile", list(TILES), ids=str)
def test_tiles_of_parts_assemble(tile):
    left = Split(768, 3072, *tile, 2).left
    assert split_kernel(*tile, False, bf16, False, False).resources(M=768, N=3072, K=8192, **left).spill_stores == 0


@needs_ptxas
def test_sums_of_parts_assemble():
    """Few kernels for all numbers of parts, each of which adds up all of them."""
    found = {shares_of(parts): parts for parts in range(2, 133)}
    assert len(found) == 8 and all(shares * each >= parts for (shares, each), parts in found.items())
    for shares_and_each, parts in found.items():
        left = Split(768, 3072, 128, 96, parts).left
        assert sums_kernel(*shares_and_each, False, bf16).resources(M=768, N=3072, **left).spill_stores == 0


@devices
@pytest.mark.parametrize("major", ["TN", "NT"])
@pytest.mark.parametrize("tile", list(TILES), ids=str)
def test_tiles_of_parts(tile, major, device):
    """Sizes that no tile divides, more parts than one thread adds up, some of which have no step of K."""
    m, n, k, parts = tile[0] + 24, tile[1] + 40, 1000, 19
    a, b, wanted = matrices(m, n, k, major, torch.bfloat16, device)
    split, stored = Split(m, n, *tile, parts), (a, b.mT) if major == "NT" else (a.mT, b)
    left = split_kernel(*tile, False, bf16, major[0] == "N", major[1] == "T")(*stored, **split.left)
    sums = sums_kernel(*shares_of(parts), False, bf16)
    assert distance(sums(left, M=m, N=n), wanted) < TOLERANCE[torch.bfloat16]
    for part in (0, parts - 1):  # the second kernel reads all parts
        left[part] = float("nan")
        assert sums(left, M=m, N=n).isnan().all()
        left[part] = 0


@pytest.mark.parametrize(("m", "n", "grid"), [(320, 1536, (5, 24, 6)), (1536, 320, (5, 24, 6)), (256, 256, (4, 4, 6))])
def test_neighbours_lie_along_the_shorter_side(m, n, grid):
    sizes = {"M": m, "N": n, "K": 64, "L": 3, **Split(m, n, 64, 64, 2, 3).left}
    assert split_kernel(64, 64, True, bf16, True, True).specialise(**sizes).record(sizes).grid == grid


def test_parts_of_wide_matrices():
    """Tiles by columns: both kernels find the same ones."""
    a, b, wanted = matrices(72, 328, 504, "NT", torch.bfloat16, "cpu")
    call = InParts(Split(72, 328, 64, 64, 3), bf16, True, True, bf16)
    assert distance(call(a, b.mT), wanted) < TOLERANCE[torch.bfloat16]


@devices
@majors
@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
def test_one_column(dtype, major, device):
    """Rows of A are its columns of C^T."""
    a, b, wanted = matrices(200, 1, 256, major, dtype, device)
    with kernels.simulated_target("sm_90a"):
        assert called(a, b).flat == (1, 200)
        got = kernels.matmul(a, b)
        assert got.shape == (200, 1) and distance(got, wanted) < TOLERANCE[dtype]
        assert torch.equal(kernels.matmul(a, b[:, 0]), got[:, 0])
        assert torch.equal(kernels.matmul(a, b, out=torch.empty_like(got)), got)
        strided = torch.stack((b, b), 1)[:, 0]
        assert torch.equal(kernels.matmul(a, strided), got)
        pair = torch.cat((b, b), 1)
        gated = kernels.matmul(a, pair, activation="swiglu")
        assert distance(gated, torch.nn.functional.silu(wanted) * wanted) < 3 * TOLERANCE[dtype]


@devices
@pytest.mark.parametrize(
    "shape", [(1, 64, 64), (2, 4, 8), (1, 100, 132), (3, 68, 200), (2, 1, 7), (1, 67, 129)], ids=str
)
def test_transposed(shape, device):
    x = torch.randn(shape, device=device)
    with pyptx.simulator(check="all"):
        for vector in (1,) if shape[2] % 4 else (1, 4):
            assert torch.equal(transposed_f32(vector)(x), x.mT)


@devices
@majors
@pytest.mark.parametrize("shape", [(), (3,)], ids=str)
def test_f32_that_lies_by_columns_is_transposed(major, shape, device):
    for m, n, k in ((136, 44, 40), (135, 43, 41)):  # of fewer rows B stays as it lies
        a, b = torch.randn(*shape, m, k, device=device), torch.randn(*shape, k, n, device=device)
        given = turned(major, a, b)
        with kernels.simulated_target("sm_90a"):
            steps = [step for seen in called(*given).seen[:2] for step in seen.steps]
            assert steps.count(calls_in_torch.by_rows) == (major[0] == "T") + (major[1] == "N")
            assert distance(kernels.matmul(*given), a.double() @ b.double()) < 1e-3
