"""Writes pyptx/types.pyi: one name for each type of PTX, read off the module that was just built."""

import sys
from pathlib import Path

import _core

lines = ["from pyptx._core import PtxType as PtxType", "", "def from_name(name: str) -> PtxType: ...", ""]
lines += [f"{name}: PtxType" for name, _ in _core.types()]
Path(sys.argv[1]).write_text("\n".join(lines) + "\n")
