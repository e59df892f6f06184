"""How the functions over rows call their kernels: there is one kernel for each combination of element types.  Leading dimensions are
flattened before the launch.  At the end are helpers for arguments of any function of this package."""

import functools
import math
import operator
import re
import sys

from pyptx import Tile, _core, differentiable_kernel
from pyptx._arch import detect_arch
from pyptx.errors import LaunchTypeError, LaunchValueError
from pyptx.frameworks.differentiable import keywords_of
from pyptx.kernels._call_apart import apart_backward, are_apart, laid, packed, repacked
from pyptx.kernels._rows.apart import can_lie_apart, in_place, scalars_of
from pyptx.kernels._rows.split import OWN, Split, has_edges
from pyptx.kernels._target import OWN as OWN_TARGETS
from pyptx.kernels._target import simulated
from pyptx.kernels._types import INDICES, TYPES, spelled

__all__ = [
    "TYPES", "Remembered", "RowFunction", "columns", "has_clusters", "last", "matrix", "of_rows_and_columns", "spelled",
]  # fmt: skip

# Elements of rows that are made longer, if 8 divides all elements; the most that they have then.
SHORT, JOINED = 64, 4096
# (elements of a row at most, rows up to which threads that have rows of their own do not fill a GPU)
FEW_ROWS = ((16, 65536), (OWN, 8192))
# Elements up to which a matrix has rows of so few that a thread has one vector, or two: more take long to compute.
SMALL, PIECE = 2**21, 16


def matrix(dtype) -> Tile:
    return Tile("M", "N", dtype, align=16)


def columns(dtype) -> Tile:
    return Tile("N", dtype, align=16)


def last(array, dim: int):
    """A view of the array that has this dimension behind the others."""
    return moved(array, dim, -1)


def back(array, dim: int):
    """A view of the array that has its last dimension at `dim`: undoes `last`."""
    return moved(array, -1, dim)


def moved(array, source: int, target: int):
    """A view of the array, of torch, numpy or JAX, in which the dimension `source` stands at `target`."""
    rank = len(array.shape)
    if rank < 2 or source % rank == target % rank:
        return array
    if hasattr(array, "movedim"):
        return array.movedim(source, target)
    order = list(range(rank))
    order.insert(target % rank, order.pop(source % rank))
    return array.transpose(*order)


