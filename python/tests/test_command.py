"""The command `pyptx`: what each subcommand does with what it is meant for.  What it is not meant for: test_command_odd.py."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import pyptx
from pyptx import emitter, parser
from pyptx.__main__ import _parser, main
from pyptx.tools import completion

ADD = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 y, .param .f32 by)
{
	.reg .u64 %rd<4>;
	.reg .u32 %r<4>;
	.reg .f32 %f<4>;
	mov.u32 %r0, %tid.x;
	mul.wide.u32 %rd2, %r0, 4;
	ld.param.u64 %rd0, [a];
	ld.param.u64 %rd1, [y];
	ld.param.f32 %f1, [by];
	add.u64 %rd0, %rd0, %rd2;
	add.u64 %rd1, %rd1, %rd2;
	ld.global.f32 %f0, [%rd0];
	add.f32 %f0, %f0, %f1;
	st.global.f32 [%rd1], %f0;
	ret;
}
"""


@pytest.fixture
def add(tmp_path):
    file = tmp_path / "add.ptx"
    file.write_text(ADD)
    return file


def floats(*values: float) -> str:
    return struct.pack(f"<{len(values)}f", *values).hex()


def test_check_of_legal_text(add, capsys):
    assert main(["check", str(add)]) == 0
    assert capsys.readouterr().out == ""


def test_check_names_file_line_and_code(add, capsys):
    add.write_text(ADD.replace("add.f32 %f0", "add.f32 %r0").replace("mov.u32", "move.u32"))
    assert main(["check", str(add)]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert lines[0].startswith(f"{add}:9:") and "PTX2001" in lines[0]
    assert lines[1].startswith(f"{add}:17:") and "PTX20" in lines[1]


def test_check_notes_the_order_of_modifiers_where_asked(add, capsys):
    add.write_text(ADD.replace("\tadd.f32", "\tadd.ftz.rn.f32"))
    assert main(["check", str(add)]) == 0
    assert capsys.readouterr().out == ""
    assert main(["check", "--lint", str(add)]) == 0
    said = capsys.readouterr().out
    assert f"{add}:17:" in said and "PTX2204" in said and "`add.rn.ftz.f32`" in said


def test_check_for_another_target(add, capsys):
    add.write_text(ADD.replace("\tret;", "\tgriddepcontrol.wait;\n\tret;").replace("sm_80", "sm_90"))
    assert main(["check", str(add)]) == 0
    assert main(["check", "--target", "sm_80", str(add)]) == 1
    assert "griddepcontrol" in capsys.readouterr().out


@pytest.mark.parametrize("content", [ADD.encode(), b"", b"\xff\x00 nonsense { ; \r\n", b"// caf\xe9\n.version 8.0"])
def test_parse_prints_any_bytes_back(tmp_path, capfdbinary, content):
    file = tmp_path / "x.ptx"
    file.write_bytes(content)
    assert main(["parse", str(file)]) == 0
    assert capfdbinary.readouterr().out == content


@pytest.mark.parametrize("text", [ADD, "", "junk (", "é\udcff"])
def test_parse_and_emit_in_python(text):
    assert emitter.emit(parser.parse(text)) == text


def test_parse_says_where_text_is_no_ptx():
    assert not parser.parse(ADD).diagnostics
    (found,) = parser.parse(ADD.replace("ret;", "ret ]];"), file="a.ptx").diagnostics
    assert found.file == "a.ptx" and found.line == 19


def test_run_prints_output_buffers(add, capsys):
    status = main(
        ["run", str(add), "--block", "2", "--arg", f"in:{floats(1, 2)}", "--arg", "out:8", "--arg", "f32:0.5"]
    )
    assert (status, capsys.readouterr().out) == (0, floats(1.5, 2.5) + "\n")


@pytest.mark.parametrize("number", ["0.5", ".5", "+5e-1"])
def test_a_number_is_of_its_parameters_type(add, capsys, number):
    assert main([*RUN[:-1], number, str(add)]) == 0
    assert capsys.readouterr().out == floats(1.5, 2.5) + "\n"


def test_numbers_of_every_type(tmp_path, capsys):
    file = tmp_path / "types.ptx"
    file.write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u32 u, .param .s16 s,\n"
        ".param .f64 d, .param .b32 b, .param .align 4 .b8 record[4]) {\n.reg .b64 o, q;\n.reg .u32 x;\n.reg .s16 y;\n.reg .f64 z;\n"
        "ld.param.u64 o, [out];\nld.param.u32 x, [u];\nst.global.u32 [o], x;\nld.param.s16 y, [s];\nst.global.s16 [o+4], y;\n"
        "ld.param.f64 z, [d];\nst.global.f64 [o+8], z;\nld.param.b32 x, [b];\nst.global.u32 [o+16], x;\nret;\n}\n"
    )

    def run(u="7", s="-3", d="0.1", b="0x10", record="in:00000000"):
        arguments = [word for one in ("out:24", u, s, d, b, record) for word in ("--arg", one)]
        return main(["run", str(file), *arguments]), capsys.readouterr()

    status, said = run()
    assert status == 1 and "record" in said.err  # a buffer is no record of 4 bytes
    for wrong, words in (
        ({"u": "-1"}, "u is a .u32: '-1': the number does not fit u32"),
        ({"u": "1.5"}, "u is a .u32: '1.5': it is no integer"),
        ({"u": "010"}, "u is a .u32: '010': it is no integer"),
        ({"d": "0x10"}, "d is a .f64: '0x10': in decimal, or its bits as b64:0x10"),
        ({"b": "1.5"}, "b is a .b32: give the type of 1.5, for example f32:1.5"),
        ({"record": "1"}, "record is `.param .align 4 .b8 record[4]`, not one number"),
    ):
        status, said = run(**wrong)
        assert status == 1 and words in said.err, said
    file.write_text(file.read_text().replace(", .param .align 4 .b8 record[4]", ""))
    arguments = [word for one in ("out:24", "7", "-3", "0.1", "0x10") for word in ("--arg", one)]
    assert main(["run", str(file), *arguments]) == 0
    assert bytes.fromhex(capsys.readouterr().out) == struct.pack("<Ihxxdi4x", 7, -3, 0.1, 16)


