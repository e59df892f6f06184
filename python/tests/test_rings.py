"""A ring of stages between a warp that copies and a warp that adds, on the simulator: right under every schedule, and each way
to forget a step is reported with what the threads wait for."""

from __future__ import annotations

import numpy as np
import pytest

import pyptx
from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.errors import SimulationError
from pyptx.types import f32, u32

ROWS, COLUMNS, TILES = 8, 32, 8
BYTES = ROWS * COLUMNS * 4


def make_ring(stages: int, forget: str = ""):
    """Y = the sum of X over its rows."""

    @kernel(
        in_specs=(Tile(ROWS * TILES, COLUMNS, f32, tma_box=(ROWS, COLUMNS)),), out_specs=(Tile(COLUMNS, f32),),
        block=(64, 1, 1), arch="sm_90a",
    )  # fmt: skip
    def ring(X, Y):
        map_x = X.tma_desc()
        (py,) = ptx.global_ptrs(Y)
        data = [smem.alloc(f32, (ROWS * COLUMNS,), align=128, name=f"stage{i}") for i in range(stages)]
        full, empty = smem.mbarrier(stages), smem.mbarrier(stages)
        thread = reg.from_(ptx.special.tid.x(), u32)
        with ptx.if_(thread == 0):
            for stage in range(stages):
                ptx.mbarrier.init(full[stage], 1)
                ptx.mbarrier.init(empty[stage], 32)
        ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        with ptx.if_(thread == 0):
            for tile in range(TILES):
                stage, turn = tile % stages, tile // stages
                if turn and forget != "empty":
                    ptx.mbarrier.wait(empty[stage], (turn - 1) & 1)
                ptx.mbarrier.arrive_expect_tx(full[stage], BYTES + 16 * (forget == "bytes"))
                if forget != "copy":
                    ptx.tensor_copy.load(data[stage], map_x, (0, ROWS * tile), full[stage])
        with ptx.if_(thread >= 32):
            offset = (thread - 32) * 4
            total, value = reg.scalar(f32, init=0.0), reg.scalar(f32)
            for tile in range(TILES):
                stage, turn = tile % stages, tile // stages
                if forget != "full":
                    ptx.mbarrier.wait(full[stage], turn & 1)
                for row in range(ROWS):
                    ptx.inst.ld.shared.f32(value, ptx.addr(smem.base(f"stage{stage}") + offset, row * COLUMNS * 4))
                    ptx.inst.add.f32(total, total, value)
                if forget != "release":
                    ptx.mbarrier.arrive(empty[stage])
            ptx.inst.st.global_.f32(ptx.addr(py + offset), total)
        ptx.ret()

    return ring


X = np.arange(ROWS * TILES * COLUMNS, dtype=np.float32).reshape(-1, COLUMNS)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_right_under_every_schedule(stages, seed):
    with pyptx.simulator.options(seed=seed):
        np.testing.assert_array_equal(make_ring(stages)(X), X.sum(axis=0))


@pytest.mark.parametrize(
    "forget, code, words",
    [
        ("bytes", "PTX5020", ["1 of 1 arrivals", "1024 of 1040 bytes", "phase 0 (parity 0)"]),
        ("copy", "PTX5020", ["1 of 1 arrivals", "0 of 1024 bytes"]),
        ("release", "PTX5020", ["0 of 32 arrivals", "nobody has ever arrived"]),
    ],
)
@pytest.mark.parametrize("seed", range(6))
def test_a_hang_says_what_is_waited_for(forget, code, words, seed):
    with pyptx.simulator.options(seed=seed), pytest.raises(SimulationError) as found:
        make_ring(2, forget)(X)
    for word in (code, *words):
        assert word in str(found.value)


@pytest.mark.parametrize(
    "forget, code, words",
    [("full", "PTX5012", ["never written"]), ("empty", "PTX5022", ["this phase waits for 0 of 1"])],
)
def test_a_missing_wait_is_no_luck(forget, code, words):
    """Copies finish as late as waits permit, so the plain schedule shows it each time."""
    with pytest.raises(SimulationError) as found:
        make_ring(2, forget)(X)
    for word in (code, *words):
        assert word in str(found.value)
