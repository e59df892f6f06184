#!/usr/bin/env python3
"""Files with one random change in many of their instructions: check has to name the lines that the assembler refuses.

    mutants.py --verdict build/dev/tests/verdict [--assembler PATH] [--part] [--seed N] [--rounds N] [--seconds N] [FILE...]

Default files: the fixtures of the repository, the corpus of tools/corpus and ../shared/corpus; --part: the fixtures and
a few small modules. With --seconds, files are drawn by the seed until the time is spent, each file once a round.
A change: another type, a modifier left out, doubled, moved or exchanged, another register, another number of
operands, another number. Differences go through known.tsv, with
registers spelled as in the instances (%r1 of .b32 as b32_1).
"""

import argparse
import collections
import itertools
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import zlib

import assembler
import known as known_list

REPO = pathlib.Path(__file__).resolve().parents[2]
TYPES = re.findall(r"^TYPE\((\w+),", (REPO / "ptx/isa/types.def").read_text(), re.MULTILINE)
MODIFIERS = [
    "sat",
    "ftz",
    "rn",
    "rz",
    "approx",
    "wide",
    "lo",
    "hi",
    "global",
    "shared",
    "volatile",
    "relaxed",
    "gpu",
    "cta",
]
MODIFIERS += ["sync", "aligned", "v2", "v4", "add", "and", "eq", "lt", "L2::cache_hint", "acquire", "trans", "x2", "to"]
NUMBERS = ["0", "1", "-1", "7", "31", "255", "256", "65536", "4294967295", "4294967296", "0f3F800000", "1.5"]
NUMBERS += ["0d3FF0000000000000", "0x80000000"]
STATEMENT = re.compile(r"^(\s*(?:@!?[\w%$.]+\s+)?)([a-z]\w*)((?:\.[\w:]+)*)(?:\s+([^;]*))?;\s*$")
REGISTER = re.compile(r"%[a-zA-Z_]+\d+|(?<=[\s{,\[])[a-z]+\d*(?=[,\s\]}+])")
NUMBER = re.compile(r"(?<![\w%.$])-?(?:0[xX][0-9a-fA-F]+|0[fd][0-9a-fA-F]+|\d+)(?![\w.])")
STOP = ".func pyptx_stops_here()\n{\nbra no_such_label;\n}\n"
LIMIT, PART_LIMIT = 2_000_000, 20_000  # bytes of a file


def corpus() -> pathlib.Path:
    return pathlib.Path(os.environ.get("PYPTX_CORPUS", "~/.cache/pyptx/corpus")).expanduser() / "ptx"


def files(part: bool, limit: int = LIMIT) -> list[pathlib.Path]:
    fixtures = [p for kind in ("accept", "run") for p in sorted((REPO / "tests/fixtures" / kind).glob("*.ptx"))]
    found = sorted(p for p in corpus().glob("*.ptx") if p.stat().st_size < (PART_LIMIT if part else limit))
    collected = sorted(p for p in (REPO.parent / "shared/corpus").glob("*/*.ptx") if p.stat().st_size < limit)
    return fixtures + (found[::4] if part else found + collected)


def drawn(paths: list[pathlib.Path], seed: int, rounds: int, seconds: float):
    """(file, round): every file once a round; with a limit of time, in an order that the seed draws."""
    end = time.monotonic() + seconds
    for round_ in itertools.count() if seconds else range(rounds):
        order = random.Random(f"{seed} {round_}").sample(paths, len(paths)) if seconds else paths
        for path in order:
            if seconds and time.monotonic() > end:
                return
            yield path, round_


def split(operands: str) -> list[str]:
    """At commas outside of braces, brackets and parentheses."""
    parts, depth = [""], 0
    for c in operands:
        depth += (c in "{[(") - (c in "}])")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


