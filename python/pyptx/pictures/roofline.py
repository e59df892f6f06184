"""Flops against bytes of a simulated run, under the roof of a device (Williams et al., 2009).

Flops are those of the instructions that ran (`pyptx stats` says how they are counted), bytes the sectors of global memory that were
touched, 32 each: what leaves the multiprocessors for L2.  What L2 answers itself never reaches memory, so beside memory's roof the
picture is pessimistic.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyptx.pictures.svg import Drawing, Picture
from pyptx.tools.lines import LineCount

if TYPE_CHECKING:
    from pyptx import ir
    from pyptx.simulated import Run
    from pyptx.specialise.specialisation import Specialisation

__all__ = ["DEVICES", "Device", "Roofline", "roofline"]


@dataclass(frozen=True)
class Device:
    """TFLOP/s of the tensor cores (dense bf16) and of f32 without them, TB/s of memory: the maker's data sheets.

    Example:
        mine = pyptx.pictures.Device("mine", matrix=100, plain=10, memory=1)
    """

    name: str
    matrix: float
    plain: float
    memory: float


DEVICES = {
    device.name: device
    for device in (
        Device("A100", 312, 19.5, 2.04),
        Device("H100", 989, 67, 3.35),
        Device("H200", 989, 67, 4.8),
    )
}


@dataclass(frozen=True)
class Roofline:
    """What a run computed and moved.  `flops` is of threads, `matrix_flops` of tensor cores.

    Example:
        found = pyptx.pictures.Roofline(64, 0, 128, pyptx.pictures.DEVICES["H200"])
        assert found.intensity == 0.5 and found.attainable == 2.4
    """

    flops: float
    matrix_flops: float
    bytes: int
    device: Device
    seconds: float | None = None

    @property
    def intensity(self) -> float:
        """Flops a byte of global memory; infinite where none was touched."""
        return (self.flops + self.matrix_flops) / self.bytes if self.bytes else math.inf

    @property
    def roof(self) -> float:
        """TFLOP/s that the device could do at most: of its tensor cores, if they are used."""
        return self.device.matrix if self.matrix_flops else self.device.plain

    @property
    def attainable(self) -> float:
        """TFLOP/s that memory and the units allow at this intensity."""
        return min(self.roof, self.intensity * self.device.memory)

    @property
    def reached(self) -> float | None:
        """TFLOP/s in the time that was given."""
        return (self.flops + self.matrix_flops) / self.seconds / 1e12 if self.seconds else None

    def picture(self) -> Picture:
        """Both axes logarithmic."""
        return _drawn(self)

    def _repr_html_(self) -> str:
        return self.picture()._repr_html_()


def roofline(
    run: Run, program: Specialisation | ir.Module, *, device: str | Device = "H200", seconds: float | None = None
) -> Roofline:
    """The roofline of the launches of a block.  `program`: what was launched, `k.specialise(N=1024)` of a kernel or, of a text,
    `pyptx.parse(text, file=...)`.  `seconds`: how long it took on a device, if it was measured.

    The instructions that one line of the author wrote are taken to have run equally often.

    Example:
        @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), block=(32, 1, 1))
        def k(X, Y):
            ptx.ret()

        with pyptx.simulator() as run:
            pass                                            # y = k(x)
        assert pyptx.pictures.roofline(run, k.specialise(N=32)).flops == 0
    """
    if isinstance(device, str):
        if device not in DEVICES:
            raise ValueError(f"device must be a Device, or one of {', '.join(DEVICES)}, not {device!r}")
        device = DEVICES[device]
    counts = run.lines()
    plain, matrix = _computed(counts, program)
    return Roofline(plain, matrix, 32 * sum(one.sectors for one in counts), device, seconds)


def _computed(counts: Iterable[LineCount], program: Specialisation | ir.Module) -> tuple[float, float]:
    from pyptx.tools import stats

    written = _by_line(program)
    plain = matrix = 0.0
    for one in counts:
        here = written.get((one.file, one.line), [])
        for i in here:
            plain += stats.flops_of_thread(i) * one.threads / len(here)
            warps = 4 if i.opcode == "wgmma" else 1  # each counts the product of their warpgroup
            matrix += stats.flops_of_matrices(i) * one.instructions / len(here) / warps
    return plain, matrix


def _by_line(program: Specialisation | ir.Module) -> dict[tuple[str, int], list[ir.Instruction]]:
    from pyptx import parser

    text = getattr(program, "text", None)
    module = parser.parse(text()) if callable(text) else program
    places = program.module.lines if callable(text) else None
    found: dict[tuple[str, int], list[ir.Instruction]] = defaultdict(list)
    for function in module.functions:
        for i in function.instructions:
            line = i.place[0]
            found[places[line] if places else (module.file, line)].append(i)
    return found


# The drawing: flops a byte from 2^-4 to 2^12, TFLOP/s below the roof of the device.
_LEFT, _TOP, _WIDTH, _HIGH = 60, 56, 520, 300
_FIRST, _LAST = -4.0, 12.0


def _drawn(r: Roofline) -> Picture:
    top = math.log2(r.device.matrix) + 0.5
    bottom = top - 14

    def x(intensity: float) -> float:
        return _LEFT + _WIDTH * (min(max(math.log2(intensity), _FIRST), _LAST) - _FIRST) / (_LAST - _FIRST)

    def y(speed: float) -> float:
        return _TOP + _HIGH * (top - min(max(math.log2(speed), bottom), top)) / (top - bottom)

    shown = f"{r.intensity:.2f}" if r.bytes else "no bytes"
    remark = f"{r.flops + r.matrix_flops:.3g} flops, {r.bytes:.3g} bytes: {shown} flops a byte, at most {r.attainable:.3g} TFLOP/s"
    drawing = Drawing(f"Roofline on {r.device.name}", remark)
    drawing.rect(_LEFT, _TOP, _WIDTH, _HIGH, "idle")
    for power in range(-4, 13, 2):
        at = x(2.0**power)
        drawing.line([(at, _TOP), (at, _TOP + _HIGH)], "rule-line")
        drawing.text(at, _TOP + _HIGH + 14, f"{2.0**power:g}", "faint small", "middle")
    drawing.text(_LEFT + _WIDTH / 2, _TOP + _HIGH + 30, "flops a byte of global memory", "faint", "middle")
    for name, peak in (("tensor cores", r.device.matrix), ("f32", r.device.plain)):
        knee = peak / r.device.memory
        low = max(2.0**_FIRST, 2.0**bottom / r.device.memory)
        style = "good-line thick" if peak == r.roof else "ink-line"
        drawing.line([(x(low), y(low * r.device.memory)), (x(knee), y(peak)), (_LEFT + _WIDTH, y(peak))], style)
        drawing.text(_LEFT + _WIDTH - 6, y(peak) - 5, f"{name}, {peak:g} TFLOP/s", "faint", "end")
    if math.isfinite(r.intensity) and r.intensity > 0:
        speed = r.reached or r.attainable
        at = x(r.intensity)
        drawing.line([(at, y(r.attainable)), (at, _TOP + _HIGH)], "bad-line thick")
        drawing.rect(at - 4, y(speed) - 4, 8, 8, "bad", f"{speed:.3g} TFLOP/s")
        said = f"{speed:.3g} TFLOP/s" if r.reached else "at most here"
        drawing.text(at + 9, y(speed) + 14, said, "ink")
    drawing.text(_LEFT + 8, _TOP + 16, f"memory {r.device.memory:g} TB/s", "faint")
    return drawing.picture()