def test_run_takes_npy_files(add, tmp_path, capsys):
    numpy = pytest.importorskip("numpy", reason="skipped: no numpy")
    numpy.save(tmp_path / "a.npy", numpy.array([4, 5], dtype=numpy.float32))
    arguments = ["run", str(add), "--entry", "add", "--block", "2,1,1"]
    assert main([*arguments, "--arg", str(tmp_path / "a.npy"), "--arg", "out:8", "--arg", "f32:-1"]) == 0
    assert capsys.readouterr().out == floats(3, 4) + "\n"


def test_run_reports_what_the_machine_reports(add, capsys):
    status = main(["run", str(add), "--block", "3", "--arg", f"in:{floats(1, 2)}", "--arg", "out:16", "--arg", "f32:0"])
    assert status == 1
    assert f"{add}:16:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--arg", "out:8"], "takes 3 arguments, got 1"),
        (["--arg", "8"], "takes 3 arguments, got 1"),
        (["--entry", "sub", "--arg", "8"], "no such .entry"),
        (["--entry", "sub"], "no such .entry"),
        (["--arg", "i32:1", "--arg", "out:8", "--arg", "f32:1"], "parameter a has 8 bytes"),
    ],
)
def test_run_refuses_what_does_not_fit(add, capsys, arguments, words):
    assert main(["run", str(add), *arguments]) == 1
    assert words in capsys.readouterr().err


def test_run_refuses_what_is_not_legal(add, capsys):
    add.write_text(ADD.replace("\tret;", "\tgriddepcontrol.wait;\n\tret;"))
    assert (
        main(["run", str(add), "--block", "2", "--arg", f"in:{floats(1, 2)}", "--arg", "out:8", "--arg", "f32:0"]) == 1
    )
    assert f"{add}:19:" in capsys.readouterr().err


RUN = ["run", "--block", "2", "--arg", f"in:{floats(1, 2)}", "--arg", "out:8", "--arg", "f32:0.5"]


@pytest.mark.parametrize(
    ("show", "said"),
    [
        ("f32", "a: 1 2\ny: 1.5 2.5\n"),
        ("hex", f"a: {floats(1, 2)}\ny: {floats(1.5, 2.5)}\n"),
        ("own", f"a: {floats(1, 2)}\ny: {floats(1.5, 2.5)}\n"),
        ("u32", "a: 1065353216 1073741824\ny: 1069547520 1075838976\n"),
    ],
)
def test_buffers_are_shown_as_asked(add, capsys, show, said):
    assert main([*RUN, str(add), "--show", show]) == 0
    assert capsys.readouterr().out == said


