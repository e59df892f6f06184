"""The random programs run, two machines that agree give no difference, and a wrong instruction is found and named: fuzz.py."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import pyptx
from pyptx.errors import PtxError

pytest.importorskip("numpy", reason="skipped: no numpy")
sys.path.insert(0, str(Path(__file__).parent))

import assembler
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

    def __init__(self, wrong=lambda line: line, level=4):
        self.wrong = wrong

    def run(self, programs, given, level=4):
        def changed(program):
            return replace(program, statements=[[self.wrong(line) for line in lines] for lines in program.statements])

        return [fuzz.simulate(changed(program), given) for program in programs]


@pytest.mark.parametrize("family", fuzz.FAMILIES)
def test_a_machine_agrees_with_itself(family):
    maker = fuzz.makers([*LINES, *MORE], [family])[0]
    found = fuzz.batch(Simulator(), maker, range(24, 32))
    assert found.programs[family] == 8 and not any(found.differ.values()) and not found.words


def test_a_wrong_instruction_is_found_and_named():
    machine = Simulator(lambda line: re.sub(r"\bclz\.b32", "brev.b32", line))
    found = fuzz.batch(machine, fuzz.Scalar([*LINES, *MORE]), range(32, 64))
    assert found.differ["scalar"]
    report = "\n".join(fuzz.report(found, 5))
    assert "clz.b32" in report and f"{len(found.differ['scalar'])} differ" in report
    assert json.loads(fuzz.kept(found))["differ"] == {"scalar": found.differ["scalar"]}


def test_a_program_that_differs_is_made_small():
    machine = Simulator(lambda line: re.sub(r"\bclz\.b32", "brev.b32", line))
    found = fuzz.batch(machine, fuzz.Scalar([*LINES, *MORE]), range(32, 64), keep=2)
    assert len(found.kept) == 2
    assert min(len(one["statements"]) for one in found.kept) < 6  # a branch stays whole
    for one in found.kept:
        assert len(one["statements"]) < 20 and "clz.b32" in "".join(one["statements"])
        assert one["gpu"] != one["simulator"] and one["level 0"] == one["gpu"]
    assert json.loads(fuzz.kept(found))["programs that differ"] == found.kept


@pytest.mark.parametrize("family", fuzz.FAMILIES)
def test_no_program_has_a_race(family):
    """Nor does the order of the threads matter."""
    maker = fuzz.makers([*LINES, *MORE], [family])[0]
    for seed in range(6):
        program, given = maker.program(seed), fuzz.data(0)
        with pyptx.simulator(check="all"):
            plain = fuzz.simulate(program, given)
        with pyptx.simulator(seed=seed + 1):
            assert (fuzz.simulate(program, given) == plain).all()


@pytest.mark.parametrize("family", ["atomics", "barriers", "clusters"])
def test_without_its_barriers_a_program_has_a_race(family):
    program = fuzz.makers([], [family])[0].program(3)
    meet = fuzz.Clusters.MEET if family == "clusters" else "bar.sync 0;"
    statements = [[line.replace(meet, "") for line in lines] for lines in program.statements]
    with pytest.raises(PtxError, match="PTX50"), pyptx.simulator(check="all"):
        fuzz.simulate(replace(program, statements=statements), fuzz.data(0))


def test_registers_that_nobody_gives_are_a_deadlock():
    maker = fuzz.makers([], ["warpgroups"])[0]

    def takes_more(program) -> bool:
        asked = re.findall(r"setmaxnreg\.inc\S* (\d+)", program.text())
        return any(int(count) > maker.FIRST for count in asked)

    taking = list(filter(takes_more, map(maker.program, range(8))))
    assert taking
    for program in taking:
        statements = [[re.sub("setmaxnreg.dec[^;]*;", "", line) for line in lines] for lines in program.statements]
        with pytest.raises(PtxError, match=r"(?s)PTX5020.*setmaxnreg\.inc.*waits for \d+ registers"):
            fuzz.simulate(replace(program, statements=statements), fuzz.data(0))


def test_programs_at_which_the_gpu_faults_are_found(monkeypatch):
    """The other programs of a batch run."""

    class Faulting(Simulator):
        def run(self, programs, given, level=4):
            if any(program.seed in (70, 90) for program in programs):
                raise RuntimeError("cuCtxSynchronize: CUDA error 715")
            return super().run(programs, given)

    monkeypatch.setattr(fuzz, "Device", Faulting)
    arguments = SimpleNamespace(families=["atomics"], workers=1, assembler=None, seed=0, seconds=4, keep=0, level=4)
    found = fuzz.everything(arguments, [])
    assert found.faults == [70, 90] and found.programs.total() > 2 * fuzz.BATCH
    assert not found.words and not any(found.differ.values()) and not found.together
    assert found.errors == {"CUDA error 715": 3}
    said = fuzz.faulting(arguments, [], 70)
    assert "atomics 70: `(none)` faults" in said and ".visible .entry k(" in said


def test_programs_that_fault_only_side_by_side_are_found(monkeypatch):
    class Faulting(Simulator):
        def run(self, programs, given, level=4):
            if {66, 69} <= {program.seed for program in programs}:
                raise RuntimeError("cuCtxSynchronize: CUDA error 715")
            return super().run(programs, given)

    monkeypatch.setattr(fuzz, "Device", Faulting)
    arguments = SimpleNamespace(families=["atomics"], workers=1, assembler=None, seed=0, seconds=4, keep=0, level=4)
    found = fuzz.everything(arguments, [])
    assert found.together == [2] and not found.faults
    assert "1 batches at which it faults" in "\n".join(fuzz.report(found, 5))
    said = fuzz.faulting_together(arguments, [], 2)
    assert "atomics 66 to 69 fault together" in said and said.count(".visible .entry") == 4


def test_no_instance_has_an_operand_too_many():
    """As atom's fourth, which the assembler makes the descriptor of the memory."""
    kept = ["atom.and.b32 b32_0, [u64_0], b32_1", "atom.global.cas.b32 b32_0, [u64_0], b32_1, b32_2"]
    extra = [f"{text}, b32_7" for text in kept]
    lines = [f"legal\tform\t9.7.13.5\tsm_90a:8.6\t{text}" for text in kept + extra]
    assert {one.text for one in fuzz.Scalar(lines).by_opcode["atom"]} == set(kept)


