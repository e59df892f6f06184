"""`pyptx.diff` and `pyptx.replay`: two executors on the same inputs, and kept calls once more in another process."""

from __future__ import annotations

import json

import pytest

np = pytest.importorskip("numpy", reason="skipped: no numpy")

from simulator_kernels import OF_64, X64, line_of, start  # noqa: E402

import pyptx  # noqa: E402
from pyptx import Tile, kernel, ptx, reg, smem  # noqa: E402
from pyptx.__main__ import main  # noqa: E402
from pyptx.errors import LaunchError  # noqa: E402
from pyptx.types import f32, u32  # noqa: E402


def scaled(factor, wrong=-1):
    @kernel(**OF_64)
    def k(X, Y):
        px, py, t = start(X, Y)
        v = reg.scalar(f32)
        ptx.inst.ld.global_.f32(v, ptx.addr(px + t * 4))
        ptx.inst.mul.f32(v, v, factor)
        with ptx.if_(t == wrong if wrong >= 0 else t == 64):
            ptx.inst.add.f32(v, v, 1.0)
        ptx.inst.st.global_.f32(ptx.addr(py + t * 4), v)
        ptx.ret()

    return k


def test_equal_kernels_do_not_differ():
    assert pyptx.diff(scaled(2.0), X64, against=scaled(2.0)) is None


def test_the_first_element_that_differs_has_its_line():
    one = scaled(2.0)
    found = pyptx.diff(one, X64, against=scaled(2.0, wrong=17))
    assert found is not None
    assert (found.output, found.index, found.there, found.here, found.count) == ("Y", (17,), 35.0, 34.0, 1)
    assert found.file == __file__ and found.line == line_of(scaled, "st.global_")
    assert "`Y`[17] is 35.0 there and 34.0 on the simulator" in str(found)


def test_tolerance_and_nan():
    assert pyptx.diff(scaled(2.0), X64, against=scaled(2.0002), rtol=1e-3) is None
    found = pyptx.diff(scaled(2.0), X64, against=scaled(2.0002))
    assert found is not None and found.index == (1,) and found.count == 63
    assert pyptx.diff(scaled(float("nan")), X64, against=scaled(float("nan"))) is None


def test_inputs_that_are_written_are_compared():
    def make(add):
        @kernel(in_specs=(Tile(32, u32),), out_specs=(), grid=(1, 1, 1), block=(32, 1, 1), mutates=("X",))
        def k(X):
            (px,) = ptx.global_ptrs(X)
            t = reg.from_(ptx.special.tid.x(), u32)
            ptx.inst.st.global_.u32(ptx.addr(px + t * 4), t + add)
            ptx.ret()

        return k

    x = np.zeros(32, np.uint32)
    assert pyptx.diff(make(1), x, against=make(1)) is None and not x.any()
    found = pyptx.diff(make(1), x, against=make(2))
    assert found is not None and (found.output, found.index, found.there, found.here) == ("X", (0,), 2, 1)


def test_without_a_gpu_it_says_so(monkeypatch):
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(LaunchError, match="this machine has no GPU that torch can use; against="):
        pyptx.diff(scaled(2.0), X64)


