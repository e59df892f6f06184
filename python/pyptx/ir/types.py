"""Types, state spaces and linking as words of PTX."""

from __future__ import annotations

from enum import Enum

from pyptx import types as _types
from pyptx._core import PtxType

__all__ = ["LinkingDirective", "ScalarType", "StateSpace"]


class _Word(Enum):
    @property
    def ptx(self) -> str:
        """With its dot."""
        return f".{self.value}"

    @classmethod
    def from_ptx(cls, text: str) -> _Word:
        """The member of a word, with or without its dot; ValueError where there is none."""
        return cls(text.removeprefix("."))


_NAMES = [name for name, value in vars(_types).items() if isinstance(value, PtxType)]
ScalarType: type[_Word] = _Word("ScalarType", {name.upper(): name for name in _NAMES})  # type: ignore[call-arg,assignment]


class StateSpace(_Word):
    REG = "reg"
    SREG = "sreg"
    CONST = "const"
    GLOBAL = "global"
    LOCAL = "local"
    PARAM = "param"
    SHARED = "shared"
    SHARED_CTA = "shared::cta"
    SHARED_CLUSTER = "shared::cluster"


class LinkingDirective(_Word):
    VISIBLE = "visible"
    EXTERN = "extern"
    WEAK = "weak"
    COMMON = "common"
