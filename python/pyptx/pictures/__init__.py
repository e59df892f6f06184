"""Pictures of layouts, fragments and runs, as SVG.

    from pyptx import pictures
    pictures.swizzle("128B").save("swizzle.svg")                          # where 16 bytes of a tile lie
    pictures.fragment("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "a").picture()
    with pyptx.simulator() as run:
        y = k(x)
    pictures.lines(run.lines())                                           # bank conflicts and sectors by line
    pictures.timeline(run.trace)                                          # warps, waits and copies
    pictures.roofline(run, k)                                             # flops against bytes

Nothing is drawn from a list of its own: addresses and fragments are the library's, counts and times the simulator's.  Each function
returns a `Picture`, which a notebook shows and which writes itself to a file.  `pyptx show` is the same as a command.
"""

from __future__ import annotations

from pyptx.pictures.fragments import Fragment, Holder, fragment, fragments
from pyptx.pictures.layouts import pattern, swizzle, tile
from pyptx.pictures.lines import lines
from pyptx.pictures.roofline import DEVICES, Device, Roofline, roofline
from pyptx.pictures.svg import Picture
from pyptx.pictures.timeline import timeline

__all__ = [
    "DEVICES",
    "Device",
    "Fragment",
    "Holder",
    "Picture",
    "Roofline",
    "fragment",
    "fragments",
    "lines",
    "pattern",
    "roofline",
    "swizzle",
    "tile",
    "timeline",
]
