"""The decorator `@kernel` and what it makes: a function that is PTX.

A `Kernel` traces its body once a specialisation (template values, sizes of symbolic dimensions, target, PTX version) and
keeps the result.  Everything done per instruction or per call is C++; this file knows the author's signature and nothing
of PTX.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from pyptx import _core
from pyptx._arch import detect_arch
from pyptx._frozen import frozen
from pyptx.errors import AuthoringValueError
from pyptx.specs import Layout, Tile
from pyptx.types import from_name

__all__ = ["Kernel", "TensorSpec", "TmaDescriptorHandle", "kernel"]

_SCHEMAS = 1  # raised when ops of torch get other arguments: compiled code on disk calls them by name
_KEPT = 128  # specialisations of one kernel that are kept; the least recently used goes first


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


class _Shape(tuple):
    """A shape some of whose sizes are not known: the others may be read."""

    unbound = ""  # what reading an unknown size (a str, its symbol) raises

    def __getitem__(self, index):
        found = super().__getitem__(index)
        for size in found if isinstance(index, slice) else (found,):
            if isinstance(size, str):
                raise AuthoringValueError(self.unbound)
        return found

    def __iter__(self):
        return iter(self[:])


class TensorSpec:
    """A tensor argument inside the body: its name and, where the kernel's specs say so, shape, dtype and layout."""

    __slots__ = ("dtype", "layout", "name", "shape")

    def __init__(
        self, name: str, shape: tuple[int, ...] | None = None, dtype: Any = None, layout: Layout | None = None
    ):
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.layout = layout

    def tma_desc(self):
        """The tensor's map: a register with its address inside a kernel, a symbolic handle outside."""
        trace = _core.current_trace()
        return TmaDescriptorHandle(self) if trace is None else trace.tma_desc(self.name)

    def __repr__(self):
        shape = None if self.shape is None else tuple.__repr__(self.shape)
        return f"TensorSpec({self.name!r}, shape={shape}, dtype={self.dtype})"


class _Specialisation:
    """One traced body: the module, its text, and what the first call of it adds: the launch record, a plan a device."""

    def __init__(self, module):
        self.module = module
        self.record = None
        self.embedded = None  # what an exported torch program carries
        self.plans: dict[Any, Any] = {}
        self._texts: dict[bool, str] = {}

    def text(self, lineinfo: bool) -> str:
        found = self._texts.get(lineinfo)
        if found is None:
            found = self._texts.setdefault(lineinfo, self.module.emit(lineinfo=lineinfo))
        return found


class _RawParam:
    """One entry of raw_params: ("u64.ptr.global.palign16", "x")."""

    def __init__(self, spelled: str, name: str):
        base, *rest = spelled.removeprefix(".").split(".")
        self.spelled, self.name, self.type = spelled, name, from_name(base)
        self.pointer = False
        self.space = ""
        self.alignment = self.pointer_alignment = 0
        self.array: int | None = None
        for part in rest:
            if part == "ptr":
                self.pointer = True
            elif part in ("global", "shared", "local", "const", "param"):
                self.space = part
            else:
                self._number(part)

    def _number(self, part: str):
        for prefix, field in (("align", "alignment"), ("palign", "pointer_alignment"), ("array", "array")):
            digits = part.removeprefix(prefix)
            if digits != part and digits.isdecimal():
                setattr(self, field, int(digits))
                return
        raise ValueError(
            f"raw_params: {self.spelled!r} of {self.name!r} is not type[.ptr][.space][.alignN][.palignN][.arrayN]"
        )


