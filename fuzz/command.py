"""Fuzzes the command `pyptx`: every subcommand with odd files and odd options.

    python fuzz/command.py [--seconds 60] [--seed N]

A command line must end with a status of the table in its help, within ten seconds; without a traceback, and with a word on the
standard error where it is 2; JSON and SARIF must be JSON.  Command lines run in child processes of some hundred each, so that one that
crashes is known: its folder is kept, and told.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from pyptx.__main__ import main

FIXTURES = Path(__file__).resolve().parents[1] / "tests/fixtures"
LINES_OF_A_CHILD = 300

NUMBERS = [
    "0",
    "1",
    "2",
    "-1",
    "32",
    "1024",
    "4294967295",
    "4294967296",
    "99999999999999999999",
    "1e3",
    "0x10",
    "",
    "a",
    "\u0661",
]
SCALARS = ["i8", "u8", "i16", "s32", "u32", "b64", "i64", "f16", "f32", "f64", "f8", "i128", "", "in", "out", "F32"]
VALUES = [
    *NUMBERS,
    "nan",
    "inf",
    "1e39",
    "1e400",
    "-0.0",
    "00",
    "zz",
    "0" * 5000,
    "f" * 5001,
    ":",
    "\udcff",
    "\x00"[:0],
]
TARGETS = ["sm_90a", "sm_100f", "sm_10", "sm_999", "", "SM_90", "sm_90a sm_80", "x" * 3000, "\udcff"]
NAMES = [
    "wgmma",
    "WGMMA",
    "ld.global",
    "%",
    "%tid",
    "%nothing",
    "",
    ".",
    "..",
    "ld.",
    "add.add.add",
    "\udcff",
    "x" * 3000,
    "\u212a",
]
DESCRIPTIONS = [
    "'<f4'",
    "'>f4'",
    "'|O'",
    "'<U9999999999'",
    "'<f'",
    "[('a','<f4')]",
    "'<V2'",
    "'|b1'",
    "''",
    "None",
    "'<f99999'",
]


def odd_bytes(random: random.Random, content: bytes) -> bytes:
    """A file as it is, or somewhat broken."""
    data = bytearray(content)
    for _ in range(random.choice([0, 1, 1, 2, 5])):
        at = random.randrange(len(data) + 1)
        match random.randrange(9):
            case 0:
                data[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                del data[at : at + random.randrange(200)]
            case 2:
                data[at:at] = random.choice(
                    [b"\0", b"{", b"}" * 9, b"(" * 999, b"\xff\xfe", b"\x1b[2J", b"/*", b'"', b"\r", b";"]
                )
            case 3:
                data[at:at] = b"9" * random.choice([1, 20, 400, 5000])
            case 4:
                data[:] = b"\xef\xbb\xbf" + data
            case 5:
                data[:] = data.decode("latin-1").encode(random.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-32"]))
            case 6:
                other = random.randrange(len(data) + 1)
                data[at:at] = data[other : other + random.randrange(400)]
            case 7:
                data[:] = data.replace(b"\n", random.choice([b"\r\n", b"\r", b" ", b"\n\n"]))
            case 8:
                words = data.split(b" ")
                words[random.randrange(len(words))] = random.choice(words)
                data[:] = b" ".join(words)
    return bytes(data)


def odd_npy(random: random.Random) -> bytes:
    header = (
        f"{{'descr': {random.choice(DESCRIPTIONS)}, 'fortran_order': {random.choice(['False', 'True', '0'])}, 'shape': "
    )
    header += random.choice(["(4,)", "()", "(2, 2)", "(-1,)", "4", "(10**9,)", "('a',)", "(0,)"]) + "}\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(16)
    return content if random.random() < 0.6 else odd_bytes(random, content)


def pick_file(random: random.Random, folder: Path, texts: list[bytes]) -> str:
    if random.random() < 0.1:
        return random.choice([str(folder), str(folder / "none"), "", "-", "/dev/null", "/proc/self/mem", "\udcff.ptx"])
    path = folder / random.choice(["a.ptx", "b c.ptx", "caf\u00e9%.ptx", "-x.ptx", "\udcfe.ptx"])
    path.write_bytes(odd_bytes(random, random.choice(texts)))
    return str(path)


def pick_argument(random: random.Random, folder: Path) -> str:
    if random.random() < 0.25:
        path = folder / "x.npy"
        path.write_bytes(odd_npy(random))
        return random.choice(["", "out:", "in:"]) + str(path)
    return random.choice(["out:480", "in:00112233", "i32:1", f"{random.choice(SCALARS)}:{random.choice(VALUES)}"])


def command_line(random: random.Random, folder: Path, texts: list[bytes]) -> list[str]:
    def maybe(*words: str) -> list[str]:
        return list(words) if random.random() < 0.3 else []

    match random.randrange(9):
        case 0 | 1 | 2:
            files = [pick_file(random, folder, texts) for _ in range(random.choice([1, 1, 1, 3]))]
            form = maybe("--format", random.choice(["text", "json", "sarif", "sarif", "xml"]))
            return ["check", *maybe("--lint"), *form, *maybe("--target", random.choice(TARGETS)), *files]
        case 3:
            return ["parse", pick_file(random, folder, texts)]
        case 4 | 5 | 6:
            arguments = [w for _ in range(random.randrange(4)) for w in ("--arg", pick_argument(random, folder))]
            sizes = [
                w
                for name in ("grid", "block", "cluster")
                for w in maybe(f"--{name}", ",".join(random.choices(NUMBERS[:7], k=3)))
            ]
            odd = [
                w
                for name in ("grid", "smem", "seed", "cores", "block")
                for w in maybe(f"--{name}", random.choice(NUMBERS))
            ]
            show = maybe("--show", random.choice(["f32", "hex", "own", "i8", "bf16", "f64", "x"]))
            entry = maybe("--entry", random.choice(["k", "", "\udcff", "x" * 3000]))
            chosen = random.choice([sizes, odd, [], []])
            return [
                "run",
                pick_file(random, folder, texts),
                *arguments,
                *chosen,
                *show,
                *entry,
                "--budget",
                "20000",
                "--cores",
                "1",
            ]
        case 7:
            name = random.choice(NAMES)
            return ["isa", name if random.random() < 0.7 else name + "." + random.choice(NAMES)]
        case _:
            return random.choice(
                [
                    ["cache", "trim", "--bytes", random.choice(NUMBERS)],
                    ["cache", random.choice(["status", "clear", "x"])],
                    ["completion", random.choice(["bash", "tcsh"])],
                    [random.choice(NAMES)],
                    ["--version"],
                    ["check"],
                    ["run", "--help"],
                ]
            )


def judge(arguments: list[str]) -> str:
    """What is wrong with how this command line ended; empty: nothing."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(b"bad;"))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = main(arguments)
            except SystemExit as ended:  # argparse
                status = ended.code
            out.flush()
    except Exception:
        return traceback.format_exc()
    said = out.buffer.getvalue().decode("utf-8", "replace")
    if status not in (0, 1, 2):
        return f"status {status!r}"
    if status == 2 and not err.getvalue().strip():
        return "status 2, and not a word"
    if "Traceback" in err.getvalue():
        return err.getvalue()
    if arguments[0] == "check" and status != 2 and ("json" in arguments or "sarif" in arguments):
        try:
            json.loads(said)
        except ValueError as error:
            return f"no JSON: {error}"
    return ""


