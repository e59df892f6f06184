"""The decorator `@kernel`, and the class `Kernel` of its results.

options.py has the options of `@kernel`, signature.py the arguments of a call, specialisation.py the traced text.
Everything done per instruction or per call is C++.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, Protocol, overload
from weakref import WeakValueDictionary

from pyptx import _core
from pyptx.body.tensor_spec import TensorSpec, TmaDescriptorHandle
from pyptx.errors import LaunchTypeError
from pyptx.frameworks.torch.traced import Traced
from pyptx.specialise.options import Options
from pyptx.specialise.signature import Arguments, Signature
from pyptx.specialise.specialisation import Kept, Specialisation
from pyptx.specs import Tile

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from pyptx import ir
    from pyptx.launch.resources import Resources
    from pyptx.tools.kernel_report import Report

__all__ = ["Kernel", "TensorSpec", "TmaDescriptorHandle", "kernel"]


class _CallSignature:
    """What `inspect.signature` reads of a kernel; made when it is asked for."""

    def __get__(self, kernel: Any, owner: type) -> inspect.Signature:
        if kernel is None:
            raise AttributeError("__signature__")  # the class has that of its __init__
        signature: Signature = kernel.signature
        return signature.of_call() if signature.callable else signature.of_body


class Kernel(Traced, _core.Launcher):
    """A Python function whose body is PTX.  Made by `@kernel`.

    A call with tensors launches the kernel: CUDA tensors on their device, CPU tensors and NumPy arrays on the simulator, JAX
    arrays as a part of their program.  `out=` gives the outputs to write, `stream=` the stream.
    """

    def __init__(self, fn: Callable[..., Any], options: Options | None = None):
        options = options or Options()
        if not isinstance(fn, types.FunctionType):
            hint = ""
            if isinstance(fn, (str, int, tuple, list)):
                hint = "; its options are given by name, @kernel(arch=...)"
            elif isinstance(fn, (classmethod, staticmethod)):
                hint = f"; write @{type(fn).__name__} above @kernel"
            elif callable(fn) and not isinstance(fn, (type, Kernel)):
                hint = "; write a function that calls it, with a parameter for each tensor"
            raise TypeError(f"@kernel makes a kernel of a function (def or lambda), not of {fn!r}{hint}")
        self._fn, self.options = fn, options
        self.signature = Signature(fn, options)
        self._kept: Any = Kept(fn, options, self.signature, self._watched)
        self._module: Any = None  # that of `ptx.module`, whose text is this kernel's
        self._reads: Any = None
        self._modules: WeakValueDictionary[str, ir.Module] = WeakValueDictionary()
        self._jax_sites: dict[Any, Any] = {}  # by what a call with JAX values looks like
        known, tensors = self.signature.known, self.signature.tensors
        mutated = [tensors.index(name) for name in options.mutates]
        _core.declare_launcher(self, "out" not in known, "stream" not in known, mutated)
        functools.update_wrapper(self, fn)
        self.__wrapped__ = _body_of(fn, self.signature.of_body)

    def __repr__(self):
        return f"Kernel({self._fn.__name__}, arch={self.arch!r})"

    if not TYPE_CHECKING:
        __signature__ = _CallSignature()

        def __getitem__(self, chosen: Any) -> NoReturn:
            name = self.__name__
            raise LaunchTypeError(
                f"{name}[...] chooses nothing: grid= and block= are options of @kernel, and the call is {name}(x)"
            )

    # What the author gave.

    @property
    def in_specs(self) -> tuple[Tile, ...]:
        """Tiles of the inputs."""
        return self.signature.inputs

    @property
    def out_specs(self) -> tuple[Tile, ...]:
        """Tiles of the outputs."""
        return self.signature.outputs

    @property
    def grid(self) -> Any:
        """The grid, or the function that computes it from the symbolic dimensions."""
        return self.options.grid

    @property
    def block(self) -> Any:
        """Threads of a CTA."""
        return self.options.block

    @property
    def cluster(self) -> Any:
        """CTAs of a cluster."""
        return self.options.cluster

    @property
    def smem(self) -> int:
        """The option `smem`: bytes of dynamic shared memory."""
        return self.options.smem

    @property
    def arch(self) -> str:
        """The target, for example sm_90a."""
        return self.options.arch

    @property
    def mutates(self) -> tuple[str, ...]:
        """Names of the inputs that the kernel writes."""
        return tuple(self.options.mutates)

    @property
    def batch(self) -> str | None:
        """The dimension along which several calls become one (under vmap): a symbolic size, or an axis of the grid."""
        return self.options.batch

    @property
    def template_params(self) -> dict[str, Any]:
        """Keyword-only parameters of the function and their defaults."""
        return dict(self.signature.template)

    # What it makes of it.

    def specialise(self, /, **kwargs: Any) -> Specialisation:
        """The kernel for template values and sizes: kernel.specialise(M=4096, BM=128).

        Arguments that lead to the same text return the same object, for example sizes that the body does not read.

        Example:
            @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),))
            def k(X, Y, *, factor=2.0):
                ptx.ret()

            assert k.specialise(N=1) is k.specialise(N=2)      # the body reads no size
        """
        return self.specialise_for(self.signature.split(kwargs))

    def specialise_for(self, given: Arguments) -> Specialisation:
        """`specialise` for arguments that `signature.split` has sorted.

        Example:
            @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),))
            def k(X, Y):
                ptx.ret()

            assert k.specialise_for(k.signature.split({"N": 4})) is k.specialise(N=4)
        """
        try:
            return self._kept.find(given)
        except Exception as error:
            from pyptx.body.tracebacks import shortened  # not by `import pyptx`

            if (short := shortened(error)) is None:
                raise
            raise short  # noqa: B904

    def ptx(self, /, **kwargs: Any) -> str:
        """The PTX text of one specialisation: kernel.ptx(M=4096, BM=128).

        `lineinfo=True` adds .file and .loc lines with the lines of the Python source.

        Example:
            @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),))
            def k(X, Y, *, factor=2.0):
                ptx.ret()

            print(k.ptx(N=1024, factor=0.5))
        """
        lineinfo = bool(kwargs.pop("lineinfo", False)) if "lineinfo" not in self.signature.known else False
        return self.specialise(**kwargs).text(lineinfo)

    def module(self, /, **kwargs: Any) -> ir.Module:
        """The text of one specialisation as a `pyptx.ir.Module`.

        The same object again while the program has it and has not edited it; `ir.Module(k.ptx())` is always a new one.

        Example:
            @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),))
            def k(X, Y, *, factor=2.0):
                ptx.ret()

            assert [str(i) for i in k.module(N=1024).find("ret")] == ["ret;"]
        """
        from pyptx import ir

        text = self.specialise(**kwargs).text()
        module = self._modules.get(text)
        if module is None or str(module) != text:
            module = self._modules[text] = ir.Module(text, self.signature.name)
        return module

    def rewritten(self, change: Callable[[ir.Module], ir.Module | None]) -> Kernel:
        """A new kernel: this one, with a text that the function `change` edits before it is assembled or simulated.

        `change` gets a `pyptx.ir.Module` and edits it, or returns another one; it runs once for each specialisation.
        Parameters, grid and shared memory do not change.  AuthoringError if the edited text is not legal PTX.

        Example:
            @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), block=32)
            def k(X, Y):
                x = reg.scalar(f32)
                ptx.inst.ld.global_.f32(x, ptx.addr(ptx.param(u64, "X")))
                ptx.inst.add.f32(x, x, 1.0)
                ptx.ret()

            def doubled(module):
                for i in module.find("add.f32"):
                    i.insert_after(str(i))

            assert k.rewritten(doubled).ptx(N=4).count("add.f32") == 2
        """
        from pyptx.specialise.rewrite import Rewritten

        if not callable(change):
            raise TypeError(f"rewritten takes a function of a module, not {change!r}")
        made = type(self)(self._fn, self.options)
        made._kept = Rewritten(self._kept, change)
        return made

    def sass(self, /, **kwargs: Any) -> str:
        """The machine code of one specialisation, as the disassembler prints it.

        Example:
            @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),))
            def k(X, Y):
                ptx.ret()

            try:
                print(k.sass(N=1024))
            except pyptx.errors.AssemblerError:   # no nvdisasm here
                pass
        """
        return self.specialise(**kwargs).sass()

    def resources(self, /, **kwargs: Any) -> Resources:
        """Registers, spills, shared memory and occupancy of one specialisation: a `Resources`.  Needs no GPU.

        Example:
            @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),))
            def k(X, Y, *, factor=2.0):
                ptx.ret()

            assert k.resources(N=1024).registers > 0
        """
        return self.specialise(**kwargs).resources()

    def export(self, directory: str | os.PathLike[str], **options: Any) -> tuple[Path, Path]:
        """Writes the kernel as a C header and a source file, for programs without Python: see `pyptx.export.export`.

        Example:
            from pyptx.kernels import add

            add.export("out", name="vector_add", targets=["sm_80", "sm_90"])
        """
        from pyptx.export import export

        return export(self, directory, **options)

    def report(self, /, **kwargs: Any) -> Report:
        """Registers, shared memory, spills and occupancy of one specialisation, and the PTX and machine code of each source
        line.  Needs an assembler and a disassembler (`pip install pyptx[asm]`), and no GPU.

        `print` shows the text; `.save("k.html")` writes a page, which notebooks show by themselves.

        Example:
            @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),))
            def k(X, Y):
                ptx.ret()

            assert "EXIT" in str(k.report(N=1024))
        """
        return self.specialise(**kwargs).report()

    def _watched(self):
        """What the body and the functions of grid, block and cluster read beside their arguments, a `Reads`."""
        if self._reads is None:
            from pyptx.body.reads import Reads  # not by `import pyptx`: it needs time

            asked = (self.options.grid, self.options.block, self.options.cluster)
            self._reads = Reads(self, self._fn, *filter(callable, asked))
        return self._reads

    # A call is `Launcher.__call__`, in C++. It comes here with arguments that it has not seen.
    def _slow_call(self, arrays, kwargs, out=None, stream=None):
        try:
            return self._first_call(arrays, kwargs, out, stream)
        except Exception as error:
            from pyptx.body.tracebacks import shortened  # not by `import pyptx`

            if (short := shortened(error)) is None:
                raise
            raise short  # noqa: B904

    def _first_call(self, arrays, kwargs, out, stream):
        if kwargs and (names := self.signature.named_tensors(len(arrays), kwargs)):
            rest = {name: value for name, value in kwargs.items() if name not in names}
            rest |= {name: value for name, value in (("out", out), ("stream", stream)) if value is not None}
            return self(*arrays, *(kwargs[name] for name in names), **rest)
        jax = sys.modules.get("jax")
        if jax is not None and any(isinstance(array, jax.Array) for array in arrays):
            from pyptx.frameworks.jax import call as jax_call

            if out is not None or stream is not None:
                raise TypeError(
                    f"kernel {self._fn.__name__}: no out= or stream= for JAX, which makes the outputs and chooses the stream"
                )
            return jax_call.call(self, arrays, kwargs)
        from pyptx.launch.call import call

        return call(self, arrays, kwargs, out, stream)

    # A kernel does not change, so a copy is the kernel. In another process it is what its definition makes there.
    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        from pyptx.body import portable

        if self._module is not None:  # so that kernels of one module are those of one module there, too
            return self._definition()
        return portable.reduce(self, f"kernel {self.__name__}", [self._fn.__module__])

    def _definition(self):
        if self._module is not None:
            return type(self._module).__getitem__, (self._module, self.signature.entry)
        return _restored, (self._fn, {name: getattr(self.options, name) for name in Options.names()})

    def _identity(self):
        """All that decides what a call does, for `identity.fingerprint`."""
        tiles = [repr(tile) for tile in self.in_specs + self.out_specs]
        told = {name: getattr(self.options, name) for name in Options.names() if name not in ("in_specs", "out_specs")}
        alone = self._fn, len(self.in_specs), tiles, told
        return alone if self._module is None else (*alone, self._module)


_core.show_call(Kernel, Kernel._traced_call)


def _body_of(fn: types.FunctionType, signature: inspect.Signature) -> Any:
    """The body, at the author's lines, as a function of any arguments.  Tools that call what they look behind, make_fx for
    one, take its number of parameters for the call's, which has no outputs: so it must not tell one."""

    def body(*tensors, **template):
        return fn(*tensors, **template)

    code = fn.__code__
    body.__code__ = body.__code__.replace(co_filename=code.co_filename, co_firstlineno=code.co_firstlineno)
    made: Any = functools.update_wrapper(body, fn)
    made.__signature__ = signature
    del made.__wrapped__
    return made


