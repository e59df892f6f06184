#!/usr/bin/env python3
"""Asks the assembler about instances of the rows and compares its verdicts with check's.

    oracle.py --instances build/dev/tests/oracle_instances [--assembler PATH] [--old PATH]... [--jobs N] [--depth D]
              [--part K/N] [--goal sm_90a:9.4]... [--quick | --full] [PREFIX...]

PREFIX selects forms by the beginning of their names. --quick asks a part of everything; --full asks everything, fails
on stale entries of known.tsv and writes the counts for docs/isa/agreement.md (--report). --old: earlier assemblers,
which judge at the versions that they know. known.tsv says what its columns are.
"""

import argparse
import collections
import json
import multiprocessing
import pathlib
import subprocess
import sys
import time

import assembler
import known as known_list

# Every target is asked at the newest version; three of them about all, the others about a part.
DEEP = ["sm_90a", "sm_100a", "sm_120a"]
TARGETS = ["sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_107a", "sm_110a"]
TARGETS += ["sm_120a", "sm_121a"]
NEWEST = "9.4"
OLDER = ["sm_75:6.3", "sm_80:7.0", "sm_90:8.0", "sm_90a:8.6", "sm_100a:8.8"]
OFTEN = ["sm_75:9.4", "sm_90a:9.4", "sm_100a:9.4", "sm_120a:9.4"]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


class Unit:
    """One call of oracle_instances: its arguments, and the assemblers that judge what it writes."""

    def __init__(self, goal: str, depth: int, part: str, judges):
        self.goal, self.depth, self.part, self.judges = goal, depth, part, judges

    def rows(self, arguments) -> list[list[str]]:
        where = ["--since"] if self.goal == "since" else self.goal.split(":")
        command = [arguments.instances, "--depth", str(self.depth), "--samples", str(arguments.samples)]
        command += ["--part", self.part, *where, *arguments.prefixes]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return [line.split("\t") for line in said.splitlines()]


def plan(arguments, judges) -> list[Unit]:
    newest = judges[:1]
    if arguments.goal:
        return [Unit(goal, arguments.depth, arguments.part, newest) for goal in arguments.goal]
    if arguments.quick:
        units = [Unit(goal, 1, "0/40", newest) for goal in OFTEN]
        units += [Unit(f"{t}:{NEWEST}", 1, "1/160", newest) for t in TARGETS if f"{t}:{NEWEST}" not in OFTEN]
        return [*units, Unit("since", 0, "0/3", judges)]
    if arguments.full:
        units, n = [Unit("since", 0, "0/1", judges)], arguments.fraction
        for at, target in enumerate(TARGETS):
            shares = 1 if target in DEEP else 5  # all of it in pieces of a quarter, or one piece
            pieces = [f"{k}/{4 * n}" for k in range(4)] if shares == 1 else [f"{at}/{shares * n * 4}"]
            units += [Unit(f"{target}:{NEWEST}", 1, piece, newest) for piece in pieces]
        return units + [Unit(goal, 1, f"3/{20 * n}", newest) for goal in OLDER]
    return [Unit(goal, arguments.depth, arguments.part, newest) for goal in OFTEN]


def ask(unit: Unit, arguments) -> dict:
    """Counts of the unit by assembler, chapter, target and verdict, and where check says something else."""
    counts, differences, texts = collections.Counter(), [], set()
    by_goal = collections.defaultdict(list)
    for row in unit.rows(arguments):
        by_goal[row[3]].append(row)
    for judge in map(assembler.find, unit.judges):
        highest = assembler.highest_version(judge)
        for goal, rows in by_goal.items():
            target, version = goal.split(":")
            if numbers(version) > highest or not assembler.knows(judge, target, version):
                continue
            suspects = frozenset(row[4] for row in rows if row[0] == "refused")
            bad = assembler.Judge(judge, target, version).refused([row[4] for row in rows], suspects)
            texts.update(hash((row[4], target)) for row in rows)
            for mine, form, section, _, text in rows:
                theirs = "refused" if text in bad else "legal"
                counts[str(judge), ".".join(section.split(".")[:3]), target, theirs] += 1
                if mine != theirs:
                    differences.append([str(judge), section, goal, form, theirs, text, bad.get(text, "")])
        judge.close()
    return {"counts": counts, "differences": differences, "texts": texts}


