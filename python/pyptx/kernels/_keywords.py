"""torch's names of arguments, `input` and `other`, as keywords; and the error for keywords that a function does not have.

The functions take such keywords as `**named`, which is nearly always empty.  A decorator would cost each call as much as the launch.
"""

import difflib
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypedDict

from pyptx.errors import LaunchTypeError

if sys.version_info >= (3, 11):
    from typing import Unpack
else:

    class Unpack:
        """typing.Unpack, which Python has since 3.11."""

        def __class_getitem__(cls, item):
            return item


__all__ = ["Input", "Nothing", "Operands", "Unpack", "no_such_argument", "renamed"]


class Nothing(TypedDict):
    """Tells type checkers that a function takes no other names."""


class Input(TypedDict, total=False):
    input: Any


class Operands(TypedDict, total=False):
    input: Any
    other: Any


def renamed(function: Callable, named: dict, own: dict[str, str], told: dict) -> dict:
    """The arguments `told`, in which the function's `own` names have what was `named` otherwise; "": what says nothing here."""
    for name, value in named.items():
        if name not in own:
            raise no_such_argument(function, name)
        if not own[name]:
            continue
        if told[own[name]] is not None:
            raise LaunchTypeError(f"{function.__name__}: {own[name]} and {name} name one argument; give one of them")
        told[own[name]] = value
    return told


def no_such_argument(function: Callable, unknown: str, elsewhere: dict[str, str] | None = None) -> LaunchTypeError:
    """The error to raise for a name that is no argument.  `elsewhere`: names in other libraries, and what they are called here."""
    there = [name for name in inspect.signature(function).parameters if name != "named"]
    near = difflib.get_close_matches(unknown, there, 1, 0.5)
    if elsewhere and unknown in elsewhere:
        said = f"{elsewhere[unknown]}; "
    else:
        said = f"did you mean {near[0]}? " if near else ""
    return LaunchTypeError(f"{function.__name__}: no argument {unknown!r}: {said}there are {', '.join(there)}")