def _restored(function, told) -> Kernel:
    return Kernel(function, Options(**told))


P = ParamSpec("P")


class _Decorator(Protocol[P]):
    """The decorator for type checkers: its options are spelled by `Options` alone."""

    @overload
    def __call__(self, fn: Callable[..., Any], /, *args: P.args, **options: P.kwargs) -> Kernel: ...
    @overload
    def __call__(self, *args: P.args, **options: P.kwargs) -> Callable[[Callable[..., Any]], Kernel]: ...


def _takes(options: Callable[P, Options], function: Any) -> _Decorator[P]:
    function.__signature__ = Options.signature(
        inspect.Parameter("fn", inspect.Parameter.POSITIONAL_ONLY, default=None, annotation="Callable | None")
    )
    if function.__doc__:  # python -OO has none
        function.__doc__ += "\n" + (Options.__doc__ or "").partition("\n")[2]
    return function


def _kernel(fn=None, *more, **options):
    """Makes a `Kernel` of a function; usable bare (`@kernel`) or with options (`@kernel(arch="sm_100a")`).

    Example:
        @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=lambda N: ((N + 127) // 128, 1, 1), block=(128, 1, 1))
        def double(X, Y):
            px, py = ptx.global_ptrs(X, Y)
            i = reg.from_(ptx.special.ctaid.x(), u32) * 128 + reg.from_(ptx.special.tid.x(), u32)
            ptx.ret(pred=i >= X.shape[0])
            v = reg.scalar(f32)
            ptx.inst.ld.global_.f32(v, ptx.addr(px + i * 4))
            ptx.inst.add.f32(v, v, v)
            ptx.inst.st.global_.f32(ptx.addr(py + i * 4), v)
            ptx.ret()

        text = double.ptx(N=1024)             # double(x) runs it
    """
    if more:
        raise TypeError(
            f"the options of @kernel are given by name, as in @kernel(arch=...), not {more[0]!r} by position"
        )
    told = Options.told(options)
    return (lambda function: Kernel(function, told)) if fn is None else Kernel(fn, told)


_kernel.__name__ = _kernel.__qualname__ = "kernel"
kernel = _takes(Options, _kernel)
