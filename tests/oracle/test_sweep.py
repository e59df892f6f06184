"""The simulator against the GPU by random bits: see sweep.py."""

import collections
import ctypes
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import sweep_wgmma
from gpu_differences import INSTANCES, VERSION, lines_of
from run_fixtures import Gpu
from sweep import cases, compare, inputs, on_simulator, video_cases, wmma_cases

# What an H200 gave for some of sweep_wgmma.cases(600), and a checksum of what it was given.
RECORDED = Path(__file__).parent / "wgmma_h200.npz"


@pytest.fixture(scope="module")
def gpu():
    try:
        gpu = Gpu()
    except (OSError, RuntimeError) as why:
        pytest.skip(f"skipped: no CUDA device ({why})")
    major, device = ctypes.c_int(), ctypes.c_int()
    gpu.call("cuDeviceGet", ctypes.byref(device), 0)
    gpu.call("cuDeviceGetAttribute", ctypes.byref(major), 75, device)  # compute capability, major
    if major.value != 9:
        pytest.skip("skipped: the formats are sm_90's")
    return gpu


@pytest.mark.gpu
@pytest.mark.parametrize("case", cases() + wmma_cases(), ids=lambda case: case.name)
def test_a_product_has_the_gpus_bits(case, gpu):
    _, wrong, words = compare(gpu, case, 40_000)
    assert not wrong, words


@pytest.mark.gpu
@pytest.mark.parametrize("case", video_cases(60), ids=lambda case: case.name)
def test_a_video_instruction_has_the_gpus_bits(case, gpu):
    _, wrong, words = compare(gpu, case, 4_000)
    assert not wrong, words


@pytest.mark.gpu
@pytest.mark.parametrize("case", sweep_wgmma.cases(170, seed=3), ids=lambda case: case.name)
def test_wgmma_has_the_gpus_bits(case, gpu):
    wrong, words = sweep_wgmma.difference(case, sweep_wgmma.on_gpu(gpu, case), sweep_wgmma.on_simulator(case))
    assert not wrong, words


def test_wgmma_has_the_bits_that_a_gpu_gave():
    recorded, seen = np.load(RECORDED), set()
    for case in sweep_wgmma.cases(600):
        if case.name not in recorded:
            continue
        if zlib.crc32(case.inputs()) != recorded[case.name + " inputs"]:
            pytest.skip("skipped: this numpy has other random numbers than the one of the recording")
        wrong, words = sweep_wgmma.difference(case, recorded[case.name].tobytes(), sweep_wgmma.on_simulator(case))
        assert not wrong, f"{case.name}: {wrong} differ\n{words}"
        seen.add((case.types, case.sparse))
    assert len(seen) == 2 * len(sweep_wgmma.KINDS) - 1  # no sparse b1


def test_each_wgmma_form_has_as_many_outputs_as_asked():
    count = collections.Counter()
    for case in sweep_wgmma.each_form(100_000):
        assert len(case.inputs()) == case.ctas * (16 + sweep_wgmma.SHARED + 512 * (case.registers() + 5))
        count[case.form()] += case.outputs()
    assert len(count) == 2 * len(sweep_wgmma.KINDS) - 1 and min(count.values()) >= 100_000


@pytest.mark.skipif(not INSTANCES.exists(), reason="skipped: no oracle_instances")
def test_each_product_of_a_warp_is_swept():
    """Of those that the rows have for sm_90a, without the layouts of wmma; `.rn` says nothing, and m8n8k4 of f16 is a subroutine (see cases)."""

    def form(mnemonic: str) -> tuple:
        opcode, *modifiers = mnemonic.split(".")
        silent = {"rn", "row", "col"} if opcode == "wmma" else {"rn"}
        return opcode, *sorted(x for x in modifiers if x not in silent)

    texts = [line.split("\t") for line in lines_of(INSTANCES, VERSION)]
    legal = {text.split(" ")[0] for verdict, _, _, _, text in texts if verdict == "legal"}
    asked = {form(x) for x in legal if x.startswith(("mma.", "wmma.mma."))}
    asked = {x for x in asked if not (x[0] == "mma" and {"m8n8k4", "f16"} <= set(x))}
    assert len(asked) > 90 and asked <= {form(case.mnemonic) for case in cases() + wmma_cases()}


def test_the_matrices_of_wmma_are_those_of_numpy():
    """The sum of whole numbers, so that no rounding matters: which element is where in memory."""
    for case in wmma_cases():
        m, n, k = case.shape
        if case.types[1] not in ("s8", "u8", "f64") or "satfinite" in case.name:
            continue
        kind = {"s8": "i1", "u8": "u1", "f64": "f8"}[case.types[1]]
        numbers = np.random.default_rng(3)
        a, b = (numbers.integers(0, 9, shape).astype(kind) for shape in ((m, k), (k, n)))
        c = numbers.integers(0, 9, (m, n)).astype({"s32": "i4", "f64": "f8"}[case.types[3]])
        given = [
            x.tobytes("C" if how == "row" else "F") for x, how in zip((a, b, c), (*case.layouts, "row"), strict=True)
        ]
        made = on_simulator(case, b"".join(given), c.nbytes, 1)
        assert (np.frombuffer(made, c.dtype).reshape(m, n) == a.astype(c.dtype) @ b.astype(c.dtype) + c).all(), (
            case.name
        )


def test_inputs_are_of_the_length_that_the_kernel_reads():
    for case in wmma_cases():
        assert len(inputs(case, 2, 1)) == 2 * 32 * 4 * case.words(), case.name
    for case in cases() + video_cases(20):
        assert len(inputs(case, 2, 1)) == 2 * 32 * 4 * case.words(), case.name
        assert case.ptx().count("ld.global") == case.words() // (2 if case.types[1] == "f64" else 1), case.name
