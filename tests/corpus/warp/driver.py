"""Run by tools/corpus with Warp on PYTHONPATH: a list of modules as JSON on stdin, their errors as JSON on stdout.

The sources are examples and tests in the package itself; Warp turns their kernels into CUDA and its own NVRTC into PTX,
which needs neither GPU nor driver.
"""

import importlib
import json
import os
import pathlib
import sys
import tempfile

answer = os.dup(1)
os.dup2(2, 1)  # Warp talks on stdout.

import warp as wp  # noqa: E402


def compile_one(job):
    importlib.import_module(job["source"])
    arch = int("".join(c for c in job["target"] if c.isdigit()))
    with tempfile.TemporaryDirectory() as folder:
        wp.compile_aot_module(job["source"], arch=arch, module_dir=folder, use_ptx=True, strip_hash=True)
        [text] = pathlib.Path(folder).glob("*.ptx")
        pathlib.Path(job["out"]).write_bytes(text.read_bytes())


wp.config.quiet = True
wp.init()
answers = []
for job in json.load(sys.stdin):
    try:
        compile_one(job)
        answers.append("")
    except Exception as error:
        answers.append(f"{type(error).__name__}: {error}")
os.write(answer, (json.dumps(answers) + "\n").encode())
