"""Draws the pictures of docs/pictures.md, whose kernels are those of the guide, run on the simulator, and those of docs/performance/,
whose numbers are its tables'.

python tools/picture_pages.py [--check]      --check: exit 1 where a picture is not what would be drawn
"""

from __future__ import annotations

import argparse
import linecache
import math
import pathlib
import re
import sys

import torch

import pyptx
from pyptx import Tile, pictures
from pyptx.types import bf16

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
TENSOR = "tcgen05.ld.sync.aligned.16x64b.x2.b32"


def first_block(page: str, name: str, change: tuple[str, str] = ("", "")) -> dict:
    """What the first block of a page of the guide defines, with one text exchanged; `name` is its file in pictures."""
    source = re.search(r"^```python\n(.*?)^```", (ROOT / "docs" / "guide" / page).read_text(), re.S | re.M)[1]
    source = re.sub(r"^print.*\n", "", source, flags=re.M)
    assert change[0] in source
    source = source.replace(*change) if change[0] else source
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict = {"__name__": "guide"}
    exec(compile(source, name, "exec"), scope)
    return scope


def of_transpose() -> pictures.Picture:
    transpose = first_block("03-shared-memory.md", "transpose.py", ("(32, 33)", "(32, 32)"))["transpose"]
    x = torch.rand(64, 64)
    with pyptx.simulator(trace=False) as run:
        transpose(x)
    return pictures.lines(run.lines(), "The transpose of chapter 3 without its pad")


def of_gemm() -> dict[str, pictures.Picture]:
    small_gemm = first_block("09-gemm.md", "gemm.py")["small_gemm"]
    torch.manual_seed(0)
    a, b = torch.randn(64, 512, dtype=torch.bfloat16), torch.randn(128, 512, dtype=torch.bfloat16)
    with pyptx.simulator() as run:
        small_gemm(a, b)
    found = pictures.roofline(run, small_gemm.specialise(M=64, N=128, K=512))
    return {"timeline": pictures.timeline(run.trace), "roofline": found.picture()}


ARMS = {"ours": "good", "cuDNN": "c1", "FA2": "c0", "flex": "c4", "Triton": "c2"}  # columns, and their colours


def of_attention() -> pictures.Picture:
    """The sweep over lengths: a chart a size of heads and mask, a bar a column of the table."""
    text = (ROOT / "docs" / "performance" / "attention.md").read_text()
    first, *lines = re.search(r"^\| head \| mask \| length \| ours .*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M)[
        0
    ].splitlines()
    names = [each.strip() for each in first.strip("|").split("|")]
    columns = {name: names.index(name) for name in ARMS if name in names}
    charts: dict[tuple[int, str], dict[int, list]] = {}
    for line in lines[1:]:
        cells = [each.strip() for each in line.strip("|").split("|")]
        found = [cells[at] for at in columns.values()]
        charts.setdefault((int(cells[0]), cells[1]), {})[int(cells[2])] = [float(each or 0) for each in found]
    top = max(value for chart in charts.values() for row in chart.values() for value in row)
    drawing = pictures.svg.Drawing("Attention on an H200, forward", "TFLOP/s by length, bf16")
    for i, name in enumerate(columns):
        drawing.rect(12 + 90 * i, 48, 12, 12, ARMS[name])
        drawing.text(29 + 90 * i, 58, {"ours": "pyptx", "FA2": "FA 2", "flex": "flex_attention"}.get(name, name))
    place = {each: at for at, each in enumerate(sorted({width for width, _ in charts}))}
    for (width, mask), rows in charts.items():
        _chart(drawing, 40 + 400 * bool(mask), 82 + 172 * place[width], f"heads of {width} {mask}", rows, columns, top)
    return drawing.picture()


