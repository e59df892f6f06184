"""Random programs of fuzz.py in which threads work together: atomics, barriers, collectives of divergent warps, clusters.

What a program leaves does not depend on the order of its threads, and it has no race: test_fuzz.py runs some under the sanitizer.
"""

import random

from fuzz_programs import INPUT, REDUCTIONS, Program

WORDS, LONGS = 8, 4  # registers %w and %d of a thread, which are what it leaves
SLOT = 8 * LONGS  # bytes of shared memory that a thread owns
THREADS = 64

ALL = "bar.sync 0;"


class Together:
    """Threads of one CTA, or of a cluster of them, with some shared memory."""

    family, ctas, threads = "", 1, THREADS
    widens = True  # mul.wide, which the assembler moves behind branches that change its operands

    def word(self, pick: random.Random) -> str:
        return f"%w{pick.randrange(WORDS)}"

    def long(self, pick: random.Random) -> str:
        return f"%d{pick.randrange(LONGS)}"

    def value(self, pick: random.Random, kind: str) -> str:
        return self.long(pick) if kind.endswith("64") else self.word(pick)

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def makers(self) -> list:
        raise NotImplementedError

    def mix(self, pick: random.Random) -> list[str]:
        """Something between the statements, so that a result is used."""
        a, b, c, d = (self.word(pick) for _ in "1234")
        n = pick.randrange(LONGS)
        some = [
            f"mad.lo.u32 {a}, {b}, {pick.randrange(1, 1 << 20, 2)}, {c};",
            f"shf.l.wrap.b32 {a}, {b}, {c}, {d};",
            f"lop3.b32 {a}, {b}, {c}, {d}, {pick.randrange(256)};",
            f"add.u64 %d{n}, %d{n}, {pick.randrange(1 << 30)};",
            f"popc.b32 {a}, {b};",
            *([f"mul.wide.u32 %d{n}, {a}, {b};"] if self.widens else []),
        ]
        return [pick.choice(some)]

    def program(self, seed: int) -> Program:
        pick, self.labels = random.Random(seed), 0
        declared = [
            f".reg .b32 %w<{WORDS}>, %g, %lane, %base, %own, %cells, %bar, %x, %y, %n, %mask<5>, %rank, %phase;",
            f".reg .b64 %d<{LONGS}>, %tail, %l, %j; .reg .pred %first, %p<5>, %q; .reg .f32 %f; .reg .f64 %e;",
            f".shared .align 128 .b8 bytes[{SLOT * self.threads}]; .shared .align 16 .b8 counts[128]; .shared .align 8 .b64 bars[2];",
        ]
        before = [
            f"mov.u32 %rank, %ctaid.x; mad.lo.u32 %g, %rank, {self.threads}, %t; mov.u32 %lane, %laneid; mov.u32 %phase, 0;",
            f"mov.u32 %base, bytes; mad.lo.u32 %own, %t, {SLOT}, %base; mov.u32 %cells, counts; mov.u32 %bar, bars;",
            f"setp.eq.u32 %first, %t, 0; mul.wide.u32 %l, %rank, {self.threads * 64}; add.u64 %o, %o, %l;",
            f"mul.wide.u32 %l, %g, 64; sub.u64 %tail, %o, %l; add.u64 %tail, %tail, {64 * self.threads * self.ctas};",
            "mov.u32 %x, 0; mov.u32 %y, 0; mov.u32 %n, 0; mov.b32 %mask0, -1; setp.ne.u32 %q, %t, %t;",
            f"mad.wide.u32 %m, %g, 64, %i; add.u64 %i, %i, {pick.randrange(0, INPUT // 2, 128)};",
        ]
        offset = pick.randrange(0, INPUT // 2, 64)
        before += [f"ld.global.b32 %w{i}, [%m+{offset + 4 * i}];" for i in range(WORDS)]
        before += [f"ld.global.b64 %d{i}, [%m+{offset + 4 * WORDS + 8 * i}];" for i in range(LONGS)]
        before += [f"st.shared.v2.b64 [%own+{at}], {{%d{at // 8}, %d{at // 8 + 1}}};" for at in range(0, SLOT, 16)]
        before += self.begin()
        statements = []
        for _ in range(pick.randrange(3, 10)):
            statements.append(pick.choice(self.makers())(pick) + self.mix(pick))
        made = Program(self.family, declared, before, statements, self.leaves(), 64, self.threads, seed)
        made.ctas = self.ctas
        return made

    def leaves(self) -> list[str]:
        """What a thread leaves in global memory."""
        words = [f"st.global.b32 [%o+{4 * i}], %w{i};" for i in range(WORDS)]
        return words + [f"st.global.b64 [%o+{4 * WORDS + 8 * i}], %d{i};" for i in range(LONGS)]

    def begin(self) -> list[str]:
        return [ALL]


# Operations whose order is all one.
COMMUTING = {
    "add": ["u32", "s32", "u64"],
    "min": ["u32", "s32", "u64", "s64"],
    "max": ["u32", "s32", "u64", "s64"],
    "and": ["b32", "b64"],
    "or": ["b32", "b64"],
    "xor": ["b32", "b64"],
    "inc": ["u32"],
    "dec": ["u32"],
}


class Atomics(Together):
    """atom and red: one cell of each thread with its old value, and cells of all threads by operations whose order is all one."""

    family = "atomics"

    def qualifiers(self, pick: random.Random) -> str:
        return pick.choice(
            ["", ".relaxed.cta", ".relaxed.gpu", ".acq_rel.cta", ".acq_rel.gpu", ".relaxed.sys", ".release.gpu"]
        )

    def place(self, pick: random.Random) -> tuple[str, str, str]:
        """Space, the address of 16 cells of 8 bytes, and its register's name."""
        return pick.choice([("shared", "%cells", "%y"), ("global", "%tail", "%j")])

    def filled(self, pick: random.Random, space: str, cells: str, first: str) -> list[str]:
        wide = "%l" if space == "global" else "%x"
        kind = "wide" if space == "global" else "lo"
        add = "64" if space == "global" else "32"
        return [
            ALL,
            f"setp.lt.u32 %p0, %t, 16; mul.{kind}.u32 {wide}, %t, 8; add.u{add} {wide}, {wide}, {cells};",
            f"@%p0 st.{space}.b64 [{wide}], {first};",
            ALL,
        ]

    def chosen(self, pick: random.Random, space: str, cells: str, at: str, step: int) -> list[str]:
        """`at` is a cell that a thread chooses."""
        kind = "wide" if space == "global" else "lo"
        count = 128 // step
        return [
            f"and.b32 %x, {self.word(pick)}, {pick.choice([count - 1, 3, 0])}; mad.{kind}.u32 {at}, %x, {step}, {cells};"
        ]

    def seen(self, pick: random.Random, space: str, cells: str) -> list[str]:
        d = self.long(pick)
        return [ALL, f"ld.{space}.b64 {d}, [{cells}+{8 * pick.randrange(16)}];"]

    def common(self, pick: random.Random) -> list[str]:
        space, cells, at = self.place(pick)
        op = pick.choice(sorted(COMMUTING))
        kind = pick.choice(COMMUTING[op])
        bound = str(pick.choice([0, 1, 5, 100, 0xFFFFFFFF])) if op in ("inc", "dec") else self.value(pick, kind)
        how = self.qualifiers(pick)
        line = f"red{how}.{space}.{op}.{kind} [{at}], {bound};"
        if ".acq_rel" in how or pick.random() < 0.3:
            line = f"atom{how}.{space}.{op}.{kind} {'%l' if kind.endswith('64') else '%n'}, [{at}], {bound};"
        return [
            *self.filled(pick, space, cells, self.long(pick)),
            *self.chosen(pick, space, cells, at, 8 if kind.endswith("64") else 4),
            line,
            *self.seen(pick, space, cells),
        ]

    def sums(self, pick: random.Random) -> list[str]:
        """Sums of whole numbers, which are exact in any order."""
        space, cells, at = self.place(pick)
        double = pick.random() < 0.5
        make = f"and.b32 %x, {self.word(pick)}, 4095; sub.u32 %x, %x, {pick.randrange(4096)};"
        kind, value = ("f64", "%e") if double else ("f32", "%f")
        how = pick.choice(["", ".relaxed.gpu", ".relaxed.cta"])
        return [
            *self.filled(pick, space, cells, "0"),
            *self.chosen(pick, space, cells, at, 8 if double else 4),
            f"{make} cvt.rn.{kind}.s32 {value}, %x; red{how}.{space}.add.{kind} [{at}], {value};",
            *self.seen(pick, space, cells),
        ]

    def swaps(self, pick: random.Random) -> list[str]:
        """A loop of cas, which each thread leaves once it was first."""
        space, cells, at = self.place(pick)
        wide = pick.random() < 0.5
        bits, step = (64, 8) if wide else (32, 4)
        old, new, got = ("%l", "%m", "%a") if wide else ("%n", "%s", "%z")
        label = self.label()
        return [
            *self.filled(pick, space, cells, self.long(pick)),
            *self.chosen(pick, space, cells, at, step),
            f"ld.relaxed.{'cta' if space == 'shared' else 'gpu'}.{space}.b{bits} {old}, [{at}];",
            f"{label}: add.u{bits} {new}, {old}, {self.value(pick, f'b{bits}')}; atom.{space}.cas.b{bits} {got}, [{at}], {old}, {new};",
            f"setp.ne.u{bits} %p1, {got}, {old}; mov.b{bits} {old}, {got}; @%p1 bra {label};",
            *self.seen(pick, space, cells),
        ]

    def alone(self, pick: random.Random) -> list[str]:
        """Atomics on what nobody else looks at, whose old value is known."""
        space = pick.choice(["shared", "global"])
        at, offset = ("%own", 0) if space == "shared" else ("%o", 0)
        op = pick.choice(["exch", "cas", *sorted(COMMUTING)])
        kind = pick.choice({"exch": ["b32", "b64"], "cas": ["b32", "b64", "b16"]}.get(op) or COMMUTING[op])
        offset = 8 * pick.randrange(4)
        back = f"ld.{space}.b64 {self.long(pick)}, [{at}+{offset}];"
        if kind == "b16":
            a, b, c = (self.word(pick) for _ in "123")
            body = f"cvt.u16.u32 %ha, {b}; cvt.u16.u32 %hb, {c}; atom.{space}.cas.b16 %hc, [{at}+{offset}], %ha, %hb; cvt.u32.u16 {a}, %hc;"
            return ["{", ".reg .b16 %ha, %hb, %hc;", body, "}", back]
        values = [self.value(pick, kind) for _ in range(2 if op == "cas" else 1)]
        how = self.qualifiers(pick).replace(".release.gpu", ".acquire.gpu")
        if pick.random() < 0.2 and op == "cas":  # one that succeeds
            values[0] = self.value(pick, kind)
            back = f"ld.{space}.{kind} {values[0]}, [{at}+{offset}]; " + back
            return [
                f"ld.{space}.{kind} {values[0]}, [{at}+{offset}];",
                f"atom{how}.{space}.cas.{kind} {self.value(pick, kind)}, [{at}+{offset}], {values[0]}, {values[1]};",
                back,
            ]
        return [f"atom{how}.{space}.{op}.{kind} {self.value(pick, kind)}, [{at}+{offset}], {', '.join(values)};", back]

    def floats(self, pick: random.Random) -> list[str]:
        """Of any bits, in a cell that nobody else looks at; f64 of numbers alone, since a NaN that signals stays as it is."""
        space, how = pick.choice(["shared", "global"]), self.qualifiers(pick).replace(".release.gpu", "")
        cell, at = {"shared": "%own", "global": "%o"}[space], 16 * pick.randrange(2)
        back = f"ld.{space}.b64 {self.long(pick)}, [{cell}+{at}];"
        kind = pick.choice(["f32", "f64", "f16x2", "bf16x2", "f16", "bf16", "vector"])
        if kind == "f64":
            finite, old, value = 0xBFFFFFFFFFFFFFFF, self.long(pick), self.long(pick)
            begin = (
                f"and.b64 %l, {old}, {finite:#x}; st.{space}.b64 [{cell}+{at}], %l; and.b64 %l, {value}, {finite:#x};"
            )
            return [begin, f"atom{how}.{space}.add.f64 {self.long(pick)}, [{cell}+{at}], %l;", back]
        if kind == "vector":
            kind, count = pick.choice(
                [("f32", 2), ("f32", 4), ("f16x2", 2), ("bf16x2", 2), ("f16x2", 4), ("bf16x2", 4)]
            )
            op = "add" if kind == "f32" else pick.choice(["add", "min", "max"]) + ".noftz"
            values, results = [self.word(pick) for _ in range(count)], pick.sample(range(WORDS), count)
            both = "{" + ", ".join(f"%w{i}" for i in results) + "}, ", "{" + ", ".join(values) + "}"
            line = f"atom{how}.global.{op}.v{count}.{kind} {both[0]}[%o+{at}], {both[1]};"
            return [line, f"ld.global.b64 {self.long(pick)}, [%o+{at + 8 * pick.randrange(2)}];"]
        op = "add" if kind == "f32" else "add.noftz"
        if kind in ("f16", "bf16"):
            a, b = self.word(pick), self.word(pick)
            body = f"cvt.u16.u32 %ha, {b}; atom{how}.{space}.{op}.{kind} %hb, [{cell}+{at + 2 * pick.randrange(4)}], %ha; cvt.u32.u16 {a}, %hb;"
            return ["{", ".reg .b16 %ha, %hb;", body, "}", back]
        atom = f"atom{how}.{space}.{op}.{kind} {self.word(pick)}, [{cell}+{at}], {self.word(pick)};"
        red = f"red{how.replace('.acquire', '.release')}.{space}.{op}.{kind} [{cell}+{at}], {self.word(pick)};"
        return [red if ".acq_rel" not in how and pick.random() < 0.4 else atom, back]

    def makers(self) -> list:
        return [self.common, self.common, self.sums, self.swaps, self.alone, self.alone, self.floats]

    def begin(self) -> list[str]:
        return [*(f"st.global.b64 [%o+{8 * i}], %d{i % LONGS};" for i in range(8)), ALL]


class Barriers(Together):
    """Barriers of CTAs with and without results, named ones of some warps, mbarriers."""

    family = "barriers"

    def reduced(self, pick: random.Random) -> list[str]:
        w = self.word(pick)
        test = f"setp.{pick.choice(['lt', 'gt', 'eq', 'ne'])}.u32 %p0, {self.word(pick)}, {self.word(pick)};"
        if pick.random() < 0.4:
            return [test, f"barrier.cta.red.popc.aligned.u32 {w}, {pick.randrange(4)}, {pick.choice(['', '!'])}%p0;"]
        op = pick.choice(["and", "or"])
        count = pick.choice(["", f", {THREADS}"])
        return [
            test,
            f"bar.red.{op}.pred %p1, {pick.randrange(4)}{count}, %p0; selp.b32 {w}, {self.word(pick)}, {w}, %p1;",
        ]

    def handed(self, pick: random.Random) -> list[str]:
        """One warp writes and arrives, the other waits and reads."""
        name, writer, shift = pick.randrange(1, 16), pick.randrange(2), pick.randrange(32)
        label = self.label()
        aligned = pick.choice(["barrier", "bar"])
        return [
            ALL,
            f"shr.u32 %x, %t, 5; setp.ne.u32 %p0, %x, {writer}; @%p0 bra {label}_r;",
            f"st.shared.b64 [%own], {self.long(pick)}; {aligned}.arrive {name}, {THREADS}; bra {label}_e;",
            f"{label}_r: {aligned}.sync {name}, {THREADS};",
            f"xor.b32 %x, %lane, {shift}; add.u32 %x, %x, {32 * writer}; mad.lo.u32 %x, %x, {SLOT}, %base; ld.shared.b64 {self.long(pick)}, [%x];",
            f"{label}_e:",
            ALL,
        ]

    def own_warp(self, pick: random.Random) -> list[str]:
        """Each warp has a barrier of its own."""
        return [
            ALL,
            f"shr.u32 %x, %t, 5; add.u32 %x, %x, {pick.randrange(1, 12)}; st.shared.b32 [%own+8], {self.word(pick)}; barrier.sync %x, 32;",
            f"xor.b32 %y, %t, {pick.randrange(1, 32)}; mad.lo.u32 %y, %y, {SLOT}, %base; ld.shared.b32 {self.word(pick)}, [%y+8];",
            ALL,
        ]

    def phases(self, pick: random.Random) -> list[str]:
        """An mbarrier from its init to its inval."""
        each, bytes_ = pick.randrange(1, 4), 8 * pick.randrange(0, 100)
        dropped = pick.random() < 0.4
        label = self.label()
        scope = pick.choice(["", ".release.cta", ".release.cluster"])
        wait = pick.choice(["", ".acquire.cta", ".acquire.cluster"])
        poll = pick.choice(["test_wait", "try_wait"])
        out = [ALL, f"@%first mbarrier.init.shared::cta.b64 [%bar], {each * THREADS};", ALL]
        for phase in range(pick.randrange(1, 4)):
            out.append(f"st.shared.b64 [%own+16], {self.long(pick)};")
            if bytes_ and phase == 0:
                out.append(f"@%first mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%bar], {bytes_};")
                out.append(f"@%first mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], {bytes_};")
            state = pick.random() < 0.5
            arrive = f"mbarrier.arrive{scope}.shared::cta.b64 %l, [%bar], {each};"
            out.append(arrive)
            if state:
                out.append(
                    f"{label}_{phase}: mbarrier.{poll}{wait}.shared::cta.b64 %p0, [%bar], %l; @!%p0 bra {label}_{phase};"
                )
            else:
                out.append(
                    f"{label}_{phase}: mbarrier.{poll}.parity{wait}.shared::cta.b64 %p0, [%bar], {phase & 1}; @!%p0 bra {label}_{phase};"
                )
            out.append(
                f"xor.b32 %x, %t, {pick.randrange(1, THREADS)}; mad.lo.u32 %x, %x, {SLOT}, %base; ld.shared.b64 {self.long(pick)}, [%x+16];"
            )
            out.append(ALL)
        if dropped:  # half of the threads leave; the phase behind it counts the others
            phase = out.count(ALL) - 2
            more = f"{label}_d"
            out += [
                f"setp.lt.u32 %p1, %t, 32; @%p1 mbarrier.arrive_drop.shared::cta.b64 %l, [%bar], {each}; @!%p1 mbarrier.arrive.shared::cta.b64 %l, [%bar], {each};",
                f"{more}: mbarrier.{poll}.shared::cta.b64 %p0, [%bar], %l; @!%p0 bra {more};",
                ALL,
                f"@!%p1 mbarrier.arrive.shared::cta.b64 %l, [%bar], {each};",
                f"{more}2: mbarrier.{poll}.parity.shared::cta.b64 %p0, [%bar], {(phase + 1) & 1}; @!%p0 bra {more}2;",
                ALL,
            ]
        return [*out, "@%first mbarrier.inval.shared::cta.b64 [%bar];", ALL]

    def makers(self) -> list:
        return [self.reduced, self.handed, self.own_warp, self.phases, self.phases]


class Collectives(Together):
    """Instructions of a warp under divergence: the lanes that come to one say who they are by a ballot before."""

    family, widens = "collectives", False
    DEPTH = 2

    def one(self, pick: random.Random, mask: str) -> list[str]:
        a, b, c = (self.word(pick) for _ in "123")
        d, p = self.long(pick), f"%p{pick.randrange(3, 5)}"
        test = f"setp.{pick.choice(['lt', 'eq', 'ge'])}.s32 {p}, {a}, {b};"
        how = pick.randrange(9)
        if how == 0:
            return [
                test,
                f"vote.sync.{pick.choice(['all', 'any', 'uni'])}.pred {p}, {p}, {mask}; selp.b32 {c}, {a}, {c}, {p};",
            ]
        if how == 1:
            return [test, f"vote.sync.ballot.b32 {c}, {pick.choice(['', '!'])}{p}, {mask};"]
        if how == 2:
            few = f"and.b32 %x, {a}, {pick.choice([1, 3, 15])};"
            return [f"{few} match.any.sync.b32 {c}, %x, {mask};"]
        if how == 3:
            return [
                f"and.b64 %l, {d}, {pick.choice([1, 3])}; match.all.sync.b64 {c}|{p}, %l, {mask}; selp.b32 {b}, {b}, {c}, {p};"
            ]
        if how == 4:
            kind = pick.choice(["u32", "s32"])
            return [f"redux.sync.{pick.choice(['add', 'min', 'max'])}.{kind} {c}, {a}, {mask};"]
        if how == 5:
            return [f"redux.sync.{pick.choice(['and', 'or', 'xor'])}.b32 {c}, {a}, {mask};"]
        if how == 6:
            return [f"elect.sync %x|{p}, {mask}; selp.b32 {c}, {a}, {c}, {p}; xor.b32 {c}, {c}, %x;"]
        if how == 7:  # a lane that takes no part gives nothing
            mode = pick.choice(["idx", "bfly"])
            lane = f"and.b32 %x, {a}, 31;" if mode == "idx" else f"mov.u32 %x, {pick.randrange(32)};"
            source = "mov.u32 %y, %x;" if mode == "idx" else "xor.b32 %y, %x, %lane;"
            return [
                f"{lane} {source} shfl.sync.{mode}.b32 %x|{p}, {b}, %x, 31, {mask};",
                f"shr.u32 %y, {mask}, %y; and.b32 %y, %y, 1; setp.ne.u32 {p}, %y, 0; selp.b32 {c}, %x, {c}, {p};",
            ]
        return [f"call (%x), turned, ({a}, {mask}); add.u32 {c}, {c}, %x;"]

    def block(self, pick: random.Random, depth: int) -> list[str]:
        out = []
        for _ in range(pick.randrange(1, 3)):
            how = pick.random()
            if how < 0.3 and depth < self.DEPTH:
                out += self.branch(pick, depth)
            elif how < 0.4 and depth < self.DEPTH:
                out += self.loop(pick, depth)
            elif how < 0.5 and depth < self.DEPTH:
                out += self.table(pick, depth)
            else:
                out += self.one(pick, f"%mask{depth}") + self.mix(pick)
        return out

    def branch(self, pick: random.Random, depth: int) -> list[str]:
        label, inner = self.label(), depth + 1
        p = f"%p{depth}"
        return [
            f"setp.{pick.choice(['lt', 'gt', 'ne'])}.s32 {p}, {self.word(pick)}, {self.word(pick)};",
            f"vote.sync.ballot.b32 %mask{inner}, {p}, %mask{depth}; @!{p} bra {label}_else;",
            *self.block(pick, inner),
            f"bra {label}_end;",
            f"{label}_else: not.b32 %mask{inner}, %mask{inner}; and.b32 %mask{inner}, %mask{inner}, %mask{depth};",
            *self.block(pick, inner),
            f"{label}_end:",
        ]

    def loop(self, pick: random.Random, depth: int) -> list[str]:
        """Each lane leaves after rounds of its own; who goes on is asked anew."""
        label, inner, p = self.label(), depth + 1, f"%p{depth}"
        counter = f"%n{label}"
        return [
            "{",
            f".reg .b32 {counter}; and.b32 {counter}, {self.word(pick)}, 3; mov.b32 %mask{inner}, %mask{depth};",
            f"{label}: setp.gt.s32 {p}, {counter}, 0; vote.sync.ballot.b32 %mask{inner}, {p}, %mask{inner}; @!{p} bra {label}_end;",
            *self.one(pick, f"%mask{inner}"),
            *self.mix(pick),
            f"sub.s32 {counter}, {counter}, 1; bra {label};",
            f"{label}_end:",
            "}",
        ]

    def table(self, pick: random.Random, depth: int) -> list[str]:
        label, inner, ways = self.label(), depth + 1, pick.randrange(2, 5)
        names = [f"{label}_{i}" for i in range(ways)]
        out = [
            f"rem.u32 %x, {self.word(pick)}, {ways}; match.any.sync.b32 %mask{inner}, %x, %mask{depth};",
            f"{label}: .branchtargets {', '.join(names)};",
            f"brx.idx %x, {label};",
        ]
        for name in names:
            out += [f"{name}:", *self.one(pick, f"%mask{inner}"), *self.mix(pick), f"bra {label}_end;"]
        return [*out, f"{label}_end:"]

    def statement(self, pick: random.Random) -> list[str]:
        up = f"shfl.sync.{pick.choice(['up', 'down'])}.b32 %x|%p3, {self.word(pick)}, {pick.randrange(32)}"
        segments = pick.choice([(0, 0x1F), (0x10, 0xF), (0x18, 7)])
        bound = segments[0] << 8 | (0 if ".up" in up else segments[1] | segments[0])
        whole = f"{up}, {bound}, -1; selp.b32 {self.word(pick)}, %x, 17, %p3;"
        return [whole, *self.block(pick, 0)]

    def makers(self) -> list:
        return [self.statement]


class Clusters(Together):
    """Two or four CTAs that write, read and copy into each other's shared memory."""

    family, ctas = "clusters", 2
    MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"

    def __init__(self, ctas: int = 2):
        self.ctas = ctas
        self.family = "clusters" if ctas == 2 else "four_ctas"

    def peer(self, pick: random.Random) -> str:
        """%y: the CTA that this one writes to; each is written by one."""
        return f"add.u32 %y, %rank, {pick.randrange(self.ctas)}; rem.u32 %y, %y, {self.ctas};"

    def stores(self, pick: random.Random) -> list[str]:
        at = 8 * pick.randrange(4)
        store = pick.choice(
            [
                f"st.shared::cluster.b64 [%x+{at}], {self.long(pick)};",
                f"st.shared::cluster.b32 [%x+{at}], {self.word(pick)};",
            ]
        )
        if at % 16 == 0 and pick.random() < 0.3:
            store = f"st.shared::cluster.v2.b64 [%x+{at}], {{{self.long(pick)}, {self.long(pick)}}};"
        return [
            self.peer(pick),
            "mapa.shared::cluster.u32 %x, %own, %y;",
            store,
            self.MEET,
            f"ld.shared.b64 {self.long(pick)}, [%own+{at}];",
            self.MEET,
        ]

    def loads(self, pick: random.Random) -> list[str]:
        at = 8 * pick.randrange(4)
        other = f"xor.b32 %x, %t, {pick.randrange(THREADS)}; mad.lo.u32 %x, %x, {SLOT}, %base;"
        if pick.random() < 0.4:  # by a generic address
            return [
                self.peer(pick),
                f"{other} cvt.u64.u32 %l, %x; cvta.shared.u64 %l, %l; mapa.u64 %l, %l, %y; ld.b64 {self.long(pick)}, [%l+{at}];",
                f"getctarank.u64 %x, %l; add.u32 {self.word(pick)}, %x, 1;",
                self.MEET,
            ]
        return [
            self.peer(pick),
            f"{other} mapa.shared::cluster.u32 %x, %x, %y; ld.shared::cluster.b64 {self.long(pick)}, [%x+{at}];",
            f"getctarank.shared::cluster.u32 %x, %x; xor.b32 {self.word(pick)}, %x, 77;",
            self.MEET,
        ]

    def adds(self, pick: random.Random) -> list[str]:
        """All threads of all CTAs into the cells of one."""
        op = pick.choice(["add.u32", "min.s32", "max.u32", "xor.b32", "or.b32", "add.u64", "inc.u32"])
        wide = op.endswith("64")
        value = "9" if op == "inc.u32" else self.value(pick, op)
        target = pick.randrange(self.ctas)
        return [
            "setp.lt.u32 %p0, %t, 16; mad.lo.u32 %x, %t, 8, %cells; @%p0 st.shared.b64 [%x], %d0;",
            self.MEET,
            f"and.b32 %x, {self.word(pick)}, {15 if wide else 31}; mad.lo.u32 %x, %x, {8 if wide else 4}, %cells; mov.u32 %y, {target};",
            f"mapa.shared::cluster.u32 %x, %x, %y; red.relaxed.cluster.shared::cluster.{op} [%x], {value};",
            self.MEET,
            f"ld.shared.b64 {self.long(pick)}, [%cells+{8 * pick.randrange(16)}];",
            self.MEET,
        ]

    def waits(self) -> str:
        label = self.label()
        return f"{label}: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p0, [%bar], %phase; @!%p0 bra {label}; xor.b32 %phase, %phase, 1;"

    def expects(self, size: int) -> str:
        return f"@%first mbarrier.arrive.expect_tx.shared::cta.b64 %l, [%bar], {size};"

    def sent(self, pick: random.Random) -> list[str]:
        """st.async and red.async of each thread to its place in another CTA."""
        form, count, size = pick.choice(
            [
                ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32", 1, 4),
                ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64", 1, 8),
                ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b64", 2, 16),
                ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32", 4, 16),
                *(
                    (
                        f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}",
                        1,
                        int(op[-2:]) // 8,
                    )
                    for op in REDUCTIONS
                ),
            ]
        )
        values = [self.value(pick, form if size != 16 else form[-3:]) for _ in range(count)]
        operand = values[0] if count == 1 else "{" + ", ".join(values) + "}"
        at = 16 * pick.randrange(2)
        return [
            self.expects(size * THREADS),
            self.MEET,
            self.peer(pick),
            f"mapa.shared::cluster.u32 %x, %own, %y; mapa.shared::cluster.u32 %n, %bar, %y; {form} [%x+{at}], {operand}, [%n];",
            self.waits(),
            f"ld.shared.b64 {self.long(pick)}, [%own+{at}];",
            self.MEET,
        ]

    def copied(self, pick: random.Random) -> list[str]:
        """One bulk copy or reduction of each CTA to another."""
        size = 16 * pick.randrange(1, 33)
        half = SLOT * THREADS // 2
        to, source = 16 * pick.randrange((half - size) // 16 + 1), half + 16 * pick.randrange((half - size) // 16 + 1)
        head, tail = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes", ""
        if pick.random() < 0.4:
            op = pick.choice(REDUCTIONS)
            head, tail = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes", f".{op}"
        return [
            self.expects(size),
            f"fence.proxy.async; {self.MEET}",
            self.peer(pick),
            f"mapa.shared::cluster.u32 %x, %base, %y; mapa.shared::cluster.u32 %n, %bar, %y; add.u32 %s, %base, {source};",
            f"@%first {head}{tail} [%x+{to}], [%s], {size}, [%n];",
            self.waits(),
            f"ld.shared.b64 {self.long(pick)}, [%base+{to + 8 * pick.randrange(size // 8)}];",
            self.MEET,
        ]

    def multicast(self, pick: random.Random) -> list[str]:
        """One copy of global memory into several CTAs."""
        size, mask = 16 * pick.randrange(1, 65), pick.randrange(1, 1 << self.ctas)
        to = 16 * pick.randrange((SLOT * THREADS - size) // 16 + 1)
        source, issuer, label = 16 * pick.randrange(1024), pick.randrange(self.ctas), self.label()
        return [
            f"mov.u32 %x, {mask}; shr.u32 %x, %x, %rank; and.b32 %x, %x, 1; setp.ne.u32 %p1, %x, 0; setp.eq.and.u32 %p2, %rank, {issuer}, %first; and.pred %p3, %p1, %first;",
            f"@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 %l, [%bar], {size}; fence.proxy.async; {self.MEET}",
            "{ .reg .b16 %who;",
            f"mov.b16 %who, {mask}; @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%base+{to}], [%i+{source}], {size}, [%bar], %who;",
            "}",
            f"@!%p1 bra {label};",
            self.waits(),
            f"ld.shared.b64 {self.long(pick)}, [%base+{to + 8 * pick.randrange(size // 8)}];",
            f"{label}:",
            self.MEET,
        ]

    def arrives(self, pick: random.Random) -> list[str]:
        """The threads of one CTA arrive at another's mbarrier, behind what they wrote there."""
        at = 8 * pick.randrange(4)
        return [
            self.peer(pick),
            f"mapa.shared::cluster.u32 %x, %own, %y; mapa.shared::cluster.u32 %n, %bar, %y; st.shared::cluster.b64 [%x+{at}], {self.long(pick)};",
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%n+8];",
            "{ .reg .b32 %odd;",
            f"mov.u32 %odd, 0; {self.label()}: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p0, [%bar+8], %odd; @!%p0 bra L{self.labels};",
            "}",
            f"xor.b32 %x, %t, {pick.randrange(THREADS)}; mad.lo.u32 %x, %x, {SLOT}, %base; ld.shared.b64 {self.long(pick)}, [%x+{at}];",
            self.MEET,
            f"@%first mbarrier.inval.shared::cta.b64 [%bar+8]; @%first mbarrier.init.shared::cta.b64 [%bar+8], {THREADS}; @%first fence.mbarrier_init.release.cluster;",
            self.MEET,
        ]

    def makers(self) -> list:
        return [self.stores, self.loads, self.adds, self.sent, self.copied, self.multicast, self.arrives]

    def begin(self) -> list[str]:
        return [
            f"@%first mbarrier.init.shared::cta.b64 [%bar], 1; @%first mbarrier.init.shared::cta.b64 [%bar+8], {THREADS};",
            f"@%first fence.mbarrier_init.release.cluster; fence.proxy.async; {self.MEET}",
        ]
