"""What releases of the assembler make of run fixtures, where that is not what PTX says: lines `// machine code: 13.0 -O0 [not] PATTERN`.

The simulator gives the bytes of PTX (tests/sim/fixtures.cpp); a release that is mended fails here, and docs/simulator.md is to say so.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from run_fixtures import FIXTURES

CORPUS = Path.home() / ".cache/pyptx/corpus/tools"  # of tools/corpus
LINE = re.compile(r"^// machine code: (\S+) (-O\d) (not )?(.*)$", re.MULTILINE)
CASES = [(path, *found) for path in sorted(FIXTURES.glob("*.ptx")) for found in LINE.findall(path.read_text())]


def assembler_of(release: str) -> Path | None:
    places = [CORPUS / f"nvcc-{release}/nvidia", *(Path(entry) / "nvidia" for entry in sys.path)]
    for ptxas in [place / "cu13/bin/ptxas" for place in places] + [Path("/usr/local/cuda/bin/ptxas")]:
        if ptxas.exists() and f"release {release}," in subprocess.check_output([ptxas, "--version"], text=True):
            return ptxas
    return None


def disassembler() -> Path | None:
    places = [Path(entry) / "nvidia/cu13/bin/nvdisasm" for entry in sys.path] + [Path("/usr/local/cuda/bin/nvdisasm")]
    return next((place for place in places if place.exists()), None)


def test_some_fixtures_have_such_lines():
    assert len({path for path, *_ in CASES}) >= 5


@pytest.mark.parametrize(
    "path,release,level,absent,pattern",
    CASES,
    ids=[f"{case[0].stem}-{case[1]}{case[2]}-{i}" for i, case in enumerate(CASES)],
)
def test_machine_code(path, release, level, absent, pattern, tmp_path):
    ptxas, nvdisasm = assembler_of(release), disassembler()
    if not ptxas or not nvdisasm:
        pytest.skip(f"skipped: no ptxas of {release}, or no nvdisasm")
    made = tmp_path / "k.cubin"
    subprocess.run([ptxas, "-arch=sm_90a", level, path, "-o", made], check=True, capture_output=True, timeout=60)
    listing = subprocess.run([nvdisasm, "-c", made], check=True, capture_output=True, text=True).stdout
    lines = [
        line.split("*/", 1)[1].split("/*")[0].strip()
        for line in listing.splitlines()
        if re.match(r"\s+/\*[0-9a-f]{4}\*/", line)
    ]
    code = re.sub(r" *;", " ;", "\n".join(lines))
    assert bool(re.search(pattern, code)) != bool(absent), code
