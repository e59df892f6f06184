"""The transpiler where pyptx 0.1.1 had it."""

from pyptx.codegen import ir_to_python, ptx_to_python

__all__ = ["ir_to_python", "ptx_to_python"]
