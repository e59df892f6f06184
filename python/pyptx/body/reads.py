"""What Python functions read beside their arguments: closures, globals, attributes of modules, classes and objects, the
environment; and all that of the functions which they name.

Found in the bytecode, without running it.  An attribute is found by its name: of every object that a function can reach,
those are read whose names stand in its code, or are strings there or in what it reads.  Of an object that is asked by a name
made at run time (`getattr(config, "tile_" + axis)`) all that is data is taken as read.  Installed packages are taken as they
are; their own state is not looked into.  What cannot be told beforehand, the content of a file, code in a string, is refused.
"""

from __future__ import annotations

import builtins
import dataclasses
import dis
import enum
import functools
import hashlib
import inspect
import itertools
import marshal
import os
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pyptx import _core
from pyptx._core import PtxType
from pyptx.errors import AuthoringRuntimeError

__all__ = ["Reads", "Walk"]

_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(...))
_MISSING = object()
_FILES = {"open", "read_text", "read_bytes", "fromfile", "loadtxt", "genfromtxt"}
_CODE = {"eval", "exec", "compile"}
_DATA = (*_PLAIN, enum.Enum, tuple, list, dict, set, frozenset)


class Place(NamedTuple):
    """Where a value lies, and what it was."""

    path: str  # as the author writes it
    holder: Any  # a dictionary, a cell, the environment, or what has the attribute
    key: str
    value: Any
    # What `Walk.content` says, or `_bytes_of` of a container, where the object alone does not tell.
    content: str | bytes | None = None

    def now(self) -> Any:
        if isinstance(self.holder, (dict, os._Environ)):
            return self.holder.get(self.key, _MISSING)
        try:
            return getattr(self.holder, self.key, _MISSING)
        except Exception:  # an empty cell, a property that fails
            return _MISSING


# Instructions whose argument is the number of a name: what they name, and how far up in the argument the number begins.
_NAMING = {
    dis.opmap[name]: (kind, shift)
    for name, kind, shift in (
        ("LOAD_GLOBAL", "globals", int(sys.version_info >= (3, 11))),
        ("LOAD_NAME", "globals", 0),
        ("LOAD_FROM_DICT_OR_GLOBALS", "globals", 0),
        ("LOAD_ATTR", "attributes", int(sys.version_info >= (3, 12))),
        ("LOAD_METHOD", "attributes", 0),
        ("IMPORT_FROM", "attributes", 0),
        ("LOAD_SUPER_ATTR", "attributes", 2),
        ("IMPORT_NAME", "modules", 0),
    )
    if name in dis.opmap
}
_ASKING = {"getattr", "vars", "globals"}


def _named(code: types.CodeType) -> Iterator[tuple[str, str]]:
    """The names in the instructions of a code object, with what they name: `dis` says the same, in ten times the time."""
    above = 0
    for operation, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        if operation == dis.EXTENDED_ARG:
            above = (above | argument) << 8
            continue
        if found := _NAMING.get(operation):
            kind, shift = found
            yield kind, code.co_names[(above | argument) >> shift]
        above = 0


class _Names:
    """Names in the code of a function and of those inside it: of globals, of attributes, of modules; and its strings."""

    def __init__(self, code: types.CodeType):
        self.globals: dict[str, None] = {}
        self.attributes: dict[str, None] = {}
        self.modules: dict[str, None] = {}
        self.strings: dict[str, None] = {}
        self.asked: dict[
            str, None
        ] = {}  # whose members are asked for by names made at run time; "": nobody knows whose
        self._read(code)

    def _read(self, code):
        for kind, name in _named(code):
            getattr(self, kind)[name] = None
        if not _ASKING.isdisjoint(code.co_names):
            steps = [step for step in dis.get_instructions(code) if step.opname not in ("PUSH_NULL", "CACHE", "RESUME")]
            for at, step in enumerate(steps):
                if step.opname == "LOAD_GLOBAL" and step.argval in _ASKING:
                    self._ask(step.argval, steps[at + 1 :])
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._read(constant)
            elif isinstance(constant, str) and constant.isidentifier():
                self.strings[constant] = None

    def _ask(self, function: str, steps):
        """`steps`: what follows the name of the function, its arguments first."""
        path: list[str] = ["globals()"] if function == "globals" else []
        for step, then in itertools.pairwise(steps):
            called = then.opname in ("PRECALL", "CALL", "CALL_FUNCTION")
            if step.opname in (("LOAD_ATTR",) if path else ("LOAD_GLOBAL", "LOAD_DEREF")):
                path.append(step.argval)
            elif function != "globals" or step.opname not in ("PRECALL", "CALL", "CALL_FUNCTION"):
                spelled = step.opname == "LOAD_CONST" and isinstance(step.argval, str)
                if not (spelled and (called or then.opname == "BINARY_SUBSCR")):
                    self.asked[".".join(path)] = None
                return


