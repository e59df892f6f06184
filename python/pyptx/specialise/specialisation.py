"""A kernel for one set of template values, and for the sizes that its body read: module, text, and what the text becomes.

A size that the body does not ask for chooses nothing here: it is part of a launch's record, which a plan has.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

from pyptx import _core, _locks
from pyptx.body import blocks
from pyptx.body.frozen import frozen
from pyptx.body.tensor_spec import Sizes, UnknownSize
from pyptx.errors import AuthoringTypeError, AuthoringValueError
from pyptx.specialise.nesting import Writing
from pyptx.specialise.options import Options, spelled_directives
from pyptx.specialise.signature import Arguments, Signature
from pyptx.specs import SWIZZLE_BYTES, Tile
from pyptx.stamps import marks

if TYPE_CHECKING:
    from pyptx.launch.resources import Resources
    from pyptx.tools.kernel_report import Report

__all__ = ["Specialisation"]

_KEPT = 128  # specialisations of one kernel; the least recently used goes first
_LAUNCHES = 1024  # shapes of one specialisation; sizes that never repeat must not grow without bound


class Specialisation:
    """One traced body.  Made by `Kernel.specialise`.

    `module`: what the body wrote.  `template`: the values that it was called with.  `sizes`: those of the symbols that it
    read; it is right for every call that agrees on these two.  `block`, `cluster`: threads of a CTA and CTAs of a cluster.
    """

    def __init__(self, options: Options, signature: Signature, module, template: dict[str, Any], sizes: dict[str, Any]):
        self.options, self.signature = options, signature
        self.module = module
        self.template = template
        self.sizes = sizes
        self.block, self.cluster = (each.of(sizes, template) for each in (signature.block, signature.cluster))
        self._texts: dict[bool, str] = {}
        self._launches: dict[Any, Any] = {}
        self._programs: dict[Any, Any] = {}

    def __repr__(self):
        chosen = ", ".join(f"{name}={value!r}" for name, value in {**self.template, **self.sizes}.items())
        return f"Specialisation({self.signature.name}, {chosen})"

    def text(self, lineinfo: bool = False) -> str:
        """The PTX text; `lineinfo` adds .file and .loc lines that lead back to the author's source."""
        found = self._texts.get(lineinfo)
        if found is None:
            found = self._texts.setdefault(lineinfo, self.module.emit(lineinfo=lineinfo))
        return found

    def sass(self) -> str:
        """What the machine executes: the text assembled and disassembled."""
        options = self.options
        lines = self.module.lines
        return _core.sass(self.text(), options.arch, self.signature.name, lines, assembler=options.assembler)

    def resources(self) -> Resources:
        """Registers, spills, shared memory and occupancy: a `Resources`.  Needs no GPU."""
        from pyptx.launch import resources

        return resources.of(self)

    def report(self) -> Report:
        """Resources, and PTX beside machine code by the author's lines: a `Report`.  Needs no GPU."""
        from pyptx.tools import kernel_report

        return kernel_report.of(self)

    def record(self, sizes: Mapping[str, int], grid=None):
        """The launch for these sizes.  Symbols that they leave open are for the tensors of a call to bind, and the grid is
        then the caller's."""
        from pyptx.launch.record import make_record

        return make_record(self, sizes, grid)

    def plan(self, sizes: Mapping[str, int], device: tuple[int, int]):
        """The plan of these sizes on a device.  The text is assembled for the first of a device; the others share what it
        became."""
        return self.kept(("plan", device, tuple(sizes.items())), lambda: self._plan(sizes, device))

    def _plan(self, sizes, device):
        record = self.record(sizes)
        first = self._programs.get(device)
        if first is not None:
            return first.reshaped(record)
        record.lines(self.module.lines)
        record.allocated(self.module.allocated)
        record.registers(self.module.registers)
        plan = _core.Plan.make(self.text(), record, device)
        if remarks := plan.remarks:
            from pyptx.launch import resources

            resources.warn(remarks)
        self._programs.setdefault(device, plan)
        return plan

    def kept(self, key, make):
        """What `make` made for the key: made once, as long as not too many others are."""
        found = self._launches.get(key)
        if found is None:
            if len(self._launches) >= _LAUNCHES:
                self._launches.clear()
            found = self._launches.setdefault(key, make())
        return found


def directives_of(options: Options, signature: Signature, template, known: Mapping[str, int]) -> list[str]:
    """Those of the .entry, with the block's sizes where the author asked for them."""
    own = list(options.directives)
    if callable(of_sizes := options.raw_directives):
        asked = list(inspect.signature(of_sizes).parameters)
        if missing := [name for name in asked if name not in known]:
            raise UnknownSize(
                f"the directives of kernel {signature.name} depend on {missing[0]}, which is not known: give {missing[0]}=..., "
                "or call the kernel with tensors"
            )
        own += spelled_directives(None, of_sizes(*(known[name] for name in asked)))
    if options.reqntid is not True:
        return own
    return [*own, ".reqntid " + ", ".join(map(str, signature.block.of(known, template)))]


