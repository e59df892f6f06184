"""The command `pyptx`."""

from __future__ import annotations

import struct

import pytest

from pyptx import emitter, parser
from pyptx.__main__ import main

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
