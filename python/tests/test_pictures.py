"""Pictures: their numbers are those of the manual's tables and of simulated runs, and the files are sound."""

from __future__ import annotations

import functools
import importlib.util
import json
import operator
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import pyptx
from pyptx import Layout, Tile, kernel, pictures, ptx, reg, smem
from pyptx.__main__ import main
from pyptx.types import bf16, f32, u32

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"


def drawn(picture: pictures.Picture) -> ElementTree.Element:
    """The drawing as XML; it needs nothing from elsewhere."""
    root = ElementTree.fromstring(picture.svg)
    assert root.tag == f"{SVG}svg" and float(root.get("width")) > 100
    assert not re.search(r"href|src=|url\(|@import|<script", picture.svg)
    return root


def texts(picture: pictures.Picture) -> list[str]:
    return [each.text for each in drawn(picture).iter(f"{SVG}text")]


# ---- layouts: the tables of the manual, 5.5.7

STRAIGHT = [0, 1, 2, 3, 4, 5, 6, 7]
TABLES = {
    "NONE": [STRAIGHT],
    "32B": [STRAIGHT, [1, 0, 3, 2, 5, 4, 7, 6]],
    "64B": [STRAIGHT, [1, 0, 3, 2, 5, 4, 7, 6], [2, 3, 0, 1, 6, 7, 4, 5], [3, 2, 1, 0, 7, 6, 5, 4]],
    "128B": [
        *(STRAIGHT, [1, 0, 3, 2, 5, 4, 7, 6], [2, 3, 0, 1, 6, 7, 4, 5], [3, 2, 1, 0, 7, 6, 5, 4]),
        *([4, 5, 6, 7, 0, 1, 2, 3], [5, 4, 7, 6, 1, 0, 3, 2], [6, 7, 4, 5, 2, 3, 0, 1], [7, 6, 5, 4, 3, 2, 1, 0]),
    ],
    "128B_ATOM_32B": [STRAIGHT, [2, 3, 0, 1, 6, 7, 4, 5], [4, 5, 6, 7, 0, 1, 2, 3], [6, 7, 4, 5, 2, 3, 0, 1]],
    "128B_ATOM_64B": [STRAIGHT, [4, 5, 6, 7, 0, 1, 2, 3]],
}


@pytest.mark.parametrize("name", TABLES)
def test_patterns_are_the_manuals(name):
    table = TABLES[name]
    if name in ("32B", "128B_ATOM_32B", "128B_ATOM_64B"):  # where a pattern is repeated line by line, or two lines each
        assert [row for row in table if row in pictures.pattern(name)] == table
    else:
        assert pictures.pattern(name, 8) == (table * 8)[:8]
    assert all(sorted(row) == STRAIGHT for row in pictures.pattern(name))
    shown = texts(pictures.swizzle(name))
    assert [int(text) for text in shown if text in "01234567" and text] == functools.reduce(
        operator.iadd, pictures.pattern(name), []
    )


def test_the_flip_exchanges_8_bytes():
    rows = pictures.pattern("128B_ATOM_32B_FLIP_8B", 2)
    assert rows[0] == list(range(16)) and rows[1][:4] == [5, 4, 7, 6]