class RowFunction(_core.Choice):
    """A function of tensors whose last dimension is a row.  It is called as `function((x, w), out, eps=1e-6)`: in C++ for tensors that
    look like those of an earlier call, otherwise by `_choose`.

    make: `make(split, *types)` returns the kernel and its backward (or None).  `split` says how threads share rows; `types` are the PTX
        types of the tensors, None for a tensor that is None.
    rows: the first `rows` tensors are matrices.  The others have one element for each column, or for each row.
    needed: the first `needed` tensors may not be None; by default, the matrices.
    over_rows: whether an element of the result depends on other columns.  If not, the kernels cut long rows into pieces.
    saved: positions of the tensors that the backward needs; by default, all.
    saved_results: positions of the results that it needs.  They stand behind the results that have gradients.
    gradients: the first `gradients` tensors have a gradient; by default, all tensors of real numbers.
    indices: the position of the tensor of integers, if there is one.
    names: what messages call the tensors; called: what they call the function.
    defaults: defaults of the kernels' template values.
    gradient_lies: whether its backward takes gradients that lie apart.
    float32: is called instead of the function where torch's autocast widens its result to f32.
    told: `told(tensors, options)` returns what the kernel is told, of the options of a call; by default, these.
    flat, shaped: in place of `flattened` and `given_shape`.
    beside: `beside(position, tensor)` is what a kernel for rows that lie apart takes of a tensor that is none of the first `rows`.
    fits: in place of `check_shapes`, `fits(function, tensors, out)`.
    in_place: whether its kernels have an `apart`.

    Classes that derive from this one would lose the call in C++: `_core.show_call` gives this one a `__call__` that they inherit.
    """

    def __init__(
        self, name: str, rows: int, make, *, needed: int | None = None, over_rows: bool = True, saved: tuple | None = None, saved_results: tuple = (),
        gradients: int | None = None, indices: int | None = None, float32=None, names: str = "x weight bias", called: str = "",
        told=None, flat=None, shaped=None, beside=None, fits=None, in_place=True, **defaults,
    ):  # fmt: skip
        self.name, self.rows, self.over_rows, self.defaults = name, rows, over_rows, defaults
        self.needed = rows if needed is None else needed
        self.names, self.called = names.split(), called or name
        self.float32 = float32
        self.indices = indices
        self.told, self.flat, self.shaped = told, flat or flattened, shaped or given_shape
        self.beside, self.fits, self.in_place = (
            beside or (lambda position, tensor: tensor),
            fits or of_one_shape,
            in_place,
        )
        self.saved, self.saved_results, self.gradients = saved, saved_results, gradients
        self.made = functools.cache(functools.partial(self._made, make))
        FUNCTIONS[name] = self
        simulated.add(self)

    def _made(self, make, types, wide: bool, few: bool):
        share, told = Split.wide if wide else Split.once, {"own": False} if few else {}
        return make(functools.partial(share, bits=max(each.bits for each in types[: self.rows]), **told), *types)

    def kernel(self, *types, wide: bool = False):
        """The kernel for these PTX types, to read or to launch by itself; `wide`: the one for GPUs with clusters."""
        return self.made(types, wide, False)[0]

    def _choose(self, tensors, out=None, **options):
        check_arrays(self.called, self.names, tensors, out, self.rows, self.needed)
        given, options = options, options if self.told is None else self.told(tensors, options)
        traced = compiling(tensors[0])
        if self.float32 is not None and not traced:
            heed_autocast(self, tensors[0])
        if self.float32 is not None and out is None and widened_by_autocast(tensors[0]):
            return self.float32(tensors, **given)
        if traced:
            options = {key: value if self.defaults[key] is None else constant(value) for key, value in options.items()}
        else:
            check_numbers(self.called, options, self.defaults)
        if not traced:
            check_devices(self.called, self.names, tensors, out)
        if not traced or len(tensors[0].shape) != 2:  # of a matrix, the kernel's op says the same to a compiler
            self.fits(self, tensors, out)
        dtypes = tuple([None if tensor is None else tensor.dtype for tensor in tensors])
        wide = has_clusters(tensors[0])
        if traced:
            return self._run(self._for_compiler(dtypes, wide, out is None), tensors, out, options, traced)
        if out is not None:
            check_type_of_out(self.called, chosen(self.name, dtypes, wide, False), out)
        recorded = out is None and _core.are_recorded(tuple([each for each in tensors if each is not None]))
        if way := self._lies(tensors, out, recorded):
            call = functools.partial(self._apart, way, dtypes, wide, tensors, out, options)
        else:
            run = self.run_for(dtypes, wide, out is None, "", 0, self._are_few(tensors[0].shape))
            call = functools.partial(self._run, run, tensors, out, options)
        if recorded:
            return call(keep=functools.partial(self._keep, tensors, given))
        return _core.remember_launches(self, tuple(tensors), out, given, call)

    def _keep(self, tensors, options: dict, run, arrays, named: dict):
        """Remembers that calls like this one, which ask for a gradient, are a call of a differentiable kernel, if it takes their tensors."""
        there = [index for index, each in enumerate(tensors) if each is not None]
        if hasattr(run, "of_torch") and all(tensors[index] is each for index, each in zip(there, arrays, strict=True)):
            from pyptx.frameworks.torch.differentiable import recorded

            function = functools.partial(recorded, run.of_torch, named)
            _core.remember_derivative(self, tuple(tensors), options, function, there)

    def _run(self, run, tensors, out, options, traced=False, keep=None):
        shape = tensors[0].shape
        columns = shape[-1] if traced else self._columns(tensors, recorded=keep is not None)
        # A default is a number of the program to torch.compile(dynamic=True); the kernel's own is a constant.
        named = {key: value for key, value in options.items() if value != self.defaults[key]}
        is_matrix = len(shape) == 2 and columns == shape[-1]
        given = [dense(tensor, traced) for tensor in tensors if tensor is not None]
        if not is_matrix:
            given = [self.flat(self, i, each, shape, columns) for i, each in enumerate(given)]
        if keep is not None:
            keep(run, given, named)
        if out is None:
            result = run(*given, **named)
            return result if is_matrix else self.shaped(result, shape)
        place = out if traced else dense(out, traced)
        if not traced and self._has_edges(tensors, columns) and any(shares_memory(place, each) for each in given):
            made = self.shaped(run(*given, **named), shape)
            return copied_to(self.called, out, made)  # rows read neighbours' elements
        rows = math.prod(shape[:-1]) if columns == shape[-1] else math.prod(shape) // columns
        width = columns if out.shape == shape else out.shape[-1]  # of halves, the result is narrower
        run(*given, out=place if is_matrix else viewed(place, rows, width), **named)
        return out if place is out else copied_to(self.called, out, place)

    def _columns(self, tensors, recorded: bool) -> int:
        """The columns of the rows that the kernel is given: those of the tensors or, where elements do not depend on others and vectors do not divide
        rows, or they are short, or matrices are small, of others that the same memory has: a power of two, or a multiple of eight.
        `recorded`: whether autograd records the call, which is remembered if the kernel has its tensors."""
        shape = tensors[0].shape
        columns = shape[-1]
        if self.over_rows or self.shaped is not given_shape or not hasattr(tensors[0], "storage_offset"):
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
        return next((each for each in range(JOINED, SHORT - 1, -8) if size % each == 0), columns)

    def _lies(self, tensors, out, recorded: bool) -> str:
        """ "apart", of tensors whose rows kernels find where they lie; "packed", of tensors of more than two dimensions whose gradient may lie
        apart; else nothing."""
        shape = tensors[0].shape
        if not self.in_place or self._has_edges(tensors, shape[-1]):
            return ""
        if are_apart(tensors[: self.rows], out):
            return "apart"
        return "packed" if recorded and len(shape) > 2 and can_lie_apart(shape) else ""

    def _apart(self, way: str, dtypes, wide: bool, tensors, out, options, keep=None):
        """What `_run` does, for tensors that lie so; the kernels have their leading dimensions."""
        self.fits(self, tensors, out)
        matrices = [(laid if way == "apart" else packed)(each) for each in tensors[: self.rows]]
        beside = [self.beside(i, each) for i, each in enumerate(tensors) if i >= self.rows and each is not None]
        given = [*matrices, *[dense(each, False) for each in beside]]
        place = out
        if out is not None and not (in_place(out) and all(has_memory_apart(out, each) for each in given)):
            place = None
        run = chosen(self.name, dtypes, wide, out is None, way, len(matrices[0].shape))
        named = {key: value for key, value in options.items() if value != self.defaults[key]}
        named |= scalars_of(getattr(run, "forward_kernel", run), given, () if place is None else (place,), **named)
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
        if not self.over_rows or type(n) is not int or type(rows) is not int or (n % 8 == 0 and n > 8):
            return False
        return any([n <= most and rows <= few for most, few in FEW_ROWS])

    def _has_edges(self, tensors, columns: int) -> bool:
        """Whether rows may begin inside a vector of memory that another row is part of."""
        halves = all(spelled(tensor.dtype) in ("float16", "bfloat16") for tensor in tensors[: self.rows])
        return halves and has_edges(columns if self.over_rows else shorter(columns), 16)

    def run_for(self, *key):
        """`chosen` of this function."""
        return chosen(self.name, *key)

    def _for_compiler(self, *key):
        """What `run_for` returns, as an attribute, because torch.compile can find that again."""
        return getattr(self, name_for_compiler(self.name, *key))


