"""Draws the pictures of docs/pictures.md.  Kernels are those of the guide, run on the simulator.

python tools/picture_pages.py [--check]      --check: exit 1 where a picture is not what would be drawn
"""

from __future__ import annotations

import argparse
import linecache
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
