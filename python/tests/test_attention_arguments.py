"""What `kernels.attention` may be given: sizes of 0, windows without end, memory of all forms; and what it refuses, by name."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from test_attention import agrees, near, reference, tensors  # noqa: E402

from pyptx import kernels  # noqa: E402
from pyptx.errors import LaunchTypeError, LaunchValueError  # noqa: E402
from pyptx.kernels._attention.transposed import transpose_kernel  # noqa: E402

targets = pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
FP8 = torch.float8_e4m3fn


def numbers(*values):
    return torch.tensor(values, dtype=torch.int32)


@targets
@pytest.mark.parametrize("shape", [(0, 2, 5, 7), (1, 0, 5, 7), (1, 2, 0, 7), (1, 2, 5, 0)])
@pytest.mark.parametrize("causal", [False, True])
def test_nothing(shape, causal, target):
    """No batch, heads, queries or keys: zeros of the result's shape, as torch's; gradients of 0."""
    batch, heads, queries, keys = shape
    q, k, v = tensors("cpu", *((batch, heads, length, 64) for length in (queries, keys, keys)))
    leaves = [each.requires_grad_() for each in (q, k, v)]
    with kernels.simulated_target(target):
        o, lse = kernels.attention(*leaves, causal=causal, lse=True)
        gradients = torch.autograd.grad(o.sum(), leaves)
        memory = torch.full_like(o, 3.0)
        given = kernels.attention(*(each.detach() for each in leaves), causal=causal, out=memory)
    assert o.shape == q.shape and o.dtype == q.dtype and lse.shape == q.shape[:-1] and lse.dtype == torch.float32
    assert given is memory
    assert not o.any() and not memory.any() and bool((lse == -math.inf).all())
    assert [each.shape for each in gradients] == [each.shape for each in leaves] and not any(
        each.any() for each in gradients
    )


@targets
def test_nothing_of_other_forms(target):
    q, k, v = tensors("cpu", (1, 2, 1, 64), (1, 2, 0, 64), (1, 2, 0, 64))
    sinks = torch.tensor([0.5, -1.0])
    narrow = [each.to(FP8) for each in (q, k, v)]
    with kernels.simulated_target(target):
        o, lse = kernels.attention(q, k, v, sinks=sinks, lse=True)
        assert not o.any() and torch.equal(lse, sinks.view(1, 2, 1))
        assert not kernels.attention(q, k, v, lengths=numbers(0)).any()
        assert kernels.attention(*narrow).dtype == torch.bfloat16
        rows, none = torch.ones(5, 2, 64).bfloat16(), torch.ones(0, 2, 64).bfloat16()
        o, lse = kernels.attention(rows, none, none, cu_seqlens=(numbers(0, 5), numbers(0, 0)), lse=True)
        assert o.shape == rows.shape and not o.any() and lse.shape == (2, 5) and bool((lse == -math.inf).all())
        pages, table = torch.ones(3, 8, 2, 64).bfloat16(), torch.zeros(1, 0, dtype=torch.int32)
        assert not kernels.attention(q, pages, pages, lengths=numbers(0), block_table=table).any()


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("causal", [False, True])
def test_windows_without_end(causal, target):
    """What reaches further than 2^31 does not wrap around."""
    q, k, v = tensors("cpu", (1, 1, 9, 64), (1, 1, 200, 64), (1, 1, 200, 64))
    want = reference(q.double(), k.double(), v.double(), causal=causal)
    with kernels.simulated_target(target):
        for window in (2**29, 2**31 - 1, 2**31, 2**40):
            agrees(kernels.attention(q, k, v, causal=causal, window=window, lse=True), want)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("width", [64, 256])
def test_memory_of_the_result(target, width):
    """`out` lies anywhere: where the kernel cannot write it, it is copied there."""
    q, k, v = tensors("cpu", (2, 4, 9, width), (2, 2, 20, width), (2, 2, 20, width))
    want, _ = reference(q.double(), k.double(), v.double())
    empty = torch.zeros(2, 9, 4, width + 8, dtype=q.dtype)
    with kernels.simulated_target(target):
        for out in (empty[..., :-8].transpose(1, 2), empty[..., 1:-7].transpose(1, 2), torch.zeros_like(q)):
            assert kernels.attention(q, k, v, out=out) is out
            near(out, want)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_gradients_of_heads_inside_of_rows(target):
    """(B, M, H, D), as projections make them: heads lie side by side."""
    leaves = [each.requires_grad_() for each in tensors("cpu", (2, 9, 4, 64), (2, 20, 2, 64), (2, 20, 2, 64))]
    doubles = [each.detach().double().requires_grad_() for each in leaves]
    want, _ = reference(*(each.transpose(1, 2) for each in doubles), causal=True)
    with kernels.simulated_target(target):
        found = torch.autograd.grad(
            kernels.attention(*(each.transpose(1, 2) for each in leaves), causal=True).sum(), leaves
        )
    for got, wanted in zip(found, torch.autograd.grad(want.sum(), doubles), strict=True):
        near(got, wanted)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("width", "values"), [(8, 8), (40, 40), (72, 72), (80, 80), (256, 8), (24, 16)])
def test_odd_sizes_of_heads_and_their_gradients(width, values, target):
    leaves = [each.requires_grad_() for each in tensors("cpu", (1, 2, 9, width), (1, 1, 20, width), (1, 1, 20, values))]
    doubles = [each.detach().double().requires_grad_() for each in leaves]
    want, _ = reference(*doubles, causal=True)
    with kernels.simulated_target(target):
        o = kernels.attention(*leaves, causal=True)
        near(o, want)
        found = torch.autograd.grad(o.sum(), leaves)  # whose gradient is expanded: strides of 0
    for got, wanted in zip(found, torch.autograd.grad(want.sum(), doubles), strict=True):
        near(got, wanted)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("what", ["q", "k", "v"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_rows_that_are_not_finite(what, value, target):
    """Are NaN or infinite where those of float64 are; rows that do not meet them are as they were."""
    q, k, v = tensors("cpu", (1, 1, 70, 64), (1, 1, 150, 64), (1, 1, 150, 64))
    {"q": q, "k": k, "v": v}[what][0, 0, 67, 3] = value
    with kernels.simulated_target(target):
        o = kernels.attention(q, k, v)
    want = torch.softmax(q.double() @ k.double().mT / 8, -1) @ v.double()
    assert torch.equal(torch.isnan(o), torch.isnan(want))
    assert torch.equal(torch.isinf(o), torch.isinf(want))
    finite = torch.isfinite(want)
    near(o[finite], want[finite])


CALLS = [
    ({"causal": "no"}, LaunchTypeError, "causal is True or False, not 'no'"),
    ({"causal": torch.tensor(True)}, LaunchTypeError, "causal is True or False"),
    ({"window": True}, LaunchValueError, "window is a number of keys"),
    ({"window": (0, 0, 0)}, LaunchValueError, "window is a number of keys"),
    ({"scale": math.inf}, LaunchValueError, "scale is positive and finite, not inf"),
    ({"scale": math.nan}, LaunchValueError, "scale is positive and finite, not nan"),
    ({"scale": 10**400}, LaunchValueError, "scale is positive and finite"),
    ({"scale": 0.0}, LaunchValueError, "scale is positive and finite"),
    ({"scale": -1.0}, LaunchValueError, "scale q by yourself"),
    ({"softcap": math.inf}, LaunchValueError, "softcap is positive and finite"),
    ({"softcap": 0}, LaunchValueError, "softcap is positive and finite"),
]


@pytest.mark.parametrize(("options", "error", "message"), CALLS)
def test_numbers_are_refused(options, error, message):
    q, k, v = tensors("cpu", (1, 2, 9, 64), (1, 2, 20, 64), (1, 2, 20, 64))
    with pytest.raises(error, match=message):
        kernels.attention(q, k, v, **options)


def test_tensors_are_refused():
    q, k, v = tensors("cpu", (1, 2, 9, 64), (1, 2, 20, 64), (1, 2, 20, 64))
    with pytest.raises(LaunchTypeError, match="q is no dense tensor"):
        kernels.attention(q.float().to_sparse().bfloat16(), k, v)
    with pytest.raises(LaunchTypeError, match="k is no dense tensor"):
        kernels.attention(q, torch.nested.nested_tensor([k[0], k[0]]), v)
    with pytest.raises(LaunchValueError, match=r"out is \(1, 2, 9, 64\) of float32, the result is"):
        kernels.attention(q, k[:, :, :0], v[:, :, :0], out=torch.zeros(1, 2, 9, 64))


SEQUENCES = [
    (numbers(0, 4, 11).long(), LaunchTypeError, "cu_seqlens is of int32, not int64"),
    (numbers(0, 4, 11).to("meta"), LaunchValueError, "cu_seqlens is on cpu as q is, not on meta"),
    (numbers(0, 7, 4, 11), LaunchValueError, "cu_seqlens rises from 0 to the 11 rows"),
    (numbers(2, 4, 11), LaunchValueError, "cu_seqlens rises from 0 to the 11 rows"),
    (numbers(0, 4, 9), LaunchValueError, "cu_seqlens rises from 0 to the 11 rows"),
    (numbers(0, 4, 20), LaunchValueError, "cu_seqlens rises from 0 to the 11 rows"),
    (numbers(-3, 4, 11), LaunchValueError, "cu_seqlens rises from 0 to the 11 rows"),
    ((numbers(0, 11),), LaunchValueError, "a pair of q's and of k's, not 1"),
    ((numbers(0, 4, 11), numbers(0, 11)), LaunchValueError, "as many sequences of q as of k, not 2 and 1"),
]


@pytest.mark.parametrize(("begins", "error", "message"), SEQUENCES)
def test_begins_of_sequences_are_refused(begins, error, message):
    rows = torch.ones(11, 2, 64).bfloat16()
    for each in (rows, rows.to(FP8)):
        with pytest.raises(error, match=message):
            kernels.attention(each, each, each, cu_seqlens=begins)


CACHES = [
    ({"lengths": numbers(3, 41)}, LaunchValueError, "lengths are 0 to 40"),
    ({"lengths": numbers(-5, 40)}, LaunchValueError, "lengths are 0 to 40"),
    ({"lengths": numbers(3)}, LaunchValueError, r"lengths is \(B\) with B = 2"),
    ({"lengths": numbers(3, 40).long()}, LaunchTypeError, "lengths is of int32, not int64"),
    ({"lengths": numbers(8, 40), "pages": numbers(0, 9, 9, 9, 9, 5, 6, -1, 8, 9)}, LaunchValueError, "pages 0 to 9"),
    ({"lengths": numbers(8, 40), "pages": numbers(0, 9, 9, 9, 9, 5, 6, 10, 8, 9)}, LaunchValueError, "pages 0 to 9"),
    ({"lengths": numbers(8, 40), "pages": torch.arange(10)}, LaunchTypeError, "block_table is of int32, not int64"),
]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("options", "error", "message"), CACHES)
def test_what_says_which_keys_of_a_cache_is_refused(options, error, message, target):
    q, k, v = tensors("cpu", (2, 2, 1, 64), (2, 2, 40, 64), (2, 2, 40, 64))
    given = dict(options)
    if "pages" in given:
        given["block_table"] = given.pop("pages").view(2, 5)
        k, v = (each.transpose(1, 2).reshape(10, 8, 2, 64) for each in (k, v))
    with kernels.simulated_target(target), pytest.raises(error, match=message):
        kernels.attention(q, k, v, **given)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_pages_that_are_not_reached_and_columns_of_a_table(target):
    q, k, v = tensors("cpu", (2, 2, 1, 64), (2, 2, 40, 64), (2, 2, 40, 64))
    pages = [each.transpose(1, 2).reshape(10, 8, 2, 64) for each in (k, v)]
    table = torch.full((2, 9), -7, dtype=torch.int32)
    table[0, 0], table[1, :5] = 0, numbers(5, 6, 7, 8, 9)
    with kernels.simulated_target(target):
        o = kernels.attention(q, *pages, lengths=numbers(8, 40), block_table=table[:, :6])
    for sequence, count in enumerate((8, 40)):
        part = [each[sequence : sequence + 1].double() for each in (q, k[:, :, :count], v[:, :, :count])]
        near(o[sequence : sequence + 1], reference(*part)[0])


def test_scales_of_queries_beside_a_cache_are_refused():
    q, k, v = (each.to(FP8) for each in tensors("cpu", (2, 4, 1, 64), (2, 2, 40, 64), (2, 2, 40, 64)))
    for scale in (torch.ones(3), torch.ones(4).double()):
        with pytest.raises(LaunchValueError, match="scale_q is f32 of one number or"):
            kernels.attention(q, k, v, lengths=numbers(8, 40), scale_q=scale)
    with pytest.raises(LaunchTypeError, match="scale_q is a tensor, not 1.0"):
        kernels.attention(q, k, v, lengths=numbers(8, 40), scale_q=1.0)


def test_scales_that_torch_refuses_are_for_torch():
    q, k, v = tensors("cpu", (1, 2, 9, 64), (1, 2, 20, 64), (1, 2, 20, 64))
    with pytest.raises(TypeError, match=r"scaled_dot_product_attention\(\)"):
        kernels.scaled_dot_product_attention(q, k, v, scale="1")
    doubles = [each.double() for each in (q, k, v)]
    for scale in (0.0, -0.5):
        want = torch.nn.functional.scaled_dot_product_attention(*doubles, scale=scale)
        near(kernels.scaled_dot_product_attention(q, k, v, scale=scale), want)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_memory_that_the_result_shares(target):
    """That of all of q, or what alternates with q, k and v; else it is said, as tiles are stored while others are read."""
    packed = torch.randn(1, 300, 4, 2, 64).bfloat16()
    q, k, v, beside = (packed[:, :, i].transpose(1, 2) for i in range(4))
    flat = torch.zeros(2 * 300 * 64 + 64).bfloat16()
    with kernels.simulated_target(target):
        want = kernels.attention(q, k, v)
        assert torch.equal(kernels.attention(q, k, v, out=beside), want)
        for name, wrong in (("k", {"out": k}), ("v", {"out": v}), ("k", {"k": flat[:-64].view(1, 2, 300, 64)})):
            told = {"q": q, "k": k, "v": v, "out": flat[64:].view(1, 2, 300, 64), **wrong}
            with pytest.raises(LaunchValueError, match=f"out shares memory with {name}; legal is memory of its own"):
                kernels.attention(**told)
        with pytest.raises(LaunchValueError, match="out shares memory with q"):
            kernels.attention(q[:, :, :200], k, v, out=q[:, :, 100:])
        assert kernels.attention(q, k, v, out=q) is q and torch.equal(q, want)


def test_memory_of_numpy_that_the_result_shares():
    numpy = pytest.importorskip("numpy")
    q, k, v = (numpy.ones((1, 1, 20, 64), numpy.float16) for _ in range(3))
    with pytest.raises(LaunchValueError, match="out shares memory with v"):
        kernels.attention(q, k, v, out=v)
    assert kernels.attention(q, k, v, out=q) is q


def within(queries: int, keys: int, before, behind, causal: bool):
    """Which keys count, as flash_attn's window_size has it."""
    far = torch.arange(keys) - (torch.arange(queries)[:, None] + keys - queries)
    counts = torch.ones(queries, keys, dtype=torch.bool)
    counts &= far <= (0 if causal else math.inf if behind in (None, -1) else behind)
    return counts & (far >= (-math.inf if before in (None, -1) else -before))


