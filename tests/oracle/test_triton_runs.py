"""Triton's kernels of the corpus that `make corpus` fills, for tensor cores of Hopper and Blackwell, on the simulator as they are: their numbers, and no
report."""

import mmap
import os
import re
from pathlib import Path

import numpy as np
import pytest

import pyptx
from pyptx import _core

torch = pytest.importorskip("torch", reason="skipped: no torch")

CACHE = Path(os.environ.get("PYPTX_CORPUS") or Path.home() / ".cache/pyptx/corpus") / "ptx"
SHARED = 200 << 10  # bytes, more than any of them takes
M, N, K = 256, 128, 192
draw = np.random.default_rng(1)


def half(*shape):
    return draw.integers(-3, 4, shape).astype("f2")


def brain(x):
    return torch.from_numpy(x.astype("f4")).bfloat16().view(torch.int16).numpy().view("u2")


def eighth(x):  # e5m2 is the upper byte of f16
    return (x.view("u2") >> 8).astype("u1")


def sizes(*numbers):
    return [np.uint32(each) for each in numbers]


def product(a, b, out, tile, block=128, x=lambda x: x):
    def made():
        wanted = a.astype("f4") @ b.astype("f4")
        right = x(a), x(b), np.zeros((M, N), out)
        grid = (M // tile[0] * (N // tile[1]), 1, 1)
        return "matmul", grid, block, [*right, *sizes(M, N, K)], 2, lambda got: (got == wanted).all()

    return made


def by_descriptors():
    a, b = half(M, K), half(K, N)
    given = [a, np.ascontiguousarray(b.T), np.zeros((M, N), "f2"), *sizes(M, N, K)]
    wanted = a.astype("f4") @ b.astype("f4")
    return "matmul_descriptor", (M // 128, N // 128, 1), 128, given, 2, lambda got: (got == wanted).all()


def attention():
    n, d = 256, 64
    q, k, v = (half(n, d) for _ in "qkv")
    s = np.where(np.tril(np.ones((n, n))) > 0, q.astype("f8") @ k.astype("f8").T * 0.125, -np.inf)
    p = np.exp2(s - s.max(1, keepdims=True))
    wanted = p @ v.astype("f8") / p.sum(1, keepdims=True)
    given = [q, k, v, np.zeros((n, d), "f2"), np.uint32(n), np.float32(0.125)]
    return "attention", (n // 128, 1, 1), 128, given, 3, lambda got: np.abs(got - wanted).max() < 6e-3


def scaled():
    x, y = (torch.from_numpy(draw.integers(-2, 3, (128, 128))).float() for _ in "xy")
    sx, sy = (draw.integers(126, 129, (128, 4)).astype("u1") for _ in "xy")

    def wide(s):
        return np.repeat(2.0 ** (s.astype("f8") - 127), 32, 1)

    wanted = (x.double().numpy() * wide(sx)) @ (y.double().numpy() * wide(sy).T)
    bits = [
        x.to(torch.float8_e4m3fn).view(torch.uint8).numpy(),
        sx,
        y.to(torch.float8_e5m2).view(torch.uint8).numpy(),
        sy,
    ]
    return "scaled", (1, 1, 1), 128, [*bits, np.zeros((128, 128), "f4")], 4, lambda got: (got == wanted).all()


def in_turn():
    _, _, _, given, out, is_right = by_descriptors()
    return "tiles_in_turn", (2, 1, 1), 0, given, out, is_right


def by_roles():
    _, _, _, given, out, _ = attention()
    q, k, v = (each.astype("f8") for each in given[:3])
    s = q @ k.T * 0.125
    p = np.exp2(s - s.max(1, keepdims=True))
    wanted = p @ v / p.sum(1, keepdims=True)
    return "attention_by_roles", (2, 1, 1), 0, given, out, lambda got: np.abs(got - wanted).max() < 6e-3


def over_locks():
    a, b = half(64, 96), half(96, 128)
    given = [a, b, np.zeros((64, 128), "f4"), np.zeros(16, "i4"), *sizes(96, 128, 6, 4)]
    wanted = a.astype("f4") @ b.astype("f4")
    return "tiles_over_locks", (2, 1, 1), 0, given, 2, lambda got: (got == wanted).all()


def order():
    x = draw.integers(0, 1000, 512).astype("i4")
    wanted = np.concatenate([np.sort(x), np.cumsum(x), x[np.arange(512) * 7 & 511]])
    return "order", (1, 1, 1), 0, [x, np.zeros(1536, "i4")], 1, lambda got: (got == wanted).all()


MADE = {
    "matmul_bf16": product(half(M, K), half(K, N), "f4", (128, 128), x=brain),
    "matmul_fp16": product(half(M, K), half(K, N), "f2", (128, 64)),
    "matmul_deep": product(half(M, K), half(K, N), "f2", (128, 64), block=256),
    "matmul_fp8": product(half(M, K), half(K, N), "f2", (128, 128), x=eighth),
    "matmul_descriptor": by_descriptors,
    "attention": attention,
    "scaled": scaled,
    "tiles_in_turn": in_turn,
    "tiles_by_roles": in_turn,
    "attention_by_roles": by_roles,
    "tiles_over_locks": over_locks,
    "order": order,
}


# What Triton itself has wrong, by the code of the first report: 3.6 has no barrier between the stores of all threads and the exchange by which one
# of them gives the lock back (3.9 has), and makes an mbarrier three times at one place.
WRONG = {
    ("tiles_over_locks", "3.6", "sm_90a"): 5050,
    ("tiles_over_locks", "3.6", "sm_100a"): 5050,
    ("attention_by_roles", "3.6", "sm_90a"): 5022,
}


def in_pages(array):
    """At the start of a page, as a GPU's memory is."""
    copy = np.frombuffer(mmap.mmap(-1, array.nbytes), array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.mark.parametrize("version", ["3.6", "3.9"])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", MADE)
def test_it_gives_its_numbers(name, target, version):
    path = CACHE / f"triton_{name}.{target}.triton-{version}.ptx"
    if not path.exists():
        pytest.skip("skipped: no corpus (make corpus)")
    entry, grid, block, given, out, is_right = MADE[name]()
    block = block or int(re.search(r"\.reqntid (\d+)", path.read_text())[1])
    given = [in_pages(each) if isinstance(each, np.ndarray) else each.tobytes() for each in given]
    scratch = [in_pages(np.zeros(1 << 16, "u1")) for _ in range(2)]
    with pyptx.simulator(check="all", raises=False) as run:
        _core.run_text(path.read_bytes(), path.name, entry, grid, (block, 1, 1), (1, 1, 1), SHARED, [*given, *scratch])
        wrong = WRONG.get((name, version, target))
        failing = None if wrong else run.explore(3)
    if wrong:
        assert run.reports[0].code == wrong
        return
    assert [str(report) for report in run.reports] == []
    assert is_right(given[out].astype("f8")), "other numbers"
    assert failing is None, str(failing)
