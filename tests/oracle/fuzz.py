"""Random programs on the GPU and on the simulator: python tests/oracle/fuzz.py [--seconds N] [--workers N] [--seed N] [FAMILY...].

A program is a kernel of some dozen random statements over few registers, so that results flow from one into the next: instances of the rows
(oracle_instances, or a file of its lines), branches, loops, memory, copies that finish later, tensor cores.  What a program leaves in registers and
memory is compared bit by bit.  Of a program that differs the first statement that does is looked for and printed with what it read and wrote.
Each family has its own generator (FAMILIES).  Without a GPU, --assembler PATH shows that the programs are legal and run on the simulator.

The programs are in fuzz_programs.py, fuzz_threads.py, fuzz_memory.py, fuzz_fragments.py and fuzz_leave.py.
"""

import argparse
import ctypes
import json
import multiprocessing
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import fuzz_reduce
from fuzz_fragments import Fragments
from fuzz_leave import Leaving, Warpgroups
from fuzz_memory import Functions, Memory
from fuzz_programs import BATCH, HEAD, INPUT, VERSION, Copies, Matrices, Products, Program, Scalar, Video
from fuzz_threads import Atomics, Barriers, Clusters, Collectives
from fuzz_workers import Stuck, found_by
from gpu_differences import INSTANCES, TARGET, lines_of, numbers

# With how many batches of each there are.
FAMILIES = {"scalar": 8, "video": 2, "matrices": 2, "copies": 2, "wgmma": 1}
FAMILIES |= {"atomics": 2, "barriers": 1, "collectives": 3, "clusters": 1, "four_ctas": 1}
FAMILIES |= {"memory": 2, "functions": 2, "fragments": 1, "leaving": 2, "warpgroups": 1}


# ---- the machines


