"""Arguments of `pyptx run` beyond numbers and buffers: structs by value, their bytes, and a buffer that was given before.

A struct is laid out as C does: each field at a multiple of its own size, in the order of the command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from pyptx.tools import buffers, files
from pyptx.tools.buffers import Argument

__all__ = ["Struct", "argument", "each_buffer", "passed", "settle"]


@dataclass
class Struct:
    """A parameter of several fields; `settle` finds their places in it."""

    fields: list[Argument | Again]
    text: str  # that said so
    places: list[int] = field(default_factory=list)
    size: int = 0


@dataclass
class Again:
    """The buffer with this number, of all that the command line gives, from this byte on."""

    number: int
    offset: int
    memory: memoryview | bytearray = field(default_factory=bytearray)


Given = Argument | Again | Struct


def argument(text: str) -> Given:
    """What one `--arg` says.  Raises as `buffers.argument`."""
    kind, colon, value = text.partition(":")
    if colon and kind == "struct":
        return Struct([_field(each) for each in value.split(",")], text)
    if colon and kind in ("bytes", "pad"):
        return Struct([_field(text)], text)
    return _plain(text)


def _plain(text: str) -> Argument | Again:
    again = re.fullmatch(r"@([0-9]{1,4})(\+([0-9]{1,15}))?", text)
    return Again(int(again[1]), int(again[3] or 0)) if again else buffers.argument(text)


def _field(text: str) -> Argument | Again:
    kind, colon, value = text.partition(":")
    if colon and kind == "pad":
        return Argument(bytes(_count(value)), element="bytes")
    if colon and kind == "bytes":
        return Argument(files.read(value) if value.endswith(".bin") else bytes.fromhex(value), element="bytes")
    if kind == "struct":
        raise ValueError("a struct in a struct: write its fields, with pad:N where its alignment leaves a gap")
    one = _plain(text)
    if isinstance(one, Argument) and one.number:
        raise ValueError(f"a field has a type: i32:{text} or f32:{text}, for example")
    return one


def _count(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", value):
        raise ValueError("pad: needs a number of bytes")
    return int(value)


def settle(given: list[Given], source: bytes, entry: str) -> None:
    """Finds the buffers that are given again, and lays structs out.  ValueError says what does not fit its parameter.

    Where the text has no such entry, or one with other parameters, sizes are not compared: whoever runs it says so.
    """
    _find_again(given)
    for one in given:
        if isinstance(one, Struct):
            _lay_out(one)
    if not any(isinstance(one, Struct) or (isinstance(one, Argument) and one.number) for one in given):
        return
    from pyptx import parser

    entries = [each for each in parser.parse(source).functions if each.is_entry and entry in ("", each.name)]
    if len(entries) != 1 or len(entries[0].params) != len(given):
        return
    for one, parameter in zip(given, entries[0].params, strict=True):
        if isinstance(one, Struct):
            _compare(one, parameter)
        elif isinstance(one, Argument) and one.number:
            one.value = buffers.of_type(one.number, parameter)


def _find_again(given: list[Given]) -> None:
    known = [one for _, one in each_buffer([""] * len(given), given)]
    for one in (each for each in _each_field(given) if isinstance(each, Again)):
        if one.number >= len(known):
            raise ValueError(f"@{one.number}: there are {len(known)} buffers, which count from @0")
        if one.offset > len(known[one.number].value):
            raise ValueError(f"@{one.number}+{one.offset}: the buffer has {len(known[one.number].value)} bytes")
        one.memory = memoryview(known[one.number].value)[one.offset :]


def _each_field(given: list[Given]) -> Iterator[Argument | Again]:
    for one in given:
        yield from one.fields if isinstance(one, Struct) else [one]


def _bytes(one: Argument | Again) -> tuple[int, int]:
    """(size, alignment)."""
    if isinstance(one, Again) or one.is_buffer:
        return 8, 8
    return len(one.value), 1 if one.element == "bytes" else len(one.value)


def _lay_out(one: Struct) -> None:
    end = 0
    for each in one.fields:
        size, alignment = _bytes(each)
        end = (end + alignment - 1) // alignment * alignment
        one.places.append(end)
        end += size
    one.size = end


def _compare(one: Struct, parameter) -> None:
    """Fields fill the parameter, but for the bytes by which a struct of C ends at a multiple of its alignment."""
    words = parameter.text.split()
    wanted = _size_of(parameter)
    is_struct = one.text.startswith("struct:")  # bytes are all of the parameter
    aligned = int(words[words.index(".align") + 1]) if is_struct and ".align" in words else 1
    if wanted in (one.size, (one.size + aligned - 1) // aligned * aligned):
        one.size = wanted
        return
    said = one.text.removeprefix("struct:").split(",")
    places = ", ".join(f"{what[:40]} at {at}" for what, at in zip(said, one.places, strict=True))
    raise ValueError(
        f"{parameter.name} is `{parameter.text.strip()}`, of {wanted} bytes; the fields take {one.size}: {places}"
    )


def _size_of(parameter) -> int:
    width = next(int(found[1]) for word in parameter.text.split() if (found := re.fullmatch(r"\.[subf]([0-9]+)", word)))
    count = re.search(r"\[\s*([0-9]+)\s*\]", parameter.text)
    return width // 8 * int(count[1] if count else 1)


def passed(one: Given) -> bytes | bytearray | memoryview | list[bytes | bytearray | memoryview]:
    """As `_core.run_text` takes it: bits, a buffer, or the bits and buffers that are a struct, one behind the other."""
    if isinstance(one, Again):
        return one.memory
    if isinstance(one, Argument):
        return one.value
    pieces: list[bytes | bytearray | memoryview] = []
    end = 0
    for each, at in zip(one.fields, one.places, strict=True):
        pieces += [bytes(at - end), each.memory if isinstance(each, Again) else each.value]
        end = at + _bytes(each)[0]
    return [*pieces, bytes(one.size - end)]


def each_buffer(names: list[str], given: list[Given]) -> Iterator[tuple[str, Argument]]:
    """Each buffer that is given, once, with the name of its parameter; in a struct, `name+8` for its place there."""
    for name, one in zip(names, given, strict=True):
        if isinstance(one, Argument) and one.is_buffer:
            yield name, one
        elif isinstance(one, Struct):
            for at, each in zip(one.places or [0] * len(one.fields), one.fields, strict=True):
                if isinstance(each, Argument) and each.is_buffer:
                    yield f"{name}+{at}", each
