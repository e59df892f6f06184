"""A program of fuzz.py at which two machines differ, made as small as it goes, with both results.

Statements go first, then single lines that write registers of the program and nothing else: what is left has no race and no undefined value that the
whole program has not.
"""

import re
import time
from dataclasses import replace
from itertools import chain

import numpy as np
from fuzz_programs import HEAD, Program

# Lines of scalar programs without which the others still mean something.
ALONE = re.compile(r"(@!?%p\d )?[a-z][\w.:]* %[whdp]\d(?!.*(\[|%a\b|%never|%s\b|%z\b|%z[hwd]))")
SECONDS = 8  # for one program
CARRYING = re.compile(r"(@\S+ )?(addc|subc|madc)\b|\S*\.cc\b")


def without(parts: list, differs) -> list:
    """As few of `parts` as it goes with `differs`: halves first, then less and less of them."""
    size = max(1, len(parts) // 2)
    while True:
        at = 0
        while at < len(parts):
            fewer = parts[:at] + parts[at + size :]
            if differs(fewer):
                parts = fewer
            else:
                at += size
        if size == 1:
            return parts
        size //= 2


def reduced(differ, program: Program) -> Program:
    """`differ(program)` says whether the machines do; it is true of the result."""
    statements = without(program.statements, lambda some: differ(replace(program, statements=some)))
    if program.family not in ("scalar", "video", "functions"):
        return replace(program, statements=statements)
    lines = [[line] for line in chain(*statements)]

    def fewer(some: list[int]) -> Program:
        chosen = set(some)
        return replace(program, statements=[line for i, line in enumerate(lines) if i in chosen or i in needed])

    needed = {i for i, (line,) in enumerate(lines) if not ALONE.match(line) or CARRYING.match(line)}
    free = [i for i in range(len(lines)) if i not in needed]
    if not differ(fewer(free)):
        return replace(program, statements=statements)
    return fewer(without(free, lambda some: differ(fewer(some))))


def kept(machine, simulate, program: Program, given: np.ndarray) -> dict:
    """What is written of a program that differs: its text, one thread's bytes, and whether the code that is not optimised differs too."""

    def both(one: Program, **level):
        return machine.run([one], given, **level)[0], simulate(one, given)

    end = time.monotonic() + SECONDS

    def differ(one: Program) -> bool:
        if time.monotonic() > end:
            return False
        try:
            gpu, simulated = both(one)
        except Exception as error:
            if isinstance(error, RuntimeError) and "CUDA error" in str(error):
                raise
            return False
        return bool((gpu != simulated).any())

    if not differ(program):
        return {"family": program.family, "seed": program.seed, "text": "not seen again"}
    least = reduced(differ, program)
    gpu, simulated = both(least)
    plain, _ = both(least, level=0)
    at = int(np.flatnonzero(gpu != simulated)[0])
    thread = at // program.size
    row = slice(thread * program.size, (thread + 1) * program.size)
    return {
        "family": program.family,
        "seed": program.seed,
        "thread": thread,
        "byte": at - row.start,
        "gpu": gpu[row].tobytes().hex(),
        "simulator": simulated[row].tobytes().hex(),
        "level 0": "as the simulator" if (plain == simulated).all() else plain[row].tobytes().hex(),
        "statements": [line for lines in least.statements for line in lines],
        "text": HEAD + least.text(),
    }
