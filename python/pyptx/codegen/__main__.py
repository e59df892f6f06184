"""`python -m pyptx.codegen kernel.ptx`: the command `pyptx transpile`, as 0.1.1 has it."""

import sys

from pyptx.__main__ import main

if len(sys.argv) < 2:
    print("usage: python -m pyptx.codegen FILE.ptx [--sugar] [--name NAME]", file=sys.stderr)
    sys.exit(1)
sys.exit(main(["transpile", *sys.argv[1:]]))