def run(units: list[Unit], arguments):
    """The units' answers as they come, from some processes."""
    if arguments.jobs == 1:
        yield from (ask(unit, arguments) for unit in units)
        return
    # Processes that are ended with their parent hold the assembler, which may crash: each unit gets a fresh one.
    with multiprocessing.get_context("fork").Pool(arguments.jobs, maxtasksperchild=1) as pool:
        waiting = [pool.apply_async(ask, (unit, arguments)) for unit in units]
        for one in waiting:
            yield one.get()


def agreement(counts, differences) -> tuple[float, float, int]:
    """Of what the assembler takes and of what it refuses: how much check does, in per cent; and the lines asked."""
    whole, other = collections.Counter(), collections.Counter(d[4] for d in differences)
    for (*_, theirs), n in counts.items():
        whole[theirs] += n
    takes, refuses = (100.0 - 100.0 * other[kind] / max(whole[kind], 1) for kind in ("legal", "refused"))
    return takes, refuses, sum(whole.values())


def explained(entries, differences) -> tuple[collections.Counter, list]:
    """How often each line of known.tsv explains a difference, and the differences that none does."""
    hits, new = collections.Counter(), []
    for difference in differences:
        judge, section, goal, _, theirs, text, _ = difference
        entry = known_list.find(entries, section, theirs, goal.split(":")[0], judge.split()[-1], text)
        if entry:
            hits[entry.line] += 1
        else:
            new.append(difference)
    return hits, new


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", required=True)
    parser.add_argument("--assembler", "--ptxas", help="a ptxas or a libnvJitLink; default: the newest at hand")
    parser.add_argument("--old", action="append", default=[], help="an earlier assembler")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--samples", type=int, default=4, help="random mnemonics a form")
    parser.add_argument("--part", default="0/1", help="K/N: every Nth instance")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--goal", action="append", help="TARGET:VERSION or since")
    parser.add_argument("--at-least", type=float, default=100.0, help="agreement in per cent that is enough")
    parser.add_argument("--fraction", type=int, default=1, help="with --full: every Nth instance of the plan")
    parser.add_argument("--report", help="file for the counts")
    parser.add_argument("prefixes", nargs="*")
    arguments = parser.parse_args()
    newest = assembler.find(arguments.assembler)
    if not newest:
        print("skipped: no ptxas")
        return 0
    newest.close()
    begin = time.time()
    entries = known_list.read()
    counts, differences, texts = collections.Counter(), [], set()
    for answer in run(plan(arguments, [newest.path, *arguments.old]), arguments):
        counts += answer["counts"]
        differences += answer["differences"]
        texts |= answer["texts"]
        hits, new = explained(entries, answer["differences"])
        for judge, _, goal, form, theirs, text, error in new:
            by = "" if judge == str(newest) else f"{judge} "
            print(f"{by}{goal}\t{form}\tcheck: {'legal' if theirs == 'refused' else 'refused'}\t{text}\t{error}")
        sys.stdout.flush()
    hits, new = explained(entries, differences)
    takes, refuses, asked = agreement(counts, differences)
    whole = arguments.full and arguments.fraction == 1 and not arguments.prefixes
    stale = known_list.stale(entries, hits) if whole else []
    for entry in stale:
        print(f"known.tsv:{entry.line}: stale, nothing differs so any more: {entry.pattern}")
    print(f"{asked} verdicts on {len(texts)} instructions ({newest}) in {time.time() - begin:.0f} s")
    print(f"check agrees with {takes:.3f} % of what it takes, {refuses:.3f} % of what it refuses")
    print(f"{len(new)} differences, {sum(hits.values())} known by {len(hits)} of {len(entries)} entries")
    if arguments.report:
        report = {"counts": [[*key, n] for key, n in sorted(counts.items())], "differences": differences}
        report |= {"distinct": len(texts), "seconds": round(time.time() - begin), "newest": str(newest)}
        pathlib.Path(arguments.report).write_text(json.dumps(report | {"fraction": arguments.fraction}))
    return 1 if (new and min(takes, refuses) < arguments.at_least) or stale else 0


if __name__ == "__main__":
    sys.exit(main())
