"""Random programs on the GPU and on the simulator: python tests/oracle/fuzz.py [--seconds N] [--workers N] [--seed N] [FAMILY...].

A program is a kernel of some dozen random statements over few registers, so that results flow from one into the next: instances of the rows
(oracle_instances, or a file of its lines), branches, loops, memory, copies that finish later, tensor cores.  What a program leaves in registers and
memory is compared bit by bit.  Of a program that differs the first statement that does is looked for and printed with what it read and wrote.
Each family has its own generator (FAMILIES).  Without a GPU, --assembler PATH shows that the programs are legal and run on the simulator.

Left out: functions without an exact result (gpu_differences.py measures those), float sums and products without `.rn`, which the assembler may fuse,
and what DIFFERENT names.
"""

import argparse
import ctypes
import multiprocessing
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from queue import Empty

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import sweep
import sweep_wgmma
from gpu_differences import APPROXIMATE, INSTANCES, REGISTER, TARGET, instances, lines_of, numbers, width

VERSION = "8.7"
BATCH = 32  # programs of a module
INPUT = 1 << 17  # bytes that all programs of a module read
POOLS = {2: ("%h", 6, "b16"), 4: ("%w", 8, "b32"), 8: ("%d", 6, "b64")}
PREDICATES = 5
CELL = 32  # bytes of a thread's own memory

# What is known to differ, or may: section "Beside an H200" of docs/simulator.md says why.
DIFFERENT = re.compile(
    r"^(atom|red)\S*\.(v[248]|f64|f32|f16|bf16)|^cvt\.f32\.f32 |^(add|sub|mul|fma|mad)\.(?!\S*\.?r[nzmp]\b)\S*(f16|f32|f64|bf16)|^abs\.f64"
    r"|^set\S*\.(and|or|xor)\S* .*, \d+$|\.oob|^mul\S*\.(bf16x2\.f16x2|f16x2\.bf16x2)"
)


# The assembler drops the guard of what it makes several instructions of (seen of releases 13.0 and 13.5); .sync has the whole warp.
UNGUARDED = re.compile(r"set\.|testp\.|neg\.|abs\.|\S*\.sync")
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
    names: list[str] = field(default_factory=list)  # of the words of the output

    def text(self, name: str = "k", count: int | None = None) -> str:
        lines = [f".visible .entry {name}(.param .u64 input, .param .u64 output)", "{"]
        lines += [".reg .b64 %i, %o, %a, %m; .reg .b32 %t, %z, %s; .reg .pred %never;", *self.declared]
        lines += ["ld.param.u64 %i, [input]; ld.param.u64 %o, [output]; mov.u32 %t, %tid.x;"]
        lines += [f"mad.wide.u32 %o, %t, {self.size}, %o;", *self.before]
        lines += [line for statement in self.statements[:count] for line in statement]
        return "\n".join([*lines, *self.after, "ret;", "}", ""])


HEAD = f".version {VERSION}\n.target {TARGET}\n.address_size 64\n"


# ---- scalar and packed numbers, warps, atomics, branches


