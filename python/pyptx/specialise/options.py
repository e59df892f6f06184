"""The options of `@kernel`, which are checked when the kernel is made.  signature.py has the parameters of the function."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pyptx import _core
from pyptx._arch import detect_arch
from pyptx.specs import Tile
from pyptx.types import PtxType, from_name, u64

__all__ = ["Options", "RawParam", "three"]

_NAME = re.compile(r"[A-Za-z][\w$]*|[_$%][\w$]+", re.ASCII)  # of PTX

_UNKNOWN_TARGET, _WRONG_VERSION = 2301, (2302, 2305)  # ptx/base/diagnostic.def

GRID_AXES = ("grid.x", "grid.y", "grid.z")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `@kernel`.

    Target:
        arch: the target, "sm_90a"; "auto" takes that of the current device.
        version: the PTX version, (8, 5); by default the first that has the target.
    Parameters:
        in_specs: a Tile for each input.  A kernel with neither these nor out_specs can print its text (`.ptx()`), but not be called.
        out_specs: a Tile for each output; a call allocates them, or gets them as `out=`, with the sizes that no input gives.
        raw_params: runtime scalars, after the tensors: ("u32", "n"), or "u64.ptr.global.palign16" and the like as the type.  An
            entry with a third part is the parameter of that tensor, at this place: ("u64.ptr.global", "k_param_0", "A").
        mutates: names of the inputs that the kernel writes.
        batch: declares how several calls can become one launch, for vmap and sharding: the name of the first dimension of
            the Tiles, if the kernel computes each index of it independently; or "grid.z" (x, y), if the body adds %ctaid.z
            times a tensor's size to the address of each tensor.
    Launch:
        grid: CTAs: one to three sizes, or a function of symbols of the Tiles and of template values, by name.
            It is called for each new shape; the text does not depend on it.
        block: threads of a CTA, given like the grid; the text depends on the sizes that the function takes.
        cluster: CTAs of a cluster, given like the block.
        smem: bytes of dynamic shared memory, in addition to allocations of the body.
        cooperative: all CTAs are resident at once, so that they may wait for each other.
        dependent_launch: the launch may start before the kernels ahead of it have ended (griddepcontrol).
        priority: the priority of the launch, as for streams.
        shared_carveout: percent of the L1 memory that is shared memory.
        assembler: the assembler for GPUs, spelled as in `PYPTX_ASSEMBLER` (docs/assembler.md); by default that of the process.
    Text:
        extern_smem: the name of the dynamic shared memory; True for `global_smem`.
        reqntid: the sizes of .reqntid; True takes those of `block`.  The assembler then knows the registers of a thread.
        raw_directives: (name, values) of each directive of the .entry, instead of `reqntid`; or a function of sizes that the block
            asks for, too, which returns those.
        entry: the name in PTX; by default that of the function.
        linkage: "visible", "weak", or "" for a kernel that is local to its module.
        attribute: the content of .attribute(...).
        address_size: 64, 32, or None for no .address_size.
        as_written: declare registers and variables where the body declares them, not before it.
        bits: declare registers of integers by their width, .b32; operators then write add.s32, sub.s32 and mul.lo.s32 for both
            signs, as compilers do.
    """

    arch: str = "sm_90a"
    version: tuple[int, int] | None = None
    in_specs: Sequence[Tile] | None = None
    out_specs: Sequence[Tile] | None = None
    grid: int | Sequence[int] | Callable[..., Any] | None = None
    block: int | Sequence[int] | Callable[..., Any] = (1, 1, 1)
    cluster: int | Sequence[int] | Callable[..., Any] = (1, 1, 1)
    smem: int = 0
    raw_params: Sequence[tuple[str | PtxType, str] | tuple[str, str, str]] | None = None
    extern_smem: bool | str = False
    reqntid: Sequence[int] | bool | None = None
    raw_directives: Sequence[tuple[str, Sequence[int]]] | Callable[..., Any] | None = None
    entry: str = ""
    linkage: str = "visible"
    attribute: str = ""
    address_size: int | None = 64
    as_written: bool = False
    bits: bool = False
    mutates: str | Sequence[str] = ()
    batch: str | None = None
    cooperative: bool = False
    dependent_launch: bool = False
    priority: int = 0
    shared_carveout: int | None = None
    assembler: str = ""
    # What follows from the above.
    declared: tuple[RawParam, ...] = field(init=False, repr=False)
    raw: tuple[RawParam, ...] = field(init=False, repr=False)  # those that are no tensors
    directives: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self):
        if not isinstance(self.arch, str):
            raise TypeError(f'arch must be the name of a target, "sm_90a", not {self.arch!r}')
        declared = tuple(RawParam.read(row) for row in self.raw_params or ())
        _check_words(self)
        known = {
            "arch": detect_arch() if self.arch == "auto" else self.arch,
            "version": None if self.version is None else _version(self.version),
            "in_specs": None if self.in_specs is None else _tiles(self.in_specs, "in_specs"),
            "out_specs": None if self.out_specs is None else _tiles(self.out_specs, "out_specs"),
            "mutates": _names(self.mutates),
            "extern_smem": "global_smem" if self.extern_smem is True else self.extern_smem or "",
            "declared": declared,
            "raw": tuple(row for row in declared if not row.tensor),
            "directives": spelled_directives(
                None if self.reqntid is True else _sizes(self.reqntid),
                None if callable(self.raw_directives) else self.raw_directives,
            ),
        }
        for name, value in known.items():
            object.__setattr__(self, name, value)
        _check_target(self.arch, self.version)
        for name in ("grid", "block", "cluster"):
            if not callable(value := getattr(self, name)):
                three((1, 1, 1) if value is None else value, name)
        for name in ("smem", "priority", "shared_carveout"):
            if (value := getattr(self, name)) is None and name == "shared_carveout":
                continue
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise TypeError(f"{name} must be an int, not {value!r}")
            object.__setattr__(self, name, value.__index__())
        if not 0 <= self.smem < 1 << 32:
            raise ValueError(f"smem must be a number of bytes, not {self.smem!r}")
        if not isinstance(self.extern_smem, str) or not _NAME.fullmatch(self.extern_smem or "smem"):
            raise ValueError(f'extern_smem must be True or the name of the memory, "smem", not {self.extern_smem!r}')
        _check_directives(self)
        if self.shared_carveout is not None and not 0 <= self.shared_carveout <= 100:
            raise ValueError(f"shared_carveout must be a percentage, 0 to 100, not {self.shared_carveout!r}")
        if not isinstance(self.assembler, str):
            raise TypeError(f'assembler must be the name of one, "ptxas", not {self.assembler!r}')
        if self.assembler:
            _core.check_assembler(self.assembler)

    @property
    def attributes(self) -> dict[str, Any]:
        """What the launch record says of the launch beside its shape."""
        return {
            "cooperative": bool(self.cooperative),
            "dependent": bool(self.dependent_launch),
            "priority": int(self.priority),
            "shared_carveout": -1 if self.shared_carveout is None else int(self.shared_carveout),
        }

    @classmethod
    def names(cls) -> list[str]:
        """The names of the options, in the order of their rows."""
        return [row.name for row in fields(cls) if row.init]

    @classmethod
    def told(cls, given: dict[str, Any]) -> Options:
        """Options by name; TypeError for a name that is none."""
        for name in given.keys() - set(cls.names()):
            import difflib

            near = difflib.get_close_matches(name, cls.names(), 1)
            hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(cls.names())}"
            raise TypeError(f"@kernel has no option {name!r}{hint}")
        return cls(**given)

    @classmethod
    def signature(cls, *before: inspect.Parameter) -> inspect.Signature:
        """The signature of a function that takes `before` and then the options."""
        own = inspect.signature(cls).parameters.values()
        return inspect.Signature([*before, *own])


