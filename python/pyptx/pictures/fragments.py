"""Which thread holds which element of the matrices of an instruction: the tables by which the simulator runs it
(ptx/sim/fragments.h)."""

from __future__ import annotations

from dataclasses import dataclass

from pyptx import _core
from pyptx.pictures.svg import Drawing, Picture

__all__ = ["Fragment", "Holder", "fragment", "fragments"]

_MOST_ROWS, _MOST_COLUMNS = 32, 32  # that are drawn
_CELL, _HEIGHT = 34, 26


@dataclass(frozen=True, order=True)
class Holder:
    """A thread, one of its registers for the matrix, and which element of the register, from its low bits.

    Example:
        a = pyptx.pictures.fragment("movmatrix.sync.aligned.m8n8.trans.b16", "a")
        assert a.holders(0, 1) == [pyptx.pictures.Holder(thread=0, register=0, part=1)]
    """

    thread: int
    register: int
    part: int


@dataclass(frozen=True)
class Fragment:
    """One matrix of an instruction, or `matrices` alike, in the registers of a warp or a warpgroup.

    `columns` are those that are stored: of a sparse A half of k.  `bits` of an element in its register.  `at[thread][i]` is the
    place (matrix, row, column) of element i of the thread, counted through its registers from their low bits; None: it holds nothing.

    Example:
        a = pyptx.pictures.fragment("movmatrix.sync.aligned.m8n8.trans.b16", "a")
        assert a.at[5] == [(0, 1, 2), (0, 1, 3)]
    """

    name: str
    matrices: int
    rows: int
    columns: int
    bits: int
    registers: int
    at: list[list[tuple[int, int, int] | None]]

    @property
    def together(self) -> int:
        """Elements of a register."""
        return max(1, 32 // self.bits)

    def holders(self, row: int, column: int, matrix: int = 0) -> list[Holder]:
        """The threads that hold an element: one, or several if there are copies.

        Example:
            [d] = [f for f in pyptx.pictures.fragments("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16") if f.name == "d"]
            assert d.holders(8, 1) == [pyptx.pictures.Holder(thread=0, register=3, part=0)]
        """
        return [
            Holder(thread, i // self.together, i % self.together)
            for thread, places in enumerate(self.at)
            for i, place in enumerate(places)
            if place == (matrix, row, column)
        ]

    def picture(self, mnemonic: str = "", matrix: int = 0) -> Picture:
        """The matrix, each element with its thread and register.  Of a large one its first rows and columns.

        Example:
            pyptx.pictures.fragments("movmatrix.sync.aligned.m8n8.trans.b16")[0].picture().save("a.svg")
        """
        return _drawn(self, mnemonic, matrix)

    def _repr_html_(self) -> str:
        return self.picture()._repr_html_()


def fragments(mnemonic: str) -> list[Fragment]:
    """The matrices of an instruction that threads hold in registers: of mma, wmma, wgmma.mma_async, ldmatrix, stmatrix, movmatrix,
    tcgen05.ld and tcgen05.st, by the whole mnemonic.  ValueError says what is wrong with it.

    Example:
        a, b, c, d = pyptx.pictures.fragments("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
        assert (a.rows, a.columns, a.registers) == (16, 16, 4)
    """
    return [_fragment(*row) for row in _core.fragments(mnemonic)]


def fragment(mnemonic: str, name: str) -> Fragment:
    """One of them by its name: "a", "b", "c", "d"; "matrix" of loads and stores; "lanes" of tensor memory.

    Example:
        pyptx.pictures.fragment("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", "d").picture().save("d.svg")
    """
    found = fragments(mnemonic)
    for each in found:
        if each.name == name:
            return each
    raise ValueError(f"`{mnemonic}` has no matrix {name!r} in registers; it has {', '.join(f.name for f in found)}")


def _fragment(name, matrices, rows, columns, bits, registers, threads, at) -> Fragment:
    def place(index: int) -> tuple[int, int, int] | None:
        return None if index < 0 else (index // (rows * columns), index // columns % rows, index % columns)

    each = len(at) // threads
    held = [[place(index) for index in at[thread * each : (thread + 1) * each]] for thread in range(threads)]
    return Fragment(name, matrices, rows, columns, bits, registers, held)


def _drawn(fragment: Fragment, mnemonic: str, matrix: int) -> Picture:
    if not 0 <= matrix < fragment.matrices:
        raise ValueError(f"there are {fragment.matrices} matrices, counted from 0, not {matrix}")
    owner: dict[tuple[int, int], Holder] = {}
    for thread, places in enumerate(fragment.at):
        for i, place in enumerate(places):
            if place is not None and place[0] == matrix:  # of copies the first
                owner.setdefault(place[1:], Holder(thread, i // fragment.together, i % fragment.together))
    rows, columns = min(fragment.rows, _MOST_ROWS), min(fragment.columns, _MOST_COLUMNS)
    whole = (rows, columns) == (fragment.rows, fragment.columns)
    which = f", {matrix} of {fragment.matrices}" if fragment.matrices > 1 else ""
    remark = f"{fragment.name}{which}: {fragment.rows} x {fragment.columns} of {fragment.bits} bits; thread, register"
    drawing = Drawing(mnemonic or fragment.name, remark + ("" if whole else f"; the first {rows} x {columns}"))
    for c in range(columns):
        drawing.text(36 + _CELL * c + _CELL / 2, 58, str(c), "faint small", "middle")
    for r in range(rows):
        drawing.text(30, 64 + _HEIGHT * r + 16, str(r), "faint small", "end")
    for r, c, high, wide in _cells(owner, rows, columns):
        holder = owner[r, c]
        x, y, width = 36 + _CELL * c, 64 + _HEIGHT * r, _CELL * wide - 2
        drawing.rect(x, y, width, _HEIGHT * high - 2, f"c{holder.register % 8}")
        middle = y + (_HEIGHT * high - 2) / 2
        drawing.text(x + width / 2, middle, f"T{holder.thread}", "ink", "middle")
        drawing.text(x + width / 2, middle + 9, f"r{holder.register}", "faint small", "middle")
    return drawing.picture()


def _cells(owner: dict[tuple[int, int], Holder], rows: int, columns: int):
    """(row, column, rows, columns) of what one register holds side by side, or one below the other."""

    def same(first: tuple[int, int], other: tuple[int, int]) -> bool:
        a, b = owner[first], owner.get(other)
        return b is not None and (a.thread, a.register) == (b.thread, b.register)

    done: set[tuple[int, int]] = set()
    for r in range(rows):
        for c in range(columns):
            if (r, c) in done or (r, c) not in owner:
                continue
            wide = high = 1
            while c + wide < columns and same((r, c), (r, c + wide)):
                wide += 1
            while wide == 1 and r + high < rows and same((r, c), (r + high, c)):
                high += 1
            done |= {(r + i, c + j) for i in range(high) for j in range(wide)}
            yield r, c, high, wide