class Scalar:
    """Instances of rows over shared registers."""

    def __init__(self, lines: list[str]):
        def fits(one) -> bool:
            kinds = {kind for kind, _ in one.results + one.sources}
            return (
                not APPROXIMATE.search(one.mnemonic)
                and not DIFFERENT.search(one.text)
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

        def rename(match):
            if match[0] not in names:
                new = self.register(pick, match[1])
                while match[0] in results and new in names.values():  # results are different registers
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
            return self.memory(pick)
        if how < 0.25 and depth == 0:  # sums by many threads in one place
            op, kind = pick.choice(["add", "min", "max"]), pick.choice(["u32", "s32"])
            op, kind = pick.choice([(op, kind), ("xor", "b32"), ("or", "b32"), ("and", "b32")])
            return [
                "bar.sync 0;",
                "st.shared.b32 [%common], 0;",
                "bar.sync 0;",
                f"red.shared.{op}.{kind} [%common], {self.register(pick, 'u32')};",
                "bar.sync 0;",
                f"ld.shared.b32 {self.register(pick, 'u32')}, [%common];",
            ]
        return self.guarded(pick, self.instance(pick, depth == 0), depth)

    def guarded(self, pick: random.Random, lines: list[str], depth: int) -> list[str]:
        if len(lines) == 1 and not UNGUARDED.match(lines[0]) and pick.random() < 0.15:
            return [f"@{pick.choice(['', '!'])}%p{pick.randrange(PREDICATES)} {lines[0]}"]
        return lines

    def program(self, seed: int) -> Program:
        pick = random.Random(seed)
        declared = [f".reg .{kind} {name}<{count}>;" for name, count, kind in POOLS.values()]
        declared += [f".reg .pred %p<{PREDICATES}>; .reg .b64 %global, %shared, %local, %common;"]
        declared += [
            f".shared .align 16 .b8 cells[{64 * CELL}]; .shared .align 4 .b32 one; .local .align 16 .b8 own[{CELL}];"
        ]
        before, after, names, offset = [], [], [], pick.randrange(0, INPUT // 2, 64)
        before += [
            "mul.wide.u32 %shared, %t, 32; mov.u64 %m, cells; add.u64 %shared, %shared, %m; mov.u64 %local, own; mov.u64 %common, one;"
        ]
        before += ["mad.wide.u32 %i, %t, 256, %i; add.u64 %global, %o, 0; setp.ne.u32 %never, %t, %t;"]
        at, out = 0, CELL
        for size, (name, count, _) in reversed(POOLS.items()):
            for i in range(count):
                before.append(f"ld.global.b{8 * size} {name}{i}, [%i+{offset + at}];")
                after.append(f"st.global.b{8 * size} [%o+{out}], {name}{i};")
                names.append(f"{name}{i}")
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
        return Program("scalar", declared, before, statements, after, size, 64, seed, names)


class Video(Scalar):
    """Video instructions between others."""

    def statement(self, pick: random.Random, label: str, depth: int = 0) -> list[str]:
        if pick.random() < 0.4:
            return super().statement(pick, label, depth)
        make = sweep.VideoCases(pick.getrandbits(32))
        case = pick.choice([make.vector, make.scalar, make.multiplication])(0)
        names = {f"%{x}": f"%w{pick.randrange(8)}" for x in ("d0", "a0", "a1", "a2")}
        return [f"{case.mnemonic} " + re.sub(r"%[da]\d", lambda match: names[match[0]], case.operands) + ";"]

    def program(self, seed: int) -> Program:
        made = super().program(seed)
        made.family = "video"
        return made


# ---- matrices of a warp


class Matrices:
    """mma, ldmatrix, stmatrix, movmatrix over 32 registers of 32 bits: sums are added to again."""

    WORDS = 32

    def __init__(self):
        self.cases = [case for case in sweep.cases() if case.types[1] != "f64" and not case.metadata]

    def statement(self, pick: random.Random) -> list[str]:
        def some(n: int) -> list[str]:
            first = pick.randrange(self.WORDS - n + 1)
            return [f"%w{first + i}" for i in range(n)]

        def braces(names: list[str]) -> str:
            return "{" + ", ".join(names) + "}"

        how = pick.random()
        if how < 0.55:
            case = pick.choice(self.cases)
            d, a, b, c = (some(n) for n in case.registers)
            if len(d) == len(c) and (pick.random() < 0.5 or set(d) & set(c)):
                c = d  # of a d that has a part of c, where the assembler unpacks f8, c is read too late
            while len(d) != len(c) and set(d) & set(c):
                c = some(case.registers[3])
            return [f"{case.mnemonic} {', '.join(map(braces, (d, a, b, c)))};"]
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

    def program(self, seed: int) -> Program:
        pick = random.Random(seed)
        declared = [f".reg .b32 %w<{self.WORDS}>, %base; .shared .align 1024 .b8 rows[512];"]
        offset = pick.randrange(0, INPUT // 2, 64)
        before = ["mov.u32 %base, rows; mad.wide.u32 %i, %t, 144, %i;"]
        before += [f"ld.global.b32 %w{i}, [%i+{offset + 4 * i}];" for i in range(self.WORDS)]
        before += ["mad.lo.u32 %s, %t, 16, %base; st.shared.v4.b32 [%s], {%w0, %w1, %w2, %w3}; bar.warp.sync -1;"]
        after = [f"st.global.b32 [%o+{4 * i}], %w{i};" for i in range(self.WORDS)]
        statements = [self.statement(pick) for _ in range(pick.randrange(3, 9))]
        return Program(
            "matrices",
            declared,
            before,
            statements,
            after,
            4 * self.WORDS,
            32,
            seed,
            [f"%w{i}" for i in range(self.WORDS)],
        )


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
        kind = pick.choice(
            [
                "add.u32",
                "add.s32",
                "add.u64",
                "min.u32",
                "max.s32",
                "and.b32",
                "or.b32",
                "xor.b32",
                "inc.u32",
                "dec.u32",
            ]
        )
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
        chain = [first]
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
        chain += [first] * pick.randrange(0, 3)
        statements = [[self.product(case, pick)] for case in chain]
        after = ["wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"]
        after += [f"st.global.{kind} [%o+{4 * i}], %d{i};" for i in range(count)]
        return Program(
            "wgmma",
            declared,
            before,
            statements,
            after,
            -(-4 * count // 16) * 16,
            128,
            seed,
            [f"%d{i}" for i in range(count)],
        )

    @staticmethod
    def product(case, pick: random.Random) -> str:
        operands = ["{" + ", ".join(f"%d{i}" for i in range(case.registers())) + "}"]
        operands += ["{%a0, %a1, %a2, %a3}" if case.in_registers else "%x0", "%x1"]
        operands += ["%e", str(case.selector)] if case.sparse else []
        operands.append("%q")
        if case.types[0] != "s32":
            operands += [str(pick.choice((1, -1))) for _ in "ab"]
        if case.bits == 16:
            operands += [] if case.in_registers else [str(int(case.a.mn_major))]
            operands.append(str(int(case.b.mn_major)))
        a, b = case.a.bits(0), case.b.bits(sweep_wgmma.A_BYTES)
        return f"add.u64 %x0, %x2, {a:#x}; add.u64 %x1, %x2, {b:#x}; {case.mnemonic()} {', '.join(operands)};"


FAMILIES = {"scalar": 12, "video": 2, "matrices": 3, "copies": 2, "wgmma": 1}  # with how many batches of each there are


# ---- the machines


class Device:
    def __init__(self):
        from run_fixtures import Gpu

        self.call = Gpu().call

    def run(self, programs: list[Program], given: np.ndarray) -> list[np.ndarray]:
        text = HEAD + "".join(program.text(f"k{i}") for i, program in enumerate(programs))
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(1 << 14)
        keys = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER, its size
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), text.encode() + b"\0", 2, keys, values)
        except RuntimeError as error:
            line = re.search(r"line (\d+)", log.value.decode())
            shown = text.splitlines()[int(line[1]) - 1] if line else ""
            raise Refused(f"{error}: {log.value.decode()[:300]} {shown}") from None
        sizes = [given.nbytes, *(program.size * program.threads + 4096 for program in programs)]
        pointer = ctypes.c_uint64()
        places = np.cumsum([0, *(-(-size // 256) * 256 for size in sizes)])
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(int(places[-1])))
        self.call("cuMemsetD8_v2", pointer, 0, ctypes.c_size_t(int(places[-1])))
        self.call("cuMemcpyHtoD_v2", pointer, given.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(given.nbytes))
        for i, program in enumerate(programs):
            function, out = ctypes.c_void_p(), ctypes.c_uint64(pointer.value + int(places[i + 1]))
            self.call("cuModuleGetFunction", ctypes.byref(function), module, f"k{i}".encode())
            arguments = (ctypes.c_void_p * 2)(ctypes.addressof(pointer), ctypes.addressof(out))
            self.call("cuLaunchKernel", function, 1, 1, 1, program.threads, 1, 1, 0, None, arguments, None)
        self.call("cuCtxSynchronize")
        everything = np.zeros(int(places[-1] - places[1]), np.uint8)
        source = ctypes.c_uint64(pointer.value + int(places[1]))
        self.call(
            "cuMemcpyDtoH_v2", everything.ctypes.data_as(ctypes.c_void_p), source, ctypes.c_size_t(everything.nbytes)
        )
        self.call("cuMemFree_v2", pointer)
        self.call("cuModuleUnload", module)
        starts = places[1:] - places[1]
        return [everything[at : at + size] for at, size in zip(starts, sizes[1:], strict=False)]


class Refused(Exception):
    pass


class Assembler:
    """Stands for the device: says whether ptxas takes the programs."""

    def __init__(self, path: str):
        self.path = path

    def run(self, programs: list[Program], given: np.ndarray) -> list[np.ndarray]:
        text = HEAD + "".join(program.text(f"k{i}") for i, program in enumerate(programs))
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
            file.write(text)
            file.flush()
            done = subprocess.run(
                [self.path, f"-arch={TARGET}", file.name, "-o", "/dev/null"], capture_output=True, text=True
            )
        if done.returncode:
            line = re.search(r"line (\d+)", done.stderr)
            raise Refused(done.stderr[:600] + (text.splitlines()[int(line[1]) - 1] if line else ""))
        return [simulate(program, given) for program in programs]


def simulate(program: Program, given: np.ndarray) -> np.ndarray:
    from pyptx import _core

    memory = np.zeros(program.size * program.threads + 4096 + 256, np.uint8)
    start = -memory.ctypes.data % 256
    out = memory[start : start + program.size * program.threads + 4096]
    _core.run_text(
        (HEAD + program.text()).encode(),
        "k.ptx",
        "k",
        (1, 1, 1),
        (program.threads, 1, 1),
        (1, 1, 1),
        0,
        [memoryview(given), memoryview(out)],
    )
    return out


# ---- what differs


def first_difference(machine, program: Program, given: np.ndarray) -> str:
    """The first statement behind which the two machines have different bytes, with one thread's words before and after it."""

    def both(count: int):
        part = replace(program, statements=program.statements[:count])
        return machine.run([part], given)[0], simulate(part, given)

    low, high = 0, len(program.statements)
    while high - low > 1:
        middle = (low + high) // 2
        gpu, simulated = both(middle)
        low, high = (low, middle) if (gpu != simulated).any() else (middle, high)
    statement = " ".join(program.statements[high - 1]) if high else "(none)"
    before, (gpu, simulated) = both(high - 1)[1], both(high)
    wrong = np.flatnonzero(gpu != simulated)
    if not len(wrong):
        return f"{program.family} {program.seed}: not seen again"
    thread, byte = divmod(int(wrong[0]), program.size)
    at = thread * program.size + byte // 8 * 8
    row = before[thread * program.size : (thread + 1) * program.size].view(np.uint32)
    words = f"GPU {gpu[at : at + 8][::-1].tobytes().hex()}, simulator {simulated[at : at + 8][::-1].tobytes().hex()}"
    used = " ".join(f"{word:08x}" for word in row[8:] if program.family in ("scalar", "video"))
    return f"{program.family} {program.seed}: `{statement[:400]}` thread {thread} byte {byte // 8 * 8}: {words}; before: {used[:420]}"


@dataclass
class Found:
    programs: Counter = field(default_factory=Counter)
    differ: Counter = field(default_factory=Counter)
    statements: Counter = field(default_factory=Counter)
    words: list[str] = field(default_factory=list)
    crash: int | None = None  # the seed of a batch that the GPU faulted at
    crashes: list[int] = field(default_factory=list)

    def add(self, other: "Found"):
        self.programs += other.programs
        self.differ += other.differ
        self.statements += other.statements
        self.words += other.words
        self.crashes += [] if other.crash is None else [other.crash]


def makers(lines: list[str], families: list[str]) -> list:
    made = {
        "scalar": lambda: Scalar(lines),
        "video": lambda: Video(lines),
        "matrices": Matrices,
        "copies": Copies,
        "wgmma": Products,
    }
    chosen = {name: made[name]() for name in FAMILIES if not families or name in families}
    return [chosen[name] for name, count in FAMILIES.items() if name in chosen for _ in range(count)]


def data(seed: int) -> np.ndarray:
    """What the programs of a batch read, aligned as a device's memory."""
    draw, aligned = np.random.default_rng(seed), np.zeros(INPUT + 256, np.uint8)
    start = -aligned.ctypes.data % 256
    parts = [numbers(draw, size, INPUT // 4 // size).view(np.uint8) for size in (4, 2, 8, 4)]
    aligned[start : start + INPUT] = np.concatenate(parts)
    return aligned[start : start + INPUT]


def batch(machine, maker, seed: int) -> Found:
    out, given = Found(), data(seed)
    programs = [maker.program(seed * BATCH + i) for i in range(BATCH)]
    try:
        real = machine.run(programs, given)
    except Refused as refused:
        out.words.append(f"refused: {refused}")
        return out
    for program, gpu in zip(programs, real, strict=True):
        try:
            simulated = simulate(program, given)
        except Exception as error:
            out.differ[program.family] += 1
            out.words.append(f"{program.family} {program.seed}: the simulator: {str(error)[:500]}")
            continue
        out.programs[program.family] += 1
        out.statements[program.family] += len(program.statements)
        if (gpu != simulated).any():
            out.differ[program.family] += 1
            if len(out.words) < 2:
                out.words.append(first_difference(machine, program, given))
    return out


def work(arguments, lines: list[str], seed: int, end: float, queue):
    """Batches until the time is over or the GPU faults: then its context is of no more use, and another process goes on."""
    found = Found()
    try:
        machine = Assembler(arguments.assembler) if arguments.assembler else Device()
        kinds = makers(lines, arguments.families)
        while True:
            found.crash = seed
            found.add(batch(machine, kinds[seed // arguments.workers % len(kinds)], seed))
            found.crash = None
            seed += arguments.workers
            if time.monotonic() > end:
                break
    except Exception as error:
        found.words.append(f"batch {seed}: {type(error).__name__} {str(error)[:300]}")
    queue.put((seed, found))


def runs(arguments, maker, seed: int, count: int | None) -> bool:
    """Whether a process of its own gets through the first statements of a program."""

    def run():
        Device().run([replace(program, statements=program.statements[:count])], data(seed // BATCH))

    program = maker.program(seed)
    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join(10)
    return process.exitcode == 0


def faulting(arguments, lines: list[str], seed: int) -> str:
    """The statement of a batch's first program that makes the GPU fault."""
    kinds = makers(lines, arguments.families)
    maker = kinds[seed // arguments.workers % len(kinds)]
    with ThreadPoolExecutor(arguments.workers) as pool:
        fine = list(pool.map(lambda i: runs(arguments, maker, seed * BATCH + i, None), range(BATCH)))
    if all(fine):
        return f"batch {seed}: each program alone runs"
    program = maker.program(seed * BATCH + fine.index(False))
    with ThreadPoolExecutor(arguments.workers) as pool:
        through = list(pool.map(lambda n: runs(arguments, maker, program.seed, n), range(len(program.statements))))
    at = through.index(False) if False in through else len(through)
    before = " | ".join(" ".join(lines) for lines in program.statements[max(0, at - 3) : at - 1])
    return f"{program.family} {program.seed}: `{' '.join(program.statements[at - 1])[:500]}` faults; before it {before[:500]}"


def report(found: Found, most: int) -> list[str]:
    """One difference for each opcode that is in one, then the sums."""
    shown: dict[str, str] = {}
    for words in found.words:
        match = re.search(r"`(?:@\S+ )?([^ ;`]*)", words)
        shown.setdefault(match[1] if match else words[:60], words)
    out = list(shown.values())[:most]
    for name, count in sorted(found.programs.items()):
        out.append(f"{name}: {count} programs of {found.statements[name]} statements, {found.differ[name]} differ")
    return [*out, f"{found.programs.total()} programs, {found.differ.total()} differ"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=20, help="differences at most")
    parser.add_argument("--faults", type=int, default=0, help="so many batches at which the GPU faults are looked into")
    parser.add_argument("--instances", type=Path, default=INSTANCES, help="oracle_instances, or a file with its lines")
    parser.add_argument("--assembler", metavar="PATH", help="ptxas; no GPU")
    arguments = parser.parse_args()
    lines = lines_of(arguments.instances, VERSION)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    end, first = time.monotonic() + arguments.seconds, arguments.seed * 1_000_000

    def start(seed: int):
        context.Process(target=work, args=(arguments, lines, seed, end, queue), daemon=True).start()

    for i in range(arguments.workers):
        start(first + i)
    found, at_work = Found(), arguments.workers
    while at_work:
        try:
            seed, one = queue.get(timeout=arguments.seconds + 15)
        except Empty:
            found.words.append(f"{at_work} workers did not come back")
            break
        found.add(one)
        if one.crash is not None and time.monotonic() < end:
            start(seed + arguments.workers)
            continue
        at_work -= 1
    print("\n".join(report(found, arguments.show)), flush=True)
    for seed in found.crashes[: arguments.faults]:
        print(faulting(arguments, lines, seed), flush=True)
    return int(bool(found.differ.total() or not found.programs.total()))


if __name__ == "__main__":
    sys.exit(main())
