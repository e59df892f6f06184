"""Kernels of the GPU tests on a machine without a GPU: each is assembled, as are those of a target that no GPU test has."""

from __future__ import annotations

import copy_kernels as kernels
import pytest

from pyptx import Tile, assembler
from pyptx.types import u32


@pytest.fixture(autouse=True)
def needs_ptxas():
    if not any(row.name.startswith("ptxas") and "PTX up to" in row.name for row in assembler.found()):
        pytest.skip("skipped: no ptxas")


@pytest.mark.parametrize(
    ("kernel", "opcode"),
    [
        (kernels.STORE, "STAS"),
        (kernels.ADD, "REDAS.ADD"),
        (kernels.GREATEST, "REDAS.MAX"),
        (kernels.multimem, "LDGMC.E.ADD"),
        (kernels.make_load(Tile(64, 64, u32, tma_box=(8, 32)), 1024, (0, 0)), "UTMALDG.2D"),
        (kernels.make_reduction("add", (8, 32), u32), "UTMAREDG.2D.ADD"),
        (kernels.steal, "UGETNEXTWORKID"),
    ],
)
def test_code(kernel, opcode):
    assert opcode in kernel.sass(**({"N": 64} if kernel is kernels.steal else {}))