class Mutator:
    def __init__(self, lines: list[str], seed: int):
        self.random = random.Random(seed)
        self.registers = sorted({r for line in lines if "%" in line for r in re.findall(r"%[a-zA-Z_]+\d+", line)})

    def change(self, line: str) -> str | None:
        """The line with one change, or None if it is no plain instruction."""
        match = STATEMENT.match(line)
        if not match or match[2] == "call" or re.search(r"^\s*\.|\.(callprototype|calltargets|branchtargets)", line):
            return None
        head, opcode, words, operands = match[1], match[2], match[3].split(".")[1:], match[4] or ""
        for _ in range(8):
            kind = self.random.choice(["type", "type", "word", "order", "register", "register", "count", "number"])
            new_words, new_operands = getattr(self, kind)(list(words), operands)
            if new_words != words or new_operands != operands:
                return f"{head}{opcode}{''.join('.' + w for w in new_words)} {new_operands};".replace(" ;", ";")
        return None

    def type(self, words, operands):
        at = [i for i, w in enumerate(words) if w in TYPES]
        if at:
            words[self.random.choice(at)] = self.random.choice(TYPES)
        return words, operands

    def word(self, words, operands):
        at = self.random.randrange(len(words) + 1)
        how = self.random.randrange(4)
        if how == 0 or not words:
            words.insert(at, self.random.choice(MODIFIERS))
        elif how == 1:
            del words[at % len(words)]
        elif how == 2:
            words.insert(at, words[at % len(words)])
        else:
            words[at % len(words)] = self.random.choice(MODIFIERS)
        return words, operands

    def order(self, words, operands):
        self.random.shuffle(words)
        return words, operands

    def register(self, words, operands):
        found = list(re.finditer(r"%[a-zA-Z_]+\d+", operands))
        if found and self.registers:
            one = self.random.choice(found)
            operands = operands[: one.start()] + self.random.choice(self.registers) + operands[one.end() :]
        return words, operands

    def count(self, words, operands):
        parts = split(operands) if operands else []
        if not parts:
            return words, operands
        at = self.random.randrange(len(parts))
        if self.random.randrange(2):
            del parts[at]
        else:
            parts.insert(at, parts[self.random.randrange(len(parts))])
        return words, ", ".join(parts)

    def number(self, words, operands):
        found = list(NUMBER.finditer(operands))
        if found:
            one = self.random.choice(found)
            operands = operands[: one.start()] + self.random.choice(NUMBERS) + operands[one.end() :]
        elif operands:  # in place of an operand
            parts = split(operands)
            parts[self.random.randrange(len(parts))] = self.random.choice(NUMBERS)
            operands = ", ".join(parts)
        return words, operands


