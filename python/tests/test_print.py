"""`ptx.print` and `ptx.check`: what they write, what the assembler says of it, what the simulator shows, what a GPU shows."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy", reason="skipped: no numpy")

from simulator_kernels import line_of  # noqa: E402

import pyptx  # noqa: E402
from pyptx import Tile, assembler, kernel, ptx, reg, smem  # noqa: E402
from pyptx.errors import AuthoringTypeError, AuthoringValueError, SimulationError  # noqa: E402
from pyptx.types import (  # noqa: E402
    b16,
    b32,
    b64,
    b128,
    bf16,
    bf16x2,
    f16,
    f16x2,
    f32,
    f64,
    s8,
    s16,
    s32,
    s64,
    u8,
    u16,
    u32,
    u64,
)


def of_one(body, *, arch="sm_90a", block=1):
    """A kernel of one CTA without tensors but an output of one number."""

    @kernel(in_specs=(), out_specs=(), grid=(1, 1, 1), block=(block, 1, 1), arch=arch)
    def k():
        body()
        ptx.ret()

    return k


def printed(body, **options) -> list[str]:
    with pyptx.simulator() as run:
        of_one(body, **options)()
    return [line.text for line in run.prints]


def holding(kind, bits, move):
    def value():
        made = reg.scalar(kind)
        getattr(ptx.inst.mov, move)(made, bits)
        return made

    return value


VALUES = {
    "u8": (lambda: small(u8, 200), "{}", "200"),
    "s8": (lambda: small(s8, -3), "{}", "-3"),
    "u16": (holding(u16, 65535, "u16"), "{}", "65535"),
    "s16": (holding(s16, -2, "s16"), "{}", "-2"),
    "b16": (holding(b16, 0xABCD, "b16"), "{}", "0xabcd"),
    "u32": (holding(u32, 4_000_000_000, "u32"), "{}", "4000000000"),
    "s32": (holding(s32, -5, "s32"), "{:+5d}|", "   -5|"),
    "b32": (holding(b32, 0xBEEF, "b32"), "{:08x}", "0000beef"),
    "u64": (holding(u64, (1 << 64) - 1, "u64"), "{}", "18446744073709551615"),
    "s64": (holding(s64, -(1 << 62), "s64"), "{}", str(-(1 << 62))),
    "b64": (holding(b64, 0xFEED << 40, "b64"), "{}", "0xfeed0000000000"),
    "f32": (holding(f32, 1.5, "f32"), "{}", "1.5"),
    "f32 with a spec": (holding(f32, 1 / 3, "f32"), "{:.3f}", "0.333"),
    "f64": (holding(f64, -2.25, "f64"), "{:e}", "-2.250000e+00"),
    "f16": (holding(f16, 0x3C00, "b16"), "{}", "1"),
    "bf16": (holding(bf16, 0x4049, "b16"), "{:.4f}", "3.1406"),
    "f16x2": (holding(f16x2, 0x3C004000, "b32"), "{}", "(2, 1)"),
    "bf16x2": (holding(bf16x2, 0x3F804000, "b32"), "{}", "(2, 1)"),
    "pred": (lambda: reg.scalar(u32, init=3) < 4, "{}", "1"),
    "special": (lambda: ptx.special.ntid.x(), "{}", "1"),
    "int": (lambda: -7, "{}", "-7"),
    "float": (lambda: 0.5, "{}", "0.5"),
    "character": (lambda: reg.scalar(u32, init=ord("x")), "{:c}", "x"),
}


def small(kind, value):
    made = reg.scalar(kind)
    getattr(ptx.inst.cvt, kind.name).s32(made, reg.scalar(s32, init=value))
    return made


@pytest.mark.parametrize("name", VALUES)
def test_values_of_all_types(name):
    value, spec, expected = VALUES[name]
    assert printed(lambda: ptx.print("v = " + spec, value())) == ["v = " + expected]


def test_all_128_bits():
    def body():
        made = reg.scalar(b128)
        ptx.inst.mov.b128(made, [reg.scalar(b64, init=1), reg.scalar(b64, init=2)])
        ptx.print("{}", made)

    assert printed(body) == ["0x00000000000000020000000000000001"]


def test_text_braces_and_percent():
    assert printed(lambda: ptx.print("100% {{}} {}%", 5)) == ["100% {} 5%"]
    assert printed(lambda: ptx.print("nothing")) == ["nothing"]
    assert printed(lambda: ptx.print("two\nlines")) == ["two", "lines"]


def test_lines_have_place_and_thread(capsys):
    def body():
        t = reg.from_(ptx.special.tid.x(), u32)
        ptx.print("t = {}", t, pred=t >= 62)
        with ptx.if_(t == 3):
            ptx.print("three")

    with pyptx.simulator() as run:
        of_one(body, block=64)()
    line = line_of(body, '"t = {}"')
    assert [(one.thread, one.line, one.text) for one in run.prints] == [
        ((3, 0, 0), line + 2, "three"),
        ((62, 0, 0), line, "t = 62"),
        ((63, 0, 0), line, "t = 63"),
    ]
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"{__file__}:{line + 2}: thread (3,0,0) of CTA (0,0,0): three" and len(shown) == 3


def test_many_ctas_print_in_order():
    @kernel(in_specs=(), out_specs=(), grid=(50, 1, 1), block=(1, 1, 1))
    def k():
        ptx.print("{}", ptx.special.ctaid.x())
        ptx.ret()

    with pyptx.simulator(lines=False, trace=False, launches=False) as run:
        k()
    assert [line.text for line in run.prints] == [str(i) for i in range(50)]


def test_a_check_that_holds_says_nothing(capsys):
    def body():
        t = reg.from_(ptx.special.tid.x(), u32)
        ptx.check(t < 64, "t = {}", t)
        ptx.check(~(t >= 64), "t = {}", t)

    assert printed(body, block=64) == [] and capsys.readouterr().out == ""


def test_a_check_that_fails_is_a_report_at_its_line(capsys):
    def body():
        t = reg.from_(ptx.special.tid.x(), u32)
        ptx.check(t < 40, "t = {}, of {}", t, 40)

    with pyptx.simulator() as run, pytest.raises(SimulationError, match=r"PTX5034 .*failed a check: t = 40, of 40"):
        of_one(body, block=64)()
    (report,) = run.reports
    assert report.line == line_of(body, "ptx.check") and report.file == __file__
    assert report.sites[0].thread == (40, 0, 0) and run.prints == []


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (lambda: ptx.print("{} {}", 1), AuthoringValueError, "has 2 {} and 1 values"),
        (lambda: ptx.print("x", 1), AuthoringValueError, "has 0 {} and 1 values"),
        (lambda: ptx.print("{", 1), AuthoringValueError, "a { without its }"),
        (lambda: ptx.print("}"), AuthoringValueError, "a } without its {"),
        (lambda: ptx.print("{x}", 1), AuthoringValueError, "is no place for a value: {} or {:spec}"),
        (lambda: ptx.print("{:ld}", 1), AuthoringValueError, "is no place for a value"),
        (lambda: ptx.print("{:9999999d}", 1), AuthoringValueError, "is no place for a value"),
        (lambda: ptx.print("{:f}", 1), AuthoringValueError, "an integer is shown by d i o u x X c"),
        (lambda: ptx.print("{:d}", 1.5), AuthoringValueError, "a number in floating point is shown by e E f F g G a A"),
        (lambda: ptx.print("{:x}", reg.scalar(b128)), AuthoringValueError, "takes {} only"),
        (lambda: ptx.print("\0"), AuthoringValueError, "cannot contain a zero byte"),
        (lambda: ptx.print("{}" * 33, *range(33)), AuthoringValueError, "at most 32 values, not 33"),
        (lambda: ptx.print("{}", ptx.addr(reg.scalar(u64))), AuthoringValueError, "print shows registers"),
        (lambda: ptx.check(reg.scalar(u32), "x"), AuthoringTypeError, "predicate|guard|pred"),
        (lambda: ptx.check(True, "x"), TypeError, "ptx.check needs a predicate"),
    ],
)
def test_what_cannot_be_printed_is_refused(body, error, message):
    with pytest.raises(error, match=message):
        of_one(body).ptx()


def test_what_print_writes():
    def body():
        ptx.print("x = {}", reg.scalar(u32, init=1))

    text = of_one(body).ptx()
    assert ".extern .func (.param .s32 func_retval0) vprintf" in text.replace("\n", " ")
    body_lines = [line.strip() for line in text.splitlines()]
    wanted = (
        "mov.u32",
        "mov.b32",
        "st.local.b32",
        "mov.u64",
        "cvta.local.u64",
        "mov.u64",
        "cvta.global.u64",
        "st.param",
        "st.param",
        "call",
        "ld.param",
        "ret",
    )
    found = [line for line in body_lines if line.startswith(tuple({*wanted}))]
    assert [next(w for w in wanted if line.startswith(w)) for line in found] == list(wanted)


def every_value():
    for value, spec, _ in VALUES.values():
        ptx.print(spec, value())
    t = reg.from_(ptx.special.tid.x(), u32)
    rows = smem.alloc(f32, 4)
    ptx.print("rows at {}", reg.from_(rows, u64), pred=t == 0)
    ptx.check(t < 1, "t = {}", t)


@pytest.mark.skipif(not assembler.found(), reason="skipped: no assembler")
def test_the_assembler_takes_it():
    assert of_one(every_value).resources().registers > 0


def test_two_kernels_of_a_module_print():
    @kernel(in_specs=(), out_specs=(), grid=(1, 1, 1), block=(1, 1, 1))
    def one():
        ptx.print("one")
        ptx.ret()

    @kernel(in_specs=(), out_specs=(), grid=(1, 1, 1), block=(1, 1, 1))
    def two():
        ptx.print("two")
        ptx.ret()

    both = ptx.module([one, two])
    assert both.ptx().count(".extern .func") == 1
    with pyptx.simulator() as run:
        both.one()
        both.two()
    assert [line.text for line in run.prints] == ["one", "two"]


# ---- printf and assert of other compilers


FOREIGN = r"""
.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 p0, .param .b64 p1);
.extern .func __assertfail (.param .b64 p0, .param .b64 p1, .param .b32 p2, .param .b64 p3, .param .b64 p4);
.global .align 1 .b8 $str[27] = {37,100,32,37,46,50,102,32,37,115,32,37,45,53,100,124,32,37,108,108,120,32,37,42,100,10,0};
.global .align 1 .b8 word[5] = {119, 111, 114, 100, 0};
.global .align 1 .b8 expr[6] = {120, 32, 60, 32, 51, 0};
.global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};
.visible .entry k(.param .u64 out)
{
  .local .align 8 .b8 depot[56];
  .reg .b64 %rd<9>;
  .reg .b32 %r<4>;
  .reg .pred %p;
  ld.param.u64 %rd7, [out];
  mov.u64 %rd1, depot;
  cvta.local.u64 %rd2, %rd1;
  mov.u32 %r1, 42;
  st.local.u32 [%rd1], %r1;
  st.local.f64 [%rd1+8], 0d3FF8000000000000;
  mov.u64 %rd3, word;
  cvta.global.u64 %rd3, %rd3;
  st.local.u64 [%rd1+16], %rd3;
  st.local.u32 [%rd1+24], 7;
  st.local.u64 [%rd1+32], 0xabcdef0123;
  st.local.u32 [%rd1+40], 4;
  st.local.u32 [%rd1+44], 9;
  mov.u64 %rd4, $str;
  cvta.global.u64 %rd4, %rd4;
  {
    .param .b64 a;
    st.param.b64 [a], %rd4;
    .param .b64 b;
    st.param.b64 [b], %rd2;
    .param .b32 r;
    call.uni (r), vprintf, (a, b);
    ld.param.b32 %r2, [r];
  }
  st.global.u32 [%rd7], %r2;
  ASSERT
  ret;
}
"""
ASSERT = """
  mov.u64 %rd5, expr; cvta.global.u64 %rd5, %rd5;
  mov.u64 %rd6, file; cvta.global.u64 %rd6, %rd6;
  {
    .param .b64 a; st.param.b64 [a], %rd5;
    .param .b64 b; st.param.b64 [b], %rd6;
    .param .b32 c; st.param.b32 [c], 12;
    .param .b64 d; st.param.b64 [d], %rd3;
    .param .b64 e; st.param.b64 [e], 1;
    call.uni __assertfail, (a, b, c, d, e);
  }
