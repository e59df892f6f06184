"""`RowFunction`: a function of tensors whose last dimension is a row.  It has a kernel for each combination of element types.  A call gives the kernel that
fits its tensors what that takes, and gives the results the shape that the caller expects.  What kernels do is not said here: _rows/ has their parts."""

import functools
import math
from dataclasses import dataclass, field

from pyptx import _core, differentiable_kernel
from pyptx.errors import LaunchTypeError
from pyptx.frameworks.differentiable import keywords_of
from pyptx.kernels._apart import apart_backward, are_apart, laid, packed
from pyptx.kernels._checks import check_arrays, check_devices, check_numbers, check_shape, check_type_of_out
from pyptx.kernels._compiled import constant, constant_for_compiler, kept
from pyptx.kernels._memory import copied_to, dense, has_memory_apart, shares_memory, viewed
from pyptx.kernels._rows.apart import can_lie_apart, in_place, scalars_of
from pyptx.kernels._rows.split import OWN, Split, has_edges, shorter
from pyptx.kernels._target import has_clusters, simulated
from pyptx.kernels._torch_state import compiling, heed_autocast, widened_by_autocast
from pyptx.kernels._types import TYPES, spelled, type_name

__all__ = ["FUNCTIONS", "Argument", "RowFunction"]

# Elements of rows that are made longer, if 8 divides all elements; the most that they have then.
SHORT, JOINED = 64, 4096
# (elements of a row at most, rows up to which threads that have rows of their own do not fill a GPU)
FEW_ROWS = ((16, 65536), (OWN, 8192))
# Elements up to which a matrix has rows of so few that a thread has one vector, or two: more take long to compute.
SMALL, PIECE = 2**21, 16

ROLES = ROWS, EACH_ROW, VECTOR, LINE, WHOLE = "rows", "each row", "vector", "line", "whole"


@dataclass(frozen=True)
class Argument:
    """A tensor that a function over rows takes.

    name: what messages call it.
    role: what it is to the kernel.  "rows": a matrix.  "each row", "vector": a vector with one element for each row, or for each column.  "line": a vector of
        all elements, whatever the tensor's shape.  "whole": the tensor as it is.
    types: the legal ones, by the names of frameworks.
    needed: whether it may not be None; not looked at behind one that may.
    saved: whether the backward takes it.
    gradient: whether the backward makes its gradient, if it holds real numbers.
    """

    name: str
    role: str
    types: dict = field(default_factory=lambda: TYPES)
    needed: bool = True
    saved: bool = True
    gradient: bool = True

    def __post_init__(self):
        assert self.role in ROLES, self.role


