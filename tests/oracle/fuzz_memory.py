"""Random programs of fuzz.py that go through memory of every space and through functions.

Threads write their own cells, and read those of others behind a barrier: no program has a race.
"""

import random

from fuzz_programs import INPUT, Program
from fuzz_threads import ALL, LONGS, THREADS, Together

CELL = 64  # bytes that a thread owns in each space
CONSTANTS = 256  # bytes of the constant and global variables that HEAD initialises
SCOPES = ("cta", "cluster", "gpu", "sys")


class Memory(Together):
    """Loads and stores of every width, vector, order and cache operator; constants, stacks, generic addresses."""

    family = "memory"
    SPACES = ("shared", "global", "local", "")

    def begin(self) -> list[str]:
        fill = [f"st.{space}.b64 [%{space}_+{at}], %d{at // 8 % LONGS};" for space in ("shared", "global", "local") for at in range(0, CELL, 8)]  # fmt: skip
        return [
            f".reg .b64 %shared_, %global_, %local_, %generic_, %policy; .reg .b128 %q0; .reg .b16 %h<4>; .local .align 16 .b8 own[{CELL}];",
            f".shared .align 16 .b8 cells_[{CELL * THREADS}];",
            f"mul.wide.u32 %shared_, %t, {CELL}; mov.u64 %m, cells_; add.u64 %shared_, %shared_, %m; mov.u64 %local_, own;",
            f"mul.wide.u32 %global_, %t, {CELL}; add.u64 %global_, %tail, %global_;",
            "createpolicy.fractional.L2::evict_last.b64 %policy, 1.0; cvta.local.u64 %generic_, %local_;",
            *fill,
            ALL,
        ]

    def address(self, pick: random.Random, space: str, size: int) -> tuple[list[str], str]:
        """A place of `size` bytes in the thread's own cell: fixed, or by a register."""
        base, out = f"%{space}_" if space else "%generic_", []
        if not space:
            which = pick.choice(["shared", "global", "local"])
            out.append(f"cvta.{which}.u64 %generic_, %{which}_;")
        if pick.random() < 0.3:
            out.append(f"and.b32 %x, {self.word(pick)}, {CELL - size}; cvt.u64.u32 %a, %x; add.u64 %a, %a, {base};")
            return out, "[%a]"
        at = pick.randrange(0, CELL, size)
        return out, f"[{base}+{at}]" if at else f"[{base}]"

    def order(self, pick: random.Random, space: str, load: bool) -> str:
        """What stands between the opcode and the space."""
        if space == "local":
            return pick.choice(["", ".weak"])
        scope = pick.choice(SCOPES)
        strong = [".volatile", f".relaxed.{scope}", f".{'acquire' if load else 'release'}.{scope}"]
        return pick.choice(["", "", ".weak", *strong])

    def hints(self, pick: random.Random, space: str, order: str, load: bool) -> tuple[str, str]:
        """A cache operator, or priorities, and the operand of a policy."""
        if space == "local" or "volatile" in order:
            return "", ""
        how = pick.random()
        if how < 0.25 and order in ("", ".weak"):
            return "." + pick.choice(["ca", "cg", "cs", "lu", "cv"] if load else ["wb", "cg", "cs", "wt"]), ""
        if how < 0.5 and space == "global":
            first = pick.choice(["", ".L1::evict_normal", ".L1::evict_first", ".L1::evict_last", ".L1::no_allocate"])
            policy = pick.random() < 0.4
            fetch = pick.choice(["", ".L2::64B", ".L2::128B"]) if load else ""
            return first + (".L2::cache_hint" if policy else "") + fetch, ", %policy" if policy else ""
        return "", ""

    def values(self, pick: random.Random, size: int, count: int, load: bool) -> tuple[str, str]:
        """The type and the registers of a vector."""
        # No f: of a register that has a float the assembler stores an integer.
        kind = pick.choice("bus") + str(8 * size)
        pool = (lambda: self.long(pick)) if size == 8 or (size < 4 and pick.random() < 0.2) else lambda: self.word(pick)
        names: list[str] = []
        while len(names) < count:
            name = pool()
            if name not in names or not load:
                names.append(name)
        return kind, names[0] if count == 1 else "{" + ", ".join(names) + "}"

    def width(self, pick: random.Random) -> tuple[int, int]:
        size = pick.choice([1, 2, 4, 4, 8, 8])
        count = pick.choice([1, 1, 2] + ([4] if size <= 4 else []))
        return size, count

    def access(self, pick: random.Random, load: bool) -> list[str]:
        space = pick.choice(self.SPACES)
        size, count = self.width(pick)
        order = self.order(pick, space, load)
        hints, policy = self.hints(pick, space, order, load)
        kind, values = self.values(pick, size, count, load)
        before, place = self.address(pick, space, size * count)
        vector = f".v{count}" if count > 1 else ""
        dot = f".{space}" if space else ""
        mnemonic = f"{'ld' if load else 'st'}{order}{dot}{hints}{vector}.{kind}"
        return [*before, f"{mnemonic} {values}, {place}{policy};" if load else f"{mnemonic} {place}, {values}{policy};"]

    def store(self, pick: random.Random) -> list[str]:
        return self.access(pick, False)

    def load(self, pick: random.Random) -> list[str]:
        return self.access(pick, True)

    def wide(self, pick: random.Random) -> list[str]:
        """128 bits at once."""
        space, n = pick.choice(["shared", "global", "local"]), pick.randrange(LONGS - 1)
        order = self.order(pick, space, False)
        before, place = self.address(pick, space, 16)
        return [
            *before,
            f"mov.b128 %q0, {{{self.long(pick)}, {self.long(pick)}}}; st{order}.{space}.b128 {place}, %q0;",
            f"ld{self.order(pick, space, True)}.{space}.b128 %q0, {place}; mov.b128 {{%d{n}, %d{n + 1}}}, %q0;",
        ]

    def constant(self, pick: random.Random) -> list[str]:
        """Of what the module initialises, and of the input: memory that nothing writes."""
        size, count = self.width(pick)
        kind, values = self.values(pick, size, count, True)
        vector, bytes_ = f".v{count}" if count > 1 else "", size * count
        where = pick.choice(["const", "given", "nc", "ldu"])
        index = f"and.b32 %x, {self.word(pick)}, {CONSTANTS - bytes_}; cvt.u64.u32 %a, %x;"
        if where == "const":
            return [f"{index} mov.u64 %m, constants; add.u64 %a, %a, %m; ld.const{vector}.{kind} {values}, [%a];"]
        if where == "given":
            at = pick.randrange(0, CONSTANTS, bytes_)
            plain = f"ld.global{vector}.{kind} {values}, [given+{at}];"
            generic = f"{index} mov.u64 %m, given; add.u64 %a, %a, %m; cvta.global.u64 %a, %a; ld{vector}.{kind} {values}, [%a];"
            return [pick.choice([plain, generic])]
        start = pick.randrange(0, INPUT // 2, 64)
        if where == "ldu":  # one address of all threads
            return [f"ldu.global{vector}.{kind} {values}, [%i+{start}];"]
        how = pick.choice(["", ".ca", ".cg", ".cs"])
        return [f"{index} add.u64 %a, %a, %i; ld.global{how}.nc{vector}.{kind} {values}, [%a+{start}];"]

    def spaces(self, pick: random.Random) -> list[str]:
        """Where a generic address points to."""
        which, asked = (pick.choice(["shared", "global", "local"]) for _ in "12")
        back = f"cvta.to.{which}.u64 %a, %generic_; ld.{which}.b32 {self.word(pick)}, [%a+{4 * pick.randrange(CELL // 4)}];"
        w = self.word(pick)
        return [
            f"cvta.{which}.u64 %generic_, %{which}_; isspacep.{asked} %p0, %generic_; selp.b32 {w}, {w}, {self.word(pick)}, %p0;",
            back,
        ]

    def exchange(self, pick: random.Random) -> list[str]:
        space, shift = pick.choice(["shared", "global"]), pick.randrange(1, THREADS)
        at = 8 * pick.randrange(CELL // 8)
        base = "mov.u64 %m, cells_; add.u64 %a, %a, %m;" if space == "shared" else "add.u64 %a, %a, %tail;"
        load = pick.choice(["ld", "ld.relaxed.cta", "ld.volatile", "ld.acquire.gpu"])
        return [
            pick.choice(["", "fence.acq_rel.cta;", "membar.gl;", "fence.sc.gpu;", "membar.cta;"]) + ALL,
            f"xor.b32 %x, %t, {shift}; mul.wide.u32 %a, %x, {CELL}; {base} {load}.{space}.b64 {self.long(pick)}, [%a+{at}];",
            ALL,
        ]

    def stack(self, pick: random.Random) -> list[str]:
        """Memory of the stack, given back."""
        size = 16 * pick.randrange(1, 5)
        at = 8 * pick.randrange(size // 8)
        return [
            "{ .reg .b64 %top, %room;",
            f"stacksave.u64 %top; alloca.u64 %room, {size}; st.local.b64 [%room+{at}], {self.long(pick)};",
            f"ld.local.b64 {self.long(pick)}, [%room+{at}]; stackrestore.u64 %top;",
            "}",
        ]

    def prefetched(self, pick: random.Random) -> list[str]:
        """No value changes."""
        start = 128 * pick.randrange(64)
        return [
            pick.choice(
                [
                    f"prefetch.global.L{pick.choice('12')} [%i+{start}];",
                    f"prefetch.global.L2::evict_{pick.choice(['last', 'normal'])} [%i+{start}];",
                    f"cvta.global.u64 %a, %i; prefetchu.L1 [%a+{start}];",
                    f"cp.async.bulk.prefetch.L2.global [%i+{start}], {16 * pick.randrange(1, 9)};",
                    f"applypriority.global.L2::evict_normal [%i+{start // 128 * 128}], 128;",
                    "griddepcontrol.launch_dependents;",
                    "griddepcontrol.wait;",
                    f"pmevent {pick.randrange(16)};",
                    f"nanosleep.u32 {pick.randrange(50)};",
                ]
            )
        ]

    def makers(self) -> list:
        some = [self.wide, self.constant, self.constant, self.spaces, self.exchange, self.stack, self.prefetched]
        return [*some, *[self.store] * 4, *[self.load] * 4]


class Functions(Together):
    """Calls: by name and by pointer, under branches, with parameters of every size, arrays and recursion."""

    family, widens = "functions", False
    SIGNATURES = (("b32", "b32"), ("b64", "b64"), ("b16", "b8", "b32"), ("b32", "b64", "array"), ("array", "b32"))

    def body(self, pick: random.Random, out: list[str]) -> list[str]:
        """Statements over %v0 to %v3."""
        names = [f"%v{i}" for i in range(4)]
        for _ in range(pick.randrange(1, 5)):
            a, b, c, d = (pick.choice(names) for _ in "1234")
            out.append(
                pick.choice(
                    [
                        f"mad.lo.u32 {a}, {b}, {pick.randrange(1, 1 << 20, 2)}, {c};",
                        f"shf.r.wrap.b32 {a}, {b}, {c}, {d};",
                        f"lop3.b32 {a}, {b}, {c}, {d}, {pick.randrange(256)};",
                        f"prmt.b32 {a}, {b}, {c}, {d};",
                        f"setp.lt.s32 %p, {a}, {b}; selp.b32 {a}, {c}, {d}, %p;",
                        f"brev.b32 {a}, {b}; add.cc.u32 {a}, {a}, {c}; addc.u32 {d}, {d}, 0;",
                    ]
                )
            )
        return out

    def function(self, pick: random.Random, name: str, signature: tuple[str, ...], inner: str) -> str:
        """(.param .b32 r, and .b64 in an array) by the parameters; some return early, some call `inner`."""
        given, loads = [], ["mov.b32 %v0, 1; mov.b32 %v1, 2; mov.b32 %v2, 3; mov.b32 %v3, 4;"]
        for i, kind in enumerate(signature):
            a, b = pick.sample(range(4), 2)
            if kind == "array":
                given.append(f".param .align 8 .b8 p{i}[24]")
                loads.append(f"ld.param.v2.b32 {{%v{a}, %v{b}}}, [p{i}+{8 * pick.randrange(3)}];")
                loads.append(f"ld.param.s8 %v{pick.randrange(4)}, [p{i}+{pick.randrange(24)}];")
            elif kind == "b64":
                given.append(f".param .b64 p{i}")
                loads.append(f"ld.param.b64 %u, [p{i}]; mov.b64 {{%v{a}, %v{b}}}, %u;")
            else:
                given.append(f".param .{kind} p{i}")
                loads.append(f"ld.param.{kind.replace('b', pick.choice('us'))} %v{a}, [p{i}];")
        lines = [f".func (.param .align 8 .b8 r[16]) {name}({', '.join(given)})", "{"]
        lines += [".reg .b32 %v<4>; .reg .b64 %u; .reg .pred %p;", *loads]
        if pick.random() < 0.4:
            lines.append(
                "setp.gt.s32 %p, %v0, %v1; st.param.v2.b32 [r], {%v0, %v1}; st.param.v2.b32 [r+8], {%v3, %v2}; @%p ret;"
            )
        self.body(pick, lines)
        if inner:
            lines += [
                "{ .param .b64 x; .param .b64 y; .param .align 8 .b8 z[16]; mov.b64 %u, {%v0, %v1}; st.param.b64 [x], %u;",
                f"st.param.b64 [y], %u; call (z), {inner}, (x, y); ld.param.v2.b32 {{%v2, %v3}}, [z+8]; }}",
            ]
            self.body(pick, lines)
        lines += ["st.param.v2.b32 [r], {%v0, %v1}; st.param.b32 [r+8], %v2; st.param.b32 [r+12], %v3;", "ret;", "}"]
        return "\n".join(lines)

    def recursive(self, pick: random.Random, name: str) -> str:
        """Ends by the lowest two bits of its first word, and by a count that falls."""
        return "\n".join(
            [
                f".func (.param .b32 r) {name}(.param .b32 n, .param .b32 x)",
                "{",
                ".reg .b32 %v<4>, %n; .reg .pred %p;",
                "ld.param.b32 %n, [n]; ld.param.b32 %v0, [x]; mov.b32 %v1, %n; mov.b32 %v2, 77; mov.b32 %v3, %v0;",
                *self.body(pick, []),
                "setp.eq.u32 %p, %n, 0; st.param.b32 [r], %v0; @%p ret;",
                "sub.u32 %n, %n, 1;",
                "{ .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %n; st.param.b32 [b], %v0;",
                f"call (c), {name}, (a, b); ld.param.b32 %v1, [c]; }}",
                *self.body(pick, []),
                "st.param.b32 [r], %v0; ret;",
                "}",
            ]
        )

    def arguments(self, pick: random.Random, signature: tuple[str, ...]) -> list[str]:
        out = []
        for i, kind in enumerate(signature):
            if kind == "array":
                out.append(f".param .align 8 .b8 p{i}[24];")
                out += [f"st.param.b64 [p{i}+{at}], {self.long(pick)};" for at in (0, 8, 16)]
            else:
                out.append(f".param .{kind} p{i};")
                out.append(f"st.param.{kind} [p{i}], {self.long(pick) if kind == 'b64' else self.word(pick)};")
        return out

    def call(self, pick: random.Random) -> list[str]:
        which = pick.randrange(len(self.signatures))
        signature, names = self.signatures[which], ", ".join(f"p{i}" for i in range(len(self.signatures[which])))
        callee, after, before = f"@@_f{which}_{pick.randrange(2)}", "", []
        if pick.random() < 0.4:  # by a pointer that lanes may have different ones of
            kinds = {"array": ".param .align 8 .b8 _[24]"}
            label = self.label()
            listed = ", ".join(kinds.get(kind, f".param .{kind} _") for kind in signature)
            before = [
                f"mov.u64 %a, @@_f{which}_0; mov.u64 %m, @@_f{which}_1; setp.lt.s32 %p0, {self.word(pick)}, {self.word(pick)}; selp.b64 %a, %a, %m, %p0;",
                f"{label}: .callprototype (.param .align 8 .b8 _[16]) _ ({listed});",
            ]
            callee, after = "%a", f", {label}"
        result = pick.choice(
            [
                f"ld.param.v2.b64 {{%d{pick.randrange(2)}, %d{2 + pick.randrange(2)}}}, [ret_];",
                f"ld.param.b32 {self.word(pick)}, [ret_+{4 * pick.randrange(4)}]; ld.param.u16 {self.word(pick)}, [ret_+{2 * pick.randrange(8)}];",
                f"ld.param.b64 {self.long(pick)}, [ret_+8];",
            ]
        )
        align = 16 if ".v2.b64" in result else 8
        if align == 16:
            result = f"ld.param.b64 %d{pick.randrange(2)}, [ret_]; ld.param.b64 %d{2 + pick.randrange(2)}, [ret_+8];"
        return [
            "{",
            *before,
            ".param .align 8 .b8 ret_[16];",
            *self.arguments(pick, signature),
            f"call (ret_), {callee}, ({names}){after};",
            result,
            "}",
        ]

    def under(self, pick: random.Random) -> list[str]:
        label = self.label()
        return [
            f"setp.{pick.choice(['lt', 'gt', 'ne'])}.s32 %p1, {self.word(pick)}, {self.word(pick)}; @%p1 bra {label};",
            *self.call(pick),
            *(self.mix(pick) if pick.random() < 0.5 else []),
            f"{label}:",
        ]

    def again(self, pick: random.Random) -> list[str]:
        return [
            f"{{ .param .b32 n; .param .b32 x; .param .b32 y; and.b32 %x, {self.word(pick)}, 3;",
            f"st.param.b32 [n], %x; st.param.b32 [x], {self.word(pick)};",
            f"call (y), @@_again, (n, x); ld.param.b32 {self.word(pick)}, [y];",
            "}",
        ]

    def makers(self) -> list:
        return [self.call, self.call, self.under, self.again]

    def program(self, seed: int) -> Program:
        pick = random.Random(seed ^ 0x5EED)
        self.signatures = [("b64", "b64"), *(tuple(pick.choice(self.SIGNATURES)) for _ in range(2))]
        functions = [
            self.function(pick, f"@@_f{i}_{k}", signature, f"@@_f0_{k}" if i and pick.random() < 0.5 else "")
            for i, signature in enumerate(self.signatures)
            for k in range(2)
        ]
        made = super().program(seed)
        made.functions = [*functions, self.recursive(pick, "@@_again")]
        return made