"""


def test_printf_of_another_compiler(tmp_path, capsys):
    from pyptx.__main__ import main

    path = tmp_path / "a.ptx"
    path.write_text(FOREIGN.replace("ASSERT", ""))
    assert main(["run", str(path), "--arg", "out:4"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].endswith("thread (0,0,0) of CTA (0,0,0): 42 1.50 word 7    | abcdef0123    9")
    assert out[1] == "07000000", "printf returns how many values it took"


def test_assert_of_another_compiler(tmp_path, capsys):
    from pyptx.__main__ import main

    path = tmp_path / "a.ptx"
    path.write_text(FOREIGN.replace("ASSERT", ASSERT))
    assert main(["run", str(path), "--arg", "out:4"]) == 1
    said = capsys.readouterr().err
    assert "PTX5035" in said and "failed the assertion `x < 3` at a.cu:12, in word" in said


def test_a_format_that_is_no_string(tmp_path, capsys):
    from pyptx.__main__ import main

    path = tmp_path / "a.ptx"
    path.write_text(FOREIGN.replace("ASSERT", "").replace("mov.u64 %rd4, $str;", "mov.u64 %rd4, 64;"))
    assert main(["run", str(path), "--arg", "out:4"]) == 1
    assert "gives vprintf the format at 0x40, which is no string" in capsys.readouterr().err


# ---- the same on a GPU


@pytest.mark.gpu
def test_a_gpu_prints_the_same(capfd):
    import torch

    if not torch.cuda.is_available():
        pytest.skip("skipped: no GPU")

    @kernel(in_specs=(Tile(1, u32),), out_specs=(Tile(1, u32),), grid=(1, 1, 1), block=(1, 1, 1))
    def k(X, Y):
        _, py = ptx.global_ptrs(X, Y)
        for value, spec, _ in VALUES.values():
            ptx.print("v = " + spec, value())
        ptx.inst.st.global_.u32(ptx.addr(py), 1)
        ptx.ret()

    k(torch.zeros(1, dtype=torch.int32, device="cuda"))
    torch.cuda.synchronize()
    found = capfd.readouterr().out.splitlines()
    assert found == ["v = " + expected for _, _, expected in VALUES.values()]


CHECKED = """
import torch
from pyptx import Tile, kernel, ptx, reg
from pyptx.types import u32

