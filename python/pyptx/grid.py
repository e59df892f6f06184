"""The grid of a kernel: sizes, or a function of sizes and template values that every new shape asks again."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from pyptx.options import three

__all__ = ["Grid"]


class Grid:
    """`value` as @kernel was given it.  A function is called by the names of its parameters; a parameter without a name
    of its own (`*sizes`, `m, /`) takes the symbols in their order."""

    def __init__(self, value: Any, kernel: str, symbols: Sequence[str], template: Mapping[str, Any]):
        self.value, self.kernel, self.symbols = value, kernel, list(symbols)
        self._named: list[str] = []  # parameters that are given by name
        self._positional = 0  # symbols that are given by position; -1: all of them
        self._all = False  # **sizes
        if callable(value):
            self._read(template)

    def _read(self, template: Mapping[str, Any]):
        # Now, not at the call: names that mean nothing are the author's mistake where they stand.
        known = {*self.symbols, *template}
        for parameter in inspect.signature(self.value).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                self._all = True
            elif parameter.kind is parameter.VAR_POSITIONAL:
                self._positional = -1
            elif parameter.kind is parameter.POSITIONAL_ONLY:
                self._positional += parameter.default is parameter.empty
            elif parameter.name in known:
                self._named.append(parameter.name)
            elif parameter.default is parameter.empty:
                raise TypeError(
                    f"grid of kernel {self.kernel} asks for {parameter.name}; the kernel's dimensions are "
                    f"{', '.join(self.symbols) or 'none'}, its template values {', '.join(template) or 'none'}"
                )
        if self._positional > len(self.symbols):
            raise TypeError(
                f"grid of kernel {self.kernel} asks for {self._positional} sizes; the kernel's dimensions are "
                f"{', '.join(self.symbols) or 'none'}"
            )

    def parts(self, sizes: Mapping[str, Any], template: Mapping[str, Any]) -> Any:
        """The grid of these sizes as the author's function gives it; sizes may be symbolic ones of torch."""
        if not callable(self.value):
            return self.value
        known = {**template, **sizes}
        count = len(self.symbols) if self._positional < 0 else self._positional
        names = dict.fromkeys([*self._named, *self.symbols]) if self._all else self._named
        wanted = [*self.symbols[:count], *self._named]
        missing = [name for name in wanted if name not in known]
        if missing:
            raise TypeError(
                f"grid of kernel {self.kernel} asks for {', '.join(missing)}, which is not given: pass {missing[0]}=..."
            )
        ordered = [known[name] for name in self.symbols[:count]]
        return self.value(*ordered, **{name: known[name] for name in names if name in known})

    def of(self, sizes: Mapping[str, int], template: Mapping[str, Any]) -> tuple[int, int, int]:
        """The grid of these sizes: CTAs along x, y, z."""
        return three(self.parts(sizes, template), f"grid of kernel {self.kernel}")
