"""Calls of which only the kernels are wanted: what `pyptx.compile` makes of functions.  A call of this thread launches nothing; its results have the
shapes and types of a call, and whatever memory held before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyptx import _core
from pyptx.errors import LaunchTypeError

if TYPE_CHECKING:
    from pyptx.specialise.specialisation import Specialisation

__all__ = ["Met", "collecting", "met_by"]


class Met:
    """The specialisations that calls of one thread would launch, in their order."""

    def __init__(self):
        self.thread = threading.get_ident()
        self.found: dict[Specialisation, None] = {}

    def takes(self) -> bool:
        return threading.get_ident() == self.thread

    def call(self, kernel: Any, given: Any, out: Any, makers: list) -> Any:
        """What a call returns.  `makers`: of its outputs, as of `Plan`."""
        self.found.setdefault(kernel.specialise_for(given))
        _core.spoil_launches()  # nobody may remember that this call launches nothing
        if out is not None or not kernel.out_specs:
            return out
        if not makers:
            raise LaunchTypeError(
                f"compile: a function calls {kernel.signature.name}; its arrays must be tensors of torch"
            )
        made = tuple(function(*arguments) for function, arguments in makers)
        return made if len(made) > 1 else made[0]


collecting: Met | None = None  # the launcher then takes the slow path


def met_by(function: Callable[[], Any]) -> list[Specialisation]:
    """The specialisations that a call of the function would launch."""
    from pyptx.launch.kept import watch_calls

    global collecting
    before, collecting = collecting, Met()
    watch_calls()
    try:
        function()
        return list(collecting.found)
    finally:
        collecting = before
        watch_calls()
