"""What benchmarks measure in a process of its own: code that imports from examples/."""

import os
import pathlib
import subprocess
import sys

EXAMPLES = str(pathlib.Path(__file__).resolve().parents[1] / "examples")


def in_new_process(code: str, *arguments: str, **environment: str) -> str:
    """What the code prints; its error ends this process, too."""
    command = [sys.executable, "-c", code, *arguments]
    variables = {**os.environ, "PYTHONPATH": EXAMPLES, **environment}
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout
