"""What the simulator knows of a launch: inputs, outputs, sizes; and how a run ends early."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

np = pytest.importorskip("numpy", reason="skipped: no numpy")

from pyptx import Tile, kernel, ptx, reg, simulator, smem  # noqa: E402
from pyptx.__main__ import main  # noqa: E402
from pyptx.errors import LaunchError, SimulationError  # noqa: E402
from pyptx.types import f32, u32  # noqa: E402


def place(p):
    return p + reg.from_(ptx.special.tid.x(), u32) * 4


def copy(X, Y, *, first=0, to_input=False):
    px, py = ptx.global_ptrs(X, Y)
    index = reg.from_(ptx.special.ctaid.x(), u32) * 32 + reg.from_(ptx.special.tid.x(), u32)
    value = reg.scalar(f32)
    ptx.inst.ld.global_.f32(value, ptx.addr(px + index * 4))
    with ptx.if_(index >= first):
        ptx.inst.st.global_.f32(ptx.addr((px if to_input else py) + index * 4), value)
    ptx.ret()


def over_blocks(**told):
    return kernel(
        in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32, **told),), grid=lambda N: (N // 32,), block=(32, 1, 1)
    )


copy, partly = over_blocks()(copy), over_blocks(whole=False)(copy)


@kernel(in_specs=(Tile(32, f32),), out_specs=(Tile(1, f32),), block=(32, 1, 1))
def total(X, Y):
    px, py = ptx.global_ptrs(X, Y)
    value = reg.scalar(f32)
    ptx.inst.ld.global_.f32(value, ptx.addr(place(px)))
    ptx.inst.red.global_.add.f32(ptx.addr(py), value)
    ptx.ret()


@kernel(in_specs=(Tile(1, f32),), out_specs=(Tile(1, f32),), grid=(2000, 1, 1), block=(32, 1, 1))
def forever(X, Y):
    ptx.label("again")
    ptx.bra("again")
    ptx.ret()


def test_outputs_have_to_be_written():
    x = np.arange(64, dtype=np.float32)
    assert (copy(x) == x).all()
    with pytest.raises(SimulationError, match=r"PTX5015.* had not written 12 of the 256 bytes of `Y`.* whole=False"):
        copy(x, first=3)
    out = np.full(64, 7, np.float32)
    copy(x, first=3, out=out)  # its values are the caller's
    assert (out[:3] == 7).all() and (out[3:] == x[3:]).all()
    with simulator.options(uninitialised=False):
        copy(x, first=3)
    assert (partly(x, first=3)[3:] == x[3:]).all()
    with pytest.raises(SimulationError, match="PTX5015"):
        copy(np.ones(70, np.float32))


def test_an_output_that_is_given_has_values():
    out = np.zeros(1, np.float32)
    total(np.ones(32, np.float32), out=out)
    assert out == 32
    with pytest.raises(SimulationError, match="PTX5012"):
        total(np.ones(32, np.float32))


def test_inputs_are_written_only_if_the_kernel_says_so():
    x = np.ones(32, np.float32)
    with pytest.raises(SimulationError, match=r"PTX5014.* of `X`, an input that the kernel does not say it writes"):
        copy(x, to_input=True)

    @kernel(in_specs=(Tile("N", f32),), out_specs=(), mutates="X", grid=lambda N: (N // 32,), block=(32, 1, 1))
    def negate(X):
        (px,) = ptx.global_ptrs(X)
        value = reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, ptx.addr(place(px)))
        ptx.inst.neg.f32(value, value)
        ptx.inst.st.global_.f32(ptx.addr(place(px)), value)
        ptx.ret()

    negate(x)
    assert (x == -1).all()


def test_a_grid_without_blocks_is_for_tensors_without_elements():
    assert copy(np.empty(0, np.float32)).shape == (0,)
    with pytest.raises(LaunchError, match=r"`?Y`?.*the grid \(0, 1, 1\) has no block"):
        copy(np.ones(20, np.float32))
    with pytest.raises(LaunchError, match="has no block"):
        copy(np.ones(20, np.float32), out=np.zeros(20, np.float32))


def sends(directives, copies: bool):
    """A CTA that writes a number of its own shared memory by the asynchronous proxy, as to a peer."""

    @kernel(in_specs=(Tile(1, f32),), out_specs=(Tile(4, u32),), arch="sm_90a", raw_directives=directives)
    def to_itself(X, Y):
        (y,) = ptx.global_ptrs(Y)
        here, box, full = smem.alloc(u32, 4, align=16), smem.alloc(u32, 4, align=16), smem.mbarrier(1)
        ptx.inst.st.shared.v4.u32(ptx.addr(here), [3, 4, 5, 6])
        ptx.mbarrier.init(full[0], 1)
        ptx.fence.proxy_async()
        ptx.mbarrier.arrive_expect_tx(full[0], 16 if copies else 4)
        to, bar = reg.scalar(u32), reg.scalar(u32)
        for into, name in ((to, box.name), (bar, full.name)):
            ptx.inst.mov.u32(into, name)
            ptx.inst.mapa.shared__cluster.u32(into, into, 0)
        if copies:
            ptx.inst.cp.async_.bulk.shared__cluster.shared__cta.mbarrier__complete_tx__bytes(
                ptx.addr(to), ptx.addr(here), 16, ptx.addr(bar)
            )
        else:
            ptx.st_async(u32, ptx.addr(to), reg.scalar(u32, init=3), ptx.addr(bar))
        ptx.mbarrier.wait(full[0], 0)
        first = reg.scalar(u32)
        ptx.inst.ld.shared.u32(first, ptx.addr(box))
        ptx.inst.st.global_.v4.u32(ptx.addr(y), [first, 0, 0, 0])
        ptx.ret()

    return to_itself


@pytest.mark.parametrize("copies", [False, True], ids=["st.async", "cp.async.bulk"])
def test_writes_to_the_cluster_need_a_launch_in_clusters(copies):
    """An H200 stops at them with "illegal instruction" where there is no cluster, be it of one CTA."""
    ones = np.ones(1, np.float32)
    assert sends([("reqnctapercluster", (1,))], copies)(ones)[0] == 3
    with pytest.raises(SimulationError, match="PTX5003.*the launch has no clusters; `.reqnctapercluster 1` makes"):
        sends(None, copies)(ones)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [({"grid": (1, 70000, 1)}, r"grid \(1, 70000, 1\)"), ({"smem": 400_000}, "400000 bytes of dynamic shared memory")],
)
def test_launches_that_no_device_takes(chosen, message):
    @kernel(in_specs=(Tile(1, f32),), out_specs=(Tile(1, f32),), **chosen)
    def nothing(X, Y):
        ptx.ret()

    with pytest.raises(LaunchError, match=message):
        nothing(np.ones(1, np.float32))


def test_too_much_shared_memory_is_refused_at_the_largest_allocation():
    @kernel(in_specs=(Tile(1, f32),), out_specs=(Tile(1, f32),))
    def stages(X, Y):
        smem.alloc(f32, 1000)
        smem.alloc(f32, 70_000, name="ring")
        ptx.ret()

    line = stages.__wrapped__.__code__.co_firstlineno + 3
    message = rf"test_simulator_launch.py:{line}: .* a block may have 232448; the largest of 2 is `ring`, of 280000"
    with pytest.raises(LaunchError, match=message):
        stages(np.ones(1, np.float32))


@kernel(in_specs=(Tile(1, f32),), out_specs=(Tile(1, f32),), block=(128, 1, 1), grid=(8,))
def waits_forever(X, Y):
    """Each round leaves pieces of a trace."""
    i = reg.scalar(u32, init=0)
    ptx.label("again")
    ptx.inst.add.u32(i, i, 1)
    ptx.bar.sync(0)
    ptx.bra("again")
    ptx.ret()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="skipped: no timers")
@pytest.mark.parametrize(
    ("cores", "within", "run"),
    [
        (1, lambda: simulator.options(cores=1), forever),
        (2, lambda: simulator.options(cores=2), forever),
        (1, lambda: simulator(check="all"), waits_forever),
    ],
    ids=["1", "2", "recorded"],
)
def test_a_signal_ends_a_run_within_50_ms(cores, within, run):
    """Of the process's own time, which a busy machine does not stretch."""

    def ring(*_):
        raise InterruptedError

    before = signal.signal(signal.SIGPROF, ring)
    late = []
    try:
        for _ in range(3):
            with pytest.raises(InterruptedError), within():
                begin = time.process_time()
                signal.setitimer(signal.ITIMER_PROF, 0.4)
                run(np.ones(1, np.float32))
            late.append(time.process_time() - begin - 0.4)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert min(late) < 0.05 * cores, late
    assert (copy(np.ones(32, np.float32)) == 1).all()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="skipped: no timers")
