"""The assembler as a judge of many instructions: which lines of a module it refuses, and why.

It asks nvJitLink in a child process (about 5 ms a module; a crash ends only the child) or runs ptxas. One stage of the
assembler hides the errors of the next, so refused lines are taken out and the rest is asked again.
"""

import ctypes
import faulthandler
import multiprocessing
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

CRASH = "the assembler crashes"
SECONDS, MEMORY = 3, 4 << 30  # of one module; of the processor
# Last lines that stop the assembler: before it looks at whole functions, and behind that, before it generates code.
EARLY = "bra no_such_label;"
LATE = "ld.param.b32 b32_0, [qv];"
CALL_SEQUENCE = "Function call sequence invalid"
PTX_INPUT = 2  # NVJITLINK_INPUT_PTX
ERROR = re.compile(r"(?<!<builtin>), line (\d+); (error|fatal)\s*: (.*)")
MADE = re.compile(r"<builtin>, line \d+; fatal\s*: (.*)")  # in text that the assembler makes of an instruction


class NvJitLink:
    def __init__(self, path: str):
        self.path = path
        library = ctypes.CDLL(path)
        major, minor = ctypes.c_uint(), ctypes.c_uint()
        library.nvJitLinkVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)
        suffix = f"_{major.value}_{minor.value}"
        names = ["Create", "AddData", "Complete", "GetErrorLogSize", "GetErrorLog", "Destroy"]
        self.worker, self.child = None, 0
        self.calls = [getattr(library, f"__nvJitLink{name}{suffix}") for name in names]

    def __str__(self) -> str:
        return f"nvJitLink {self.version[0]}.{self.version[1]}"

    def _assemble(self, target: str, text: str) -> str:
        create, add, complete, log_size, log, destroy = self.calls
        options = [b"-arch=" + target.encode(), b"-O0"]
        if self.version > (12, 3):  # which does not know the option: where there is a driver, its cache loses the log
            options.append(b"-no-cache")
        handle, size = ctypes.c_void_p(), ctypes.c_size_t()
        if create(ctypes.byref(handle), len(options), (ctypes.c_char_p * len(options))(*options)) != 0:
            return f"fatal   : no target {target}"
        data = text.encode()
        said = ""
        if add(handle, PTX_INPUT, data, len(data), b"k") != 0 or complete(handle) != 0:
            log_size(handle, ctypes.byref(size))
            buffer = ctypes.create_string_buffer(size.value + 1)
            if size.value:
                log(handle, buffer)
            said = buffer.value.decode(errors="replace") or "fatal   : refused"
        destroy(ctypes.byref(handle))
        return said

    def log(self, target: str, text: str) -> str | None:
        """What it says; "" if it accepts the module, None if it crashes."""
        if self.worker is None:
            self.worker = self._start()
        try:
            self.worker.send((target, text))
            return self.worker.recv()
        except (EOFError, OSError):
            self.worker.close()
            os.waitpid(self.child, 0)
            self.worker = None
            return None

    def _start(self):
        """A child that assembles until it crashes: forking anew for each module costs more than assembling it."""
        ours, theirs = multiprocessing.Pipe()
        self.child = os.fork()
        if self.child != 0:
            theirs.close()
            return ours
        ours.close()
        faulthandler.disable()  # a crash is an answer here, not to be shown
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            while True:
                target, text = theirs.recv()
                signal.setitimer(signal.ITIMER_PROF, SECONDS)  # some lines keep it for ever: that is a crash, too
                said = self._assemble(target, text)
                signal.setitimer(signal.ITIMER_PROF, 0)
                theirs.send(said)
        except (EOFError, OSError):
            pass
        finally:
            os._exit(0)

    def close(self):
        if self.worker is not None:
            self.worker.close()
            os.waitpid(self.child, 0)
            self.worker = None


class Ptxas:
    def __init__(self, path: str):
        self.path = path
        said = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        found = re.search(r"release (\d+)\.(\d+)", said)
        self.version = (int(found[1]), int(found[2])) if found else (0, 0)

    def __str__(self) -> str:
        return f"ptxas {self.version[0]}.{self.version[1]}"

    def log(self, target: str, text: str) -> str | None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "k.ptx")
            path.write_text(text)
            command = [self.path, "-O0", "-arch", target, str(path), "-o", str(path) + ".cubin"]
            run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode < 0:
            return None
        return "" if run.returncode == 0 else (run.stdout + run.stderr) or "fatal   : refused"

    def close(self):
        pass


def knows(assembler, target: str, version: str) -> bool:
    return assembler.log(target, f".version {version}\n.target {target}\n") == ""


def packages() -> list[pathlib.Path]:
    return [pathlib.Path(folder) for folder in sys.path if folder]


def find(ptxas: str | None = None):
    """The assembler at `ptxas` (a program or a libnvJitLink), else the newest at hand; None if there is none."""
    if ptxas:
        return NvJitLink(ptxas) if "nvJitLink" in pathlib.Path(ptxas).name else Ptxas(ptxas)
    for pattern, kind in (("nvidia/*/lib/libnvJitLink.so.*", NvJitLink), ("nvidia/*/bin/ptxas", Ptxas)):
        found = [kind(str(path)) for site in packages() for path in sorted(site.glob(pattern))]
        if found:
            return max(found, key=lambda assembler: assembler.version)
    path = shutil.which("ptxas")
    return Ptxas(path) if path else None


VERSIONS = [(9, m) for m in range(5, -1, -1)] + [(8, m) for m in range(8, -1, -1)] + [(7, m) for m in range(8, -1, -1)]


