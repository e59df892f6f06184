"""Random calls of every function of pyptx.kernels against float64: sizes, element types, places in memory, options, with gradients; on the simulator,
and, larger, on a GPU where there is one."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from placed import distance, length, placed, random_calls  # noqa: E402
from test_attention import reference  # noqa: E402
from test_quantize import BLOCKS, quantised, same  # noqa: E402
from test_rope import turned  # noqa: E402
from test_row_kernels import FUNCTIONS  # noqa: E402

from pyptx import kernels  # noqa: E402

F = torch.nn.functional
NEAR = {torch.float32: 3e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
PRODUCTS = {torch.float32: 2e-3, torch.float16: 2e-3, torch.bfloat16: 8e-3, torch.float8_e4m3fn: 8e-3, torch.int8: 0}
E4M3 = torch.float8_e4m3fn
TARGETS = ("sm_80", "sm_90a", "sm_100a")


def lead_of(rnd, device: str, columns: int) -> tuple:
    """Leading dimensions, so that all elements are not too many."""
    most = max(1, (2**22 if device == "cuda" else 2**14) // columns)
    many = length(rnd, device, min(most, 300), most)
    return rnd.choice(((), (many,), (many,), (0,), (1, min(many, 40)), (2, 3, max(1, min(many, 50) // 6))))


def finite(rnd, dtype, *shape, device):
    """Of numbers so small that sums of f16 are finite."""
    return placed(rnd, dtype, *shape, device=device, size=1)


def off(got, wanted) -> float:
    """The norm of the difference; gates times ups of f16 can be too large for it, and count where they are not."""
    if got.dtype is torch.float16:
        fits = wanted.abs() < torch.finfo(torch.float16).max
        got, wanted = got[fits], wanted[fits]
    return float((got.double() - wanted).norm())


def on_a_target(rnd):
    return kernels.simulated_target(rnd.choice(TARGETS))


def agree(results, wanted, given, exact, tolerance: float, device: str):
    """Results and gradients."""
    results, wanted = (each if isinstance(each, tuple) else (each,) for each in (results, wanted))
    for got, want in zip(results, wanted, strict=True):
        assert distance(got, want) < tolerance
    pulls = [torch.randn(each.shape, device=device).to(each.dtype) for each in results]
    gradients = torch.autograd.grad(results, given, pulls, allow_unused=True)
    expected = torch.autograd.grad(wanted, exact, [pull.double() for pull in pulls], allow_unused=True)
    for got, want in zip(gradients, expected, strict=True):
        cancelled = 1e-6 * want.numel() ** 0.5  # of terms as large as the pulls
        assert got.shape == want.shape
        assert float((got.double() - want).norm()) <= 4 * tolerance * float(want.norm()) + cancelled


def doubled(tensors) -> list:
    return [each.detach().double().requires_grad_() for each in tensors]


@random_calls(60, 200)
def test_rows(rnd, device):
    name = rnd.choice(list(FUNCTIONS))
    ours, theirs, matrices, vectors = FUNCTIONS[name]
    n = length(rnd, device, 3000, 100_000)
    shape, dtype = (*lead_of(rnd, device, n), n), rnd.choice(list(NEAR))
    kinds = [dtype, rnd.choice((dtype, *NEAR))][:matrices] + [rnd.choice((dtype, torch.float32))] * vectors
    shapes = [shape] * matrices + [(n,)] * vectors
    given = [finite(rnd, kind, *size, device=device).requires_grad_() for kind, size in zip(kinds, shapes, strict=True)]
    # Rows of a few elements that are nearly equal have gradients that cancel.
    eps = {"eps": 1.0} if vectors or "alone" in name or "norm" in name else {}
    exact = doubled(given)
    with on_a_target(rnd):
        if eps:
            kind, wanted = (F.layer_norm, exact) if "layer" in name else (F.rms_norm, exact)
            if name == "add_rms_norm":
                total = exact[0] + exact[1]
                wanted = F.rms_norm(total, (n,), exact[2], 1.0), total
                got = kernels.add_rms_norm(*given, eps=1.0)
            else:
                wanted = kind(exact[0], (n,), *exact[1:], eps=1.0)
                function = kernels.layer_norm if "layer" in name else kernels.rms_norm
                got = function(given[0], (n,), *given[1:], eps=1.0)
        else:
            got, wanted = ours(*given), theirs(*exact)
        agree(got, wanted, given, exact, 3 * max(NEAR[kind] for kind in kinds), device)
        if name == "add_rms_norm":
            return
        out = placed(rnd, dtype, *shape, device=device, written=True)
        with torch.no_grad():
            plain = [each.detach() for each in given]
            made = function(plain[0], (n,), *plain[1:], eps=1.0, out=out) if eps else ours(*plain, out=out)
        assert made is out and torch.equal(out.nan_to_num(), got.detach().nan_to_num())


@random_calls(25, 80)
def test_softmax_over_any_dimension(rnd, device):
    name, dtype = rnd.choice(("softmax", "log_softmax")), rnd.choice(list(NEAR))
    shape = [length(rnd, device, 60, 300) for _ in range(rnd.randint(1, 3))]
    dim, kind = rnd.randrange(-len(shape), len(shape)), rnd.choice((None, torch.float32, dtype))
    x = placed(rnd, dtype, *shape, device=device).requires_grad_()
    (exact,) = doubled([x])
    with on_a_target(rnd):
        got = getattr(kernels, name)(x, dim, dtype=kind)
        assert got.dtype == (kind or dtype)
        wide = 2 if name == "log_softmax" and dtype is torch.float16 else 1
        agree(got, getattr(exact, name)(dim), [x], [exact], 3 * wide * NEAR[dtype], device)


@random_calls(25, 80)
def test_halves_of_rows(rnd, device):
    name, n, dtype = rnd.choice(("swiglu", "geglu")), length(rnd, device, 700, 20_000), rnd.choice(list(NEAR))
    x = finite(rnd, dtype, *lead_of(rnd, device, 2 * n), 2 * n, device=device).requires_grad_()
    (exact,) = doubled([x])
    gate, up = exact.chunk(2, -1)
    with on_a_target(rnd):
        got = getattr(kernels, name)(x)
        agree(got, (F.silu if name == "swiglu" else F.gelu)(gate) * up, [x], [exact], 3 * NEAR[dtype], device)


@random_calls(40, 120)
def test_losses(rnd, device):
    n, dtype = length(rnd, device, 1500, 140_000), rnd.choice(list(NEAR))
    rows = length(rnd, device, 30, max(1, 2**21 // n))
    more = rnd.choice(((), (), (3,), (2, 4))) if rows * n < 4000 else ()
    told = {"reduction": rnd.choice(("none", "mean", "sum")), "label_smoothing": rnd.choice((0.0, 0.1, 1.0))}
    x = placed(rnd, dtype, rows, n, *more, device=device).requires_grad_()
    weight = torch.rand(n, device=device) + 0.1 if rnd.random() < 0.4 else None
    if rnd.random() < 0.3:
        target = torch.rand(rows, n, *more, device=device).softmax(1)
    else:
        target = torch.randint(0, n, (rows, *more), device=device, dtype=rnd.choice((torch.int64, torch.int32)))
        if rnd.random() < 0.5:
            told["ignore_index"] = rnd.choice((-100, 0)) if n > 1 else -100
            target[torch.rand(target.shape, device=device) < 0.3] = told["ignore_index"]
            target.view(-1)[0] = n - 1  # or the mean of nothing is NaN
    (exact,) = doubled([x])
    goal = target.double() if target.is_floating_point() else target.long()
    wanted = F.cross_entropy(exact, goal, None if weight is None else weight.double(), **told)
    with on_a_target(rnd):
        got = kernels.cross_entropy(x, target, weight, dim=1, **told)
        assert got.dtype is torch.float32
        assert distance(got, wanted) < 1e-5 and abs(got.double() - wanted).max() < 1e-4 * max(1, wanted.abs().max())
        pull = torch.randn(got.shape, device=device)
        (ours,) = torch.autograd.grad(got, x, pull)
        (theirs,) = torch.autograd.grad(wanted, exact, pull.double())
    step = float(pull.abs().max()) / n * 1e-6 * theirs.numel() ** 0.5  # of terms that cancel
    step += 2**-25 * theirs.numel() ** 0.5 if dtype is torch.float16 else 0.0  # what is below its range
    assert float((ours.double() - theirs).norm()) <= 3 * NEAR[dtype] * float(theirs.norm()) + step


@random_calls(30, 80)
def test_rope(rnd, device):
    seq_dim, half = rnd.choice((-2, -3)), rnd.choice((1, 3, 8, 16, 20, 32, 64))
    still, lines = rnd.choice((0, 0, 1, 8, 30)), length(rnd, device, 20, 300)
    lead = [length(rnd, device, 4, 12) for _ in range(rnd.randint(0, 2))] + (
        [length(rnd, device, 4, 9)] if seq_dim == -3 else []
    )
    shape = [*lead, 2 * half + still]
    shape.insert(len(shape) + 1 + seq_dim, lines)
    dtype, of_tables = rnd.choice(list(NEAR)), rnd.choice(list(NEAR))
    angles, interleaved = torch.rand(lines + 3, half, device=device) * 6, rnd.random() < 0.5
    cos, sin = (each.to(of_tables) for each in (angles.cos(), angles.sin()))
    positions = rnd.choice((None, torch.randint(0, lines + 3, (lines,), device=device)))
    x = finite(rnd, dtype, *shape, device=device).requires_grad_()
    (exact,) = doubled([x])
    told = {"positions": positions, "interleaved": interleaved, "seq_dim": seq_dim}
    with on_a_target(rnd):
        agree(kernels.rope(x, cos, sin, **told), turned(exact, cos, sin, **told), [x], [exact], 3 * NEAR[dtype], device)


@random_calls(30, 80)
def test_quantize_fp8(rnd, device):
    if device == "cuda" and torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("skipped: no GPU of sm_89 or later")
    block, dtype = rnd.choice(list(BLOCKS)), rnd.choice(list(NEAR))
    x = placed(rnd, dtype, length(rnd, device, 150, 700), length(rnd, device, 700, 5000), device=device)
    with on_a_target(rnd):
        q, s = kernels.quantize_fp8(x, block=block)
    values, scales = quantised(x, block)
    assert same(q, values) and same(s, scales)


ACTIVATIONS = {
    None: lambda z: z, "relu": torch.relu, "gelu": F.gelu, "silu": F.silu,
    "swiglu": lambda z: F.silu(z.chunk(2, -1)[0]) * z.chunk(2, -1)[1], "geglu": lambda z: F.gelu(z.chunk(2, -1)[0]) * z.chunk(2, -1)[1],
}  # fmt: skip


def scales_of(rnd, lead: tuple, m: int, n: int, k: int, device: str) -> tuple[dict, object, object]:
    """(the arguments, what A's elements are multiplied by, what B's are)."""
    how = rnd.choice(("none", "tensor", "row") if lead else ("none", "tensor", "row", "block"))
    if how == "none":
        return {}, 1, 1
    blocks = -(-k // 128)
    sizes = {"tensor": ((1,), (1,)), "row": ((*lead, m, 1), (1, n)), "block": ((m, blocks), (blocks, -(-n // 128)))}[
        how
    ]
    of_a, of_b = (placed(rnd, torch.float32, *size, device=device, written=True).abs_().add_(0.5) for size in sizes)
    told = {"scale_a": of_a, "scale_b": of_b}
    if how == "block":
        of_a = of_a.repeat_interleave(128, 1)[:, :k]
        of_b = of_b.repeat_interleave(128, 0)[:k].repeat_interleave(128, 1)[:, :n]
    return told, of_a.double(), of_b.double()


@random_calls(80, 300)
def test_products(rnd, device):
    """Also of no rows, columns or terms."""
    dtype = rnd.choice(list(PRODUCTS))
    if device == "cuda" and dtype is E4M3 and torch.cuda.get_device_capability() < (8, 9):
        return
    m, n, k = (
        rnd.choice(
            (0, length(rnd, device, 260, 2500), length(rnd, device, 260, 2500), 8 * length(rnd, device, 30, 300))
        )
        for _ in range(3)
    )
    lead = rnd.choice(((), (), (3,), (2, 2))) if max(m, n, k) < 600 else ()
    leads = lead, rnd.choice((lead, (), tuple(rnd.choice((1, x)) for x in lead)))
    real, told = dtype.is_floating_point, {}
    if real:
        told["activation"] = rnd.choice((None, None, *ACTIVATIONS))
    gated = told.get("activation") in ("swiglu", "geglu")
    width = 2 * n if gated else n
    a, b = (finite(rnd, dtype, *shape, device=device) for shape in ((*leads[0], m, k), (*leads[1], k, width)))
    scales, of_a, of_b = (
        scales_of(rnd, lead, m, width, k, device) if dtype is E4M3 and 0 not in (m, n, k) else ({}, 1, 1)
    )
    if gated and "scale_a" in scales and scales["scale_a"].shape != (1,) and width % 128:
        scales, of_a, of_b = {}, 1, 1
    exact = a.double() * of_a, b.double() * of_b
    z = exact[0] @ exact[1]
    size = exact[0].abs() @ exact[1].abs()
    kind = torch.bfloat16 if dtype is E4M3 else dtype
    if real and rnd.random() < 0.3:
        told["bias"] = placed(rnd, rnd.choice((kind, torch.float32)), width, device=device)
        z, size = z + told["bias"].double(), size + told["bias"].double().abs()
    wanted = ACTIVATIONS[told.get("activation")](z)
    size = size.chunk(2, -1)[0] * (1 + z.chunk(2, -1)[1].abs()) if gated else size
    if real and rnd.random() < 0.3:
        told["residual"] = placed(rnd, rnd.choice((kind, torch.float32)), *wanted.shape, device=device)
        wanted, size = wanted + told["residual"].double(), size + told["residual"].double().abs()
    with on_a_target(rnd):
        got = kernels.matmul(a, b, **told, **scales)
        assert got.shape == wanted.shape
        bound = PRODUCTS[dtype] * float((size if real else wanted).norm()) + 1e-9
        assert off(got, wanted) <= bound
        assert torch.equal(got, kernels.matmul(a, b, **told, **scales))
        more = (torch.float16,) if dtype is E4M3 and not gated else ()
        of_out = rnd.choice((got.dtype, torch.float32, *more)) if real else got.dtype
        out = placed(rnd, of_out, *wanted.shape, device=device, written=True)
        assert kernels.matmul(a, b, **told, **scales, out=out) is out
        assert off(out, wanted) <= bound


@random_calls(40, 120)
def test_groups(rnd, device):
    """Some are empty; rows of none stay as they are."""
    dtype, counted = rnd.choice((torch.bfloat16, torch.float16, E4M3)), rnd.random() < 0.5
    if device == "cuda" and dtype is E4M3 and torch.cuda.get_device_capability() < (8, 9):
        return
    experts, k, n = rnd.randint(1, 6), length(rnd, device, 200, 1500), length(rnd, device, 200, 1000)
    if rnd.random() < 0.6:
        k, n = -(-k // 16) * 16, -(-n // 16) * 16
    activation = rnd.choice((None, None, "relu", "swiglu", "geglu"))
    if activation in ("swiglu", "geglu") and dtype is E4M3:
        n = -(-n // 64) * 64
    width = 2 * n if activation in ("swiglu", "geglu") else n
    sizes = [rnd.choice((0, length(rnd, device, 90, 400), 1)) for _ in range(experts)]
    rows = max(1, *sizes) + 3 if counted else sum(sizes) + 3
    lead = (experts, rows) if counted else (rows,)
    a, b = finite(rnd, dtype, *lead, k, device=device), finite(rnd, dtype, experts, k, width, device=device)
    ends = torch.tensor(sizes, dtype=torch.int32, device=device)
    told = {"counts": ends} if counted else {"offs": ends.cumsum(0).int()}
    exact = a.double(), b.double()
    if dtype is E4M3:
        blocks, columns = -(-k // 128), -(-width // 128)
        of_a, of_b = (
            torch.rand(*lead, blocks, device=device) + 0.5,
            torch.rand(experts, blocks, columns, device=device) + 0.5,
        )
        told |= {"scale_a": of_a, "scale_b": of_b}
        wide = of_b.repeat_interleave(128, 1)[:, :k].repeat_interleave(128, 2)[..., :width]
        exact = exact[0] * of_a.repeat_interleave(128, -1)[..., :k], exact[1] * wide
    kind = torch.bfloat16 if dtype is E4M3 else dtype
    out = torch.full((*lead, n), 7.0, device=device, dtype=kind)
    wanted, size, start = out.double(), out.double(), 0
    for e, count in enumerate(sizes):
        where = (e, slice(0, count)) if counted else (slice(start, start + count),)
        z = exact[0][where] @ exact[1][e]
        wanted[where] = ACTIVATIONS[activation](z)
        size[where] = (exact[0][where].abs() @ exact[1][e].abs())[..., :n] * (1 + z[..., n:].abs() if width > n else 1)
        start += count
    with on_a_target(rnd):
        assert kernels.grouped_matmul(a, b, activation=activation, out=out, **told) is out
    assert off(out, wanted) < PRODUCTS[dtype] * float(size.norm())


@random_calls(20, 25)
def test_attention(rnd, device):
    if device == "cuda" and torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("skipped: no sm_90 GPU")
    width, shared, dtype = (
        rnd.choice((32, 64, 80, 96, 128, 256)),
        rnd.randint(1, 2),
        rnd.choice((torch.bfloat16, torch.float16)),
    )
    heads, batch = shared * rnd.randint(1, 3), rnd.randint(1, 2)
    queries, keys = length(rnd, device, 130, 700), length(rnd, device, 200, 1500)
    masks = {"causal": rnd.random() < 0.5, "window": rnd.choice((None, 1, 60)), "softcap": rnd.choice((None, 8.0))}
    shapes = (batch, heads, queries, width), *[(batch, shared, keys, width)] * 2
    q, k, v = (finite(rnd, dtype, *shape, device=device).requires_grad_() for shape in shapes)
    exact = doubled((q, k, v))
    with on_a_target(rnd):
        got = kernels.attention(q, k, v, **masks)
        wanted = reference(*exact, **masks)
        wanted = wanted[0] if isinstance(wanted, tuple) else wanted
        assert distance(got, wanted) < 2e-2
        pull = torch.randn(got.shape, device=device).to(dtype)
        gradients = torch.autograd.grad(got, (q, k, v), pull)
        expected = torch.autograd.grad(wanted, exact, pull.double())
        size = max(float(each.norm()) for each in expected)
        for ours, theirs in zip(gradients, expected, strict=True):
            assert float((ours.double() - theirs).norm()) < 3e-2 * max(float(theirs.norm()), 0.1 * size)
