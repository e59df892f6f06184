"""Run by tools/corpus with Numba on PYTHONPATH: a list of modules as JSON on stdin, their errors as JSON on stdout.

The kernels are kernels.py's; NVVM makes PTX of them, and NVRTC of what Numba has in CUDA C++, which needs neither GPU nor
driver.  An option is a flag of `cuda.compile`: debug, fastmath, lineinfo.
"""

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import kernels
from numba import cuda


def compile_one(job):
    name, *flags = job["options"]
    capability = divmod(int("".join(c for c in job["target"] if c.isdigit())), 10)
    options = dict.fromkeys(flags, True) | ({"opt": False} if "debug" in flags else {})
    signature = kernels.SIGNATURES[name]
    text, _ = cuda.compile(getattr(kernels, name), signature, cc=capability, device=False, abi="numba", **options)
    # Numba counts the functions that the process has compiled, and puts the number into names.
    Path(job["out"]).write_text(re.sub(r"B\d+v\d+B", "B2v1B", text))


answers = []
for job in json.load(sys.stdin):
    try:
        compile_one(job)
        answers.append("")
    except Exception as error:
        answers.append(f"{type(error).__name__}: {error}")
print(json.dumps(answers))
