"""Exports a kernel as a C header and a source file, which need neither Python nor pyptx, only the driver.

This module specialises and assembles the kernel, and turns functions of sizes into C expressions; the library (ptx/ahead) writes the
files, also for kernels of C++.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyptx import _core
from pyptx.errors import LaunchValueError
from pyptx.export.expressions import traced
from pyptx.launch import record

__all__ = ["export", "export_text"]


def export(
    kernel,
    directory,
    *,
    name: str | None = None,
    specializations: Sequence[Mapping] = ({},),
    targets: Sequence[str] | None = None,
    ptx: bool = True,
    flavours: Sequence[str] = (),
) -> tuple[Path, ...]:
    """Writes NAME.h and NAME.c, with machine code and functions that launch it, to the directory; returns their paths.

    specializations: a dict of template values and sizes for each variant.  It must have the sizes that the body reads; the others stay
    arguments.  The sizes of a call choose the variant; template values are the same in all variants.
    targets: targets of the machine code; by default the kernel's own.  ptx: also write the PTX text, which drivers of later devices
    compile (not for kernels of an `a` or `f` target).  flavours: "torch", "xla", "tvm": for each, also write a C++ source for a
    library of that framework (docs/export.md).

    The function takes pointers to device memory in the order of the kernel's tensors, outputs included; strides of tensors that
    are not packed; sizes; runtime scalars; and the stream.  It makes the checks of a call in Python, and returns an error code.

    Example:
        from pyptx.kernels import add

        add.export("out", specializations=[{}], targets=["sm_80", "sm_90"])
    """
    if not specializations:
        raise ValueError("export: specializations must be a list of dicts; pass [{}] for a kernel that reads no sizes")
    chosen = [_specialised(kernel, dict(each)) for each in specializations]
    _check(kernel, chosen)
    template = chosen[0][0].template
    symbols = [each for each in kernel.signature.symbols if each not in template]
    return _write(
        directory,
        name or kernel.signature.entry,
        kernel.signature.name,
        [_variant(made, sizes, symbols, targets or [kernel.options.arch], ptx) for made, sizes in chosen],
        symbols,
        {raw.name: _number(template[raw.name]) for raw in kernel.signature.raw if raw.name in template},
        list(flavours),
    )


def export_text(
    text: str,
    directory,
    *,
    block: tuple[int, int, int],
    entry: str = "",
    name: str | None = None,
    cluster: tuple[int, int, int] = (1, 1, 1),
    smem: int = 0,
    targets: Sequence[str] | None = None,
    ptx: bool = True,
    file: str = "",
) -> tuple[Path, ...]:
    """`export` for an .entry of any PTX text: the arguments are its parameters, as bits, and the grid (grid_x, grid_y, grid_z).

    entry: which one, where the text has several.  smem: bytes of dynamic shared memory.  file: what messages call the text.

    Example:
        from pyptx.export import export_text
        from pyptx.kernels import add

        export_text(add.ptx(), "out", block=(128, 1, 1), name="add_text")
    """
    found, target, parameters = _core.ptx_entry(text, file, entry)
    launch = _core.Record(found, target, (1, 1, 1), block, cluster, smem)
    for parameter, size in parameters:
        if size not in (1, 2, 4, 8):
            raise NotImplementedError(f"export: {parameter} of {found} has {size} bytes; only scalars can be arguments")
        launch.scalar(parameter, f"u{8 * size}")
    grid = ["grid_x", "grid_y", "grid_z"]
    images = _images(text, targets or [target], target if ptx else "", found, [], "")
    return _write(directory, name or found, found, [(launch, {}, grid, [], images)], grid, {}, [])


def _write(directory, *sources) -> tuple[Path, ...]:
    files = _core.c_sources(*sources)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files:
        (folder / file).write_text(text)
    return tuple(folder / file for file, _ in files)


def _images(text: str, targets: Sequence[str], own: str, entry: str, lines, assembler: str) -> list[tuple]:
    """Machine code for each target, and the text where `own`, the target that it was written for, has later devices."""
    images = [(each, _core.machine_code(text, each, entry, lines, assembler), False) for each in targets]
    return [*images, (own, text.encode(), True)] if own[-1:].isdigit() else images


def _specialised(kernel, given: dict):
    """The specialisation, and the sizes that it is for: those that were given, although its body did not ask for all."""
    made = kernel.specialise(**given)
    return made, {**made.sizes, **{name: size for name, size in given.items() if name in kernel.signature.symbols}}


def _variant(made, sizes: dict, symbols: list[str], targets: Sequence[str], ptx: bool) -> tuple:
    """As `_core.c_sources` takes it."""
    signature, arch, text = made.signature, made.options.arch, made.text()
    constants = {name: value for name, value in made.template.items() if type(value) is int}
    maps = made.module.tensor_maps
    boxes = [
        traced(lambda of, tile=signature.tiles[name]: record.box_of(tile, {**constants, **of, **sizes}), symbols)
        for name in maps
    ]
    launch = record.make_record(
        made, constants, (1, 1, 1), {name: (1,) * len(box) for name, box in zip(maps, boxes, strict=True)}
    )
    grid = traced(lambda of: _three(signature.grid.parts({**of, **sizes}, made.template)), symbols)
    images = _images(text, targets, arch if ptx else "", signature.entry, made.module.lines, made.options.assembler)
    return launch, sizes, grid, [[*box, "1", "1", "1", "1"][:5] for box in boxes], images


def _three(parts) -> tuple:
    parts = tuple(parts) if isinstance(parts, (tuple, list)) else (parts,)
    return (*parts, 1, 1, 1)[:3]


def _number(value) -> str:
    return value.hex() if isinstance(value, float) else str(int(value))


def _check(kernel, chosen: Sequence[tuple]):
    for made, _ in chosen[1:]:
        if made.template != chosen[0][0].template:
            raise LaunchValueError(
                f"export: template values of {kernel.signature.name} must be the same in all specializations; export the others under another name"
            )
    seen = [tuple(sorted(sizes.items())) for _, sizes in chosen]
    if len(set(seen)) < len(seen):
        raise LaunchValueError("export: two specializations are for the same sizes")
    for tensor in kernel.signature.declared:
        raise NotImplementedError(
            f"export: raw_params with the parameter of a tensor, as {tensor}'s, cannot be exported"
        )
    for raw in kernel.signature.raw:
        if raw.pointer or raw.opaque or raw.array is not None:
            raise NotImplementedError(f"export: only scalars among raw_params can be arguments, not {raw.name}")
