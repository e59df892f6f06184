"""Instructions on random bits, on the GPU and on the simulator: python tests/oracle/gpu_differences.py [--seconds N] [PREFIX...].

The instances of the rows (oracle_instances) that read registers alone, and the atomics, stand in straight-line kernels.  Each reads
fresh bits a thread: NaNs of both kinds, infinities, subnormals, neighbours of powers of two, small numbers, random ones.  What the two
machines write is compared bit by bit and listed by instruction.  Prefixes are of mnemonics.  Without a GPU, --assembler PATH only shows
that the kernels are legal and run on the simulator.
"""

import argparse
import ctypes
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).resolve().parents[2]
INSTANCES = ROOT / "build" / "release" / "tests" / "oracle_instances"
TARGET, VERSION = "sm_90a", "8.6"
THREADS, CTAS = 128, 8
BATCH = 120  # instances of a kernel
CELL = 32  # bytes of memory for the atomic of one thread
REGISTERS = 8  # of each type

SECTIONS = re.compile(r"9\.7\.[1-8]\.\d+|9\.7\.9\.(3|4|6|7|21|22)|9\.7\.13\.(5|6|8|9|10|12)")
REGISTER = re.compile(r"\b([a-z]+\d+(?:x\d)?|pred)_(\d+)\b")
STRANGE = re.compile(r"\b[gslck]v\b|%|WARP_SZ|\b[usb]8_|x[48]_|\bvol|cache_hint")
# One operand too many (PTX2206): the assembler makes it the descriptor of the memory, at which the GPU may fault (illegal instruction).
DESCRIBED = re.compile(r"atom\.((?!\S*\bcas)\S+ \w+, \[\w+\](, \w+){2}|\S*\bcas\S* \w+, \[\w+\](, \w+){3})$")
WORDS = {2: "b16", 4: "b32", 8: "b64", 16: "b128"}


def width(kind: str) -> int:
    """Bytes that a register takes in memory; a predicate is stored as a number."""
    if kind == "pred":
        return 4
    bits, _, count = kind.lstrip("abcdefghijklmnopqrstuvwyz").partition("x")
    return int(bits) * int(count or 1) // 8


