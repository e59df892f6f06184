"""Conversions by all inputs, on the GPU and on the simulator: python tests/oracle/sweep_conversions.py [--step N] [--workers N] [PREFIX...].

The instances of cvt (oracle_instances) whose sources have at most 32 bits: every 16-bit input, and every Nth of 2^32; a second source is the first
one, multiplied.  A thread has one input and leaves a sum over what a dozen instances make of it; where sums differ, the instances are run one by one.
"""

import argparse
import ctypes
import itertools
import multiprocessing
import sys
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from fuzz_programs import DIFFERENT, VERSION
from gpu_differences import INSTANCES, TARGET, Instance, instances, lines_of, width

TOGETHER = 12  # instances of a kernel
THREADS = 256
CHUNK = 1 << 23  # inputs of a launch


def source_bits(one: Instance) -> int:
    """0: of other sources than these kernels give, or results than they take."""
    sizes = {width(kind) for kind, _ in one.sources}
    taken = {width(kind) for kind, _ in one.results} <= {2, 4, 8}
    return 8 * max(sizes) if sizes and sizes <= {2, 4} and taken else 0


def text_of(group: list[Instance]) -> str:
    lines = [
        f".version {VERSION}",
        f".target {TARGET}",
        ".address_size 64",
        ".visible .entry k(.param .u64 input, .param .u64 output)",
        "{",
        ".reg .b32 %x, %y, %s, %r, %t, %n; .reg .b16 %h; .reg .b64 %i, %o, %a;",
        "ld.param.u64 %i, [input]; ld.param.u64 %o, [output]; mov.u32 %t, %tid.x; mov.u32 %n, %ctaid.x;",
        f"mad.lo.u32 %t, %n, {THREADS}, %t; ld.global.v2.u32 {{%x, %y}}, [%i]; mad.lo.u32 %x, %t, %y, %x;",
        "mul.wide.u32 %a, %t, 4; add.u64 %o, %o, %a; mov.u32 %s, 0;",
    ]
    for one in group:
        kinds = sorted({kind for kind, _ in one.results + one.sources})
        lines += ["{", *(f".reg .{kind} {kind}_<8>;" for kind in kinds), "mov.u32 %y, %x;"]
        for kind, index in dict.fromkeys(one.sources):
            narrow = f"cvt.u16.u32 %h, %y; mov.b16 {kind}_{index}, %h;"
            lines += [narrow if width(kind) == 2 else f"mov.b32 {kind}_{index}, %y;", "mul.lo.u32 %y, %y, 2654435761;"]
        lines.append(f"{one.mnemonic} {one.operands};")
        for kind, index in one.results:
            name = f"{kind}_{index}"
            take = {2: f"mov.b16 %h, {name}; cvt.u32.u16 %r, %h;", 4: f"mov.b32 %r, {name};"}.get(
                width(kind), f"mov.b64 {{%r, %n}}, {name}; mad.lo.u32 %r, %n, 40503, %r;"
            )
            lines.append(f"{take} mad.lo.u32 %s, %s, 16777619, %r;")
        lines.append("}")
    return "\n".join([*lines, "st.global.u32 [%o], %s;", "ret;", "}", ""])


class Device:
    def __init__(self):
        from run_fixtures import Gpu

        self.call, self.modules = Gpu().call, {}

    def run(self, text: str, given: np.ndarray, count: int) -> np.ndarray:
        """Without the assembler's optimisation."""
        if text not in self.modules:
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            keys, values = (ctypes.c_int * 1)(7), (ctypes.c_void_p * 1)(0)
            self.call("cuModuleLoadDataEx", ctypes.byref(module), text.encode() + b"\0", 1, keys, values)
            self.call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
            self.modules[text] = function
        pointers = [ctypes.c_uint64(), ctypes.c_uint64()]
        for pointer, size in zip(pointers, (given.nbytes, 4 * count), strict=True):
            self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        self.call("cuMemcpyHtoD_v2", pointers[0], given.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(given.nbytes))
        arguments = (ctypes.c_void_p * 2)(*map(ctypes.addressof, pointers))
        ctas = count // THREADS
        self.call("cuLaunchKernel", self.modules[text], ctas, 1, 1, THREADS, 1, 1, 0, None, arguments, None)
        self.call("cuCtxSynchronize")
        out = np.zeros(count, np.uint32)
        self.call("cuMemcpyDtoH_v2", out.ctypes.data_as(ctypes.c_void_p), pointers[1], ctypes.c_size_t(out.nbytes))
        for pointer in pointers:
            self.call("cuMemFree_v2", pointer)
        return out


