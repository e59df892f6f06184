"""`pyptx stats`: counts instructions by class, registers, shared memory, and the bytes and flops of a trip of each loop, from the
text alone."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from pyptx import _core, ir

__all__ = ["FunctionStats", "LoopStats", "flops_of_matrices", "flops_of_thread", "of", "report"]

_BITS = {
    name: int(digits[0]) for name in ir.ScalarType._value2member_map_ if (digits := re.findall(r"\d+$", str(name)))
}


@dataclass
class LoopStats:
    """A loop, by the statements of one trip, those of inner loops counted once.

    `bytes`: that a thread asks of memory, by space.  `flops`: of a thread; `matrix_flops`: of the warp or warpgroup that does a
    matrix instruction together.
    """

    label: str
    line: int
    depth: int
    instructions: int
    bytes: dict[str, int]
    flops: int
    matrix_flops: int


@dataclass
class FunctionStats:
    """`classes`: instructions by chapter of the manual.  `registers`: most that are live at once, by class."""

    name: str
    entry: bool
    instructions: int
    classes: dict[str, int]
    opcodes: dict[str, int]
    blocks: int
    registers: dict[str, int]
    words: int
    shared: int
    local: int
    bounds: list[str] = field(default_factory=list)
    loops: list[LoopStats] = field(default_factory=list)


def of(module: ir.Module) -> list[FunctionStats]:
    """The figures of each function that has a body.

    Example:
        m = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { ret; }")
        assert pyptx.tools.stats.of(m)[0].instructions == 1
    """
    shared = sum(
        _bytes(each)
        for each in module.directives
        if isinstance(each, ir.VarDecl) and each.state_space.startswith("shared")
    )
    return [_function(f, shared) for f in module.functions if not f.is_declaration]


@cache
def _titles() -> dict[str, str]:
    return {form.section: form.title.partition(" Instructions")[0] for form in _core.forms()}


def _class(i: ir.Instruction) -> str:
    """The chapter of the manual that an instruction is in."""
    return _titles().get(i.section, "not legal")


def _function(function: ir.Function, shared: int) -> FunctionStats:
    flow, instructions = function.flow, function.instructions
    variables = [each for each in function.body if isinstance(each, ir.VarDecl)]
    classes = Counter(map(_class, instructions))
    pressure = flow.pressure
    return FunctionStats(
        name=function.name,
        entry=function.is_entry,
        instructions=len(instructions),
        classes=dict(classes.most_common()),
        opcodes=dict(Counter(each.opcode for each in instructions).most_common()),
        blocks=len(flow.blocks),
        registers={name: count for name, count in zip(pressure._fields, pressure[:5], strict=False) if count},
        words=pressure.words,
        shared=shared + sum(_bytes(each) for each in variables if each.state_space.startswith("shared")),
        local=sum(_bytes(each) for each in variables if each.state_space == "local"),
        bounds=[each for each in function.directives if each.startswith((".max", ".req", ".min"))],
        loops=[_loop(each) for each in flow.loops],
    )


def _loop(loop: ir.Loop) -> LoopStats:
    instructions = [each for block in loop.blocks for each in block.instructions]
    moved: Counter[str] = Counter()
    for each in instructions:
        moved.update(_moved(each))
    first = loop.header.statements[0] if loop.header.statements else None
    return LoopStats(
        label=first.name if isinstance(first, ir.Label) else "",
        line=first.place[0] if first is not None and first.place else 0,
        depth=loop.depth,
        instructions=len(instructions),
        bytes=dict(moved),
        flops=sum(flops_of_thread(each) for each in instructions),
        matrix_flops=sum(flops_of_matrices(each) for each in instructions),
    )


def _moved(i: ir.Instruction) -> dict[str, int]:
    """Bytes that an instruction moves, as far as its text says: its type times its vector, or the size of a copy."""
    words = [each[1:] for each in i.modifiers]
    if _class(i) != "Data Movement and Conversion" or not any(
        isinstance(each, ir.AddressOperand) for each in i.operands
    ):
        return {}
    spaces = dict.fromkeys(word.partition("::")[0] for word in words)
    space = "+".join(each for each in spaces if each in ir.StateSpace._value2member_map_) or "generic"
    types = [word for word in words if word in _BITS]
    if types:
        vector = next((int(word[1:]) for word in words if re.fullmatch(r"v[248]", word)), 1)
        return {space: _BITS[types[-1]] // 8 * vector}
    sizes = [int(str(each), 0) for each in i.operands if re.fullmatch(r"[1-9]\d*|0x[0-9a-fA-F]+", str(each))]
    return {space: sizes[0]} if sizes else {}


def flops_of_thread(i: ir.Instruction) -> int:
    """The flops of one thread: 2 of an instruction with three sources, a multiply-add, else 1; twice that for packed halves.

    Example:
        m = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { .reg .f32 %f; fma.rn.f32 %f, %f, %f, %f; ret; }")
        assert [pyptx.tools.stats.flops_of_thread(i) for i in m.functions[0].instructions] == [2, 0]
    """
    if not _class(i).endswith("Floating Point"):
        return 0
    types = [word[1:] for word in i.modifiers if word[1:] in _BITS]
    packed = int(types[-1][-1]) if types and re.search(r"x[24]$", types[-1]) else 1
    return (2 if len(i.operands) == 4 else 1) * packed


def flops_of_matrices(i: ir.Instruction) -> int:
    """2 m n k of an instruction that multiplies matrices; of all threads that do it together.

    The shape is in the mnemonic; that of tcgen05.mma in its instruction descriptor, and 0 flops are counted where no constant is one.

    Example:
        m = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { ret; }")
        assert pyptx.tools.stats.flops_of_matrices(m.functions[0].instructions[0]) == 0
    """
    if i.mnemonic.startswith("tcgen05.mma"):
        return _flops_of_tcgen05(i)
    shape = re.search(r"\.m(\d+)n(\d+)k(\d+)", i.mnemonic)
    multiplies = {i.opcode, *i.modifiers} & {"mma", ".mma", ".mma_async"}
    return 2 * int(shape[1]) * int(shape[2]) * int(shape[3]) if shape and multiplies else 0


# Bits of an element of A in shared memory by the kind of tcgen05.mma; a row of 32 bytes is the K of an instruction.
_KIND_BITS = {"tf32": 32, "f16": 16, "i8": 8, "f8f6f4": 8, "mxf8f6f4": 8, "mxf4": 4, "mxf4nvf4": 4}


def _flops_of_tcgen05(i: ir.Instruction) -> int:
    kind = next((each[7:] for each in i.modifiers if each.startswith(".kind::")), "")
    sparse = ".sp" in i.modifiers
    descriptor = _constant(i, 4 if sparse else 3)
    if kind not in _KIND_BITS or descriptor is None:
        return 0
    m, n = _core.tcgen05_shape(descriptor & 0xFFFFFFFF)
    return 2 * m * n * (256 // _KIND_BITS[kind]) * (2 if sparse else 1)


def _constant(i: ir.Instruction, which: int) -> int | None:
    """The value of an operand: a number, or a register that one number alone is moved into."""
    text = str(i.operands[which])
    register = next((each for each in i.reads if each == text), None)
    if register is not None and i.function is not None:
        writes = i.function.uses(register).writes
        written = {str(each.operands[1]) if each.opcode == "mov" else "" for each in writes}
        text = written.pop() if len(written) == 1 else ""
    try:
        return int(text.rstrip("U"), 0)
    except ValueError:
        return None


def _bytes(variable: ir.VarDecl) -> int:
    bits = _BITS.get(variable.type.lstrip("."), 0)
    total = 0
    for text in variable.text.partition("=")[0].split(","):
        count = 1
        for size in re.findall(r"\[\s*(\w*)\s*\]", text):
            count *= int(size, 0) if re.fullmatch(r"\d+|0x[0-9a-fA-F]+", size) else 0
        total += count
    return bits // 8 * total


def report(stats: list[FunctionStats]) -> str:
    """The figures as text for a terminal."""
    lines = []
    for each in stats:
        registers = ", ".join(f"{count} {name}" for name, count in each.registers.items()) or "none"
        lines += [
            f"{'.entry' if each.entry else '.func'} {each.name}: {each.instructions} instructions in {each.blocks} blocks",
            f"  live at once: {registers}; {each.words} words of 32 bits",
            f"  shared memory {each.shared} bytes, local {each.local} bytes"
            + (f"; {', '.join(each.bounds)}" if each.bounds else ""),
            *(f"  {count:7}  {name}" for name, count in each.classes.items()),
        ]
        for loop in each.loops:
            moved = ", ".join(f"{count} bytes {space}" for space, count in loop.bytes.items()) or "no memory"
            work = f"{loop.flops} flops a thread" + (f", {loop.matrix_flops} of matrices" if loop.matrix_flops else "")
            lines.append(
                f"  {'  ' * (loop.depth - 1)}loop {loop.label or '?'} (line {loop.line}): {loop.instructions} instructions a trip; {moved}; {work}"
            )
    return "\n".join(lines)


def as_dicts(stats: list[FunctionStats]) -> list[dict[str, Any]]:
    return [asdict(each) for each in stats]