def child(seed: int, folder: Path, texts: list[bytes]):
    os.environ["PYPTX_TRACEBACK"] = "1"
    for number in range(LINES_OF_A_CHILD):
        chosen = random.Random(seed * LINES_OF_A_CHILD + number)
        arguments = command_line(chosen, folder, texts)
        (folder / "command.txt").write_text(repr(arguments))
        signal.alarm(10)
        wrong = judge(arguments)
        signal.alarm(0)
        if wrong:
            (folder / "wrong.txt").write_text(wrong)
            os._exit(3)
    os._exit(0)


def run(seconds: float, seed: int) -> int:
    texts = [path.read_bytes() for path in sorted(FIXTURES.glob("*/*.ptx"))]
    texts = [text for text in texts if len(text) < 60_000]
    os.environ["PYPTX_CACHE_DIR"] = tempfile.mkdtemp(prefix="pyptx-fuzz-")
    end, children, found = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        folder = Path(tempfile.mkdtemp(prefix="pyptx-fuzz-"))
        process = os.fork()
        if process == 0:
            child(seed + children, folder, texts)
        _, status = os.waitpid(process, 0)
        children += 1
        if status != 0:
            found += 1
            why = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else (folder / "wrong.txt").read_text()
            print(f"{(folder / 'command.txt').read_text()[:400]}\n  in {folder}: {why[-800:]}", flush=True)
        else:
            shutil.rmtree(folder)
    shutil.rmtree(os.environ["PYPTX_CACHE_DIR"])
    print(f"command: {children * LINES_OF_A_CHILD:,} command lines, {found} wrong")
    return int(found > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    sys.exit(run(given.seconds, given.seed))
