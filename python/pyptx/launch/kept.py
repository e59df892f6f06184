"""Calls that are recorded as files, so that another process can repeat them on the simulator.

A file is a zip archive, uncompressed: call.json (the kernel's text and launch record, scalars, what each array is) and the bytes of
each array.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyptx import _core, _locks
from pyptx.launch import ahead
from pyptx.stamps import active

__all__ = ["Calls", "Keeper", "Replayed", "keeping", "replayed", "rerun", "watch_calls"]

_VERSION = 1

keeping: Keeper | None = None  # who keeps calls now; the launcher then takes the slow path


def watch_calls() -> None:
    """Tells the launcher whether somebody looks at each call: who keeps it, a timeline, or who wants its kernel alone."""
    _core.keep_calls(keeping is not None or active.recorder is not None or ahead.collecting is not None)


class Keeper:
    """Keeps the last `last` calls in `folder`, whose arrays have at most `most_bytes` each; a larger one is counted in `dropped`."""

    def __init__(self, folder: str | os.PathLike[str] | None, last: int, most_bytes: int, host: bool):
        self.folder = Path(tempfile.mkdtemp(prefix="pyptx-calls-") if folder is None else folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.last, self.most_bytes, self.host = last, most_bytes, host
        self.dropped = 0
        self._next = 0
        self._lock = _locks.lock()

    def keep(self, specialisation, sizes, device: tuple[int, int], arrays, scalars, out) -> None:
        """Writes a call's file before the call is made: afterwards the device may not answer."""
        if device[0] == 1 and not self.host:
            return
        given = [] if out is None else list(out) if isinstance(out, (tuple, list)) else [out]
        record = specialisation.record(sizes)
        record.lines(specialisation.module.lines)
        record.allocated(specialisation.module.allocated)
        try:
            inputs, outputs = ([self._array(one) for one in some] for some in (arrays, given))
        except _TooLarge:
            self.dropped += 1
            return
        call = {
            "pyptx": _VERSION,
            "kernel": specialisation.signature.entry,
            "device": list(device),
            "ptx": specialisation.text(),
            "record": base64.b64encode(record.to_bytes()).decode(),
            "scalars": list(scalars),
            "inputs": [what for what, _ in inputs],
            "outputs": [what for what, _ in outputs],
        }
        with self._lock:
            number, self._next = self._next, self._next + 1
        path = self.folder / f"call-{number:06d}.zip"
        part = path.with_suffix(".part")
        with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("call.json", json.dumps(call))
            for index, (_, data) in enumerate([*inputs, *outputs]):
                archive.writestr(f"{index}.bin", data)
        os.replace(part, path)
        for old in self.calls()[: -self.last]:
            old.unlink(missing_ok=True)

    def calls(self) -> list[Path]:
        """The files, oldest first."""
        return sorted(self.folder.glob("call-*.zip"))

    def _array(self, array) -> tuple[dict[str, Any], bytes]:
        shape, element, _ = _core.describe(array)
        strides, data = _bytes_of(array, self.most_bytes)
        return {"element": element, "shape": list(shape), "strides": strides}, data


class _TooLarge(Exception):
    pass


def _bytes_of(array, most: int) -> tuple[list[int], bytes]:
    """Strides in elements, and the bytes from the first element to the last."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        array = array.detach()
        strides = list(array.stride())
        count = 0 if array.numel() == 0 else 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))
        if count * array.element_size() > most:
            raise _TooLarge
        flat = array.as_strided((count,), (1,)).cpu()
        return strides, flat.view(torch.uint8).numpy().tobytes()
    import numpy

    host = numpy.ascontiguousarray(array.get() if hasattr(array, "get") else array)
    if host.nbytes > most:
        raise _TooLarge
    return [stride // host.itemsize for stride in host.strides], host.tobytes()


def rerun(path: str | os.PathLike[str]) -> str:
    """Makes a kept call on the simulator of this process.  Returns the kernel's name; what it finds is raised."""
    try:
        with zipfile.ZipFile(path) as archive:
            call = json.loads(archive.read("call.json"))
            if call["pyptx"] != _VERSION:
                raise ValueError(f"{path}: a call of version {call['pyptx']}; this pyptx reads {_VERSION}")
            arrays = [
                (what["element"], what["shape"], what["strides"], archive.read(f"{index}.bin"))
                for index, what in enumerate([*call["inputs"], *call["outputs"]])
            ]
            text, record, scalars = call["ptx"], base64.b64decode(call["record"]), call["scalars"]
            inputs = len(call["inputs"])
    except (zipfile.BadZipFile, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a call that pyptx kept, or damaged: {error}") from error
    _core.replay(text, record, arrays[:inputs], arrays[inputs:], scalars)
    return call["kernel"]


@dataclass(frozen=True)
class Replayed:
    """The result of a recorded call on the simulator.

    `status`: "clean", "reports", "unfinished" (the time was up), or "failed" (it could not be made).  `reports`: as `Run.json` has them.
    """

    path: str
    status: str
    message: str
    reports: list[dict[str, Any]]

    def __str__(self) -> str:
        return f"{self.path}: {self.status}" + (f"\n{self.message}" if self.message else "")


class Calls:
    """Calls that were kept in a folder."""

    def __init__(self, keeper: Keeper):
        self._keeper = keeper

    @property
    def folder(self) -> str:
        """Where the files are."""
        return str(self._keeper.folder)

    @property
    def paths(self) -> list[str]:
        """The files, the oldest first."""
        return [str(path) for path in self._keeper.calls()]

    @property
    def dropped(self) -> int:
        """How many calls were too large."""
        return self._keeper.dropped

    def replay(self, *, timeout: float = 600, seed: int = 0, check: str | None = None) -> list[Replayed]:
        """`pyptx.replay` of these calls."""
        return replayed(self.folder, timeout, seed, check)


def replayed(path: str | os.PathLike[str], timeout: float, seed: int, check: str | None = None) -> list[Replayed]:
    """The calls of a folder or of a file, each in a process of its own."""
    found = Path(path)
    if not found.exists():
        raise FileNotFoundError(f"{found}: no such file or folder")
    files = sorted(found.glob("call-*.zip")) if found.is_dir() else [found]
    return [_replayed(file, timeout, seed, check) for file in files]


def _replayed(path: Path, timeout: float, seed: int, check: str | None) -> Replayed:
    command = [sys.executable, "-m", "pyptx", "replay", str(path), "--json", "--here", "--seed", str(seed)]
    if check:
        command += ["--check", check]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return Replayed(str(path), "unfinished", f"it did not end in {timeout} seconds", [])
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return Replayed(str(path), "failed", done.stderr.strip() or f"the process ended with {done.returncode}", [])
    status = "reports" if found["reports"] else "clean"
    return Replayed(str(path), status, done.stderr.strip(), found["reports"])