@functools.lru_cache(512)
def _names(code: types.CodeType) -> _Names:
    return _Names(code)


@functools.lru_cache(512)
def _content(code: types.CodeType) -> str:
    """A digest of the instructions, constants and names of a code object, and of those inside it."""
    told = code.co_argcount, code.co_kwonlyargcount, code.co_names, code.co_varnames, code.co_freevars
    said = "\0".join((code.co_code.hex(), repr(told), *map(_constant, code.co_consts)))
    return hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest()


def _constant(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return _content(value)
    if isinstance(value, (tuple, frozenset)):
        items = map(_constant, value)
        return f"{type(value).__name__}({', '.join(items if isinstance(value, tuple) else sorted(items))})"
    return repr(value)


@functools.lru_cache(1024)
def _is_own(module: str) -> bool:
    """Whether the code of a module is the user's: neither this package's, Python's, nor that of an installed one."""
    root = module.partition(".")[0]
    if root == "pyptx":
        return module.startswith("pyptx.kernels")
    if root in sys.stdlib_module_names:
        return False
    found = sys.modules.get(root)
    file = next(iter(getattr(found, "__path__", ())), None) or getattr(found, "__file__", None)
    return file is None or not _is_installed(os.path.dirname(file))  # None: __main__, or made by hand


@functools.lru_cache(256)
def _is_of_package(module: str) -> bool:
    """Whether it is a module of this package that has no kernels, `ptx`: it is taken as it is."""
    return module.partition(".")[0] == "pyptx" and not _is_own(module)


@functools.cache
def _is_installed(folder: str) -> bool:
    """Whether packages were installed into the folder: there are the records that an installer leaves."""
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder or "."))
    except OSError:
        return False


def _module_of(value) -> str:
    """None where a function was made by exec; anything, if a class says so."""
    module = getattr(value, "__module__", None)
    return module if isinstance(module, str) else ""


class _Sort(NamedTuple):
    """What is true of all values of one type."""

    enumeration: bool
    plain: bool  # its repr says all of it
    identity: bool  # kernels, device functions, variables of modules
    array: bool


@functools.lru_cache(512)
def _sort(kind: type) -> _Sort:
    array = hasattr(kind, "__dlpack__") or hasattr(kind, "__array_interface__")
    return _Sort(issubclass(kind, enum.Enum), issubclass(kind, _PLAIN), hasattr(kind, "_identity"), array)


def _data(held, kinds: tuple[type, ...]) -> dict[str, None]:
    """Names of what is data of these kinds."""
    if not isinstance(held, (dict, types.MappingProxyType)):
        return {}
    return {name: None for name, value in list(held.items()) if isinstance(value, kinds) and not name.startswith("__")}


def _by_object(value) -> str:
    return f"object {id(value)}"


_CALLS = {"call", "getitem", "iter", "next", "len", "contains", "bool", "int", "float", "index", "str", "format"}
_CALLS |= {
    side + op for op in ("add", "sub", "mul", "truediv", "floordiv", "mod", "lshift", "rshift") for side in ("", "r")
}


@functools.lru_cache(512)
def _operators(kind: type) -> tuple[str, ...]:
    """Methods that code calls without their name: `value()`, `value[i]`, `value + 1`."""
    own = [each for each in kind.__mro__ if _is_own(_module_of(each))]
    names = {name: member for each in own for name, member in vars(each).items()}
    return tuple(name for name, member in names.items() if name.strip("_") in _CALLS and name.startswith("__"))


def _held_names(value) -> set[str] | None:
    """Names of all attributes that are there without running code; None where some are made when they are asked for."""
    if hasattr(type(value), "__getattr__"):
        return None
    names = set(getattr(value, "__dict__", ()))
    for kind in (*(value.__mro__ if isinstance(value, type) else ()), *type(value).__mro__):
        names.update(vars(kind))
    return names