def of_rows() -> pictures.Picture:
    """The table of kernels over rows: a line a shape, a bar a kernel, as a part of a copy's speed."""
    text = (ROOT / "docs" / "performance" / "rows.md").read_text()
    first, *lines = re.search(
        r"^\| rows x columns \| rms_norm \| layer_norm \| add_rms_norm .*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M
    )[0].splitlines()
    names = [each.strip() for each in first.strip("|").split("|")][1:]
    drawing = pictures.svg.Drawing(
        "Kernels over rows on an H200", "speed as a part of that of a device copy of as many bytes"
    )
    for i, name in enumerate(names):
        drawing.rect(12 + 84 * i, 48, 12, 12, f"c{i % 6}")
        drawing.text(28 + 84 * i, 58, name)
    shapes = [re.split(r"(?<!\\)\|", line.strip("|")) for line in lines[1:] if ", us" not in line]
    for at, (shape, *cells) in enumerate(shapes):
        left, upper = 40 + 350 * (at % 2), 84 + 112 * (at // 2)
        drawing.text(left, upper, shape.strip())
        for part in (0.5, 1.0):
            drawing.line([(left, upper + 86 - 76 * part), (left + 320, upper + 86 - 76 * part)], "rule-line")
            drawing.text(left - 4, upper + 89 - 76 * part, f"{part}", "faint small", "end")
        for i, (name, cell) in enumerate(zip(names, cells, strict=True)):
            part, torch_time = (float(each) for each in cell.split(r"\|"))
            about = f"{name}, {shape.strip()}: {part} of a copy, {torch_time} of torch's speed"
            drawing.rect(left + 6 + 40 * i, upper + 86 - 76 * part, 34, 76 * part, f"c{i % 6}", about)
    return drawing.picture()


def of_products() -> pictures.Picture:
    """The products of bench/kernels.py: ours and cuBLAS, whose operands are not in L2, under the roof of the device, and the ratios by shape."""
    text = (ROOT / "docs" / "performance" / "products.md").read_text()
    first, *lines = re.search(r"^\| M x N x K \| us \| TFLOP/s \| cuBLAS .*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M)[
        0
    ].splitlines()
    names = [each.strip() for each in first.strip("|").split("|")]
    shapes = {}
    for line in lines[1:]:
        cells = dict(zip(names[:6], (each.strip() for each in line.strip("|").split("|")), strict=False))
        cold = [float(each) for each in line.strip("|").split("|")[6:8]]  # microseconds of ours, cuBLAS' time over that
        shapes[cells["M x N x K"]] = cells, *cold
    device = pictures.DEVICES["H200"]
    drawing = pictures.svg.Drawing(
        "Products of bf16 on an H200", "TFLOP/s by flops a byte, and the time of others over ours by shape"
    )
    left, upper, wide, high = 46, 84, 320, 190
    place = _logarithmic(left, upper + high, wide, high, (0.5, 4096), (1, 2000))
    edge = device.matrix / device.memory
    drawing.line([place(0.5, 0.5 * device.memory), place(edge, device.matrix), place(4096, device.matrix)], "rule-line")
    for x in (1, 16, 256, 4096):
        drawing.text(place(x, 1)[0], upper + high + 14, str(x), "faint small", "middle")
    for y in (1, 10, 100, 1000):
        drawing.text(left - 4, place(0.5, y)[1] + 3, str(y), "faint small", "end")
    drawing.text(left + wide / 2, upper + high + 28, "flops a byte", "faint small", "middle")
    for i, (name, colour) in enumerate(
        (("pyptx", "good"), ("cuBLAS", "c1"), ("the best of cublasLt", "c0"), ("Triton", "c2"))
    ):
        drawing.rect(12 + 130 * i, 48, 12, 12, colour)
        drawing.text(29 + 130 * i, 58, name)
    for shape, (_, us, ratio) in shapes.items():
        m, n, k = map(int, shape.split(" x "))
        work, intensity = 2 * m * n * k / 1e6, m * n * k / (m * n + m * k + n * k)
        for colour, name, speed in (("c1", "cuBLAS", work / (us * ratio)), ("good", "pyptx", work / us)):
            x, y = place(intensity, speed)
            drawing.rect(x - 3, y - 3, 6, 6, colour, f"{name}, {shape}: {speed:.0f} TFLOP/s")
    right = left + wide + 130
    for part in (0.5, 1.0, 1.5, 2.0):
        x = right + 130 * part
        drawing.line([(x, upper - 6), (x, upper + 17 * len(shapes))], "rule-line")
        drawing.text(x, upper + 17 * len(shapes) + 12, f"{part}", "faint small", "middle")
    for at, (shape, (cells, *_)) in enumerate(shapes.items()):
        drawing.text(right - 6, upper + 17 * at + 10, shape, "small", "end")
        for i, (name, colour) in enumerate((("cuBLAS", "c1"), ("the best of cublasLt", "c0"), ("Triton", "c2"))):
            ratio = float(cells[name])
            drawing.rect(
                right, upper + 17 * at + 5 * i, 130 * ratio, 4, colour, f"{shape}: {name} takes {ratio} of our time"
            )
    return drawing.picture()


def _logarithmic(left: float, lower: float, wide: float, high: float, across: tuple, up: tuple):
    """The place of a point whose coordinates lie within these ranges."""

    def part(value: float, ends: tuple) -> float:
        return math.log(value / ends[0]) / math.log(ends[1] / ends[0])

    return lambda x, y: (left + wide * part(x, across), lower - high * part(y, up))


def _chart(drawing, left: float, upper: float, title: str, rows: dict[int, list], columns, top: float):
    high, group = 120, 340 / len(rows)
    drawing.text(left, upper, title)
    for speed in range(0, int(top) + 1, 200):
        y = upper + 10 + high * (1 - speed / top)
        drawing.line([(left, y), (left + 350, y)], "rule-line")
        drawing.text(left - 4, y + 3, str(speed), "faint small", "end")
    bar = (group - 8) / len(columns)
    for at, (length, values) in enumerate(sorted(rows.items())):
        x = left + 6 + at * group
        for i, (name, value) in enumerate(zip(columns, values, strict=True)):
            size = high * value / top
            about = f"{name}, {length}: {value:.0f} TFLOP/s"
            drawing.rect(x + i * bar, upper + 10 + high - size, bar - 1, size, ARMS[name], about)
        drawing.text(x + group / 2 - 4, upper + high + 22, str(length), "faint small", "middle")


def drawn() -> dict[str, str]:
    """Each picture by the name of its file."""
    made = {
        "swizzle-128b": pictures.swizzle("128B"),
        "tile-64b": pictures.tile(Tile(16, 32, bf16, tma_swizzle="64B")),
        "mma-a": pictures.fragment(MMA, "a").picture(MMA),
        "mma-b": pictures.fragment(MMA, "b").picture(MMA),
        "wgmma-d": pictures.fragment(WGMMA, "d").picture(WGMMA),
        "tcgen05-ld": pictures.fragment(TENSOR, "lanes").picture(TENSOR),
        "lines": of_transpose(),
        "attention": of_attention(),
        "rows": of_rows(),
        "products": of_products(),
        **of_gemm(),
    }
    return {f"{name}.svg": picture.svg for name, picture in made.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    made = drawn()
    there = {path.name for path in FOLDER.glob("*.svg")}
    stale = [name for name, svg in made.items() if name not in there or (FOLDER / name).read_text() != svg]
    stale += sorted(there - set(made))
    if parser.parse_args().check:
        print(
            "\n".join(f"docs/pictures/{name} is not what is drawn: run tools/picture_pages.py" for name in stale),
            end="",
        )
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for name in stale:
        if name in made:
            (FOLDER / name).write_text(made[name])
        else:
            (FOLDER / name).unlink()
    print(f"{len(made)} pictures, {len(stale)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