class Device:
    def __init__(self, level: int = 4):
        from run_fixtures import Gpu

        self.call, self.level = Gpu().call, level

    def run(self, programs: list[Program], given: np.ndarray, level: int | None = None) -> list[np.ndarray]:
        """`level` is that of optimisation; 4 is the driver's own."""
        level = self.level if level is None else level
        text = HEAD + "".join(program.text(f"k{i}") for i, program in enumerate(programs))
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(1 << 14)
        keys = (ctypes.c_int * 3)(5, 6, 7)  # CU_JIT_ERROR_LOG_BUFFER, its size, CU_JIT_OPTIMIZATION_LEVEL
        values = (ctypes.c_void_p * 3)(ctypes.addressof(log), len(log), level)
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), text.encode() + b"\0", 3, keys, values)
        except RuntimeError as error:
            line = re.search(r"line (\d+)", log.value.decode())
            shown = text.splitlines()[int(line[1]) - 1] if line else ""
            raise Refused(f"{error}: {log.value.decode()[:300]} {shown}") from None
        sizes = [given.nbytes, *(program.bytes for program in programs)]
        pointer = ctypes.c_uint64()
        places = np.cumsum([0, *(-(-size // 256) * 256 for size in sizes)])
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(int(places[-1])))
        self.call("cuMemsetD8_v2", pointer, 0, ctypes.c_size_t(int(places[-1])))
        self.call("cuMemcpyHtoD_v2", pointer, given.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(given.nbytes))
        for i, program in enumerate(programs):
            function, out = ctypes.c_void_p(), ctypes.c_uint64(pointer.value + int(places[i + 1]))
            self.call("cuModuleGetFunction", ctypes.byref(function), module, f"k{i}".encode())
            arguments = (ctypes.c_void_p * 2)(ctypes.addressof(pointer), ctypes.addressof(out))
            self.call("cuLaunchKernel", function, program.ctas, 1, 1, program.threads, 1, 1, 0, None, arguments, None)
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

    def run(self, programs: list[Program], given: np.ndarray, level: int = 3) -> list[np.ndarray]:
        text = HEAD + "".join(program.text(f"k{i}") for i, program in enumerate(programs))
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
            file.write(text)
            file.flush()
            done = subprocess.run(
                [self.path, f"-arch={TARGET}", f"-O{level}", file.name, "-o", "/dev/null"],
                capture_output=True,
                text=True,
            )
        if done.returncode:
            line = re.search(r"line (\d+)", done.stderr)
            raise Refused(done.stderr[:600] + (text.splitlines()[int(line[1]) - 1] if line else ""))
        return [simulate(program, given) for program in programs]


def simulate(program: Program, given: np.ndarray) -> np.ndarray:
    from pyptx import _core

    memory = np.zeros(program.bytes + 256, np.uint8)
    start = -memory.ctypes.data % 256
    out = memory[start : start + program.bytes]
    _core.run_text(
        (HEAD + program.text()).encode(),
        "k.ptx",
        "k",
        (program.ctas, 1, 1),
        (program.threads, 1, 1),
        (program.ctas, 1, 1),
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
    statements: Counter = field(default_factory=Counter)
    differ: dict[str, list[int]] = field(default_factory=dict)  # the seeds of a family's programs
    optimised: Counter = field(default_factory=Counter)  # of those, the ones that do not differ at level 0
    faults: list[int] = field(default_factory=list)  # the seeds of programs at which the GPU faulted
    together: list[int] = field(default_factory=list)  # batches at which it did, and at no program by itself
    errors: Counter = field(default_factory=Counter)  # what the GPU said when it faulted
    words: list[str] = field(default_factory=list)
    kept: list[dict] = field(default_factory=list)  # programs that differ, made small

    def add(self, other: "Found"):
        self.programs += other.programs
        self.statements += other.statements
        self.optimised += other.optimised
        for family, seeds in other.differ.items():
            self.differ.setdefault(family, []).extend(seeds)
        self.faults += other.faults
        self.together += other.together
        self.errors += other.errors
        self.words += other.words
        self.kept += other.kept


def makers(lines: list[str], families: list[str]) -> list:
    made = {
        "scalar": lambda: Scalar(lines),
        "video": lambda: Video(lines),
        "matrices": Matrices,
        "copies": Copies,
        "wgmma": Products,
        "atomics": Atomics,
        "barriers": Barriers,
        "collectives": Collectives,
        "clusters": Clusters,
        "four_ctas": lambda: Clusters(4),
        "memory": Memory,
        "functions": Functions,
        "fragments": Fragments,
        "leaving": Leaving,
        "warpgroups": Warpgroups,
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


def batch(machine, maker, numbers: range, keep: int = 0) -> Found:
    """The programs of these numbers, of one batch; `keep` of those that differ are made small."""
    out, given = Found(), data(numbers[0] // BATCH)
    programs = [maker.program(number) for number in numbers]
    try:
        real = machine.run(programs, given)
    except Refused as refused:
        out.words.append(f"refused: {refused}")
        return out
    for program, gpu in zip(programs, real, strict=True):
        wrong = out.differ.setdefault(program.family, [])
        try:
            simulated = simulate(program, given)
        except Exception as error:
            wrong.append(program.seed)
            out.words.append(f"{program.family} {program.seed}: the simulator: {str(error)[:500]}")
            continue
        out.programs[program.family] += 1
        out.statements[program.family] += len(program.statements)
        if (gpu != simulated).any():
            wrong.append(program.seed)
            out.optimised[program.family] += bool((machine.run([program], given, level=0)[0] == simulated).all())
            if len(out.words) < 2:
                out.words.append(first_difference(machine, program, given))
            if len(out.kept) < keep:
                out.kept.append(fuzz_reduce.kept(machine, simulate, program, given))
    return out


def maker_of(seed: int, arguments, kinds: list):
    return kinds[seed // arguments.workers % len(kinds)]


def work(place: tuple[int, int], end: float, at, queue, arguments, lines: list[str]):
    """Batches from the one of `place` until the time is over or the GPU faults; see fuzz_workers.py.

    A place is a batch and a program of it, or -1.  Behind a fault the programs of the batch run one by one, so that it is known which
    of them the GPU faults at.
    """
    found, (seed, first) = Found(), place
    try:
        machine = Assembler(arguments.assembler) if arguments.assembler else Device(level=arguments.level)
        kinds = makers(lines, arguments.families)
        while True:
            numbers = range(seed * BATCH, seed * BATCH + BATCH)
            parts = [numbers] if first < 0 else [numbers[i : i + 1] for i in range(first, BATCH)]
            for part in parts:
                at[0], at[1] = seed, -1 if first < 0 else part[0] % BATCH
                more = arguments.keep - len(found.kept)
                found.add(batch(machine, maker_of(seed, arguments, kinds), part, more))
            if first == 0:  # the batch faulted, and each program of it has run
                found.together.append(seed)
            seed, first = seed + arguments.workers, -1
            if time.monotonic() > end:
                break
        queue.put((found, None))
    except Exception as error:
        if isinstance(error, RuntimeError):
            found.errors[re.sub(r".*(CUDA error)", r"\1", str(error))[:100]] += 1
        else:
            found.words.append(f"batch {seed}: {type(error).__name__} {str(error)[:300]}")
        if at[1] >= 0:
            found.faults.append(at[0] * BATCH + at[1])
        queue.put((found, (at[0], at[1] + 1)))
    at[0] = -1


def runs(programs: list[Program]) -> bool:
    """Whether a process of its own gets through programs of one batch."""
    process = multiprocessing.get_context("fork").Process(
        target=lambda: Device().run(programs, data(programs[0].seed // BATCH))
    )
    process.start()
    process.join(10)
    if process.is_alive():
        process.kill()
    return process.exitcode == 0


def faulting(arguments, lines: list[str], seed: int) -> str:
    """The statement of a program that makes the GPU fault, and the program until there."""
    maker = maker_of(seed // BATCH, arguments, makers(lines, arguments.families))
    program = maker.program(seed)
    parts = [replace(program, statements=program.statements[:n]) for n in range(len(program.statements) + 1)]
    with ThreadPoolExecutor(arguments.workers) as pool:
        through = list(pool.map(lambda part: runs([part]), parts))
    if all(through):
        return f"{program.family} {seed}: runs by itself"
    at = through.index(False)
    statement = " ".join(program.statements[at - 1]) if at else "(none)"
    return f"{program.family} {seed}: `{statement[:500]}` faults; its program until there:\n{HEAD}{parts[at].text()}"


def faulting_together(arguments, lines: list[str], seed: int) -> str:
    """The fewest programs of a batch, side by side, at which the GPU faults though it does at none of them."""
    maker = maker_of(seed, arguments, makers(lines, arguments.families))
    programs = [maker.program(number) for number in range(seed * BATCH, seed * BATCH + BATCH)]
    if runs(programs):
        return f"batch {seed}: not seen again"
    end = next(n for n in range(1, BATCH + 1) if not runs(programs[:n]))
    begin = next(n for n in reversed(range(end)) if not runs(programs[n:end]))
    least = programs[begin:end]
    texts = "".join(program.text(f"k{program.seed}") for program in least)
    return f"batch {seed}: {least[0].family} {least[0].seed} to {least[-1].seed} fault together:\n{HEAD}{texts}"


def report(found: Found, most: int) -> list[str]:
    """One difference for each opcode that is in one, then the sums."""
    shown: dict[str, str] = {}
    for words in found.words:
        match = re.search(r"`(?:@\S+ )?([^ ;`]*)", words)
        shown.setdefault(match[1] if match else re.sub(r"\d+", "N", words[:60]), words)
    out = list(shown.values())[:most]
    for name, count in sorted(found.programs.items()):
        differ = f"{len(found.differ.get(name, []))} differ"
        if at_zero := found.optimised[name]:
            differ += f", {at_zero} of them not without the assembler's optimisation"
        out.append(f"{name}: {count} programs of {found.statements[name]} statements, {differ}")
    said = "; ".join(f"{count} x {error}" for error, count in found.errors.most_common())
    out.append(f"{len(found.faults)} programs at which the GPU faults: {found.faults[:20]} {said}".rstrip())
    if found.together:
        out.append(
            f"{len(found.together)} batches at which it faults, and at no program of them: {found.together[:20]}"
        )
    return [*out, f"{found.programs.total()} programs, {sum(map(len, found.differ.values()))} differ"]


def kept(found: Found) -> str:
    """What --out keeps: `program` of the family's class makes a program again from its seed."""
    named = {name: seeds for name, seeds in found.differ.items() if seeds}
    what = {
        "programs": found.programs,
        "differ": named,
        "not at level 0": found.optimised,
        "faults": found.faults,
        "together": found.together,
        "errors": found.errors,
        "words": found.words[:200],
        "programs that differ": found.kept,
    }
    return json.dumps(what, indent=1)


def everything(arguments, lines: list[str]) -> Found:
    """What all workers find."""
    begin, found = arguments.seed * 1_000_000, Found()
    places = [(begin + i, -1) for i in range(arguments.workers)]
    try:
        for one in found_by(work, places, arguments.seconds, "fork", 20, arguments, lines):
            found.add(one)
    except Stuck as stuck:
        found.words.append(str(stuck))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--level", type=int, default=4, help="of the assembler's optimisation, 0 to 4")
    parser.add_argument("--show", type=int, default=20, help="differences at most")
    parser.add_argument(
        "--faults", type=int, default=2, help="so many programs at which the GPU faults are looked into"
    )
    parser.add_argument(
        "--keep", type=int, default=0, help="so many programs that differ, of each worker, are made small for --out"
    )
    parser.add_argument("--out", type=Path, help="a file for the seeds of all programs that differ or fault")
    parser.add_argument("--instances", type=Path, default=INSTANCES, help="oracle_instances, or a file with its lines")
    parser.add_argument("--assembler", metavar="PATH", help="ptxas; no GPU")
    arguments = parser.parse_args()
    lines = lines_of(arguments.instances, VERSION)
    found = everything(arguments, lines)
    print("\n".join(report(found, arguments.show)), flush=True)
    if arguments.out:
        arguments.out.write_text(kept(found))
    for seed in found.faults[: arguments.faults]:
        print(faulting(arguments, lines, seed), flush=True)
    for seed in found.together[: arguments.faults]:
        print(faulting_together(arguments, lines, seed), flush=True)
    wrong = sum(map(len, found.differ.values())) + len(found.faults) + len(found.together)
    return int(bool(wrong or not found.programs.total()))


if __name__ == "__main__":
    sys.exit(main())
