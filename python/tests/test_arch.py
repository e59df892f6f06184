"""The rows of ptx/arch/targets.def: what Python reads of them, and what the assembler says of their sizes."""

import subprocess
import sys
from pathlib import Path

import pytest

from pyptx import _arch, _core

ROWS = {row["number"]: row for row in _core.architectures()}


def test_rows_are_read_through_the_bindings():
    hopper = ROWS[90]
    assert (hopper["since"], hopper["since_a"], hopper["since_f"]) == ((7, 8), (8, 0), None)
    assert (hopper["warps"], hopper["ctas"], hopper["sm_shared"], hopper["cta_shared"]) == (
        64,
        32,
        228 << 10,
        227 << 10,
    )
    assert ROWS[101]["is"] == 110


@pytest.mark.parametrize(
    "capability, target",
    [((7, 5), "sm_75"), ((9, 0), "sm_90a"), ((10, 3), "sm_103a"), ((11, 0), "sm_110a"), ((12, 0), "sm_120a")],
)
def test_the_target_of_a_device_is_its_most_specific(capability, target, monkeypatch):
    _arch.detect_arch.cache_clear()
    monkeypatch.setattr(_arch, "_from_torch", lambda: capability)
    assert _arch.detect_arch() == target
    _arch.detect_arch.cache_clear()


def _takes(ptxas, target: str, threads: int, ctas: int, folder: Path) -> bool:
    """Whether the assembler believes that so many CTAs of so many threads reside on one multiprocessor."""
    text = f".version 9.4\n.target {target}\n.address_size 64\n"
    text += f".entry k() .maxntid {threads}, 1, 1 .minnctapersm {ctas} {{ ret; }}\n"
    source = folder / "k.ptx"
    source.write_text(text)
    ran = subprocess.run(
        [ptxas, f"-arch={target}", source, "-o", folder / "k.cubin"], capture_output=True, text=True, check=True
    )
    return "minnctapersm" not in ran.stdout + ran.stderr


@pytest.mark.parametrize("number", [n for n, row in ROWS.items() if row["warps"] and row["is"] == n])
def test_the_assembler_knows_the_same_sizes(number, tmp_path):
    ptxas = next((str(p) for p in _ptxas()), None)
    if ptxas is None:
        pytest.skip("skipped: no ptxas")
    row, target = ROWS[number], f"sm_{number}"
    assert _takes(ptxas, target, 32, row["ctas"], tmp_path)
    assert not _takes(ptxas, target, 32, row["ctas"] + 1, tmp_path)
    assert _takes(ptxas, target, 128, row["warps"] // 4, tmp_path)
    assert not _takes(ptxas, target, 128, row["warps"] // 4 + 1, tmp_path)


def _ptxas():
    return (p for folder in sys.path if folder for p in Path(folder).glob("nvidia/cu13/bin/ptxas"))
