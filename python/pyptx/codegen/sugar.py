"""Sugar on modules instead of programs, as 0.1.1 has it."""

from __future__ import annotations

from pyptx import codegen
from pyptx.ir import Module, _text

__all__ = ["apply_sugar"]


def apply_sugar(module: Module, *, kernel_name: str | None = None) -> Module:
    """The module that the program with all sugar writes: the same but for names of registers and labels.

    `kernel_name`: the name of the only kernel.  A module that is not legal is refused with its diagnostics.

    Example:
        from pyptx.codegen.sugar import apply_sugar

        module = pyptx.parse(".version 8.0\\n.target sm_80\\n.entry k() { ret; }\\n")
        assert apply_sugar(module, kernel_name="mine").functions[0].name == "mine"
    """
    source = bytes(module)
    program = codegen.ptx_to_python(source, sugar=True, kernel_name=kernel_name)
    codegen.verify(source, program, names=False)
    made = Module(codegen.run(program), module.file)
    if kernel_name is not None:
        (kernel,) = (each for each in made.functions if each.is_entry)
        kernel.head = _text.renamed(kernel.head, {kernel.name: kernel_name})
    return made