@kernel(in_specs=(Tile(64, u32),), out_specs=(Tile(64, u32),), grid=(1, 1, 1), block=(64, 1, 1))
def k(X, Y):
    px, py = ptx.global_ptrs(X, Y)
    t = reg.from_(ptx.special.tid.x(), u32)
    v = reg.scalar(u32)
    ptx.inst.ld.global_.u32(v, ptx.addr(px + t * 4))
    ptx.check(v < 63, "v = {} of thread {}", v, t)
    ptx.inst.st.global_.u32(ptx.addr(py + t * 4), v)
    ptx.ret()

x = torch.arange(64, dtype=torch.int32, device="cuda")
assert (k(x % 32).int() == x % 32).all()
k(x)
try:
    torch.cuda.synchronize()
except RuntimeError as error:
    print("the launch failed")
"""


@pytest.mark.gpu
def test_a_check_traps_on_a_gpu(tmp_path):
    import subprocess
    import sys

    torch = pytest.importorskip("torch", reason="skipped: no torch")
    if not torch.cuda.is_available():
        pytest.skip("skipped: no GPU")
    script = tmp_path / "checked.py"
    script.write_text(CHECKED)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False)
    assert "checked.py:12: check failed: v = 63 of thread 63" in done.stdout, done.stdout + done.stderr
    assert "the launch failed" in done.stdout