class RowFunction(_core.Choice):
    """A function of tensors whose last dimension is a row.  It is called as `function((x, w), out, eps=1e-6)`: in C++ for tensors that
    look like those of an earlier call, otherwise by `_choose`.

    make: `make(split, *types)` returns the kernel and its backward (or None).  `split` says how threads share rows; `types` are the PTX
        types of the tensors, None for a tensor that is None.
    arguments: the tensors, first those with rows, and those with a gradient in front of those without.
    called: what messages call the function.
    cut: whether the kernels cut long rows into pieces, since no element of the result depends on all of a row.
    halves: whether rows of the result have half as many elements.
    flattens: whether the kernels take matrices.  If not, they take packed tensors of any rank as they are, and results are not reshaped.
    saved_results: positions of the results that the backward needs.  They stand behind the results that have gradients.
    float32: is called instead of the function where torch's autocast widens its result to f32.
    told: `told(tensors, options)` returns what the kernel is told, of the options of a call; by default, these.
    defaults: defaults of the kernels' template values.

    Classes that derive from this one would lose the call in C++: `_core.show_call` gives this one a `__call__` that they inherit.
    """

    def __init__(
        self, name: str, make, *arguments: Argument, called: str = "", cut: bool = False, halves: bool = False, flattens: bool = True,
        saved_results: tuple = (), float32=None, told=None, **defaults,
    ):  # fmt: skip
        self.name, self.called, self.arguments, self.defaults = name, called or name, arguments, defaults
        self.cut, self.halves, self.flattens = cut, halves, flattens
        self.saved_results, self.float32, self.told = saved_results, float32, told
        # What calls read, as few constants: torch.compile compares them at every call.
        self.names, self.roles = [each.name for each in arguments], tuple([each.role for each in arguments])
        self.rows, self.has_lines = self.roles.count(ROWS), LINE in self.roles
        self.needed = next((at for at, each in enumerate(arguments) if not each.needed), len(arguments))
        self.made = functools.cache(functools.partial(self._made, make))
        self.run_for = functools.cache(self._run_for)
        FUNCTIONS[name] = self
        simulated.add(self)

    def _made(self, make, types, wide: bool, few: bool):
        share, told = Split.wide if wide else Split.once, {"own": False} if few else {}
        return make(functools.partial(share, bits=max(each.bits for each in types[: self.rows]), **told), *types)

    def kernel(self, *types, wide: bool = False):
        """The kernel for these PTX types, to read or to launch by itself; `wide`: the one for GPUs with clusters."""
        return self.made(types, wide, False)[0]

    def _run_for(
        self, dtypes: tuple, wide: bool, differentiable: bool, way: str = "", rank: int = 0, few: bool = False
    ):
        """What runs for tensors of these types: a kernel, or a kernel joined with its backward.  `way`: as of `_lies`, of tensors of so many dimensions.
        `few`: as of `_are_few`."""
        types = tuple(map(self._ptx_type, self.arguments, dtypes))
        forward, backward = self.made(types, wide, few)
        forward = forward.apart(rank, way == "packed") if way else forward
        if backward is None or not differentiable:
            return forward
        there = [argument for argument, dtype in zip(self.arguments, types, strict=False) if dtype is not None]
        made = differentiable_kernel(
            forward,
            apart_backward(backward) if way else backward,
            save_for_backward=[position for position, each in enumerate(there) if each.saved],
            num_grad_inputs=sum(each.gradient and each.types is TYPES for each in there),
            save_outputs=self.saved_results,
            num_grad_outputs=min(self.saved_results, default=None),
        )
        made.refuses_others = True
        if way:
            made.accepted, made.packs_gradients = keywords_of(backward), False
        return made

    def _ptx_type(self, argument: Argument, dtype):
        if dtype is None:
            return None
        if (name := spelled(dtype)) not in argument.types:
            raise LaunchTypeError(
                f"{self.called}: `{argument.name}` is of {name}; legal are {', '.join(argument.types)}"
            )
        return argument.types[name]

    def _for_compiler(self, *key):
        """What `run_for` returns, as an attribute, because torch.compile can find that again."""
        return getattr(self, name_for_compiler(self.name, *key))

    def _choose(self, tensors, out=None, **options):
        check_arrays(self.called, self.names, tensors, out, self.rows, self.needed)
        given, options = options, options if self.told is None else self.told(tensors, options)
        traced = compiling(tensors[0])
        if self.float32 is not None and not traced:
            heed_autocast(self, tensors[0])
        if self.float32 is not None and out is None and widened_by_autocast(tensors[0]):
            return self.float32(tensors, **given)
        if not traced:
            check_numbers(self.called, options, self.defaults)
            check_devices(self.called, self.names, tensors, out)
        if not traced or len(tensors[0].shape) != 2:  # of a matrix, the kernel's op says the same to a compiler
            self._check_shapes(tensors, out)
        dtypes = tuple([None if tensor is None else tensor.dtype for tensor in tensors])
        wide = has_clusters(tensors[0])
        if traced:
            options = {key: value if self.defaults[key] is None else constant(value) for key, value in options.items()}
        # A default is a number of the program to torch.compile(dynamic=True); the kernel's own is a constant.
        named = {key: value for key, value in options.items() if value != self.defaults[key]}
        if traced:
            return self._run(self._for_compiler(dtypes, wide, out is None), tensors, out, named, traced, None)
        if out is not None:
            check_type_of_out(self.called, self.run_for(dtypes, wide, False), out)
        there = tuple([each for each in tensors if each is not None])
        recorded = out is None and _core.are_recorded(there)
        # To make an op with its backward takes a tenth of a second, which a process that asks for no gradients need not wait for.
        differentiable = out is None and not _core.are_plain(there)
        if way := self._lies(tensors, out, recorded):
            call = functools.partial(self._run_apart, way, dtypes, wide, differentiable, tensors, out, named)
        else:
            run = self.run_for(dtypes, wide, differentiable, "", 0, self._are_few(tensors[0].shape))
            call = functools.partial(self._run, run, tensors, out, named)
        if recorded:
            return call(keep=functools.partial(self._keep, tensors, given))
        return _core.remember_launches(self, tuple(tensors), out, given, call)

    def _check_shapes(self, tensors, out):
        """Raises LaunchValueError for shapes that do not fit.  A kernel compares those of matrices, but not of what is flattened."""
        shape = tensors[0].shape
        for name, role, each in zip(self.names, self.roles, tensors, strict=False):
            if role == ROWS:
                check_shape(self.called, f"`{name}`", each, shape)
            elif role == VECTOR and each is not None:
                check_shape(self.called, f"`{name}`", each, shape[-1:], ": one for each column")
        if out is not None:
            check_shape(self.called, "out", out, (*shape[:-1], shape[-1] // 2) if self.halves else shape)

    def _keep(self, tensors, options: dict, run, arrays, named: dict):
        """Remembers that calls like this one, which ask for a gradient, are a call of a differentiable kernel, if it takes their tensors."""
        there = [index for index, each in enumerate(tensors) if each is not None]
        if hasattr(run, "of_torch") and all(tensors[index] is each for index, each in zip(there, arrays, strict=True)):
            from pyptx.frameworks.torch.differentiable import recorded

            function = functools.partial(recorded, run.of_torch, named)
            _core.remember_derivative(self, tuple(tensors), options, function, there)

    def _run(self, run, tensors, out, named: dict, traced=False, keep=None):
        shape = tensors[0].shape
        columns = shape[-1] if traced else self._columns(tensors, recorded=keep is not None)
        as_it_is = (len(shape) == 2 and columns == shape[-1]) or not self.flattens
        given = [dense(tensor, traced) for tensor in tensors if tensor is not None]
        if not as_it_is or self.has_lines:
            roles = [role for role, tensor in zip(self.roles, tensors, strict=False) if tensor is not None]
            given = [
                each if as_it_is and role != LINE else flat(role, each, shape, columns)
                for role, each in zip(roles, given, strict=True)
            ]
        if keep is not None:
            keep(run, given, named)
        if out is None:
            result = run(*given, **named)
            return result if as_it_is else self._shaped(result, shape)
        place = out if traced else dense(out, traced)
        if not traced and self._has_edges(tensors, columns) and any(shares_memory(place, each) for each in given):
            made = self._shaped(run(*given, **named), shape)
            return copied_to(self.called, out, made)  # rows read neighbours' elements
        rows = math.prod(shape[:-1]) if columns == shape[-1] else math.prod(shape) // columns
        width = columns if out.shape == shape else out.shape[-1]  # of halves, the result is narrower
        run(*given, out=place if as_it_is else viewed(place, rows, width), **named)
        return out if place is out else copied_to(self.called, out, place)

    def _shaped(self, result, shape):
        """The results for rows of a shape: one element for each row, or rows, that may have another number of columns unless they were cut anew."""
        if isinstance(result, tuple):
            return tuple([self._shaped(each, shape) for each in result])
        if len(result.shape) != 2:
            return result.reshape(shape[:-1])
        return result.reshape(shape if self._cuts_anew() else (*shape[:-1], result.shape[-1]))

    def _cuts_anew(self) -> bool:
        """Whether elements of the result are those at the same places of the tensors, so that rows may be any."""
        return self.cut and not self.halves

    def _columns(self, tensors, recorded: bool) -> int:
        """The columns of the rows that the kernel is given: those of the tensors or, where elements do not depend on others and vectors do not divide
        rows, or they are short, or matrices are small, of others that the same memory has: a power of two, or what divides eight rows of the
        tensors, times one.  So there are few kernels for all numbers of rows.
        `recorded`: whether autograd records the call, which is remembered if the kernel has its tensors."""
        shape = tensors[0].shape
        columns = shape[-1]
        if not self._cuts_anew() or not hasattr(tensors[0], "storage_offset"):
            return columns  # JAX may have rows on several devices
        size = math.prod(shape)
        if type(size) is not int or size == 0:
            return columns
        if size <= SMALL and size % PIECE == 0 and not recorded:
            return PIECE
        if columns % 8 == 0 and columns >= SHORT:
            return columns
        if (power := math.gcd(size, JOINED)) >= 8 * SHORT:
            return power
        some = longest_part(columns)
        while 2 * some <= JOINED and size % (2 * some) == 0:
            some *= 2
        return some if some >= SHORT and size % some == 0 else columns

    def _lies(self, tensors, out, recorded: bool) -> str:
        """ "apart", of tensors whose rows kernels find where they lie; "packed", of tensors of more than two dimensions whose gradient may lie
        apart; else nothing."""
        shape = tensors[0].shape
        if not self.flattens or self._has_edges(tensors, shape[-1]):
            return ""
        if are_apart(tensors[: self.rows], out):
            return "apart"
        return "packed" if recorded and len(shape) > 2 and can_lie_apart(shape) else ""

    def _run_apart(self, way: str, dtypes, wide: bool, differentiable: bool, tensors, out, named: dict, keep=None):
        """What `_run` does, for tensors that lie so; the kernels have their leading dimensions."""
        matrices = [(laid if way == "apart" else packed)(each) for each in tensors[: self.rows]]
        others = [
            (role, each) for role, each in zip(self.roles, tensors, strict=False) if role != ROWS and each is not None
        ]
        given = [*matrices, *[dense(flat(role, each) if role == LINE else each, False) for role, each in others]]
        place = out
        if out is not None and not (in_place(out) and all(has_memory_apart(out, each) for each in given)):
            place = None
        run = self.run_for(dtypes, wide, differentiable, way, len(matrices[0].shape))
        scalars = scalars_of(getattr(run, "forward_kernel", run), given, () if place is None else (place,), **named)
        named = named | scalars
        if keep is not None:
            keep(run, given, named)
        if out is None:
            return run(*given, **named)
        if place is None:
            return copied_to(self.called, out, run(*given, **named))
        run(*given, out=out, **named)
        return out

    def _are_few(self, shape) -> bool:
        """Whether threads could have rows of their own, but there are few."""
        n, rows = shape[-1], math.prod(shape[:-1])
        if self.cut or type(n) is not int or type(rows) is not int or (n % 8 == 0 and n > 8):
            return False
        return any([n <= most and rows <= few for most, few in FEW_ROWS])

    def _has_edges(self, tensors, columns: int) -> bool:
        """Whether rows may begin inside a vector of memory that another row is part of."""
        halves = all(type_name(tensor) in ("float16", "bfloat16") for tensor in tensors[: self.rows])
        return halves and has_edges(shorter(columns) if self.cut else columns, 16)


_core.show_call(RowFunction, RowFunction._choose)  # to torch.compile
FUNCTIONS: dict[str, RowFunction] = {}


@functools.lru_cache(4096)
def longest_part(columns: int) -> int:
    """The largest multiple of eight, up to JOINED, that divides all rows which begin with a multiple of eight elements."""
    whole = math.lcm(columns, 8)
    return next(each for each in range(JOINED, 0, -8) if whole % each == 0)


@constant_for_compiler
def name_for_compiler(name: str, *key) -> str:
    return kept(FUNCTIONS[name], key, FUNCTIONS[name].run_for(*key))


def flat(role: str, tensor, shape=(), columns: int = 0):
    """The tensor as a kernel takes it that has matrices of so many columns, in a call whose rows have this shape."""
    if role == ROWS:
        return tensor.reshape(-1, columns) if columns else tensor.reshape(math.prod(shape[:-1]), 0)
    flattens = role == EACH_ROW or (role == LINE and len(tensor.shape) != 1)
    return tensor.reshape(-1) if flattens else tensor
