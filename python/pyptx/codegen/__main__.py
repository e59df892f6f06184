"""`python -m pyptx.codegen kernel.ptx`: the command `pyptx transpile`, as 0.1.1 has it."""

import sys

from pyptx.__main__ import main

sys.exit(main(["transpile", *sys.argv[1:]]))