def test_a_tile_lies_as_its_copy_puts_it():
    """A box that a kernel copies, and shared memory as it then is."""
    side = Tile(16, 32, bf16, tma_swizzle="64B", tma_box=(16, 32))

    @kernel(in_specs=(side,), out_specs=(Tile(16, 32, bf16),), grid=(1, 1, 1), block=(32, 1, 1), arch="sm_90a")
    def as_it_lies(X, Y):
        tile, bar = smem.alloc(bf16, (16, 32), align=1024), smem.mbarrier(1)
        (py,) = ptx.global_ptrs(Y)
        t = reg.from_(ptx.special.tid.x(), u32)
        with ptx.if_(t == 0):
            ptx.mbarrier.init(bar, 1)
            ptx.fence.proxy_async_shared_cta()
            ptx.mbarrier.arrive_expect_tx(bar, 1024)
            ptx.tensor_copy.load(ptx.addr(tile), X.tma_desc(), (0, 0), bar)
        ptx.bar.sync(0)
        ptx.mbarrier.wait(bar, 0)
        for at in range(0, 1024, 128):
            v = smem.load(u32, ptx.addr(tile, t * 4 + at))
            ptx.inst.st.global_.u32(ptx.addr(py + t * 4, at), v)
        ptx.ret()

    torch = pytest.importorskip("torch")
    x = torch.arange(512, dtype=torch.int16).view(torch.bfloat16).reshape(16, 32)
    lies = as_it_lies(x).view(torch.int16).flatten().tolist()
    told = re.findall(r"<title>row (\d+), columns (\d+) to \d+: \+(\d+)</title>", pictures.tile(side).svg)
    assert len(told) == 64
    for row, column, at in told:
        assert lies[int(at) // 2] == int(row) * 32 + int(column)


def test_tiles_that_have_no_picture():
    with pytest.raises(ValueError, match="needs a number for M"):
        pictures.tile(Tile("M", 64, bf16))
    with pytest.raises(ValueError, match="more than the 64 of its swizzle"):
        pictures.tile(Tile(8, 64, bf16, tma_swizzle="64B"))
    with pytest.raises(ValueError, match="needs a multiple of 16"):
        pictures.tile(Tile(8, 3, f32))
    with pytest.raises(TypeError, match="a Tile or a Layout"):
        pictures.tile("128B")
    with pytest.raises(ValueError, match="legal: NONE, 32B"):
        pictures.swizzle("12B")


def test_notebooks_show_tiles():
    assert pictures.tile(Layout.TMA_64B).svg == pictures.swizzle("64B").svg
    assert "<svg" in Tile("M", "K", bf16, Layout.TMA_128B, tma_box=(64, 64))._repr_html_()
    assert Tile("M", f32)._repr_html_() == "<code>Tile(&#x27;M&#x27;, f32)</code>"


# ---- fragments: the formulas of the manual, 9.7.14.5 and 9.7.15.5


def m16n8k16_a(lane, i):
    return lane // 4 + (0 if i in (0, 1, 4, 5) else 8), lane % 4 * 2 + i % 2 + (0 if i < 4 else 8)


FORMULAS = {
    (MMA, "a"): m16n8k16_a,
    (MMA, "b"): lambda lane, i: (lane % 4 * 2 + i % 2 + (0 if i < 2 else 8), lane // 4),
    (MMA, "c"): lambda lane, i: (lane // 4 + (0 if i < 2 else 8), lane % 4 * 2 + i % 2),
    (MMA, "d"): lambda lane, i: (lane // 4 + (0 if i < 2 else 8), lane % 4 * 2 + i % 2),
    ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "a"): lambda lane, i: (
        lane // 4 + (0 if i in (0, 2) else 8),
        lane % 4 + (0 if i < 2 else 4),
    ),
    ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "a"): lambda lane, i: (
        lane // 4 + (0 if i < 4 or 8 <= i < 12 else 8),
        lane % 4 * 4 + i % 4 + (0 if i < 8 else 16),
    ),
    ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "c"): lambda lane, i: (lane // 4, lane % 4 * 2 + i),
    ("wgmma.mma_async.sync.aligned.m64n24k16.f32.bf16.bf16", "d"): lambda thread, i: (
        thread // 32 * 16 + thread % 32 // 4 + (8 if i % 4 >= 2 else 0),
        i // 4 * 8 + thread % 4 * 2 + i % 2,
    ),
    ("wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16", "a"): lambda thread, i: (
        thread // 32 * 16 + m16n8k16_a(thread % 32, i)[0],
        m16n8k16_a(thread % 32, i)[1],
    ),
    ("ldmatrix.sync.aligned.m8n8.x1.shared.b16", "matrix"): lambda lane, i: (lane // 4, lane % 4 * 2 + i),
    ("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16", "matrix"): lambda lane, i: (lane % 4 * 2 + i, lane // 4),
    ("tcgen05.ld.sync.aligned.32x32b.x4.b32", "lanes"): lambda lane, i: (lane, i),
    ("tcgen05.ld.sync.aligned.16x256b.x1.b32", "lanes"): lambda lane, i: (lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2),
}


@pytest.mark.parametrize(("mnemonic", "name"), FORMULAS)
def test_fragments_are_the_manuals(mnemonic, name):
    found = pictures.fragment(mnemonic, name)
    formula = FORMULAS[mnemonic, name]
    for thread, places in enumerate(found.at):
        assert places == [(0, *formula(thread, i)) for i in range(len(places))]


@pytest.mark.parametrize(
    "mnemonic",
    [
        MMA,
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m8n8k4.col.row.f16.f16.f16.f16",
        "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32",
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc",
        "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32",
        "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
        "wmma.load.c.sync.aligned.row.m16n16k16.f32",
        "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8",
        "wgmma.mma_async.sp.sync.aligned.m64n16k32.f32.f16.f16",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
        "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8",
        "stmatrix.sync.aligned.m16n8.x2.trans.shared.b8",
        "movmatrix.sync.aligned.m8n8.trans.b16",
        *(
            f"tcgen05.ld.sync.aligned.{shape}.x8.b32"
            for shape in ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")
        ),
        "tcgen05.ld.sync.aligned.32x32b.x4.pack::16b.b32",
        "tcgen05.st.sync.aligned.16x64b.x2.unpack::16b.b32",
    ],
)
def test_each_element_is_held(mnemonic):
    """Once; A and B of wmma, whose layout the manual leaves open, may be held twice."""
    for found in pictures.fragments(mnemonic):
        held = [place for places in found.at for place in places if place is not None]
        whole = found.matrices * found.rows * found.columns
        assert len(set(held)) == whole
        assert len(held) == whole or (mnemonic.startswith("wmma") and found.name in "ab" and len(held) == 2 * whole)
        drawn(found.picture(mnemonic, found.matrices - 1))


def test_who_holds_an_element():
    a = pictures.fragment(MMA, "a")
    assert (a.rows, a.columns, a.bits, a.registers, a.together) == (16, 16, 16, 4, 2)
    assert a.holders(8, 1) == [pictures.Holder(0, 1, 1)]
    shown = texts(a.picture(MMA))
    assert shown.count("T0") == 4 and shown.count("r3") == 32
    large = pictures.fragment("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", "d").picture()
    assert "64 x 256 of 32 bits; thread, register; the first 32 x 32" in large.svg


def test_what_has_no_fragments():
    with pytest.raises(ValueError, match="no matrices in the registers"):
        pictures.fragments("add.f32")
    with pytest.raises(ValueError, match="m17n8k16"):
        pictures.fragments("mma.sync.aligned.m17n8k16.row.col.f32.bf16.bf16.f32")
    with pytest.raises(ValueError, match="no matrix 'e' in registers; it has a, b, c, d"):
        pictures.fragment(MMA, "e")
    with pytest.raises(ValueError, match="1 matrices"):
        pictures.fragment(MMA, "a").picture(matrix=1)


# ---- runs


@kernel(in_specs=(Tile(64, f32),), out_specs=(Tile(64, f32),), grid=(1, 1, 1), block=(64, 1, 1))
def fused(X, Y, *, stride=1):
    px, py = ptx.global_ptrs(X, Y)
    t = reg.from_(ptx.special.tid.x(), u32)
    tile = smem.alloc(f32, 64 * stride)
    v = reg.scalar(f32)
    ptx.inst.ld.global_.f32(v, ptx.addr(px + t * 4))
    ptx.inst.fma.rn.f32(v, v, v, v)
    ptx.inst.st.shared.f32(ptx.addr(tile, t * (4 * stride)), v)
    ptx.bar.sync(0)
    ptx.inst.st.global_.f32(ptx.addr(py + t * 4), v)
    ptx.ret()


def run_of(stride: int = 1):
    with pyptx.simulator() as run:
        fused(np.ones(64, dtype=np.float32), stride=stride)
    return run


def test_lines():
    run = run_of(stride=32)
    store = next(one for one in run.lines() if one.conflicts)
    assert (store.wavefronts, store.conflicts) == (64, 62)
    picture = pictures.lines(run.lines())
    assert f"{store.conflicts} of {store.wavefronts}" in picture.svg
    assert any("ptx.inst.st.shared.f32" in text for text in texts(picture))
    assert "<svg" in run.lines()._repr_html_() and run._repr_html_().count("<svg") == 2
    assert not re.search(r'<rect [^>]*class="bad"', pictures.lines(run_of().lines()).svg)
    drawn(pictures.lines([]))


def test_timeline(tmp_path):
    run = run_of()
    picture = pictures.timeline(run.trace)
    assert {"warp 0", "warp 1"} <= set(texts(picture)) and "wait: bar.sync" in picture.svg
    run.trace.save(tmp_path / "t.json")
    assert pictures.timeline(tmp_path / "t.json").svg == pictures.timeline(run.trace.json()).svg == picture.svg
    part = pictures.timeline(run.trace, begin=2, end=6)
    assert len(drawn(part).findall(f"{SVG}rect")) < len(drawn(picture).findall(f"{SVG}rect"))
    with pytest.raises(ValueError, match=r"no launch 0, CTA \(1,0,0\); it has 1"):
        pictures.timeline(run.trace, cta=(1, 0, 0))


def test_roofline_of_threads():
    found = pictures.roofline(run_of(), fused.specialise())
    assert (found.flops, found.matrix_flops, found.bytes) == (128, 0, 512)
    assert found.intensity == 0.25 and found.attainable == 0.25 * 4.8 and found.reached is None
    assert "0.25 flops a byte" in found.picture().svg and "<svg" in found._repr_html_()
    timed = pictures.roofline(run_of(), fused.specialise(), device=pictures.Device("mine", 10, 1, 1), seconds=1e-9)
    assert timed.reached == pytest.approx(0.128) and timed.roof == 1
    drawn(timed.picture())
    with pytest.raises(ValueError, match="A100, H100, H200"):
        pictures.roofline(run_of(), fused.specialise(), device="H300")


def tool(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("pair", [False, True])
def test_roofline_of_tensor_memory(pair):
    """The shape of tcgen05.mma is in its instruction descriptor; of a pair of CTAs one thread asks for the product of both."""
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    spec = importlib.util.spec_from_file_location("blackwell_gemm", ROOT / "examples" / "blackwell_gemm.py")
    blackwell = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(blackwell)
    m, n, k = 256, 128, 128
    gemm = blackwell.build_gemm(m, n, k, pair)
    with pyptx.simulator() as run:
        gemm(torch.ones(m, k).bfloat16(), torch.ones(n, k).bfloat16())
    assert pictures.roofline(run, gemm.specialise()).matrix_flops == 2 * m * n * k


@pytest.mark.parametrize(
    "mnemonic, more, k",
    [
        ("tcgen05.mma.cta_group::1.kind::f16", "", 16),
        ("tcgen05.mma.cta_group::1.kind::tf32", "", 8),
        ("tcgen05.mma.cta_group::1.kind::i8", "", 32),
        ("tcgen05.mma.cta_group::1.kind::f8f6f4", "", 32),
        ("tcgen05.mma.sp.cta_group::1.kind::f16", "[x], ", 32),
    ],
)
def test_flops_of_tensor_memory(mnemonic, more, k):
    from pyptx.tools import stats

    def flops(setting: str) -> int:
        module = pyptx.parse(
            f".version 8.6\n.target sm_100a\n.entry k() {{ .reg .b32 x, %i; .reg .b64 a, b; .reg .pred p; {setting} "
            f"{mnemonic} [x], a, b, {more}%i, p; ret; }}"
        )
        return stats.flops_of_matrices(module.find("tcgen05.mma")[0])

    descriptor = 128 // 16 << 24 | 64 // 8 << 17 | 1 << 4
    assert flops(f"mov.b32 %i, {descriptor};") == 2 * 128 * 64 * k
    assert flops(f"mov.b32 %i, {descriptor}; add.u32 %i, %i, 1;") == 0  # it is no constant


def test_roofline_of_a_product_and_the_pictures_of_the_page():
    """Flops of the product, and the bytes of A, B and C, each once: tensor copies count."""
    pytest.importorskip("torch")
    pages = tool("picture_pages")
    made = pages.drawn()
    flops, moved = 2 * 64 * 128 * 512, (64 * 512 + 128 * 512) * 2 + 64 * 128 * 4
    assert f"{flops:.3g} flops, {moved:.3g} bytes" in made["roofline.svg"]
    stale = [name for name, svg in made.items() if (pages.FOLDER / name).read_text() != svg]
    assert not stale, "run tools/picture_pages.py"
    pages_of = (ROOT / "docs" / "pictures.md", *(ROOT / "docs" / "performance").glob("*.md"))
    text = "".join(path.read_text() for path in pages_of)
    shown = set(re.findall(r"\((?:\.\./)?pictures/([\w-]+\.svg)\)", text))
    assert shown == set(made) == {path.name for path in pages.FOLDER.iterdir()}
    assert all(len(svg) < 100_000 for svg in made.values())


# ---- the command


def test_show(tmp_path, capsys):
    assert main(["show", "layout", "64b"]) == 0
    assert capsys.readouterr().out == pictures.swizzle("64B").svg
    out = tmp_path / "a.html"
    assert main(["show", "layout", "64B", "--box", "16,32", "-o", str(out)]) == 0
    assert out.read_text().startswith("<!doctype html>")
    out = tmp_path / "a.svg"
    assert main(["show", "fragment", MMA, "--matrix", "b", "-o", str(out)]) == 0
    assert out.read_text() == pictures.fragment(MMA, "b").picture(MMA).svg


def test_show_a_run(tmp_path, capsys):
    text = tmp_path / "k.ptx"
    text.write_text(fused.ptx())
    trace, told = tmp_path / "trace.json", tmp_path / "run.json"
    arguments = ["run", str(text), "--block", "64", "--arg", "in:" + "00" * 256, "--arg", "out:256"]
    assert main([*arguments, "--trace", str(trace), "--json"]) == 0
    told.write_text(capsys.readouterr().out)
    assert main(["show", "timeline", str(trace), "--cta", "0"]) == 0 and "warp 1" in capsys.readouterr().out
    assert main(["show", "lines", str(told)]) == 0 and "fma.rn.f32" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["layout", "7B"], 1, "legal: NONE"),
        (["layout", "64B", "--box", "8,64"], 1, "more than the 64"),
        (["layout", "64B", "--box", "8,64", "--type", "f99"], 1, "f99"),
        (["fragment", "add.f32"], 1, "no matrices"),
        (["timeline", "{file}"], 1, "not JSON with 'traceEvents'"),
        (["lines", "{file}"], 1, "not JSON with 'lines'"),
        (["lines", "{odd}"], 1, "not those of `pyptx run --json`"),
        (["timeline", "missing.json"], 2, "No such file"),
        (["layout", "64B", "--box", "8,x"], 2, "not a list of numbers"),
    ],
)
def test_show_refuses(arguments, status, said, tmp_path, capsys):
    file, odd = tmp_path / "a.json", tmp_path / "odd.json"
    file.write_text("[]")
    odd.write_text(json.dumps({"lines": [{"file": "a"}]}))
    try:
        got = main(["show", *(each.format(file=file, odd=odd) for each in arguments)])
    except SystemExit as end:
        got = end.code
    assert got == status and said in capsys.readouterr().err
