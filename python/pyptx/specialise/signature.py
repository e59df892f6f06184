"""What a call of a kernel gives: tensors by position; template values, sizes and runtime scalars by name.

Read once off the author's function and the options.  Knows no arrays.
"""

from __future__ import annotations

import contextlib
import inspect
import keyword
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pyptx import _core
from pyptx.body.tensor_spec import TensorSpec
from pyptx.errors import AuthoringTypeError, LaunchTypeError, LaunchValueError
from pyptx.specialise.extent import Extent
from pyptx.specialise.options import GRID_AXES, Options
from pyptx.specs import Misfit, Tile, unify_envs

__all__ = ["Arguments", "Signature"]


class Arguments(NamedTuple):
    """Keyword arguments of a call, by what they are."""

    template: dict[str, Any]  # parameters of the body; without those that have neither a default nor a value
    sizes: dict[str, int]  # of the symbols that are known so far
    scalars: dict[str, Any]


class Signature:
    """Names of a kernel: `tensors` (inputs, then outputs), `template` (names and defaults), `symbols` (of the Tiles)."""

    def __init__(self, function: Callable, options: Options):
        self.name = function.__name__
        self.entry = options.entry or re.sub(r"[^A-Za-z0-9_$]", "_", self.name)  # "<lambda>" is no name of PTX
        self.callable = options.in_specs is not None or options.out_specs is not None
        self.inputs = tuple(options.in_specs or ())
        self.outputs = tuple(options.out_specs or ())
        self.raw = options.raw
        self.declared = {row.tensor: row for row in options.declared if row.tensor}
        self.tensors: list[str] = []
        self.template: dict[str, Any] = {}
        self.required: set[str] = set()  # template parameters without a default
        self._read(function)
        specs = self.inputs + self.outputs
        if (options.in_specs is not None or options.out_specs is not None) and len(specs) > len(self.tensors):
            raise TypeError(
                f"kernel {self.name} takes {len(self.tensors)} tensors but has specs for {len(specs)}: its body has a "
                "parameter for each input, and then one for each output"
            )
        self.tiles: dict[str, Tile] = dict(zip(self.tensors, specs, strict=False))
        self.symbols = list(dict.fromkeys(name for tile in specs for name in tile.symbolic_dims))
        self.bound = {name for tile in self.inputs for name in tile.symbolic_dims}  # symbols that the inputs give
        self.known = {*self.template, *self.symbols, *(raw.name for raw in self.raw)}
        self._check(options)
        self.grid, self.block, self.cluster = (
            Extent(getattr(options, what), self.name, self.symbols, self.template, what)
            for what in ("grid", "block", "cluster")
        )

    @property
    def input_names(self) -> list[str]:
        return self.tensors[: len(self.inputs)]

    def of_call(self) -> inspect.Signature:
        """What a call takes: the inputs, and by name template values, sizes that no input gives, scalars, out and stream."""
        kind = inspect.Parameter
        rows = [kind(name, kind.POSITIONAL_OR_KEYWORD) for name in self.input_names]
        told = dict.fromkeys([*self.symbols, *(raw.name for raw in self.raw)], kind.empty)
        told = {name: default for name, default in told.items() if name not in self.bound}
        told |= {name: kind.empty if name in self.required else value for name, value in self.template.items()}
        for name in ("out", "stream"):
            told.setdefault(name, None)
        legal = {
            n: v for n, v in told.items() if n.isidentifier() and not keyword.iskeyword(n) and n not in self.tensors
        }
        return inspect.Signature(rows + [kind(name, kind.KEYWORD_ONLY, default=value) for name, value in legal.items()])

    def _read(self, function: Callable):
        scope, _, _ = getattr(function, "__qualname__", "").rpartition(".")
        self.of_body = inspect.signature(function)
        first = next(iter(self.of_body.parameters), "")
        if first in ("self", "cls") and scope and not scope.endswith("<locals>"):
            raise TypeError(
                f"{self.name} is a method: a kernel has no `{first}`. Decorate a function, and call it from the method"
            )
        for parameter in self.of_body.parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY:
                missing = parameter.default is parameter.empty
                self.template[parameter.name] = None if missing else parameter.default
                if missing:
                    self.required.add(parameter.name)
            elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                if not parameter.name.isascii():
                    raise ValueError(
                        f"kernel {self.name}: a tensor is a parameter of PTX by its name, which has ASCII letters, digits and _; "
                        f"{parameter.name!r} has others"
                    )
                self.tensors.append(parameter.name)
            else:
                stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
                raise TypeError(
                    f"kernel {self.name}: {stars}{parameter.name} cannot be a tensor or a template value: write each parameter"
                )

    def _check(self, options: Options):
        for name in options.mutates:
            if name not in self.input_names:
                raise ValueError(f"mutates of kernel {self.name}: {name!r} is not one of its inputs {self.input_names}")
        if [name for name in self.tensors if name in self.declared] != list(self.declared):
            raise ValueError(
                f"raw_params of kernel {self.name}: {list(self.declared)} are not tensors of it, {self.tensors}, in their order"
            )
        for raw in self.raw:
            if raw.name in self.tensors and self.tiles:
                raise ValueError(
                    f"raw_params of kernel {self.name}: {raw.name!r} is the name of a tensor already; a scalar is no parameter "
                    f'of the function, its body reads it: ptx.param({raw.type.name}, "{raw.name}")'
                )
        batch = options.batch
        if batch is None or batch in GRID_AXES:
            return
        whose = f"batch={batch!r} of kernel {self.name}"
        if batch not in self.symbols or batch in self.template:
            raise ValueError(
                f"{whose} is neither grid.x, grid.y or grid.z nor a dimension of its Tiles: {self.symbols}"
            )
        for name, tile in self.tiles.items():
            if batch in tile.shape[1:]:
                raise ValueError(
                    f"{whose}: it must be the first dimension of every Tile that has it, and is not that of {name}"
                )
        for name, tile in zip(self.tensors[len(self.inputs) :], self.outputs, strict=False):
            if tile.shape[0] != batch:
                raise ValueError(f"{whose}: it must be the first dimension of every output, and is not that of {name}")

    def check_callable(self, kernel):
        """Refuses a kernel whose arguments are not described."""
        if not self.callable:
            raise NotImplementedError(
                f"{kernel!r} has neither in_specs nor out_specs, so it can be read (.ptx()) but not called"
            )

    def check_count(self, kernel, arrays: tuple):
        """Refuses a kernel that cannot be called, and another number of arrays than it has inputs."""
        if _core.current_trace() is not None and all(isinstance(each, (TensorSpec, _core.Reg)) for each in arrays):
            raise AuthoringTypeError(
                f"{self.name} is a kernel, and a body calls functions: write it without @kernel, and its instructions "
                "stand here; or make it a device function, by @ptx.func"
            )
        self.check_callable(kernel)
        if len(arrays) != len(self.inputs):
            count = len(self.inputs)
            given = f"expected {count} input array{'s' * (count != 1)}, got {len(arrays)}"
            raise LaunchTypeError(f"{self.name}: {given}{self._what_differs(arrays)}")

    def _what_differs(self, arrays: tuple) -> str:
        """Which arrays are not given, or what those too many may be meant for."""
        if missing := self.input_names[len(arrays) :]:
            return f": {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not given"
        rest = arrays[len(self.inputs) :]
        if all(isinstance(each, (int, float)) for each in rest):
            return ": numbers are given by name, those of raw_params and of parameters behind the *"
        return ": outputs are returned, and out= brings memory for them" if len(rest) == len(self.outputs) else ""

    def named_tensors(self, count: int, keywords: Iterable[str]) -> tuple[str, ...]:
        """The inputs that a call with `count` arrays by position gives by name, in their order.  A name that is also a
        template value, a size or a scalar is that."""
        names, given = self.input_names, {name for name in keywords if name not in self.known}
        twice = given.intersection(names[:count])
        if twice:
            raise LaunchTypeError(f"{self.name}: argument `{min(twice)}` is given twice, by position and by name")
        if outputs := given.intersection(self.tensors[len(names) :]):
            raise LaunchTypeError(
                f"{self.name}: `{min(outputs)}` is an output, which the call returns; pass memory for it as out="
            )
        rest = names[count:]
        missing = [name for name in rest if name not in given]
        if missing and len(missing) < len(rest):
            raise LaunchTypeError(f"{self.name}: argument `{missing[0]}` is not given")
        return () if missing else tuple(rest)

    def split(self, keywords: Mapping[str, Any]) -> Arguments:
        """Keyword arguments by what they are.  A name may be several things; a template integer may size a tensor."""
        template, sizes, scalars = {n: v for n, v in self.template.items() if n not in self.required}, {}, {}
        raw = {param.name for param in self.raw}
        for name, value in keywords.items():
            if name not in self.known:
                raise TypeError(f"kernel {self.name} has no template parameter {name!r}; {self._known_names()}")
            if name in self.symbols:
                try:
                    if isinstance(value, bool):
                        raise TypeError
                    sizes[name] = operator.index(value)
                except TypeError:
                    raise TypeError(f"dimension {name!r} of kernel {self.name} must be an int, not {value!r}") from None
                if sizes[name] < 0:
                    raise ValueError(f"dimension {name!r} of kernel {self.name} must not be negative, got {value!r}")
            if name in self.template:
                template[name] = value
            if name in raw:
                scalars[name] = value
        for name in self.symbols:
            if name not in sizes and type(template.get(name)) is int:
                sizes[name] = template[name]
        return Arguments(template, sizes, scalars)

    def _known_names(self) -> str:
        """Which keywords a call may have, for messages."""
        kinds = {
            "arrays": self.input_names, "template parameters": sorted(self.template), "dimensions": sorted(self.symbols),
            "raw parameters": sorted(param.name for param in self.raw),
        }  # fmt: skip
        return "there are " + ", ".join(f"{kind} {', '.join(names)}" for kind, names in kinds.items() if names)

    def with_shapes(self, given: Arguments, shapes: Iterable[tuple[int, ...]]) -> Arguments:
        """The same with the sizes that the inputs give."""
        sizes = [given.sizes]
        for name, tile, shape in zip(self.tensors, self.inputs, shapes, strict=False):
            try:
                sizes.append(tile.extract_env(shape))
            except Misfit as error:
                raise self._misfit(error, f"argument `{name}`: {error}") from None
        whose = ["the call", *(f"`{name}`" for name in self.input_names)]
        try:
            return given._replace(sizes=unify_envs(sizes, whose))
        except Misfit as error:
            raise self._misfit(error, str(error)) from None

    def _misfit(self, error: Misfit, message: str) -> LaunchValueError:
        diagnostic = _core.Diagnostic(error.code, "", 0, f"{self.name}: {message}")
        return LaunchValueError(str(diagnostic), [diagnostic])

    def template_of(self, given: Arguments) -> dict[str, Any]:
        """What the body is called with: a parameter without a default that is a symbol is the symbol's size."""
        missing = self.required - given.template.keys()
        if not missing:
            return given.template
        template = dict(given.template)
        for name in sorted(missing):
            if name not in given.sizes:
                raise TypeError(f"kernel {self.name}: template parameter {name!r} has no default: pass {name}=...")
            template[name] = given.sizes[name]
        return template

    def unbound(self, keywords: Mapping[str, Any] | None) -> dict[str, Any]:
        """Those of the keywords that are sizes which no input gives."""
        return {n: size for n, size in (keywords or {}).items() if n in self.symbols and n not in self.bound}

    def sizes_of_outputs(self, given: Arguments, shapes: Iterable[tuple[int, ...]]) -> dict[str, int]:
        """The sizes that only outputs with these shapes give.  An output that does not fit is refused by the launch."""
        found: dict[str, int] = {}
        for tile, shape in zip(self.outputs, shapes, strict=False):
            with contextlib.suppress(Misfit):
                found = tile.extract_env(shape) | found
        return {name: size for name, size in found.items() if name not in given.sizes}

    def scalar_values(self, given: Arguments) -> list[Any]:
        """The value of each runtime scalar: given by name, or the size or template value of its name."""
        values = []
        for raw in self.raw:
            for source in (given.scalars, given.sizes, given.template):
                if source.get(raw.name) is not None:
                    values.append(source[raw.name])
                    break
            else:
                raise LaunchTypeError(
                    f"{self.name}: argument `{raw.name}` ({raw.spelled}) is not given: pass {raw.name}=..."
                )
        return values