class Kernel(_core.Launcher):
    """A Python function whose body is PTX.  Made by `@kernel`."""

    def __init__(
        self,
        fn: Callable,
        arch: str = "sm_90a",
        version: tuple[int, int] | None = None,
        in_specs: Sequence[Tile] | None = None,
        out_specs: Sequence[Tile] | None = None,
        grid: Any = None,
        block: tuple[int, int, int] = (1, 1, 1),
        cluster: tuple[int, int, int] = (1, 1, 1),
        smem: int = 0,
        raw_params: Sequence[tuple[str, str]] | None = None,
        extern_smem: bool | str = False,
        reqntid: tuple[int, ...] | None = None,
        raw_directives: Sequence[tuple[str, tuple]] | None = None,
        mutates: Sequence[str] = (),
        batch: str | None = None,
        cooperative: bool = False,
        dependent_launch: bool = False,
        priority: int = 0,
        shared_carveout: int | None = None,
    ):
        self._fn = fn
        self._entry = re.sub(r"[^A-Za-z0-9_$]", "_", fn.__name__)  # "<lambda>" is no name of PTX
        self._arch = detect_arch() if arch == "auto" else arch
        self._version = None if version is None else tuple(version)
        self._in_specs = tuple(in_specs or ())
        self._out_specs = tuple(out_specs or ())
        self._has_specs = in_specs is not None or out_specs is not None
        self._callable = in_specs is not None
        self._grid = grid
        self._block = block
        self._cluster = cluster
        self._smem = smem
        self._raw = [_RawParam(spelled, name) for spelled, name in raw_params or ()]
        self._extern_smem = "global_smem" if extern_smem is True else extern_smem or ""
        self._directives = self._spell_directives(reqntid, raw_directives)
        self._attributes = {
            "cooperative": bool(cooperative),
            "dependent": bool(dependent_launch),
            "priority": int(priority),
            "shared_carveout": _percent(shared_carveout),
        }
        self._read_signature()
        self._mutates = (mutates,) if isinstance(mutates, str) else tuple(mutates)
        self._batch = batch
        self._check_options()
        mutated = [self._tensors.index(name) for name in self._mutates]
        _core.declare(self, "out" not in self._known, "stream" not in self._known, mutated)
        self._kept: OrderedDict[Any, _Specialisation] = OrderedDict()
        self._jax_sites: dict[Any, Any] = {}  # by what a call with JAX values looks like
        self._lock = threading.Lock()
        functools.update_wrapper(self, fn)

    # What the author gave.

    @property
    def in_specs(self):
        """Tiles of the inputs."""
        return self._in_specs

    @property
    def out_specs(self):
        """Tiles of the outputs."""
        return self._out_specs

    @property
    def grid(self):
        """The grid, or the function that makes it of the symbolic dimensions."""
        return self._grid

    @property
    def block(self):
        """Threads of a CTA."""
        return self._block

    @property
    def cluster(self):
        """CTAs of a cluster."""
        return self._cluster

    @property
    def smem(self):
        """Bytes of dynamic shared memory that the author asked for."""
        return self._smem

    @property
    def arch(self) -> str:
        """The target, for example sm_90a."""
        return self._arch

    @property
    def mutates(self) -> tuple[str, ...]:
        """Names of the inputs that the kernel writes."""
        return self._mutates

    @property
    def batch(self) -> str | None:
        """What several calls may be made one along: a symbolic dimension, or an axis of the grid."""
        return self._batch

    @property
    def template_params(self) -> dict[str, Any]:
        """Keyword-only parameters of the function and their defaults."""
        return dict(self._template)

    def __repr__(self):
        return f"Kernel({self._fn.__name__}, arch={self._arch!r})"

    # What it makes of it.

    def ptx(self, /, **kwargs) -> str:
        """The PTX text of one specialisation: kernel.ptx(M=4096, BM=128).

        `lineinfo=True` adds .file and .loc lines that lead back to the author's source.
        """
        lineinfo = bool(kwargs.pop("lineinfo", False)) if "lineinfo" not in self._known else False
        return self._specialise(kwargs).text(lineinfo)

    def module(self, /, **kwargs):
        """The ir module of one specialisation; the same object for the same arguments."""
        return self._specialise(kwargs).module

    def sass(self, /, **kwargs) -> str:
        """What the machine executes: the text assembled and disassembled."""
        found = self._specialise(kwargs)
        return _core.sass(found.text(False), self._arch, self._fn.__name__, found.module.lines)

    def resources(self, /, **kwargs):
        """Registers, spills, shared memory and occupancy of one specialisation: a `Resources`.  Needs no GPU."""
        from pyptx.launch import resources

        return resources.of(self, kwargs)

    # A call is `Launcher.__call__`, in C++: CUDA tensors run on their device, CPU tensors and arrays on the simulator. It comes
    # here with arguments that it has not seen.
    def _slow_call(self, arrays, kwargs, out=None, stream=None):
        jax = sys.modules.get("jax")
        if jax is not None and any(isinstance(array, jax.Array) for array in arrays):
            from pyptx.frameworks.jax import call as jax_call

            if out is not None or stream is not None:
                raise TypeError(f"kernel {self._fn.__name__}: JAX makes the outputs and chooses the stream")

            return jax_call.call(self, arrays, kwargs)
        from pyptx.launch.call import call

        return call(self, arrays, kwargs, out, stream)

    # What torch.compile makes of a call. Dynamo traces `_traced_call`, and checks at every later call all that it read: the
    # less the better. The methods after it are marked as constant: it runs them and keeps what they return. Nothing here
    # may touch torch before it is loaded, hence no decorators.

    _torch_family = _torch_op = None

    def _traced_call(self, *arrays, **kwargs):
        if (
            "out" in kwargs and "out" not in self._known
        ):  # an op's outputs are its own: copied, where a call would write
            kwargs = dict(kwargs)
            out = kwargs.pop("out")
            results = self._traced_call(*arrays, **kwargs)
            single = len(self._out_specs) == 1
            for given, result in zip((out,) if single else out, (results,) if single else results, strict=True):
                given.copy_(result)
            return out
        exporting = self._prepare_op()
        if kwargs:
            names = self._template_names(tuple(kwargs))
            spelled = self._spell_template(names, tuple([kwargs[name] for name in names]))
            kwargs = {name: value for name, value in kwargs.items() if name not in names}
            if spelled:
                kwargs["template"] = spelled
        if exporting:
            from pyptx.frameworks.torch import export

            return export.embedded(self._op_name(), arrays, **kwargs)
        return self._torch_op(*arrays, **kwargs)

    def _prepare_op(self) -> bool:
        """Registers the op; true where the call belongs to an exported program."""
        from pyptx.frameworks.torch import call

        return call.prepare(self)

    def _op_name(self) -> str:
        """Of torch's op `pyptx::<name>`; equal in every process that runs the same source."""
        from pyptx.frameworks.identity import fingerprint  # hashlib takes longer to import than this package

        return f"{self._entry.replace('$', '_')}_{fingerprint(self, _SCHEMAS)}"

    def _template_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        self._split(dict.fromkeys(name for name in names if name not in self._symbols))  # refuses unknown names
        bound = {name for tile in self._in_specs for name in tile.symbolic_dims} - set(self._template)
        for name in bound.intersection(names):
            raise TypeError(f"kernel {self._fn.__name__}, as a torch op: the inputs give {name}; do not pass it")
        return tuple(name for name in names if name in self._template)

    def _spell_template(self, names: tuple[str, ...], values: tuple) -> str:
        from pyptx.frameworks.torch import ops

        return ops.spell_template(self, dict(zip(names, values, strict=True)))

    for _method in (_prepare_op, _op_name, _template_names, _spell_template):
        _method._dynamo_marked_constant = True  # what torch.compiler.assume_constant_result sets
    del _method

    def _identity(self):
        """All that decides what a call does, for `identity.fingerprint`."""
        raw = [(param.spelled, param.name) for param in self._raw]
        tiles = [repr(tile) for tile in self._in_specs + self._out_specs]
        return (
            self._fn, self._arch, self._version, tiles, len(self._in_specs), self._grid, self._block, self._cluster,
            self._smem, raw, self._extern_smem, self._directives, self._mutates, self._batch, self._attributes,
        )  # fmt: skip

    # How.

    @staticmethod
    def _spell_directives(reqntid, raw_directives) -> list[str]:
        rows = [("reqntid", reqntid)] if reqntid is not None and not raw_directives else raw_directives or ()
        return [f".{name} {', '.join(str(value) for value in values)}".rstrip() for name, values in rows]

    def _read_signature(self):
        self._tensors: list[str] = []
        self._template: dict[str, Any] = {}
        for parameter in inspect.signature(self._fn).parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY:
                default = parameter.default
                self._template[parameter.name] = None if default is parameter.empty else default
            elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                self._tensors.append(parameter.name)
            else:
                raise TypeError(
                    f"kernel {self._fn.__name__}: *{parameter.name} can be neither a tensor nor a template value"
                )
        specs = self._in_specs + self._out_specs
        if self._has_specs and len(specs) > len(self._tensors):
            raise TypeError(
                f"kernel {self._fn.__name__} takes {len(self._tensors)} tensors but has specs for {len(specs)}"
            )
        self._specs = dict(zip(self._tensors, specs, strict=False))
        self._symbols = list(dict.fromkeys(name for tile in specs for name in tile.symbolic_dims))
        self._known = {*self._template, *self._symbols, *(raw.name for raw in self._raw)}

    def _check_options(self):
        inputs = self._tensors[: len(self._in_specs)]
        for name in self._mutates:
            if name not in inputs:
                raise ValueError(f"mutates of kernel {self._fn.__name__}: {name!r} is none of its inputs {inputs}")
        if self._batch is None:
            return
        whose = f"batch={self._batch!r} of kernel {self._fn.__name__}"
        if self._batch in ("grid.x", "grid.y", "grid.z"):
            return
        if self._batch not in self._symbols or self._batch in self._template:
            raise ValueError(
                f"{whose} is neither grid.x, grid.y or grid.z nor a dimension of its Tiles: {self._symbols}"
            )
        for name, tile in self._specs.items():
            if self._batch in tile.shape[1:]:
                raise ValueError(f"{whose}: it is the first dimension of every Tile that has it, but not of {name}")
        for name, tile in zip(self._tensors[len(self._in_specs) :], self._out_specs, strict=False):
            if tile.shape[0] != self._batch:
                raise ValueError(f"{whose}: every output has it as its first dimension, but {name} has not")

    def _split(self, kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int], dict[str, Any]]:
        """Keyword arguments as (template values, sizes of symbols, raw scalars)."""
        template, env, scalars = dict(self._template), {}, {}
        raw = {param.name for param in self._raw}
        for name, value in kwargs.items():
            if name not in self._known:
                raise TypeError(
                    f"kernel {self._fn.__name__} has no template parameter {name!r}; template parameters: "
                    f"{sorted(self._template)}, dimensions: {sorted(self._symbols)}, raw parameters: {sorted(raw)}"
                )
            if name in self._symbols:
                if isinstance(value, bool) or not hasattr(value, "__index__"):
                    raise TypeError(f"dimension {name!r} of kernel {self._fn.__name__} is an int, not {value!r}")
                env[name] = value.__index__()
            if name in self._template:
                template[name] = value
            if name in raw:
                scalars[name] = value
        for name in self._symbols:  # a template value may size a tensor
            if name not in env and type(template.get(name)) is int:
                env[name] = template[name]
        return template, env, scalars

    def _specialise(self, kwargs: dict[str, Any]) -> _Specialisation:
        template, env, _ = self._split(kwargs)
        return self._find(template, env)

    def _find(self, template: dict[str, Any], env: dict[str, int]) -> _Specialisation:
        key = (
            self._arch,
            self._version,
            tuple((name, frozen(value)) for name, value in template.items()),
            tuple(sorted(env.items())),
        )
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        made = self._trace(template, env)  # unlocked: the body is the author's code and may take long
        with self._lock:
            found = self._kept.setdefault(key, made)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def _tensor_spec(self, name: str, env: dict[str, int]) -> TensorSpec:
        tile = self._specs.get(name)
        if tile is None:
            return TensorSpec(name)
        missing = [symbol for symbol in tile.symbolic_dims if symbol not in env]
        shape = _Shape(env.get(size, size) for size in tile.shape)
        given = ", ".join(f"{symbol}=..." for symbol in missing)
        shape.unbound = (
            f"the shape of {name} in kernel {self._fn.__name__} is not known: give {given}, "
            f"as in {self._fn.__name__}.ptx({given}), or call the kernel with tensors"
        )
        return TensorSpec(name, shape if missing else tuple(shape), tile.dtype, tile.layout)

    def _trace(self, template: dict[str, Any], env: dict[str, int]) -> _Specialisation:
        trace = _core.Trace(self._entry, self._arch, self._version, self._extern_smem, self._smem, self._directives)
        if self._has_specs:
            for name in self._tensors:
                trace.add_pointer(name)
        for raw in self._raw:
            trace.add_raw(raw.spelled, raw.name)
        with trace:
            self._fn(*(self._tensor_spec(name, env) for name in self._tensors), **template)
        module = trace.finish()
        if beyond := [note for note in module.notes if note.name == "assembler_only"]:
            from pyptx.launch import resources

            resources.warn(beyond)
        return _Specialisation(module)

    def _grid_of(self, env: dict[str, int], template: dict[str, Any]) -> tuple[int, int, int]:
        grid = self._grid
        if callable(grid):
            grid = self._call_grid(grid, {**template, **env}, list(env.values()))
        return _three(grid, "grid")

    def _call_grid(self, grid, known: dict[str, Any], sizes: list[int]):
        # Which way to call it is read off its signature: an error inside it must reach the author as it is.
        parameters = inspect.signature(grid).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            return grid(**{name: known[name] for name in self._symbols if name in known})
        named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        missing = [p.name for p in named if p.name not in known and p.default is p.empty]
        if not missing and len(named) == len(parameters):
            return grid(**{p.name: known[p.name] for p in named if p.name in known})
        if len(parameters) == len(sizes):
            return grid(*sizes)
        raise TypeError(
            f"grid of kernel {self._fn.__name__} asks for {', '.join(missing)}; the kernel's dimensions are "
            f"{', '.join(self._symbols) or 'none'}"
        )


