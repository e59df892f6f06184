"""The arguments of `pyptx run`: from `f32:1.5`, `in:HEX`, `out:N` or an .npy file to bytes, and buffers to text again.

.npy files are read here and not by NumPy, which need not be installed.  The kernel gets their bytes, so files in another layout
(big-endian numbers, Fortran order, objects) are refused.
"""

from __future__ import annotations

import ast
import math
import mmap
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from pyptx.tools import files

__all__ = ["SHOWN", "Argument", "argument", "of_type", "text", "write_back"]

_INTEGERS = {
    **{f"{sign}{8 << n}": code for n, code in enumerate("bhiq") for sign in "is"},
    **{f"{sign}{8 << n}": code for n, code in enumerate("BHIQ") for sign in "ub"},
}
_FLOATS = {"f16": "e", "f32": "f", "f64": "d"}
_DIGITS = {"e": range(3, 6), "f": range(6, 10), "d": range(15, 18), "bf16": range(2, 5)}  # that tell its numbers apart
SHOWN = ("hex", "own", *(name for name in _INTEGERS if name[0] in "iu"), "bf16", *_FLOATS)

_WHOLE = r"[+-]?(0[xX][0-9a-fA-F]+|[0-9]+)"
_NUMBER = re.compile(rf"{_WHOLE}|[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|nan)")

_NPY = b"\x93NUMPY"
_PIECE = 1 << 16  # bytes
_MOST_HEADER = 10_000  # bytes, as NumPy's own limit


@dataclass
class Argument:
    """`value` is bytes for a scalar, memory for a buffer; `element` is an .npy file's own type, where one can be shown.

    `number` is a scalar whose type the kernel says: `of_type` makes its bytes.
    """

    value: bytes | bytearray | memoryview
    is_output: bool = False
    element: str = "hex"
    file: str = ""  # that gets the buffer, behind its header, when the kernel has run
    header: bytes = b""
    number: str = ""

    @property
    def is_buffer(self) -> bool:
        return not isinstance(self.value, bytes)


def argument(text: str) -> Argument:
    """What one `--arg` says.  Raises ValueError with the reason; `files.Unusable` where it is the file's fault."""
    kind, colon, value = text.partition(":")
    if colon and kind == "in":
        return Argument(_buffer(bytes.fromhex(value)))
    if colon and kind == "out" and not value.endswith(".npy"):
        return Argument(_zeros(value), is_output=True)
    if colon and kind in _INTEGERS | _FLOATS:
        return Argument(_scalar(kind, value))
    if _NUMBER.fullmatch(text):
        return Argument(b"", number=text)
    if text.endswith(".npy"):
        return _npy(value) if colon and kind == "out" else _npy(text, written=False)
    raise ValueError(
        f"legal: TYPE:VALUE ({', '.join(_INTEGERS | _FLOATS)}), a number, in:HEX, out:N, FILE.npy, out:FILE.npy, "
        "struct:FIELD,FIELD, bytes:HEX, @N for the N-th buffer again"
    )


def of_type(number: str, parameter) -> bytes:
    """The bytes of a number whose type the parameter says.  ValueError where it does not fit."""
    kind = next((word[1:] for word in parameter.text.split() if word[1:] in _INTEGERS | _FLOATS), "")
    if not kind or "[" in parameter.text:
        raise ValueError(
            f"{parameter.name} is `{parameter.text.strip()}`, not one number: struct:FIELD,FIELD or bytes:HEX"
        )
    if kind[0] == "b" and not re.fullmatch(_WHOLE, number):  # bits: no type says which
        raise ValueError(f"{parameter.name} is a .{kind}: give the type of {number}, for example f32:{number}")
    try:
        return _scalar(kind, number)
    except ValueError as error:
        reason = str(error)
        if not reason.startswith("the number"):  # Python's words for text that is none
            reason = f"in decimal, or its bits as b{kind[1:]}:{number}" if kind in _FLOATS else "it is no integer"
        raise ValueError(f"{parameter.name} is a .{kind}: {number!r}: {reason}") from None


def _scalar(kind: str, value: str) -> bytes:
    try:
        if kind in _FLOATS:
            return struct.pack("<" + _FLOATS[kind], float(value))
        return struct.pack("<" + _INTEGERS[kind], int(value, 0))
    except (struct.error, OverflowError):
        raise ValueError(f"the number does not fit {kind}") from None


def _zeros(value: str) -> bytearray | memoryview:
    if not re.fullmatch(r"[0-9]{1,18}|0x[0-9a-fA-F]{1,15}", value):
        raise ValueError("out: needs a number of bytes, or an .npy file")
    size = int(value, 0)
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size > most:
        raise ValueError(f"this machine has {most:,} bytes of memory")
    return _memory(size)


