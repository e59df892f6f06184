"""Device functions of PTX: `@func` turns a Python function into one.  Also calls, prototypes, tables of targets.

    @ptx.func
    def square(x: f32) -> f32:
        return x * x

    y = square(a)          # in a kernel, or in another function: its .param block and a `call`

A body runs once for each module, at its first use.  Keyword-only parameters are template values; each set of values makes
a function of its own.  Nothing here runs per instruction.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_origin, overload

from pyptx import _core
from pyptx._trace import get_ctx
from pyptx.body import blocks
from pyptx.body.frozen import frozen
from pyptx.errors import AuthoringError, AuthoringTypeError, placed_at
from pyptx.types import PtxType

if TYPE_CHECKING:
    from pyptx._core import Reg

R = TypeVar("R")  # what a call returns: None, a register, a tuple of registers

__all__ = [
    "Alias",
    "CallTable",
    "Function",
    "NamedFunction",
    "ParamArray",
    "alias",
    "call_targets",
    "func",
    "function",
    "param_array",
    "prototype",
]

_LINKAGES = ("", "visible", "weak", "extern")


class ParamArray:
    """The type of a parameter that is an array of bytes: `.param .align 8 .b8 x[12]`."""

    __slots__ = ("align", "size")

    def __init__(self, size: int | None, align: int = 1):
        self.size = size
        self.align = align

    def __repr__(self):
        return f"param_array({self.size}, align={self.align})"

    def _identity(self):
        return (self.size, self.align)


def param_array(size: int | None, align: int = 1) -> ParamArray:
    """A parameter of `size` bytes; None: the last one, as long as the call makes it.

    Example:
        @ptx.func
        def first(words: ptx.param_array(12, align=4)) -> u32:
            v = reg.scalar(u32)
            ptx.inst.ld.param.u32(v, ptx.addr(words))
            return v

        y = first((x, n, i))
    """
    return ParamArray(size, align)


def _row(what: str, name: str, given) -> tuple[str, list[PtxType], int, int]:
    """One parameter as the library takes it: name, types, bytes, alignment."""
    if isinstance(given, PtxType):
        return name, [given], 0, 0
    if isinstance(given, ParamArray):
        return name, [], -1 if given.size is None else given.size, given.align
    if isinstance(given, (tuple, list)) and given and all(isinstance(each, PtxType) for each in given):
        return name, list(given), 0, 0
    raise AuthoringTypeError(
        f"{what} must be a type (u32), a tuple of types (a structure by value) or param_array(bytes, align), not {given!r}"
    )


def _results(what: str, given, registers: bool) -> list[tuple[str, list[PtxType], int, int]]:
    if given is None or given == ():
        return []
    if registers and isinstance(given, (tuple, list)):
        return [_row(what, "", each) for each in given]
    return [_row(what, "", given)]


class _Signature:
    """Parameters and results of a function, a prototype or an .extern function."""

    def __init__(self, name: str, params, returns, registers: bool, noreturn: bool, directives: Sequence[str]):
        self.name = name
        self.registers = registers
        self.params = [_row(f"parameter {label or i} of {name}", label, kind) for i, (label, kind) in enumerate(params)]
        self.returns = _results(f"the result of {name}", returns, registers)
        if isinstance(directives, str) or not isinstance(directives, Iterable):
            raise AuthoringTypeError(
                f'directives of {name or "a prototype"} are strings, (".abi_preserve 8",), not {directives!r}'
            )
        self.directives = [*directives, *([".noreturn"] if noreturn else [])]


def _plain(annotation):
    """What an annotation says in PTX: `Annotated[Reg, f32]` is f32, `tuple[A, B]` is (A, B)."""
    for said in getattr(annotation, "__metadata__", ()):
        if isinstance(said, (PtxType, ParamArray, tuple)):
            return said
    if get_origin(annotation) is tuple:
        return tuple(_plain(each) for each in get_args(annotation))
    return None if annotation is type(None) else annotation


def _annotated(fn: Callable) -> tuple[list[tuple[str, Any]], Any, dict[str, Any]]:
    """(parameters, result, template values) of a Python function."""
    try:
        signature = inspect.signature(fn, eval_str=True)
    except NameError as error:
        raise AuthoringTypeError(
            f"the annotations of {fn.__name__} cannot be read: {error}; give params= and returns= to the decorator"
        ) from None
    template, params = {}, []
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY:
            template[one.name] = None if one.default is one.empty else one.default
        elif one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            raise AuthoringTypeError(
                f"function {fn.__name__}: *{one.name} cannot be a parameter in PTX: write each parameter"
            )
        else:
            params.append((one.name, _plain(one.annotation)))
    returns = _plain(signature.return_annotation)
    return params, None if returns is signature.empty else returns, template


class Function(Generic[R]):
    """A device function.  Calling it inside a kernel, or inside another function, writes the call."""

    def __init__(
        self, fn: Callable, params, returns, name, linkage, registers, noreturn, attributes, directives, raw=()
    ):
        if linkage not in _LINKAGES:
            raise AuthoringTypeError(
                f"linkage of {fn.__name__} must be one of {', '.join(map(repr, _LINKAGES))}, not {linkage!r}"
            )
        named, result, self._template = ([], None, {}) if params is not None else _annotated(fn)
        if params is not None:
            labels = [each for each in inspect.signature(fn).parameters.values() if each.kind is not each.KEYWORD_ONLY]
            self._template = {each.name: each.default for each in inspect.signature(fn).parameters.values()
                              if each.kind is each.KEYWORD_ONLY}  # fmt: skip
            if len(labels) != len(params):
                raise AuthoringTypeError(
                    f"function {fn.__name__} has {len(labels)} parameters, params= has {len(params)}"
                )
            named, result = [(each.name, kind) for each, kind in zip(labels, params, strict=True)], returns
        for label, kind in named:
            if kind is inspect.Parameter.empty:
                raise AuthoringTypeError(f"parameter {label} of {fn.__name__} has no type: write `{label}: u32`")
        self._told = fn, params, returns, name, linkage, registers, noreturn, attributes, directives
        self._fn = fn
        self._linkage = linkage
        self._attributes = attributes
        self._signature = _Signature(name or fn.__name__, named, result, registers, noreturn, directives)
        self._raw = raw  # as_written, bits, raw_params, raw_returns
        self.__doc__ = fn.__doc__
        self.__name__, self.__qualname__, self.__module__ = fn.__name__, fn.__qualname__, fn.__module__

    def __copy__(self):  # like a kernel, it does not change
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        from pyptx.body import portable

        return portable.reduce(self, f"function {self.__name__}", [self._fn.__module__])

    def _definition(self):
        return Function, self._told

    @property
    def name(self) -> str:
        """Its name in PTX."""
        return self._signature.name

    def __repr__(self):
        return f"Function({self.name!r})"

    def _identity(self):
        said = self._signature
        return (self._fn, said.name, repr(said.params), repr(said.returns), said.registers, said.directives,
                self._linkage, self._attributes, self._raw)  # fmt: skip

    def _handle(self, given: dict[str, Any]):
        """The function in the module that is being written, with its body."""
        trace = get_ctx()
        for name in given:
            if name not in self._template:
                known = ", ".join(self._template) or "none"
                raise AuthoringTypeError(f"function {self.name} has no template parameter {name!r}; it has {known}")
        template = {**self._template, **given}
        key = (id(self), tuple((name, frozen(value)) for name, value in template.items()))
        known = trace.memo.get(key)
        if known is not None:
            return known[1]
        versions = trace.memo.setdefault(("versions", id(self)), [])
        said = self._signature
        name = f"{said.name}_{len(versions)}" if versions else said.name
        versions.append(name)
        code = self._fn.__code__
        handle = _core.declare_function(
            name, said.params, said.returns, said.registers, said.directives, self._linkage, self._attributes,
            code.co_filename, code.co_firstlineno, *(self._raw or (False, False, [], [])),
        )  # fmt: skip
        trace.memo[key] = (self, handle)
        if self._linkage != "extern":
            self._write(trace, handle, template)
        return handle

    def _write(self, trace, handle, template):
        blocks.check(self._fn)
        body = trace.begin_function(handle)
        with body:
            result = self._fn(*_core.take_arguments([row[0] for row in self._signature.params]), **template)
            blocks.check_ran(result, self._fn, self.__name__)
            if result is not None:
                try:
                    _core.ret(*result if isinstance(result, (tuple, list)) else (result,))
                except AuthoringError as error:
                    code = self._fn.__code__
                    raise placed_at(error, code.co_filename, blocks.line_of_return(code)) from None
            body.finish_function()

    def __call__(self, *args: Any, pred: Any = None, uniform: bool = False, **template: Any) -> R:
        """Writes the call; returns its result, a tuple where there are several.  `uniform`: call.uni.

        With `raw_params` or `raw_returns` it takes `returns=` and `order=` as `ptx.function` does.
        """
        if self._raw:
            return _call(self._handle({}), args, pred, uniform, **template)
        return _core.call_function(self._handle(template), args, pred, uniform)

    def address_operand(self) -> str:
        """Its name, as an operand of mov."""
        return _core.function_address(self._handle({}))

    def initial_address(self) -> Any:
        return self.address_operand(), 0, False, -1


@overload
def func(fn: Callable[..., R], /) -> Function[R]: ...
@overload
def func(*, params: Sequence[Any], returns: None = None, **options: Any) -> _Decorator[None]: ...
@overload
def func(*, params: Sequence[Any], returns: PtxType, **options: Any) -> _Decorator[Reg]: ...
@overload
def func(*, params: Sequence[Any], returns: Sequence[PtxType], **options: Any) -> _Decorator[tuple[Reg, ...]]: ...
@overload
def func(**options: Any) -> Callable[[Callable[..., R]], Function[R]]: ...
def func(
    fn: Callable | None = None,
    *,
    params: Sequence[Any] | None = None,
    returns: Any = None,
    name: str | None = None,
    linkage: str = "",
    registers: bool = False,
    noreturn: bool = False,
    attributes: str = "",
    directives: Sequence[str] = (),
    as_written: bool = False,
    bits: bool = False,
    raw_params: Sequence[tuple[str, str]] = (),
    raw_returns: Sequence[tuple[str, str]] = (),
) -> Any:
    """Turns a Python function, whose annotations are PTX types, into a device function (.func).

    A parameter is a type, a tuple of types (a structure by value), or `param_array(bytes, align)`.  The result is None, a type, or
    a tuple of types.  For type checkers, write `Annotated[Reg, f32]` and `tuple[Annotated[Reg, f32], ...]`.  Arguments are passed in
    .param, in a block as nvcc writes it.  With `registers=True` they are passed in .reg, each with 32 bits or more, and several
    results are several registers; the assembler gives such a module no stack, so it has no recursion.

    `linkage`: "visible", "weak", or "extern" for a function of another module, whose Python body is not run.  `noreturn`:
    the function ends without ret.  `params=` and `returns=` give the types instead of annotations.

    `raw_params` and `raw_returns` give the signature as for kernels, ("b64.align8.array2", "x"): then the body loads its
    parameters itself.  `as_written` and `bits` are as for kernels.

    Example:
        @ptx.func
        def square(v: f32) -> f32:
            w = reg.scalar(f32)
            ptx.inst.mul.f32(w, v, v)
            return w

        c = square(a)
    """

    def make(function: Callable) -> Function:
        raw = (as_written, bits, list(raw_params), list(raw_returns))
        raw = raw if any(raw) else ()
        return Function(function, params, returns, name, linkage, registers, noreturn, attributes, directives, raw)

    return make if fn is None else make(fn)


_Decorator = Callable[[Callable[..., Any]], Function[R]]


class Alias(Generic[R]):
    """A second name of a function."""

    def __init__(self, handle: Any):
        self._handle = handle

    @property
    def name(self) -> str:
        """Its name."""
        return self._handle.name

    def __call__(self, *args: Any, pred: Any = None, uniform: bool = False) -> R:
        """Writes the call."""
        return _core.call_function(self._handle, args, pred, uniform)


def alias(name: str, function: Function[R]) -> Alias[R]:
    """A second name of a function: `.alias name, function;`.  It is called as the function is.

    Example:
        @ptx.func(linkage="visible")
        def inc(v: u32) -> u32:
            return v + 1

        again = ptx.alias("again", inc)
        y = again(x)
    """
    if not isinstance(function, Function):
        raise AuthoringTypeError(f"alias: function is a function of @ptx.func, not {function!r}")
    return Alias(_core.alias_function(name, function._handle({})))


def _call(handle, args, pred, uniform, *, returns=None, order: Sequence[int] = ()):
    if returns is not None and not isinstance(returns, (tuple, list)):
        returns = (returns,)
    return _core.call_raw(handle, args, pred, uniform, returns, list(order))


class NamedFunction:
    """A function of the module that is being written, by its name."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self):
        return f"NamedFunction({self.name!r})"

    def __call__(
        self, *args: Any, pred: Any = None, uniform: bool = False, returns: Any = None, order: Sequence[int] = ()
    ) -> Any:
        """Writes the call."""
        return _call(_core.function_named(self.name), args, pred, uniform, returns=returns, order=order)