def test_without_torch_it_says_so(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(LaunchError, match="needs torch, which is not installed"):
        pyptx.diff(scaled(2.0), X64)


def test_it_takes_kernels_alone():
    with pytest.raises(TypeError, match="diff takes a kernel"):
        pyptx.diff(lambda x: x, X64)


@kernel(
    in_specs=(Tile("N", f32),),
    out_specs=(Tile("N", f32),),
    raw_params=[("u32", "past")],
    grid=(1, 1, 1),
    block=(32, 1, 1),
)
def reads_past(X, Y):
    px, py = ptx.global_ptrs(X, Y)
    t = reg.from_(ptx.special.tid.x(), u32)
    v = reg.scalar(f32)
    ptx.inst.ld.global_.f32(v, ptx.addr(px + (t + ptx.param(u32, "past")) * 4))
    ptx.inst.st.global_.f32(ptx.addr(py + t * 4), v)
    ptx.ret()


X32 = np.arange(32, dtype=np.float32)


def test_kept_calls_run_again_in_another_process(tmp_path):
    with pyptx.replay.keep(2, tmp_path, host=True) as kept:
        reads_past(X32, past=0)
        reads_past(X32, past=0)
        with pytest.raises(pyptx.errors.SimulationError):
            reads_past(X32, past=1)
    reads_past(X32, past=0)  # is not kept
    assert [path[-10:] for path in kept.paths] == ["000001.zip", "000002.zip"] and kept.folder == str(tmp_path)
    clean, faulty = kept.replay(timeout=300)
    assert clean.status == "clean" and clean.reports == []
    assert faulty.status == "reports" and faulty.reports[0]["code"] == 5010
    assert faulty.reports[0]["line"] == line_of(reads_past, "ld.global_") and "PTX5010" in str(faulty)


@kernel(**OF_64)
def unordered(X, Y):
    px, py, t = start(X, Y)
    tile, value = smem.alloc(f32, 64), reg.scalar(f32)
    ptx.inst.ld.global_.f32(value, ptx.addr(px + t * 4))
    ptx.inst.st.shared.f32(ptx.addr(tile, (t & 31) * 4), value)
    ptx.inst.st.global_.f32(ptx.addr(py + t * 4), value)
    ptx.ret()


def test_a_replay_looks_for_races_on_request(tmp_path):
    with pyptx.replay.keep(1, tmp_path, host=True) as kept:
        unordered(X64)
    assert [one.status for one in kept.replay(timeout=300)] == ["clean"]
    (found,) = kept.replay(timeout=300, check="data_race")
    assert found.status == "reports" and found.reports[0]["name"] == "data_race"
    assert main(["replay", str(tmp_path), "--check", "races"]) == 2


def test_the_command_replays(tmp_path, capsys):
    with pyptx.replay.keep(1, tmp_path, host=True) as kept, pytest.raises(pyptx.errors.SimulationError):
        reads_past(X32, past=1)
    assert main(["replay", kept.paths[0], "--here", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["reports"][0]["sites"][0]["owner"] == "`X`+128"
    assert main(["replay", str(tmp_path / "none")]) == 2
    assert "no such file or folder" in capsys.readouterr().err


def test_large_calls_are_counted_and_not_kept(tmp_path):
    with pyptx.replay.keep(1, tmp_path, host=True, most_bytes=100) as kept:
        reads_past(X32, past=0)
    assert kept.paths == [] and kept.dropped == 1


def test_damaged_files_are_said(tmp_path, capsys):
    path = tmp_path / "call-000000.zip"
    path.write_bytes(b"no archive")
    assert main(["replay", str(path), "--here"]) == 2
    assert "not a call that pyptx kept, or damaged" in capsys.readouterr().err
    with pytest.raises(ValueError, match="must be at least 1"), pyptx.replay.keep(0):
        pass


def test_outputs_that_are_brought_have_their_values(tmp_path):
    @kernel(in_specs=(Tile(32, f32),), out_specs=(Tile(32, f32),), grid=(1, 1, 1), block=(16, 1, 1))
    def half(X, Y):
        _, py = ptx.global_ptrs(X, Y)
        t = reg.from_(ptx.special.tid.x(), u32)
        ptx.inst.st.global_.f32(ptx.addr(py + t * 4), 1.0)
        ptx.ret()

    with pyptx.replay.keep(1, tmp_path, host=True) as kept:
        half(X32, out=np.zeros(32, np.float32))
    (again,) = kept.replay(timeout=300)
    assert again.status == "clean", again


# ---- with a GPU


def cuda():
    torch = pytest.importorskip("torch", reason="skipped: no torch")
    if not torch.cuda.is_available():
        pytest.skip("skipped: no GPU")
    return torch


@pytest.mark.gpu
def test_a_gpu_and_the_simulator_agree():
    torch = cuda()
    assert pyptx.diff(scaled(2.0), X64) is None
    assert pyptx.diff(scaled(0.1), torch.rand(64, device="cuda")) is None


@pytest.mark.gpu
def test_what_differs_on_a_gpu_is_named():
    cuda()

    @kernel(**OF_64)
    def clocks(X, Y):
        px, py, t = start(X, Y)
        v = reg.scalar(f32)
        ptx.inst.ld.global_.f32(v, ptx.addr(px + t * 4))
        ptx.inst.st.global_.f32(ptx.addr(py + t * 4), v)
        with ptx.if_(t == 5):
            ptx.inst.mov.u32(t, ptx.special.clock())
            ptx.inst.st.global_.u32(ptx.addr(py + 20), t | 1)
        ptx.ret()

    found = pyptx.diff(clocks, X64)
    assert found is not None and (found.output, found.index, found.count) == ("Y", (5,), 1)
    assert found.line == line_of(clocks._fn, "t | 1")


@pytest.mark.gpu
def test_calls_on_a_gpu_are_replayed(tmp_path):
    torch = cuda()
    x = torch.arange(64, dtype=torch.float32, device="cuda")
    with pyptx.replay.keep(2, tmp_path) as kept:
        reads_past(x[:32], past=0)
        reads_past(x[:32], past=8)  # on the GPU it finds what lies behind
        torch.cuda.synchronize()
    clean, faulty = kept.replay(timeout=300)
    assert clean.status == "clean" and faulty.status == "reports" and faulty.reports[0]["code"] == 5010
