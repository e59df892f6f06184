"""wgmma with random bits on the GPU and on the simulator: python tests/oracle/sweep_wgmma.py [--cases N | --outputs N] [NAME...].

Every type, with A in registers or in shared memory, transposed, negated, sparse, by descriptors of any swizzle, major-ness, offsets and base offset.  Half
of the cases have any bit patterns, half have numbers of like size, whose sums cancel.  `--record FILE` keeps what the GPU says, `--against FILE` compares the
simulator with that where there is no GPU.
"""

import argparse
import collections
import ctypes
import mmap
import random
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from run_fixtures import Gpu
from sweep import FLOATS, ORDERED, near_one

THREADS = 128
A_BYTES, B_BYTES = 16 * 1024, 32 * 1024  # of shared memory: one region for each matrix
SHARED = A_BYTES + B_BYTES
WIDTHS = {0: 0, 1: 128, 2: 64, 3: 32}  # of a row, by the descriptor's code of the swizzle
# (types of d, a and b, k of a dense product, bits of an element)
KINDS = [
    ("f32", "f16", "f16", 16, 16),
    ("f16", "f16", "f16", 16, 16),
    ("f32", "bf16", "bf16", 16, 16),
    ("f32", "tf32", "tf32", 8, 32),
    *((d, a, b, 32, 8) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *(("s32", a, b, 32, 8) for a in ("s8", "u8") for b in ("s8", "u8")),
    ("s32", "b1", "b1", 256, 1),
]


@dataclass
class Matrix:
    """One matrix in shared memory: its descriptor, and what it needs of its region."""

    mn_major: bool
    start: int
    leading: int
    stride: int
    swizzle: int
    base: int

    def bits(self, region: int) -> int:
        fields = ((region + self.start) // 16, 0), (self.leading // 16, 16), (self.stride // 16, 32)
        return sum(value << at for value, at in (*fields, (self.base, 49), (self.swizzle, 62)))


def extent(matrix: Matrix, rows: int, units: int) -> int:
    """Bytes from the region's start to the end of the last pattern that is touched."""
    width, row, unit = WIDTHS[matrix.swizzle], rows - 1, units - 1
    if matrix.swizzle == 0:
        across, along = (matrix.leading, matrix.stride) if matrix.mn_major else (matrix.stride, matrix.leading)
        last = min(row, 7) * 16 + row // 8 * across + unit * along
    elif matrix.mn_major:
        last = min(row, 7) * width + row // 8 * matrix.stride + unit * 16 // width * matrix.leading + width
    else:
        last = min(row, 7) * width + row // 8 * matrix.stride + unit * 16
    return (matrix.start + last + 16 + 1023) // 1024 * 1024


def matrix(numbers: random.Random, lines: int, depth: int, mn_major: bool, region: int) -> Matrix:
    """Of `lines` rows or columns, `depth` bytes of K each."""
    while True:
        swizzle = numbers.randrange(4)
        rows, units = (depth // 2, lines * 2 // 16) if mn_major else (lines, depth // 16)
        if mn_major and swizzle and units * 16 % WIDTHS[swizzle]:
            continue
        steps = [
            16 * numbers.randrange(1, 129) if numbers.random() < 0.5 else 128 << numbers.randrange(5) for _ in "12"
        ]
        base = numbers.randrange(8) if swizzle and numbers.random() < 0.3 else 0
        start = 1024 * numbers.randrange(2)
        if base:
            start += 128 * base
        elif numbers.random() < 0.5:
            start += (
                16 * numbers.randrange(max(1, (WIDTHS[swizzle] or 1024) // 16))
                if not mn_major
                else 128 * numbers.randrange(8)
            )
        made = Matrix(mn_major, start, *steps, swizzle, base)
        if extent(made, rows, units) <= region:
            return made


@dataclass
class Case:
    name: str
    types: tuple[str, str, str]
    n: int
    k: int
    bits: int
    sparse: bool
    in_registers: bool
    a: Matrix
    b: Matrix
    scale_d: int
    scales: tuple[int, int]
    selector: int
    saturate: bool
    any_bits: bool
    seed: int
    ctas: int = 1  # each with numbers of its own

    def registers(self) -> int:
        return self.n // (4 if self.types[0] == "f16" else 2)

    def mnemonic(self) -> str:
        d, a, b = self.types
        return (
            f"wgmma.mma_async{'.sp' if self.sparse else ''}.sync.aligned.m64n{self.n}k{self.k}"
            f"{'.satfinite' if self.saturate else ''}.{d}.{a}.{b}{'.and.popc' if a == 'b1' else ''}"
        )

    def ptx(self) -> str:
        d, count = self.types[0], self.registers()
        kind = {"f16": "b32", "s32": "s32"}.get(d, "f32")
        words = count + 5
        operands = ["{" + ", ".join(f"%d{i}" for i in range(count)) + "}"]
        operands += ["{%a0, %a1, %a2, %a3}" if self.in_registers else "%x0", "%x1"]
        operands += ["%m", str(self.selector)] if self.sparse else []
        operands.append("%q")
        if d != "s32":
            operands += [str(scale) for scale in self.scales]
        if self.bits == 16:
            operands += [] if self.in_registers else [str(int(self.a.mn_major))]
            operands.append(str(int(self.b.mn_major)))
        copies = []
        for i in range(0, SHARED, 16 * THREADS):
            copies += [f"  ld.global.v4.b32 {{%t0, %t1, %t2, %t3}}, [%p2+{16 + i}];"]
            copies += [f"  st.shared.v4.b32 [%s+{i}], {{%t0, %t1, %t2, %t3}};"]
        lines = [
            ".version 8.4",
            ".target sm_90a",
            ".address_size 64",
            ".visible .entry sweep(.param .u64 in, .param .u64 out)",
            "{",
            f"  .shared .align 1024 .b8 matrices[{SHARED}];",
            f"  .reg .{kind} %d<{count}>;",
            "  .reg .b32 %t<4>, %a<4>, %i, %m, %s;",
            "  .reg .b64 %p<4>, %x<3>;",
            "  .reg .pred %q;",
            "  ld.param.u64 %p0, [in];",
            "  ld.param.u64 %p1, [out];",
            "  mov.u32 %i, %ctaid.x;",
            f"  mad.wide.u32 %p0, %i, {16 + SHARED + THREADS * 4 * words}, %p0;",
            f"  mad.wide.u32 %p1, %i, {THREADS * 4 * count}, %p1;",
            "  mov.u32 %i, %tid.x;",
            "  mov.u32 %s, matrices;",
            "  cvt.u64.u32 %x2, %s;",
            "  shr.u64 %x2, %x2, 4;",
            "  ld.global.v2.u64 {%x0, %x1}, [%p0];",
            "  add.u64 %x0, %x0, %x2;",
            "  add.u64 %x1, %x1, %x2;",
            "  mad.wide.u32 %p2, %i, 16, %p0;",
            "  mad.lo.u32 %s, %i, 16, %s;",
            *copies,
            f"  mad.wide.u32 %p0, %i, {4 * words}, %p0;",
            f"  mad.wide.u32 %p1, %i, {4 * count}, %p1;",
            *(f"  ld.global.{kind} %d{i}, [%p0+{16 + SHARED + 4 * i}];" for i in range(count)),
            *(f"  ld.global.b32 %a{i}, [%p0+{16 + SHARED + 4 * (count + i)}];" for i in range(4)),
            f"  ld.global.b32 %m, [%p0+{16 + SHARED + 4 * (count + 4)}];",
            f"  setp.ne.s32 %q, {self.scale_d}, 0;",
            "  fence.proxy.async;",
            "  bar.sync 0;",
            "  wgmma.fence.sync.aligned;",
            f"  {self.mnemonic()} {', '.join(operands)};",
            "  wgmma.commit_group.sync.aligned;",
            "  wgmma.wait_group.sync.aligned 0;",
            *(f"  st.global.{kind} [%p1+{4 * i}], %d{i};" for i in range(count)),
        ]
        return "\n".join([*lines, "  ret;", "}", ""])

    def content(self, numbers: np.random.Generator, kind: str, size: int) -> np.ndarray:
        """`size` bytes of elements."""
        if kind not in FLOATS or self.any_bits:
            return numbers.integers(0, 256, size, dtype=np.uint8)
        return near_one(numbers, kind, (size * 8 // FLOATS[kind][0],)).view(np.uint8)

    def inputs(self) -> bytes:
        numbers = np.random.default_rng(self.seed)
        return b"".join(self.inputs_of_a_cta(numbers) for _ in range(self.ctas))

    def inputs_of_a_cta(self, numbers: np.random.Generator) -> bytes:
        d, a, b = self.types
        header = np.array([self.a.bits(0), self.b.bits(A_BYTES)], "<u8").view(np.uint8)
        own = [
            self.content(numbers, d, THREADS * 4 * self.registers()).reshape(THREADS, -1),
            self.content(numbers, a, THREADS * 16).reshape(THREADS, -1),
        ]
        legal = np.frombuffer(bytes(int(value, 16) for value in ("4e" if a == "tf32" else ORDERED)), np.uint8)
        low, high = (numbers.choice(legal, (THREADS, 4)) for _ in "12")
        own.append(low | high << 4)
        matrices = [self.content(numbers, a, A_BYTES), self.content(numbers, b, B_BYTES)]
        return np.concatenate([header, *matrices, np.concatenate(own, axis=1).ravel()]).tobytes()

    def size(self) -> int:
        return self.ctas * THREADS * 4 * self.registers()

    def form(self) -> str:
        return f"{'sp_' if self.sparse else ''}{'_'.join(self.types)}"

    def outputs(self) -> int:
        return self.size() // (2 if self.types[0] == "f16" else 4)


def widths(kind: str) -> list[int]:
    return [8, 24, *range(16, 257, 16)] if kind in ("s8", "u8", "b1") else list(range(8, 257, 8))


def cases(count: int, seed: int = 1, widest: bool = False) -> list[Case]:
    numbers, out = random.Random(seed), []
    for i in range(count):  # 2048: the largest leading offset, at which rows of 64 bytes go on with a swizzle of 32
        d, a, b, k, bits = KINDS[i % len(KINDS)]
        sparse = a != "b1" and numbers.random() < 0.3
        in_registers = numbers.random() < 0.3
        legal = widths(a)
        n = 256 if widest else numbers.choice(legal if numbers.random() < 0.15 else legal[:8])
        across = [bits == 16 and numbers.random() < 0.5 for _ in "ab"]
        depth = k * bits // 8
        out.append(
            Case(
                f"{'sp_' if sparse else ''}{d}_{a}_{b}_n{n}_{'r' if in_registers else 's'}{i}",
                (d, a, b),
                n,
                k * (2 if sparse else 1),
                bits,
                sparse,
                in_registers,
                matrix(numbers, 64, depth, across[0], A_BYTES),
                matrix(numbers, n, depth * (2 if sparse else 1), across[1], B_BYTES - (2048 if widest else 0)),
                scale_d=int(numbers.random() < 0.8),
                scales=(numbers.choice((1, -1)), numbers.choice((1, -1))),
                selector=numbers.randrange(2) if sparse and bits >= 16 else 0,
                saturate=d == "s32" and a != "b1" and numbers.random() < 0.5,
                any_bits=i // len(KINDS) % 2 == 0,
                seed=numbers.getrandbits(32),
            )
        )
    return out


def each_form(outputs: int, seed: int = 1) -> list[Case]:
    """Cases of n = 256 until each combination of types, dense and sparse, has that many outputs."""
    out, made = [], collections.Counter()
    for case in cases(40 * len(KINDS), seed, widest=True):
        if made[case.form()] < outputs:
            case.ctas = 16
            made[case.form()] += case.outputs()
            out.append(case)
    assert len(made) == 2 * len(KINDS) - 1 and min(made.values()) >= outputs  # no sparse b1
    return sorted(out, key=Case.form)


def on_gpu(gpu: Gpu, case: Case) -> bytes:
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    gpu.call("cuModuleLoadData", ctypes.byref(module), case.ptx().encode() + b"\0")
    gpu.call("cuModuleGetFunction", ctypes.byref(function), module, b"sweep")
    pointers = []
    for content in (case.inputs(), bytes(case.size())):
        pointer = ctypes.c_uint64()
        gpu.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(len(content)))
        gpu.call("cuMemcpyHtoD_v2", pointer, content, ctypes.c_size_t(len(content)))
        pointers.append(pointer)
    arguments = (ctypes.c_void_p * 2)(*[ctypes.addressof(pointer) for pointer in pointers])
    gpu.call("cuLaunchKernel", function, case.ctas, 1, 1, THREADS, 1, 1, 0, None, arguments, None)
    gpu.call("cuCtxSynchronize")
    got = ctypes.create_string_buffer(case.size())
    gpu.call("cuMemcpyDtoH_v2", got, pointers[1], ctypes.c_size_t(case.size()))
    for pointer in pointers:
        gpu.call("cuMemFree_v2", pointer)
    gpu.call("cuModuleUnload", module)
    return got.raw


def on_simulator(case: Case) -> bytes:
    from pyptx import _core

    given = case.inputs()
    memory = [mmap.mmap(-1, len(given)), mmap.mmap(-1, case.size())]
    memory[0][:] = given
    _core.run_text(
        case.ptx().encode(), case.name + ".ptx", "", (case.ctas, 1, 1), (THREADS, 1, 1), (1, 1, 1), 0, memory
    )
    return bytes(memory[1])[: case.size()]


def difference(case: Case, real: bytes, simulated: bytes) -> tuple[int, str]:
    """How many outputs differ, and the first of them in words."""
    width = 2 if case.types[0] == "f16" else 4
    x, y = (np.frombuffer(content, f"<u{width}") for content in (real, simulated))
    wrong = np.flatnonzero(x != y)
    per_thread = case.registers() * 4 // width
    words = [
        f"    thread {i // per_thread} d{i % per_thread}: GPU {x[i]:0{2 * width}x}, simulator {y[i]:0{2 * width}x}"
        for i in wrong[:3].tolist()
    ]
    return len(wrong), "\n".join([f"    A {case.a}, B {case.b}", *words])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="cases whose names contain one of these; all of them without")
    parser.add_argument("--cases", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--widest", action="store_true", help="n = 256: 16,384 outputs a case")
    parser.add_argument(
        "--outputs", type=int, help="n = 256, this many outputs of each combination of types, dense and sparse"
    )
    parser.add_argument("--record", help="a file for what the GPU says")
    parser.add_argument("--against", help="such a file, instead of a GPU")
    arguments = parser.parse_args()
    known = np.load(arguments.against) if arguments.against else {}
    gpu, kept, failed, total = None if arguments.against else Gpu(), {}, 0, collections.Counter()
    many = each_form(arguments.outputs, arguments.seed) if arguments.outputs else None
    for case in many or cases(arguments.cases, arguments.seed, arguments.widest):
        if arguments.names and not any(name in case.name for name in arguments.names):
            continue
        if arguments.against and case.name not in known:
            continue
        real = known[case.name].tobytes() if arguments.against else on_gpu(gpu, case)
        if arguments.record:
            kept[case.name] = np.frombuffer(real, np.uint8)
            kept[case.name + " inputs"] = np.uint32(zlib.crc32(case.inputs()))
            continue
        wrong, words = difference(case, real, on_simulator(case))
        total[case.form()] += case.outputs()
        if wrong:
            print(f"{case.name}: {wrong} differ", words, sep="\n", flush=True)
        failed += wrong > 0
    if arguments.record:
        np.savez_compressed(arguments.record, **kept)
    if many:
        print(*(f"{form}: {outputs} outputs" for form, outputs in total.items()), sep="\n")
    print(f"{failed} cases differ, of {sum(total.values())} outputs")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