def function(name: str) -> NamedFunction:
    """A function of the module by its name: one that text declares (`.extern .func ...`), or that stands above.

    A call stores each argument as the signature says, calls, and loads the result.  `returns=` names its type where that is
    not unsigned (f32), the types of a structure's fields, or registers that take it; with `()` it is not loaded.  `order=`
    gives the arguments' numbers in the order in which they are stored.

    Example:
        @ptx.func
        def inc(v: u32) -> u32:
            return v + 1

        y = inc(x)
        z = ptx.function("inc")(y)
    """
    if not isinstance(name, str):
        raise AuthoringTypeError(f"ptx.function: a function is given by its name in PTX, not by {name!r}")
    return NamedFunction(name)


class CallTable(Generic[R]):
    """What may be called through a register: `table(pointer, a, b)` writes the call."""

    def __init__(self, table: Any):
        self._table = table

    @property
    def name(self) -> str:
        """Its label."""
        return self._table.label

    def __call__(self, pointer: Any, *args: Any, pred: Any = None, uniform: bool = False) -> R:
        """Writes the call of the function whose address `pointer` holds."""
        return _core.call_pointer(pointer, self._table, args, pred, uniform)


@overload
def prototype(params: Sequence[Any] = (), returns: None = None, **options: Any) -> CallTable[None]: ...
@overload
def prototype(params: Sequence[Any], returns: PtxType, **options: Any) -> CallTable[Reg]: ...
@overload
def prototype(params: Sequence[Any], returns: Sequence[PtxType], **options: Any) -> CallTable[tuple[Reg, ...]]: ...
def prototype(
    params: Sequence[Any] = (),
    returns: Any = None,
    *,
    name: str = "",
    registers: bool = False,
    noreturn: bool = False,
    directives: Sequence[str] = (),
) -> CallTable[Any]:
    """label: .callprototype ...;  for calls through a register of functions that are not known here.

    Example:
        @ptx.func
        def inc(v: u32) -> u32:
            return v + 1

        at = reg.scalar(u64)
        ptx.inst.mov.u64(at, inc)
        y = ptx.prototype((u32,), u32)(at, x)
    """
    said = _Signature(name, [("", kind) for kind in params], returns, registers, noreturn, directives)
    return CallTable(_core.call_prototype(name, said.params, said.returns, registers, said.directives))


def call_targets(*functions: Function[R], name: str = "") -> CallTable[R]:
    """label: .calltargets f, g;  for calls through a register of one of these functions.

    Example:
        @ptx.func
        def inc(v: u32) -> u32:
            return v + 1

        @ptx.func
        def dec(v: u32) -> u32:
            return v - 1

        at = reg.scalar(u64)
        ptx.inst.mov.u64(at, inc)
        y = ptx.call_targets(inc, dec)(at, x)
    """
    for each in functions:
        if not isinstance(each, Function):
            raise AuthoringTypeError(f"call_targets: its functions are those of @ptx.func, not {each!r}")
    return CallTable(_core.call_targets([function._handle({}) for function in functions], name))
