"""Pages of the API: of Python from docstrings and signatures, of C++ from the public headers.  None is written by hand or kept:
tools/site_pages.py asks for them.

    python_pages() -> {"api/python/pyptx.md": text, ...}
    cpp_pages()    -> {"api/cpp/sim.md": text, ...}
"""

from __future__ import annotations

import importlib
import inspect
import pathlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from function_pages import names_of

from pyptx import _core

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A page each: the module, and what stands before its members.
MODULES = {
    "pyptx": "pyptx.",
    "pyptx.ptx": "ptx.",
    "pyptx.reg": "reg.",
    "pyptx.smem": "smem.",
    "pyptx.types": "types.",
    "pyptx.kernels": "kernels.",
    "pyptx.kernels.peers": "peers.",
    "pyptx.simulator": "simulator.",
    "pyptx.simulated": "",
    "pyptx.pictures": "pictures.",
    "pyptx.ir": "ir.",
    "pyptx.parser": "parser.",
    "pyptx.codegen": "codegen.",
    "pyptx.assembler": "assembler.",
    "pyptx.cache": "cache.",
    "pyptx.wgmma_layout": "wgmma_layout.",
    "pyptx.errors": "",
    "pyptx.torch_support": "torch_support.",
    "pyptx.jax_support": "jax_support.",
}
CLASSES = {"pyptx": ["Kernel", "TensorSpec"]}  # that users meet and no __all__ of the page has


def python_pages() -> dict[str, str]:
    made = {f"api/python/{name.replace('.', '-')}.md": _module(name, prefix) for name, prefix in MODULES.items()}
    made["api/python/families.md"] = _families()
    return made


def _module(name: str, prefix: str) -> str:
    module = importlib.import_module(name)
    about, _, more = inspect.cleandoc(module.__doc__ or "").partition("\n")
    lines = [f"# {name}", "", about, *([_literal(more)] if more.strip() else []), ""]
    members = [(each, getattr(module, each)) for each in sorted(_public(module))]
    if name == "pyptx":
        holder = importlib.import_module("pyptx.kernel")
        members += [(each, getattr(holder, each)) for each in CLASSES[name]]
    for each, value in members:
        if not inspect.ismodule(value):
            lines += _member(prefix + each, value)
    return "\n".join(lines)


def _literal(text: str) -> str:
    """The rest of a module's docstring: indented parts are code."""
    return re.sub(r"(?:^    .*\n?(?:\n(?=    ))?)+", lambda m: _fenced(inspect.cleandoc(m[0])) + "\n", text, flags=re.M)


def _public(module) -> list[str]:
    names = dir(module) if module.__name__ == "pyptx" else getattr(module, "__all__", vars(module))
    return [name for name in names if not name.startswith("_")]


def _fenced(code: str) -> str:
    return f"\n```python\n{code}\n```\n"


def _docstring(value: Any) -> str:
    """With the examples as blocks of code."""
    text = inspect.cleandoc(value.__doc__ or "")
    return re.sub(r"Example:\n((?:    .*(?:\n|$)|\n)+)", lambda m: _fenced(inspect.cleandoc("\n" + m[1])), text)


def _signature(value: Callable[..., Any]) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(...)"
    text = re.sub(r"<(?:function|class|object|Kernel)[^>]*>", "...", text)
    return re.sub(r"'((?:[\w.\[\], |]|Literal)+)'", r"\1", text)  # annotations that are text


def _member(name: str, value: Any, depth: int = 2) -> Iterator[str]:
    about = _docstring(value)
    if inspect.isclass(value):
        yield from (f"{'#' * depth} {name}", "", about, "")
        for each, member in _methods(value):
            inner = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
            yield from _member(f"{name}.{each}", inner, depth + 1)
    elif isinstance(value, property):
        yield from (f"{'#' * depth} {name}", "", about, "")
    elif callable(value):
        call = name.rpartition(".")[2] + _signature(value)
        yield from (f"{'#' * depth} {name}", "", f"```python\n{call}\n```", "", about, "")
    else:
        yield from (f"{'#' * depth} {name}", "", "" if value.__doc__ == type(value).__doc__ else about, "")


