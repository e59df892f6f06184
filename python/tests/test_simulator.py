"""The simulator's options and statistics, from Python and from the command line."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy", reason="skipped: no numpy")

import pyptx  # noqa: E402
from pyptx import Tile, kernel, ptx, reg, simulator  # noqa: E402
from pyptx.__main__ import main  # noqa: E402
from pyptx.errors import SimulationError  # noqa: E402
from pyptx.types import f32, u32  # noqa: E402


@kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=lambda N: (N // 32,), block=(32, 1, 1))
def double(X, Y):
    px, py = ptx.global_ptrs(X, Y)
    index = reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)
    value = reg.scalar(f32)
    ptx.inst.ld.global_.f32(value, ptx.addr(px + index * 4))
    ptx.inst.add.f32(value, value, value)
    ptx.inst.st.global_.f32(ptx.addr(py + index * 4), value)
    ptx.ret()


def test_options_hold_inside_with():
    plain = simulator.Options()
    assert simulator.current() == plain and pyptx.simulator is simulator
    with simulator.options(seed=3, cores=1) as outer:
        assert outer == simulator.current() == simulator.Options(seed=3, cores=1)
        with pytest.raises(ZeroDivisionError), simulator.options(budget=5):
            assert simulator.current() == simulator.Options(seed=3, cores=1, budget=5)
            raise ZeroDivisionError
        assert simulator.current() == outer
    assert simulator.current() == plain


def test_a_budget_ends_a_run():
    @kernel(in_specs=(Tile(1, u32),), out_specs=(Tile(1, u32),), raw_params=[("u32", "n")])
    def count(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        value = reg.scalar(u32)
        ptx.inst.ld.global_.u32(value, ptx.addr(px))
        for _ in ptx.range_(0, ptx.param(u32, "n")):
            value += 1
        ptx.inst.st.global_.u32(ptx.addr(py), value)
        ptx.ret()

    x = np.ones(1, np.uint32)
    assert count(x, n=50_000) == 50_001
    with simulator.options(budget=1000), pytest.raises(SimulationError, match="PTX5040"):
        count(x, n=50_000)  # prepared before: options are those of the run
    assert count(x, n=50_000) == 50_001


def test_statistics_are_of_the_last_run():
    found = []
    for rows in (1, 4):
        double(np.ones(32 * rows, np.float32))
        found.append(simulator.statistics())
    assert all(each.thread_instructions == 32 * each.warp_instructions for each in found)
    assert found[1].warp_instructions == 4 * found[0].warp_instructions > 0


def test_seeds_and_cores_change_no_result():
    x = np.arange(256, dtype=np.float32)
    for chosen in ({"seed": 7}, {"cores": 1}, {"cores": 2, "seed": 9}):
        with simulator.options(**chosen):
            np.testing.assert_array_equal(double(x), x + x)


FIVE = (
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n\t.reg .u32 x;\n\tmov.u32 x, 1;\n"
    "\tadd.u32 x, x, x;\n\tadd.u32 x, x, x;\n\tadd.u32 x, x, x;\n\tret;\n}\n"
)


@pytest.mark.parametrize("options", [[], ["--seed", "5"], ["--schedule", "synchronisation", "--seed", "5"]])
@pytest.mark.parametrize(("grid", "block"), [(1, 32), (1, 96), (8, 32), (3, 64)])
def test_a_budget_is_the_instructions_of_a_launch(tmp_path, capsys, grid, block, options):
    file = tmp_path / "five.ptx"
    file.write_text(FIVE)
    run = ["run", str(file), "--grid", str(grid), "--block", str(block), *options]
    needed = 5 * grid * (block // 32)
    assert main([*run, "--budget", str(needed)]) == 0
    for less in (1, needed // 2, needed - 1):
        assert main([*run, "--budget", str(less)]) == 1
        assert f"is here after {less} instructions of warps, the budget" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("chosen", "error", "message"),
    [
        ({"seeds": 1}, TypeError, "the simulator has no option 'seeds'; it has cores, budget, seed, uninitialised"),
        ({"seed": 1.5}, TypeError, "seed of the simulator must be an int, not 1.5"),
        ({"seed": -1}, ValueError, "seed of the simulator must be 0 to"),
        ({"budget": 0}, ValueError, "budget of the simulator must be 1 to"),
        ({"cores": 5000}, ValueError, "cores of the simulator must be 0 to 1024, not 5000"),
    ],
)
def test_options_are_checked(chosen, error, message):
    with pytest.raises(error, match=message), simulator.options(**chosen):
        pass
    assert simulator.current() == simulator.Options()


LOOP = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nagain:\n\tbra again;\n}\n"


def test_the_command_takes_them(tmp_path, capsys):
    file = tmp_path / "loop.ptx"
    file.write_text(LOOP)
    assert main(["run", str(file), "--budget", "1000", "--seed", "2", "--cores", "1"]) == 1
    assert "PTX5" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["run", str(file), "--budget", "0"])
    assert "argument --budget: '0' is not a number from 1 to" in capsys.readouterr().err
    assert simulator.current() == simulator.Options()


def meeting(ctas: int, wanted: int, asks: str, everyone: bool):
    """CTAs of 64 threads that meet three times at a counter in global memory, as a grid's barrier does."""

    @kernel(
        in_specs=(Tile(1, u32),), out_specs=(Tile(ctas, u32),), mutates="C",
        grid=(ctas,), block=(64, 1, 1), arch="sm_90a",
    )  # fmt: skip
    def meet(C, Y):
        counter, py = ptx.global_ptrs(C, Y)
        t, block = reg.from_(ptx.special.tid.x(), u32), reg.from_(ptx.special.ctaid.x(), u32)
        seen = reg.scalar(u32)
        for round in range(3):
            with ptx.if_(t == 0):
                ptx.inst.red.release.gpu.global_.add.u32(ptx.addr(counter), 1)
            with ptx.if_(t < (64 if everyone else 1)):
                ptx.label(f"again{round}")
                if asks == "nanosleep":
                    ptx.inst.nanosleep.u32(100)
                if asks == "atom":
                    ptx.inst.atom.or_.acquire.gpu.global_.b32(seen, ptx.addr(counter), 0)
                else:
                    ptx.inst.ld.acquire.gpu.global_.u32(seen, ptx.addr(counter))
                ptx.bra(f"again{round}", pred=seen < wanted * (round + 1))
            ptx.bar.sync(0)
        with ptx.if_(t == 0):
            ptx.inst.st.global_.u32(ptx.addr(py + block * 4), seen)
        ptx.ret()

    return meet


