"""Random programs of fuzz.py with wmma: fragments loaded, multiplied, stored and loaded again."""

import random
from dataclasses import dataclass

from fuzz_programs import INPUT, Program

BYTES = 4096  # of shared memory, of which each program reads any part


@dataclass
class Shape:
    """Types of d, a, b, c; registers of each and elements in its registers; what modifies the mnemonic."""

    shape: str
    types: tuple[str, str, str, str]
    registers: tuple[int, int, int, int]
    register: tuple[str, str, str, str]
    layouts: tuple[str, ...] = ("row.col", "row.row", "col.row", "col.col")
    operation: str = ""  # of one bit
    end: str = ""


def shapes() -> list[Shape]:
    out = []
    for shape, a, b in (("m16n16k16", 4, 4), ("m8n32k16", 2, 8), ("m32n8k16", 8, 2)):
        for d in ("f16", "f32"):
            for c in ("f16", "f32"):
                count = {"f16": 4, "f32": 8}
                kinds = {"f16": "b32", "f32": "f32"}
                out.append(
                    Shape(shape, (d, "f16", "f16", c), (count[d], 8, 8, count[c]), (kinds[d], "b32", "b32", kinds[c]))
                )
        out.append(Shape(shape, ("f32", "bf16", "bf16", "f32"), (8, a, b, 8), ("f32", "b32", "b32", "f32")))
        for kind in ("s8", "u8"):
            for end in ("", ".satfinite"):
                types, count = ("s32", kind, kind, "s32"), (8, max(1, a // 2), max(1, b // 2), 8)
                out.append(Shape(shape, types, count, ("s32", "b32", "b32", "s32"), end=end))
    out.append(Shape("m16n16k8", ("f32", "tf32", "tf32", "f32"), (8, 4, 4, 8), ("f32", "b32", "b32", "f32")))
    out.append(Shape("m8n8k4", ("f64",) * 4, (2, 1, 1, 2), ("f64",) * 4))
    for kind in ("s4", "u4"):
        types, register = ("s32", kind, kind, "s32"), ("s32", "b32", "b32", "s32")
        out.append(Shape("m8n8k32", types, (2, 1, 1, 2), register, ("row.col",)))
    for operation in (".and.popc", ".xor.popc"):
        types, register = ("s32", "b1", "b1", "s32"), ("s32", "b32", "b32", "s32")
        out.append(Shape("m8n8k128", types, (2, 1, 1, 2), register, ("row.col",), operation))
    return out


BITS = {"f16": 16, "bf16": 16, "f32": 32, "s32": 32, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}


class Fragments:
    """wmma of every shape, type and layout on shared memory: a sum goes back to it, and others are loaded from there."""

    def __init__(self):
        self.shapes = shapes()

    def memory(self, pick: random.Random, one: Shape, part: str, layout: str) -> tuple[int, int]:
        """Where a matrix begins, and the elements from one of its rows to the next, or of its columns."""
        m, n, k = (int(word) for word in one.shape.replace("m", "").replace("n", " ").replace("k", " ").split())
        rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[part]
        count, row = (rows, columns) if layout == "row" else (columns, rows)
        bits = BITS[one.types["dabc".index(part)]]
        unit = max(128 // bits, 1)  # strides are multiples of 16 bytes; those of 4 bits and less, of 32 or 128 elements
        unit = max(unit, {4: 32, 1: 128}.get(bits, 1))
        stride = -(-row // unit) * unit + unit * pick.randrange(3)
        size = count * stride * bits // 8
        return 32 * pick.randrange((BYTES - size) // 32 + 1), stride

    def statement(self, pick: random.Random) -> list[str]:
        one = pick.choice(self.shapes)
        left, right = pick.choice(one.layouts).split(".")
        names = {x: [f"%f{x}{i}" for i in range(n)] for x, n in zip("dabc", one.registers, strict=True)}
        braces = {x: "{" + ", ".join(some) + "}" for x, some in names.items()}
        out = [
            "{",
            *(f".reg .{kind} %f{x}<{n}>;" for x, n, kind in zip("dabc", one.registers, one.register, strict=True)),
        ]
        for part, layout in (("a", left), ("b", right), ("c", pick.choice(["row", "col"]))):
            at, stride = self.memory(pick, one, part, layout)
            kind = one.types["dabc".index(part)]
            out.append(
                f"wmma.load.{part}.sync.aligned.{layout}.{one.shape}.shared.{kind} {braces[part]}, [%base+{at}], {stride};"
            )
        d, a, b, c = one.types
        types = f"{d}.{c}" if a == "f16" else f"{d}.{a}.{b}.{c}"
        if a == "f64":
            types = "f64.f64.f64.f64"
        form = f"wmma.mma{one.operation}.sync.aligned.{left}.{right}.{one.shape}.{types}{one.end}"
        out.append(f"{form} {braces['d']}, {braces['a']}, {braces['b']}, {braces['c']};")
        layout = pick.choice(["row", "col"])
        if d == c and a not in ("s4", "u4", "b1") and pick.random() < 0.5:  # the sum is added to
            out.append(f"{form} {braces['d']}, {braces['a']}, {braces['b']}, {braces['d']};")
        at, stride = self.memory(pick, one, "d", layout)
        out += [
            "bar.warp.sync -1;",
            f"wmma.store.d.sync.aligned.{layout}.{one.shape}.shared.{d} [%base+{at}], {braces['d']}, {stride};",
            "bar.warp.sync -1;",
            "}",
        ]
        return out

    def program(self, seed: int) -> Program:
        pick = random.Random(seed)
        declared = [f".reg .b32 %base, %v<4>; .reg .pred %q; .shared .align 1024 .b8 matrices[{BYTES}];"]
        offset = pick.randrange(0, INPUT // 2, 64)
        before = ["mov.u32 %base, matrices; mad.lo.u32 %s, %t, 16, %base; mad.wide.u32 %i, %t, 16, %i; mov.u32 %z, 0;"]
        before += [
            f"COPY: ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%i+{offset}]; st.shared.v4.b32 [%s], {{%v0, %v1, %v2, %v3}};",
            f"add.u64 %i, %i, 512; add.u32 %s, %s, 512; add.u32 %z, %z, 1; setp.lt.u32 %q, %z, {BYTES // 512}; @%q bra COPY;",
            "bar.warp.sync -1;",
        ]
        after = ["mad.lo.u32 %s, %t, 128, %base;"]
        for at in range(0, BYTES // 32, 16):
            after.append(
                f"ld.shared.v4.b32 {{%v0, %v1, %v2, %v3}}, [%s+{at}]; st.global.v4.b32 [%o+{at}], {{%v0, %v1, %v2, %v3}};"
            )
        statements = [self.statement(pick) for _ in range(pick.randrange(2, 6))]
        return Program("fragments", declared, before, statements, after, BYTES // 32, 32, seed)
