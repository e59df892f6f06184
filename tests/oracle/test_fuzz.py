"""The random programs run, two machines that agree give no difference, and a wrong instruction is found and named: fuzz.py."""

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="skipped: no numpy")
sys.path.insert(0, str(Path(__file__).parent))

import fuzz
from test_gpu_differences import LINES

MORE = [
    f"legal\tform\t{section}\tsm_90a:8.6\t{text}"
    for section, text in [
        ("9.7.1.17", "clz.b32 u32_0, b32_1"),
        ("9.7.1.1", "add.u32 u32_0, u32_1, u32_2"),
        ("9.7.8.1", "and.b64 b64_0, b64_1, b64_2"),
        ("9.7.1.6", "mul24.lo.s32 s32_0, s32_1, s32_2"),
        ("9.7.4.3", "mul.rn.f16x2 f16x2_0, f16x2_1, f16x2_2"),
    ]
]


class Simulator:
    """Stands for the device; `wrong` changes its programs' lines."""

    def __init__(self, wrong=lambda line: line):
        self.wrong = wrong

    def run(self, programs, given):
        def changed(program):
            return replace(program, statements=[[self.wrong(line) for line in lines] for lines in program.statements])

        return [fuzz.simulate(changed(program), given) for program in programs]


@pytest.mark.parametrize("family", fuzz.FAMILIES)
def test_a_machine_agrees_with_itself(family, monkeypatch):
    monkeypatch.setattr(fuzz, "BATCH", 8)
    maker = fuzz.makers([*LINES, *MORE], [family])[0]
    found = fuzz.batch(Simulator(), maker, 3)
    assert found.programs[family] == 8 and not found.differ and not found.words


def test_a_wrong_instruction_is_found_and_named():
    machine = Simulator(lambda line: re.sub(r"\bclz\.b32", "brev.b32", line))
    found = fuzz.batch(machine, fuzz.Scalar([*LINES, *MORE]), 1)
    assert found.differ["scalar"]
    report = "\n".join(fuzz.report(found, 5))
    assert "clz.b32" in report and f"{found.differ['scalar']} differ" in report


@pytest.mark.skipif(not shutil.which("ptxas"), reason="skipped: no ptxas")
def test_the_programs_are_legal(monkeypatch):
    monkeypatch.setattr(fuzz, "BATCH", 4)
    for maker in dict.fromkeys(fuzz.makers([*LINES, *MORE], [])):
        found = fuzz.batch(fuzz.Assembler("ptxas"), maker, 2)
        assert found.programs.total() == 4 and not found.words


@pytest.mark.gpu
@pytest.mark.skipif(not fuzz.INSTANCES.exists(), reason="skipped: no oracle_instances")
def test_the_gpu_and_the_simulator_agree():
    import subprocess

    try:
        fuzz.Device()
    except (OSError, RuntimeError) as why:
        pytest.skip(f"skipped: no CUDA device ({why})")
    command = [sys.executable, fuzz.__file__, "--seconds", "30", "--workers", "8"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
