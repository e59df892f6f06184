"""Runs that stand still: breakpoints, steps, registers, shared memory and mbarriers; and the debugger on the terminal."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

np = pytest.importorskip("numpy", reason="skipped: no numpy")

from simulator_kernels import OF_64, X64, line_of, start  # noqa: E402

import pyptx  # noqa: E402
from pyptx import kernel, ptx, reg, smem  # noqa: E402
from pyptx.__main__ import main  # noqa: E402
from pyptx.tools.debugger import Debugger  # noqa: E402
from pyptx.types import f32, pred  # noqa: E402


@kernel(**OF_64)
def halved(X, Y):
    px, py, t = start(X, Y)
    buffer = smem.alloc(f32, (2, 32), name="buffer")
    bar = smem.mbarrier(1, name="full")[0]
    value, small = reg.scalar(f32, name="value"), reg.scalar(pred, name="small")
    ptx.inst.ld.global_.f32(value, ptx.addr(px + t * 4))
    ptx.inst.setp.lt.u32(small, t, 32)
    with ptx.if_(t == 0):
        ptx.mbarrier.init(bar, 2)
    ptx.inst.st.shared.f32(ptx.addr(buffer, t * 4), value)
    ptx.bar.sync(0)
    ptx.inst.mul.f32(value, value, 0.5)
    ptx.inst.st.global_.f32(ptx.addr(py + t * 4), value)
    ptx.ret()


def here(text: str) -> str:
    return f"test_debugger.py:{line_of(halved, text)}"


def test_a_breakpoint_shows_everything():
    seen = []

    def look(stop):
        seen.append((stop.warp, stop.thread, stop.line, stop.instruction))
        value = stop.registers["value"]
        first = 32 * stop.warp
        assert value.type == "f32" and (value.values == X64[first : first + 32]).all() and all(value.written)
        assert (stop.registers["%small"].values == (stop.warp == 0)).all()
        assert stop.shared["buffer"].array().shape == (2, 32)
        assert (stop.shared["buffer"].array()[stop.warp] == X64[first : first + 32]).all()
        full = stop.mbarriers["full"]
        assert (full.expected, full.pending, full.phase, full.tx) == (2, 2, 0, 0)
        assert any(one.warp == stop.warp and one.line == stop.line for one in stop.warps)

    with pyptx.simulator() as run:
        run.breakpoint(here("mul.f32"), look)
        y = halved(X64)
    assert (y == X64 / 2).all()
    line = line_of(halved, "mul.f32")
    assert sorted(seen) == [(0, (0, 0, 0), line, "mul.f32"), (1, (32, 0, 0), line, "mul.f32")]


def test_steps_go_by_instruction_and_by_line():
    steps = []

    def step(stop):
        steps.append((stop.line, stop.instruction))
        return "line" if len(steps) < 3 else "step" if len(steps) < 5 else "continue"

    with pyptx.simulator() as run:
        run.breakpoint(here("ld.global_"), step)
        halved(X64)
    lines = [line for line, _ in steps]
    assert lines[:3] == [line_of(halved, text) for text in ("ld.global_", "setp.lt", "if_(t == 0)")]
    assert lines[3] == lines[2], "the branch behind the comparison"
    assert len(steps) == 6, "five of the first warp, and the breakpoint of the second"


def test_a_stop_does_not_outlive_its_moment():
    kept = []
    with pyptx.simulator() as run:
        run.breakpoint(here("mul.f32"), lambda stop: kept.append(stop))
        halved(X64)
    with pytest.raises(RuntimeError, match="the run has gone on"):
        _ = kept[0].registers


def test_what_the_function_raises_ends_the_run():
    def fails(stop):
        raise ZeroDivisionError("at the stop")

    with pyptx.simulator() as run, pytest.raises(ZeroDivisionError, match="at the stop"):
        run.breakpoint(here("mul.f32"), fails)
        halved(X64)
    assert (halved(X64) == X64 / 2).all()


def test_quit_and_wrong_answers():
    with pyptx.simulator() as run, pytest.raises(pyptx.errors.SimulationError, match="PTX5041"):
        run.breakpoint(here("mul.f32"), lambda stop: "quit")
        halved(X64)
    with pyptx.simulator() as run, pytest.raises(ValueError, match='must return None, "continue"'):
        run.breakpoint(here("mul.f32"), lambda stop: "on")
        halved(X64)


def test_unknown_names_are_said():
    def look(stop):
        with pytest.raises(KeyError, match="no register 'nobody' here; there are"):
            _ = stop.registers["nobody"]

    with pyptx.simulator() as run:
        run.breakpoint(here("mul.f32"), look)
        halved(X64)


def test_the_debugger_on_the_terminal():
    commands = iter(["p value", "p nobody", "m", "m buffer", "b", "w", "r", "l", "help", "n", "", "s", "c"])
    written = []
    with pyptx.simulator() as run:
        run.stop_at_once(Debugger(lambda prompt: next(commands, "c"), written.append))
        halved(X64)
    text = "\n".join(written)
    assert "value .f32: nothing has written it" in text and "no register 'nobody'" in text
    assert "buffer: 256 bytes" in text and "there are no mbarriers" in text and "warp 1, all lanes at" in text
    assert "goes on" in text or "ends the run" in text
    assert next(commands, None) is None


def test_the_command_debugs(tmp_path, monkeypatch, capsys):
    path = tmp_path / "a.ptx"
    path.write_text(""".version 8.0