def write_body(trace, function, options: Options, signature: Signature, template, known: Mapping[str, int]):
    """Declares the parameters and runs the author's body.  Returns the sizes that the body, the block and the cluster asked for."""
    if options.in_specs is not None or options.out_specs is not None:
        for name in signature.tensors:
            if name not in signature.declared:
                trace.add_pointer(name)
    for row in options.declared:
        trace.add_raw(row.spelled, row.name)
    sizes = Sizes(signature.name, known)
    blocks.check(function)
    tensors = [sizes.spec(name, signature.tiles.get(name)) for name in signature.tensors]
    with trace:
        try:
            result = function(*tensors, **template)
        except TypeError as error:
            if (authors := blocks.told(error)) is None:
                raise
            raise authors.with_traceback(error.__traceback__) from None
    blocks.check_returned(result, function, signature.name)
    for each in (signature.block, signature.cluster):
        sizes.read.update((name, known[name]) for name in each.asks_for() if name in known)
    return dict(sizes.read)


_WRONG_SWIZZLE = 3003  # ptx/base/diagnostic.def


def check_tiles(module, tiles: Mapping[str, Tile]) -> None:
    """Refuses a tensor map that writes a tile of wgmma in another order than the tile's descriptor reads it."""
    for tensor, tile, swizzle, file, line in module.tile_copies:
        if tensor not in tiles:
            continue
        found = tiles[tensor].tma_swizzle or tiles[tensor].layout.swizzle
        if found.upper() == swizzle:
            continue
        layout = f"Layout.TMA_{swizzle}" if SWIZZLE_BYTES[swizzle] else 'tma_swizzle="NONE"'
        message = (
            f"`{tile}`, which wgmma multiplies, has the swizzle {swizzle}, by the width of its rows; the tensor map of {tensor} "
            f"copies with {found}: {layout} in its Tile, and a tma_box as wide as the rows, agree"
        )
        diagnostic = _core.Diagnostic(_WRONG_SWIZZLE, file, line, message)
        raise AuthoringValueError(str(diagnostic), [diagnostic])


def warn_of(module) -> None:
    """Warns of what only the assembler takes."""
    if beyond := [note for note in module.notes if note.name == "assembler_only"]:
        from pyptx.launch import resources

        resources.warn(beyond)


class Kept:
    """Those of one kernel that are kept, by template values and by the sizes that each read."""

    def __init__(self, function, options: Options, signature: Signature, reads: Callable[[], Any]):
        self._function, self._options, self._signature = function, options, signature
        self._reads = reads
        self._kept: OrderedDict[Any, Specialisation] = OrderedDict()
        self._asked: dict[Any, list[tuple[str, ...]]] = {}  # by template values: which sizes the bodies read
        self._lock = _locks.lock()

    def __len__(self) -> int:
        return len(self._kept)

    def _frozen(self, name: str, value):
        try:
            return frozen(value)
        except TypeError:
            thawed = "; a dataclass is one with frozen=True" if is_dataclass(value) else ""
            raise AuthoringTypeError(
                f"template value `{name}` of kernel {self._signature.name} is part of the text: a number, a string, a type, a "
                f"tuple, not {type(value).__name__}{thawed}; where jax.jit traces it, static_argnames={name!r} names it"
            ) from None

    def find(self, given: Arguments) -> Specialisation:
        """The kept one that these arguments choose, or a new one."""
        template = self._signature.template_of(given)
        reads = self._reads()
        reads.verify()
        values = tuple((name, self._frozen(name, value)) for name, value in template.items())
        with self._lock:
            # A body that met the same template values and the same sizes wherever it asked for one would ask for the same
            # sizes again and write the same text. What it asked for may differ from branch to branch, hence several tries.
            for names in self._asked.get(values, ()):
                key = values, names, tuple(given.sizes.get(name) for name in names)
                found = self._kept.get(key)
                if found is not None:
                    self._kept.move_to_end(key)
                    return found
        for function in reads.functions():
            blocks.check_calls(function)
        with Writing(self, self._signature.name, (values, tuple(given.sizes.items()))):
            made = self._trace(template, given.sizes)  # unlocked: the body is the author's code and may take long
        reads.settle()
        names = tuple(made.sizes)
        with self._lock:
            asked = self._asked.setdefault(values, [])
            if names not in asked:
                asked.append(names)
            found = self._kept.setdefault((values, names, tuple(made.sizes.values())), made)
            while len(self._kept) > _KEPT:
                (oldest, _, _), _ = self._kept.popitem(last=False)
                if not any(values == oldest for values, _, _ in self._kept):
                    del self._asked[oldest]
        return found

    def marked(self, given: Arguments) -> Specialisation:
        """A trace of its own whose text has the author's marks, for `pyptx.timeline`; it is not kept."""
        with Writing(self, self._signature.name, "marks"), marks.writing():
            return self._trace(self._signature.template_of(given), given.sizes)

    def _trace(self, template: dict[str, Any], known: Mapping[str, int]) -> Specialisation:
        options, signature = self._options, self._signature
        directives = directives_of(options, signature, template, known)
        trace = _core.Trace(
            signature.entry, options.arch, options.version, options.extern_smem, options.smem, directives,
            options.linkage, options.attribute, options.address_size or 0, options.as_written, options.bits,
        )  # fmt: skip
        read = write_body(trace, self._function, options, signature, template, known)
        module = trace.finish()
        check_tiles(module, signature.tiles)
        warn_of(module)
        return Specialisation(options, signature, module, template, read)
