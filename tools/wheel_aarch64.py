"""A wheel for aarch64, cross-compiled on a Debian machine and run by qemu: `make wheel-aarch64`.

    apt-get install g++-aarch64-linux-gnu qemu-user
    python tools/wheel_aarch64.py --build build/release

The Python is Debian's for arm64, of the version that runs this: its packages are unpacked under build/wheels, nothing is
installed. All of the wheel but its module is that of the build's own, whose stubs are read off a module that runs here.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import shutil
import sys
import zipfile
from pathlib import Path

import wheels

HERE = wheels.WORK / "aarch64"
ROOT_OF_ARM = HERE / "root"
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
PYTHON = [f"python{VERSION}-minimal", *(f"libpython{VERSION}-{part}" for part in ("minimal", "stdlib", "dev"))]
LIBRARIES = [
    "libc6",
    "libstdc++6",
    "libgcc-s1",
    "zlib1g",
    "libexpat1",
    "libffi8",
    "libbz2-1.0",
    "liblzma5",
    "libssl3",
    "libuuid1",
]


def unpacked():
    """Debian's Python for arm64 and what it is linked to, by an apt that knows nothing of this machine's packages."""
    if (ROOT_OF_ARM / "usr" / "bin").is_dir():
        return
    state, packages = HERE / "apt", HERE / "packages"
    for folder in (state / "lists" / "partial", state / "cache" / "archives" / "partial", packages):
        folder.mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    settings = [
        "APT::Architecture=arm64",
        "APT::Architectures=arm64",
        f"Dir::State={state}",
        f"Dir::Cache={state / 'cache'}",
    ]
    apt = ["apt-get", "-qq", *(f"-o{each}" for each in [*settings, f"Dir::State::status={state / 'status'}"])]
    wheels.run(*apt, "update")
    wheels.run(*apt, "download", *PYTHON, *LIBRARIES, cwd=packages)
    for package in sorted(packages.glob("*.deb")):
        wheels.run("dpkg", "-x", package, ROOT_OF_ARM)


def compiled() -> Path:
    """The module, for aarch64."""
    include, build = ROOT_OF_ARM / "usr" / "include", wheels.ROOT / "build" / "aarch64"
    settings = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": "aarch64",
        "CMAKE_CXX_COMPILER": COMPILER,
        "CMAKE_CXX_FLAGS": f"-isystem {include}",  # of it, Python.h has its pyconfig.h
        "CMAKE_BUILD_TYPE": "Release",
        "PTX_PYTHON": "ON",
        "PTX_TESTS": "OFF",
        "PTX_BENCH": "OFF",
        "PTX_INSTALL": "OFF",
        "PTX_WERROR": "ON",
        "Python_EXECUTABLE": sys.executable,
        "Python_INCLUDE_DIR": include / f"python{VERSION}",
    }
    wheels.run(
        "cmake",
        "-G",
        "Ninja",
        "-S",
        wheels.ROOT,
        "-B",
        build,
        *(f"-D{name}={value}" for name, value in settings.items()),
    )
    wheels.run("cmake", "--build", build, "--target", "_core")
    (module,) = (build / "python").glob("_core*.so")
    stripped = HERE / module.name
    wheels.run("aarch64-linux-gnu-strip", "-o", stripped, module)
    return stripped


def with_module(wheel: Path, module: Path) -> Path:
    """The wheel with another module, for another machine."""
    made = HERE / "raw" / wheel.name.replace("x86_64", "aarch64")
    made.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    with zipfile.ZipFile(wheel) as given, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as out:
        for name in given.namelist():
            data = given.read(name)
            if name.endswith(".so"):
                name, data = name.replace("x86_64", "aarch64"), module.read_bytes()
            elif name.endswith(".dist-info/WHEEL"):
                data = data.replace(b"x86_64", b"aarch64")
            if not name.endswith(".dist-info/RECORD"):
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                rows.append(f"{name},sha256={digest},{len(data)}\n")
                out.writestr(name, data)
        record = next(name for name in given.namelist() if name.endswith(".dist-info/RECORD"))
        out.writestr(record, "".join([*rows, f"{record},,\n"]))
    return made


def tried(wheel: Path):
    """tests/wheel/bare.py, run by qemu with Debian's Python, which has the wheel and nothing else."""
    packages = ROOT_OF_ARM / "usr" / "local" / "lib" / f"python{VERSION}" / "dist-packages"
    shutil.rmtree(packages, ignore_errors=True)
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(packages)
    emulated = f"{shutil.which(EMULATOR)} -L {ROOT_OF_ARM}"
    program = shutil.copy(wheels.ROOT / "tests" / "wheel" / "bare.py", HERE)
    nothing = {"HOME": str(HERE), "LANG": "C.UTF-8", "RUN_BY": emulated}
    python = ROOT_OF_ARM / "usr" / "bin" / f"python{VERSION}"
    wheels.run(*emulated.split(), python, "-I", "-W", "error", program, cwd=HERE, env=nothing)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True, help="of this machine, for what is not compiled")
    arguments = parser.parse_args()
    missing = [tool for tool in (COMPILER, EMULATOR, "apt-get", "dpkg") if shutil.which(tool) is None]
    if missing:
        print(f"skipped: no {', '.join(missing)}: apt-get install g++-aarch64-linux-gnu qemu-user")
        return 0
    HERE.mkdir(parents=True, exist_ok=True)
    unpacked()
    made = wheels.repaired(with_module(wheels.of_this(arguments.build), compiled()))
    tried(made)
    print(wheels.described(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