def flattened(function: RowFunction, position: int, tensor, shape, columns: int):
    """The tensor as a matrix if it is one of the first `rows`, as a vector if it has one element for each row, else as it is."""
    if position < function.rows:
        return tensor.reshape(-1, columns) if columns else tensor.reshape(math.prod(shape[:-1]), 0)
    # Dynamo compares sizes before ranks, and guards them.
    of_rows = len(tensor.shape) == len(shape) - 1 and tensor.shape == shape[:-1]
    return tensor.reshape(-1) if of_rows else tensor


def of_one_shape(function: RowFunction, tensors, out):
    check_shapes(function.called, function.names, tensors[: function.rows], out)


def of_rows_and_columns(function: RowFunction, tensors, out):
    """`fits` of functions whose other tensors have one element for each column."""
    of_one_shape(function, tensors, out)
    for name, each in zip(function.names[function.rows :], tensors[function.rows :], strict=False):
        if each is not None and each.shape != tensors[0].shape[-1:]:
            raise LaunchValueError(
                f"{function.called}: `{name}` has shape {tuple(each.shape)}, not {tuple(tensors[0].shape[-1:])}: one for each column"
            )


def given_shape(result, shape):
    """The results for rows of a shape."""
    if isinstance(result, tuple):
        return tuple([given_shape(each, shape) for each in result])
    return result.reshape(shape if len(result.shape) == 2 else shape[:-1])


