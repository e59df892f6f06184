#!/usr/bin/env python3
"""Writes docs/isa/agreement.md from what `oracle.py --full --report` and the mutation and re-emission tests said.

agreement.py REPORT.json MUTANTS.txt REEMIT.txt VERDICTS.txt
"""

import collections
import datetime
import json
import os
import pathlib
import sys

import known as known_list
import oracle

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "isa" / "agreement.md"


def table(head: list[str], rows: list[list]) -> str:
    lines = [" | ".join(map(str, row)) for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def by(counts, differences, column: int, key) -> list[list]:
    """Rows of asked, taken and refused lines, and agreement, by what `key` makes of a difference."""
    groups = collections.defaultdict(collections.Counter)
    for *where, n in counts:
        groups[where[column]][where[3]] += n
    other = collections.Counter((key(d), d[4]) for d in differences)
    rows = []
    for name in sorted(groups, key=oracle_key):
        takes, refuses = groups[name]["legal"], groups[name]["refused"]
        shares = [100 - 100 * other[name, kind] / max(n, 1) for kind, n in (("legal", takes), ("refused", refuses))]
        rows.append([name, takes + refuses, takes, f"{shares[0]:.2f}", refuses, f"{shares[1]:.2f}"])
    return rows


def oracle_key(name: str):
    return (
        [int(part) if part.isdigit() else part for part in name.replace("_", ".").split(".")]
        if name[0] == "9"
        else [name]
    )


def main() -> int:
    report = json.loads(pathlib.Path(sys.argv[1]).read_text())
    mutants, reemit, verdicts = (pathlib.Path(path).read_text().splitlines() for path in sys.argv[2:5])
    entries = known_list.read()
    newest = report["newest"]
    counts = [row for row in report["counts"] if row[0] == newest]
    differences = [d for d in report["differences"] if d[0] == newest]
    total = collections.Counter({tuple(row[:4]): row[4] for row in counts})
    takes, refuses, asked = oracle.agreement(total, differences)
    hits, new = oracle.explained(entries, report["differences"])
    head = ["", "lines", "taken", "check agrees, %", "refused", "check agrees, %"]
    chapter = by(counts, differences, 1, lambda d: ".".join(d[1].split(".")[:3]))
    target = by(counts, differences, 2, lambda d: d[2].split(":")[0])
    judges = by(report["counts"], report["differences"], 0, lambda d: d[0])
    reasons = [[e.section, e.takes, e.targets_text, e.reason, hits[e.line]] for e in entries if hits[e.line]]
    fraction = report["fraction"]
    part = f", every {fraction}th instance (`--fraction {fraction}`)" if fraction > 1 else ""
    text = [
        "# Agreement of check and the assembler\n",
        f"Written by `make oracle`{part} on {datetime.date.today()}, {newest}; {report['seconds']} s on {os.cpu_count()} cores. Instances of the rows and what lies",
        "one step outside them (`tests/oracle/instances.cpp` says what). An instance counts once a target and version.\n",
        f"- **{asked} verdicts** of {newest} on {report['distinct']} distinct instructions and targets.",
        f"- Of what the assembler takes, check takes **{takes:.3f} %**; of what it refuses, check refuses **{refuses:.3f} %**;",
        "  both before the allow-list.",
        f"- {len(differences)} differences, {len(differences) - sum(d[0] == newest for d in new)} explained by `tests/oracle/known.tsv` ({len(entries)} entries), "
        f"{sum(d[0] == newest for d in new)} not yet.",
        f"- Files as they are: {verdicts[-1]}.",
        f"- Mutated files: {mutants[-2]}; {mutants[-1]}.",
        f"- Re-emission: {reemit[-1]}.\n",
        "Modifiers of `testp`, `ldmatrix` and `tensormap.replace` are drawn seldom for other instructions: the assembler ignores them",
        "there, and check takes them with a warning.\n",
        "A line that check takes counts as taken when the assembler has looked at it whole, short of generating code; one that check",
        "refuses is compiled as well. Lines that only fail as code, mostly by internal errors of the assembler, are so not seen here.\n",
        "## By chapter\n",
        table(["chapter", *head[1:]], chapter),
        "## By target\n",
        table(["target", *head[1:]], target),
        "## By assembler\n",
        "Earlier assemblers judge the `since` columns, each at the versions that it knows.\n",
        table(["assembler", *head[1:]], judges),
        "## Known differences\n",
        "`takes`: the assembler takes it, check does not.\n",
        table(["section", "assembler", "targets", "reason", "hits"], reasons),
    ]
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(text))
    print(f"{PAGE}: {asked} verdicts, {takes:.3f} %, {refuses:.3f} %, {len(new)} not explained")
    return 0


if __name__ == "__main__":
    sys.exit(main())