@pytest.mark.skipif(not shutil.which("ptxas"), reason="skipped: no ptxas")
def test_the_programs_are_legal():
    for maker in dict.fromkeys(fuzz.makers([*LINES, *MORE], [])):
        found = fuzz.batch(fuzz.Assembler("ptxas"), maker, range(8, 12))
        assert found.programs.total() == 4 and not found.words


NVDISASM = next((path for site in assembler.packages() for path in site.glob("nvidia/*/bin/nvdisasm")), None)


@pytest.mark.skipif(not (shutil.which("ptxas") and NVDISASM), reason="skipped: no ptxas or no nvdisasm")
def test_the_assembler_drops_a_product_that_is_like_the_one_before(tmp_path):
    """Once this fails, programs may have such products, and docs/simulator.md is to be changed."""

    def products(program, second: str) -> int:
        (tmp_path / "k.ptx").write_text(
            fuzz.HEAD + replace(program, statements=[program.statements[0], [second]]).text()
        )
        subprocess.run(
            ["ptxas", "-arch=sm_90a", "k.ptx", "-o", "k.cubin"], check=True, capture_output=True, cwd=tmp_path
        )
        code = subprocess.run([NVDISASM, tmp_path / "k.cubin"], check=True, capture_output=True, text=True).stdout
        return len(re.findall(r"[HIQB]GMMA\.", code))

    made = [fuzz.Products().program(seed) for seed in range(40)]
    made = [one for one in made if len(one.statements) > 1 and "setp.ne.s32 %q, 1, 0;" in one.before][:3]
    assert 1 in [products(one, one.statements[0][0]) for one in made]
    assert [products(one, one.statements[1][0]) for one in made] == [2] * len(made)


@pytest.mark.gpu
@pytest.mark.skipif(not fuzz.INSTANCES.exists(), reason="skipped: no oracle_instances")
def test_the_gpu_and_the_simulator_agree():
    try:
        fuzz.Device()
    except (OSError, RuntimeError) as why:
        pytest.skip(f"skipped: no CUDA device ({why})")
    command = [sys.executable, fuzz.__file__, "--level", "0", "--seconds", "30", "--workers", "8"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
