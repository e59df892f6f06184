"""The modules of fixtures/modules.tsv, asked of the assembler: it takes what is marked legal and refuses the others."""

import pathlib

import assembler
import pytest

ROWS = [
    line.split("\t")
    for line in (pathlib.Path(__file__).parents[1] / "fixtures/modules.tsv").read_text().splitlines()
    if line and line[0] != "#"
]


@pytest.fixture(scope="module")
def ptxas():
    """The program: nvJitLink links what it compiles, which texts before PTX 3.1 do not allow."""
    paths = [str(path) for folder in assembler.packages() for path in folder.glob("nvidia/*/bin/ptxas")]
    found = max(map(assembler.Ptxas, paths), key=lambda ptxas: ptxas.version, default=None)
    if found is None or found.version < (13, 5):
        pytest.skip("no ptxas of 13.5 or later")
    return found


@pytest.mark.parametrize(("verdict", "target", "version", "text"), ROWS)
def test_the_assembler_agrees(verdict, target, version, text, ptxas):
    device = target.split(",")[0]
    if int(device[3:].rstrip("af")) < 75:
        device = "sm_75"  # the assembler reads older targets, and makes code from this one on
    size = "" if version < "2.3" else ".address_size 64\n"
    log = ptxas.log(device, f".version {version}\n.target {target}\n{size}{text.replace('~', chr(10))}\n")
    assert ("error" not in log and "fatal" not in log) == (verdict == "legal"), log
