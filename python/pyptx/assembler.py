"""The assemblers that compile PTX to machine code, and the choice between them.  docs/assembler.md explains it.

Whole-program compilers come first, since they do not change the kernel: each ptxas of an installed
`nvidia-cuda-nvcc` (`pip install pyptx[asm]`), of a CUDA toolkit, of Triton and on PATH, the newest whose code the driver
loads; then the driver's JIT.  nvJitLink compiles relocatable code, in which `setmaxnreg` is dropped: it is the last
resort, and kernels that it would change are refused.  `PYPTX_ASSEMBLER` or `use` choose otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyptx import _core

__all__ = ["Found", "found", "use"]


@dataclass(frozen=True)
class Found:
    """An assembler.  `name`: kind, release, file and newest PTX; `why`: why it is taken, or not.

    Example:
        names = [each.name for each in pyptx.assembler.found()]
    """

    name: str
    why: str

    def __str__(self):
        return f"{self.name}: {self.why}"


def found() -> list[Found]:
    """The assemblers of this machine, best first.

    Example:
        for each in pyptx.assembler.found():
            print(each)
    """
    return [Found(name, why) for name, why in _core.assemblers()]


def use(choice: str) -> None:
    """Chooses the assembler of what is assembled from now on; a kernel that is loaded stays as it is.

    `"auto"`, `"ptxas"`, `"ptxas:FILE"`, `"driver"` (its JIT), `"nvjitlink"` or `"nvjitlink:FILE"`, as in `PYPTX_ASSEMBLER`.
    Anything else is an `AssemblerError`; so is, when a kernel is assembled, a choice that this machine does not have.

    Example:
        pyptx.assembler.use("auto")
    """
    _core.use_assembler(choice)