class RawParam:
    """One entry of raw_params: ("u64.ptr.global.palign16", "x")."""

    @classmethod
    def read(cls, row) -> RawParam:
        parts = tuple(row) if isinstance(row, (tuple, list)) else ()
        if len(parts) == 2 and isinstance(parts[0], PtxType):
            parts = parts[0].name, parts[1]
        if len(parts) not in (2, 3) or not all(isinstance(part, str) for part in parts):
            raise TypeError(f'raw_params: an entry is a type and a name, ("u32", "n"), not {row!r}')
        if _is_type(parts[1]) and not _is_type(parts[0]):
            raise TypeError(f"raw_params: the type is the first part of an entry, {parts[::-1]!r}, not {row!r}")
        return cls(*parts)

    def __init__(self, spelled: str, name: str, tensor: str = ""):
        if not _NAME.fullmatch(name):
            raise ValueError(f"raw_params: {name!r} is no name of PTX: letters, digits, _ and $, and no digit in front")
        rest = spelled.removeprefix(".").split(".")[1:]
        self.spelled, self.name = spelled, name
        self.tensor = tensor  # whose address it is
        self.opaque: bool = _core.is_opaque(spelled)  # a texture, a sampler, a surface
        try:
            self.type = _type_of(spelled)
        except ValueError as error:
            raise ValueError(f"raw_params: {spelled!r} of {name!r}: {error}") from None
        self.pointer = False
        self.alignment = self.pointer_alignment = 0
        self.array: int | None = None
        for part in rest:
            if part == "ptr":
                self.pointer = True
            elif not _core.is_pointed(part):
                self._number(part)

    def _number(self, part: str):
        for prefix, name in (("align", "alignment"), ("palign", "pointer_alignment"), ("array", "array")):
            digits = part.removeprefix(prefix)
            if digits != part and digits.isdecimal():
                setattr(self, name, int(digits))
                return
        raise ValueError(
            f"raw_params: {self.spelled!r} of {self.name!r} is not type[.ptr][.space][.alignN][.palignN][.arrayN]"
        )


def _type_of(spelled: str) -> PtxType:
    """The type in front of the first dot; a texture, a sampler or a surface is passed as a u64.  ValueError if there is none."""
    return u64 if _core.is_opaque(spelled) else from_name(spelled.removeprefix(".").partition(".")[0])


def _is_type(spelled: str) -> bool:
    try:
        _type_of(spelled)
    except ValueError:
        return False
    return True