class Remembered(_core.Choice):
    """A function of tensors that calls kernels and touches memory by nothing else: `remembered(tensors, out, **options)` is
    `function(*tensors, out, **options)`.  It may call others that remember, which then do not.

    casts: whether torch.autocast changes what it does.
    derivative: `derivative(*tensors, **options)` is called instead for tensors that look like those for which `function` recorded a gradient."""

    def __init__(self, function, casts: bool = False, derivative=None):
        self.function, self.casts, self.derivative = function, casts, derivative
        simulated.add(self)

    def _choose(self, tensors, out=None, **options):
        if compiling(tensors[0]):
            return self.function(*tensors, out, **options)
        if self.casts:
            heed_autocast(self, tensors[0])
        call = functools.partial(self.function, *tensors, out, **options)
        there = tuple([each for each in tensors if each is not None])
        if self.derivative is None or out is not None or not _core.are_recorded(there):
            return _core.remember_launches(self, tensors, out, options, call)
        made = call()  # which refuses what does not fit
        picks = list(range(len(tensors)))
        _core.remember_derivative(self, tensors, options, functools.partial(self.derivative, **options), picks)
        return made


_core.show_call(RowFunction, RowFunction._choose)  # to torch.compile
_core.show_call(Remembered, Remembered._choose)
FUNCTIONS: dict[str, RowFunction] = {}


@functools.cache
def chosen(name: str, dtypes: tuple, wide: bool, differentiable: bool, way: str = "", rank: int = 0, few: bool = False):
    """What the function of this name runs for tensors of these types: a kernel, or a kernel joined with its backward.  `way`: as of
    `RowFunction._lies`, of tensors of so many dimensions.  `few`: as of `RowFunction._are_few`."""
    function, types = FUNCTIONS[name], []
    for position, dtype in enumerate(dtypes):
        legal = INDICES if position == function.indices else TYPES
        if dtype is not None and spelled(dtype) not in legal:
            raise LaunchTypeError(
                f"{function.called}: `{function.names[position]}` is of {spelled(dtype)}; legal are {', '.join(legal)}"
            )
        types.append(dtype and legal[spelled(dtype)])
    forward, backward = function.made(tuple(types), wide, few)
    forward = forward.apart(rank, way == "packed") if way else forward
    if backward is None or not differentiable:
        return forward
    gradients = function.gradients
    if gradients is None:
        gradients = sum(each is not None and each not in INDICES.values() for each in types)
    there = [position for position, dtype in enumerate(dtypes) if dtype is not None]
    saved = function.saved and [there.index(position) for position in function.saved if position in there]
    made = differentiable_kernel(
        forward,
        apart_backward(backward) if way else backward,
        save_for_backward=saved,
        num_grad_inputs=gradients,
        save_outputs=function.saved_results,
        num_grad_outputs=min(function.saved_results, default=None),
    )
    made.refuses_others = True
    if way:
        made.accepted, made.packs_gradients = keywords_of(backward), False
    return made


def check_arrays(name: str, names, tensors, out, rows: int, needed: int | None = None):
    """Raises LaunchTypeError for an argument that is no array, that is sparse or nested, or that should have rows but has no dimension.
    The first `rows` tensors have rows.  The first `needed` (by default `rows`) may not be None."""
    for position, each in enumerate((*tensors, out)):
        if each is None and (position >= (rows if needed is None else needed) or position == len(tensors)):
            continue
        which = "out" if position == len(tensors) else f"`{names[position]}`"
        if is_loose(each):
            raise LaunchTypeError(
                f"{name}: {which} is no dense tensor: .to_dense(), or torch.nested's .to_padded_tensor()"
            )
        if not (hasattr(each, "dtype") and hasattr(each, "shape")):
            raise LaunchTypeError(f"{name}: {which} is {type(each).__name__}, not an array")
        if position < rows and len(each.shape) == 0:
            raise LaunchTypeError(f"{name}: {which} has no dimension, and so no rows")


def rank_of(name: str, which: str, array) -> int:
    """The number of dimensions.  It raises what `check_arrays` raises, but calls it only if something is wrong, to save time."""
    try:
        rank = len(array.shape)
    except (AttributeError, RuntimeError, TypeError):  # nested tensors of torch raise
        rank = 0
    if not rank:
        check_arrays(name, (which,), (array,), None, 1)
    return rank


