"""The random programs of fuzz.py: scalar and packed numbers, video, matrices of a warp, copies, wgmma.

Each family is a class whose `program(seed)` is a Program.  fuzz_threads.py has the families in which threads work together.

Left out: functions without an exact result (gpu_differences.py measures those), float sums and products without `.rn`, which the assembler may fuse,
and what DIFFERENT names.
"""

import random
import re
import sys
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import sweep
import sweep_wgmma
from gpu_differences import REGISTER, TARGET, instances, width

VERSION = "8.7"
BATCH = 32  # programs of a module
INPUT = 1 << 17  # bytes that all programs of a module read
POOLS = {2: ("%h", 6, "b16"), 4: ("%w", 8, "b32"), 8: ("%d", 6, "b64")}
SIZES = {name[1]: size for size, (name, _, _) in POOLS.items()}
PREDICATES = 5
CELL = 32  # bytes of a thread's own memory
# What red.async and cp.reduce.async.bulk do to integers.
REDUCTIONS = [
    "add.u32", "add.s32", "add.u64", "min.u32", "max.s32", "and.b32", "or.b32", "xor.b32", "inc.u32", "dec.u32",
]  # fmt: skip

# What is known to differ, or may: section "Beside an H200" of docs/simulator.md says why.
DIFFERENT = re.compile(
    r"^(atom|red)\S*\.(v[248]|f64|f32|f16|bf16)|^cvt\.f32\.f32 |^(add|sub|mul|fma|mad)\.(?!\S*\.?r[nzmp]\b)\S*(f16|f32|f64|bf16)|^abs\.f64"
    r"|^set\S*\.(and|or|xor)\S* .*, \d+$|\.oob|^mul\S*\.(bf16x2\.f16x2|f16x2\.bf16x2)|^cvt\.pack\S* [a-z]64|^rsqrt\.approx\.f64 \S+, 0f"
)


# The assembler drops the guard of what it makes several instructions of (seen of releases 13.0 and 13.5), and never finishes some
# programs with a guarded setp of two halves; .sync has the whole warp.
UNGUARDED = re.compile(r"set\.|setp\.\S*x2|testp\.|neg\.|abs\.|\S*\.sync")
# Of these the assembler takes an operand that stands there twice for the result, NaNs with all their bits.
FOLDED = ("min.", "max.")
# What a line writes.
WRITTEN = re.compile(r"(?:@\S+ )?(?!st\.|red\.|bra\b|bar\.|setp|testp)[a-z]\S* (\{[^}]*\}|[^,;]*)")
# Of two operands that are NaNs the assembler may exchange the places, and f64 passes one on.
CANONICAL = re.compile(r"^(add|sub|mul|fma|mad|div|rcp|sqrt|min|max|neg|abs|copysign|cvt\S*)\.(\S*\.)?f64[. ]")


@dataclass
class Program:
    """A kernel: what is declared, what comes first, statements that can be left out from the end on, and what comes last."""

    family: str
    declared: list[str]
    before: list[str]
    statements: list[list[str]]
    after: list[str]
    size: int  # bytes of output that a thread has
    threads: int = 64
    seed: int = 0
    ctas: int = 1  # all of one cluster
    functions: list[str] = field(default_factory=list)  # @@ is the program's name
    directives: str = ""  # of the kernel

    @property
    def bytes(self) -> int:
        """Of its output; programs may use what is behind the threads' own."""
        return self.size * self.threads * self.ctas + 4096

    def text(self, name: str = "k", count: int | None = None) -> str:
        cluster = f" .reqnctapercluster {self.ctas}" if self.ctas > 1 else ""
        lines = [f".visible .entry {name}(.param .u64 input, .param .u64 output){cluster}{self.directives}", "{"]
        lines += [".reg .b64 %i, %o, %a, %m; .reg .b32 %t, %z, %s; .reg .pred %never;", *self.declared]
        lines += ["ld.param.u64 %i, [input]; ld.param.u64 %o, [output]; mov.u32 %t, %tid.x;"]
        lines += [f"mad.wide.u32 %o, %t, {self.size}, %o;", *self.before]
        lines += [line for statement in self.statements[:count] for line in statement]
        return "\n".join([*self.functions, *lines, *self.after, "ret;", "}", ""]).replace("@@", name)


