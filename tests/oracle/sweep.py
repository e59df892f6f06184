"""Instructions with random bits on the GPU and on the simulator: python tests/oracle/sweep.py [--outputs N] [NAME...].

mma.sync and wmma of every type, and video instructions.  Prints one line a format: how many of its outputs differ, and the first of them with its operands' bits.  Half of the warps have any bit
patterns (NaN, infinities and subnormals in), half have numbers of like size, whose sums cancel.  Uses the driver directly, as run_fixtures.py.
"""

import argparse
import ctypes
import itertools
import mmap
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from run_fixtures import Gpu

LANES = 32


@dataclass
class Case:
    """One instruction: its registers of 32 bits a lane, and what its operands hold."""

    name: str
    mnemonic: str
    registers: tuple[int, int, int, int]  # d, a, b, c
    types: tuple[str, str, str, str]
    metadata: str = ""  # of sparse ones: the legal values of four bits
    extra: str = ""
    operands: str = ""  # written out, with %d0 and %a0, %a1, ...; else the registers in braces
    version: str = "8.7"
    target: str = "sm_90a"

    def ptx(self) -> str:
        d, a, b, c = self.registers
        wide = {"f64": 2}.get(self.types[1], 1)

        def register(letter: str) -> str:
            return "f64" if wide == 2 else {"f32": "f32", "s32": "s32"}.get(self.types["dabc".index(letter)], "b32")

        words = a + b + c + (1 if self.metadata else 0)
        lines = [
            f".version {self.version}",
            f".target {self.target}",
            ".address_size 64",
            ".visible .entry sweep(.param .u64 in, .param .u64 out)",
            "{",
            "  .reg .b32 %t<4>, %e;",
            "  .reg .b64 %p<4>;",
            *(f"  .reg .{register(x)} %{x}<{n}>;" for x, n in zip("dabc", self.registers, strict=True) if n),
            "  ld.param.u64 %p0, [in];",
            "  ld.param.u64 %p1, [out];",
            "  mov.u32 %t0, %tid.x;",
            "  mov.u32 %t1, %ctaid.x;",
            "  mov.u32 %t2, %ntid.x;",
            "  mad.lo.u32 %t0, %t1, %t2, %t0;",
            f"  mad.wide.u32 %p0, %t0, {words * 4 * wide}, %p0;",
            f"  mad.wide.u32 %p1, %t0, {d * 4 * wide}, %p1;",
        ]
        at = 0
        for x, n in zip("abc", self.registers[1:], strict=True):
            for i in range(n):
                lines.append(f"  ld.global.{register(x)} %{x}{i}, [%p0+{at}];")
                at += 4 * wide
        if self.metadata:
            lines.append(f"  ld.global.b32 %e, [%p0+{at}];")
        listed = zip("dabc", self.registers, strict=True)
        braces = ("{" + ", ".join(f"%{x}{i}" for i in range(n)) + "}" for x, n in listed)
        operands = self.operands or ", ".join(braces)
        lines.append(f"  {self.mnemonic} {operands}{', %e' if self.metadata else ''}{self.extra};")
        lines += [f"  st.global.{register('d')} [%p1+{4 * wide * i}], %d{i};" for i in range(d)]
        return "\n".join([*lines, "  ret;", "}", ""])

    def rows(self, columns: list[np.ndarray]) -> bytes:
        """Of what each warp's lanes have of each operand: what a kernel reads."""
        return np.concatenate(columns, axis=2).tobytes()

    def place(self, element: int, warp: int, given: bytes) -> str:
        """Which of a warp's outputs this is, and its c in `given`."""
        lane, register = divmod(element, self.outputs())
        c = given[4 * (self.words() * (warp * LANES + lane) + sum(self.registers[1:3])) :][: 4 * self.registers[3]]
        return f"lane {lane} d{register}, c {c.hex(' ', 4)}"

    def words(self) -> int:
        return (2 if self.types[1] == "f64" else 1) * sum(self.registers[1:]) + bool(self.metadata)

    def outputs(self) -> int:
        """A lane's."""
        return self.registers[0] * (2 if self.types[0] == "f16" else 1)


