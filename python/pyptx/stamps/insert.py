"""The text of a copy of a kernel that writes down when its warps come by: stamps at the author's marks and around what waits.

A stamp is eleven instructions without a branch, thirteen with `fine`.  Of the threads that are there, the first writes one record of 8 bytes (16 with
`fine`) to a place of its own; no thread waits for another, and nothing of the kernel's registers or shared memory is touched.

Functions that the kernel calls are followed, too (calls.py).

    the record: low 32 bits of %globaltimer, next 16 bits of it, number of the place << 16, then, with `fine`, %clock64

The first parameter is the buffer: for each thread of the CTAs that are recorded 2^n records, of which the first
is the multiprocessor's number.  The buffer's address is a multiple of a thread's part, so a pointer at its end is seen by its zeros.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyptx import ir
from pyptx.ir.flow import BasicBlock, Loop
from pyptx.stamps import calls, marks

__all__ = ["PARAMETER", "SMID", "Place", "Stamped", "stamped"]

PARAMETER = "pyptx_stamps"
SMID = 0xFFFF  # the place of a thread's first record
_PREFIX = "%pyptx_"
_CELL = f"{_PREFIX}cell"
_REGISTERS = f"""
.reg .b64 {_PREFIX}at, {_PREFIX}time, {_PREFIX}left;
.reg .b32 {_PREFIX}here, {_PREFIX}low, {_PREFIX}high, {_PREFIX}clock_low, {_PREFIX}clock_high, {_PREFIX}ctas;
.reg .pred {_PREFIX}writes;"""
_CELL_OF_KERNEL = f"""
.local .align 8 .b64 {calls.CELL};
.reg .b64 {_CELL};
mov.u64 {_CELL}, {calls.CELL};
"""
_BEGIN_OF_FUNCTION = f"""{_REGISTERS}
.reg .b64 {_CELL};
ld.param.u64 {_CELL}, [{calls.CELL}];
ld.local.u64 {_PREFIX}at, [{_CELL}];
"""
# What waits by itself.  A loop around what asks again is found by its instructions.
_WAITS = re.compile(
    r"(bar|barrier)(\.cta)?\.(sync|red)|barrier\.cluster\.wait|wgmma\.wait_group|cp\.async\.(bulk\.)?wait_(group|all)"
    r"|tcgen05\.wait|griddepcontrol\.wait"
)
_ASKS = re.compile(r"mbarrier\.(try_wait|test_wait)|ld\.(acquire|relaxed|volatile|mmio)")
_IDLE = re.compile(
    r"(mbarrier\.(try_wait|test_wait)|ld|setp|bra|nanosleep|mov|add|sub|and|or|xor|not|selp|cvt|fence)\b"
)


@dataclass(frozen=True)
class Place:
    """Where a stamp is.  `kind`: "begin", "end", "mark".  `what`: "kernel", "region" or "wait".  `number`: what records have; that of
    the end is its beginning's and one more."""

    number: int
    kind: str
    what: str
    name: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class Stamped:
    """`module`: the copy.  `places`: by the numbers of their records."""

    module: ir.Module
    places: dict[int, Place]


def stamped(
    module: ir.Module, entry: str, lines: list[tuple[str, int]], part: int, threads: int, fine: bool, waits: bool
) -> Stamped:
    """Edits a module, of which `entry` is the kernel.  `lines`: the author's line of each of its text.  `part`: bytes of a thread's
    records, a power of two.  `threads`: of a CTA."""
    return _Copy(module, entry, lines, part, threads, fine).made(waits)