def is_loose(tensor) -> bool:
    """Whether the tensor is sparse, nested or in a library's own layout: shape and strides do not tell where its elements are."""
    if getattr(tensor, "is_nested", False) is True:
        return True
    if not hasattr(tensor, "storage_offset"):  # not of torch
        return False
    import torch

    return tensor.layout is not torch.strided


def check_numbers(name: str, options: dict, defaults):
    """Raises LaunchTypeError for an option that is not a number as its default is.  Where torch.jit.trace traces, sizes are tensors; the
    function replaces them in `options` by numbers."""
    for key, value in options.items():
        default = defaults[key]
        if type(default) is float and (isinstance(value, str) or not hasattr(value, "__float__")):
            raise LaunchTypeError(f"{name}: {key} is a number, not {value!r}")
        if hasattr(value, "__dlpack__"):  # which may hold another one at the next call
            if hasattr(value, "item") and jit_traces():  # where sizes are tensors
                options[key] = value.item()
                continue
            raise LaunchTypeError(f"{name}: {key} is a number, not {type(value).__name__}: float({key})")
        if type(default) is int:
            if isinstance(value, (str, float)) or not hasattr(value, "__index__"):
                raise LaunchTypeError(f"{name}: {key} is an integer, not {value!r}")
            options[key] = operator.index(value)  # of what may be a symbol
        if type(default) is bool and value not in (True, False):
            raise LaunchTypeError(f"{name}: {key} is True or False, not {value!r}")


def check_devices(name: str, names, tensors, out):
    """Raises LaunchValueError for tensors of torch that are not on the device of the first."""
    there = [
        (which, each) for which, each in (*zip(names, tensors, strict=False), ("out", out)) if hasattr(each, "is_cuda")
    ]
    for which, each in there:
        if each.device != there[0][1].device:
            raise LaunchValueError(f"{name}: `{which}` is on {each.device}, `{there[0][0]}` is on {there[0][1].device}")


def check_type_of_out(name: str, kernel, out):
    legal = next(each for each, dtype in TYPES.items() if dtype == kernel.out_specs[0].dtype)
    if spelled(out.dtype) != legal:
        raise LaunchTypeError(f"{name}: out is of {spelled(out.dtype)}; legal is {legal}")


def check_shapes(name: str, names, tensors, out):
    """Raises LaunchValueError unless all have one shape.  A kernel compares the shapes of matrices, but not of what is flattened."""
    shape = tensors[0].shape
    for position, each in enumerate((*tensors, tensors[0] if out is None else out)):
        if each.shape != shape:
            which = "out" if position == len(tensors) else f"`{names[position]}`"
            raise LaunchValueError(f"{name}: {which} has shape {tuple(each.shape)}, not {tuple(shape)}")


def shorter(columns: int) -> int:
    """The columns of the pieces into which a row may be cut: halved until a piece is short enough for one CTA, or odd.  Above 4,096
    columns it is halved if vectors of 16 elements stay whole: a thread then has two vectors of each matrix.  With four vectors of each
    of five matrices in registers, too few CTAs are resident."""
    while columns % 2 == 0 and (columns > 8192 or (columns > 4096 and columns % 16 == 0)):
        columns //= 2
    return columns


def recorded(tensor) -> bool:
    """Whether operations on tensors of torch are recorded for gradients."""
    if not hasattr(tensor, "requires_grad"):
        return False
    import torch

    return torch.is_grad_enabled()


def compiling(tensor) -> bool:
    if not hasattr(tensor, "storage_offset"):  # not of torch
        return False
    import torch

    return torch.compiler.is_compiling()


def in_dynamo(tensor) -> bool:
    """Whether Dynamo is reading the code, unlike what it hands on, in which `compiling` is true as well."""
    if not hasattr(tensor, "storage_offset"):  # not of torch
        return False
    import torch

    return torch.compiler.is_dynamo_compiling()


def is_of_older_vmap(*tensors) -> bool:
    """Whether torch.autograd.grad(is_grads_batched=True) asks: its vmap knows no op that writes to an argument."""
    if not hasattr(tensors[0], "storage_offset") or compiling(tensors[0]):
        return False
    import torch

    return any(map(torch._C._functorch.is_legacy_batchedtensor, tensors))


def jit_traces() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.jit.is_tracing()


