"""The guide's matrix products as a newcomer varies them: each variation gives the right result, or an error that names the mistake."""

import functools
import pathlib
import re

import pytest

from pyptx import errors

pytest.importorskip("torch", reason="skipped: no torch")
pytest.importorskip("numpy", reason="skipped: no numpy")

GUIDE = pathlib.Path(__file__).parents[2] / "docs/guide"
WARP, TILE, GEMM = ("08-wgmma.md", 0, 1), ("08-wgmma.md", 2, 3), ("09-gemm.md", 0, 2)
ONE_SIZE = ("((64, 128, 64), (256, 384, 320))", "((128, 128, 320),)")
SIZES = "M = N = K = 64"
PARTS = "BM, BN, BK, STAGES = 64, 128, 64, 4"


@functools.cache
def program(chapter: str, *numbers: int) -> str:
    blocks = re.findall(r"```python\n(.*?)```", (GUIDE / chapter).read_text(), re.S)
    lines = "\n".join(blocks[i] for i in numbers).splitlines()
    return "\n".join(line for line in lines if not line.startswith("print("))


def run(which, *changes):
    text = program(*which)
    for old, new in changes:
        assert old in text, "the guide has changed"
        text = text.replace(old, new)
    exec(compile(text, which[0], "exec"), {"__name__": "varied"})


RIGHT = [
    (WARP,),
    (WARP, ("sm_80", "sm_90")),
    (WARP, ("ldmatrix(list(a)", "ldmatrix(a"), ("ldmatrix(list(b)", "ldmatrix(b")),
    (WARP, ("reg.from_(ptx.special.tid.x(), u32)", "ptx.special.tid.x()")),
    (TILE, (SIZES, "M = K = 64; N = 32"), ("Tile(K, N, bf16, Layout.TMA_128B", "Tile(K, N, bf16, Layout.TMA_64B")),
    (TILE, ("smem.mbarrier(1)[0]", "smem.mbarrier(1)")),
    (TILE, ("load(ptx.addr(a), map_a", "load(a, map_a")),
    (TILE, ("d=acc", "d=list(acc)")),
    (GEMM, ONE_SIZE, (PARTS, "BM, BN, BK, STAGES = 64, 128, 64, 1")),
    (GEMM, ONE_SIZE, (PARTS, "BM, BN, BK, STAGES = 64, 64, 64, 9")),
    (GEMM, ONE_SIZE, (PARTS, "BM, BN, BK, STAGES = 64, 128, 32, 4"), ("Layout.TMA_128B", "Layout.TMA_64B")),
    (GEMM, ("((64, 128, 64), (256, 384, 320))", "((64, 128, 8), (64, 128, 96))")),
]


@pytest.mark.parametrize("varied", RIGHT, ids=range(len(RIGHT)))
def test_what_is_right(varied):
    run(*varied)


