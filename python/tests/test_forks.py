"""Processes that are copied while other threads make kernels."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("numpy", reason="skipped: no numpy")

FORKS = """
import os, signal, threading
import numpy as np
from pyptx.kernels import scaled_add

x = np.ones(64, np.float32)
scaled_add(x, x, alpha=2.0)
stop = False

def spin():
    while not stop:
        scaled_add(x, x, alpha=2.0)
        scaled_add.ptx()

threads = [threading.Thread(target=spin) for _ in range(4)]
[each.start() for each in threads]
ended = []
for i in range(40):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        good = (scaled_add(x[: i + 3], x[: i + 3], alpha=0.5) == 1.5).all()
        os._exit(0 if good else 1)
    ended.append(os.waitpid(child, 0)[1])
stop = True
[each.join() for each in threads]
print(sorted(set(ended)))
"""


def test_a_child_finds_no_lock_of_another_thread():
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], capture_output=True, text=True, timeout=300)
    assert ran.stdout == "[0]\n", ran.stdout + ran.stderr