AUTOCAST = ("cuda",)  # devices on which torch.autocast computes norms and softmax in f32


def autocast_type(tensor):
    """The type to which torch.autocast rounds the f32 operands of products on the tensor's device.  None outside of torch.autocast, and for
    tensors of other frameworks."""
    if not hasattr(tensor, "storage_offset"):
        return None
    import torch

    kind = tensor.device.type
    known = kind in ("cpu", "cuda")  # torch raises for others, as meta
    return torch.get_autocast_dtype(kind) if known and torch.is_autocast_enabled(kind) else None


def widened_by_autocast(tensor) -> bool:
    """Whether torch.autocast widens this tensor to f32 for norms and softmax."""
    if autocast_type(tensor) is None:
        return False
    import torch

    return tensor.device.type in AUTOCAST and tensor.dtype in (torch.float16, torch.bfloat16)


def heed_autocast(function: _core.Choice, tensor):
    """Makes what the function remembers belong to what torch.autocast does."""
    if hasattr(tensor, "storage_offset"):
        import torch

        _core.heed_state(function, torch._C._is_any_autocast_enabled, autocast_number)


def autocast_number() -> int:
    """A number for the types to which torch.autocast casts at the moment."""
    import torch

    types = [torch.float32, torch.float16, torch.bfloat16]
    cast = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    return sum((1 + types.index(torch.get_autocast_dtype(kind))) << (8 * (kind == "cuda")) for kind in cast)


def constant(value):
    """The number behind a symbol of torch.compile, for a template value of a kernel: torch traces again when it changes."""
    from torch.fx.experimental.symbolic_shapes import guard_scalar

    return guard_scalar(value)


def likely(condition) -> bool:
    """Of the traced program; true where it depends on sizes that only its data gives."""
    from torch.fx.experimental.symbolic_shapes import guard_or_true

    return guard_or_true(condition)


def surely(condition) -> bool:
    """Of the traced program; true where it holds for all sizes that the program is for."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return statically_known_true(condition)


def constant_for_compiler(function):
    """Tells torch.compile to call the function once and keep the result: torch.compiler.assume_constant_result, without importing torch."""
    function._dynamo_marked_constant = True
    return function


def kept(holder, key: tuple, value) -> str:
    """The attribute of `holder` that has the value from now on; torch.compile finds objects again by their attributes."""
    attribute = re.sub(r"\W+", "_", f"of_{key}")
    setattr(holder, attribute, value)
    return attribute


@constant_for_compiler
def name_for_compiler(name: str, *key) -> str:
    return kept(FUNCTIONS[name], key, chosen(name, *key))


def has_clusters(tensor) -> bool:
    """Whether the kernels that run on this tensor may use clusters of CTAs: it is on a GPU since Hopper, or in the CPU's memory inside a
    `simulated_target` that has clusters."""
    return of_hopper() if getattr(tensor, "is_cuda", False) else is_in_cpu(tensor) and simulated.target in OWN_TARGETS


def is_in_cpu(array) -> bool:
    """Whether the simulator runs the kernels of this array of NumPy or torch."""
    return not getattr(array, "is_cuda", not hasattr(array, "__array_interface__"))


def on_gpu(array) -> bool:
    """Whether kernels run on a GPU for this array; those of JAX's values, which may be part of a program, where its programs run."""
    if hasattr(array, "is_cuda"):
        return array.is_cuda
    return hasattr(array, "aval") and sys.modules["jax"].default_backend() == "gpu"


@constant_for_compiler
def of_hopper() -> bool:
    """Whether the GPU is a Hopper or a later one."""
    return int(detect_arch().strip("sm_af")) >= 90


@constant_for_compiler
def are_not_all():
    """Says that launches are not all that a call does, so that nobody remembers them."""
    _core.spoil_launches()


def copied_to(name: str, out, made):
    """Copies the elements of `made` to `out` and returns `out`."""
    strides = out.stride() if callable(getattr(out, "stride", None)) else out.strides
    if any(stride == 0 and size > 1 for stride, size in zip(strides, out.shape, strict=True)):
        raise LaunchValueError(
            f"{name}: out has elements that share their memory (a stride of 0); legal is .contiguous()"
        )
    are_not_all()
    out[...] = made
    return out