def test_npy_files_are_shown_and_written_back(add, tmp_path, capsys):
    numpy = pytest.importorskip("numpy", reason="skipped: no numpy")
    numpy.save(tmp_path / "a.npy", numpy.array([[4], [5]], dtype=numpy.float32))
    numpy.save(tmp_path / "y.npy", numpy.zeros((2, 1), dtype=numpy.float32))
    arguments = ["run", str(add), "--block", "2", "--arg", str(tmp_path / "a.npy"), "--arg", f"out:{tmp_path}/y.npy"]
    assert main([*arguments, "--arg", "f32:0.1"]) == 0
    assert capsys.readouterr().out == ""
    expected = numpy.array([[4], [5]], dtype=numpy.float32) + numpy.float32(0.1)
    assert numpy.array_equal(numpy.load(tmp_path / "y.npy"), expected)
    assert main([*arguments, "--arg", "f32:1", "--show", "own"]) == 0
    assert capsys.readouterr().out == "a: 4 5\ny: 5 6\n"


def test_a_run_that_fails_writes_nothing_back(add, tmp_path, capsys):
    numpy = pytest.importorskip("numpy", reason="skipped: no numpy")
    numpy.save(tmp_path / "y.npy", numpy.zeros(2, dtype=numpy.float32))
    before = (tmp_path / "y.npy").read_bytes()
    arguments = ["run", str(add), "--block", "3", "--arg", f"in:{floats(1, 2, 3)}", "--arg", f"out:{tmp_path}/y.npy"]
    assert main([*arguments, "--arg", "f32:1"]) == 1
    assert (tmp_path / "y.npy").read_bytes() == before


