"""Run by tools/corpus with a producer's name and the producer on PYTHONPATH: a list of modules as JSON on stdin, their errors as JSON on stdout.

NAME/driver.py compiles them: one by `compile_one`, or all by `compile_all`, which returns their errors.
"""

import json
import os
import sys
from pathlib import Path

MOST = 1000  # characters of an error: its end says the most


def compile_all(compile_one, jobs):
    return [error_of(compile_one, job) for job in jobs]


def error_of(compile_one, job):
    try:
        compile_one(job)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[-MOST:]}"
    return ""


if __name__ == "__main__":
    stdout = os.dup(1)
    os.dup2(2, 1)  # compilers print there too, some as they are imported
    sys.path[0] = str(Path(__file__).parent / sys.argv[1])
    import driver

    jobs = json.load(sys.stdin)
    errors = driver.compile_all(jobs) if hasattr(driver, "compile_all") else compile_all(driver.compile_one, jobs)
    os.write(stdout, json.dumps(errors).encode())