.target sm_80
.address_size 64
.visible .entry k()
{
  .reg .b32 %r<3>;
  mov.u32 %r1, %tid.x;
  add.u32 %r2, %r1, 5;
  add.u32 %r2, %r2, 1;
  ret;
}
""")
    commands = iter(["p r2", "c"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(commands))
    assert main(["run", str(path), "--break", "9"]) == 0
    out = capsys.readouterr().out
    assert "add.u32 %r2, %r2, 1;" in out and "%r2 .b32: 5 ? ?" in out.replace("5 ? ", "5 ? ", 1)
    monkeypatch.setattr("builtins.input", lambda prompt="": "q")
    assert main(["run", str(path), "--debug"]) == 1
    assert "PTX5041" in capsys.readouterr().err


def test_a_line_alone_is_of_any_file():
    lines = []
    with pyptx.simulator() as run:
        run.breakpoint(line_of(halved, "mul.f32"), lambda stop: lines.append(stop.warp))
        halved(X64)
    assert sorted(lines) == [0, 1]


def test_a_breakpoint_that_no_launch_comes_to_is_warned_of():
    line = line_of(halved, "def halved")
    with pytest.warns(UserWarning, match=f"no launch came to test_debugger.py:{line}, where a breakpoint is"):
        with pyptx.simulator() as run:
            run.breakpoint(f"test_debugger.py:{line}", lambda stop: None)
            halved(X64)


COMPILED = """\
.version 8.0
.target sm_80
.address_size 64
.file 1 "k.cu"
.visible .entry k(.param .u64 p)
{
	.reg .b32 %r<3>;
	.reg .b64 %d;
	.loc 1 3 1
	ld.param.u64 %d, [p];
	mov.u32 %r1, %tid.x;
	.loc 1 4 1
	add.u32 %r1, %r1, 5;
	mul.lo.u32 %r1, %r1, 2;
LOOP:
	.loc 1 6 1
	add.u32 %r1, %r1, 1;
	.loc 1 4 1
	st.global.u32 [%d], %r1;
	.loc 1 6 1
	bra LOOP;
}
"""


def test_steps_and_breakpoints_are_of_the_source(tmp_path, monkeypatch, capsys):
    """Of the lines that .loc names, where it names any."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.ptx").write_text(COMPILED)
    (tmp_path / "k.cu").write_text("".join(f"line {n};\n" for n in range(1, 10)))
    commands = iter(["n", "n", "s", "o", "n", "l", "q"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(commands))
    assert main(["run", "k.ptx", "--break", "k.cu:4", "--arg", "out:4"]) == 1
    out = capsys.readouterr().out.splitlines()
    stops = [line.split(" at ")[1] for line in out if line.startswith("CTA")]
    assert [stop.partition(": ")[0] for stop in stops] == [
        "k.ptx:13 (`add.u32` of k.cu:4)",
        "k.ptx:17 (`add.u32` of k.cu:6)",
        "k.ptx:19 (`st.global.u32` of k.cu:4)",
        "k.ptx:21 (`bra` of k.cu:6)",
        "k.ptx:17 (`add.u32` of k.cu:6)",
    ]
    assert out[1] == ">    4 line 4;"
    assert [line for line in out if "line 10" in line or "   2 line 2;" in line] == ["     2 line 2;"]
    assert ">   17 	add.u32 %r1, %r1, 1;" in out


def test_what_is_no_command_is_said(tmp_path, monkeypatch, capsys):
    (tmp_path / "k.ptx").write_text(COMPILED)
    commands = iter(["where", "h", "p", "q"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(commands))
    assert main(["run", str(tmp_path / "k.ptx"), "--debug", "--arg", "out:4"]) == 1
    out = capsys.readouterr().out
    assert "'where' is no command, or lacks a name; there are" in out and out.count("no command") == 2
    assert out.count("s, step") == 3


def interrupted(arguments: list[str], *, typed: str = "", times: int = 1):
    """`pyptx run` with Ctrl-C while it runs."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "pyptx", "run", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.default_int_handler
        ),  # a shell's background jobs ignore it
    )
    process.stdin.write(typed)
    process.stdin.flush()
    for _ in range(times):
        time.sleep(2)
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_an_interrupt_says_where_the_run_stood(tmp_path):
    (tmp_path / "k.ptx").write_text(COMPILED)
    trace = tmp_path / "t.json"
    status, out, err = interrupted([str(tmp_path / "k.ptx"), "--arg", "out:4", "--counters", "--trace", str(trace)])
    assert status == 130
    assert "PTX5041 the run was ended from outside" in err and "CTA (0,0,0), warp 0, lanes 0 at" in err
    assert "add.u32" in out and "traceEvents" in trace.read_text()


def test_an_interrupt_stops_a_run_under_the_debugger(tmp_path):
    (tmp_path / "k.ptx").write_text(COMPILED)
    status, out, _ = interrupted([str(tmp_path / "k.ptx"), "--arg", "out:4", "--debug"], typed="c\n")
    assert status == 1 and out.count("CTA (0, 0, 0) warp 0 at") == 2  # the input has ended: quit