class Simulator:
    def run(self, text: str, given: np.ndarray, count: int) -> np.ndarray:
        from pyptx import _core, simulator

        out = np.zeros(count, np.uint32)
        shape = (count // THREADS, 1, 1), (THREADS, 1, 1), (1, 1, 1)
        with simulator.options(cores=1, budget=1 << 60):
            _core.run_text(text.encode(), "k.ptx", "k", *shape, 0, [memoryview(given), memoryview(out)])
        return out


def compared(machine, simulator, group: list[Instance], begin: int, count: int, step: int) -> list[str]:
    """The instances that differ on these inputs, with one of them."""
    given = np.array([begin, step], np.uint32)
    real, simulated = (each.run(text_of(group), given, count) for each in (machine, simulator))
    wrong = np.flatnonzero(real != simulated)
    if not len(wrong):
        return []
    if len(group) > 1:
        return list(
            itertools.chain.from_iterable(compared(machine, simulator, [one], begin, count, step) for one in group)
        )
    at = int(wrong[0])
    x = (begin + at * step) % (1 << 32)
    words = f"{x:08x}: GPU {real[at]:08x}, simulator {simulated[at]:08x}"
    return [f"{group[0].text}: {len(wrong)} of {count} differ, {words}"]


def tasks(found: list[Instance], step: int) -> list[tuple[list[Instance], int, int, int]]:
    """(instances, first input, how many, from one to the next)."""
    out = []
    for bits in (16, 32):
        some = [one for one in found if source_bits(one) == bits]
        groups = [some[i : i + TOGETHER] for i in range(0, len(some), TOGETHER)]
        if bits == 16:
            out += [(group, 0, 1 << 16, 1) for group in groups]
            continue
        total = -(-((1 << 32) // step) // CHUNK) * CHUNK  # the last of them begin again from 0
        out += [(group, at * step % (1 << 32), CHUNK, step) for at in range(0, total, CHUNK) for group in groups]
    return out


def chosen(lines: list[str], prefixes: list[str]) -> list[Instance]:
    found = instances(lines, [f"cvt.{prefix.removeprefix('cvt.')}" for prefix in prefixes] or ["cvt."])
    return [one for one in found if source_bits(one) and not DIFFERENT.search(one.text)]


def work(given) -> tuple[Counter, list[str]]:
    own, machine = given
    counts, words, device, simulator = Counter(), [], machine(), Simulator()
    for group, begin, count, step in own:
        words += compared(device, simulator, group, begin, count, step)
        counts.update({one.text: count for one in group})
    return counts, words


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefixes", nargs="*", metavar="PREFIX", help="of mnemonics, behind `cvt.`")
    parser.add_argument("--step", type=int, default=1, help="from one input of 32 bits to the next")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--instances", type=Path, default=INSTANCES, help="oracle_instances, or a file with its lines")
    arguments = parser.parse_args()
    found = chosen(lines_of(arguments.instances, VERSION), arguments.prefixes)
    todo = tasks(found, arguments.step)
    shares = [(todo[i :: arguments.workers], Device) for i in range(arguments.workers)]
    with multiprocessing.get_context("spawn").Pool(arguments.workers) as pool:
        results = pool.map(work, shares, chunksize=1)
    counts = sum((counts for counts, _ in results), Counter())
    words = dict((line.split(":")[0], line) for _, some in results for line in some)
    print(*words.values(), sep="\n")
    print(f"{len(counts)} instances, {sum(counts.values())} inputs, {len(words)} differ")
    return int(bool(words or not counts))


if __name__ == "__main__":
    sys.exit(main())
