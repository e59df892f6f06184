"""Several kernels, functions and variables in one text.

    both = ptx.module([count, (fill, {"value": 2}), helper])
    both.ptx()          # one text, with two .entry
    both.count(x)       # a launch of one of them; variables of the module are the same for both

A kernel of a module is called like any other kernel.  But its text is fixed: give its template values, and the sizes that its body
reads, when the module is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyptx import _core, _locks
from pyptx.body.frozen import frozen
from pyptx.errors import AuthoringTypeError, AuthoringValueError, LaunchValueError
from pyptx.kernel import Kernel
from pyptx.module.func import Function
from pyptx.module.variables import Variable
from pyptx.specialise.signature import Arguments
from pyptx.specialise.specialisation import Specialisation, check_tiles, directives_of, warn_of, write_body
from pyptx.stamps import marks

__all__ = ["Module", "module"]


class Module:
    """A module of several kernels.  Made by `ptx.module`.  Its kernels are attributes, and items by name."""

    def __init__(
        self,
        items: Iterable[Any],
        target: str | None = None,
        version: tuple[int, int] | None = None,
        address_size: int | None = 64,
        as_written: bool = False,
    ):
        self._kernels: dict[str, Kernel] = {}
        self._items = [self._item(item) for item in items]
        options = [kernel.options for kernel in self._kernels.values()]
        self.target: str = _one("target", {each.arch for each in options} | ({target} - {None}), "sm_90a")
        self.version = _one("version", {each.version for each in options} | {version} - {None}, None)
        self.assembler: str = _one("assembler", {each.assembler for each in options} - {""}, "")
        self.address_size, self._as_written = address_size, as_written
        self._made: list[Any] = []
        self._lock = _locks.lock()

    def _item(self, item):
        kernel, given = item if isinstance(item, tuple) and len(item) == 2 else (item, {})
        if isinstance(kernel, Kernel) and isinstance(given, Mapping):
            entry = kernel.signature.entry
            if entry in self._kernels:
                raise AuthoringValueError(f"two kernels of the module are called {entry}")
            member = _Member(self, kernel, dict(given), len(self._kernels))
            self._kernels[entry] = member.kernel
            return member
        if isinstance(item, (Function, Variable, str)):
            return item
        raise AuthoringTypeError(
            "a module has kernels, pairs of a kernel and its template values and sizes, functions (@ptx.func), variables "
            f"and text, not {item!r}"
        )

    def __repr__(self):
        return f"Module({', '.join(self._kernels)})"

    def __getattr__(self, name: str) -> Kernel:
        try:
            return self.__dict__["_kernels"][name]
        except KeyError:
            raise AttributeError(f"the module has no kernel {name}; it has {', '.join(self._kernels)}") from None

    def __getitem__(self, name: str) -> Kernel:
        return self._kernels[name]

    def __iter__(self) -> Iterator[Kernel]:
        return iter(self._kernels.values())

    def __dir__(self):
        return [*super().__dir__(), *self._kernels]

    def ptx(self, *, lineinfo: bool = False) -> str:
        """The PTX text; `lineinfo` adds .file and .loc lines that lead back to the author's source."""
        return self._written()[0].emit(lineinfo=lineinfo)

    def sass(self) -> str:
        """What the machine executes: the text assembled and disassembled."""
        module = self._written()[0]
        return _core.sass(module.emit(), self.target, "module", module.lines, assembler=self.assembler)

    def _written(self) -> list[Any]:
        """The module, then the specialisation of each kernel."""
        with self._lock:
            if not self._made:
                self._made = self._write()
            return self._made

    def _write(self) -> list[Any]:
        whole = _core.ModuleTrace(self.target, self.version, self.address_size or 0)
        outside = whole.kernel("", as_written=self._as_written)  # of what stands beside the kernels
        kernels, built = [], []
        for item in self._items:
            if isinstance(item, _Member):
                signature = item.kernel.signature
                options = replace(item.kernel.options, assembler=self.assembler)
                template = signature.template_of(item.given)
                directives = directives_of(options, signature, template, item.given.sizes)
                trace = whole.kernel(
                    signature.entry, options.extern_smem, options.smem, directives,
                    options.linkage, options.attribute, options.as_written, options.bits,
                )  # fmt: skip
                item.kernel._watched().verify()
                read = write_body(trace, item.kernel._fn, options, signature, template, item.given.sizes)
                item.kernel._watched().settle()
                built.append(trace.finish())
                check_tiles(built[-1], signature.tiles)
                kernels.append((options, signature, template, read))
                continue
            with outside:
                if isinstance(item, str):
                    _core.module_text(item)
                elif isinstance(item, Function):
                    item._handle({})
                else:
                    item._declared()
        module, *parts = whole.finish(built)
        warn_of(module)
        made = [Specialisation(o, s, part, t, read) for (o, s, t, read), part in zip(kernels, parts, strict=True)]
        return [module, *made]

    def __copy__(self):  # like its kernels, it does not change
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        from pyptx.body import portable

        return portable.reduce(self, repr(self), [each._fn.__module__ for each in self])

    def _definition(self):
        items = [(item.alone, item.told) if isinstance(item, _Member) else item for item in self._items]
        return Module, (items, self.target, self.version, self.address_size, self._as_written)

    def _identity(self):
        items = [(item.alone, item.given) if isinstance(item, _Member) else item for item in self._items]
        return self.target, self.version, self.address_size, self._as_written, items


