#!/usr/bin/env python3
"""Asks the assembler about instances of the rows and compares its verdicts with check's.

    oracle.py --instances build/dev/tests/oracle_instances [--ptxas PATH] [--quick] [--samples N] [--goal sm_90a:9.0]... [PREFIX...]

PREFIX selects forms by the beginning of their names. Known differences are lines of known.tsv: a regular expression on
the instruction, a tab, and the reason.
"""

import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
TYPES = [
    "b8",
    "b16",
    "b32",
    "b64",
    "b128",
    "u8",
    "u16",
    "u32",
    "u64",
    "s8",
    "s16",
    "s32",
    "s64",
    "f16",
    "f16x2",
    "f32",
    "f64",
    "pred",
]
GOALS = [
    "sm_75:6.3",
    "sm_80:7.0",
    "sm_90:8.0",
    "sm_90a:8.6",
    "sm_100a:8.8",
    "sm_103f:9.0",
    "sm_120a:9.0",
    "sm_107a:9.4",
]
QUICK = ["sm_90a:8.6"]


def find_ptxas() -> str | None:
    """The newest assembler at hand: the PyPI package's, else the one on the path."""
    for site in map(pathlib.Path, sys.path):
        for found in sorted(site.glob("nvidia/*/bin/ptxas")):
            return str(found)
    return shutil.which("ptxas")


def highest_version(ptxas: str) -> tuple[int, int]:
    """Tried on one empty module a version, from above."""
    for version in [(9, 5), (9, 4), (9, 3), (9, 2), (9, 1), (9, 0), (8, 8), (8, 7), (8, 6), (8, 5)]:
        if not assemble(ptxas, "sm_80", f".version {version[0]}.{version[1]}\n.target sm_80\n"):
            return version
    return (0, 0)


def assemble(ptxas: str, target: str, text: str) -> dict[int, str]:
    """Line -> first error; line 0 holds what has no line."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "k.ptx")
        path.write_text(text)
        run = subprocess.run(
            [ptxas, "-O0", "-arch", target, str(path), "-o", str(path) + ".cubin"], capture_output=True, text=True
        )
    errors: dict[int, str] = {}
    if run.returncode == 0:
        return errors
    for line in (run.stdout + run.stderr).splitlines():
        at = re.search(r"line (\d+); (error|fatal)\s*: (.*)", line)
        if at:
            errors.setdefault(int(at[1]), at[3])
    return errors or {0: run.stderr.strip() or f"exit {run.returncode}"}


def module(target: str, version: str, lines: list[str]) -> tuple[str, int]:
    """The text, and the number of lines before the first of `lines`."""
    head = [
        f".version {version}",
        f".target {target}",
        ".address_size 64",
        ".global .align 16 .b8 gv[256];",
        ".shared .align 16 .b8 sv[256];",
        ".const .align 16 .b8 cv[256];",
        ".visible .entry k(.param .align 16 .b8 pv[256])",
        "{",
    ]
    for name in TYPES:
        if name == "b128" and tuple(map(int, version.split("."))) < (8, 3):
            continue
        head.append(f".reg .{name} {name}_<136>;")
    head += [".local .align 16 .b8 lv[256];", ".param .align 16 .b8 qv[256];"]
    return "\n".join(head + [line + ";" for line in lines] + ["lab:", "ret;", "}", ""]), len(head)


def verdicts(ptxas: str, target: str, version: str, lines: list[str]) -> dict[int, str]:
    """Index -> error. Refused lines are taken out and the rest is asked again, as some errors hide others.

    The last line is always wrong, so that the assembler stops before it generates code."""
    bad: dict[int, str] = {}
    live = list(range(len(lines)))
    while live:
        text, before = module(target, version, [lines[i] for i in live] + ["bra no_such_label"])
        errors = assemble(ptxas, target, text)
        if 0 in errors:  # it crashed: ask in halves
            if len(live) == 1:
                return bad | {live[0]: errors[0]}
            middle = len(live) // 2
            for half in (live[:middle], live[middle:]):
                found = verdicts(ptxas, target, version, [lines[i] for i in half])
                bad.update({half[i]: error for i, error in found.items()})
            return bad
        hit = {live[n - before - 1]: e for n, e in errors.items() if 0 <= n - before - 1 < len(live)}
        if not hit:
            if before + len(live) + 1 not in errors:
                raise RuntimeError(f"{target} {version}: {errors}")
            return bad
        bad.update(hit)
        live = [i for i in live if i not in bad]
    return bad


def compare(arguments, goal: str, known) -> collections.Counter:
    target, version = goal.split(":")
    command = [arguments.instances, target, version, str(arguments.samples), *arguments.prefixes]
    rows = [
        line.split("\t")
        for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    ]
    if arguments.quick:
        rows = rows[::4]
    count = collections.Counter()
    chunk = 4000
    for begin in range(0, len(rows), chunk):
        part = rows[begin : begin + chunk]
        bad = verdicts(arguments.ptxas, target, version, [row[2] for row in part])
        for index, (mine, form, text) in enumerate(part):
            theirs = "refused" if index in bad else "legal"
            count[theirs, mine] += 1
            if mine == theirs:
                continue
            reason = next((k for k in known if k.search(text)), None)
            if reason:
                known[reason] += 1
                continue
            count["differs"] += 1
            print(f"{goal}\t{form}\tcheck: {mine}\t{text}\t{bad.get(index, '')}")
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", required=True)
    parser.add_argument("--ptxas", default=find_ptxas())
    parser.add_argument("--quick", action="store_true", help="one goal, no random samples, every fourth instruction")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--goal", action="append", help="TARGET:VERSION; default: a list of both")
    parser.add_argument("prefixes", nargs="*")
    arguments = parser.parse_args()
    if not arguments.ptxas:
        print("skipped: no ptxas")
        return 0
    if arguments.quick:
        arguments.samples = 0
    highest = highest_version(arguments.ptxas)
    lines = [line for line in (HERE / "known.tsv").read_text().splitlines() if line and not line.startswith("#")]
    known = {re.compile(line.split("\t")[0]): 0 for line in lines}
    total = collections.Counter()
    for goal in arguments.goal or (QUICK if arguments.quick else GOALS):
        if tuple(map(int, goal.split(":")[1].split("."))) > highest:
            print(f"skipped: {goal}, ptxas knows PTX {highest[0]}.{highest[1]}")
            continue
        total += compare(arguments, goal, known)
    asked = sum(n for key, n in total.items() if key != "differs")
    print(f"{asked} instructions, {total['differs']} differences, {sum(known.values())} known")
    return 1 if total["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