@targets
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [(20, 3), (0, 0), (-1, 30), (30, None), (0, 40)])
def test_windows_of_two_sides(window, causal, target):
    q, k, v = tensors("cpu", (1, 2, 90, 64), (1, 1, 150, 64), (1, 1, 150, 64))
    counts = within(90, 150, *window, causal)
    exact = [each.double().requires_grad_() for each in (q, k, v)]
    want = torch.nn.functional.scaled_dot_product_attention(*exact, attn_mask=counts, enable_gqa=True)
    leaves = [each.requires_grad_() for each in (q, k, v)]
    with kernels.simulated_target(target):
        o = kernels.attention(*leaves, window=window, causal=causal)
        found = torch.autograd.grad(o.sum(), leaves)
        packed = [each.detach()[0].transpose(0, 1) for each in (q, k, v)]
        rows = kernels.attention(*packed, window=window, causal=causal, cu_seqlens=(numbers(0, 90), numbers(0, 150)))
        one = kernels.attention(q.detach()[:, :, -1:], k.detach(), v.detach(), window=window, causal=causal, lengths=numbers(150))  # fmt: skip
        few = kernels.attention(*(each.detach().to(FP8) for each in (q, k, v)), window=window, causal=causal)
    near(o, want)
    near(rows.transpose(0, 1)[None], want)
    near(one, want[:, :, -1:])
    near(few, want, 8e-2)
    for got, wanted in zip(found, torch.autograd.grad(want.sum(), exact), strict=True):
        if window != (0, 0) and (window, causal) != ((0, 40), True):  # a key alone: no gradient of scores
            near(got, wanted, 2e-2)


