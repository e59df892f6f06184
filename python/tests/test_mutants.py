"""Kernels with a line dropped or changed, under all checks of the simulator: each mistake is reported by its rule.

A kernel's call is kept once, as `pyptx.replay` keeps it; a mutant is the same call with another text.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import functools
import json
import re
import sys
import zipfile
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")

import numpy  # noqa: E402

import pyptx  # noqa: E402
from pyptx import _core, kernels  # noqa: E402
from pyptx.kernels._epilogue import Epilogue  # noqa: E402
from pyptx.kernels._matmul import blackwell  # noqa: E402
from pyptx.kernels._matmul.hopper import product_kernel  # noqa: E402
from pyptx.kernels._matmul.stream import StreamConfig, stream_kernel  # noqa: E402
from pyptx.kernels._matmul.tiles import Config  # noqa: E402
from pyptx.kernels._rows.loops import wide_looping  # noqa: E402
from pyptx.kernels.norm import layer_norm_backward_kernel, rms_norm_backward_kernel  # noqa: E402
from pyptx.types import bf16  # noqa: E402

MULTIPROCESSORS = blackwell.MULTIPROCESSORS
EXAMPLES = Path(__file__).parents[2] / "examples"


def half(*shape):
    return torch.randn(shape).to(torch.bfloat16)


def blackwell_pair():
    sys.path.insert(0, str(EXAMPLES))
    try:
        import blackwell_gemm

        blackwell_gemm.main()
    finally:
        sys.path.remove(str(EXAMPLES))


def in_turn(c, m: int, multiprocessors: int):
    """So that a CTA, or a pair, has several tiles: both accumulators take turns."""
    blackwell.MULTIPROCESSORS = multiprocessors
    blackwell.blackwell_kernel.cache_clear()
    try:
        blackwell.blackwell_kernel(dataclasses.replace(c, bn=128, stages=2), bf16)(half(m, 264), half(296, 264))
    finally:
        blackwell.MULTIPROCESSORS = MULTIPROCESSORS
        blackwell.blackwell_kernel.cache_clear()


def scaled():
    sys.path.insert(0, str(EXAMPLES))
    try:
        import blackwell_scaled

        rng = numpy.random.default_rng(0)
        (a, of_a, _), (b, of_b, _) = (blackwell_scaled.random_operand(rng, "nvfp4", 512) for _ in "ab")
        blackwell_scaled.build_scaled_tile("nvfp4", 512)(a, b, of_a, of_b)
    finally:
        sys.path.remove(str(EXAMPLES))


def attention(width: int, queries: int):
    q, k, v = half(1, 1, queries, width), half(1, 1, 520, width), half(1, 1, 520, width)
    kernels.attention(q, k, v, causal=True)


def backward(of, norm: int, rows: int = 37, n: int = 1032, workers: int = 1):
    """Of rows that share a CTA: eight of two warps, or four a row ahead; of odd ones that two CTAs share."""
    made = of(functools.partial(wide_looping, bits=16, norm=norm), bf16, bf16)
    return made(half(rows, n), half(n), half(rows, n), P=workers)


MADE = {
    "cluster": lambda: product_kernel(Config(128, 128, 3, cm=2), bf16)(half(384, 640), half(136, 640)),
    "warpgroup": lambda: product_kernel(Config(64, 64, 3, 1), bf16)(half(72, 1280), half(72, 1280)),
    "stream": lambda: stream_kernel(StreamConfig(16, 1, 64, 3), bf16, True, bf16, Epilogue(), True)(half(9, 1920), half(136, 1920)),
    "mma": lambda: kernels.matmul(half(72, 160), half(160, 96)),
    "pair": blackwell_pair,
    "rows": lambda: backward(rms_norm_backward_kernel, 1),
    "tiles": lambda: in_turn(blackwell.SINGLE, 300, 2),
    "tiles of pairs": lambda: in_turn(blackwell.PAIR, 600, 4),
    "scaled": scaled,
    "attention": lambda: attention(64, 140),
    "odd": lambda: backward(rms_norm_backward_kernel, 1, 9, 5003, 8),
    "ahead": lambda: backward(functools.partial(layer_norm_backward_kernel, b_type=None), 2),
}  # fmt: skip


@functools.cache
def call(name: str, tmp: str):
    torch.manual_seed(0)
    blackwell_names = ("tiles", "tiles of pairs", "attention")
    target = kernels.simulated_target("sm_100a") if name in blackwell_names else contextlib.nullcontext()
    with target, pyptx.replay.keep(1, folder=tmp, host=True) as kept:
        MADE[name]()
    with zipfile.ZipFile(kept.paths[-1]) as archive:
        made = json.loads(archive.read("call.json"))
        arrays = [
            (each["element"], each["shape"], each["strides"], archive.read(f"{index}.bin"))
            for index, each in enumerate(made["inputs"])
        ]
    return made["ptx"], base64.b64decode(made["record"]), arrays, [], made["scalars"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folders = {name: str(tmp_path_factory.mktemp(name)) for name in MADE}
    return lambda name: call(name, folders[name])


def run(text: str, rest, seed: int = 0):
    """The names of what is reported, and the bytes that are left."""
    with pyptx.simulator(check="all", seed=seed, raises=False, budget=1 << 24) as watched:
        left = _core.replay(text, *rest)
    return [f"PTX{report.code}" for report in watched.reports], left


AT_ONCE = "setp.eq.u32 {0}, 0, 0;"  # for a wait: the answer is yes at once
OTHER_PARITY = "{{ .reg .b32 %other; xor.b32 %other, {2}, 1; mbarrier.try_wait.parity.shared.b64 {0}, {1}, %other; }}"
WAIT = r"mbarrier\.try_wait\.parity\.shared\.b64 (%p\d+), (\[[^\]]+\]), (%\w+);"

# Of a kernel: the line (which of those that fit), what stands there instead ({0}: the first group), and who may report it.
MUTANTS = [
    ("cluster", r"fence\.proxy\.async\.shared::cta;", -1, "", "PTX5053"),
    ("cluster", r"wgmma\.fence\.sync\.aligned;", 0, "", "PTX5059"),
    ("cluster", r"wgmma\.commit_group\.sync\.aligned;", 1, "", "PTX5054 PTX5013"),
    ("cluster", r"wgmma\.wait_group\.sync\.aligned 1;", 1, "", "PTX5054 PTX5013"),
    ("cluster", r"wgmma\.wait_group\.sync\.aligned 1;", 1, "wgmma.wait_group.sync.aligned 2;", "PTX5054 PTX5013"),
    ("cluster", r"wgmma\.wait_group\.sync\.aligned 0;", 0, "", "PTX5013 PTX5054"),
    ("cluster", WAIT, 0, AT_ONCE, "PTX5054 PTX5022 PTX5055"),
    ("cluster", WAIT, 1, AT_ONCE, "PTX5012 PTX5022 PTX5054"),
    ("cluster", WAIT, 0, OTHER_PARITY, "PTX5020"),
    ("cluster", WAIT, 1, OTHER_PARITY, "PTX5012 PTX5054 PTX5022 PTX5020"),
    ("cluster", r"mbarrier\.init\.shared::cta\.b64 (\[.*\]), 16;", 0, "mbarrier.init.shared::cta.b64 {0}, 17;", "PTX5020"),
    ("cluster", r"mbarrier\.init\.shared::cta\.b64 (\[.*\]), 1;", 0, "mbarrier.init.shared::cta.b64 {0}, 2;", "PTX5020"),
    ("cluster", r"mbarrier\.init\.shared::cta\.b64 (\[.*\]), 1;", 0, "", "PTX5022"),
    ("cluster", r"(mbarrier\.arrive\.expect_tx.*), 32768;", 0, "{0}, 32752;", "PTX5020"),
    ("cluster", r"(mbarrier\.arrive\.expect_tx.*), 32768;", 0, "{0}, 32784;", "PTX5020"),
    ("cluster", r"mbarrier\.arrive\.expect_tx.*;", 0, "", "PTX5020 PTX5022"),
    ("cluster", r"cp\.async\.bulk\.tensor.*multicast::cluster (.*), %rs0;", 0, "cp.async.bulk.tensor.2d.shared::cluster.global"
     ".mbarrier::complete_tx::bytes.multicast::cluster {0}, 1;", "PTX5020"),
    ("cluster", r"(@%p\d+) mbarrier\.arrive\.shared::cluster\.b64 _, (\[%r\d+\]);", 0, "", "PTX5020"),
    ("cluster", r"barrier\.cluster\.wait;", 0, "", "PTX5056 PTX5022"),
    ("cluster", r"barrier\.cluster\.wait;", -1, "", "PTX5056 PTX5022"),
    ("cluster", r"barrier\.cluster\.arrive;", 0, "", "PTX5022"),
    ("cluster", r"cp\.async\.bulk\.wait_group 0;", 0, "", "PTX5054"),
    ("cluster", r"cp\.async\.bulk\.commit_group;", -1, "", "PTX5054"),
    ("cluster", r"stmatrix\.sync\.aligned\.m8n8\.x4\.shared::cta\.b16 \[(%r\d+)\], (.*);", -1,
     "stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [{0}+2], {1};", "PTX5011"),
    ("warpgroup", r"mbarrier\.init\.shared::cta\.b64 (\[.*\]), 4;", 0, "mbarrier.init.shared::cta.b64 {0}, 3;", "PTX5054 PTX5055 PTX5022"),
    ("warpgroup", r"bar\.sync (%r\d+), 128;", -1, "", "PTX5050 PTX5053 PTX5054"),
    ("warpgroup", r"bar\.sync (%r\d+), 128;", -1, "bar.sync {0}, 160;", "PTX5020"),
    ("warpgroup", r"bar\.sync (%r\d+), 128;", -1, "bar.sync {0}, 96;", "PTX5022 PTX5050 PTX5053 PTX5020 PTX5012"),
    ("warpgroup", r"bar\.sync (%r\d+), 128;", -1, "bar.arrive {0}, 128;", "PTX5050 PTX5053 PTX5054"),
    ("stream", r"bar\.sync 0;", 0, "", "PTX5022 PTX5050"),
    ("stream", r"bar\.sync 1, 128;", 0, "", "PTX5050 PTX5012"),
    ("stream", r"mbarrier\.arrive\.expect_tx(.*);", 0, "mbarrier.arrive.expect_tx{0}; mbarrier.arrive.expect_tx{0};", "PTX5022 PTX5020"),
    ("mma", r"cp\.async\.wait_group 1;", 0, "cp.async.wait_group 2;", "PTX5054 PTX5012"),
    ("mma", r"cp\.async\.wait_group 1;", 0, "", "PTX5054 PTX5012"),
    ("mma", r"bar\.sync 0;", 0, "", "PTX5050 PTX5054 PTX5012"),
    ("pair", r"tcgen05\.fence::after_thread_sync;", 2, "", "PTX5058"),
    ("pair", r"tcgen05\.commit\.cta_group::2.*;", 0, "", "PTX5020"),
    ("pair", r"tcgen05\.commit\.cta_group::2.*;", -1, "", "PTX5020"),
    ("pair", r"mov\.u16 (%rs\d+), 3;", 0, "mov.u16 {0}, 1;", "PTX5020"),
    ("pair", r"tcgen05\.dealloc(.*);", 0, "", "PTX5010"),
    ("pair", r"tcgen05\.dealloc(.*);", 0, "tcgen05.dealloc{0}; tcgen05.dealloc{0};", "PTX5010"),
    ("pair", r"tcgen05\.dealloc(.*), 128;", 0, "tcgen05.dealloc{0}, 64;", "PTX5010"),
    ("pair", r"tcgen05\.alloc.*;", 0, "", "PTX5012"),
    ("pair", r"or\.b64 (%rd\d+), (%rd\d+), 4611756662049538048;", 0, "or.b64 {0}, {1}, 2305913652845690880;", ""),
    ("pair", r"barrier\.cluster\.wait;", 0, "", "PTX5012 PTX5022 PTX5050 PTX5056"),
    ("rows", r"bar\.sync (%r\d+), 64;", 0, "", "PTX5050 PTX5012"),
    ("rows", r"bar\.sync 0;", -1, "", "PTX5050 PTX5012"),  # before the sums of the CTA's rows are read
    ("odd", r"bar\.sync 0;", -1, "", "PTX5050 PTX5012"),  # before the sums are stored by lines
    ("odd", r"bar\.sync 0;", -2, "", "PTX5062 PTX5050"),  # before they take the place of rows
    ("ahead", r"bar\.sync 0;", -1, "", "PTX5050 PTX5012"),
    ("ahead", r"bar\.warp\.sync (.*);", -1, "", "PTX5062"),  # before a warp's message takes the place of what its lanes have read
    ("ahead", WAIT, 0, AT_ONCE, "PTX5050 PTX5012"),
]  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_the_kernels_themselves_are_clean(name, kept):
    text, *rest = kept(name)
    assert [run(text, rest, seed)[0] for seed in (0, 3)] == [[], []]


def mutated(text: str, pattern: str, which: int, instead: str) -> str:
    found = [m for m in re.finditer(rf"^\s*(@!?%\w+ )?(?:{pattern})$", text, re.M) if m]
    one = found[which]
    guard = one.group(1) or ""
    return text[: one.start()] + (guard if instead else "") + instead.format(*one.groups()[1:]) + text[one.end() :]


@pytest.mark.parametrize(
    ("name", "pattern", "which", "instead", "codes"), MUTANTS, ids=[f"{m[0]}-{i}" for i, m in enumerate(MUTANTS)]
)
def test_a_mistake_is_reported(name, pattern, which, instead, codes, kept):
    text, *rest = kept(name)
    said, left = run(mutated(text, pattern, which, instead), rest)
    if codes:
        assert said and said[0] in codes.split(), said
    else:  # nothing is out of order: the numbers are wrong, as they would be on a GPU
        assert said or left != run(text, rest)[1]


SYNCHRONISES = re.compile(
    r"mbarrier\.|fence|tcgen05\.(alloc|dealloc|relinquish|commit|wait|cp|fence)|bar\.|barrier|cp\.async|griddepcontrol"
)
# Kinds of statements of which some may go, or are answered at once, and why.
RELIES_ON_NOTHING = {
    "fence.mbarrier_init.release.cluster": "missing_init_fence, on request; the barrier behind it releases for all but the copies",
    "tcgen05.relinquish_alloc_permit": "nobody else allocates",
    "tcgen05.fence::before_thread_sync": "in front of the barriers beside alloc and dealloc, which are synchronous",
    "tcgen05.fence::after_thread_sync": "there as well; and behind copies, or where another stands behind the next wait",
    "tcgen05.wait::ld": "the next one waits for this load, too",
    "tcgen05.wait::st": "the next one waits for this store, too",
    "griddepcontrol": "no kernel is ahead, or behind",
    "mbarrier.try_wait": "of products that are in one pipe",
}


@pytest.mark.parametrize("name", ["tiles", "tiles of pairs", "scaled", "attention", "pair"])
def test_each_statement_of_a_kernel_for_blackwell_is_missed(name, kept):
    text, *rest = kept(name)
    _, right = run(text, rest)
    lines, silent, missed = text.split("\n"), set(), set()
    for i, line in enumerate(lines):
        statement = line.split("@")[-1].split(maxsplit=1)[-1] if line.strip().startswith("@") else line.strip()
        if not SYNCHRONISES.match(statement):
            continue
        wait = re.search(r"try_wait\S* (%p\d+),", statement)
        instead = f"setp.eq.u32 {wait[1]}, 0, 0;" if wait else ""
        said, left = run("\n".join([*lines[:i], instead, *lines[i + 1 :]]), rest)
        (missed if said or left != right else silent).add(statement)
    unexpected = {each for each in silent if not each.startswith(tuple(RELIES_ON_NOTHING))}
    assert not unexpected
    of_kinds = {kind for kind in RELIES_ON_NOTHING if any(each.startswith(kind) for each in missed)}
    assert {"tcgen05.wait::ld", "tcgen05.fence::after_thread_sync", "mbarrier.try_wait"} <= of_kinds