def check_apart(name: str, out, beside: dict, takes_place_of: str):
    """Raises LaunchValueError if `out` shares memory with one of the tensors `beside` it, which the kernel still reads.  `out` may be all of
    the tensor `takes_place_of`."""
    for argument, tensor in beside.items():
        if tensor is None or not shares_memory(out, tensor):
            continue
        if argument != takes_place_of or place_of(out) != place_of(tensor):
            place = takes_place_of and f", or that of all of {takes_place_of}"
            raise LaunchValueError(f"{name}: out shares memory with {argument}; legal is memory of its own{place}")


def place_of(tensor) -> tuple:
    if hasattr(tensor, "data_ptr"):
        return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.itemsize
    return tensor.__array_interface__["data"], tensor.shape, tensor.strides, tensor.itemsize


def shares_memory(one, other) -> bool:
    """Whether elements of two tensors of torch or NumPy may lie at the same address.  Tensors whose stretches alternate, such as columns of
    one matrix, do not share memory."""
    if all(type(each).__module__ == "numpy" for each in (one, other)):
        import numpy

        return numpy.may_share_memory(one, other)
    if any(
        not hasattr(each, "untyped_storage") or address_of(each) is None or not each.numel() for each in (one, other)
    ):
        return False
    (first, end, step, stretch), (first_, end_, step_, stretch_) = extent(one), extent(other)
    if end <= first_ or end_ <= first:
        return False
    step = math.gcd(step, step_)
    apart = (first_ - first) % step if step else 0
    return apart < stretch or apart + stretch_ > step


def extent(tensor):
    """(the first address, the one behind the last, the step, the bytes of a stretch): the elements are stretches without a gap, and the step
    divides the distance between any two of them."""
    size, stretch, steps = tensor.element_size(), 1, []
    for stride, count in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if stride == stretch:
            stretch *= count
        elif count > 1:
            steps.append((stride, count - 1))
    first, last = tensor.data_ptr(), sum(stride * count for stride, count in steps) + stretch
    return first, first + last * size, math.gcd(*(stride for stride, _ in steps)) * size, stretch * size


def has_memory_apart(out, tensor) -> bool:
    """Whether a kernel over rows may write `out` while it reads the tensor: they share no memory, or are the same rows, none twice."""
    repeats = any(stride == 0 and count > 1 for stride, count in zip(out.stride(), out.shape, strict=True))
    return not repeats and (not shares_memory(out, tensor) or place_of(out) == place_of(tensor))


def contents(tensor) -> list | None:
    """The numbers in the tensor, as nested lists, or None if they are on a GPU or a compiler traces."""
    numpy = type(tensor).__module__ == "numpy"
    plain = type(tensor).__module__ == "torch" and tensor.device.type == "cpu" and address_of(tensor)
    if not numpy and not plain:
        return None
    are_not_all()  # the next call may have other numbers
    return tensor.tolist()


def address_of(tensor) -> int | None:
    """The address of a tensor of torch, or None if it has no memory of its own, as the tensors of vmap and those that torch.compile traces; 0 of one
    that functionalize stands for."""
    if compiling(tensor):
        return None
    try:
        return tensor.data_ptr()
    except RuntimeError:
        return None


def viewed(array, rows: int, columns: int):
    """The same memory as a matrix; raises the framework's error if there is no such view."""
    return array.view(rows, columns) if hasattr(array, "storage_offset") else array.reshape(rows, columns)


def dense(tensor, traced: bool):
    """The tensor, or a copy, with its elements packed, at an address that is a multiple of 16 bytes."""
    contiguous = getattr(tensor, "contiguous", None)
    if contiguous is None:  # not of torch
        return packed_array(tensor)
    if not traced and (made := repacked(tensor)) is not None:
        return made
    tensor = contiguous()
    if traced:  # where an address is not known; the launch refuses one that does not fit
        return tensor
    return tensor if begins_at(tensor, 16) else tensor.clone()


def packed_array(array):
    """An array of NumPy, or a copy of it that kernels take; one of JAX lies so."""
    flags = getattr(array, "flags", None)
    return array if flags is None or (flags.c_contiguous and begins_at(array, 16)) else array.copy()


def begins_at(tensor, multiple: int) -> bool:
    """Whether the address is a multiple of so many bytes.  Tensors of vmap and the like have none; they tell where they begin in their storage."""
    if not hasattr(tensor, "storage_offset"):
        return tensor.__array_interface__["data"][0] % multiple == 0
    address = address_of(tensor)
    return (tensor.storage_offset() * tensor.itemsize if address is None else address) % multiple == 0
