"""Run by tools/corpus with Taichi on PYTHONPATH: see drive.py.

Taichi compiles for the driver's device and hands the text to the driver, so each kernel is called in a process of its own whose
libcuda is libcuda.c beside this file.  The source `runtime` is the module that Taichi loads before any kernel.
"""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def call(name):
    import taichi as ti

    ti.init(arch=ti.cuda, offline_cache=False, random_seed=1)
    import kernels

    if name != "runtime":
        getattr(kernels, name)(*kernels.ARGUMENTS[name]())
    os._exit(0)  # what Taichi tears down is not there


@functools.cache
def driver_library():
    """A folder with the library that stands for the driver."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", f"{folder}/libcuda.so", HERE / "libcuda.c"], check=True)
    return folder


def compile_one(job):
    folder = driver_library()
    name, target = job["options"][0], job["target"].removeprefix("sm_")
    # In some runs a thread of Taichi's reads memory of the device, which is not there, before the kernel is called.
    for _ in range(8):
        place = Path(tempfile.mkdtemp(dir=folder))
        environment = {**os.environ, "LD_LIBRARY_PATH": folder, "PTX_OUT": str(place), "PTX_TARGET": target}
        done = subprocess.run([sys.executable, __file__, name], env=environment, capture_output=True, text=True)
        modules = sorted(place.glob("*.ptx"))
        if done.returncode >= 0:
            break
    if done.returncode or not modules:
        raise RuntimeError((done.stdout + done.stderr)[-1000:])
    Path(job["out"]).write_bytes(modules[0 if name == "runtime" else -1].read_bytes())


if __name__ == "__main__":
    call(sys.argv[1])