CONSTANTS = random.Random(1).choices(range(256), k=256)
HEAD = f""".version {VERSION}
.target {TARGET}
.address_size 64
.const .align 16 .b8 constants[256] = {{{", ".join(map(str, CONSTANTS))}}};
.global .align 16 .b8 given[256] = {{{", ".join(map(str, reversed(CONSTANTS)))}}};
.func (.reg .b32 %r) turned(.reg .b32 %a, .reg .b32 %mask)
{{
redux.sync.xor.b32 %r, %a, %mask; prmt.b32 %r, %r, %a, 0x1234; ret;
}}
"""


# ---- scalar and packed numbers, warps, atomics, branches


def opaque(lines: list[str]) -> list[str]:
    """The lines, and what they write xor a zero that the assembler does not know.

    It takes a register of bits for what the instruction before made of it: `ex2.approx.f32 %w, ..; abs.f16x2 %w, %w;` has no abs in
    machine code, since what ex2 gives is not negative.  docs/simulator.md lists more.
    """
    written = dict.fromkeys(
        name for line in lines if (match := WRITTEN.match(line)) for name in re.findall(r"%[hwd]\d", match[1])
    )
    return [*lines, *(f"xor.{POOLS[SIZES[name[1]]][2]} {name}, {name}, %z{name[1]};" for name in written)]


