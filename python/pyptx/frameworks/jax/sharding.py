"""Kernels on a mesh: each device runs them on its own rows, and nothing is gathered."""

from __future__ import annotations

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from pyptx.specialise.options import GRID_AXES

__all__ = ["by_rows_of_devices", "in_auto_axes", "rows_of"]


def rows_of(kernel) -> str | None:
    """The symbol of rows that have nothing to do with each other."""
    return None if kernel.batch in GRID_AXES else kernel.batch


def by_rows_of_devices(symbol: str, inputs, results, whole, local):
    """`whole(*arrays)`, which each device makes of its own rows by `local(axes, *arrays)`; `axes`: of the mesh, by which rows are spread,
    or None.  `inputs` and `results` are Tiles; what has no rows is whole on each device."""
    function = custom_partitioning(lambda *arrays: whole(*arrays))

    def shared(shapes):
        for tile, shape in zip(inputs, shapes, strict=True):
            spec = getattr(shape.sharding, "spec", ())  # arrays from outside of jax.set_mesh have none
            if symbol in tile.symbolic_dims and len(spec) > 0:
                return spec[0]
        return None

    def shardings(mesh, tiles, rows):
        return [
            NamedSharding(mesh, PartitionSpec(rows) if symbol in tile.symbolic_dims else PartitionSpec())
            for tile in tiles
        ]

    def partition(mesh, arguments, _):
        rows = shared(arguments)

        def own(*arrays):
            with jax.sharding.use_abstract_mesh(_all_manual(mesh)):
                return local(rows, *arrays)

        return mesh, own, shardings(mesh, results, rows), tuple(shardings(mesh, inputs, rows))

    def infer(mesh, arguments, _):
        return shardings(mesh, results, shared(arguments))

    names, whole_axes = _factors([*inputs, *results], symbol)
    function.def_partition(
        partition=partition,
        infer_sharding_from_operands=infer,
        sharding_rule=f"{', '.join(names[: len(inputs)])} -> {', '.join(names[len(inputs) :])}",
        need_replication_factors=whole_axes,
    )
    return lambda *arrays: (whole if _is_manual() else function)(*arrays)


def in_auto_axes(kernel, results, function, arrays):
    """`function(*arrays)`, also where types say how arrays are spread over a mesh (AxisType.Explicit): then the results are spread as the rows
    are.  `results`: the Tiles of what the function returns."""
    meshes = (jax.typeof(array).sharding.mesh for array in arrays)
    mesh = next((mesh for mesh in meshes if AxisType.Explicit in mesh.axis_types), None)
    if mesh is None:
        return function(*arrays)
    symbol, specs = rows_of(kernel), kernel.in_specs
    of_rows = [each for tile, each in zip(specs, arrays, strict=True) if symbol in tile.symbolic_dims]
    rows = jax.typeof(of_rows[0]).sharding.spec[0] if of_rows else None

    def sharding(tile):
        return NamedSharding(mesh, PartitionSpec(*[rows if size == symbol else None for size in tile.shape]))

    return jax.sharding.auto_axes(function, out_sharding=jax.tree.map(sharding, results))(*arrays)


def _is_manual() -> bool:
    """Whether the program is that of one device, at least along some axes of the mesh: then JAX knows no rule for the others."""
    return AxisType.Manual in jax.sharding.get_abstract_mesh().axis_types


def _all_manual(mesh):
    abstract = mesh.abstract_mesh
    return abstract.update_axis_types(dict.fromkeys(abstract.axis_names, AxisType.Manual))


def _factors(tiles, symbol) -> tuple[list[str], tuple[str, ...]]:
    """Shardy's names of the dimensions of each tensor; only `symbol` may be split, the others are whole on each device."""
    names, whole = [], []
    for tensor, tile in enumerate(tiles):
        parts = []
        for axis, size in enumerate(tile.shape):
            parts.append("rows" if size == symbol else f"d{tensor}x{axis}")
            if size != symbol:
                whole.append(parts[-1])
        names.append(" ".join(parts))
    return names, tuple(whole)