@dataclass
class Wmma(Case):
    """`registers` counts the words of the matrices in memory, a lane; a warp's matrices lie one behind the other."""

    shape: tuple[int, int, int] = (16, 16, 16)
    fragments: tuple[int, int] = (8, 8)  # registers of a and b
    layouts: tuple[str, str] = ("row", "col")

    def ptx(self) -> str:
        m, n, k = self.shape
        form = f"sync.aligned.m{m}n{n}k{k}"
        d, a, b, c = self.types
        kinds = [{"f32": "f32", "s32": "s32", "f64": "f64"}.get(kind, "b32") for kind in (d, c, a)]
        results = [self.registers[0], self.registers[3]]
        operands = {"d": results[0], "a": self.fragments[0], "b": self.fragments[1], "c": results[1]}
        braces = {x: "{" + ", ".join(f"%{x}{i}" for i in range(count)) + "}" for x, count in operands.items()}
        bytes_of = [4 * LANES * (2 if a == "f64" else 1) * words for words in self.registers]
        strides = [k if self.layouts[0] == "row" else m, n if self.layouts[1] == "row" else k, n]
        loads, at = [], 0
        for x, kind, layout, stride, size in zip(
            "abc", (a, b, c), (*self.layouts, "row"), strides, bytes_of[1:], strict=True
        ):
            loads.append(f"  add.u64 %p2, %p0, {at};")
            loads.append(
                f"  wmma.load.{x}.{form.replace('sync.aligned', f'sync.aligned.{layout}')}.global.{kind} {braces[x]}, [%p2], {stride};"
            )
            at += size
        return "\n".join(
            [
                f".version {self.version}",
                f".target {self.target}",
                ".address_size 64",
                ".visible .entry sweep(.param .u64 in, .param .u64 out)",
                "{",
                "  .reg .b32 %t;",
                "  .reg .b64 %p<3>;",
                f"  .reg .{kinds[0]} %d<{results[0]}>;",
                f"  .reg .{kinds[1]} %c<{results[1]}>;",
                f"  .reg .{kinds[2]} %a<{self.fragments[0]}>, %b<{self.fragments[1]}>;",
                "  ld.param.u64 %p0, [in];",
                "  ld.param.u64 %p1, [out];",
                "  mov.u32 %t, %ctaid.x;",
                f"  mad.wide.u32 %p0, %t, {sum(bytes_of[1:])}, %p0;",
                f"  mad.wide.u32 %p1, %t, {bytes_of[0]}, %p1;",
                *loads,
                f"  {self.mnemonic} {braces['d']}, {braces['a']}, {braces['b']}, {braces['c']};",
                f"  wmma.store.d.sync.aligned.row.m{m}n{n}k{k}.global.{d} [%p1], {braces['d']}, {n};",
                "  ret;",
                "}",
                "",
            ]
        )

    def place(self, element: int, warp: int, given: bytes) -> str:
        return f"row {element // self.shape[1]} column {element % self.shape[1]}"

    def rows(self, columns: list[np.ndarray]) -> bytes:
        return np.concatenate([column.reshape(len(column), -1) for column in columns], axis=1).tobytes()


ORDERED = "489cde"
UNORDERED = "12346789bcde"  # two parts of four in either order


def floating(name: str, shape: str, registers, types, **more) -> Case:
    d, a, b, c = types
    return Case(name, f"mma.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{c}", registers, types, **more)


def sparse(k: int, registers, types, selector: int, saturate: str = "", ordered: bool = True) -> Case:
    d, a, b, c = types
    values = "4e" if a == "tf32" else ORDERED if ordered else UNORDERED
    variant = "sp::ordered_metadata" if ordered else "sp"
    mnemonic = f"mma.{variant}.sync.aligned.m16n8k{k}.row.col{saturate}.{d}.{a}.{b}.{c}"
    name = f"sp_{'_'.join(types)}_k{k}{saturate}_{selector}{'' if ordered else '_unordered'}"
    return Case(name, mnemonic, registers, types, values, f", {selector}")


