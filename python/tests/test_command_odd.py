"""The command with what it was not meant for: no traceback, a status of the table in its help, a line that says what is wrong."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys

import pytest

from pyptx.__main__ import main
from pyptx.tools import files

EMPTY = b".version 8.0\n.target sm_80\n.address_size 64\n"
KERNEL = EMPTY + b".visible .entry k(.param .u64 x)\n{\n\tret;\n}\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "k.ptx"
    path.write_bytes(KERNEL)
    return path


def status_of(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as ended:  # argparse
        return ended.code


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--arg", "out:99999999999999"], "bytes of memory"),
        (["--arg", "out:-5"], "a number of bytes"),
        (["--arg", "out:" + "9" * 5000], "a number of bytes"),
        (["--arg", "f32:1e39"], "does not fit f32"),
        (["--arg", "i8:128"], "does not fit i8"),
        (["--arg", "in:abc"], "non-hexadecimal"),
        (["--arg", "out:none.npy"], "No such file"),
        (["--arg", "."], "legal: TYPE:VALUE"),
        (["--grid", "abc"], "'abc' is not X, X,Y or X,Y,Z"),
        (["--grid", "1,2,3,4"], "is not X, X,Y or X,Y,Z"),
        (["--grid", "0"], "from 1 to 2^32 - 1"),
        (["--block", "99999999999999999999"], "from 1 to 2^32 - 1"),
        (["--smem", "-1"], "'-1' is not a number from 0"),
        (["--budget", "0"], "from 1 to"),
        (["--cores", "many"], "not a number from 0"),
        (["--show", "f8"], "invalid choice"),
        (["--arg", "out:3", "--show", "f32"], "3 bytes, no whole number of f32"),
    ],
)
def test_odd_options_of_run(file, capsys, arguments, words):
    assert status_of(["run", str(file), *arguments]) == 2
    said = capsys.readouterr()
    assert words in said.err and "Traceback" not in said.err and not said.out


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["show", "layout", "128B", "--box", "0,0"], 1, "the sizes of a box must be at least 1, not 0,0"),
        (["replay", "."], 2, "no call is kept here"),
        (["lint", "no.ptx"], 1, "no.ptx:1:1: PTX1009"),
    ],
)
def test_nothing_to_work_on(tmp_path, monkeypatch, capsys, arguments, status, words):
    (tmp_path / "no.ptx").write_text("no text of PTX;")
    monkeypatch.chdir(tmp_path)
    assert status_of(arguments) == status
    said = capsys.readouterr()
    assert words in said.err and not said.out


@pytest.mark.parametrize("amount", ["-5", "1e9", "9" * 30, ""])
def test_odd_sizes_of_trim(capsys, amount):
    assert status_of(["cache", "trim", "--bytes", amount]) == 2
    assert "is not a number from 0" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "parse", "run"])
def test_files_that_are_none(command, tmp_path, capsys):
    locked = tmp_path / "locked.ptx"
    locked.write_bytes(KERNEL)
    locked.chmod(0)
    unreadable = [] if os.geteuid() == 0 else [(locked, "Permission denied")]  # nothing is locked for root
    for path, words in [(tmp_path, "Is a directory"), (tmp_path / "none", "No such file"), *unreadable]:
        assert status_of([command, str(path)]) == 2
        assert (
            capsys.readouterr().err == f"pyptx: {path}: {words}" + ("" if "No" not in words else " or directory") + "\n"
        )
    locked.chmod(stat.S_IRUSR | stat.S_IWUSR)


def test_a_command_alone_shows_the_help(capsys):
    assert status_of([]) == 2
    assert "COMMAND --help" in capsys.readouterr().err


def test_the_standard_input_is_read_once(tmp_path):
    command = [sys.executable, "-m", "pyptx", "diff", "-", "-"]
    done = subprocess.run(command, input=KERNEL, capture_output=True)
    assert done.returncode == 2 and b"<stdin>: it has been read already: give `-` only once" in done.stderr


def test_types_and_targets_in_capitals(file, capsys):
    assert (
        main(["run", str(file), "--arg", "out:4", "--show", "F32"])
        == main(["check", "--target", "SM_90A", str(file)])
        == 0
    )


def test_a_file_that_has_no_end(monkeypatch, capsys):
    monkeypatch.setattr(files, "_MOST", 1 << 20)
    assert main(["check", "/dev/zero"]) == 2
    assert "/dev/zero: it has more than 1,048,576 bytes" in capsys.readouterr().err


def test_what_a_terminal_would_obey_is_not_printed(tmp_path, capsys):
    path = tmp_path / "bad.ptx"
    path.write_bytes(EMPTY + b"\x1b[2J\x07 ]];" + b"x" * 100_000)
    assert main(["check", str(path)]) == 1
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\x07" not in said
    assert max(len(line) for line in said.splitlines()) < 400


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xef\xbb\xbf" + KERNEL, "PTX1005 a byte-order mark stands before the text"),
        (KERNEL.decode().encode("utf-16"), "PTX1005 the text is UTF-16"),
        (KERNEL.decode().encode("utf-16-be"), "PTX1005 the text is UTF-16"),
        (b"\x7fELF\x02\x01" + KERNEL, "PTX1005 this is an ELF file, machine code"),
    ],
)
def test_marks_of_encodings_are_one_mistake(tmp_path, capsys, content, words):
    path = tmp_path / "marked.ptx"
    path.write_bytes(content)
    assert main(["check", str(path)]) == 1
    said = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert len(said) == 1 and words in said[0]
    assert main(["run", str(path), "--arg", "out:8"]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("form", ["text", "json", "sarif"])
def test_messages_quote_bytes_that_are_no_text(tmp_path, capsys, form):
    path = tmp_path / "bad.ptx"
    path.write_bytes(KERNEL.replace(b"ret;", b'.pragma "\xc1";\n\t.global .u64 p = generic(\xc1);\n\tbra caf\xe9;'))
    assert main(["check", "--format", form, str(path)]) == 1
    assert "\\xc1" in capsys.readouterr().out
    assert main(["run", str(path), "--arg", "out:8"]) == 1
    assert "\\xe9" in capsys.readouterr().err


def test_names_of_files_that_are_no_text(tmp_path):
    name = os.fsencode(tmp_path) + b"/caf\xe9 %.ptx"
    with open(name, "wb") as stream:
        stream.write(KERNEL.replace(b"ret", b"rat"))
    for form, words in (
        ("text", rb"caf\udce9 %.ptx:6:"),
        ("json", rb"caf\\udce9 %.ptx"),
        ("sarif", b"/caf%E9%20%25.ptx"),
    ):
        done = subprocess.run([sys.executable, "-m", "pyptx", "check", "--format", form, name], capture_output=True)
        assert (done.returncode, done.stderr) == (1, b"") and words in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "--target", "\udcff", "FILE"], "\\udcff"),
        (["run", "--entry", "\udcff", "--arg", "out:8", "FILE"], "no such .entry"),
        (["isa", "\udcff"], "no instruction is called \\udcff"),
    ],
)
def test_names_that_are_no_text(file, capsys, arguments, words):
    assert main([str(file) if word == "FILE" else word for word in arguments]) == 1
    said = capsys.readouterr()
    assert words in said.out + said.err


def npy(header: bytes, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not an .npy file"),
        (b"\x93NUMPY\x09\x00\x00\x00\x00\x00\x00\x00", "not an .npy file"),
        (npy(b"(" * 9000), "damaged"),
        (npy(b"__import__('os').abort()"), "damaged"),
        (npy(b"{'descr': '<f4', 'fortran_order': False}"), "damaged"),
        (npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "damaged"),
        (npy(b"{'descr': '', 'fortran_order': False, 'shape': ()}"), "damaged"),
        (npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"12345678"), "Python objects"),
        (npy(b"{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,)}", b"12345678"), "records"),
        (npy(b"{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", b"1234"), "big-endian"),
        (npy(b"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}", b"1234" * 4), "Fortran"),
        (
            npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}", b"1234"),
            "4 bytes of data, its header says 16",
        ),
        (
            npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4" + b"0" * 40 + b",)}", b"1234"),
            "its header says 160,000",
        ),
        (npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}" + b" " * 20000), "its header has"),
    ],
)
def test_odd_npy_files(file, tmp_path, capsys, content, words):
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    for argument in (str(path), f"out:{path}"):
        assert status_of(["run", str(file), "--arg", argument]) == 2
        said = capsys.readouterr().err
        assert f"{path}: " in said and words in said and "Traceback" not in said


def test_one_npy_file_is_no_two_outputs(file, tmp_path, capsys):
    path = tmp_path / "x.npy"
    path.write_bytes(npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", b"1234"))
    other = f"{tmp_path}/../{tmp_path.name}/x.npy"
    assert main(["run", str(file), "--arg", f"out:{path}", "--arg", f"out:{other}"]) == 2
    assert "two arguments would be written to it" in capsys.readouterr().err


@pytest.mark.parametrize("buffer", "ab")
def test_the_end_of_one_buffer_is_not_the_start_of_another(tmp_path, capsys, buffer):
    """The system may place mappings one next to the other."""
    file = tmp_path / "k.ptx"
    file.write_text(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b) {\n.reg .b64 %p;\n"
        f"ld.param.u64 %p, [{buffer}];\nst.global.u32 [%p+4096], 7;\nret;\n}}\n"
    )
    assert main(["run", str(file), "--arg", "out:4096", "--arg", "out:4096"]) == 1
    assert f"0 bytes past the end of `{buffer}`" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["isa"], ["isa", "ld"], ["doctor"], ["parse", "-"], ["check", "-"]])
def test_an_output_that_nobody_reads(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "pyptx", *arguments], stdout=writing, stderr=subprocess.PIPE, input=b"bad;\n" * 10_000
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_output_that_is_full():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-m", "pyptx", "isa", "ld"], stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (2, b"pyptx: standard output: No space left on device\n")


def test_streams_that_are_closed(file):
    for line in (f"parse {file} >&-", "check - <&-", f"check {file} >&-", "isa nothing 2>&-"):
        done = subprocess.run(f"{sys.executable} -m pyptx {line}", shell=True, capture_output=True, text=True)
        assert done.returncode in (0, 1, 2) and "Traceback" not in done.stderr, (line, done)


def test_an_interrupt_is_no_traceback():
    waiting = subprocess.Popen(
        [sys.executable, "-m", "pyptx", "check", "-"],
        stdin=subprocess.PIPE,
        bufsize=0,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    waiting.stdin.write(b" " * 100_000)  # more than a pipe holds: it has begun to read
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=30)
    assert (waiting.returncode, out, err) == (130, b"", b"")


def test_a_mistake_of_the_command_itself_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr("pyptx.tools.doctor.report", lambda: 1 // 0)
    assert main(["doctor"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setenv("PYPTX_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main(["doctor"])


@pytest.mark.parametrize(
    "line", [".reg .b32 ;", ".reg .b32 %r1,,%r2;", ".reg .b32 <4>;", ".reg;", ".reg .b32 %r1, ;", ".shared .b8 [4];"]
)
@pytest.mark.parametrize("command", ["fmt", "lint", "stats", "check", "diff", "transpile"])
def test_declarations_that_are_being_written(command, line, file, tmp_path, capsys):
    broken = tmp_path / "half typed.ptx"
    broken.write_bytes(KERNEL.replace(b"\tret;", line.encode() + b"\n\tret;"))
    assert status_of([command, str(broken), *([str(file)] if command == "diff" else [])]) in (0, 1, 2)
    assert "an error in pyptx itself" not in capsys.readouterr().err
