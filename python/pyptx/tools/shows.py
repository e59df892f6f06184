"""`pyptx show`: layouts, fragments and runs as pictures."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

from pyptx.tools import files

__all__ = ["add_command"]


def add_command(add: Callable[..., argparse.ArgumentParser]) -> None:
    """`add` makes a subcommand: that of __main__."""
    show = add(
        "show",
        _show,
        does="draw a layout, a fragment or a run, as SVG",
        fails="there is no such layout, matrix or trace",
        examples=[
            "layout 128B -o swizzle.svg",
            "layout 128B --box 64,64 --type bf16 -o tile.html",
            "fragment mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 --matrix a -o a.svg",
            "timeline trace.json -o timeline.svg       (what `pyptx run --trace trace.json` wrote)",
            "lines run.json -o lines.svg               (what `pyptx run --json > run.json` wrote)",
        ],
    )
    show.add_argument("what", choices=_DRAWN, help="what to draw")
    show.add_argument(
        "name", metavar="NAME", help="a swizzle (layout), a whole mnemonic (fragment), or a file (timeline, lines)"
    )
    show.add_argument("--box", type=_sizes, metavar="ROWS,COLUMNS", help="layout: draw a box with that swizzle")
    show.add_argument("--type", default="bf16", help="layout: type of the elements; default: bf16")
    show.add_argument("--matrix", metavar="M", help="fragment: a, b, c, d, matrix or lanes; default: the first")
    show.add_argument("--launch", type=int, default=0, metavar="N", help="timeline: which launch, from 0")
    show.add_argument("--cta", type=_sizes, default=(0, 0, 0), metavar="X,Y,Z", help="timeline: which CTA")
    show.add_argument(
        "-o", "--output", metavar="OUT", help="a file, .svg or .html; default: SVG on the standard output"
    )


def _sizes(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers separated by commas")
    return tuple(map(int, parts))


def _show(arguments) -> int:
    try:
        picture = _DRAWN[arguments.what](arguments)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.output:
        html = arguments.output.endswith((".html", ".htm"))
        files.write(arguments.output, (picture.html() if html else picture.svg).encode())
    else:
        print(picture, end="")
    return 0


def _layout(arguments):
    from pyptx import pictures, types
    from pyptx.specs import Tile

    if not arguments.box:
        return pictures.swizzle(arguments.name.upper())
    if not all(arguments.box):
        raise ValueError(f"the sizes of a box must be at least 1, not {','.join(map(str, arguments.box))}")
    tile = Tile(*arguments.box, types.from_name(arguments.type), tma_swizzle=arguments.name.upper())
    return pictures.tile(tile)


def _fragment(arguments):
    from pyptx import pictures

    name = arguments.matrix or pictures.fragments(arguments.name)[0].name
    return pictures.fragment(arguments.name, name).picture(arguments.name)


def _timeline(arguments):
    from pyptx import pictures

    cta = (*arguments.cta, 0, 0)[:3]
    return pictures.timeline(_json(arguments.name, "traceEvents"), launch=arguments.launch, cta=cta)


def _lines(arguments):
    from dataclasses import fields

    from pyptx import pictures
    from pyptx.tools.lines import LineCount

    found = _json(arguments.name, "lines")["lines"]
    try:
        counts = [LineCount(**{field.name: one[field.name] for field in fields(LineCount)}) for one in found]
    except (KeyError, TypeError):
        raise ValueError(f"{files.shown(arguments.name)}: its lines are not those of `pyptx run --json`") from None
    return pictures.lines(counts)


def _json(file: str, has: str) -> dict:
    try:
        found = json.loads(files.read(file))
    except ValueError:
        found = None
    if not isinstance(found, dict) or has not in found:
        raise ValueError(f"{files.shown(file)}: it is not JSON with {has!r}, as `pyptx run` writes it")
    return found


_DRAWN = {"layout": _layout, "fragment": _fragment, "timeline": _timeline, "lines": _lines}