def numbers(random: np.random.Generator, size: int, count: int) -> np.ndarray:
    """`count` values of `size` bytes."""
    if size == 16:
        return numbers(random, 8, 2 * count)
    if size == 4 and random.integers(3) == 0:  # pairs of halves
        return numbers(random, 2, 2 * count)
    mantissa = {2: (7, 10)[random.integers(2)], 4: 23, 8: 52}[size]
    sign, one = 1 << (8 * size - 1), 1 << mantissa
    infinity, bias = sign - one, (sign - one >> mantissa + 1) << mantissa
    special = [0, 1, one - 1, one, one + 1, bias - 1, bias, bias + 1, bias + one, infinity - 1, infinity]
    special += [infinity + 1, infinity + one // 2, infinity + one // 2 + 5, sign - 1, 2, 31, 32, 33, 63, 64, 255, 256]
    special = np.array([value ^ flip for value in special for flip in (0, sign)], np.uint64)
    out = random.integers(0, 2**64 - 1, count, np.uint64, endpoint=True) >> np.uint64(64 - 8 * size)
    how = random.integers(0, 8, count)
    fields = out & np.uint64(sign | one - 1)
    around = random.integers(-4, 5, count) * one + bias  # magnitudes near 1
    tiny = random.integers(0, 3, count) * one  # at the smallest normal number
    out = np.where(how < 2, random.choice(special, count), out)
    out = np.where((how == 2) | (how == 3), fields | around.astype(np.uint64), out)
    out = np.where(how == 4, fields | tiny.astype(np.uint64), out)
    return out.astype(f"u{size}")


class Instance:
    """One instruction, `space` says where the cell of an atomic lies: global, shared, or shared by a generic address."""

    def __init__(self, text: str, section: str, space: str = ""):
        self.text, self.space = text, space
        self.mnemonic, _, operands = text.partition(" ")
        self.title = self.mnemonic + (f" ({space})" if space and f".{space}" not in self.mnemonic else "")
        self.carries = section.startswith("9.7.2.")
        first = "" if self.mnemonic.startswith("red.") else re.match(r"\{[^}]*\}|[^,]*", operands)[0]
        self.results = [match.groups() for match in REGISTER.finditer(first)]
        rest = re.sub(r"\[[^]]*\]", "[%address]", operands[len(first) :])
        self.operands = first + rest
        self.sources = [match.groups() for match in REGISTER.finditer(rest)]
        self.values = self.differ = 0
        self.examples: list[str] = []


def instances(lines: list[str], prefixes: list[str]) -> list[Instance]:
    out, seen = [], set()
    for line in lines:
        verdict, _, section, _, text = line.split("\t")
        mnemonic, _, operands = text.partition(" ")
        if verdict != "legal" or not SECTIONS.fullmatch(section) or STRANGE.search(text) or DESCRIBED.match(text):
            continue
        if prefixes and not mnemonic.startswith(tuple(prefixes)):
            continue
        atomic = mnemonic.startswith(("atom.", "red."))
        if "[" in operands and not (atomic and re.search(r"\[u64_\d+\]", operands)):
            continue
        if any(int(index) >= REGISTERS for _, index in REGISTER.findall(text)) or text in seen:
            continue
        if ".sync" in mnemonic and not REGISTER.fullmatch(operands.rpartition(", ")[2]):
            continue  # a mask without the lanes that run it: an illegal instruction
        seen.add(text)
        spaces = [""]
        if atomic:
            named = re.search(r"\.(global|shared)", mnemonic)
            spaces = [named[1]] if named else ["global", "shared"]
        out += [Instance(text, section, space) for space in spaces]
    return out


class Row:
    """The fields of one thread's row of an input or output, each aligned to its size."""

    def __init__(self):
        self.size = 0

    def field(self, size: int) -> int:
        at = -(-self.size // size) * size
        self.size = at + size
        return at


class Kernel:
    """A batch as PTX."""

    def __init__(self, batch: list[Instance]):
        self.batch = batch
        self.input, self.output = Row(), Row()
        self.lines: list[str] = []
        self.of_line: dict[int, Instance] = {}
        self.fields: list[tuple[Instance, list, list]] = []  # [(offset, size)] of the sources, of the results
        kinds = sorted({kind for one in batch for kind, _ in one.results + one.sources})
        head = [f".version {VERSION}", f".target {TARGET}", ".address_size 64"]
        head += [".visible .entry k(.param .u64 input, .param .u64 output)", "{"]
        head += [f".reg .{kind} {kind}_<{REGISTERS}>;" for kind in kinds]
        head += [".reg .u64 %i, %o, %row, %cell, %address; .reg .u32 %t, %thread, %z; .reg .b64 %m;"]
        head += [f".shared .align {CELL} .b8 cells[{THREADS * CELL}];"]
        head += ["ld.param.u64 %i, [input]; ld.param.u64 %o, [output];"]
        head += [f"mov.u32 %thread, %tid.x; mov.u32 %t, %ctaid.x; mad.lo.u32 %t, %t, {THREADS}, %thread;"]
        self.first = len(head) + 2  # the line of lines[0], from 1
        for one in batch:
            self.add(one)
        for row in (self.input, self.output):
            row.size = row.field(16)
        head += [
            f"mul.wide.u32 %row, %t, {self.input.size}; add.u64 %i, %i, %row; "
            f"mul.wide.u32 %row, %t, {self.output.size}; add.u64 %o, %o, %row;"
        ]
        self.text = "\n".join([*head, *self.lines, "ret;", "}", ""])

    def load(self, size: int, line: str) -> tuple[int, int]:
        at = self.input.field(size)
        self.lines.append(f"ld.global.{WORDS[size]} " + line.replace("[]", f"[%i+{at}]"))
        return at, size

    def store(self, size: int, line: str) -> tuple[int, int]:
        at = self.output.field(size)
        self.lines.append(line.replace("[]", f"[%o+{at}]"))
        return at, size

    def add(self, one: Instance):
        sources, results = [], []
        for kind, index in dict.fromkeys(one.sources):
            if kind == "pred":
                sources.append(self.load(4, f"%z, []; and.b32 %z, %z, 1; setp.ne.u32 pred_{index}, %z, 0;"))
            else:
                sources.append(self.load(width(kind), f"{kind}_{index}, [];"))
        if ".sync" in one.mnemonic:  # the whole warp takes part
            self.lines.append(f"mov.b32 {one.operands.rpartition(', ')[2]}, -1;")
        if one.carries:
            sources.append(self.load(4, "%z, []; add.cc.u32 %z, %z, %z;"))
        if one.space:
            sources += self.fill(one)
        self.of_line[self.first + len(self.lines)] = one
        self.lines.append(f"{one.mnemonic} {one.operands};")
        if one.carries:
            results.append(self.store(4, "addc.u32 %z, 0, 0; st.global.u32 [], %z;"))
        for kind, index in one.results:
            what = f"{kind}_{index}"
            start = f"selp.u32 %z, 1, 0, {what}; " if kind == "pred" else ""
            size = width(kind)
            results.append(self.store(size, f"{start}st.global.{WORDS[size]} [], {'%z' if start else what};"))
        if one.space:
            space = one.space
            for i in range(0, CELL, 8):
                results.append(self.store(8, f"ld.{space}.b64 %m, [%cell+{i}]; st.global.b64 [], %m;"))
        self.fields.append((one, sources, results))

    def fill(self, one: Instance) -> list[tuple[int, int]]:
        """The cell of an atomic gets bits."""
        if one.space == "shared":
            self.lines.append(f"mul.wide.u32 %cell, %thread, {CELL}; mov.u64 %m, cells; add.u64 %cell, %cell, %m;")
        else:
            self.lines.append(f"add.u64 %cell, %o, {self.output.field(CELL)};")
            self.output.field(CELL)
        sources = [self.load(8, f"%m, []; st.{one.space}.b64 [%cell+{i}], %m;") for i in range(0, CELL, 8)]
        generic = one.space == "shared" and ".shared" not in one.mnemonic
        self.lines.append("cvta.shared.u64 %address, %cell;" if generic else "mov.u64 %address, %cell;")
        return sources

    def inputs(self, random: np.random.Generator) -> np.ndarray:
        rows = np.zeros((THREADS * CTAS, self.input.size), np.uint8)
        for _, sources, _ in self.fields:
            for at, size in sources:
                rows[:, at : at + size] = numbers(random, size, len(rows)).view(np.uint8).reshape(len(rows), size)
        return rows

    def compare(self, given: np.ndarray, gpu: np.ndarray, simulated: np.ndarray):
        """Counts what differs into the instances."""
        differ = gpu != simulated
        for one, sources, results in self.fields:
            wrong = np.zeros(len(gpu), bool)
            for at, size in results:
                wrong |= differ[:, at : at + size].any(axis=1)
            one.values += len(gpu)
            one.differ += int(wrong.sum())
            for thread in np.flatnonzero(wrong)[: 3 - len(one.examples)]:
                fields = [
                    " ".join(rows[thread, at : at + size][::-1].tobytes().hex() for at, size in places)
                    for rows, places in ((given, sources), (gpu, results), (simulated, results))
                ]
                one.examples.append("{}: gpu {}, simulator {}".format(*fields))


# ---- the machines


class Device:
    """Device 0; the driver assembles."""

    def __init__(self):
        from run_fixtures import Gpu

        self.gpu = Gpu()

    def run(self, kernel: Kernel, given: np.ndarray) -> np.ndarray:
        call, module, function = self.gpu.call, ctypes.c_void_p(), ctypes.c_void_p()
        log = ctypes.create_string_buffer(1 << 16)
        keys = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER, its size
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        text = kernel.text.encode() + b"\0"
        try:
            call("cuModuleLoadDataEx", ctypes.byref(module), text, 2, keys, values)
        except RuntimeError as error:
            raise Refused(log.value.decode(), str(error)) from None
        call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
        sizes = (given.nbytes, len(given) * kernel.output.size)
        pointers = [ctypes.c_uint64() for _ in sizes]
        for pointer, size in zip(pointers, sizes, strict=True):
            call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        call("cuMemcpyHtoD_v2", pointers[0], given.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(sizes[0]))
        call("cuMemsetD8_v2", pointers[1], 0, ctypes.c_size_t(sizes[1]))
        arguments = (ctypes.c_void_p * 2)(*[ctypes.addressof(pointer) for pointer in pointers])
        call("cuLaunchKernel", function, CTAS, 1, 1, THREADS, 1, 1, 0, None, arguments, None)
        call("cuCtxSynchronize")
        out = np.zeros((len(given), kernel.output.size), np.uint8)
        call("cuMemcpyDtoH_v2", out.ctypes.data_as(ctypes.c_void_p), pointers[1], ctypes.c_size_t(sizes[1]))
        for pointer in pointers:
            call("cuMemFree_v2", pointer)
        call("cuModuleUnload", module)
        return out


class Assembler:
    """Stands for the device: says whether ptxas takes the kernels."""

    def __init__(self, path: str):
        self.path = path

    def run(self, kernel: Kernel, given: np.ndarray) -> np.ndarray:
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
            file.write(kernel.text)
            file.flush()
            command = [self.path, f"-arch={TARGET}", "-O0", file.name, "-o", "/dev/null"]
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Refused(done.stdout + done.stderr, "ptxas")
        return simulate(kernel, given)


class Refused(Exception):
    """A kernel has instructions that a machine does not take: `lines` are theirs."""

    def __init__(self, log: str, what: str):
        super().__init__(f"{what}: {log[:2000]}")
        self.lines = {int(line) for line in re.findall(r"\bline (\d+)", log)}


def simulate(kernel: Kernel, given: np.ndarray) -> np.ndarray:
    from pyptx import _core
    from pyptx.errors import PtxError

    out = bytearray(len(given) * kernel.output.size + 256)
    memory = np.frombuffer(out, np.uint8)
    start = -memory.ctypes.data % 256
    rows = memory[start : start + len(given) * kernel.output.size]
    source = np.zeros(given.nbytes + 256, np.uint8)
    at = -source.ctypes.data % 256
    source[at : at + given.nbytes] = given.reshape(-1)
    try:
        buffers = [memoryview(source[at : at + given.nbytes]), memoryview(rows)]
        _core.run_text(kernel.text.encode(), "k.ptx", "k", (CTAS, 1, 1), (THREADS, 1, 1), (1, 1, 1), 0, buffers)
    except PtxError as error:
        refused = Refused("", f"the simulator: {error}")
        refused.lines = {diagnostic.line for diagnostic in error.diagnostics}
        raise refused from None
    return rows.reshape(len(given), -1).copy()


def legal(batch: list[Instance], machine, given: np.random.Generator, left_out: dict) -> Kernel | None:
    """The kernel of those that both machines take."""
    while batch:
        kernel = Kernel(batch)
        rows = kernel.inputs(given)
        for name, run in (("simulator", simulate), ("assembler", machine.run)):
            try:
                run(kernel, rows)
            except Refused as refused:
                wrong = {id(kernel.of_line[line]) for line in refused.lines if line in kernel.of_line}
                if not wrong:
                    raise
                for one in batch:
                    if id(one) in wrong:
                        left_out[one.text] = name
                batch = [one for one in batch if id(one) not in wrong]
                break
        else:
            return kernel
    return None


def differences(lines: list[str], machine, seconds: float, seed: int = 0, prefixes: list[str] | None = None):
    """The instances with what was counted, and those that were left out with the machine that does not take them."""
    random = np.random.default_rng(seed)
    found, left_out = instances(lines, prefixes or []), {}
    random.shuffle(found)
    end = time.monotonic() + seconds
    batches = [found[i : i + BATCH] for i in range(0, len(found), BATCH)]
    kernels = [kernel for batch in batches if (kernel := legal(batch, machine, random, left_out))]
    first = True
    while first or time.monotonic() < end:
        for kernel in kernels:
            if not first and time.monotonic() > end:
                break
            given = kernel.inputs(random)
            kernel.compare(given, machine.run(kernel, given), simulate(kernel, given))
        first = False
    return [one for kernel in kernels for one in kernel.batch], left_out


def report(found: list[Instance], left_out: dict) -> list[str]:
    out = []
    for one in sorted(found, key=lambda one: one.title):
        if one.differ:
            out.append(f"{one.title}: {one.differ} of {one.values} differ")
            out += [f"    {example}" for example in one.examples]
    out += [f"left out, the {name} does not take it: {text}" for text, name in sorted(left_out.items())]
    values, differ = sum(one.values for one in found), sum(bool(one.differ) for one in found)
    return [*out, f"{values} values of {len(found)} instances, {differ} differ"]


def lines_of(source: Path, version: str) -> list[str]:
    """The instances that oracle_instances writes for this version of PTX, or those of a file."""
    if source.suffix == ".txt":
        if lines := source.read_text().splitlines():
            return lines
        sys.exit(f"{source} has no instances: write them by oracle_instances --depth 0 {TARGET} {version}")
    command = [str(source), "--depth", "0", TARGET, version]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefixes", nargs="*", metavar="PREFIX")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--instances", type=Path, default=INSTANCES, help="oracle_instances, or a file with its lines")
    parser.add_argument("--assembler", metavar="PATH", help="ptxas; no GPU")
    arguments = parser.parse_args()
    lines = lines_of(arguments.instances, VERSION)
    machine = Assembler(arguments.assembler) if arguments.assembler else Device()
    found, left_out = differences(lines, machine, arguments.seconds, arguments.seed, arguments.prefixes)
    print("\n".join(report(found, left_out)))
    return int(any(one.differ for one in found))


if __name__ == "__main__":
    sys.exit(main())
