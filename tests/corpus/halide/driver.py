"""Run by tools/corpus with Halide on PYTHONPATH: a list of modules as JSON on stdin, their errors as JSON on stdout.

The pipelines are pipelines.py's; Halide's own LLVM makes PTX of them, which needs neither GPU nor driver.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import halide as hl
import pipelines


def compile_one(job):
    capability = "".join(c for c in job["target"] if c.isdigit())
    target = hl.Target(f"x86-64-linux-cuda-cuda_capability_{capability}")
    name = job["options"][0]
    function, inputs = getattr(pipelines, name)()
    function.compile_to({hl.OutputFileType.device_code: job["out"]}, inputs, name, target)


answers = []
for job in json.load(sys.stdin):
    try:
        compile_one(job)
        answers.append("")
    except Exception as error:
        answers.append(f"{type(error).__name__}: {error}")
print(json.dumps(answers))
