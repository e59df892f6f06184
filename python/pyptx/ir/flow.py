"""Analyses of a function: basic blocks, dominators, loops, uses, liveness, register pressure.

A FunctionFlow describes the function at one moment.  After an edit, `function.flow` computes a new one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from pyptx.ir.nodes import Function, Instruction, Label, Statement
from pyptx.ir.scopes import Register, Scopes

__all__ = ["BasicBlock", "Edge", "FunctionFlow", "Loop", "Pressure", "Uses"]


class Uses(NamedTuple):
    """The instructions that read a register and those that write it, in the order of the text."""

    reads: list[Instruction]
    writes: list[Instruction]


class Pressure(NamedTuple):
    """How many registers of each width are live at one place, and where that is."""

    predicates: int
    b16: int
    b32: int
    b64: int
    b128: int
    where: Statement | None = None

    @property
    def words(self) -> int:
        """The pressure in registers of 32 bits, two of 16 bits to a register; predicates have a file of their own."""
        return (self.b16 + 1) // 2 + self.b32 + 2 * self.b64 + 4 * self.b128


class Edge(NamedTuple):
    """`kind` is "falls", "branch" (bra) or "table" (brx.idx), whose `entry` says which target."""

    target: BasicBlock
    kind: str
    entry: int


@dataclass(eq=False)
class BasicBlock:
    """Statements that run one after the other.  `leaves`: it may leave the function; `reached`: some path leads to it."""

    index: int
    statements: list[Statement]
    leaves: bool
    reached: bool = True
    edges: list[Edge] = field(default_factory=list)
    predecessors: list[BasicBlock] = field(default_factory=list)
    dominator: BasicBlock | None = None
    post_dominator: BasicBlock | None = None
    loop: Loop | None = None
    _flow: FunctionFlow | None = field(default=None, repr=False)

    @cached_property
    def live_in(self) -> list[Register]:
        """The registers that hold a value here which is still read."""
        flow = self._flow
        return [] if flow is None else [flow._named[each] for each in flow._analysis.live_in(flow._number, self.index)]

    def __repr__(self) -> str:
        labels = " ".join(each.name for each in self.statements if isinstance(each, Label))
        return f"<BasicBlock {self.index}{' ' if labels else ''}{labels} -> {[e.target.index for e in self.edges]}>"

    @property
    def successors(self) -> list[BasicBlock]:
        return [each.target for each in self.edges]

    @property
    def instructions(self) -> list[Instruction]:
        return [each for each in self.statements if isinstance(each, Instruction)]

    def dominates(self, other: BasicBlock) -> bool:
        """Whether every path from the entry to the other one comes through here; a block dominates itself."""
        at: BasicBlock | None = other
        while at is not None and at is not self:
            at = at.dominator
        return at is self


@dataclass(eq=False)
class Loop:
    """A natural loop: its header, the blocks that jump back to it, and all of its blocks."""

    header: BasicBlock
    latches: list[BasicBlock]
    parent: Loop | None
    depth: int
    _flow: FunctionFlow = field(repr=False)
    _index: int = field(repr=False)

    @cached_property
    def blocks(self) -> list[BasicBlock]:
        """The blocks of the loop in the order of the text, those of inner loops as well."""
        flow = self._flow
        return [flow.blocks[each] for each in flow._analysis.loop_blocks(flow._number, self._index)]


class FunctionFlow:
    """The control-flow graph of a function, and the liveness of its registers.

    Example:
        m = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { .reg .pred p; .reg .b32 i; mov.b32 i, 0; "
                        "L: add.s32 i, i, 1; setp.lt.s32 p, i, 9; @p bra L; ret; }")
        flow = m["k"].flow
        assert [b.index for b in flow.blocks[1].successors] == [2, 1]
        assert flow.loops[0].header is flow.blocks[1] and flow.blocks[1].live_in == ["i"]
        assert [str(i) for i in flow.uses("p").reads] == ["@p bra L;"] and flow.pressure.b32 == 1
    """

    def __init__(self, function: Function):
        module = function.module
        if module is None:
            raise ValueError(f"`{function.name}` does not belong to a module: insert it into one first")
        facts = module._analysed()
        if function.is_declaration or function not in facts.functions:
            raise ValueError(f"`{function.name}` has no readable body")
        self.function = function
        self._analysis, self._number = facts.analysis, facts.functions[function]
        self._statements, self._named = facts.statements[self._number], facts.registers(self._number)
        self.blocks = [
            BasicBlock(index, [each for each in self._statements[first:last] if each is not None], leaves)
            for index, (first, last, leaves) in enumerate(self._analysis.blocks(self._number))
        ]
        for begin, end, kind, entry in self._analysis.edges(self._number):
            self.blocks[begin].edges.append(Edge(self.blocks[end], kind, entry))
            self.blocks[end].predecessors.append(self.blocks[begin])
        self.loops = self._loops()
        for block, (above, below, loop, reached) in zip(self.blocks, self._analysis.tree_of(self._number), strict=True):
            block.dominator = None if above is None else self.blocks[above]
            block.post_dominator = None if below is None else self.blocks[below]
            block.loop = None if loop is None else self.loops[loop]
            block.reached = reached
            block._flow = self

    def _loops(self) -> list[Loop]:
        loops: list[Loop] = []
        for index, (header, latches, parent) in enumerate(self._analysis.loops(self._number)):
            around = None if parent is None else loops[parent]
            depth = 1 if around is None else around.depth + 1
            back = [self.blocks[each] for each in latches]
            loops.append(Loop(self.blocks[header], back, around, depth, self, index))
        return loops

    @cached_property
    def _uses(self) -> dict[Register, tuple[list[int], list[int]]]:
        return {self._named[which]: (reads, writes) for which, reads, writes in self._analysis.uses(self._number)}

    def uses(self, register: str, at: Statement | None = None) -> Uses:
        """The instructions that read and write a register; KeyError if there are none.

        Blocks may declare its name again: the name means what it means outside of all blocks, or what the only block says that declares
        it, or what it means in the statement `at`.  A Register says itself.  ValueError where several blocks declare the name.

        Example:
            m = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { .reg .b32 a; mov.b32 a, 1; { .reg .b32 a; mov.b32 a, 2; } ret; }")
            one, two = m.find("mov")
            assert m["k"].flow.uses("a").writes == [one] and m["k"].flow.uses("a", at=two).writes == [two]
        """
        if not isinstance(register, Register):
            if register not in self._names:
                raise KeyError(register)
            several = at is not None or self._names[register] > 1
            if several:
                register = Register(register, Scopes(self.function).meant(register, at).owner)
        reads, writes = self._uses[register]
        return Uses(self._instructions(reads), self._instructions(writes))

    @cached_property
    def _names(self) -> Counter[str]:
        return Counter(map(str, self._uses))

    @property
    def registers(self) -> list[Register]:
        """The registers that some instruction reads or writes, by name."""
        return sorted(self._uses)

    @property
    def pressures(self) -> list[Pressure]:
        """At each statement of the body: what is live behind it, with what it writes."""
        rows = zip(self._analysis.pressures(self._number), self._statements, strict=True)
        return [Pressure(*counts, where) for counts, where in rows]

    @property
    def pressure(self) -> Pressure:
        """The largest, in words of 32 bits."""
        return max(self.pressures, key=lambda each: each.words, default=Pressure(0, 0, 0, 0, 0))

    def _instructions(self, which: list[int]) -> list[Instruction]:
        found = [self._statements[each] for each in which]
        return [each for each in found if isinstance(each, Instruction)]
