"""The differential test of the GPU finds what it is meant to find: gpu_differences.py."""

import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="skipped: no numpy")
sys.path.insert(0, str(Path(__file__).parent))

import gpu_differences as tool

LINES = [
    f"legal\tform\t{section}\tsm_90a:8.6\t{text}"
    for section, text in [
        ("9.7.3.3", "add.f64 f64_0, f64_1, f64_2"),
        ("9.7.2.4", "subc.cc.u32 u32_0, u32_1, u32_2"),
        ("9.7.6.2", "setp.lt.and.f32 pred_0|pred_1, f32_0, f32_1, pred_2"),
        ("9.7.9.3", "mov.v2.f32 {f32_0, f32_1}, {f32_2, f32_3}"),
        ("9.7.9.6", "shfl.sync.bfly.b32 b32_0|pred_0, b32_1, b32_2, b32_3, b32_4"),
        ("9.7.13.5", "atom.add.f32 f32_0, [u64_0], f32_1"),
        ("9.7.13.6", "red.shared.max.s32 [u64_0], s32_1"),
        ("9.7.3.22", "tanh.approx.f32 f32_0, f32_1"),
    ]
]
OUT_OF_PLACE = [
    "refused\tform\t9.7.3.3\tsm_90a:8.6\tadd.f32 f32_0, f32_1",
    "legal\tform\t9.7.9.9\tsm_90a:8.6\tld.u32 u32_0, [u64_0]",
    "legal\tform\t9.7.1.1\tsm_90a:8.6\tadd.u32 u32_0, u32_1, %clock",
]


class Simulator:
    """Stands for the device; `wrong` changes what it gives."""

    def __init__(self, wrong=lambda kernel, rows: rows):
        self.wrong = wrong

    def run(self, kernel, given):
        return self.wrong(kernel, tool.simulate(kernel, given))


def test_a_machine_agrees_with_itself():
    found, left_out = tool.differences([*LINES, *OUT_OF_PLACE], Simulator(), 0)
    assert not left_out
    assert {one.text for one in found} == {line.split("\t")[4] for line in LINES}
    assert all(one.values and not one.differ for one in found)


def test_one_wrong_bit_is_found_and_named():
    def flip(kernel, rows):
        for one, _, results in kernel.fields:
            if one.mnemonic in ("add.f64", "red.shared.max.s32"):
                rows[5, results[0][0]] ^= 1
        return rows

    found, _ = tool.differences(LINES, Simulator(flip), 0)
    assert {one.mnemonic: one.differ for one in found if one.differ} == {"add.f64": 1, "red.shared.max.s32": 1}
    report = "\n".join(tool.report(found, {}))
    assert "add.f64: 1 of 1024 differ" in report


def test_an_instruction_that_a_machine_does_not_take_is_left_out_alone():
    mma = "9.7.3.3\tsm_90a:8.6\tadd.f32 f32_0, f32_1, pred_0"  # wrong, though the line says legal
    found, left_out = tool.differences([*LINES, f"legal\tform\t{mma}"], Simulator(), 0)
    assert list(left_out.values()) == ["simulator"]
    assert len(found) == len(tool.instances(LINES, []))


@pytest.mark.gpu
@pytest.mark.skipif(not tool.INSTANCES.exists(), reason="skipped: no oracle_instances")
def test_the_gpu_and_the_simulator_agree():
    import subprocess

    command = [tool.INSTANCES, "--depth", "0", tool.TARGET, tool.VERSION]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    try:
        device = tool.Device()
    except (OSError, RuntimeError) as why:
        pytest.skip(f"skipped: no CUDA device ({why})")
    found, left_out = tool.differences(lines, device, 60)
    assert not any(one.differ for one in found), "\n".join(tool.report(found, left_out))


@pytest.mark.skipif(not shutil.which("ptxas"), reason="skipped: no ptxas")
def test_the_kernels_are_legal():
    found, left_out = tool.differences(LINES, tool.Assembler("ptxas"), 0)
    assert found
    assert not left_out
