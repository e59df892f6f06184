"""What is kept of assembling: on disk by any number of processes, and what the assembler says of a kernel."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import subprocess
import sys
import warnings

import pytest

import pyptx
from pyptx import Tile, _core, cache, kernel, ptx, reg, smem
from pyptx.errors import LaunchTypeError, PerformanceWarning
from pyptx.types import f32, u32

needs_assembler = pytest.mark.skipif(
    not _core.assembler_description().startswith(("nvJitLink", "ptxas")), reason="skipped: no assembler"
)

# Assembles ten kernels again and again; prints a line a kernel: name and hash of what it got.
WORKER = """
import hashlib, sys
sys.path.insert(0, {examples!r})
from pyptx import _core
from rms_norm import build_rms_norm
for n in {order}:
    k = build_rms_norm(1, 32 * n)
    registers = k.resources().registers
    print(n, registers)
"""


def run_workers(folder, count, seed=0):
    examples = str(pathlib.Path(__file__).resolve().parents[2] / "examples")
    workers = []
    for index in range(count):
        order = list(range(1, 7))
        random.Random(seed + index).shuffle(order)
        program = WORKER.format(examples=examples, order=order)
        environment = {**os.environ, "PYPTX_CACHE_DIR": str(folder)}
        workers.append(
            subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
        )
    yield workers
    for worker in workers:
        output, _ = worker.communicate(timeout=240)
        assert worker.returncode == 0
        yield dict(map(int, line.split()) for line in output.splitlines())


def entries(folder):
    return sorted(pathlib.Path(folder).rglob("*.cubin"))


def spoil(file, how: random.Random):
    content = file.read_bytes()
    if how.random() < 0.5:
        file.write_bytes(content[: how.randrange(len(content))])  # torn
    else:
        at = how.randrange(len(content))
        file.write_bytes(content[:at] + bytes([content[at] ^ 1 << how.randrange(8)]) + content[at + 1 :])


@needs_assembler
def test_32_processes_on_one_folder_with_damage(tmp_path):
    """Every process gets every kernel right while files are torn and bits flipped under it."""
    how = random.Random(7)
    run = run_workers(tmp_path, 32)
    workers = next(run)
    while any(worker.poll() is None for worker in workers):
        for file in entries(tmp_path):
            if how.random() < 0.2:
                with contextlib.suppress(OSError, ValueError):  # removed or emptied meanwhile
                    spoil(file, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            workers[how.randrange(32)].wait(timeout=0.05)
    answers = list(run)
    assert len(answers) == 32 and all(answer == answers[0] for answer in answers), answers
    assert len(answers[0]) == 6
    run = run_workers(tmp_path, 1)  # and afterwards the folder is sound again
    next(run)
    assert next(run) == answers[0]
    assert len(entries(tmp_path)) == 6 and not list(tmp_path.rglob("*.tmp"))


@needs_assembler
def test_the_command_tells_trims_and_clears(tmp_path):
    def command(*words):
        environment = {**os.environ, "PYPTX_CACHE_DIR": str(tmp_path), "PYPTX_CACHE_BYTES": "1000000"}
        return subprocess.run(
            [sys.executable, "-m", "pyptx", "cache", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert "0 entries, 0 bytes of at most 1,000,000" in command("status")
    run = run_workers(tmp_path, 1)
    next(run)
    next(run)
    assert "6 entries" in command("status")
    size = sum(file.stat().st_size for file in entries(tmp_path))
    assert "removed 0 entries" in command("trim")
    assert "removed 1 entries" in command("trim", "--bytes", str(size - 1))
    assert "removed 5 entries" in command("clear") and not entries(tmp_path)


def test_without_a_folder_nothing_is_kept(tmp_path):
    program = "from pyptx import cache; print(cache.status()); print(cache.clear())"
    environment = {**os.environ, "PYPTX_CACHE_DIR": ""}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == "no cache: PYPTX_CACHE_DIR is empty\n0\n"
    assert cache.status().folder


def make_busy(values):
    """Keeps so many registers alive at once."""

    @kernel(in_specs=(Tile(values, 32, f32),), out_specs=(Tile(values, 32, f32),), block=(512, 1, 1))
    def busy(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        tile = smem.alloc(f32, (32, 32))
        offset = reg.from_(ptx.special.tid.x(), u32) * 4
        held = reg.array(f32, values)
        total = reg.scalar(f32, init=0.0)
        for i in range(values):
            ptx.inst.ld.volatile.global_.f32(held[i], ptx.addr(px + offset, i * 128))
            ptx.inst.add.f32(total, total, held[i])
        tile[0, 0] = total
        for i in range(values):
            ptx.inst.mul.f32(held[i], held[i], total)
            ptx.inst.st.global_.f32(ptx.addr(py + offset, i * 128), held[i])
        ptx.ret()

    return busy


@needs_assembler
def test_resources_without_a_gpu():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small = make_busy(4).resources()
    assert 8 <= small.registers <= 64 and small.spill_stores == small.spill_loads == small.stack == 0
    assert small.shared == 4096 and small.dynamic_shared == 0 and small.threads == 512
    assert small.blocks == 4 and small.occupancy == 1.0 and small.limiter in ("registers", "warps")


@needs_assembler
def test_spilled_registers_are_a_warning_at_the_kernels_line():
    busy = make_busy(300)
    with pytest.warns(PerformanceWarning, match="`busy` has more values than registers") as caught:
        found = busy.resources()
    assert found.spill_stores > 0 and found.registers == 255
    assert found.limiter == "registers" and found.blocks == 0  # 512 threads with so many cannot be launched
    assert caught[0].filename == __file__
    with pytest.warns(PerformanceWarning):  # kept with the cubin
        make_busy(300).resources()


@needs_assembler
def test_many_kernels_are_assembled_at_once():
    made = [make_busy(n) for n in range(8, 14)]
    results = pyptx.compile([*made, (made[0], {})], threads=4)
    assert len(results) == 7 and results[0] == results[-1]
    assert results[1] == made[1].resources()
    assert cache.status().entries >= 6


ASSEMBLED_FOR_A_FUNCTION = """
import pyptx, torch
from pyptx import cache, kernels