def _is_plain(value) -> bool:
    """Whether these are numbers, strings and the like, in lists, tuples, dictionaries and sets."""
    if type(value) is dict:
        return _is_plain([*value.items()])
    return all(map(_is_plain, value)) if type(value) in (list, tuple, set, frozenset) else type(value) in _PLAIN


def _bytes_of(value) -> bytes | None:
    """Plain values as bytes, which are quickly made; None for others."""
    try:
        return marshal.dumps(value, 2)  # as of version 3 bytes depend on who else has the objects
    except ValueError:
        return None


def _is_method_of_c(holder, key: str, value) -> bool:
    """Whether the value is a method that a type in C has for all of its objects, and that cannot be replaced."""
    if not isinstance(value, types.BuiltinFunctionType) or isinstance(holder, (dict, os._Environ, types.CellType)):
        return False
    return not hasattr(holder, "__dict__") and isinstance(getattr(type(holder), key, None), types.MethodDescriptorType)


def _is_settled(value, name: str) -> bool:
    """`f32`, `numpy`: what nobody lets mean something else."""
    if isinstance(value, types.ModuleType):
        return not _is_own(value.__name__)
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return value.__name__ == name and not _is_own(_module_of(value))
    return isinstance(value, PtxType) and value.name == name


class Walk:
    """All that some values, functions among them, say and read.

    `said`: (path, content) of everything, in an order that only the source decides.  `places`: of what may change.
    """

    def __init__(
        self, *values: Any, home: str = "", strict: bool = False, unspelled: Callable[[Any], str] = _by_object
    ):
        self._home = home.partition(".")[0]  # the package that is followed even where it is installed
        self._strict = strict
        self._unspelled = unspelled
        self._attributes: dict[str, None] = {}
        self._strings: dict[str, None] = {}
        self.complete = True  # all modules that are imported by the functions are there
        self._whole: dict[int, Any] = {}  # objects that are asked by names made at run time
        self._open = False  # so are others, and nobody knows which
        for value in values:
            if isinstance(value, types.FunctionType) and self._is_followed(_module_of(value)):
                self._take_names(_names(value.__code__))
        while True:
            self._used: tuple[int, ...] | None = None
            self.said: list[tuple[str, str]] = []
            self.places: list[Place] = []
            self.reached: dict[int, Any] = {}
            self._placed: set[tuple[int, str]] = set()
            self._structured: set[int] = set()
            for index, value in enumerate(values):
                self._value(getattr(value, "__name__", str(index)), value)
            if self._used in (None, self._found()):
                break  # else a name that was found late may be one of an object met before
        self.places = [self._settled(place) for place in self.places]

    def _take_names(self, names: _Names):
        self._attributes.update(names.attributes)
        self._attributes.update(names.strings)
        self._strings.update(names.strings)

    def _found(self) -> tuple[int, ...]:
        """How much is known of what objects are asked for."""
        return len(self._attributes), len(self._strings), len(self._whole), self._open

    def _use(self):
        """Called where this is asked, of which the first time counts."""
        self._used = self._used or self._found()

    def digest(self) -> str:
        return hashlib.sha256("\0".join(f"{path}\0{content}" for path, content in self.said).encode()).hexdigest()

    def _say(self, path: str, value: Any, word: Any = ""):
        self.said.append((path, f"{type(value).__name__} {word}"))

    def _place(self, path: str, holder: Any, key: str, value: Any, inner: bool = True):
        """`inner` of False: an object in there is taken as a whole."""
        if (id(holder), key) in self._placed:
            return
        self._placed.add((id(holder), key))
        if type(value) is PtxType:  # most of what a body names; `f32` under its own name stays what it is
            self._say(path, value, value.name)
            if value.name != key:
                self.places.append(Place(path, holder, key, value))
            return
        if type(value) is types.ModuleType and _is_of_package(value.__name__):
            self._say(path, value, value.__name__)
            return
        self._name(value)
        if inner or isinstance(value, _DATA):
            self._value(path, value)
        else:
            self._say(path, value, self._pickled(value))
        if not _is_settled(value, key) and not _is_method_of_c(holder, key, value):
            self.places.append(Place(path, holder, key, value))

    def _name(self, value):
        """Strings that a function reads may be names of attributes."""
        if isinstance(value, str) and value.isidentifier():
            self._attributes[value] = None
        elif isinstance(value, (tuple, list, set, frozenset, dict)):
            for each in (*value, *value.values()) if isinstance(value, dict) else value:
                if isinstance(each, str):
                    self._name(each)

    def _is_fixed(self, value) -> bool:
        """Whether the value cannot change where it lies; what is read of an object by name has places of its own."""
        if type(value) in _PLAIN:
            return True
        if isinstance(value, (tuple, frozenset)):
            return all(map(self._is_fixed, value))
        if _sort(type(value)).array:
            return isinstance(value, getattr(sys.modules.get("numpy"), "generic", ()))
        if id(value) in self._structured or isinstance(value, (type, types.FunctionType, enum.Enum)):
            return True
        if getattr(getattr(type(value), "__dataclass_params__", None), "frozen", False):
            return all(self._is_fixed(getattr(value, field.name)) for field in dataclasses.fields(value))
        return type(value).__hash__ is not None and not (
            hasattr(value, "__dict__") and _is_own(_module_of(type(value)))
        )

    def _settled(self, place: Place) -> Place:
        if self._is_fixed(place.value) and place.now() is place.value:
            return place
        content = _bytes_of(place.value) if _is_plain(place.value) else None
        return place._replace(content=content or self.content(place.path, place.value))

    def content(self, path: str, value: Any) -> str:
        """What the value says alone."""
        part = object.__new__(Walk)
        part.__dict__.update(vars(self), said=[], places=[], reached={}, _placed=set())
        part._value(path, value)
        return repr(part.said)

    def _value(self, path: str, value: Any):
        sort = _sort(type(value))
        if sort.enumeration:
            self._say(path, value, value.name)
        elif sort.plain:
            self._say(path, value, value.hex() if isinstance(value, float) else repr(value))
        elif isinstance(value, types.BuiltinFunctionType):
            self._say(path, value, value.__name__)
        elif id(value) in self.reached:  # a function that calls itself
            self._say(path, value, "seen")
        elif isinstance(value, (tuple, list, frozenset, set, dict)):
            self._items(path, value)
        elif isinstance(value, types.CodeType):
            self._code(path, value)
        elif isinstance(value, (types.ModuleType, type)):
            self._say(path, value, value.__name__)
            self._members(path, value)
        else:
            self.reached[id(value)] = value
            self._other(path, value)

    def _items(self, path, value):
        if not isinstance(value, (tuple, frozenset)):
            self.reached[id(value)] = value
        self._say(path, value, len(value))
        if isinstance(value, dict):
            for key, item in value.items():
                self._value(f"{path} key", key)
                self._value(f"{path}[{key!r}]", item)
            return
        for index, item in enumerate(sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value):
            self._value(f"{path}[{index}]", item)

    def _code(self, path, code):
        self._say(path, code, _content(code))

    def _other(self, path, value):
        if isinstance(value, types.FunctionType):
            self._function(path, value)
        elif isinstance(value, (staticmethod, classmethod, types.MethodType)):
            self._value(path, value.__func__)
            self._value(f"{path}.__self__", getattr(value, "__self__", None))
        elif isinstance(value, functools.partial):
            self._name((*value.args, *value.keywords.values()))
            self._value(path, (value.func, value.args, value.keywords))
        elif _sort(type(value)).identity:
            self._say(path, value)
            self._value(path, value._identity())
        elif value is os.environ:
            self._environment(path)
        elif isinstance(value, PtxType):
            self._say(path, value, value.name)
        elif _sort(type(value)).array or _module_of(type(value)).startswith("pyptx.") or not self._members(path, value):
            self._say(path, value, self._pickled(value))

    def _pickled(self, value) -> str:
        if isinstance(value, type(_core.inst)):  # `ptx.inst.ld.global_`: its mnemonic
            return repr(value)
        try:
            return hashlib.sha256(pickle.dumps(value, protocol=4)).hexdigest()
        except Exception:  # whatever the value's own class raises
            written = _module_of(value).startswith("pyptx.") and hasattr(value, "__name__")
            return value.__name__ if written else self._unspelled(value)  # functions that write instructions

    # Functions.

    def _function(self, path, function):
        self._say(path, function, function.__name__)
        code = function.__code__
        self._code(path, code)
        self._name(function.__defaults__)
        self._value(f"{path}.__defaults__", function.__defaults__)
        for name, value in (function.__kwdefaults__ or {}).items():
            self._value(name, value)
            if not self._is_fixed(value):
                self._place(name, function.__kwdefaults__, name, value)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # not bound yet
                self.said.append((name, "empty"))
                continue
            if name == "__class__" and isinstance(value, type):
                continue
            self._place(name, cell, "cell_contents", value)
        if not self._is_followed(_module_of(function)):
            return
        names = _names(code)
        self._take_names(names)
        for asked in names.asked:
            value = self._asked(asked, function)
            self._open = self._open or asked == ""
            self._whole[id(value)] = value
        if "globals" in names.globals:
            self._use()
        by_name = self._attributes if "globals" in names.globals else ()
        if "globals()" in names.asked:
            self._refuse_code(path, "asks for a global by a name made at run time (`globals()`)")
        for name in (*names.globals, *[name for name in by_name if name in function.__globals__]):
            if name in function.__globals__:
                self._place(name, function.__globals__, name, function.__globals__[name])
            elif name in _FILES and hasattr(builtins, name):
                self._refuse_file(path, name)
            elif name in _CODE:
                self._refuse_code(path, f"runs code in a string (`{name}`)")
        package = function.__globals__.get("__package__") or ""
        for name in names.modules:
            found = sys.modules.get(name) or sys.modules.get(f"{package}.{name}".rstrip("."))
            self.complete = self.complete and found is not None
            if found is not None:
                self._value(name, found)

    def _asked(self, path: str, function) -> Any:
        """The object of a path in a function, or _MISSING."""
        root, *rest = path.split(".")
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        try:
            value = cells[root].cell_contents if root in cells else function.__globals__[root]
            for part in rest:
                value = getattr(value, part)
        except Exception:  # a name of nothing; whatever its class raises
            return _MISSING
        return value

    def _data_of(self, value) -> list[str]:
        """Names of the data of an object that is asked by names made at run time."""
        kinds = _DATA if id(value) in self._whole else (*_PLAIN, enum.Enum) if self._open else ()
        found = _data(getattr(value, "__dict__", None), kinds)
        for kind in (value if isinstance(value, type) else type(value)).__mro__ if kinds else ():
            if self._is_followed(_module_of(kind)):
                found |= _data(vars(kind), kinds)
        return list(found)

    def _is_followed(self, module: str) -> bool:
        return _is_own(module) or (self._home not in ("", "pyptx") and module.partition(".")[0] == self._home)

    # Modules, classes, objects: members by name.

    def _members(self, path, value) -> bool:
        """Whether there are any."""
        self._use()
        if isinstance(value, types.ModuleType):
            self._of_module(path, value)
            return True
        found = False
        own = self._is_followed(_module_of(value))
        if isinstance(value, type) and not own:
            for name in _FILES.intersection(self._attributes):
                if hasattr(value, name):
                    self._refuse_file(f"{path}.{name}", name)
            return False
        if own:
            held = _held_names(value)
            for name in (*self._attributes, *_operators(type(value)), *self._data_of(value)):
                if held is not None and name not in held:
                    continue
                member = inspect.getattr_static(value, name, _MISSING)
                if member is _MISSING and hasattr(type(value), "__getattr__"):
                    member = None  # made when it is asked for
                if member is not _MISSING:
                    found = self._member(f"{path}.{name}", value, name, member) or found
        # A namespace, of a class that is not the user's.
        elif isinstance(held := getattr(value, "__dict__", None), dict):
            for name in [name for name in (*self._attributes, *self._data_of(value)) if name in held]:
                found = True
                self._place(f"{path}.{name}", held, name, held[name], inner=False)
        if found:
            self._structured.add(id(value))
        return found

    def _of_module(self, path, module):
        own = self._is_followed(module.__name__)
        held = vars(module)
        data = _data(held, _DATA) if own and id(module) in self._whole else ()
        for name in [name for name in (*self._attributes, *data) if name in held]:
            member = held[name]
            if member is os.environ or member is os.getenv:
                self._environment(f"{path}.{name}")
            elif name in _FILES and not own and callable(member):
                self._refuse_file(f"{path}.{name}", name)
            elif isinstance(member, type) and not own:
                self._value(f"{path}.{name}", member)
            elif own or (sort := _sort(type(member))).plain or sort.identity:
                self._place(f"{path}.{name}", held, name, member)

    def _member(self, path, value, name, member) -> bool:
        if isinstance(member, property):
            self._value(path, member.fget)
            return True
        if isinstance(member, (types.FunctionType, staticmethod, classmethod)):
            self._value(path, member)
            return True
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict) and name in held:
            self._place(path, held, name, held[name])
            return True
        try:
            self._place(path, value, name, getattr(value, name))
        except Exception:  # whatever its class raises
            return False
        return True

    # What is not of Python.

    def _environment(self, path):
        self._use()
        if self._strict and not self._strings:
            raise AuthoringRuntimeError(
                f"{path}: a kernel reads the environment by a name that is not in its code: read it outside, and "
                "pass its value as a template value (a keyword-only parameter)"
            )
        for name in self._strings:
            self._place(f"os.environ[{name!r}]", os.environ, name, os.environ.get(name, _MISSING))

    def _refuse_code(self, path, what):
        if self._strict:
            raise AuthoringRuntimeError(
                f"{path}: a kernel {what}, and would not notice a change of its result: call it outside, and pass the "
                "result as a template value (a keyword-only parameter)"
            )

    def _refuse_file(self, path, name):
        if self._strict:
            raise AuthoringRuntimeError(
                f"{path}: a kernel reads a file (`{name}`), and would not notice when the file changes: read it outside, and "
                "pass its value as a template value (a keyword-only parameter)"
            )