class _Member:
    """A kernel of a module, and what keeps its only specialisation: the place of `specialisation.Kept` in it."""

    def __init__(self, module: Module, alone: Kernel, given: dict[str, Any], index: int):
        self.module, self.index, self.alone, self.told = module, index, alone, given
        self.kernel = kernel = Kernel(alone._fn, alone.options)
        self.given = kernel.signature.split(given)
        kernel.signature.template.update(self.given.template)  # what a call says nothing of is what the module has
        kernel.signature.required.difference_update(self.given.template)
        kernel._kept, kernel._module = self, module

    def marked(self, given: Arguments) -> Specialisation:
        """The same of a module that is written once more, with the author's marks, for `pyptx.timeline`; it is not kept."""
        self.find(given)
        with marks.writing():
            return self.module._write()[1 + self.index]

    def find(self, given: Arguments) -> Specialisation:
        """The specialisation, if it is for these arguments."""
        self.kernel._watched().verify()
        made = self.module._written()[1 + self.index]
        asked, sizes = given.template, given.sizes
        wrong = [
            name for name, value in made.template.items() if name in asked and frozen(asked[name]) != frozen(value)
        ]
        wrong += [name for name, size in made.sizes.items() if sizes.get(name, size) != size]
        if wrong:
            was, now = {**made.sizes, **made.template}, {**sizes, **asked}
            said = " and ".join(f"{name} = {was[name]}, not {now[name]}" for name in wrong)
            raise LaunchValueError(
                f"{self.kernel.signature.name}: this module has the kernel for {said}: make another module"
            )
        return made


def _one(what: str, found: set, otherwise):
    if len(found) > 1:
        raise AuthoringValueError(
            f"the kernels of a module must have the same {what}, not {', '.join(map(str, sorted(found)))}"
        )
    return next(iter(found), otherwise)


def module(
    items: Iterable[Any],
    *,
    target: str | None = None,
    version: tuple[int, int] | None = None,
    address_size: int | None = 64,
    as_written: bool = False,
) -> Module:
    """Writes kernels, functions and variables into one text: `ptx.module([count, (fill, {"value": 2}), helper])`.

    `items`, in the order of the text: kernels, with a dict of the template values and sizes that their bodies ask for;
    functions (`@ptx.func`), variables; anything else as text, as `ptx.module_text` takes it.  What kernels use need not be
    listed.  Each kernel is launched by `m.name(...)`; on a device they share one loaded module, so a variable of one is that
    of the others.  `target`, `version` and `assembler` are the kernels' own, one for all; a module without kernels may give the first two here.
    `address_size` is 64, 32 or None; with `as_written` a debug section stands where the items have it, not at the end.

    Example:
        @kernel
        def first():
            ptx.ret()

        @kernel
        def second(*, count):
            for _ in range(count):
                ptx.bar.sync(0)
            ptx.ret()

        both = ptx.module([first, (second, {"count": 2})])
        both.ptx()
    """
    return Module(items, target, version, address_size, as_written)
