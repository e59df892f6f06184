"""Words of the command line: the types and arguments that several subcommands have."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

__all__ = ["Add", "completed", "file", "lower", "size", "word"]

# Makes a subcommand: `add(name, run, does=..., fails=..., examples=[...])` of __main__.
Add = Callable[..., argparse.ArgumentParser]


def file(parser: argparse.ArgumentParser, dest: str = "file", **options: Any):
    parser.add_argument(dest, metavar="FILE", help="PTX text; - is the standard input", **options)


def completed(action: argparse.Action):
    """An option whose values argcomplete asks `completer` for; argparse does not know the attribute."""
    return action


def word(text: str) -> str:
    """Bytes of the command line that are no text, escaped: no name has them."""
    return text.encode("utf-8", "backslashreplace").decode()


def lower(text: str) -> str:
    return word(text).lower()


def size(most: int, least: int = 0) -> Callable[[str], int]:
    def number(text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {most}")

    return number