class _Copy:
    def __init__(self, module, entry, lines, part, threads, fine):
        self._module, self._function, self._lines = module, module[entry], lines
        self._part, self._threads, self._fine = part, threads, fine
        self._places: dict[int, Place] = {}

    def made(self, waits: bool) -> Stamped:
        def places(function) -> bool:
            return any(map(_mark, function.body)) or (waits and bool(_spans(function)))

        function = self._function
        calls.without_other_kernels(self._module, function)
        followed = calls.followed(self._module, function.name, places)
        self._strip_other_functions(followed)
        whole = self._pair("kernel", "kernel", None)
        begin = self._begin() + (_CELL_OF_KERNEL if followed else "") + self._text(whole, None)
        self._stamp_all(function, waits, begin, lambda at: self._text(whole + 1, at))
        for each in followed:
            self._stamp_all(each, waits, _BEGIN_OF_FUNCTION, lambda _: f"st.local.u64 [{_CELL}], {_PREFIX}at;")
        names = {each.name for each in followed}
        for each in self._module.functions:
            if each is function or each.name in names:
                self._tell(each, names)
            if each.name in names:
                each.head = calls.with_cell(each.head, each.name)
        function.head = _with_parameter(function.head, function.name)
        return Stamped(self._module, self._places)

    def _stamp_all(self, function: ir.Function, waits: bool, begin: str, end):
        """`end(each)`: what stands before an instruction that ends the function, and (None) at an end without one."""
        todo = _spans(function) if waits else []
        ends = [each for each in function.instructions if each.opcode in ("ret", "exit")]
        for span in todo:
            self._wait(span)
        self._marks(function)
        for each in ends:
            each.insert_before(end(each))
        last = next((each for each in reversed(function.body) if isinstance(each, ir.Instruction)), None)
        if last is None or last.predicate is not None or last.opcode not in ("ret", "exit", "bra", "trap"):
            function.append(end(None))
        first = next(each for each in function.body if isinstance(each, (ir.Instruction, ir.Label, ir.Brace)))
        first.insert_before(begin)

    def _tell(self, function: ir.Function, names: set[str]):
        """Calls of functions that are followed: where the next record goes lies in the cell meanwhile."""
        for each, name in calls.targets(function):
            if name in names:
                each.insert_before(f"st.local.u64 [{_CELL}], {_PREFIX}at;")
                each.insert_after(f"ld.local.u64 {_PREFIX}at, [{_CELL}];")
                each.replace(calls.with_cell_given(str(each), name, _CELL))

    def _strip_other_functions(self, followed: list[ir.Function]):
        for function in self._module.functions:
            if function is self._function or not function.body or any(function is each for each in followed):
                continue
            for each in function.body[:]:
                if _mark(each):
                    each.remove()

    def _pair(self, what: str, name: str, at: ir.Statement | None) -> int:
        """The number of a beginning; its end has the next."""
        number = self._new("begin", what, name, at)
        self._new("end", what, name, at)
        return number

    def _new(self, kind: str, what: str, name: str, at: ir.Statement | None) -> int:
        number = len(self._places) + 1
        if number >= SMID:
            raise ValueError(f"the kernel has more than {SMID - 1} marks and waits")
        file, line = "", 0
        if at is not None and at.place is not None and at.place[0] < len(self._lines):
            file, line = self._lines[at.place[0]]
        self._places[number] = Place(number, kind, what, name, file, line)
        return number

    def _text(self, number: int, guarded: ir.Statement | None) -> str:
        guard = guarded.predicate if isinstance(guarded, ir.Instruction) else None
        return _stamp(self._places[number], guard, self._part, self._fine)

    def _wait(self, span: _Span):
        number = self._pair("wait", span.name, span.asks)
        guarded = span.asks if span.whole is span.asks else None
        if span.entries:  # branches to the loop from elsewhere come by its first stamp, too
            label = f"$pyptx_wait_{number}"
            for each in span.entries:
                each.replace_operand(0, label)
            span.whole.insert_before(f"{label}:")
        span.whole.insert_before(self._text(number, guarded))
        for behind, after in span.exits:
            put = after.insert_after if behind else after.insert_before
            put(self._text(number + 1, guarded))

    def _marks(self, function: ir.Function):
        begun: dict[str, list[int]] = {}
        for each in function.body[:]:
            found = _mark(each)
            if found is None:
                continue
            kind, name = found
            if kind == "mark":
                number = self._new("mark", "region", name, each)
            elif kind == "begin":
                number = self._pair("region", name, each)
                begun.setdefault(name, []).append(number)
            elif begun.get(name):
                number = begun[name].pop() + 1
            else:  # a change of the text took the beginning away
                each.remove()
                continue
            each.replace(self._text(number, None))

    def _begin(self) -> str:
        """Registers, and where this thread's records begin; where it is none of a recorded CTA, the pointer stands at an end."""
        p = _PREFIX
        record = "st.global.v4.u32" if self._fine else "st.global.v2.u32"
        more = ", 0, 0" if self._fine else ""
        return f"""{_REGISTERS}
ld.param.u64 {p}at, [{PARAMETER}];
cvta.to.global.u64 {p}at, {p}at;
ld.param.u32 {p}ctas, [{PARAMETER}_ctas];
mov.u32 {p}here, %ctaid.z;
mov.u32 {p}low, %nctaid.y;
mov.u32 {p}high, %ctaid.y;
mad.lo.u32 {p}here, {p}here, {p}low, {p}high;
mov.u32 {p}low, %nctaid.x;
mov.u32 {p}high, %ctaid.x;
mad.lo.u32 {p}here, {p}here, {p}low, {p}high;
setp.lt.u32 {p}writes, {p}here, {p}ctas;
mul.lo.u32 {p}here, {p}here, {self._threads};
mov.u32 {p}low, %ntid.x;
mov.u32 {p}high, %tid.y;
mad.lo.u32 {p}here, {p}high, {p}low, {p}here;
mov.u32 {p}high, %ntid.y;
mul.lo.u32 {p}low, {p}low, {p}high;
mov.u32 {p}high, %tid.z;
mad.lo.u32 {p}here, {p}high, {p}low, {p}here;
mov.u32 {p}low, %tid.x;
add.u32 {p}here, {p}here, {p}low;
mov.u32 {p}low, %smid;
mov.u32 {p}high, {SMID << 16};
@{p}writes mad.wide.u32 {p}at, {p}here, {self._part}, {p}at;
@{p}writes {record} [{p}at], {{{p}low, {p}high{more}}};
@{p}writes add.u64 {p}at, {p}at, {16 if self._fine else 8};
"""


def _mark(each: ir.Statement) -> tuple[str, str] | None:
    return marks.read(each.value) if isinstance(each, ir.PragmaDirective) else None


