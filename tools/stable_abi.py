"""Whether the Python module keeps to the stable ABI of Python 3.12: `make stable-abi`.

    python tools/stable_abi.py --build build/release

With the oldest Python from 3.12 on that is in reach (tools/wheels.py says where it looks), CMake configures the module
as for its wheel; the module's sources and nanobind's own library are compiled, unoptimised.  Where there is no such
Python, the sources alone are compiled in the build that is there: python/stable_abi.h has what its headers lack.
Nothing is linked.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from wheels import ROOT, STABLE, pythons, run

WORK = ROOT / "build" / "stable-abi"
# As scikit-build-core has it for the wheel of the stable ABI.
DEFINES = {
    "PTX_PYTHON": "ON",
    "PTX_TESTS": "OFF",
    "PTX_BENCH": "OFF",
    "SKBUILD_SABI_COMPONENT": "Development.SABIModule",
}


def requirements() -> list[str]:
    """nanobind as the build has it, and a CMake that knows the stable ABI: that of Debian 12 does not."""
    pinned = (ROOT / "tools" / "requirements.txt").read_text().split()
    return [*(each for each in pinned if each.startswith("nanobind==")), "cmake>=3.26,<5"]


def with_later(python: str):
    """Compiles the sources and nanobind's library as a Python from 3.12 on has them."""
    venv, build = WORK / "venv", WORK / "build"
    here, cmake = venv / "bin" / "python", venv / "bin" / "cmake"
    run(python, "-m", "venv", "--without-pip", venv)
    run(sys.executable, "-m", "pip", "--python", here, "install", "--quiet", *requirements())
    defines = [f"-D{name}={value}" for name, value in {**DEFINES, "Python_EXECUTABLE": here}.items()]
    configured = [cmake, "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", *defines]
    run(*configured, stdout=subprocess.DEVNULL)
    run(cmake, "--build", build, "--target", "stable_abi", "nanobind-static-abi3")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True, help="the build of this Python")
    build = parser.parse_args().build
    later = [python for version, python in pythons([]).items() if version >= STABLE]
    if later:
        with_later(later[0])
    else:
        run("cmake", "--build", build, "--target", "stable_abi")
    return 0


if __name__ == "__main__":
    sys.exit(main())
