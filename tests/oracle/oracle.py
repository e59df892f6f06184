#!/usr/bin/env python3
"""Asks the assembler about instances of the rows and compares its verdicts with check's.

    oracle.py --instances build/dev/tests/oracle_instances [--assembler PATH] [--old PATH]... [--jobs N] [--depth D]
              [--part K/N] [--target sm_90a:9.4]... [--quick | --full] [PREFIX...]

PREFIX selects forms by the beginning of their names. --quick asks a part of everything; --full asks everything, fails
on stale entries of known.tsv and writes the counts for docs/isa/agreement.md (--report). --old: earlier assemblers,
which judge at the versions that they know. known.tsv says what its columns are.
"""

import argparse
import collections
import itertools
import json
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile
import time

import assembler
import known as known_list

# Every target is asked at the newest version; three of them about all, the others about a part.
DEEP = ["sm_90a", "sm_100a", "sm_120a"]
OLDEST = 75  # that assemblers of today know
NEWEST = "9.4"
OLDER = ["sm_75:6.3", "sm_80:7.0", "sm_90:8.0", "sm_90a:8.6", "sm_100a:8.8"]
OFTEN = ["sm_75:9.4", "sm_90a:9.4", "sm_100a:9.4", "sm_120a:9.4"]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def targets(instances: str) -> list[str]:
    """The targets of ptx/arch/targets.def that assemblers of today know, each hardware under its present name."""
    found = subprocess.run([instances, "--targets"], stdout=subprocess.PIPE, check=True, text=True).stdout
    rows = [line.split("\t") for line in found.splitlines()]
    return [name for name, _, number in rows if int(number) >= OLDEST and name.rstrip("af") == f"sm_{number}"]


class Draw:
    """One call of oracle_instances: its arguments, and the assemblers that judge what it writes."""

    def __init__(self, target: str, depth: int, part: str, judges):
        self.target, self.depth, self.part, self.judges = target, depth, part, judges

    def write(self, arguments, path: pathlib.Path) -> int:
        """How many lines it has written."""
        where = ["--since"] if self.target == "since" else self.target.split(":")
        command = [arguments.instances, "--depth", str(self.depth), "--samples", str(arguments.samples)]
        command += ["--part", self.part, *where, *arguments.prefixes]
        with path.open("w") as file:
            subprocess.run(command, stdout=file, check=True)
        with path.open("rb") as file:
            return sum(1 for _ in file)


def plan(arguments, judges) -> list[Draw]:
    newest, n = judges[:1], arguments.fraction
    if arguments.target:
        return [Draw(target, arguments.depth, arguments.part, newest) for target in arguments.target]
    every = targets(arguments.instances)
    if arguments.quick:
        draws = [Draw(target, 1, "0/40", newest) for target in OFTEN]
        draws += [Draw(f"{t}:{NEWEST}", 1, "1/160", newest) for t in every if f"{t}:{NEWEST}" not in OFTEN]
        return [*draws, Draw("since", 0, "0/3", judges)]
    if arguments.full:
        draws = [Draw("since", 0, "0/1", judges)]
        draws += [Draw(f"{target}:{NEWEST}", 1, f"0/{n}", newest) for target in DEEP]
        rest = [target for target in every if target not in DEEP]
        draws += [Draw(f"{target}:{NEWEST}", 1, f"{at}/{20 * n}", newest) for at, target in enumerate(rest)]
        return draws + [Draw(target, 1, f"3/{20 * n}", newest) for target in OLDER]
    return [Draw(target, arguments.depth, arguments.part, newest) for target in OFTEN]


UNIT = 4000  # lines that one process asks about before another may have its place: some take the assembler far longer


def units(path: pathlib.Path, count: int, judges) -> list[tuple]:
    """Shares of the written lines, each of every kind: what takes long is spread over all of them."""
    n = -(-count // UNIT)
    return [(path, k, n, judges) for k in range(n)]


def ask(path: pathlib.Path, share: int, shares: int, judges) -> dict:
    """Counts of a share of the lines by assembler, chapter, target and verdict, and where check says something else."""
    counts, differences, texts = collections.Counter(), [], set()
    by_target = collections.defaultdict(list)
    with path.open() as file:
        for line in itertools.islice(file, share, None, shares):
            row = line.rstrip("\n").split("\t")
            by_target[row[3]].append(row)
    for judge in map(assembler.find, judges):
        highest = assembler.highest_version(judge)
        for asked, rows in by_target.items():
            target, version = asked.split(":")
            if numbers(version) > highest or not assembler.knows(judge, target, version):
                continue
            suspects = frozenset(row[4] for row in rows if row[0] == "refused")
            bad = assembler.Judge(judge, target, version).refused([row[4] for row in rows], suspects)
            texts.update(hash((row[4], target)) for row in rows)
            for mine, form, section, _, text in rows:
                theirs = "refused" if text in bad else "legal"
                counts[str(judge), ".".join(section.split(".")[:3]), target, theirs] += 1
                if mine != theirs:
                    differences.append([str(judge), section, asked, form, theirs, text, bad.get(text, "")])
        judge.close()
    return {"counts": counts, "differences": differences, "texts": texts}


def run(draws: list[Draw], arguments, folder: pathlib.Path):
    """The answers of all shares as they come, from some processes."""
    paths = [folder / str(at) for at in range(len(draws))]
    # Processes that are ended with their parent hold the assembler, which may crash: each share gets a fresh one. Texts
    # are counted by their hashes, which are the same in all children of one process.
    with multiprocessing.get_context("fork").Pool(arguments.jobs, maxtasksperchild=1) as pool:
        lines = pool.starmap(Draw.write, [(draw, arguments, path) for draw, path in zip(draws, paths, strict=True)], 1)
        shares = [unit for d, path, n in zip(draws, paths, lines, strict=True) for unit in units(path, n, d.judges)]
        waiting = [pool.apply_async(ask, share) for share in shares]
        for one in waiting:
            yield one.get()


def agreement(counts, differences) -> tuple[float, float, int]:
    """How many of the lines that the assembler takes check takes, in per cent; the same of refused lines; and the number of lines asked."""
    whole, other = collections.Counter(), collections.Counter(d[4] for d in differences)
    for (*_, theirs), n in counts.items():
        whole[theirs] += n
    takes, refuses = (100.0 - 100.0 * other[kind] / max(whole[kind], 1) for kind in ("legal", "refused"))
    return takes, refuses, sum(whole.values())


def explained(entries, differences) -> tuple[collections.Counter, list]:
    """How often each line of known.tsv explains a difference, and the differences that none does."""
    hits, new = collections.Counter(), []
    for difference in differences:
        judge, section, target, _, theirs, text, _ = difference
        entry = known_list.find(entries, section, theirs, target.split(":")[0], judge.split()[-1], text)
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
    parser.add_argument("--target", action="append", help="TARGET:VERSION or since")
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
    with tempfile.TemporaryDirectory() as folder:
        for answer in run(plan(arguments, [newest.path, *arguments.old]), arguments, pathlib.Path(folder)):
            counts += answer["counts"]
            differences += answer["differences"]
            texts |= answer["texts"]
            hits, new = explained(entries, answer["differences"])
            for judge, _, target, form, theirs, text, error in new:
                by = "" if judge == str(newest) else f"{judge} "
                print(f"{by}{target}\t{form}\tcheck: {'legal' if theirs == 'refused' else 'refused'}\t{text}\t{error}")
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
