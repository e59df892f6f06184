"""Variables of the module: `global_`, `const`, `shared`, with what they start as; elements and addresses of them.

    SINES = ptx.const(f32, 256, init=numpy.sin(numpy.arange(256) / 40))
    ...
    ptx.inst.ld.const.f32(a, SINES[i])       # in a kernel: declared there at its first use

They may be made beside the kernels or inside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

from pyptx import _core
from pyptx._trace import get_ctx
from pyptx.errors import AuthoringError, AuthoringTypeError, AuthoringValueError, placed_at
from pyptx.types import PtxType

if TYPE_CHECKING:
    from pyptx._core import AddressOperand, CompoundOperand, Reg

    Index: TypeAlias = Reg | SupportsIndex

__all__ = ["SymbolAddress", "Variable", "const", "generic", "global_", "mask", "shared"]

_LINKAGES = ("", "visible", "extern", "weak", "common")


class Variable:
    """A variable of the module.  As an operand it is its address; `v[i]` is an element, `v + 4` an address beside it."""

    def __init__(self, space, dtype, shape, init, name, align, vector, linkage, attributes):
        what = f"variable {name or ''}".strip()
        if not isinstance(dtype, PtxType):
            raise AuthoringTypeError(f"the type of {what} must be one of pyptx.types, not {dtype!r}")
        if linkage not in _LINKAGES:
            raise AuthoringValueError(
                f"linkage of {what} must be one of {', '.join(map(repr, _LINKAGES))}, not {linkage!r}"
            )
        if vector not in (1, 2, 4):
            raise AuthoringValueError(f"vector= of {what} must be 1, 2 or 4, not {vector!r}")
        self._space, self._dtype, self._init, self._name = space, dtype, init, name or ""
        self._shape = _shape_of(what, shape, init, linkage)
        self._rest = (align or 0, vector, linkage, attributes)
        self._made_at = _core.author_place()
        if _core.current_trace() is not None:
            self._declared()

    def _declared(self):
        memo = get_ctx().memo
        known = memo.get(id(self))
        if known is None:
            said = self._space, self._dtype, self._shape, self._init, self._name, *self._rest
            try:
                made = _core.declare_variable(*said)
            except AuthoringError as error:
                raise placed_at(error, *self._made_at) from None
            known = memo[id(self)] = (self, made)
        return known[1]

    def _identity(self):
        init = self._init.tolist() if hasattr(self._init, "tolist") else self._init
        return (self._space, self._dtype.name, self._shape, init, self._name, self._rest)

    @property
    def dtype(self) -> PtxType:
        """Its type."""
        return self._dtype

    @property
    def name(self) -> str:
        """Its name in the module that is being written."""
        return self._declared().name

    def __repr__(self):
        return f"Variable(.{self._space} .{self._dtype.name} {self._name}{self._shape})"

    def __getitem__(self, index: Index | tuple[Index, ...]) -> CompoundOperand:
        """An element, by an int or a 32-bit register.

        In an array of several dimensions, `a[1]` is the address of a row, and `a[1][i]` and `a[1, i]` are elements.  Only the last
        index may be a register.
        """
        return self._declared().element(index)

    def __add__(self, offset: int) -> SymbolAddress:
        return SymbolAddress(self, offset)

    def address_operand(self) -> str:
        """Its name, as an operand."""
        return self.name

    def initial_address(self) -> Any:
        return self.name, 0, False, -1


class SymbolAddress:
    """An address in an initial value: `table + 8`, `generic(table)`, `mask(0xff00, table)`."""

    def __init__(self, target, offset: int = 0, is_generic: bool = False, byte: int = -1):
        self._target, self._offset, self._generic, self._byte = target, offset, is_generic, byte

    def __add__(self, offset: int) -> SymbolAddress:
        return SymbolAddress(self._target, self._offset + offset, self._generic, self._byte)

    def _identity(self):
        return (self._target, self._offset, self._generic, self._byte)

    def address_operand(self) -> AddressOperand:
        """[name+offset]"""
        return _core.addr(self._target.address_operand(), self._offset)

    def initial_address(self) -> Any:
        name = None if self._target is None else self._target.address_operand()
        return name, self._offset, self._generic, self._byte


def _is_array(init) -> bool:
    return hasattr(init, "tolist") and isinstance(getattr(init, "shape", None), tuple)


_MOST_DIMENSIONS = 64  # a list may hold itself


def _shape_of(what: str, shape, init, linkage: str) -> list[int]:
    if shape is None:  # as the initial value is; one value is a scalar
        if isinstance(init, (str, bytes)):
            return [-1]
        dims = []
        while isinstance(init, (list, tuple)) or (_is_array(init) and init.shape):
            dims.append(len(init))
            if len(dims) > _MOST_DIMENSIONS:
                raise AuthoringValueError(f"the initial value of {what} has more than {_MOST_DIMENSIONS} dimensions")
            init = init[0] if len(init) else None
        return dims
    if not isinstance(shape, (int, tuple, list)):
        raise AuthoringTypeError(f"the shape of {what} is an int or a tuple of them, not {type(shape).__name__}")
    sizes = [shape] if isinstance(shape, int) else list(shape)
    for i, size in enumerate(sizes):
        if size is None and i == 0 and (init is not None or linkage == "extern"):
            sizes[0] = -1
        elif isinstance(size, bool) or not hasattr(size, "__index__") or size.__index__() < 1:
            raise AuthoringValueError(
                f"{what}: a dimension must be a number from 1, not {size!r}; the first may be None where there is an initial "
                f"value, or of an .extern variable"
            )
        else:
            sizes[i] = size.__index__()
    return sizes


def global_(
    dtype: PtxType,
    shape: Any = None,
    init: Any = None,
    name: str | None = None,
    *,
    align: int | None = None,
    vector: int = 1,
    linkage: str = "",
    managed: bool = False,
    unified: tuple[int, int] | None = None,
) -> Variable:
    """A .global variable.

    `shape`: sizes, the first None for as many as `init` has; left out, it is that of `init`, or one value.  `init`: a number, a list (of lists), bytes, a str
    (with a zero behind it), an array, a variable or function (its address), `generic(v)`, `mask(bits, v)`.  `linkage`:
    "visible", "extern", "weak", "common".  `managed` and `unified=(uuid1, uuid2)` are its attributes.

    Example:
        counter = ptx.global_(u32, init=0, name="counter")
        ptx.inst.red.global_.add.u32(ptx.addr(counter), 1)
    """
    attributes = [".managed"] if managed else []
    if unified is not None:
        attributes.append(f".unified({unified[0]}, {unified[1]})")
    return Variable("global", dtype, shape, init, name, align, vector, linkage, ", ".join(attributes))


def const(
    dtype: PtxType,
    shape: Any = None,
    init: Any = None,
    name: str | None = None,
    *,
    align: int | None = None,
    vector: int = 1,
    linkage: str = "",
) -> Variable:
    """A .const variable, read by ld.const; as `global_` otherwise.  All of a module have at most 64 KiB.

    Example:
        table = ptx.const(f32, init=[1.0, 0.5, 0.25, 0.125])
        ptx.inst.ld.const.f32(a, table[i])
    """
    return Variable("const", dtype, shape, init, name, align, vector, linkage, "")


def shared(
    dtype: PtxType,
    shape: Any = None,
    name: str | None = None,
    *,
    align: int | None = None,
    vector: int = 1,
    linkage: str = "",
) -> Variable:
    """A .shared variable of the module, which kernels and functions share.  It stays static: see smem.alloc otherwise.

    Example:
        scratch = ptx.shared(u32, 32)
        ptx.inst.st.shared.u32(scratch[i], x)
    """
    return Variable("shared", dtype, shape, None, name, align, vector, linkage, "")


def generic(target: Variable | SymbolAddress) -> SymbolAddress:
    """The generic address of a variable, not its offset in its state space, in an initial value.

    Example:
        table = ptx.global_(u32, init=[1, 2, 3])
        pointer = ptx.global_(u64, init=ptx.generic(table))
    """
    if isinstance(target, SymbolAddress):
        return SymbolAddress(target._target, target._offset, True, target._byte)
    return SymbolAddress(target, 0, True)


def mask(bits: int, target: Variable | SymbolAddress | int) -> SymbolAddress:
    """The byte of an address, or of a number, that `bits` (0xff, 0xff00, ...) covers, in an initial value of .u8.

    Example:
        table = ptx.global_(u32, init=[1, 2, 3])
        low = ptx.global_(u8, init=[ptx.mask(0xFF, table), ptx.mask(0xFF00, table)])
    """
    byte = next((i for i in range(8) if bits == 0xFF << 8 * i), None)
    if byte is None:
        raise AuthoringValueError(
            f"mask covers one byte: 0xff, 0xff00, ... 0xff00000000000000, not {hex(bits) if isinstance(bits, int) else repr(bits)}"
        )
    if isinstance(target, SymbolAddress):
        return SymbolAddress(target._target, target._offset, target._generic, byte)
    return (
        SymbolAddress(None, target, False, byte) if isinstance(target, int) else SymbolAddress(target, 0, False, byte)
    )
