"""known.tsv: differences between check and the assembler that are understood, each with its reason."""

import pathlib
import re

FILE = pathlib.Path(__file__).parent / "known.tsv"


class Entry:
    """`section`: of the manual, or its beginning; `takes`: what the assembler does that check does not: takes, refuses
    or any; `targets`: names as in `sm_90a sm_100*`, `*` for all, `13.0` or `12.*` for assemblers other than the newest."""

    def __init__(self, line: int, section: str, takes: str, targets: str, pattern: str, reason: str):
        self.line, self.section, self.takes, self.reason = line, section, takes, reason
        self.pattern, self.expression = pattern, re.compile(pattern)
        self.targets_text = targets
        self.targets = [re.compile(t.replace(".", r"\.").replace("*", ".*")) for t in targets.split()]

    def fits(self, section: str, theirs: str, target: str, version: str, text: str) -> bool:
        if self.takes != "any" and self.takes != ("takes" if theirs == "legal" else "refuses"):
            return False
        if section and self.section != "*" and not (section + ".").startswith(self.section + "."):
            return False
        if not any(t.fullmatch(target) or t.fullmatch(version) for t in self.targets):
            return False
        return self.expression.search(text) is not None


def read(path: pathlib.Path = FILE) -> list[Entry]:
    entries = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        columns = line.split("\t")
        if len(columns) == 2:  # pattern and reason alone
            columns = ["*", "any", "*", *columns]
        if len(columns) != 5 or columns[1] not in ("takes", "refuses", "any"):
            raise SystemExit(f"{path.name}:{number}: section, takes|refuses|any, targets, pattern, reason")
        entries.append(Entry(number, *columns))
    return entries


def find(entries: list[Entry], section: str, theirs: str, target: str, version: str, text: str):
    """The first entry that explains the difference; without a section, of any."""
    return next((e for e in entries if e.fits(section, theirs, target, version, text)), None)


def stale(entries: list[Entry], hits) -> list[Entry]:
    return [e for e in entries if not hits[e.line]]