def three(value, what: str) -> tuple[int, int, int]:
    """One to three sizes as three."""
    parts = tuple(value) if isinstance(value, (tuple, list)) or getattr(value, "ndim", 0) == 1 else (value,)
    if not 1 <= len(parts) <= 3:
        raise ValueError(f"{what} must have one to three sizes, not {value!r}")
    if any(isinstance(part, bool) or not hasattr(part, "__index__") for part in parts):
        hint = ""
        if any(isinstance(part, str) for part in parts):
            hint = f"; for sizes of a call write a function, {what.split()[0]}=lambda N: N // 128"
        elif any(isinstance(part, float) for part in parts):
            hint = "; // gives integers, / does not"
        raise TypeError(f"the sizes of {what} must be integers, not {value!r}{hint}")
    sizes = tuple(part.__index__() for part in parts)
    if min(sizes) < (0 if what.startswith("grid") else 1):
        raise ValueError(f"the sizes of {what} must be positive, not {value!r}")
    if max(sizes) >= 1 << 32:
        raise ValueError(f"the sizes of {what} must have 32 bits, not {value!r}")
    return sizes + (1,) * (3 - len(sizes))


def _version(given) -> tuple[int, int]:
    parts = given if isinstance(given, (tuple, list)) else ()
    if len(parts) != 2 or not all(hasattr(part, "__index__") and 0 <= part.__index__() < 256 for part in parts):
        raise TypeError(f"version must be two numbers, (8, 5), not {given!r}")
    return parts[0].__index__(), parts[1].__index__()


def _found(arch: str, version: tuple[int, int] | None, text: str = "") -> list:
    """What is wrong with a module for this target that has this text."""
    major, minor = version or (9, 0)
    return _core.check_text(f".version {major}.{minor}\n.target {arch}\n{text}".encode(), "", None, False)


@functools.lru_cache(64)
def _check_target(arch: str, version: tuple[int, int] | None):
    """Refuses a target that there is not, a version that there is not, and one that is older than the target."""
    for found in _found(arch, version):
        if found.code == _UNKNOWN_TARGET:
            raise ValueError(f"arch: {found.message}")
        if version and found.code in _WRONG_VERSION:
            raise ValueError(f"version: {found.message}")


def _check_directives(options: Options):
    """Refuses what is no directive of a kernel, or has the wrong numbers."""
    if not options.directives:
        return
    written = "\n".join(options.directives)
    option = "raw_directives" if options.raw_directives else "reqntid"
    for found in _found(options.arch, options.version, f".entry k()\n{written}\n{{\n}}\n"):
        if found.code in (1008, 2303):
            raise ValueError(f"{option}: {found.message}")


def _check_words(options: Options):
    """Refuses options that are texts or choices and say something else."""
    for name in ("entry", "linkage", "attribute"):
        if not isinstance(value := getattr(options, name), str):
            raise TypeError(f"{name} must be a str, not {value!r}")
    if options.entry and not _NAME.fullmatch(options.entry):
        raise ValueError(f"entry must be a name of PTX, letters, digits, _ and $, not {options.entry!r}")
    if options.linkage not in ("visible", "weak", ""):
        raise ValueError(f'linkage must be "visible", "weak" or "", not {options.linkage!r}')
    if any(mark in options.attribute for mark in "(){};"):
        raise ValueError(f"attribute is what stands inside .attribute(...), not {options.attribute!r}")
    if options.address_size not in (32, 64, None):
        raise ValueError(f"address_size must be 64, 32 or None, not {options.address_size!r}")


def _names(given: Any) -> tuple[str, ...]:
    """The option `mutates`: one name, or several."""
    if isinstance(given, str):
        return (given,)
    if not hasattr(given, "__iter__"):
        raise TypeError(f'mutates is names of inputs, ("X",), not {given!r}')
    return tuple(given)


def _sizes(given: Any) -> Sequence[int] | None:
    """The option `reqntid`: one size, or several."""
    return (given,) if hasattr(given, "__index__") else given


def _tiles(specs, name: str) -> tuple[Tile, ...]:
    if isinstance(specs, Tile):
        raise TypeError(f"{name} must be a sequence of Tiles: {name}=({specs!r},)")
    if not hasattr(specs, "__iter__"):
        raise TypeError(f"{name} needs a Tile for each tensor, not {specs!r}")
    specs = tuple(specs)  # once: it may be a generator
    for spec in specs:
        if not isinstance(spec, Tile):
            raise TypeError(f"{name} needs a Tile for each tensor, not {spec!r}")
    return specs


def spelled_directives(reqntid, raw_directives) -> tuple[str, ...]:
    rows = [("reqntid", reqntid)] if reqntid is not None and not raw_directives else raw_directives or ()
    for row in raw_directives or ():
        if not (isinstance(row, (tuple, list)) and len(row) == 2 and isinstance(row[1], (tuple, list))):
            raise TypeError(
                f'raw_directives is pairs of a name and its values, [("maxntid", (128, 1, 1))], not {row!r}'
            )
    return tuple(f".{name} {', '.join(str(value) for value in values)}".rstrip() for name, values in rows)