x, w = torch.randn(200, 64), torch.randn(64, 40)
w[0, 0] = torch.nan  # which a product would spread

def calls():
    for rows in (1, 200):
        made = kernels.matmul(x[:rows], w)
        assert made.shape == (rows, 40) and made.dtype == x.dtype
    kernels.rms_norm(x, out=x)
    given = x.clone().requires_grad_()
    torch.autograd.grad(kernels.softmax(given).sum(), given)

before = x.clone()
pyptx.compile([calls])
assert torch.equal(x, before)
print(cache.status().entries)
pyptx.compile([calls])
print(cache.status().entries)
calls()
print(cache.status().entries)
"""


@needs_assembler
def test_kernels_that_a_function_calls_are_assembled_and_not_launched(tmp_path):
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    from pyptx import kernels

    environment = {**os.environ, "PYPTX_CACHE_DIR": str(tmp_path)}  # of its own: other tests assemble meanwhile
    program = [sys.executable, "-c", ASSEMBLED_FOR_A_FUNCTION]
    ran = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    assembled, *later = map(int, ran.stdout.split())
    assert assembled >= 4 and later == [assembled] * 2
    x = torch.randn(200, 64)
    assert torch.allclose(kernels.rms_norm(x), torch.nn.functional.rms_norm(x, (64,), eps=1e-6), atol=1e-5)
    with pytest.raises(LaunchTypeError, match="must be tensors of torch"):
        pyptx.compile([lambda: kernels.rms_norm(x.numpy())])
    with pytest.raises(
        TypeError, match=r"kernels, of pairs \(kernel, {name: value}\), and of functions without arguments, not 3"
    ):
        pyptx.compile([3])
