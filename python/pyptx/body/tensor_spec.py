"""A tensor argument as the body sees it.  Which sizes a body asks for is noticed: the text depends on those alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from pyptx import _core
from pyptx.errors import AuthoringTypeError, AuthoringValueError
from pyptx.specs import Layout, Tile

__all__ = ["Sizes", "TensorSpec", "TmaDescriptorHandle", "UnknownSize"]


class TmaDescriptorHandle:
    """`tensor.tma_desc()` outside a kernel: a name that stands for the tensor map."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: TensorSpec):
        self.tensor = tensor

    @property
    def name(self) -> str:
        return f"{self.tensor.name}_tma_desc"

    def __repr__(self):
        return f"TmaDescriptorHandle({self.name})"


class TensorSpec:
    """A tensor argument inside the body: its name and, where the kernel's specs say so, shape, dtype and layout."""

    __slots__ = ("dtype", "layout", "name", "shape")
    # None in a kernel without specs. To type checkers they are there: few kernels are without, and `X.shape[0]` is common.
    shape: tuple[int, ...]
    dtype: _core.PtxType
    layout: Layout

    def __init__(self, name: str, shape: Any = None, dtype: Any = None, layout: Any = None):
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.layout = layout

    def tma_desc(self) -> Any:
        """The tensor's map: a register with its address inside a kernel, a symbolic handle outside.

        Example:
            @kernel(in_specs=(Tile(64, 64, f32, tma_box=(32, 32)),), out_specs=())
            def k(X):
                box, bar = smem.alloc(f32, (32, 32)), smem.mbarrier(1)[0]
                ptx.tensor_copy.load(ptx.addr(box), X.tma_desc(), (0, 0), bar)
                ptx.ret()

            k.ptx()
        """
        trace = _core.current_trace()
        return TmaDescriptorHandle(self) if trace is None else trace.tma_desc(self.name)

    # What a tensor is taken for by those who come from elsewhere. Type checkers say it by themselves.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__") or name in self.__slots__:
                raise AttributeError(name)
            raise AttributeError(
                f"a tensor of a kernel has no `{name}`: it has name, shape, dtype, layout and tma_desc(); {self._address()}"
            )

        def _address(self) -> str:
            return f"its address is `p, = ptx.global_ptrs({self.name})`"

        def _refuse(self, what: str, instead: str):
            raise AuthoringTypeError(f"{self.name} is a tensor, {what}: {self._address()}, {instead}")

        def __getitem__(self, index: Any) -> NoReturn:
            self._refuse(
                "of which no element is read by []", "an element is ptx.inst.ld.global_.f32(d, ptx.addr(p + i * 4))"
            )

        def __setitem__(self, index: Any, value: Any) -> NoReturn:
            self._refuse(
                "of which no element is written by []", "an element is ptx.inst.st.global_.f32(ptx.addr(p + i * 4), x)"
            )

        def _operator(self, other: Any = None) -> NoReturn:
            self._refuse(
                "no number", "of its elements registers are loaded: ptx.inst.ld.global_.f32(d, ptx.addr(p + i * 4))"
            )

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = (
            _operator
        )
        __pow__ = __rpow__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __lshift__ = __rshift__ = _operator
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __rmatmul__ = __invert__ = __pos__ = _operator
        __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = _operator

    def __repr__(self):
        shape = self.shape.spelled() if isinstance(self.shape, _Shape) else self.shape
        return f"TensorSpec({self.name!r}, shape={shape}, dtype={self.dtype})"


class UnknownSize(AuthoringValueError):
    """The body reads a size that nobody gave."""


class Sizes:
    """Sizes of the symbols of one trace.  `read`: those that the body asked for, None for one that is not known."""

    def __init__(self, kernel: str, known: Mapping[str, int]):
        self.kernel, self.known = kernel, known
        self.read: dict[str, int | None] = {}

    def spec(self, name: str, tile: Tile | None) -> TensorSpec:
        """The tensor argument of a Tile; of none: a name alone."""
        if tile is None:
            return TensorSpec(name)
        shape = tuple.__new__(
            _Shape, (_Size(self, size, name, tile) if isinstance(size, str) else size for size in tile.shape)
        )
        return TensorSpec(name, shape if tile.symbolic_dims else tile.shape, tile.dtype, tile.layout)

    def ask(self, symbol: str, tensor: str, tile: Tile) -> int:
        size = self.read[symbol] = self.known.get(symbol)
        if size is None:
            given = ", ".join(f"{each}=..." for each in tile.symbolic_dims if each not in self.known)
            raise UnknownSize(
                f"the shape of {tensor} in kernel {self.kernel} is not known: give {given}, "
                f"as in {self.kernel}.ptx({given}), or call the kernel with tensors"
            )
        return size


class _Size:
    """A size that nobody asked for yet.  It lies in a shape for code in C, which takes a tuple's items past its methods; Python
    gets ints."""

    __slots__ = ("origin",)

    def __init__(self, *origin):
        self.origin = origin  # sizes, symbol, tensor, tile

    def __index__(self) -> int:
        sizes, *asked = self.origin
        return sizes.ask(*asked)

    __int__ = __index__

    def __getattr__(self, name):
        return getattr(self.__index__(), name)


def _forward(name: str):
    method = getattr(int, name)
    return lambda self, *others: method(
        self.__index__(), *(each.__index__() if isinstance(each, _Size) else each for each in others)
    )


for _name in (
    "abs", "add", "and", "bool", "ceil", "divmod", "eq", "float", "floor", "floordiv", "format", "ge", "gt", "hash", "invert", "le",
    "lshift", "lt", "mod", "mul", "ne", "neg", "or", "pos", "pow", "radd", "rand", "rdivmod", "repr", "rfloordiv", "rlshift", "rmod",
    "rmul", "ror", "round", "rpow", "rrshift", "rshift", "rsub", "rtruediv", "rxor", "str", "sub", "truediv", "trunc", "xor",
):  # fmt: skip
    setattr(_Size, f"__{_name}__", _forward(f"__{_name}__"))


class _Shape(tuple):
    """A shape some of whose sizes are symbols: an item that is read is an int from then on, and part of the text's key."""

    def __getitem__(self, index):
        found = super().__getitem__(index)
        if isinstance(index, slice):
            return tuple([size.__index__() if isinstance(size, _Size) else size for size in found])
        return found.__index__() if isinstance(found, _Size) else found

    def __iter__(self):
        return iter(self[:])

    def __radd__(self, other):
        return other + self[:]

    def __reduce_ex__(self, protocol):
        return tuple, (self[:],)

    def spelled(self) -> str:
        """The shape as people write it, with the names of symbols; no size counts as read."""
        parts = [size.origin[1] if isinstance(size, _Size) else str(size) for size in tuple.__iter__(self)]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _whole(name: str):
    method = getattr(tuple, name)
    return lambda self, *others: method(self[:], *(each[:] if isinstance(each, _Shape) else each for each in others))


for _name in (
    "__add__", "__contains__", "__eq__", "__ge__", "__gt__", "__hash__", "__le__", "__lt__", "__mul__", "__ne__", "__repr__", "__rmul__",
    "count", "index",
):  # fmt: skip
    setattr(_Shape, _name, _whole(_name))