def check_lines(verdict: str, lines: list[str]) -> dict[int, str]:
    """Line (from 0) -> first error of check."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        said = subprocess.run([verdict, "--all", file.name], capture_output=True, text=True, check=True).stdout
    found: dict[int, str] = {}
    for line in said.splitlines():
        match = re.match(r"error\t[^\t]*?\.ptx:(\d+):\d+: (.*)", line)
        if match:
            found.setdefault(int(match[1]) - 1, match[2])
        elif line.startswith("error"):
            found.setdefault(-1, line)
    return found


def assembler_lines(judge, target: str, lines: list[str], original: list[str]) -> dict[int, str]:
    """Line -> first error of the assembler; refused lines get their first text back and the rest is asked again."""
    lines, found = list(lines), {}
    while True:
        log = judge.log(target, "\n".join(lines) + "\n" + STOP)
        if log is None:
            return found | halved(judge, target, lines, original, assembler.CRASH)
        if "error" not in log:  # not even that of STOP: the module has not been read
            return found | {-1: log.strip()}
        new = {}
        for match in assembler.ERROR.finditer(log):
            new.setdefault(int(match[1]) - 1, match[3])
        new = {at: error for at, error in new.items() if at < len(lines) and at not in found}
        changed = [at for at in new if lines[at] != original[at]]
        made = assembler.MADE.search(log)
        if (new or made) and not changed and lines != original:
            return found | halved(judge, target, lines, original, made[1] if made else next(iter(new.values())))
        if not changed:
            return found | new
        for at in changed:  # errors elsewhere come again, or were theirs
            found[at] = new[at]
            lines[at] = original[at]


def halved(judge, target: str, lines: list[str], original: list[str], error: str) -> dict[int, str]:
    """As above where the assembler names none of the changed lines: each half of them is asked without the other."""
    changed = [at for at in range(len(lines)) if lines[at] != original[at]]
    if len(changed) < 2:
        return {at: error for at in changed or [-1]}
    found = {}
    for half in (changed[::2], changed[1::2]):
        alone = list(original)
        for at in half:
            alone[at] = lines[at]
        found.update(assembler_lines(judge, target, alone, original))
    return found


def spelled(lines: list[str], at: int) -> str:
    """The instruction with its registers named after their types, as known.tsv has them."""
    types = {}
    for line in lines[:at]:
        match = re.match(r"\s*\.reg\s+\.(\w+)\s+(.*);", line)
        if match:
            for name in match[2].split(","):
                types[re.sub(r"<\d+>", "", name.strip())] = match[1]
    text = re.sub(r"^\s*(@!?[\w%$.]+\s+)?", "", lines[at]).rstrip("; ")

    def name(match):
        register = match[0]
        type_ = types.get(register) or types.get(re.sub(r"\d+$", "", register))
        number = re.search(r"\d*$", register)[0] or "0"
        return f"{type_}_{number}" if type_ else register

    text = re.sub(r"\b0[xX]([0-9a-fA-F]+)\b", lambda number: str(int(number[1], 16)), text)
    return re.sub(r"%[a-zA-Z_]\w*", name, re.sub(r"\s+", " ", text))


def begins(lines: list[str], at: int) -> bool:
    """Whether the line does not go on with a statement of lines before it."""
    before = next((line for i in range(at - 1, -1, -1) if (line := re.sub(r"//.*", "", lines[i]).strip())), "")
    return before == "" or before[-1] in ";:{}" or before.startswith(".")


def is_instruction(line: str) -> bool:
    """Not a directive, nor a line that opens or closes a block."""
    return not re.search(r"[{}]\s*$|^\s*\.", line)


class Case:
    """A file whose unchanged text both take: lines that one of them refuses are taken out first, as they would hide others."""

    def __init__(self, path: pathlib.Path, verdict: str, judge):
        self.path, self.verdict, self.judge = path, verdict, judge
        self.lines = path.read_text(errors="replace").rstrip("\0").splitlines()
        text = "\n".join(self.lines)
        head = re.search(r"^\s*\.version\s+(\d+)\.(\d+)", text, re.MULTILINE)
        target = re.search(r"^\s*\.target\s+(\w+)", text, re.MULTILINE)
        self.version = (int(head[1]), int(head[2])) if head else None
        self.target = target[1] if target else ""
        number = re.search(r"\d+", self.target)  # for an older target than it knows, the assembler is asked for sm_75
        self.device = self.target if number and int(number[0]) >= 75 else "sm_75"

    def usable(self, highest: tuple[int, int]) -> bool:
        if not self.version or not self.target or self.version > highest:
            return False
        if self._cleaned():
            return True
        head = next(i for i, line in enumerate(self.lines) if line.lstrip().startswith(".version"))
        self.lines[head] = f".version {highest[0]}.{highest[1]}"  # older than its target: fragments of LLVM's tests
        return self._cleaned()

    def _cleaned(self) -> bool:
        for _ in range(8):
            bad = set(check_lines(self.verdict, self.lines))
            bad |= set(assembler_lines(self.judge, self.device, self.lines, self.lines))
            if not bad:
                return True
            if not all(at >= 0 and is_instruction(self.lines[at]) for at in bad):
                return False
            for at in bad:
                self.lines[at] = ""
        return False

    def change(self, seed: int, most: int) -> tuple[list[str], list[int]]:
        mutator, lines, changed = Mutator(self.lines, seed), list(self.lines), []
        candidates = [i for i in range(len(lines)) if lines[i].rstrip().endswith(";") and begins(lines, i)]
        mutator.random.shuffle(candidates)
        for at in candidates[: max(10, min(most, len(candidates) // 5))]:
            new = mutator.change(lines[at])
            if new is not None:
                lines[at] = new
                changed.append(at)
        return lines, changed


def one_round(case: Case, seed: int, most: int, entries, counts, hits) -> list[str]:
    lines, changed = case.change(seed, most)
    mine = check_lines(case.verdict, lines)
    theirs = assembler_lines(case.judge, case.device, lines, case.lines)
    reports = []
    for at in sorted(set(changed) | (set(mine) ^ set(theirs))):
        verdict = "refused" if at in theirs else "legal"
        if "PTX2013" in mine.get(at, "") and at not in theirs:
            continue  # 32-bit addresses: the assembler says so when it generates code, which it never does here
        if (at in mine) == (at in theirs):
            counts[verdict] += 1
            continue
        line = spelled(lines, at) if at >= 0 else ""
        entry = known_list.find(entries, "", verdict, case.target, str(case.judge).split()[-1], line)
        counts[f"{verdict} {'known' if entry else 'new'}"] += 1
        if entry:
            hits[entry.line] += 1
            continue
        said = f"check: {mine[at]}" if at in mine else f"assembler: {theirs[at]}"
        reports.append(f"{case.path.name}:{at + 1}\t{line}\t{said}\twas: {case.lines[at].strip() if at >= 0 else ''}")
    return reports


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verdict", required=True)
    parser.add_argument("--assembler")
    parser.add_argument("--part", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1, help="mutated copies of each file")
    parser.add_argument("--seconds", type=float, default=0, help="draw files until this time is spent")
    parser.add_argument("--changes", type=int, default=120, help="most changes in a file")
    parser.add_argument("--at-least", type=float, default=100.0, help="agreement in per cent that is enough")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    judge = assembler.find(arguments.assembler)
    if not judge:
        print("skipped: no ptxas")
        return 0
    highest, entries = assembler.highest_version(judge), known_list.read()
    counts, hits, reports = collections.Counter(), collections.Counter(), 0
    paths, cases = arguments.files or files(arguments.part), {}
    for path, round_ in drawn(paths, arguments.seed, arguments.rounds, arguments.seconds):
        if path not in cases:
            case = Case(path, arguments.verdict, judge)
            cases[path] = case if case.usable(highest) else None
        if cases[path]:
            seed = zlib.crc32(f"{path.name} {arguments.seed} {round_}".encode())
            for line in one_round(cases[path], seed, arguments.changes, entries, counts, hits):
                print(line)
                reports += 1
    judge.close()
    used = sum(case is not None for case in cases.values())
    total = sum(counts.values())
    agreed = counts["legal"] + counts["refused"]
    percent = 100.0 * agreed / max(total, 1)
    print(
        f"{total} changed instructions in {used} files, {len(cases) - used} of {len(paths)} unusable ({judge}): "
        f"{counts['refused']} refused by both, {counts['legal']} legal"
    )
    print(f"same verdict on {percent:.3f} %; {reports} differences, {sum(hits.values())} known")
    return 1 if reports and percent < arguments.at_least else 0


if __name__ == "__main__":
    sys.exit(main())
