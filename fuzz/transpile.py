"""Random modules of the instance generator: parsed, transpiled in each step of sugar, executed, printed, compared.

    python fuzz/transpile.py --instances build/release/tests/oracle_instances [--seconds 60] [--seed 1]

A module has legal instructions of one target in one or two bodies, between labels and branches, loops, tables of targets,
blocks of registers of their own, `.loc` lines and comments.  check says whether it is legal; of a legal one, the program has to
write its text.  What fails is written to build/fuzz/transpile-SEED.ptx.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
from assembler import Module  # noqa: E402

from pyptx import codegen, parser  # noqa: E402

warnings.simplefilter("ignore")  # what the assembler alone takes

TARGETS = ("sm_75:8.0", "sm_90a:8.6", "sm_100a:8.8", "sm_120a:9.0")
RESERVED = ("ret", "exit", "brx", "bra", "call")  # the skeleton has its own


def instances(program: str, target: str) -> list[str]:
    """Legal instructions, as the generator writes them."""
    command = [program, "--depth", "0", "--samples", "2", *target.split(":")]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    lines = [row.split("\t")[4] for row in rows if row.startswith("legal\t")]
    return [line for line in lines if not line.startswith(RESERVED)]


class Body:
    """Statements between labels that branches lead to, forwards and back."""

    def __init__(self, chosen: random.Random, lines: list[str]):
        self.chosen, self.lines, self.labels, self.out = chosen, lines, 0, []
        self.around: list[str] = []  # labels at the beginning or end of what is open

    def label(self) -> str:
        self.labels += 1
        return self.chosen.choice(("L{}", "$L__BB0_{}", "$_end_{}", "way{}")).format(self.labels)

    def straight(self):
        for _ in range(self.chosen.randrange(5)):
            guard = self.chosen.choice(("", "", "", "@pred_1 ", "@!pred_2 "))
            behind = self.chosen.choice(("", "", "", "  // as it was", " /* a\n * b */"))
            self.out.append(f"{guard}{self.chosen.choice(self.lines)};{behind}")

    def forward(self, depth: int):
        over, uniform = self.label(), self.chosen.choice(("", ".uni"))
        self.out.append(f"@{self.chosen.choice(('', '!'))}pred_{self.chosen.randrange(9)} bra{uniform} {over};")
        self.block(depth)
        if self.chosen.random() < 0.4:
            end = self.label()
            self.out += [f"bra{self.chosen.choice(('', '.uni'))} {end};", f"{over}:"]
            self.block(depth)
            over = end
        self.out.append(f"{over}:")

    def loop(self, depth: int):
        top = self.label()
        self.out.append(f"{top}:")
        self.block(depth)
        self.out.append(
            f"{self.chosen.choice(('@pred_3 ', '@!pred_4 ', ''))}bra{self.chosen.choice(('', '.uni'))} {top};"
        )

    def table(self, depth: int):
        cases = [self.label() for _ in range(self.chosen.randrange(1, 5))]
        table, end = self.label(), self.label()
        targets = self.chosen.choices([*cases, self.chosen.choice([end, *cases])], k=self.chosen.randrange(1, 7))
        if self.chosen.random() < 0.5:
            self.out.append(f"@pred_5 bra {self.chosen.choice([*cases, end])};")
        index = self.chosen.randrange(9)
        self.out += [f"{table}: .branchtargets {', '.join(targets)};", f"brx.idx b32_{index}, {table};"]
        for case in cases:
            self.out.append(f"{case}:")
            self.block(depth)
            self.out += self.chosen.choice(([f"bra {end};"], [f"bra.uni {end};"], [], ["ret;"]))
        self.out.append(f"{end}:")

    def inner(self, depth: int):
        self.out += ["{", ".reg .b32 own, b32_1;", "mov.b32 own, b32_2;", "add.u32 b32_1, own, 1;"]
        self.block(depth)
        self.out.append("}")

    def tangled(self, depth: int):
        inside = self.label()
        self.out.append(f"@pred_6 bra {inside};")
        self.loop(depth)
        self.out.insert(self.chosen.randrange(len(self.out) // 2, len(self.out) + 1), f"{inside}:")

    def part(self, depth: int):
        """What branches from inside go to the beginning or the end of; it may be entered in the middle."""
        top, end, late = self.label(), self.label(), self.label()
        enters = self.chosen.random() < 0.4
        self.out += [f"bra{self.chosen.choice(('', '.uni'))} {late};"] * enters + [f"{top}:"]
        self.around += [top, end]
        self.block(depth)
        self.out += [f"{late}:"] * enters
        self.block(depth)
        del self.around[-2:]
        self.out += [*self.chosen.choice(([], [f"@pred_7 bra {top};"], [f"bra {top};"])), f"{end}:"]

    def away(self, _: int):
        if self.around:
            guard, uniform = self.chosen.choice(("", "@pred_8 ", "@!pred_0 ")), self.chosen.choice(("", ".uni"))
            self.out.append(f"{guard}bra{uniform} {self.chosen.choice(self.around)};")

    def block(self, depth: int):
        self.straight()
        for _ in range(self.chosen.randrange(4) if depth else 0):
            kinds = (self.forward, self.forward, self.loop, self.table, self.inner, self.tangled, self.part, self.part)
            kinds += (self.away,) * 3
            self.chosen.choice(kinds)(depth - 1)
            self.straight()


def module(chosen: random.Random, lines: list[str], target: str) -> bytes:
    head = Module(*target.split(":"))
    made = Body(chosen, lines)
    made.block(chosen.randrange(4))
    text = "\n".join([*head.head, *made.out, "lab:", "ret;", "}", ""])
    if chosen.random() < 0.3:
        text += (
            "\n.visible .func (.param .b32 out) f(.param .b32 in)\n{\n.reg .b32 a;\nld.param.b32 a, [in];\n.loc 1 2 3\n"
        )
        text += 'st.param.b32 [out], a;\nret;\n}\n.file 1 "a.cu"\n'
    return text.encode()


def wrong(source: bytes) -> str:
    for sugar in codegen.SUGARS:
        try:
            codegen.verify(source, codegen.ptx_to_python(source, sugar=sugar), names=sugar == "none")
            codegen.ptx_to_cpp(source, sugar=sugar)
        except Exception as error:
            return f"{sugar}: {type(error).__name__}: {error}"
    return ""


def run(program: str, seconds: float, seed: int) -> int:
    lines = {target: instances(program, target) for target in TARGETS}
    end, tried, legal = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        chosen = random.Random(seed + tried)
        target = chosen.choice(TARGETS)
        source = module(chosen, lines[target], target)
        tried += 1
        if any(one.severity == "error" for one in parser.check(source)):
            continue
        legal += 1
        if said := wrong(source):
            path = ROOT / "build" / "fuzz" / f"transpile-{seed + tried - 1}.ptx"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source)
            print(f"seed {seed + tried - 1}, {path}: {said[:600]}")
            return 1
    print(f"transpile: {tried:,} modules, {legal:,} legal, each in {len(codegen.SUGARS)} steps, 0 wrong")
    return int(legal == 0)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--instances", required=True, help="the program tests/oracle_instances of a build")
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    sys.exit(run(given.instances, given.seconds, given.seed))
