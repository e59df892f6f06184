"""The exceptions of pyptx: one type for each phase.  Each carries the library's diagnostics.

They also derive from the ValueError, TypeError, IndexError or RuntimeError that earlier releases raised.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = [
    "AssemblerError",
    "AuthoringError",
    "AuthoringIndexError",
    "AuthoringRuntimeError",
    "AuthoringTypeError",
    "AuthoringValueError",
    "LaunchError",
    "ParseError",
    "PtxError",
    "PtxValidationError",
    "SimulationError",
]


class PtxError(Exception):
    """Base of all.  `diagnostics`: list of `Diagnostic` (code, name, severity, file, line, column, message, notes, section)."""

    def __init__(self, message: str, diagnostics: Iterable[Any] = ()):
        super().__init__(message)
        self.diagnostics = list(diagnostics)

    def __reduce__(self):  # an error of another process arrives with its diagnostics
        return type(self), (*self.args, self.diagnostics)


class ParseError(PtxError, ValueError):
    """PTX text that cannot be read, or that is not legal."""


class PtxValidationError(PtxError):
    """The name by which programs of 0.1.1 catch an `AuthoringError`.  `pyptx.spec.validate_or_raise` raises it with its `issues`."""

    issues: list[Any]
    user_frame: Any = None

    def __init__(self, issues: Iterable[Any] = (), *, user_frame: Any = None):
        self.issues, self.user_frame = list(issues), user_frame
        lines = [self.issues[0].instruction.mnemonic] if self.issues else []
        lines += [f"  {issue.message}" for issue in self.issues]
        super().__init__("\n".join(lines + ([f"  at {user_frame}"] if user_frame else [])))

    def __reduce__(self):
        return _validation_error, (self.issues, self.user_frame)


def _validation_error(issues: list[Any], user_frame: Any) -> PtxValidationError:
    return PtxValidationError(issues, user_frame=user_frame)


class AuthoringError(PtxValidationError):
    """A call in a kernel's body that would write illegal PTX, or a kernel that is not legal as a whole."""

    def __init__(self, message: str, diagnostics: Iterable[Any] = ()):
        PtxError.__init__(self, message, diagnostics)
        self.issues = self.diagnostics

    __reduce__ = PtxError.__reduce__


def _placed(message: str, diagnostics: Iterable[Any], code: int) -> tuple[str, list[Any]]:
    """A message without diagnostics, as one at the line of the body that is being written; elsewhere as it is."""
    found = list(diagnostics)
    if not found:
        from pyptx import _core

        if _core.current_trace() is not None:
            found = [_core.Diagnostic(code, *_core.author_place(), message)]
            message = str(found[0])
    return message, found


def placed_at(error: AuthoringError, file: str, line: int) -> AuthoringError:
    """The same error at another line of the author's: where a variable was made, where a function returned."""
    from pyptx import _core

    found = [_core.Diagnostic(each.code, file, line, each.message) for each in error.diagnostics[:1]]
    return type(error)("".join(map(str, found)) or str(error), found).with_traceback(error.__traceback__)


class AuthoringTypeError(AuthoringError, TypeError):
    """The same, where an argument is of the wrong kind."""

    def __init__(self, message: str, diagnostics: Iterable[Any] = ()):
        super().__init__(*_placed(message, diagnostics, 3001))  # ptx/base/diagnostic.def


class AuthoringValueError(AuthoringError, ValueError):
    """The same, where an argument has the wrong value."""

    def __init__(self, message: str, diagnostics: Iterable[Any] = ()):
        super().__init__(*_placed(message, diagnostics, 3003))


class AuthoringIndexError(AuthoringError, IndexError):
    """The same, where an index is out of range."""


class AuthoringRuntimeError(AuthoringError, RuntimeError):
    """The same, where a call does not fit what came before it."""


class AssemblerError(PtxError, RuntimeError):
    """The assembler refused the text, or there is none."""


class LaunchError(PtxError, RuntimeError):
    """A call of a kernel that cannot be launched."""


class LaunchTypeError(LaunchError, TypeError):
    """The same, where an argument is of the wrong kind."""


class LaunchValueError(LaunchError, ValueError):
    """The same, where an argument has the wrong shape, layout or value."""


class SimulationError(PtxError, RuntimeError):
    """The simulator reported an error: an access out of bounds, a deadlock, a budget that ran out."""


class AssemblerWarning(UserWarning):
    """The assembler warned about a line, or a line is legal for the assembler but not by the manual."""


class PerformanceWarning(AssemblerWarning):
    """The assembler serialized wgmma, or spilled registers."""
