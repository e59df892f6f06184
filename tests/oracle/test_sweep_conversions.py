"""The kernels of sweep_conversions.py run, cover what they say, and find a wrong conversion."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="skipped: no numpy")
sys.path.insert(0, str(Path(__file__).parent))

import sweep_conversions as sweep

LINES = [
    f"legal\tform\t9.7.9.21\tsm_90a:8.7\t{text}"
    for text in (
        "cvt.rn.f16.f32 f16_0, f32_0",
        "cvt.rni.s32.f16 s32_0, f16_0",
        "cvt.rn.bf16x2.f32 b32_0, f32_0, f32_1",
        "cvt.rzi.u64.f32 u64_0, f32_0",
        "cvt.rn.f32.f64 f32_0, f64_0",
        "cvt.f32.f32 f32_0, f32_1",
    )
]


def test_a_machine_agrees_with_itself_on_every_16_bit_input():
    found = sweep.chosen(LINES, [])
    assert [one.mnemonic for one in found] == [line.split("\t")[4].split()[0] for line in LINES[:4]]
    todo = sweep.tasks(found, 1 << 20)
    assert [(len(group), count, step) for group, _, count, step in todo] == [
        (1, 1 << 16, 1),
        (3, sweep.CHUNK, 1 << 20),
    ]
    simulator = sweep.Simulator()
    for group, begin, _, step in todo:
        assert not sweep.compared(simulator, simulator, group, begin, 1 << 12, step)


def test_a_wrong_conversion_is_named():
    class Wrong(sweep.Simulator):
        def run(self, text, given, count):
            return super().run(text.replace("cvt.rn.f16.f32", "cvt.rz.f16.f32"), given, count)

    found = sweep.chosen(LINES, [])[:1] + sweep.chosen(LINES, [])[2:]
    (words,) = sweep.compared(Wrong(), sweep.Simulator(), found, 0x3F800000, 1 << 12, 7919)
    assert words.startswith("cvt.rn.f16.f32 f16_0, f32_0: ") and "of 4096 differ, 3f8" in words


def test_all_inputs_of_32_bits_are_there():
    found = sweep.chosen(LINES, ["rn.f16.f32"])
    begins = [begin for _, begin, _, _ in sweep.tasks(found, 1)]
    assert begins == list(range(0, 1 << 32, sweep.CHUNK))