def test_a_signal_ends_an_exploration_of_short_launches():
    """Each ends before it asks, which it does every 10 ms."""

    def ring(*_):
        raise InterruptedError

    before = signal.signal(signal.SIGPROF, ring)
    late = []
    try:
        for _ in range(3):
            with simulator(check="all") as run:
                copy(np.ones(32, np.float32))
                begin = time.process_time()
                signal.setitimer(signal.ITIMER_PROF, 0.2)
                with pytest.raises(InterruptedError):
                    run.explore(1_000_000)
            late.append(time.process_time() - begin - 0.2)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert min(late) < 0.05, late


@pytest.mark.skipif(sys.platform == "win32", reason="skipped: signals are POSIX")
def test_interrupting_the_command(tmp_path):
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\nA: bra A;\n}\n"
    (tmp_path / "loop.ptx").write_text(text)
    command = [sys.executable, "-m", "pyptx", "run", str(tmp_path / "loop.ptx"), "--grid", "5000"]
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}  # a shell's background jobs ignore it
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **heard) as run:
        time.sleep(1.5)
        assert run.poll() is None
        begin = time.monotonic()
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=20)
        assert time.monotonic() - begin < 2
    assert run.returncode == 130 and b"Traceback" not in said


def test_the_budget_is_of_the_launch():
    with simulator.options(budget=100_000), pytest.raises(SimulationError, match="PTX5040"):
        forever(np.ones(1, np.float32))


def test_straight_lines_take_time_in_proportion(tmp_path):
    head = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r;\nmov.b32 %r, 0;\n"
    seconds = []
    for count in (5_000, 40_000):
        (tmp_path / "long.ptx").write_text(head + "add.s32 %r, %r, 1;\n" * count + "ret;\n}\n")
        begin = time.process_time()
        assert main(["run", str(tmp_path / "long.ptx")]) == 0
        seconds.append(time.process_time() - begin)
    assert seconds[1] < 24 * seconds[0]  # 8 times the text; 64 times the time if it were quadratic