_core.show_call(Kernel, Kernel._traced_call)


def _three(value, what: str) -> tuple[int, int, int]:
    if value is None:
        return (1, 1, 1)
    parts = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(parts) <= 3:
        raise ValueError(f"{what} has one to three sizes, not {value!r}")
    return tuple(part.__index__() for part in parts) + (1,) * (3 - len(parts))


def _percent(value: int | None) -> int:
    if value is None:
        return -1
    if not 0 <= value <= 100:
        raise ValueError(f"shared_carveout is a percentage, 0 to 100, not {value!r}")
    return int(value)


def kernel(
    fn: Callable | None = None,
    *,
    arch: str = "sm_90a",
    version: tuple[int, int] | None = None,
    in_specs: Sequence[Tile] | None = None,
    out_specs: Sequence[Tile] | None = None,
    grid: Any = None,
    block: tuple[int, int, int] = (1, 1, 1),
    cluster: tuple[int, int, int] = (1, 1, 1),
    smem: int = 0,
    raw_params: Sequence[tuple[str, str]] | None = None,
    extern_smem: bool | str = False,
    reqntid: tuple[int, ...] | None = None,
    raw_directives: Sequence[tuple[str, tuple]] | None = None,
    mutates: Sequence[str] = (),
    batch: str | None = None,
    cooperative: bool = False,
    dependent_launch: bool = False,
    priority: int = 0,
    shared_carveout: int | None = None,
) -> Any:
    """Makes a `Kernel` of a function; usable bare (`@kernel`) or with arguments (`@kernel(arch="sm_100a")`).

    `mutates` names the inputs that the kernel writes.  `batch` says how several calls become one, for vmap and sharding:
    the name of the first dimension of Tiles, along which every index is computed on its own, or "grid.z" (x, y) where
    the body adds %ctaid.z times a tensor's size to the address of each.

    How it is launched: `cooperative` (all CTAs resident at once, so that they may wait for each other), `dependent_launch`
    (programmatic dependent launch: it may start before the kernels ahead of it have ended, see griddepcontrol),
    `priority` (as for streams), `shared_carveout` (percent of the L1 memory that is shared memory).
    """

    def make(function: Callable) -> Kernel:
        return Kernel(
            function, arch, version, in_specs, out_specs, grid, block, cluster, smem, raw_params, extern_smem, reqntid, raw_directives,
            mutates, batch, cooperative, dependent_launch, priority, shared_carveout,
        )  # fmt: skip

    return make if fn is None else make(fn)