def highest_version(assembler) -> tuple[int, int]:
    """Tried on one empty module a version, from above."""
    for version in VERSIONS:
        if not assembler.log("sm_75", f".version {version[0]}.{version[1]}\n.target sm_75\n"):
            return version
    return (0, 0)


class Module:
    """A kernel with registers of every type and a variable of every space, around lines to be judged."""

    TYPES = ("b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
    TYPES += ("f16", "f16x2", "f32", "f64", "pred")

    def __init__(self, target: str, version: str):
        number = tuple(map(int, version.split(".")))
        head = [
            f".version {version}",
            f".target {target}",
            ".address_size 64",
            ".global .align 16 .b8 gv[256];",
            ".shared .align 16 .b8 sv[256];",
            ".const .align 16 .b8 cv[256];",
            ".global .texref tx;",
            ".global .surfref sf;",
            ".visible .entry k(.param .align 16 .b8 pv[256])",
            "{",
        ]
        head += [f".reg .{name} {name}_<136>;" for name in self.TYPES if name != "b128" or number >= (8, 3)]
        head += [".local .align 16 .b8 lv[256];", ".param .align 16 .b8 qv[256];"]
        if number >= (6, 0):
            head.append("ts: .branchtargets lab;")
        self.target, self.head = target, head

    def text(self, lines: list[str], stop: str) -> str:
        return "\n".join(self.head + [line + ";" for line in lines] + [stop, "lab:", "ret;", "}", ""])


class Judge:
    """Lines that one assembler refuses for one target and version."""

    def __init__(self, assembler, target: str, version: str, chunk: int = 500):
        self.assembler, self.module, self.chunk = assembler, Module(target, version), chunk
        self.asked = 0

    def refused(self, lines: list[str], suspects: frozenset[str] = frozenset(), full: bool = False) -> dict[str, str]:
        """Line -> first error. `suspects` are thought to be wrong: what is left of them is compiled as well, one at a
        time, as some errors come only then and name no line. `full`: so is all the rest."""
        bad: dict[str, str] = {}
        live = []
        for part in self._parts(self._parse(lines, bad)):
            while part and (left := self._ask(part, bad)) != part:
                part = left
            live += part
        if self.assembler.version >= (13, 5):  # earlier ones crash at that last line
            for part in self._parts([line for line in live if line not in suspects]):
                self._ask(part, bad, LATE)
        for line in live:
            if line in suspects:
                self._ask([line], bad, "")
        if full:
            for part in self._parts([line for line in live if line not in bad], 200):
                while part and (left := self._ask(part, bad, "")) != part:
                    part = left
        return bad

    def _parts(self, lines: list[str], size: int = 0):
        size = size or self.chunk
        return [lines[i : i + size] for i in range(0, len(lines), size)]

    def _log(self, lines: list[str], stop: str) -> str | None:
        self.asked += 1
        return self.assembler.log(self.module.target, self.module.text(lines, stop))

    def _errors(self, log: str, count: int) -> tuple[dict[int, str], int | None]:
        """Index -> first error, and the index of a syntax error, behind which nothing has been read. Without both there
        is no telling which line is wrong."""
        errors, stopped = {}, None
        for match in ERROR.finditer(log):
            at = int(match[1]) - len(self.module.head) - 1
            if not 0 <= at < count:
                continue
            if match[2] == "fatal":
                stopped = at
            errors.setdefault(at, match[3])
        return errors, stopped

    @staticmethod
    def _nameless(log: str | None) -> str | None:
        """What ends the assembler without a line of ours: a crash, or a syntax error in the text that it makes of an
        instruction, which may come of an earlier line and be said of a legal one."""
        if log is None:
            return CRASH
        made = MADE.search(log)
        return made[1] if made else None

    def _parse(self, lines: list[str], bad: dict[str, str]) -> list[str]:
        """The first stage: what it lets through."""
        # A sink where none belongs crashes some assemblers: such lines stay in small company.
        risky = [line for line in lines if re.search(r"[ {(|]_", line)]
        safe = [line for line in lines if not re.search(r"[ {(|]_", line)]
        parts = self._parts(safe) + self._parts(risky, 32)
        return [line for part in parts for line in self._read(part, bad)]

    def _read(self, lines: list[str], bad: dict[str, str]) -> list[str]:
        """A syntax error stops the assembler, so it goes on behind that line; where no line is named, in halves, so that
        a line is refused only if it is so alone."""
        live = []
        while lines:
            log = self._log(lines, EARLY)
            if why := self._nameless(log):
                if len(lines) > 1:
                    middle = len(lines) // 2
                    return live + self._read(lines[:middle], bad) + self._read(lines[middle:], bad)
                bad.setdefault(lines[0], why)
                return live
            errors, stopped = self._errors(log, len(lines))
            for at, error in errors.items():
                bad.setdefault(lines[at], error)
            end = len(lines) if stopped is None else stopped + 1
            live += [line for line in lines[:end] if line not in bad]
            lines = lines[end:]
        return live

    def _ask(self, lines: list[str], bad: dict[str, str], stop: str = EARLY) -> list[str]:
        """The lines without an error; asks in halves where the log names no line or there is none."""
        log = self._log(lines, stop)
        if log == "" or (log is not None and stop == LATE and CALL_SEQUENCE in log):
            return lines
        errors, _ = self._errors(log or "", len(lines))
        if log is not None and (errors or (stop == EARLY and "no_such_label" in log)):
            bad.update({lines[i]: error for i, error in errors.items()})
            return [line for line in lines if line not in bad]
        if len(lines) == 1:
            bad[lines[0]] = CRASH if log is None else log.strip().splitlines()[0]
            return []
        middle = len(lines) // 2
        return self._ask(lines[:middle], bad, stop) + self._ask(lines[middle:], bad, stop)