def sparse_cases() -> list[Case]:
    """Every type, shape and selector, and each type once more by metadata in any order."""
    out: list[Case] = []

    def add(shapes, d: str, a: str, b: str, saturate: str = ""):
        """Of shapes (k, registers of A and of B, selectors)."""
        sums = 2 if d == "f16" else 4
        for k, words, selectors in shapes:
            for ordered in (True, False):
                for selector in range(selectors if ordered else 1):
                    out.append(sparse(k, (sums, words, words, sums), (d, a, b, d), selector, saturate, ordered))

    for d, kind in (("f32", "f16"), ("f16", "f16"), ("f32", "bf16")):
        add(((16, 2, 4), (32, 4, 2)), d, kind, kind)
    add(((8, 2, 4), (16, 4, 2)), "f32", "tf32", "tf32")
    for a in ("e4m3", "e5m2"):
        for b in ("e4m3", "e5m2"):
            add(((64, 4, 1),), "f32", a, b)
    for bits in (8, 4):
        for x, y, saturate in itertools.product("us", "us", ("", ".satfinite")):
            add(((256 // bits, 2, 2), (512 // bits, 4, 1)), "s32", f"{x}{bits}", f"{y}{bits}", saturate)
    return out


def cases() -> list[Case]:
    """Every type and shape that sm_90 has, but m8n8k4 of .f16: there the assembler's subroutine does not exchange what lanes hold."""
    out = []
    for k, a, b in ((8, 2, 1), (16, 4, 2)):
        out.append(floating(f"f16_k{k}_f32", f"m16n8k{k}", (4, a, b, 4), ("f32", "f16", "f16", "f32")))
        out.append(floating(f"f16_k{k}_f16", f"m16n8k{k}", (2, a, b, 2), ("f16", "f16", "f16", "f16")))
        out.append(floating(f"bf16_k{k}", f"m16n8k{k}", (4, a, b, 4), ("f32", "bf16", "bf16", "f32")))
        out.append(floating(f"tf32_k{k // 2}", f"m16n8k{k // 2}", (4, a, b, 4), ("f32", "tf32", "tf32", "f32")))
        for x in ("e4m3", "e5m2"):
            for y in ("e4m3", "e5m2"):
                out.append(floating(f"{x}_{y}_k{2 * k}_f32", f"m16n8k{2 * k}", (4, a, b, 4), ("f32", x, y, "f32")))
                out.append(floating(f"{x}_{y}_k{2 * k}_f16", f"m16n8k{2 * k}", (2, a, b, 2), ("f16", x, y, "f16")))
    for m, k, a, b, c in ((8, 4, 1, 1, 2), (16, 4, 2, 1, 4), (16, 8, 4, 2, 4), (16, 16, 8, 4, 4)):
        for rounding in ("", ".rz", ".rm", ".rp"):
            case = floating(f"f64_m{m}k{k}{rounding}", f"m{m}n8k{k}", (c, a, b, c), ("f64",) * 4)
            case.mnemonic += rounding
            out.append(case)
    for bits, shapes in ((8, ("m8n8k16", "m16n8k16", "m16n8k32")), (4, ("m8n8k32", "m16n8k32", "m16n8k64"))):
        for shape, registers in zip(shapes, ((2, 1, 1, 2), (4, 2, 1, 4), (4, 4, 2, 4)), strict=True):
            for x in "us":
                for y in "us":
                    for sat in ("", ".satfinite"):
                        types = ("s32", f"{x}{bits}", f"{y}{bits}", "s32")
                        mnemonic = f"mma.sync.aligned.{shape}.row.col{sat}.s32.{types[1]}.{types[2]}.s32"
                        out.append(Case(f"{types[1]}_{types[2]}_{shape}{sat}", mnemonic, registers, types))
    for shape, registers in (("m8n8k128", (2, 1, 1, 2)), ("m16n8k128", (4, 2, 1, 4)), ("m16n8k256", (4, 4, 2, 4))):
        for op in ("xor", "and"):
            mnemonic = f"mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32.{op}.popc"
            out.append(Case(f"b1_{op}_{shape}", mnemonic, registers, ("s32", "b1", "b1", "s32")))
    return out + sparse_cases()


WMMA_SHAPES = ((16, 16, 16), (8, 32, 16), (32, 8, 16))


def wmma(
    types: tuple[str, str, str, str],
    shape: tuple[int, int, int],
    fragments: tuple[int, int],
    layouts,
    last: str = "",
    op: str = "",
) -> Wmma:
    """`op` stands before the shape, `last` at the end."""
    m, n, k = shape
    d, a, b, c = types
    words = [
        rows * columns * BITS[kind] // (32 * LANES)
        for rows, columns, kind in ((m, n, d), (m, k, a), (k, n, b), (m, n, c))
    ]
    if d == "f64":
        words = [count // 2 for count in words]
    listed = f"{d}.{c}" if a == "f16" else ".".join(types)
    mnemonic = f"wmma.mma{op}.sync.aligned.{layouts[0]}.{layouts[1]}.m{m}n{n}k{k}.{listed}{last}"
    name = f"wmma_{'_'.join(types)}_m{m}n{n}k{k}_{layouts[0]}_{layouts[1]}{last}{op}"
    return Wmma(name, mnemonic, tuple(words), types, shape=shape, fragments=fragments, layouts=layouts)


def wmma_cases() -> list[Wmma]:
    out, layouts = [], [(x, y) for x in ("row", "col") for y in ("row", "col")]
    for i, shape in enumerate(WMMA_SHAPES):
        for d in ("f16", "f32"):
            for c in ("f16", "f32"):
                out.append(wmma((d, "f16", "f16", c), shape, (8, 8), layouts[len(out) % 4]))
        a_and_b = ((4, 4), (2, 8), (8, 2))[i]
        out.append(wmma(("f32", "bf16", "bf16", "f32"), shape, a_and_b, layouts[len(out) % 4]))
        for kind in ("s8", "u8"):
            for last in ("", ".satfinite"):
                out.append(
                    wmma(("s32", kind, kind, "s32"), shape, tuple(x // 2 for x in a_and_b), layouts[len(out) % 4], last)
                )
    out.append(wmma(("f32", "tf32", "tf32", "f32"), (16, 16, 8), (4, 4), layouts[0]))
    for rounding in ("", ".rz", ".rm", ".rp"):
        out.append(wmma(("f64",) * 4, (8, 8, 4), (1, 1), layouts[len(out) % 4], rounding))
    for kind in ("s4", "u4"):
        for last in ("", ".satfinite"):
            out.append(wmma(("s32", kind, kind, "s32"), (8, 8, 32), (1, 1), ("row", "col"), last))
    for op in (".xor.popc", ".and.popc"):
        out.append(wmma(("s32", "b1", "b1", "s32"), (8, 8, 128), (1, 1), ("row", "col"), op=op))
    return out


def video(name: str, mnemonic: str, operands: str) -> Case:
    return Case(name, mnemonic, (1, 3, 0, 0), ("b32", "b32", "b32", "b32"), operands=operands)


class VideoCases:
    """Random instances of the video instructions: types, parts, saturation, second operations, masks."""

    parts = (".b0", ".b1", ".b2", ".b3", ".h0", ".h1", "")
    relations = (".eq", ".ne", ".lt", ".le", ".gt", ".ge")

    def __init__(self, seed: int):
        self.numbers = random.Random(seed)
        self.pick = self.numbers.choice

    def types(self, n: int) -> str:
        return "".join(self.pick([".u32", ".s32"]) for _ in range(n))

    def digits(self, letter: str, n: int) -> str:
        chosen = self.pick(["", "." + letter + "".join(str(self.numbers.randrange(2 * n)) for _ in range(n))])
        return "" if chosen == ".b1024" else chosen  # which the assembler takes for tensormap.replace's type

    def vector(self, i: int) -> Case:
        opcode, n = self.pick(["vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset"]), self.pick([2, 4])
        letter = "h" if n == 2 else "b"
        mask = "".join(str(k) for k in reversed(range(n)) if self.numbers.random() < 0.6)
        modifiers = self.types(3) + self.pick(["", ".sat", ".add"])
        if opcode == "vset":
            modifiers = self.types(2) + self.pick(self.relations) + self.pick(["", ".add"])
        d = f"%d0{'.' + letter + mask if mask else ''}"
        return video(
            f"{opcode}{n}_{i}",
            f"{opcode}{n}{modifiers}",
            f"{d}, %a0{self.digits(letter, n)}, %a1{self.digits(letter, n)}, %a2",
        )

    def multiplication(self, i: int) -> Case:
        plus = self.pick(["", ".po"])
        signs = self.pick([("", "", ""), ("-", "", ""), ("", "-", ""), ("", "", "-")]) if not plus else ("", "", "")
        modifiers = self.types(3) + plus + self.pick(["", ".sat"]) + self.pick(["", ".shr7", ".shr15"])
        operands = f"%d0, {signs[0]}%a0{self.pick(self.parts)}, {signs[1]}%a1{self.pick(self.parts)}, {signs[2]}%a2"
        return video(f"vmad_{i}", "vmad" + modifiers, operands)

    def scalar(self, i: int) -> Case:
        opcode = self.pick(["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset"])
        shape = self.pick(["plain", "second", "merge"])
        shift = opcode in ("vshl", "vshr")
        modifiers = self.types(2) + (".u32" if shift else self.types(1)) + self.pick(["", ".sat"])
        if opcode == "vset":
            modifiers = self.types(2) + self.pick(self.relations)
        modifiers += self.pick([".clamp", ".wrap"]) if shift else ""
        modifiers += self.pick([".add", ".min", ".max"]) if shape == "second" else ""
        d = f"%d0{self.pick(self.parts[:6]) if shape == 'merge' else ''}"
        third = "" if shape == "plain" else ", %a2"
        return video(
            f"{opcode}_{i}", opcode + modifiers, f"{d}, %a0{self.pick(self.parts)}, %a1{self.pick(self.parts)}{third}"
        )


def video_cases(count: int = 300, seed: int = 1) -> list[Case]:
    make = VideoCases(seed)
    return [(make.vector, make.scalar, make.vector, make.scalar, make.multiplication)[i % 5](i) for i in range(count)]


# Bits of an element, of its fraction, and the exponent field of 1.
FLOATS = {
    "f16": (16, 10, 15),
    "bf16": (16, 7, 127),
    "tf32": (32, 23, 127),
    "f32": (32, 23, 127),
    "e4m3": (8, 3, 7),
    "e5m2": (8, 2, 15),
}
FLOATS["f64"] = (64, 52, 1023)
BITS = {kind: bits for kind, (bits, _, _) in FLOATS.items()} | {"s32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}


def near_one(numbers: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers between 2^-6 and 2^6, or, one time in 16, zeros, as their bits."""
    bits, fraction, one = FLOATS[kind]
    spread = 3 if bits == 8 else 6
    fields = numbers.integers(one - spread, one + spread, shape, dtype=np.uint64)
    magnitudes = fields << np.uint64(fraction) | numbers.integers(0, 1 << fraction, shape, dtype=np.uint64)
    magnitudes[numbers.random(shape) < 1 / 16] = 0
    signs = numbers.integers(0, 2, shape, dtype=np.uint64) << np.uint64(bits - 1)
    return (signs | magnitudes).astype(f"<u{bits // 8}")


def inputs(case: Case, warps: int, seed: int) -> bytes:
    """A row a lane.  Every other warp has numbers near one where there are floats."""
    numbers = np.random.default_rng(seed)
    wide = 8 if case.types[1] == "f64" else 4
    columns = []
    for kind, count in zip(case.types[1:], case.registers[1:], strict=True):
        content = numbers.integers(0, 256, (warps, LANES, wide * count), dtype=np.uint8)
        if kind in FLOATS:
            tame = near_one(numbers, kind, (warps // 2, LANES, wide * count * 8 // FLOATS[kind][0]))
            content[1::2] = tame.view(np.uint8).reshape(warps // 2, LANES, -1)
        columns.append(content)
    if case.metadata:
        legal = np.frombuffer(bytes(int(value, 16) for value in case.metadata), np.uint8)
        low, high = (numbers.choice(legal, (warps, LANES, 4)) for _ in range(2))
        columns.append(low | high << 4)
    return case.rows(columns)


def on_gpu(gpu: Gpu, case: Case, given: bytes, size: int, warps: int) -> bytes:
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    gpu.call("cuModuleLoadData", ctypes.byref(module), case.ptx().encode() + b"\0")
    gpu.call("cuModuleGetFunction", ctypes.byref(function), module, b"sweep")
    pointers = []
    for content in (given, bytes(size)):
        pointer = ctypes.c_uint64()
        gpu.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(len(content)))
        gpu.call("cuMemcpyHtoD_v2", pointer, content, ctypes.c_size_t(len(content)))
        pointers.append(pointer)
    arguments = (ctypes.c_void_p * 2)(*[ctypes.addressof(pointer) for pointer in pointers])
    gpu.call("cuLaunchKernel", function, warps, 1, 1, LANES, 1, 1, 0, None, arguments, None)
    gpu.call("cuCtxSynchronize")
    got = ctypes.create_string_buffer(size)
    gpu.call("cuMemcpyDtoH_v2", got, pointers[1], ctypes.c_size_t(size))
    for pointer in pointers:
        gpu.call("cuMemFree_v2", pointer)
    gpu.call("cuModuleUnload", module)
    return got.raw


def on_simulator(case: Case, given: bytes, size: int, warps: int) -> bytes:
    from pyptx import _core, simulator

    memory = [mmap.mmap(-1, len(given)), mmap.mmap(-1, size)]
    memory[0][:] = given
    with simulator.options(budget=1 << 60):
        _core.run_text(case.ptx().encode(), case.name + ".ptx", "", (warps, 1, 1), (LANES, 1, 1), (1, 1, 1), 0, memory)
    return bytes(memory[1])


def compare(gpu: Gpu, case: Case, outputs: int, seed: int = 1) -> tuple[int, int, str]:
    """How many outputs there were, how many differ, and the first of those in words."""
    warps = -(-outputs // (LANES * case.outputs()))
    given = inputs(case, warps, seed)
    width = 8 if case.types[0] == "f64" else 2 if case.types[0] == "f16" else 4
    size = warps * LANES * case.outputs() * width
    real, simulated = on_gpu(gpu, case, given, size, warps), on_simulator(case, given, size, warps)
    bits = [np.frombuffer(content, f"<u{width}") for content in (real, simulated)]
    wrong = np.flatnonzero(bits[0] != bits[1])
    words = []
    for i in wrong[:6].tolist():
        x, y = (int(content[i]) for content in bits)
        warp, element = divmod(i, LANES * case.outputs())
        shape = "near one" if warp % 2 else "any bits"
        words.append(
            f"    {shape}, warp {warp} {case.place(element, warp, given)}: GPU {x:0{2 * width}x}, simulator {y:0{2 * width}x}"
        )
    return warps * LANES * case.outputs(), len(wrong), "\n".join(words)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="formats whose names contain one of these; all of them without")
    parser.add_argument("--outputs", type=int, default=1_000_000, help="of each format")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    gpu, failed = Gpu(), 0
    for case in cases() + wmma_cases() + video_cases():
        if arguments.names and not any(name in case.name for name in arguments.names):
            continue
        start = time.perf_counter()
        count, wrong, words = compare(gpu, case, arguments.outputs, arguments.seed)
        print(
            f"{case.name}: {wrong} of {count} differ ({time.perf_counter() - start:.1f} s)",
            *([words] if wrong else []),
            sep="\n",
            flush=True,
        )
        failed += wrong > 0
    print(f"{failed} formats differ")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
