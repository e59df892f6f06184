#!/usr/bin/env python3
"""Files as they are: check refuses the lines that the assembler refuses, and no other.

    verdicts.py --verdict build/dev/tests/verdict [--assembler PATH] [FILE...]

Default files: those of mutants.py, of any size. The assembler is stopped before it generates code. One wrong line hides
others from it, so refused instructions are taken out and the rest is asked again; a wrong directive stays.
"""

import argparse
import pathlib
import sys

import assembler
import mutants

# Files in which lines differ for good; one that no longer differs fails.
KNOWN = {
    "vector8_extract.ptx": "ld and st of .v8.u8 are in no manual, and the assembler crashes when it generates code"
}


def assembler_lines(judge, case: mutants.Case) -> dict[int, str]:
    """Line (from 0) -> first error; -1: it names none, or crashes."""
    lines, found = list(case.lines), {}
    while True:
        new = mutants.assembler_lines(judge, case.device, lines, lines)
        new = {at: error for at, error in new.items() if at not in found}
        found.update(new)
        instructions = [at for at in new if at >= 0 and mutants.is_instruction(lines[at])]
        if not instructions:
            return found
        for at in instructions:
            lines[at] = ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verdict", required=True)
    parser.add_argument("--assembler")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    judge = assembler.find(arguments.assembler)
    if not judge:
        print("skipped: no ptxas")
        return 0
    files = refused = lines = differences = known = 0
    for path in arguments.files or mutants.files(False, limit=1 << 30):
        case = mutants.Case(path, arguments.verdict, judge)
        mine = mutants.check_lines(arguments.verdict, case.lines)
        theirs = assembler_lines(judge, case)
        files, refused, lines = files + 1, refused + bool(theirs), lines + len(theirs)
        different = sorted(set(mine) ^ set(theirs))
        if path.name in KNOWN:
            known += len(different)
            if not different:
                print(f"{path.name}\tno longer differs\t{KNOWN[path.name]}")
                differences += 1
            continue
        for at in different:
            said = f"check: {mine[at]}" if at in mine else f"assembler: {theirs[at]}"
            print(f"{path.name}:{at + 1}\t{case.lines[at].strip() if at >= 0 else ''}\t{said}")
            differences += 1
    judge.close()
    print(
        f"{files} files, {refused} of them refused for {lines} lines ({judge}); {differences} lines differ, {known} known"
    )
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