@pytest.mark.parametrize("window", [(1,), (1, 2, 3), (1.5, 2), ("a", 1), (-2, 3), [1, 2], (True, 1)])
def test_windows_that_are_none(window):
    q = torch.ones(1, 1, 8, 64).bfloat16()
    with pytest.raises(LaunchValueError, match="window is a number of keys, 1 or more, or a pair of the keys before"):
        kernels.attention(q, q, q, window=window)


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("softmax_scale", "here it is scale;"), ("dropout_p", "leave it out, as there is no dropout"), ("alibi_slopes", "here it is mask, a tensor"),
        ("cu_seqlens_q", "here it is cu_seqlens, a pair"), ("max_seqlen_k", "leave it out, as it is not needed"), ("return_lse", "here it is lse=True"),
        ("k_descale", "here it is scale_k"), ("page_table", "here it is block_table"), ("cache_seqlens", "here it is lengths"), ("query", "here it is q"),
    ],
)  # fmt: skip
def test_names_of_other_libraries(name, here):
    q = torch.ones(1, 1, 8, 64).bfloat16()
    with pytest.raises(LaunchTypeError, match=f"attention: no argument '{name}': {here}"):
        kernels.attention(q, q, q, **{name: 1})


def test_gradients_of_caches_and_of_e4m3_are_refused():
    q, k, v = tensors("cpu", *[(1, 2, 9, 64)] * 3)
    one, narrow = q[:, :, :1].clone().requires_grad_(), [each.to(FP8) for each in (q, k, v)]
    pages = [torch.ones(2, 8, 2, 64).bfloat16()] * 2, {"lengths": numbers(9), "block_table": numbers(0, 1)[None]}
    calls = [
        lambda: kernels.attention(one, k, v, lengths=numbers(9)),
        lambda: kernels.attention(one, *pages[0], **pages[1]),
        lambda: kernels.attention(one, *narrow[1:]),
        lambda: kernels.attention(one, *narrow[1:], scale_k=torch.ones(1)),
        lambda: kernels.attention(narrow[0], narrow[1].requires_grad_(), narrow[2]),
        lambda: kernels.attention(*narrow, sinks=torch.ones(2, requires_grad=True)),
    ]
    for call in calls:
        with pytest.raises(
            LaunchValueError, match=r"there is no gradient; legal are torch.no_grad\(\) and .detach\(\)"
        ):
            call()
        with torch.no_grad():
            call()


def test_more_heads_than_a_grid_has_along_z():
    """Of the kernel that turns v of e4m3 around."""
    made = transpose_kernel(64)
    assert made.grid(65_537, 40, 700) == (3 * 65_537, 1, 1)
    v = torch.randint(0, 120, (3, 700, 40), dtype=torch.uint8)
    turned = made(v.view(FP8), NP=704).view(torch.uint8).view(3, 40, 44, 4, 2, 2)
    assert torch.equal(turned.transpose(3, 4).reshape(3, 40, 704)[..., :700], v.mT)