@pytest.mark.parametrize(("schedule", "seed"), [("random", 0), ("random", 3), ("synchronisation", 3)])
@pytest.mark.parametrize(
    ("asks", "everyone", "ctas"),
    [("ld", False, 132), ("ld", True, 132), ("nanosleep", False, 132), ("atom", False, 32)],
)
def test_who_waits_for_a_word_of_memory_sleeps(asks, everyone, ctas, schedule, seed):
    with simulator(check="all", seed=seed, schedule=schedule) as run:
        y = meeting(ctas, ctas, asks, everyone)(np.zeros(1, np.uint32))
    assert (y == 3 * ctas).all() and not run.reports
    assert run.statistics.warp_instructions < 3_000_000  # every look of every CTA was counted by hundreds of millions


def test_a_livelock_of_many_ctas_is_found_soon():
    with pytest.raises(SimulationError) as caught, simulator(check="all", budget=1 << 23):
        meeting(132, 133, "ld", False)(np.zeros(1, np.uint32))
    assert caught.value.diagnostics[0].name == "livelock"
    assert "looks at `C` again and again" in str(caught.value)


@pytest.mark.parametrize(
    ("cluster", "address", "said"),
    [
        ((1, 1, 1), 1 << 24, r"of CTA 1 of a cluster that has 1 CTA: the launch has no cluster="),
        ((2, 1, 1), 3 << 24, r"of CTA 3 of a cluster that has 2 CTAs$"),
        ((2, 1, 1), 0xDEAD0000, r"of no CTA of the cluster$"),
    ],
)
def test_shared_memory_of_no_cta(cluster, address, said):
    @kernel(in_specs=(), out_specs=(Tile(1, u32),), grid=2, cluster=cluster)
    def astray(Y):
        ptx.inst.st.shared__cluster.u32(ptx.addr(reg.scalar(u32, init=address)), 1)
        ptx.ret()

    with pytest.raises(SimulationError, match=said):
        astray(out=np.zeros(1, np.uint32))
