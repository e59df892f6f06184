"""The example of several processes: gloo and the simulator here, NCCL where there are two CUDA devices."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="skipped: no torch")
if not torch.distributed.is_available():
    pytest.skip("skipped: torch without torch.distributed", allow_module_level=True)

PEERS = pathlib.Path(__file__).resolve().parents[2] / "examples/peers.py"
MODELS = pathlib.Path(__file__).with_name("parallel_models.py")
EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/distributed_rms_norm.py"


def run(where):
    ran = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert sorted(ran.stdout.splitlines()) == [
        f"rank {rank} on {where.format(rank)}: rows {8 * rank} to {8 * rank + 7} equal to torch" for rank in range(2)
    ]


@pytest.mark.skipif(torch.cuda.device_count() >= 2, reason="skipped: there are two CUDA devices")
def test_two_processes_on_the_simulator():
    run("cpu")


def test_models_in_two_processes():
    """CPU tensors of each, wherever there is a GPU."""
    ran = subprocess.run([sys.executable, MODELS], capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    forms = "DistributedDataParallel", "fully_shard", "fully_shard in bf16", "local_map"
    assert sorted(ran.stdout.splitlines()) == [f"rank {rank}: {form}" for rank in range(2) for form in forms]


@pytest.mark.skipif(torch.cuda.device_count() >= 2, reason="skipped: there are two CUDA devices")
def test_the_example_of_peers_says_that_it_needs_two_devices():
    ran = subprocess.run([sys.executable, PEERS], capture_output=True, text=True, timeout=240)
    assert (ran.returncode, ran.stdout) == (0, "skipped: fewer than 2 CUDA devices\n"), ran.stderr


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="skipped: fewer than two CUDA devices")
@pytest.mark.parametrize(
    "start", [[], ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]], ids=["spawn", "torchrun"]
)
def test_peers_on_two_devices(start):
    ran = subprocess.run([sys.executable, *start, PEERS], capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    right = [f"rank {rank} of 2: sums, norms and products are right" for rank in range(2)]
    assert sorted(line for line in ran.stdout.splitlines() if line.startswith("rank")) == right


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="skipped: fewer than two CUDA devices")
def test_two_processes_on_two_devices():
    run("cuda:{}")
