"""Tensors of more than 2^32 elements on the simulator: memory of which few pages are touched.  Where a kernel would have to go over all of it, the text is
read instead."""

from __future__ import annotations

import functools
import mmap
import re

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

from pyptx import kernels  # noqa: E402
from pyptx.errors import LaunchValueError  # noqa: E402
from pyptx.kernels._rows.softmax_few import few_softmax  # noqa: E402
from pyptx.types import bf16, f32  # noqa: E402

FAR = 5 * 2**30 + 64  # elements from a row to the next, of 2 bytes each
BYTES = 2**40


@functools.cache
def memory():
    without_pages = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    try:
        return torch.frombuffer(mmap.mmap(-1, BYTES, flags=without_pages), dtype=torch.bfloat16)
    except OSError:
        pytest.skip("skipped: the system gives no more addresses than it has memory")


def far(*shape, strides, place=0):
    """Of random numbers."""
    return memory()[place << 20 :].as_strided(shape, strides).copy_(torch.randn(shape))


def near(tensor):
    return tensor.clone(memory_format=torch.contiguous_format)


def numbers(*shape):
    return torch.randn(shape).bfloat16()


def heads(place):
    return far(2, 3, 40, 64, strides=(3 * FAR, FAR, 64, 1), place=place)


def grouped(b):
    return kernels.grouped_matmul(torch.ones(30, 64).bfloat16(), b.mT, torch.tensor([10, 12, 30], dtype=torch.int32))


def rotated(x):
    angles = torch.arange(40.0)[:, None] * torch.linspace(0, 1, 32)
    return kernels.rope(x, angles.cos(), angles.sin())


def rows(place=0):
    return far(3, 64, strides=(FAR, 1), place=place)


CALLS = {
    "rms_norm": lambda: (kernels.rms_norm, rows(), numbers(64)),
    "layer_norm": lambda: (kernels.layer_norm, rows(), numbers(64)),
    "softmax": lambda: (kernels.softmax, rows()),
    "cross_entropy": lambda: (kernels.cross_entropy, rows(), torch.tensor([1, 2, 3])),
    "swiglu": lambda: (kernels.swiglu, rows()),
    "quantize_fp8": lambda: (lambda x: kernels.quantize_fp8(x, block=128)[0].float(), rows()),
    "rope": lambda: (rotated, heads(0)),
    "a": lambda: (kernels.matmul, rows(), numbers(64, 48)),
    "b": lambda: (kernels.matmul, numbers(5, 3), rows()),
    "a batch": lambda: (kernels.matmul, far(3, 5, 64, strides=(FAR, 64, 1)), numbers(3, 64, 48)),
    "experts": lambda: (grouped, far(3, 48, 64, strides=(FAR, 64, 1))),
    "attention": lambda: (kernels.attention, heads(0), heads(1), heads(2)),
    "a mask": lambda: (
        lambda q, mask: kernels.attention(q, q, q, mask=mask), numbers(2, 3, 40, 64), far(2, 3, 40, 40, strides=(6 * FAR, 2 * FAR, 64, 1)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", CALLS)
def test_rows_that_lie_far_from_each_other(name, target):
    torch.manual_seed(0)
    function, *given = CALLS[name]()
    with kernels.simulated_target(target):
        assert torch.equal(function(*given), function(*map(near, given)))


@pytest.mark.parametrize("name", ["softmax", "matmul", "attention"])
def test_results_that_lie_far_from_each_other(name):
    if name == "attention":
        q = numbers(2, 3, 40, 64)
        out, call = heads(0), functools.partial(kernels.attention, q, q, q)
    else:
        out, more = rows(), (numbers(64, 64),) if name == "matmul" else ()
        call = functools.partial(getattr(kernels, name), numbers(3, 64), *more)
    call(out=out)
    assert torch.equal(near(out), call())


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_a_cache_whose_pages_lie_far_from_each_other(target):
    """2^36 bytes are 2^32 times 16, of which their strides may be multiples and no more."""
    lengths, table = torch.tensor([20], dtype=torch.int32), torch.tensor([[1, 0]], dtype=torch.int32)
    call = functools.partial(kernels.attention, numbers(1, 2, 1, 64), lengths=lengths, block_table=table)
    pages, odd = (far(2, 16, 2, 64, strides=(2**35 + more, 128, 64, 1)) for more in (0, 8))
    with kernels.simulated_target(target):
        assert torch.equal(call(pages, pages), call(near(pages), near(pages)))
        if target != "sm_90a":  # copies of tensors take it
            with pytest.raises(
                LaunchValueError, match=r"k of a cache lies within 2\^32 times 16 bytes, .* not within 68719"
            ):
                call(odd, odd)


@pytest.mark.parametrize(("dtype", "vector"), [(f32, 4), (bf16, 8), (bf16, 1)])
def test_bytes_of_a_line_of_columns_are_counted_in_64_bits(dtype, vector):
    for kernel in (few_softmax(dtype, vector).forward_kernel, few_softmax(dtype, vector).backward_kernel):
        text = kernel.ptx(L=1, N=10, W=64)
        width = re.search(r"ld\.param\.u32 (%\w+), \[W\];", text)[1]
        uses = re.findall(rf"(\S+) %\w+,.*{width}[,;]", text)
        assert "mad.wide.u32" in uses and not [each for each in uses if re.match(r"mul\.lo|shl|mad\.lo", each)]