class Reads:
    """What the functions of one kernel read, as it was when they were first used.

    A kernel is what it read then.  What has changed since is refused, as in Triton: at every call, also of compiled
    programs, and wherever its text is asked for.
    """

    def __init__(self, kernel, *functions: Callable):
        self._kernel, self._functions = kernel, functions
        self._walk: Walk | None = None
        self._others: list[Place] = []

    def _look(self) -> Walk:
        home = getattr(self._functions[0], "__module__", None) or ""
        try:
            return Walk(*self._functions, home=home, strict=True)
        except RecursionError:
            raise AuthoringRuntimeError(
                f"kernel {self._kernel.__name__} reads a value whose lists or tuples are nested in each other some hundred deep, "
                "which no call could compare: read it outside, and pass what it says as a template value"
            ) from None

    def verify(self):
        """Remembers, the first time; afterwards refuses what has changed."""
        if self._walk is None:
            self._keep(self._look())
        elif not self.same():
            walk = self._look()
            if walk.said != self._walk.said:
                self._refuse(walk)
            self._keep(walk)  # equal objects in the same places

    def settle(self):
        """After the body has run: what it changed itself, a list of what it met, say, is its own affair."""
        if not self._walk.complete or not self.same():
            self._keep(self._look())

    def functions(self) -> list[types.FunctionType]:
        """The author's that were met."""
        met = self._walk.reached.values() if self._walk else ()
        return [each for each in met if isinstance(each, types.FunctionType)]

    def same(self) -> bool:
        return _core.unchanged(self._kernel)

    def _others_are_same(self) -> bool:
        """Whether the places that are not compared by identity hold what they held."""
        return all(self._is_same(place) for place in self._others)

    def _is_same(self, place: Place) -> bool:
        value = place.now()
        if place.content is None:
            return value is place.value
        if isinstance(place.content, bytes):
            return _bytes_of(value) == place.content
        return place.content == self._walk.content(place.path, value)

    def _keep(self, walk: Walk):
        self._walk = walk
        quick, self._others = [], []
        for place in walk.places:
            if place.content is None and not isinstance(place.holder, os._Environ):
                quick.append((place.holder, place.key, place.value))
            else:
                self._others.append(place)
        _core.watch(self._kernel, quick, self._others_are_same if self._others else None)

    def _refuse(self, walk: Walk):
        before, after = _by_path(self._walk), _by_path(walk)
        path = next((path for path in {**before, **after} if before.get(path) != after.get(path)), "its code")
        was = {place.path: place.value for place in self._walk.places}.get(path, _MISSING)
        now = {place.path: place.value for place in walk.places}.get(path, _MISSING)
        values = f": it was {_shown(was)}, and is {_shown(now)}" if was is not now else ""
        raise AuthoringRuntimeError(
            f"kernel {self._kernel.__name__} reads {path}, which has changed since the kernel was first used{values}. A kernel "
            "does not follow such a change: make another one, or pass the value as a template value (a keyword-only parameter)"
        )


def _by_path(walk: Walk) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path, content in walk.said:
        found.setdefault(path, []).append(content)
    return found


def _shown(value) -> str:
    text = "not there" if value is _MISSING else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
