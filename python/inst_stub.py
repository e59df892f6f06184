"""Writes _inst.pyi, the completion of `ptx.inst` for editors: one class an opcode, with every modifier of its forms.

    PYTHONPATH=<folder of _core> python inst_stub.py OUTPUT

A step of a chain offers all modifiers of its opcode, since most may come in any order; `dir()` offers those that are
legal next.  Run by the build, with the module that was just built.
"""

import pathlib
import sys

import _core

HEAD = '''"""What may follow `ptx.inst`.  Written by the build (python/inst_stub.py)."""

from typing import Any

from pyptx._core import NegPred, Reg

class _Mnemonic:
    def __call__(self, *operands: Any, pred: Reg | NegPred | None = None) -> Reg | None: ...
'''


def main() -> None:
    name_of = _core.python_name
    opcodes: dict[str, dict[str, None]] = {}
    for form in _core.forms():
        opcodes.setdefault(form.opcode, {}).update(dict.fromkeys(form.modifiers))
    text = [HEAD]
    for opcode, modifiers in opcodes.items():
        name = f"_{name_of(opcode)}"
        text += ["", f"class {name}(_Mnemonic):" + ("" if modifiers else " ...")]
        text += [f"    {name_of(modifier)}: {name}" for modifier in modifiers if name_of(modifier).isidentifier()]
    text += ["", "class Inst:"]
    text += [f"    {name_of(opcode)}: _{name_of(opcode)}" for opcode in opcodes]
    text += ["    def __getattr__(self, name: str) -> Any: ...", ""]
    pathlib.Path(sys.argv[1]).write_text("\n".join(text))


main()
