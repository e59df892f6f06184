"""The grid, the CTA and the cluster of a kernel: sizes, or a function of sizes and template values."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from pyptx.specialise.options import three

__all__ = ["Extent"]


class Extent:
    """One of them, `what`: "grid", "block" or "cluster".  `value` is as @kernel was given it.

    A function is called by the names of its parameters; parameters without a name of their own (`*sizes`, `m, /`) take the symbols in their
    order, and so do as many as there are symbols if no name is one of a size or template value (`lambda m, n: ...` of M and N)."""

    def __init__(self, value: Any, kernel: str, symbols: Sequence[str], template: Mapping[str, Any], what: str):
        self.what, self.kernel, self.symbols = what, kernel, list(symbols)
        self.value = (1, 1, 1) if value is None else value
        self._named: list[str] = []  # parameters that are given by name
        self._positional = 0  # symbols that are given by position; -1: all of them
        self._all = False  # **sizes
        self._fixed: tuple[int, int, int] | None = None
        if callable(value):
            self._read(template)
        else:
            self._fixed = three(self.value, f"{what} of kernel {kernel}")

    def _read(self, template: Mapping[str, Any]):
        # Now, not at the call: names that mean nothing are the author's mistake where they stand.
        known = {*self.symbols, *template}
        try:
            signature = inspect.signature(self.value)
        except ValueError:  # of functions in C
            raise TypeError(
                f"{self.what} of kernel {self.kernel}: {self.value!r} has no names of sizes as parameters: write a function of "
                f"{', '.join(self.symbols) or 'nothing'}"
            ) from None
        asked = [each for each in signature.parameters.values() if each.default is each.empty]
        in_order = (
            len(asked) == len(self.symbols)
            and all(each.kind is each.POSITIONAL_OR_KEYWORD for each in asked)
            and known.isdisjoint(signature.parameters)
        )
        for parameter in signature.parameters.values():
            if in_order and parameter.default is parameter.empty:
                self._positional += 1
            elif parameter.kind is parameter.VAR_KEYWORD:
                self._all = True
            elif parameter.kind is parameter.VAR_POSITIONAL:
                self._positional = -1
            elif parameter.kind is parameter.POSITIONAL_ONLY:
                self._positional += parameter.default is parameter.empty
            elif parameter.name in known:
                self._named.append(parameter.name)
            elif parameter.default is parameter.empty:
                raise TypeError(
                    f"{self.what} of kernel {self.kernel} asks for {parameter.name}; the kernel's dimensions are "
                    f"{', '.join(self.symbols) or 'none'}, its template values {', '.join(template) or 'none'}"
                )
        if self._positional > len(self.symbols):
            raise TypeError(
                f"{self.what} of kernel {self.kernel} asks for {self._positional} sizes; the kernel's dimensions are "
                f"{', '.join(self.symbols) or 'none'}"
            )

    def parts(self, sizes: Mapping[str, Any], template: Mapping[str, Any]) -> Any:
        """What the author's function gives for these sizes, which may be symbolic ones of torch."""
        if not callable(self.value):
            return self.value
        known = {**template, **sizes}
        count = len(self.symbols) if self._positional < 0 else self._positional
        names = dict.fromkeys([*self._named, *self.symbols]) if self._all else self._named
        wanted = [*self.symbols[:count], *self._named]
        missing = [name for name in wanted if name not in known]
        if missing:
            raise TypeError(
                f"{self.what} of kernel {self.kernel} asks for {', '.join(missing)}, which is not given: pass {missing[0]}=..."
            )
        ordered = [known[name] for name in self.symbols[:count]]
        return self.value(*ordered, **{name: known[name] for name in names if name in known})

    def asks_for(self) -> list[str]:
        """The symbols that the function is called with."""
        if not callable(self.value):
            return []
        count = len(self.symbols) if self._all or self._positional < 0 else self._positional
        return [name for name in self.symbols if name in self._named or name in self.symbols[:count]]

    def of(self, sizes: Mapping[str, int], template: Mapping[str, Any]) -> tuple[int, int, int]:
        """The extent for these sizes along x, y, z."""
        if self._fixed is not None:
            return self._fixed
        return three(self.parts(sizes, template), f"{self.what} of kernel {self.kernel}")