def _stamp(place: Place, guard: ir.Predicate | None, part: int, fine: bool) -> str:
    """`guard`: of the instruction that the stamp belongs to."""
    p, size = _PREFIX, 16 if fine else 8
    leads = f"setp.eq.u32 {p}writes, {p}here, 0"
    if guard is not None:  # a thread does not know whose guards hold: each that waits writes for itself
        also = f"{'!' if guard.negated else ''}{guard.register}"
        leads = f"setp.eq.and.u32 {p}writes, {p}here, {p}here, {also}"
    clock = f"mov.u64 {p}left, %clock64;\nmov.b64 {{{p}clock_low, {p}clock_high}}, {p}left;\n" if fine else ""
    values = f"{p}low, {p}high" + (f", {p}clock_low, {p}clock_high" if fine else "")
    return f"""
activemask.b32 {p}here;
mov.u32 {p}low, %lanemask_lt;
and.b32 {p}here, {p}here, {p}low;
{leads};
and.b64 {p}left, {p}at, {part - 1};
setp.ne.and.u64 {p}writes, {p}left, 0, {p}writes;
{clock}mov.u64 {p}time, %globaltimer;
mov.b64 {{{p}low, {p}high}}, {p}time;
prmt.b32 {p}high, {p}high, {place.number}, 0x5410;
@{p}writes st.global.v{size // 4}.u32 [{p}at], {{{values}}};
@{p}writes add.u64 {p}at, {p}at, {size};
"""


def _with_parameter(head: str, name: str) -> str:
    """The head of an .entry with the buffer and the number of recorded CTAs before its parameters."""
    ours = f".param .u64 {PARAMETER},\n\t.param .u32 {PARAMETER}_ctas"
    found = re.compile(rf"\.entry\s+{re.escape(name)}(?![\w$])\s*(\()?").search(head)
    assert found is not None, head
    if found[1] is None:
        return f"{head[: found.end()].rstrip()}(\n\t{ours}\n){head[found.end() :]}"
    rest = head[found.end() :]
    return f"{head[: found.end()]}\n\t{ours}{'' if rest.lstrip().startswith(')') else ','}{rest}"


# ---- what waits


@dataclass
class _Span:
    """One wait: `asks`, the instruction; `whole`, before which it begins; `exits`, the statements that it ends before, or behind."""

    name: str
    asks: ir.Instruction
    whole: ir.Statement
    exits: list[tuple[bool, ir.Statement]]
    entries: list[ir.Instruction]


def _spans(function: ir.Function) -> list[_Span]:
    flow, found = function.flow, []
    seen: set[int] = set()
    for block in flow.blocks:
        for each in block.instructions:
            if _WAITS.match(each.mnemonic):
                found.append(_alone(each))
            elif _ASKS.match(each.mnemonic):
                loop = _polls(block)
                if loop is None:
                    if each.opcode == "mbarrier":
                        found.append(_alone(each))
                elif id(loop) not in seen:
                    seen.add(id(loop))
                    found.append(_around(loop, each))
    return found


def _name(each: ir.Instruction) -> str:
    """The mnemonic as far as it says what is waited for: mbarrier.try_wait, bar.sync, ld.acquire."""
    words = each.mnemonic.split(".")
    last = next(
        (
            at
            for at, word in enumerate(words)
            if re.fullmatch(r"\w*wait\w*|sync|red|acquire|relaxed|volatile|mmio", word)
        ),
        0,
    )
    return ".".join(words[: last + 1])


def _alone(each: ir.Instruction) -> _Span:
    return _Span(_name(each), each, each, [(True, each)], [])


def _polls(block: BasicBlock) -> Loop | None:
    """The innermost loop of a block, if nothing is done in it but to ask and to go on."""
    loop = block.loop
    if loop is None or any(not _IDLE.match(each.mnemonic) for own in loop.blocks for each in own.instructions):
        return None
    return loop


def _around(loop: Loop, asks: ir.Instruction) -> _Span:
    own = set(map(id, loop.blocks))
    again = {_target(block) for block in loop.latches}
    labels = [each for each in loop.header.statements if isinstance(each, ir.Label)]
    first = next((at for at, each in enumerate(labels) if each.name in again), 0)  # those before it are met once
    inside = {each.name for each in labels[first:]}
    outside = [block for block in loop.header.predecessors if id(block) not in own]
    entries = [block.instructions[-1] for block in outside if _target(block) in inside]
    exits: list[tuple[bool, ir.Statement]] = []
    for after in dict.fromkeys(each for block in loop.blocks for each in block.successors if id(each) not in own):
        begin = next((each for each in after.statements if not isinstance(each, ir.Label)), None)
        if begin is not None:
            exits.append((False, begin))
        elif after.statements:
            exits.append((True, after.statements[-1]))
    return _Span(_name(asks), asks, labels[first], exits, entries)


def _target(block: BasicBlock) -> str:
    """The label that a block's last instruction branches to."""
    last = block.instructions[-1] if block.instructions else None
    return str(last.operands[0]) if last is not None and last.opcode == "bra" else ""