def _memory(size: int) -> bytearray | memoryview:
    """Zeros at the start of a page: a device's allocator aligns to 256 bytes, a bytearray to 16.

    A page behind them belongs to no buffer: the system places mappings one next to the other, and an access beyond a
    buffer would be one of its neighbour.
    """
    if size == 0:
        return bytearray()
    try:
        return memoryview(mmap.mmap(-1, size + mmap.PAGESIZE))[:size]
    except OSError as error:
        raise ValueError(f"{size:,} bytes: {error.strerror}") from None


def _buffer(content: bytes) -> bytearray | memoryview:
    memory = _memory(len(content))
    memory[:] = content
    return memory


# .npy files: a magic number, a version, a length, and a Python dictionary of that length; then the data.


class _Odd(ValueError):
    """What a file is that cannot be an argument."""


def _npy(file: str, written: bool = True) -> Argument:
    content = files.read(file)
    try:
        start, described = _header(content)
        element, size = _layout(**described)
    except (LookupError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError) as error:
        reason = error if isinstance(error, _Odd) else "the header of an .npy file is damaged"
        raise files.Unusable(f"{files.shown(file)}: {reason}") from None
    if len(content) - start != size:
        raise files.Unusable(
            f"{files.shown(file)}: it holds {len(content) - start:,} bytes of data, its header says {size:,}"
        )
    return Argument(
        _buffer(content[start:]), written, element, os.path.abspath(file) if written else "", content[:start]
    )


def _header(content: bytes) -> tuple[int, dict]:
    if content[:6] != _NPY or len(content) < 12 or content[6] not in (1, 2, 3):
        raise _Odd("it is not an .npy file")
    size, begin = (2, 10) if content[6] == 1 else (4, 12)
    length = int.from_bytes(content[8 : 8 + size], "little")
    if length > _MOST_HEADER:
        raise _Odd(f"its header has {length:,} bytes, NumPy writes at most {_MOST_HEADER:,}")
    described = ast.literal_eval(content[begin : begin + length].decode("latin-1" if content[6] < 3 else "utf-8"))
    return begin + length, described


def _layout(descr, fortran_order, shape) -> tuple[str, int]:
    """(type to show, bytes of data).  A damaged header is any error."""
    if not isinstance(descr, str):
        raise _Odd("it holds records: save one field of them, or .view() them as numbers")
    if "O" in descr:
        raise _Odd("it holds Python objects, of which a kernel can read nothing: save it as numbers (.astype)")
    order, kind, size = descr[0], descr[1], int(re.match(r"\d+", descr[2:])[0])
    if order == ">":
        raise _Odd("its numbers are big-endian: save it as .astype(dtype.newbyteorder('<'))")
    if fortran_order and sum(n > 1 for n in shape) > 1:
        raise _Odd("it is in Fortran order: save numpy.ascontiguousarray of it, or of its .T")
    if any(n < 0 for n in shape):
        raise TypeError
    element = {"b": "u8"}.get(kind, f"{kind}{8 * size}")
    return element if element in SHOWN else "hex", math.prod(shape) * size * (4 if kind == "U" else 1)


def write_back(arguments: list[Argument]) -> None:
    """Puts what the kernel left in each `out:FILE.npy`."""
    for one in arguments:
        if one.file:
            files.write(one.file, one.header, one.value)


# Buffers as text.


def text(value: bytearray | memoryview, element: str) -> Iterator[str]:
    """Yields the content in pieces, since a buffer may be large.  `element`: hex, or the type of the numbers; floats have as many digits as tell them apart."""
    for begin in range(0, len(value), _PIECE):
        content = value[begin : begin + _PIECE]
        if element == "hex":
            yield content.hex()
        else:
            yield (" " if begin else "") + " ".join(_numbers(content, element))


def width(element: str) -> int:
    """Bytes of one element; 1 for hex."""
    return 1 if element in ("hex", "own") else int(re.sub(r"\D", "", element)) // 8


def _numbers(content: bytes, element: str) -> Iterator[str]:
    if element in _INTEGERS:
        yield from (str(number) for (number,) in struct.iter_unpack("<" + _INTEGERS[element], content))
    elif element == "bf16":
        for (bits,) in struct.iter_unpack("<H", content):
            yield _shortest(struct.unpack("<f", struct.pack("<I", bits << 16))[0], _DIGITS["bf16"], _as_bf16)
    else:
        code = _FLOATS[element]
        for (number,) in struct.iter_unpack("<" + code, content):
            yield _shortest(number, _DIGITS[code], lambda value: struct.pack("<" + code, value))


def _as_bf16(value: float) -> int:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _shortest(number: float, digits: range, bits) -> str:
    """The fewest digits that lead back to the same bits."""
    if not math.isfinite(number):
        return str(number)
    for count in digits:
        written = f"{number:.{count}g}"
        try:
            if bits(float(written)) == bits(number):
                return written
        except OverflowError:  # the largest numbers, rounded up
            continue
    return repr(number)