def _methods(cls: type) -> list[tuple[str, Any]]:
    documented = (property, classmethod, staticmethod)
    return [
        (name, value)
        for name, value in vars(cls).items()
        if not name.startswith("_") and value.__doc__ and (callable(value) or isinstance(value, documented))
    ]


def _families() -> str:
    lines = [
        "# Functions of the families",
        "",
        "Those that [functions.md](../../functions.md) lists, with their parameters.",
        "",
    ]
    for family, doc, functions in _core.families():
        lines += [f"## {names_of(family)}", "", doc, ""]
        for name, signature, about, section in functions:
            call = f"{name}{signature}"
            text = re.sub(
                r"Example:\n((?:    .*(?:\n|$)|\n)+)", lambda m: _fenced(inspect.cleandoc("\n" + m[1])), about
            )
            lines += [f"### {names_of(family)}.{name}", "", f"```python\n{call}\n```", "", text, ""]
            lines += [f"PTX ISA {section}", ""] if section else []
    return "\n".join(lines)


# ---- C++

_ROOM = re.compile(r"^  (\w+)/ +(.*)$")


def rooms() -> dict[str, str]:
    """The rooms of the C++ library and what each is for, as docs/architecture.md says."""
    _, _, block = (ROOT / "docs" / "architecture.md").read_text().partition("\nptx/ ")
    listed = (_ROOM.match(line) for line in block.partition("python/\n")[0].splitlines())
    return {m[1]: re.sub(r"  +.*", "", m[2]) for m in listed if m and any((ROOT / "ptx" / m[1]).glob("*.h"))}


def headers(room: str) -> list[pathlib.Path]:
    """Those that others include: not what a source is made of."""
    return [path for path in sorted((ROOT / "ptx" / room).glob("*.h")) if "#pragma once" in path.read_text()]


def cpp_pages() -> dict[str, str]:
    made = {}
    for room, about in rooms().items():
        lines = [f"# ptx::{room}", "", about[0].upper() + about[1:] + ".", ""]
        for header in headers(room):
            lines += _header(header)
        made[f"api/cpp/{room}.md"] = "\n".join(lines)
    return made


def _header(path: pathlib.Path) -> Iterator[str]:
    text = path.read_text()
    opening, _, rest = text.partition("#pragma once")
    yield from (f"## {path.relative_to(ROOT)}", "", _prose(opening.splitlines()), "")
    for comment, code in _blocks(rest):
        if comment:
            yield from (_prose(comment), "")
        if code:
            yield from ("```cpp", *code, "```", "")


def _blocks(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Comment and declarations of each part between blank lines that are in no braces but those of namespaces."""
    comment: list[str] = []
    code: list[str] = []
    depth = 0
    for line in [*text.splitlines(), ""]:
        if re.match(r"namespace .*[{;]$|}  // namespace", line) or (depth == 0 and line.startswith("#")):
            continue
        if not line.strip() and depth == 0:
            if comment or code:
                yield comment, code
            comment, code = [], []
        elif line.startswith("//") and not code:
            comment.append(line)
        else:
            code.append(line)
            bare = re.sub(r"//.*|'.'|\"[^\"]*\"", "", line)
            depth = 0 if line.startswith("}") else depth + bare.count("{") - bare.count("}")


def _prose(comment: list[str]) -> str:
    """The text of a comment; what is indented in it is code."""
    lines, fenced = [], False
    for line in comment:
        text = line.removeprefix("//").removeprefix(" ")
        if text.startswith("  ") != fenced and text.strip():
            lines += ["", "```cpp"] if not fenced else ["```", ""]
            fenced = not fenced
        lines.append(text if fenced else re.sub(r"([<>])", r"\\\1", text) if "`" not in text else text)
    return "\n".join([*lines, *(["```"] if fenced else [])])