AUTHORING, LAUNCH, SIMULATION = errors.AuthoringError, errors.LaunchError, errors.SimulationError
MAP = ("A.tma_desc(), B.tma_desc()", "A, B")
MISTAKES = [
    # A warp's product.
    (WARP, ("    for each in d:\n        ptx.inst.mov.f32(each, 0.0)\n", ""), SIMULATION, "reads `%f0`, which it never wrote"),
    (WARP, ("(16, 8, 16), f32", "(16, 8, 32), f32"), AUTHORING, "m16n8k32.* is not complete"),
    (WARP, ("(16, 8, 16), f32", "(16, 16, 16), f32"), AUTHORING, "did you mean `m16n8k16`"),
    (WARP, ("reg.array(f32, 4)", "reg.array(f32, 2)"), AUTHORING, r"08-wgmma.md:\d+: .* must be a vector of 4 .f32 registers"),
    (WARP, ("    ptx.mma.sync(", "    with ptx.if_(lane < 16):\n      ptx.mma.sync("), SIMULATION, "all threads of a warp execute it together"),
    (WARP, ("ptx.addr(pa + lane * 16)", "ptx.addr(A, lane * 16)"), AUTHORING, r"A is a tensor, .*`p, = ptx\.global_ptrs\(A\)`"),
    (WARP, ("ptx.addr(pa + lane * 16)", "A"), AUTHORING, r"A is a tensor, .*`p, = ptx\.global_ptrs\(A\)`"),
    (WARP, ("ptx.bar.sync(0)", "ptx.bar.sync"), AUTHORING, "alone writes nothing"),
    (WARP, ("block=(32,", "block=(64,"), SIMULATION, "past the end of `A`"),
    # One tile of wgmma.
    (TILE, (SIZES, "M = K = 64; N = 128"), LAUNCH, "a 128-byte swizzle needs an inner box of at most 128 bytes"),
    (TILE, (SIZES, "M = K = 64; N = 32"), AUTHORING, "`smem_1`.* has the swizzle 64B.* map of B copies with 128B: Layout.TMA_64B"),
    (TILE, (SIZES, "M = N = 64; K = 32"), AUTHORING, r"08-wgmma.md:\d+: PTX3003 `smem_0`.* 64B.* map of A .* 128B"),
    (TILE, ("Tile(M, K, bf16, Layout.TMA_128B, tma_box=(M, K))", "Tile(M, K, bf16)"), AUTHORING, "copies with NONE: Layout.TMA_128B"),
    (TILE, MAP, AUTHORING, r"08-wgmma.md:\d+: PTX3001 A is a tensor, .* a tensor copy its map, `A\.tma_desc\(\)`"),
    (TILE, ("A.tma_desc(), B.tma_desc()", "ptx.global_ptrs(A, B)"), LAUNCH, "copies by a tensor map that is none"),
    (TILE, ("trans_b=1, ", ""), AUTHORING, 'major="MN", and trans_b = 0'),
    (TILE, ("trans_b=1", "trans_b=1, trans_a=1"), AUTHORING, 'major="K", and trans_a = 1'),
    (TILE, ("import bf16", "import bf16, f16"), ("dtype_a=bf16, dtype_b=bf16", "dtype_a=f16, dtype_b=f16"), AUTHORING, "allocated of bf16, and dtype_a is f16"),
    (TILE, ("a_k_offset=k * 2", "a_k_offset=k"), AUTHORING, "a_k_offset is in bytes, a multiple of 32"),
    (TILE, ("a_k_offset=k * 2", "a_k_offset=k * 8"), AUTHORING, r"a_k_offset = 128 begins in row 1, so the product's 64 rows end behind it"),
    (TILE, ("b_k_offset=k * N * 2", "b_k_offset=k * 2"), AUTHORING, "b_k_offset is in bytes, a multiple of 1024"),
    (TILE, ("map_a, (0, 0)", "map_a, (0.0, 0)"), AUTHORING, "`coord` is a list of integers and 32-bit registers"),
    (TILE, ("shape=(64, N, 16)", "shape=(64, 60, 16)"), AUTHORING, "did you mean `m64n56k16`"),
    (TILE, ("shape=(64, N, 16)", "shape=(64, 512, 16)"), AUTHORING, "did you mean `m64n256k16`"),
    (TILE, ("M * N // 128)", "64)"), AUTHORING, r"the vector of 64 registers `\{%f0, %f1, \.\.\., %f63\}`; it must be a vector of 32"),
    (TILE, ("wait(bar, 0)", "wait(bar, 1)"), SIMULATION, "reads A at `smem_0`, which was never written"),
    (TILE, ("wait(bar, 0)", "wait(bar, 2)"), AUTHORING, "it must be in 0..1"),
    (TILE, ("ptx.mbarrier.init(bar, 1)", "ptx.mbarrier.init(bar, 2)"), SIMULATION, "1 of 2 arrivals, 16384 of 16384 bytes"),
    (TILE, ("(M * K + K * N) * 2", "(M * K + K * N) * 4"), SIMULATION, "16384 of 32768 bytes"),
    (TILE, ("    ptx.wgmma.commit_group()\n", "    ptx.inst.add.f32(acc[0], acc[0], 1.0)\n    ptx.wgmma.commit_group()\n"), SIMULATION, r"`add\.f32`.* without wgmma\.wait_group"),
    (TILE, ("    ptx.wgmma.wait_group(0)", "    #"), SIMULATION, r"`st\.global.* without wgmma\.wait_group"),
    (TILE, ("block=(128,", "block=(64,"), SIMULATION, "has not 128 threads"),
    (TILE, ("sm_90a", "sm_90"), AUTHORING, "needs PTX 8.0 and sm_90a, the target is sm_90"),
    # A ring of them.
    (GEMM, ONE_SIZE, (PARTS, "BM, BN, BK, STAGES = 64, 128, 32, 4"), AUTHORING, "`smem_0`.* 64B.* map of A copies with 128B"),
    (GEMM, ONE_SIZE, (PARTS, "BM, BN, BK, STAGES = 64, 128, 64, 10"), LAUNCH, "a block may have 232448"),
    (GEMM, ONE_SIZE, (PARTS, "BM, BN, BK, STAGES = 128, 128, 64, 3"), AUTHORING, "did you mean `m64n128k16`"),
    (GEMM, ONE_SIZE, ("parity ^ 1)", "parity)"), SIMULATION, "nobody has ever arrived"),
    (GEMM, ONE_SIZE, ("init(empty[stage], 4)", "init(empty[stage], 5)"), SIMULATION, "no thread of its CTA can go on"),
    (GEMM, ONE_SIZE, ("            ptx.mbarrier.wait(empty[stage], parity ^ 1)\n", ""), SIMULATION, "this phase waits for 0 of 1 more"),
    (GEMM, ONE_SIZE, ("a=a[stage]", "a=a"), AUTHORING, r"`smem_0` has 3 dimensions; `a` is one stage of it: a\[stage\]"),
    (GEMM, ONE_SIZE, ("(STAGES, BM, BK)", "(BM, BK)"), AUTHORING, r"`smem_0` was allocated of two dimensions, and a\[stage\] is a row"),
    (GEMM, ONE_SIZE, ("a_k_offset=step * 32", "a_k_offset=step * 16"), AUTHORING, "a multiple of 32"),
    (GEMM, ONE_SIZE, ("            ptx.wgmma.commit_group()\n", "            ptx.wgmma.commit_group\n"), AUTHORING, "alone writes nothing"),
    (GEMM, ONE_SIZE, MAP, AUTHORING, "a tensor copy its map"),
    (GEMM, ONE_SIZE, ("block=(160,", "block=(128,"), SIMULATION, "nobody has ever arrived"),
    (GEMM, ("((64, 128, 64), (256, 384, 320))", "((100, 128, 64),)"), SIMULATION, "had not written .* bytes of `C`"),
]  # fmt: skip


@pytest.mark.parametrize("row", MISTAKES, ids=range(len(MISTAKES)))
def test_what_is_named(row):
    *varied, kind, message = row
    with pytest.raises(kind, match=message):
        run(*varied)