@pytest.mark.parametrize("element, code", [("f16", "e"), ("f32", "f"), ("f64", "d"), ("bf16", "")])
def test_shown_floats_lead_back_to_their_bits(element, code):
    from pyptx.tools import buffers

    def bits(value: float) -> bytes:
        return struct.pack("<f", value)[2:] if element == "bf16" else struct.pack("<" + code, value)

    size = buffers.width(element)
    patterns = [(i * 0x9E3779B97F4A7C15 & (1 << 8 * size) - 1).to_bytes(size, "little") for i in range(40_000 // size)]
    for pattern, written in zip(
        patterns, "".join(buffers.text(bytearray(b"".join(patterns)), element)).split(), strict=True
    ):
        if written == "nan":
            continue
        if element == "bf16":  # the nearest f32 has its bits, up to the ones that bf16 drops
            near = struct.unpack("<I", struct.pack("<f", float(written)))[0]
            assert (near + 0x7FFF + (near >> 16 & 1)) >> 16 == int.from_bytes(pattern, "little")
        else:
            assert bits(float(written)) == pattern


def run_command(*arguments: str, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pyptx", *arguments]
    return subprocess.run(command, capture_output=True, timeout=60, **options)


def test_text_comes_from_the_standard_input(add):
    bad = ADD.replace("mov.u32", "move.u32").encode()
    done = run_command("check", "-", input=bad)
    assert done.returncode == 1 and done.stdout.startswith(b"<stdin>:9:")
    assert run_command("parse", "-", input=bad).stdout == bad
    done = run_command(*RUN, "-", input=ADD.encode())
    assert (done.returncode, done.stdout.decode()) == (0, floats(1.5, 2.5) + "\n")


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"pyptx {pyptx.__version__}\n")


def test_a_missing_file_does_not_hide_the_others(add, tmp_path, capsys):
    add.write_text(ADD.replace("mov.u32", "move.u32"))
    assert main(["check", str(tmp_path / "none.ptx"), str(add), str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert f"{add}:9:" in said.out
    assert said.err.splitlines() == [
        f"pyptx: {tmp_path}/none.ptx: No such file or directory",
        f"pyptx: {tmp_path}: Is a directory",
    ]


def test_the_case_of_an_instruction_is_no_matter(capsys):
    outputs = []
    for name in ("wgmma.mma_async", "WGMMA.MMA_Async", "min.NaN.f32", "MIN.nan.F32", "%TID.x", "%tid.x"):
        assert main(["isa", name]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] and outputs[2] == outputs[3] and outputs[4] == outputs[5]


# The help of each subcommand: its statuses, and its examples, which are run.


def commands() -> dict:
    (choices,) = [action.choices for action in _parser()._actions if action.choices]
    return choices


@pytest.mark.parametrize("name", commands())
def test_help_tells_status_and_examples(name):
    text = commands()[name].format_help()
    assert "exit status:" in text and "\n  2  " in text and f"\n  pyptx {name}" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("  pyptx")) <= 120


def examples() -> list[str]:
    """Lines of the help, and of the page, whose remarks stand behind two spaces; commands of the page's table."""
    page = (Path(__file__).resolve().parents[2] / "docs/command.md").read_text()
    lines = [line for made in commands().values() for line in made.epilog.splitlines()] + page.splitlines()
    found = [line.strip().partition("  ")[0] for line in lines if line.startswith(("  pyptx ", "    pyptx "))]
    return list(dict.fromkeys(found + re.findall(r"^\| `(pyptx [^`]*[^`.])`", page, re.M)))


SCALE = """
from pyptx import Tile, kernel, ptx
from pyptx.types import f32

@kernel(in_specs=(Tile("N", f32),), out_specs=(), grid=lambda N: (N // 128,), arch="sm_80")
def scale(X):
    ptx.ret()
"""


@pytest.mark.parametrize("line", examples())
def test_examples_of_the_help_run(line, tmp_path, capsys):
    if line.startswith("pyptx completion"):
        pytest.importorskip("argcomplete", reason="skipped: no argcomplete")
    numpy = pytest.importorskip("numpy", reason="skipped: no numpy")
    for name in ("a.ptx", "b.ptx"):
        (tmp_path / name).write_text(ADD)
    for name in ("x.npy", "y.npy"):
        numpy.save(tmp_path / name, numpy.ones(256, dtype=numpy.float32))
    for folder in (".zfunc", ".config/fish/completions", "FOLDER"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "kernels.py").write_text(SCALE)
    (tmp_path / "kernels.ptx").write_text(ADD.replace("add(", "scale("))
    if line.startswith("pyptx replay FOLDER"):
        with pyptx.replay.keep(1, tmp_path / "FOLDER", host=True):
            runpy.run_path(str(tmp_path / "kernels.py"))["scale"](numpy.ones(256, dtype=numpy.float32))
    if ".json" in line:
        run = [*RUN, str(tmp_path / "a.ptx"), "--trace", str(tmp_path / "trace.json"), "--counters", "--json"]
        assert main(run) == 0
        (tmp_path / "run.json").write_text(capsys.readouterr().out)
    line = line.replace("pyptx", shlex.quote(sys.executable) + " -m pyptx", 1)
    environment = {**os.environ, "HOME": str(tmp_path), "PYPTX_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    if "y.npy" in line:
        assert (numpy.load(tmp_path / "y.npy") == 1.5).all()


def completed(line: str, tmp_path: Path) -> set[str]:
    """What a shell is offered at the end of the line."""
    pytest.importorskip("argcomplete", reason="skipped: no argcomplete")
    answer = tmp_path / "answer"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
    }
    environment |= {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_COMP_WORDBREAKS": " \t\n\"'><=;|&(:"}
    done = run_command(env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return set(answer.read_text().split())


def test_completion(add, tmp_path):
    assert completed("pyptx c", tmp_path) == {"check", "cache", "completion"}
    assert {"sm_90", "sm_90a", "sm_100f"} <= completed("pyptx check --target ", tmp_path)
    assert completed("pyptx isa wg", tmp_path) == {"wgmma"} | completed("pyptx isa wgm", tmp_path)
    assert "ld.global.v4" in completed("pyptx isa ld.global.v", tmp_path)
    assert completed("pyptx run add.ptx --entry ", tmp_path) == {"add"}
    assert "add.ptx" in completed("pyptx check a", tmp_path)


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_completion_scripts_say_what_to_complete(shell, capsys):
    pytest.importorskip("argcomplete", reason="skipped: no argcomplete")
    assert main(["completion", shell]) == 0
    assert re.search(r"(complete|compdef).*\bpyptx\b", capsys.readouterr().out)


def test_completion_without_argcomplete_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    assert main(["completion", "bash"]) == 2
    assert "pip install pyptx[completion]" in capsys.readouterr().err


@pytest.mark.parametrize("argument", ["i32", "i32:x", "u8:256", "in:zz", "elephant:1", "missing.npy"])
def test_arguments_that_are_none(add, capsys, argument):
    with pytest.raises(SystemExit) as ended:
        main(["run", str(add), "--arg", argument])
    assert ended.value.code == 2
    assert argument in capsys.readouterr().err


def test_a_file_that_is_not_there(capsys):
    assert main(["check", "/no/such/file.ptx"]) == 2
    assert "/no/such/file.ptx" in capsys.readouterr().err


def test_doctor(capsys):
    assert main(["doctor"]) == 0
    found = capsys.readouterr().out
    for name in ("pyptx:", "Python:", "torch:", "CUDA driver:", "assembler:", "disassembler:", "CPU tensors:"):
        assert name in found
