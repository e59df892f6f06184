"""`pyptx run` with structs by value, with a buffer that is given twice, and with a heap."""

from __future__ import annotations

import struct

import pytest

from pyptx.__main__ import main

# p: {u64 data; i32 n; f32 by;} -> data[i] = data[i] * by + n; q: the bytes behind it, aligned to 4; end: a pointer.
TEXT = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .align 8 .b8 p[24], .param .align 4 .b8 q[6], .param .u64 end)
{
	.reg .u64 %d<8>;
	.reg .u32 %r<8>;
	.reg .u16 %h<4>;
	.reg .f32 %f<8>;
	ld.param.u64 %d0, [p];
	ld.param.u32 %r0, [p+8];
	ld.param.f32 %f0, [p+12];
	ld.param.u8 %h0, [p+16];
	ld.param.u16 %h1, [q+4];
	ld.param.u64 %d1, [end];
LOOP:
	ld.global.f32 %f1, [%d0];
	fma.rn.f32 %f1, %f1, %f0, 0f00000000;
	st.global.f32 [%d0], %f1;
	add.u64 %d0, %d0, 4;
	.reg .pred %more;
	setp.lt.u64 %more, %d0, %d1;
	@%more bra LOOP;
	cvt.u32.u16 %r1, %h0;
	cvt.u32.u16 %r2, %h1;
	add.u32 %r0, %r0, %r1;
	add.u32 %r0, %r0, %r2;
	st.global.u32 [%d1], %r0;
	ret;
}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(TEXT)
    return path


def floats(*values: float) -> str:
    return struct.pack(f"<{len(values)}f", *values).hex()


def run(file, capsys, *arguments: str, options: tuple[str, ...] = ()):
    words = [word for one in arguments for word in ("--arg", one)]
    status = main(["run", str(file), *words, *options])
    return status, capsys.readouterr()


FIRST = f"struct:in:{floats(1, 2, 3)}00000000,i32:5,f32:0.5,u8:200"


def test_fields_lie_where_c_puts_them(file, capsys):
    status, said = run(file, capsys, FIRST, "struct:u32:0,u16:1000", "@0+12", options=("--show", "hex"))
    assert (status, said.err) == (0, "")
    assert said.out == f"p+0: {floats(0.5, 1, 1.5)}{struct.pack('<I', 1205).hex()}\n"


def test_bytes_are_a_whole_parameter(file, tmp_path, capsys):
    (tmp_path / "q.bin").write_bytes(struct.pack("<IH", 0, 7))
    for q in ("bytes:000000000700", f"bytes:{tmp_path / 'q.bin'}", "struct:pad:4,bytes:0700", "struct:pad:4,u8:7,u8:0"):
        status, said = run(file, capsys, FIRST, q, "@0+12", options=("--show", "hex"))
        assert (status, said.err) == (0, "")
        assert said.out.endswith(struct.pack("<I", 212).hex() + "\n")


def test_a_buffer_in_a_struct_is_an_output_as_any(file, tmp_path, capsys):
    numpy = pytest.importorskip("numpy", reason="skipped: no numpy")
    numpy.save(tmp_path / "x.npy", numpy.array([1, 2, 3, 0], dtype=numpy.float32))
    first = f"struct:out:{tmp_path / 'x.npy'},i32:0,f32:2,u8:0"
    assert run(file, capsys, first, "bytes:000000000000", "@0+12")[0] == 0
    assert numpy.load(tmp_path / "x.npy").tolist() == [2, 4, 6, 0]
    status, said = run(file, capsys, "struct:out:8,i32:1,f32:2,u8:0", "bytes:000000000000", "@0+4")
    assert (status, said.out) == (0, "0000000001000000\n")


def test_exploring_moves_the_buffers_of_structs(file, capsys):
    arguments = (FIRST, "struct:u32:0,u16:1000", "@0+12")
    status, said = run(file, capsys, *arguments, options=("--explore", "2"))
    assert (status, said.err) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("struct:out:16,i32:5", "bytes:000000000000", "@0"),
            "of 24 bytes; the fields take 12: out:16 at 0, i32:5 at 8",
        ),
        ((FIRST, "bytes:0000", "@0"), "q is `.param .align 4 .b8 q[6]`, of 6 bytes; the fields take 2"),
        ((FIRST, "struct:u32:0,u16:1,u32:0", "@0"), "the fields take 12: u32:0 at 0, u16:1 at 4, u32:0 at 8"),
        ((FIRST, "5", "@0"), "q is `.param .align 4 .b8 q[6]`, not one number: struct:FIELD,FIELD or bytes:HEX"),
        ((FIRST, "bytes:000000000000", "@1"), "@1: there are 1 buffers, which count from @0"),
        ((FIRST, "bytes:000000000000", "@0+17"), "@0+17: the buffer has 16 bytes"),
        ((FIRST, "bytes:000000000000"), "takes 3 arguments, got 2"),
        ((FIRST, "bytes:000000000000", "@0+16"), "0 bytes past the end of `p+0` (16 bytes)"),
    ],
)
def test_what_does_not_fit(file, capsys, arguments, words):
    status, said = run(file, capsys, *arguments)
    assert status == 1
    assert words in said.err


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("struct:5", "a field has a type: i32:5 or f32:5"),
        ("struct:", "legal: TYPE:VALUE"),
        ("struct:struct:u8:1", "write its fields, with pad:N"),
        ("struct:pad:x", "pad: needs a number of bytes"),
        ("bytes:0", "non-hexadecimal"),
        ("bytes:/no/such/file.bin", "/no/such/file.bin"),
        ("@x", "legal: TYPE:VALUE"),
        ("struct:u8:256", "the number does not fit u8"),
    ],
)
def test_arguments_that_are_none(file, capsys, argument, words):
    with pytest.raises(SystemExit) as ended:
        main(["run", str(file), "--arg", argument])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_a_struct_of_four_kilobytes(tmp_path, capsys):
    """What a kernel may have of parameters."""
    path = tmp_path / "k.ptx"
    path.write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .b8 p[4084], .param .u64 out)\n{\n"
        ".reg .b64 %d;\n.reg .b16 %h;\nld.param.u64 %d, [out];\nld.param.u8 %h, [p+4083];\nst.global.u8 [%d], %h;\nret;\n}\n"
    )
    status, said = run(path, capsys, "bytes:" + "00" * 4083 + "2a", "out:1")
    assert (status, said.out, said.err) == (0, "2a\n", "")


def test_the_heap_of_a_run(tmp_path, capsys):
    path = tmp_path / "k.ptx"
    path.write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.extern .func (.param .b64 r) malloc (.param .b64 n);\n"
        ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %d<2>;\n.param .b64 n;\n.param .b64 r;\nld.param.u64 %d0, [out];\n"
        "st.param.b64 [n], 100;\ncall.uni (r), malloc, (n);\nld.param.b64 %d1, [r];\nst.u64 [%d1], 7;\nret;\n}\n"
    )
    status, said = run(path, capsys, "out:8")
    assert (status, said.err) == (0, "")
    status, said = run(path, capsys, "out:8", options=("--check",))
    assert status == 1 and "PTX5018" in said.err and "the 100 bytes that thread (0,0,0)" in said.err
    status, said = run(path, capsys, "out:8", options=("--heap", "99"))
    assert status == 1 and "PTX5010" in said.err and "writes 8 bytes at 0x0" in said.err