class Scalar:
    """Instances of rows over shared registers."""

    def __init__(self, lines: list[str]):
        def fits(one) -> bool:
            kinds = {kind for kind, _ in one.results + one.sources}
            return (
                not DIFFERENT.search(one.text)
                and all(kind == "pred" or width(kind) in POOLS for kind in kinds)
                and bool(one.results or one.space)
            )

        found = [one for one in instances(lines, []) if fits(one)]
        self.by_opcode: dict[str, list] = {}
        for one in found:
            self.by_opcode.setdefault(one.mnemonic.split(".")[0], []).append(one)
        self.opcodes = sorted(self.by_opcode)

    def register(self, pick: random.Random, kind: str) -> str:
        if kind == "pred":
            return f"%p{pick.randrange(PREDICATES)}"
        name, count, _ = POOLS[width(kind)]
        return f"{name}{pick.randrange(count)}"

    def instance(self, pick: random.Random, converged: bool) -> list[str]:
        while True:
            one = pick.choice(self.by_opcode[pick.choice(self.opcodes)])
            if converged or not (".sync" in one.mnemonic or one.carries):
                break
        names: dict = {}
        results = {f"{kind}_{index}" for kind, index in one.results}
        apart = one.mnemonic.startswith(FOLDED)

        def rename(match):
            if match[0] not in names:
                new = self.register(pick, match[1])
                while (apart or match[0] in results) and new in names.values():  # results are different registers
                    new = self.register(pick, match[1])
                names[match[0]] = new
            return names[match[0]]

        operands = one.operands
        if ".sync" in one.mnemonic:  # the whole warp takes part
            front, _, _ = operands.rpartition(", ")
            operands = front + ", 0xffffffff"
        text = f"{one.mnemonic} {REGISTER.sub(rename, operands)};".replace("%address", "%a")
        out = []
        if one.carries:
            out.append(f"add.cc.u32 %z, {self.register(pick, 'u32')}, {self.register(pick, 'u32')};")
        if one.space:
            cell = f"%{one.space}"
            low, high = (self.register(pick, "u64") for _ in "12")
            out.append(f"st.{one.space}.v2.b64 [{cell}], {{{low}, {high}}};")
            generic = one.space == "shared" and ".shared" not in one.mnemonic
            out.append(f"cvta.shared.u64 %a, {cell};" if generic else f"mov.b64 %a, {cell};")
        out.append(text)
        if CANONICAL.match(one.text) and text.split()[1].startswith("%d"):
            d = text.split()[1].rstrip(",")
            out.append(f"testp.notanumber.f64 %never, {d}; selp.b64 {d}, 0x7ff8000000000000, {d}, %never;")
        if one.carries:
            out.append(f"addc.u32 {self.register(pick, 'u32')}, 0, 0;")
        if one.space:
            low = pick.randrange(POOLS[8][1])
            out.append(f"ld.{one.space}.v2.b64 {{%d{low}, %d{(low + 1) % POOLS[8][1]}}}, [{cell}];")
        return out

    def memory(self, pick: random.Random) -> list[str]:
        """A value goes through the thread's own memory and comes back with another width."""
        space = pick.choice(["shared", "global", "local"])
        base = "%" + space
        size = pick.choice([2, 4, 8])
        at = pick.randrange(0, CELL, size)
        out = [f"st.{space}.b{8 * size} [{base}+{at}], {POOLS[size][0]}{pick.randrange(POOLS[size][1])};"]
        kind, pool = pick.choice(
            [("s8", 4), ("u8", 4), ("s16", 4), ("u16", 4), ("b16", 2), ("b32", 4), ("s32", 8), ("u32", 8), ("b64", 8)]
        )
        bytes_ = int(kind[1:]) // 8
        at = at // bytes_ * bytes_
        name, count, _ = POOLS[pool]
        if pool == bytes_ and bytes_ >= 4 and at % (2 * bytes_) == 0 and pick.random() < 0.4:
            n = pick.randrange(count)
            return [*out, f"ld.{space}.v2.{kind} {{{name}{n}, {name}{(n + 1) % count}}}, [{base}+{at}];"]
        return [*out, f"ld.{space}.{kind} {name}{pick.randrange(count)}, [{base}+{at}];"]

    def statement(self, pick: random.Random, label: str, depth: int = 0) -> list[str]:
        how = pick.random()
        if how < 0.08 and depth < 2:  # a branch, both ways
            p = f"%p{pick.randrange(PREDICATES)}"
            inner = [self.statement(pick, f"{label}_{i}", depth + 1) for i in range(pick.randrange(1, 4))]
            other = [self.statement(pick, f"{label}_e{i}", depth + 1) for i in range(pick.randrange(0, 3))]
            return [
                f"@{pick.choice(['', '!'])}{p} bra {label}_else;",
                *chain.from_iterable(inner),
                f"bra {label}_end;",
                f"{label}_else:",
                *chain.from_iterable(other),
                f"{label}_end:",
            ]
        if how < 0.13 and depth < 1:  # a loop of 1 to 4 rounds, by thread
            counter = f"%n{label}"
            inner = [self.statement(pick, f"{label}_{i}", 2) for i in range(pick.randrange(1, 4))]
            return [
                "{",
                f".reg .b32 {counter}; .reg .pred {counter}p;",
                f"and.b32 {counter}, {self.register(pick, 'u32')}, 3;",
                f"{label}_loop:",
                *chain.from_iterable(inner),
                f"add.u32 {counter}, {counter}, -1;",
                f"setp.ge.s32 {counter}p, {counter}, 0;",
                f"@{counter}p bra {label}_loop;",
                "}",
            ]
        if how < 0.2:
            return opaque(self.memory(pick))
        if how < 0.25 and depth == 0:  # sums by many threads in one place
            op, kind = pick.choice(["add", "min", "max"]), pick.choice(["u32", "s32"])
            op, kind = pick.choice([(op, kind), ("xor", "b32"), ("or", "b32"), ("and", "b32")])
            return [
                "bar.sync 0;",
                "setp.eq.u32 %never, %t, 0; @%never st.shared.b32 [%common], 0;",
                "bar.sync 0;",
                f"red.shared.{op}.{kind} [%common], {self.register(pick, 'u32')};",
                "bar.sync 0;",
                f"ld.shared.b32 {self.register(pick, 'u32')}, [%common];",
            ]
        return opaque(self.guarded(pick, self.instance(pick, depth == 0), depth))

    def guarded(self, pick: random.Random, lines: list[str], depth: int) -> list[str]:
        if len(lines) == 1 and not UNGUARDED.match(lines[0]) and pick.random() < 0.15:
            return [f"@{pick.choice(['', '!'])}%p{pick.randrange(PREDICATES)} {lines[0]}"]
        return lines

    def program(self, seed: int) -> Program:
        pick = random.Random(seed)
        declared = [f".reg .{kind} {name}<{count}>;" for name, count, kind in POOLS.values()]
        declared += [".reg .b16 %zh; .reg .b32 %zw; .reg .b64 %zd;"]
        declared += [f".reg .pred %p<{PREDICATES}>; .reg .b64 %global, %shared, %local, %common;"]
        declared += [
            f".shared .align 16 .b8 cells[{64 * CELL}]; .shared .align 4 .b32 one; .local .align 16 .b8 own[{CELL}];"
        ]
        before, after, offset = [], [], pick.randrange(0, INPUT // 2, 64)
        before += ["ld.volatile.global.b64 %zd, [%o]; cvt.u32.u64 %zw, %zd; cvt.u16.u64 %zh, %zd;"]
        before += [
            "mul.wide.u32 %shared, %t, 32; mov.u64 %m, cells; add.u64 %shared, %shared, %m; mov.u64 %local, own; mov.u64 %common, one;"
        ]
        before += ["mad.wide.u32 %i, %t, 256, %i; add.u64 %global, %o, 0; setp.ne.u32 %never, %t, %t;"]
        at, out = 0, CELL
        for size, (name, count, _) in reversed(POOLS.items()):
            for i in range(count):
                before.append(f"ld.global.b{8 * size} {name}{i}, [%i+{offset + at}];")
                after.append(f"st.global.b{8 * size} [%o+{out}], {name}{i};")
                at, out = at + size, out + size
        out = -(-out // 4) * 4
        for i in range(PREDICATES):
            before.append(
                f"ld.global.b32 %z, [%i+{offset + 128 + 4 * i}]; and.b32 %z, %z, 1; setp.ne.u32 %p{i}, %z, 0;"
            )
            after.append(f"selp.b32 %z, 1, 0, %p{i}; st.global.b32 [%o+{out + 4 * i}], %z;")
        before += [
            f"st.{space}.v2.b64 [%{space}+{i}], {{%d0, %d1}};"
            for space in ("global", "shared", "local")
            for i in (0, 16)
        ]
        statements = [self.statement(pick, f"L{i}") for i in range(pick.randrange(8, 20))]
        size = -(-(out + 4 * PREDICATES) // 16) * 16
        return Program("scalar", declared, before, statements, after, size, 64, seed)


class Video(Scalar):
    """Video instructions between others."""

    def statement(self, pick: random.Random, label: str, depth: int = 0) -> list[str]:
        if pick.random() < 0.4:
            return super().statement(pick, label, depth)
        make = sweep.VideoCases(pick.getrandbits(32))
        case = pick.choice([make.vector, make.scalar, make.multiplication])(0)
        names = {f"%{x}": f"%w{pick.randrange(8)}" for x in ("d0", "a0", "a1", "a2")}
        return opaque([f"{case.mnemonic} " + re.sub(r"%[da]\d", lambda match: names[match[0]], case.operands) + ";"])

    def program(self, seed: int) -> Program:
        made = super().program(seed)
        made.family = "video"
        return made


# ---- matrices of a warp


class Matrices:
    """mma, ldmatrix, stmatrix, movmatrix over 32 registers of 32 bits: sums are added to again."""

    WORDS = 32

    def __init__(self):
        self.cases = sweep.cases()

    def statement(self, pick: random.Random) -> list[str]:
        def some(n: int) -> list[str]:
            first = pick.randrange(self.WORDS - n + 1)
            return [f"%w{first + i}" for i in range(n)]

        def braces(names: list[str]) -> str:
            return "{" + ", ".join(names) + "}"

        how = pick.random()
        if how < 0.55:
            case = pick.choice(self.cases)
            if case.types[1] == "f64":
                return self.doubles(case, some)
            d, a, b, c = (some(n) for n in case.registers)
            if len(d) == len(c) and (pick.random() < 0.5 or set(d) & set(c)):
                c = d  # of a d that has a part of c, where the assembler unpacks f8, c is read too late
            while len(d) != len(c) and set(d) & set(c):
                c = some(case.registers[3])
            more = ""
            if case.metadata:  # of two kinds of lanes
                first, second = (int("".join(pick.choices(case.metadata, k=8)), 16) for _ in "12")
                more = f", %s{case.extra}"
            line = f"{case.mnemonic} {', '.join(map(braces, (d, a, b, c)))}{more};"
            return [f"and.b32 %s, %t, {pick.choice([1, 2, 4])}; setp.eq.u32 %never, %s, 0; selp.b32 %s, {first:#x}, {second:#x}, %never;", line] if more else [line]  # fmt: skip
        count, trans = pick.choice([1, 2, 4]), pick.choice(["", ".trans"])
        row = f"mad.lo.u32 %s, %t, 16, %base; xor.b32 %s, %s, {16 * pick.randrange(32)};"
        if how < 0.75:
            return [row, f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {braces(some(count))}, [%s];"]
        if how < 0.85:
            return [
                "bar.warp.sync -1;",
                row,
                f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%s], {braces(some(count))};",
                "bar.warp.sync -1;",
            ]
        if how < 0.92:
            return [
                f"movmatrix.sync.aligned.m8n8.trans.b16 %w{pick.randrange(self.WORDS)}, %w{pick.randrange(self.WORDS)};"
            ]
        return [
            f"prmt.b32 %w{pick.randrange(self.WORDS)}, %w{pick.randrange(self.WORDS)}, %w{pick.randrange(self.WORDS)}, {pick.randrange(65536)};"
        ]

    @staticmethod
    def doubles(case, some) -> list[str]:
        d, a, b, c = (some(2 * n) for n in case.registers)
        out, names = ["{", f".reg .f64 {', '.join(f'%{x}<{n}>' for x, n in zip(('fd', 'fa', 'fb', 'fc'), case.registers, strict=True))};"], []  # fmt: skip
        for name, words in (("fd", d), ("fa", a), ("fb", b), ("fc", c)):
            pairs = [(f"%{name}{i // 2}", f"{{{words[i]}, {words[i + 1]}}}") for i in range(0, len(words), 2)]
            names.append("{" + ", ".join(register for register, _ in pairs) + "}")
            out += [f"mov.b64 {register}, {pair};" for register, pair in pairs if name != "fd"]
        out.append(f"{case.mnemonic} {', '.join(names)};")
        return [*out, *(f"mov.b64 {{{d[i]}, {d[i + 1]}}}, %fd{i // 2};" for i in range(0, len(d), 2)), "}"]

    def program(self, seed: int) -> Program:
        pick = random.Random(seed)
        declared = [f".reg .b32 %w<{self.WORDS}>, %base; .shared .align 1024 .b8 rows[512];"]
        offset = pick.randrange(0, INPUT // 2, 64)
        before = ["mov.u32 %base, rows; mad.wide.u32 %i, %t, 144, %i;"]
        before += [f"ld.global.b32 %w{i}, [%i+{offset + 4 * i}];" for i in range(self.WORDS)]
        before += ["mad.lo.u32 %s, %t, 16, %base; st.shared.v4.b32 [%s], {%w0, %w1, %w2, %w3}; bar.warp.sync -1;"]
        after = [f"st.global.b32 [%o+{4 * i}], %w{i};" for i in range(self.WORDS)]
        statements = [self.statement(pick) for _ in range(pick.randrange(3, 9))]
        return Program("matrices", declared, before, statements, after, 4 * self.WORDS, 32, seed)


# ---- copies that finish later, mbarriers


class Copies:
    """cp.async, bulk copies and reductions between global and shared memory, and mbarriers: each awaited before its bytes are used."""

    BYTES = 2048  # of shared memory; a thread of 64 owns 32 of them in the end

    def cp_async(self, pick: random.Random) -> list[str]:
        size = pick.choice([4, 8, 16])
        level = "cg" if size == 16 and pick.random() < 0.5 else "ca"
        less = pick.choice(["", "", f", {pick.randrange(size + 1)}"])
        source = pick.randrange(0, INPUT // 2, 16)
        wait = pick.choice(["cp.async.commit_group; cp.async.wait_group 0;", "cp.async.wait_all;", self.arrives()])
        at = pick.randrange(0, 32, size)
        return [
            f"mad.lo.u32 %s, %t, 32, %base; mad.wide.u32 %a, %t, {pick.choice([16, 32, 48])}, %i;",
            f"cp.async.{level}.shared.global [%s+{at}], [%a+{source}], {size}{less};",
            wait,
            "bar.sync 0;",
        ]

    def arrives(self) -> str:
        return "cp.async.mbarrier.arrive.noinc.shared.b64 [%bar+8]; " + self.wait(8)

    def wait(self, at: int) -> str:
        """All threads wait for the phase; %phase counts them."""
        self.labels += 1
        label, phase = f"W{self.labels}", f"%phase{at // 8}"
        return f"{label}: mbarrier.try_wait.parity.shared.b64 %q, [%bar+{at}], {phase}; @!%q bra {label}; xor.b32 {phase}, {phase}, 1;"

    def bulk(self, pick: random.Random) -> list[str]:
        size = 16 * pick.randrange(1, 33)
        at, source = 16 * pick.randrange((self.BYTES - size) // 16 + 1), pick.randrange(0, INPUT // 2, 16)
        return [
            "fence.proxy.async; bar.sync 0;",
            f"@%first mbarrier.arrive.expect_tx.shared.b64 %m, [%bar], {size};",
            f"@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%base+{at}], [%i+{source}], {size}, [%bar];",
            self.wait(0),
            "bar.sync 0;",
        ]

    def reduce(self, pick: random.Random) -> list[str]:
        kind = pick.choice(REDUCTIONS)
        noftz = pick.choice(["add.noftz.f16", "add.noftz.bf16", "min.f16", "max.bf16", kind, kind])
        size = 16 * pick.randrange(1, 17)
        at, to = 16 * pick.randrange((self.BYTES - size) // 16 + 1), 16 * pick.randrange((self.BYTES - size) // 16 + 1)
        copy = f"cp.async.bulk.global.shared::cta.bulk_group [%out+{to}], [%base+{at}], {size};"
        add = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{noftz} [%out+{to}], [%base+{at}], {size};"
        return [
            "fence.proxy.async; bar.sync 0;",
            f"@%first {pick.choice([copy, add])}",
            "@%first cp.async.bulk.commit_group;",
            "@%first cp.async.bulk.wait_group 0;",
            "fence.proxy.async; bar.sync 0;",
        ]

    def shared(self, pick: random.Random) -> list[str]:
        shift = pick.randrange(1, 64)
        return [
            f"xor.b32 %s, %t, {shift}; mad.lo.u32 %s, %s, 32, %base; ld.shared.v2.b64 {{%d0, %d1}}, [%s+{pick.choice([0, 16])}];",
            "bar.sync 0;",
            f"mad.lo.u32 %s, %t, 32, %base; st.shared.v2.b64 [%s+{pick.choice([0, 16])}], {{%d1, %d0}};",
            "bar.sync 0;",
        ]

    def count(self, pick: random.Random) -> list[str]:
        """An mbarrier's state, read between arrivals that all threads have made."""
        return [
            "bar.sync 0;",
            "@%first mbarrier.arrive.noComplete.shared.b64 %m, [%bar+16], 3;",
            "@%first mbarrier.pending_count.b64 %z, %m;",
            "@%first mbarrier.arrive.noComplete.shared.b64 %m, [%bar+16], 7;",
            "@%first mbarrier.pending_count.b64 %s, %m;",
            "@%first mad.lo.u32 %z, %s, 4096, %z;",
            "@%first st.shared.b32 [%base], %z;",
            f"@%first mbarrier.arrive.shared.b64 %m, [%bar+16], {99 - 10};",
            "bar.sync 0;",
        ]

    def program(self, seed: int) -> Program:
        pick, self.labels = random.Random(seed), 0
        declared = [
            f".shared .align 128 .b8 bytes[{self.BYTES}]; .shared .align 8 .b64 bars[3]; .reg .pred %q, %first;"
        ]
        declared += [".reg .b32 %base, %bar, %phase0, %phase1; .reg .b64 %d<4>, %out;"]
        before = [
            "mov.u32 %base, bytes; mov.u32 %bar, bars; setp.eq.u32 %first, %t, 0; mov.u32 %z, 0; mov.u32 %phase0, 0; mov.u32 %phase1, 0;"
        ]
        before += ["mul.wide.u32 %out, %t, 64; sub.u64 %out, %o, %out;"]
        before += [
            "@%first mbarrier.init.shared.b64 [%bar], 1; @%first mbarrier.init.shared.b64 [%bar+8], 64; @%first mbarrier.init.shared.b64 [%bar+16], 99;"
        ]
        before += [
            "fence.mbarrier_init.release.cluster;" if pick.random() < 0.3 else "",
            "mad.lo.u32 %s, %t, 32, %base;",
        ]
        before += [
            "mad.wide.u32 %a, %t, 32, %i; ld.global.v2.b64 {%d0, %d1}, [%a]; ld.global.v2.b64 {%d2, %d3}, [%a+16];"
        ]
        before += [
            "st.shared.v2.b64 [%s], {%d0, %d1}; st.shared.v2.b64 [%s+16], {%d2, %d3}; st.global.v2.b64 [%o], {%d0, %d2};"
        ]
        before += ["st.global.v2.b64 [%o+16], {%d1, %d3}; fence.proxy.async; bar.sync 0;"]
        after = [
            "bar.sync 0; mad.lo.u32 %s, %t, 32, %base; ld.shared.v2.b64 {%d0, %d1}, [%s]; ld.shared.v2.b64 {%d2, %d3}, [%s+16];"
        ]
        after += [
            "mul.wide.u32 %m, %t, 32; add.u64 %m, %out, %m; st.global.v2.b64 [%m+2048], {%d0, %d1}; st.global.v2.b64 [%m+2064], {%d2, %d3};"
        ]
        makers = [self.cp_async, self.bulk, self.reduce, self.shared, self.count]
        statements = [pick.choice(makers)(pick) for _ in range(pick.randrange(3, 10))]
        return Program("copies", declared, before, statements, after, 64, 64, seed)


# ---- wgmma


class Products:
    """wgmma of random types, descriptors and signs, some in a chain that adds to the same sums."""

    def program(self, seed: int) -> Program:
        pick = random.Random(seed)
        first = next(case for case in sweep_wgmma.cases(40, seed) if case.n <= 64 and case.seed % 3)
        count = first.registers()
        kind = {"f16": "b32", "s32": "s32"}.get(first.types[0], "f32")
        declared = [f".shared .align 1024 .b8 matrices[{sweep_wgmma.SHARED}]; .reg .{kind} %d<{count}>;"]
        declared += [".reg .b32 %a<4>, %e, %v<4>; .reg .b64 %x<3>; .reg .pred %q;"]
        tame = "ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%m];"
        before = [
            "mov.u32 %s, matrices; cvt.u64.u32 %x2, %s; shr.u64 %x2, %x2, 4; mad.lo.u32 %s, %t, 16, %s; mad.wide.u32 %m, %t, 16, %i;"
        ]
        before += [
            f"mov.u32 %z, 0; COPY: {tame} st.shared.v4.b32 [%s], {{%v0, %v1, %v2, %v3}}; add.u32 %s, %s, 2048; add.u64 %m, %m, 2048;"
        ]
        before += [f"add.u32 %z, %z, 1; setp.lt.u32 %q, %z, {sweep_wgmma.SHARED // 2048}; @%q bra COPY;"]
        before += [f"mad.wide.u32 %m, %t, {4 * (count + 8)}, %i;"]
        before += [f"ld.global.{kind} %d{i}, [%m+{4 * i + 256}];" for i in range(count)]
        before += [f"ld.global.b32 %a{i}, [%m+{4 * (count + i) + 256}];" for i in range(4)]
        metadata = pick.choice([0x44444444, 0xEEEEEEEE, 0x4E4E4E4E, 0xE4E4E4E4])
        before += [f"mov.b32 %e, {metadata};", f"setp.ne.s32 %q, {first.scale_d}, 0;"]
        before += ["fence.proxy.async; bar.sync 0; wgmma.fence.sync.aligned;"]
        # The assembler drops a product that is the same as one before, so all have other signs.
        signs = pick.sample(
            [(1, 1), (1, -1), (-1, 1), (-1, -1)], 1 if first.types[0] == "s32" else pick.randrange(1, 4)
        )
        statements = [[self.product(first, one)] for one in signs]
        after = ["wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"]
        after += [f"st.global.{kind} [%o+{4 * i}], %d{i};" for i in range(count)]
        return Program("wgmma", declared, before, statements, after, -(-4 * count // 16) * 16, 128, seed)

    @staticmethod
    def product(case, signs: tuple[int, int]) -> str:
        operands = ["{" + ", ".join(f"%d{i}" for i in range(case.registers())) + "}"]
        operands += ["{%a0, %a1, %a2, %a3}" if case.in_registers else "%x0", "%x1"]
        operands += ["%e", str(case.selector)] if case.sparse else []
        operands.append("%q")
        if case.types[0] != "s32":
            operands += map(str, signs)
        if case.bits == 16:
            operands += [] if case.in_registers else [str(int(case.a.mn_major))]
            operands.append(str(int(case.b.mn_major)))
        a, b = case.a.bits(0), case.b.bits(sweep_wgmma.A_BYTES)
        return f"add.u64 %x0, %x2, {a:#x}; add.u64 %x1, %x2, {b:#x}; {case.mnemonic()} {', '.join(operands)};"
