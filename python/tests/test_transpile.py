"""PTX to Python: what the program writes is the text, in every mode, for every legal file that there is."""

import random
import re
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import pyptx
from pyptx import Tile, _core, codegen, parser, ptx, reg
from pyptx import __main__ as command
from pyptx.codegen.sugar import apply_sugar
from pyptx.errors import PtxError
from pyptx.tools import buffers
from pyptx.types import f32, pred, u32

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = sorted((ROOT / "tests" / "fixtures").rglob("*.ptx"))


def is_legal(source: bytes) -> bool:
    return not any(one.severity == "error" for one in parser.check(source))


def round_trip(source: bytes, sugar: str):
    codegen.verify(source, codegen.ptx_to_python(source, sugar=sugar), names=sugar == "none")


@pytest.mark.parametrize("sugar", codegen.SUGARS)
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_fixtures(path, sugar):
    source = path.read_bytes()
    if not is_legal(source):
        with pytest.raises(PtxError):
            codegen.ptx_to_python(source)
        return
    round_trip(source, sugar)


TEXT = """// what it does
.version 8.0
.target sm_80
.address_size 64

.visible .entry add(
\t.param .u64 .ptr .global .align 16 add_param_0,
\t.param .u32 add_param_1
)
.maxntid 128, 1, 1
{
\t.reg .pred %p<2>;
\t.reg .b32 %r<5>;
\t.reg .b64 %rd<4>;
\t.reg .f32 %f<3>;
\tld.param.u64 %rd1, [add_param_0];
\tld.param.u32 %r1, [add_param_1];  // how many
\tmov.u32 %r2, %tid.x;
\tsetp.ge.u32 %p1, %r2, %r1;
\t@%p1 bra $L1;
\tmul.wide.u32 %rd2, %r2, 4;
\tadd.s64 %rd3, %rd1, %rd2;
\tld.global.f32 %f1, [%rd3+16];
\tadd.f32 %f2, %f1, 0f3F800000;
\tst.global.f32 [%rd3+16], %f2;
$L1:
\tret;
}
"""

PLAIN = """# what it does
from pyptx import kernel, ptx, reg
from pyptx.types import b32, b64, f32, pred


@kernel(
    arch="sm_80",
    version=(8, 0),
    raw_params=[("u64.ptr.global.palign16", "add_param_0"), ("u32", "add_param_1")],
    raw_directives=[("maxntid", (128, 1, 1))],
    as_written=True,
)
def add():
    p = reg.array(pred, 2, name="%p")
    r = reg.array(b32, 5, name="%r")
    rd = reg.array(b64, 4, name="%rd")
    f = reg.array(f32, 3, name="%f")
    ptx.inst.ld.param.u64(rd[1], ptx.addr("add_param_0"))
    ptx.inst.ld.param.u32(r[1], ptx.addr("add_param_1"))  # how many
    ptx.inst.mov.u32(r[2], ptx.special.tid.x())
    ptx.inst.setp.ge.u32(p[1], r[2], r[1])
    ptx.bra("$L1", pred=p[1])
    ptx.inst.mul.wide.u32(rd[2], r[2], 4)
    ptx.inst.add.s64(rd[3], rd[1], rd[2])
    ptx.inst.ld.global_.f32(f[1], ptx.addr(rd[3], 16))
    ptx.inst.add.f32(f[2], f[1], 1.0)
    ptx.inst.st.global_.f32(ptx.addr(rd[3], 16), f[2])
    ptx.label("$L1")
    ptx.ret()


if __name__ == "__main__":
    print(add.ptx(), end="")
"""

SUGARED = """def add():
    param_0 = ptx.param(u64, "add_param_0")
    param_1 = ptx.param(u32, "add_param_1")  # how many
    tid_x = reg.from_(ptx.special.tid.x(), u32)
    p1 = tid_x >= param_1
    with ptx.when(~p1):
        rd2 = ptx.inst.mul.wide.u32(reg.scalar(b64), tid_x, 4)
        rd3 = param_0 + rd2
        f1 = ptx.inst.ld.global_.f32(reg.scalar(f32), ptx.addr(rd3, 16))
        f2 = f1 + 1.0
        ptx.inst.st.global_.f32(ptx.addr(rd3, 16), f2)
    ptx.ret()
"""


def test_one_call_an_instruction():
    assert codegen.ptx_to_python(TEXT) == PLAIN
    assert codegen.run(PLAIN) == _core.module_text_of(TEXT.encode())


def test_sugar_alone_in_front_of_the_file(tmp_path, capsys):
    file = tmp_path / "a.ptx"
    file.write_text(TEXT)
    printed = []
    for given in (
        ["--sugar", str(file)],
        [str(file), "--sugar"],
        ["--sugar=all", str(file)],
        ["--sugar", "all", str(file)],
    ):
        assert command.main(["transpile", *given]) == 0
        printed.append(capsys.readouterr().out)
    assert len(set(printed)) == 1 and SUGARED in printed[0]


def test_the_module_that_sugar_writes():
    module = pyptx.parse(TEXT)
    sugared = apply_sugar(module)
    assert not _core.module_difference(bytes(module), bytes(sugared)) and str(sugared) != str(module)
    renamed = apply_sugar(module, kernel_name="plus")
    assert [each.name for each in renamed.functions] == ["plus"] and not renamed.check()
    with pytest.raises(PtxError, match="%r77"):
        apply_sugar(pyptx.parse(TEXT.replace("%tid.x", "%r77")))


def test_sugar():
    assert SUGARED in codegen.ptx_to_python(TEXT, sugar=True)
    assert "ptx.when" in codegen.ptx_to_python(TEXT, sugar="flow")
    assert "ptx.when" not in codegen.ptx_to_python(TEXT, sugar="names")


def test_verify_sees_a_change():
    with pytest.raises(PtxError, match=r"add\.f32"):
        codegen.verify(TEXT, PLAIN.replace("f[2], f[1], 1.0", "f[2], f[1], 2.0"))
    sugared = codegen.ptx_to_python(TEXT, sugar=True)
    codegen.verify(TEXT, sugared, names=False)
    for old, new in (("f1 + 1.0", "f1 + f1"), ("param_0 + rd2", "rd2 + param_0"), ("~p1", "p1"), (">=", ">")):
        with pytest.raises(PtxError, match="another module"):
            codegen.verify(TEXT, sugared.replace(old, new), names=False)


def test_edited_program_runs():
    numpy = pytest.importorskip("numpy")
    program = codegen.ptx_to_python(TEXT, sugar=True, kernel_name="plus")
    assert "def plus():" in program and 'entry="add"' in program
    text = codegen.run(program.replace("f1 + 1.0", "f1 + 3.0"))
    x = numpy.zeros(12, numpy.float32)
    count = buffers.argument("i32:8").value
    _core.run_text(text.encode(), "", "add", (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, [x, count])
    assert x.tolist() == [0.0] * 4 + [3.0] * 8


def unrolled(statements: list[str], registers: str = ".reg .b32 %r<400>; .reg .f32 %f<400>; .reg .b64 %rd<40>;") -> str:
    lines = "\n".join([registers, *statements, "ret;"])
    return f".version 8.0\n.target sm_80\n.visible .entry k(.param .u64 x)\n{{\n{lines}\n}}\n"


def folded(statements: list[str]) -> str:
    """The body of what a run of statements becomes, which writes them again."""
    text = unrolled(["ld.param.u64 %rd1, [x];", *statements])
    program = codegen.ptx_to_python(text, sugar=True)
    codegen.verify(text, program, names=False)
    return textwrap.dedent(program.split("def k():\n", 1)[1].split("\n\n\n", 1)[0])


def test_a_product_becomes_loops_in_loops():
    statements = [f"mov.f32 %f{n}, 0f00000000;" for n in range(32)]
    for k in range(4):
        statements += [f"ld.global.f32 %f{100 + i}, [%rd1+{64 * k + 4 * i}];" for i in range(4)]
        statements += [f"ld.global.f32 %f{200 + j}, [%rd1+{1024 + 128 * k + 4 * j}];" for j in range(8)]
        statements += [
            f"fma.rn.f32 %f{8 * i + j}, %f{100 + i}, %f{200 + j}, %f{8 * i + j};" for i in range(4) for j in range(8)
        ]
    assert (
        folded(statements)
        == """\
x = ptx.param(u64, "x")
acc = reg.array(f32, 32)
for i in range(32):
    ptx.inst.mov.f32(acc[i], 0.0)
f100 = reg.array(f32, 4)
f200 = reg.array(f32, 8)
for i in range(4):
    for j in range(4):
        ptx.inst.ld.global_.f32(f100[j], ptx.addr(x, 64 * i + 4 * j))
    for j in range(8):
        ptx.inst.ld.global_.f32(f200[j], ptx.addr(x, 128 * i + 4 * j + 1024))
    for j in range(4):
        for k in range(8):
            ptx.inst.fma.rn.f32(acc[8 * j + k], f100[j], f200[k], acc[8 * j + k])
ptx.ret()"""
    )


def test_registers_of_one_round_are_made_in_it():
    statements = []
    for n in range(6):
        statements += [f"ld.global.f32 %f{3 * n}, [%rd1+{8 * n}];", f"add.f32 %f{3 * n + 7}, %f{3 * n}, %f{3 * n};"]
        statements += [f"st.global.f32 [%rd1+{8 * n + 4}], %f{3 * n + 7};"]
    # each sum is in a register of its own; numbers of two rounds are those of other values in others
    statements = [re.sub(r"%f(\d+)", lambda found: f"%f{int(found[1]) * 5 % 97}", line) for line in statements]
    assert (
        folded(statements)
        == """\
x = ptx.param(u64, "x")
for i in range(6):
    f0 = ptx.inst.ld.global_.f32(reg.scalar(f32), ptx.addr(x, 8 * i))
    f35 = f0 + f0
    ptx.inst.st.global_.f32(ptx.addr(x, 8 * i + 4), f35)
ptx.ret()"""
    )


def test_what_goes_by_no_step_stands_in_a_table():
    offsets = (64, 144, 208, 1024, 1088, 2048)
    statements = ["mov.u32 %r0, %tid.x;"]
    statements += [f"xor.b32 %r{n + 1}, %r0, {offset};" for n, offset in enumerate(offsets)]
    statements += [f"st.global.u32 [%rd1+{4 * n}], %r{n + 1};" for n in range(len(offsets))]
    assert (
        folded(statements)
        == """\
x = ptx.param(u64, "x")
tid_x = reg.from_(ptx.special.tid.x(), u32)
r1 = reg.array(b32, 6)
for i, x_ in enumerate((64, 144, 208, 1024, 1088, 2048)):
    r1[i] = tid_x ^ x_
for i in range(6):
    ptx.inst.st.global_.u32(ptx.addr(x, 4 * i), r1[i])
ptx.ret()""".replace("x_", "y")
    )


def test_operands_of_several_registers_are_arrays_or_parts_of_them():
    many = ", ".join(f"%r{n}" for n in range(8))
    statements = [
        f"ld.global.v4.u32 {{{', '.join(f'%r{4 * n + e}' for e in range(4))}}}, [%rd1+{16 * n}];" for n in range(8)
    ]
    statements += [
        f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{%f0, %f1, %f2, %f3}}, {{{many[:18]}}}, "
        "{%r4, %r5}, {%f0, %f1, %f2, %f3};"
    ]
    text = folded([f"mov.f32 %f{n}, 0f00000000;" for n in range(4)] + statements)
    assert "ptx.inst.ld.global_.v4.u32(r[4 * i : 4 * i + 4], ptx.addr(x, 16 * i))" in text
    assert "f32, acc, r[0:4], r[4:6], acc)" in text


def test_rounds_that_differ_stay():
    # a step that breaks off in a register, one that comes back, braces that do not match
    assert "for" not in folded([f"st.global.u32 [%rd1+{4 * n}], %r{r};" for n, r in enumerate((0, 1, 0, 3, 3))])
    statements = [
        line for n in range(3) for line in (f"add.s32 %r{n + 1}, %r{n}, 1;", "{", f"add.s32 %r{9 - n}, %r9, %r{n};")
    ]
    assert "for" not in folded(["mov.b32 %r0, 0;", "mov.b32 %r9, 0;", *statements, "}", "}", "}"])


def test_loops_are_not_deeper_than_python_nests():
    inner = [
        f"fma.rn.f32 %f{27 * a + 9 * b + 3 * c + d}, %f{100 + a}, %f{120 + b}, %f{140 + 3 * c + d};"
        for a in range(3) for b in range(3) for c in range(3) for d in range(3)
    ]  # fmt: skip
    for depth in (3, 16, 18):
        statements = [f"@%p1 bra $L{n};" for n in range(depth)] + inner + [f"$L{n}:" for n in reversed(range(depth))]
        text = unrolled(statements, ".reg .f32 %f<400>; .reg .b64 %rd<4>; .reg .pred %p<4>;")
        codegen.verify(text, codegen.ptx_to_python(text, sugar=True), names=False)


def test_comments_of_later_rounds():
    statements = [line for n in range(4) for line in (f"// value {n // 2}", f"st.global.u32 [%rd1+{4 * n}], 0;")]
    text = folded(statements)
    assert text.index("# value 0") < text.index("range(4)") < text.index("# value 1")
    assert text.count("# value") == 2


def rounds(chance: random.Random, depth: int) -> list[tuple]:
    """A program of loops: ("loop", count, body) and ("line", text with {0}, {1} for steps of the loops around it)."""
    made = []
    for _ in range(chance.randint(1, 3)):
        if depth and chance.random() < 0.6:
            made.append(("loop", chance.randint(2, 5), rounds(chance, depth - 1)))
            continue
        offset = "+".join(f"{chance.choice((0, 0, 1, 4, -2, 36))}*i[{d}]" for d in range(3))
        other = "+".join(f"{chance.choice((0, 1, 5))}*i[{d}]" for d in range(3))
        made.append(("line", chance.choice((
            f"'st.global.f32 [%%rd1+%d], %%f%d;' % (64+{offset}, 40+{other})",
            f"'add.f32 %%f%d, %%f%d, %%f%d;' % (40+{other}, 200+{other}, 40+{other})",
            f"'fma.rn.f32 %%f%d, %%f%d, %%f7, %%f%d;' % (40+{other}, 100+{other}, 300+{other})",
            f"'xor.b32 %%r%d, %%r%d, %d;' % (40+{other}, 44+{other}, abs({offset}))",
            "'@%%p%d bra $E;' % (1+(i[0]+i[1])%3)",
        ))))  # fmt: skip
    return made


def unroll(program: list[tuple], i: tuple[int, ...] = ()) -> list[str]:
    made = []
    for kind, *rest in program:
        if kind == "loop":
            made += [line for n in range(rest[0]) for line in unroll(rest[1], (*i, n))]
        else:
            made.append(eval(rest[0], {"i": (*i, 0, 0, 0), "abs": abs}))
    return made


@pytest.mark.parametrize("seed", range(40))
def test_random_loops_unrolled(seed):
    statements = ["ld.param.u64 %rd1, [x];", *unroll(rounds(random.Random(seed), 3)), "$E:"]
    text = unrolled(statements, ".reg .b32 %r<600>; .reg .f32 %f<600>; .reg .b64 %rd<40>; .reg .pred %p<8>;")
    codegen.verify(text, codegen.ptx_to_python(text, sugar=True), names=False)


@pytest.mark.parametrize("sugar", ["none", "all"])
def test_a_kernel_that_can_be_called(sugar, tmp_path):
    numpy = pytest.importorskip("numpy")
    options = {"arguments": ["x=out:f32[N]"], "grid": "(N + 127) // 128"}
    program = codegen.ptx_to_python(TEXT, sugar=sugar, kernel_name="plus", **options)
    assert "def plus(x):" in program and 'in_specs=(Tile("N", f32),)' in program and "block=(128, 1, 1)" in program
    codegen.verify(TEXT, program, names=sugar == "none")
    file = tmp_path / "plus.py"
    file.write_text(program)
    space = runpy.run_path(str(file))
    x = numpy.zeros(100, numpy.float32)
    space["plus"](x, add_param_1=8)
    assert x.tolist() == [0.0] * 4 + [1.0] * 8 + [0.0] * 88
    assert space["plus"].mutates == ("x",)


def test_parameters_of_tensors_stand_where_they_stood():
    text = (
        ".version 8.0\n.target sm_80\n.visible .entry k(.param .u32 n, .param .u64 a, .param .f32 s, .param .u64 b)\n"
        ".reqntid 32\n{ .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .f32 %f<3>; ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b];"
        " ld.param.f32 %f1, [s]; ld.param.u32 %r1, [n]; cvt.rn.f32.u32 %f2, %r1; fma.rn.f32 %f2, %f1, %f2, %f1;"
        " st.global.f32 [%rd2], %f2; ld.global.f32 %f2, [%rd1]; st.global.f32 [%rd2+4], %f2; ret; }\n"
    )
    numpy = pytest.importorskip("numpy")
    program = codegen.ptx_to_python(text, sugar=True, arguments=["b=out:f32[N]", "a=f32[N]"])
    codegen.verify(text, program, names=False)
    space = {}
    exec(compile(program, "<transpiled>", "exec"), space)
    a, b = numpy.full(2, 7, numpy.float32), numpy.zeros(2, numpy.float32)
    space["k"](a, b, n=3, s=0.5)
    assert b.tolist() == [2.0, 7.0]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["x=f32[N]", "y=f32[N]"], "add has no further pointer"),
        (["param_1=u32[1]"], "add_param_1 is no pointer"),
        (["param_0=f32[N]", "add_param_0=f32[N]"], "another --arg already"),
        (["x=f33[N]"], "f33 is no type"),
    ],
)
def test_arguments_that_are_none(arguments, message):
    with pytest.raises(PtxError, match=message):
        codegen.ptx_to_python(TEXT, arguments=arguments)


def test_arguments_that_are_not_spelled_so(tmp_path, capsys):
    for text in ("x", "x=f32", "x=f32[]", "x=in:f32[N]", "3=f32[N]"):
        with pytest.raises(ValueError, match="an argument is a name"):
            codegen.argument(text)
    source = tmp_path / "add.ptx"
    source.write_text(TEXT)
    assert command.main(["transpile", str(source), "--arg", "x=f32[N]", "--to", "cpp"]) == 2
    assert "which are for Python" in capsys.readouterr().err
    assert command.main(["transpile", str(source), "--arg", "x=f32[N]", "--grid", "N", "--block", "64"]) == 0
    assert "grid=(lambda N: N), block=64" in capsys.readouterr().out.replace("\n   ", "")


def test_raw_parameters_of_tensors_that_are_none():
    with pytest.raises(ValueError, match="in their order"):
        pyptx.kernel(lambda a: ptx.ret(), in_specs=(Tile("N", u32),), raw_params=[("u64", "x", "b")])


def test_output_is_formatted(tmp_path):
    pytest.importorskip("ruff")
    paths = []
    for sugar in codegen.SUGARS:
        for file in FIXTURES:
            source = file.read_bytes()
            if file.parent.name != "run" or not is_legal(source):
                continue
            paths.append(tmp_path / f"{file.stem}_{sugar}.py")
            paths[-1].write_text(codegen.ptx_to_python(source, sugar=sugar))
    ruff = [sys.executable, "-m", "ruff"]
    made = subprocess.run(
        [*ruff, "format", "--check", "--isolated", "--line-length", "120", *paths], capture_output=True
    )
    assert made.returncode == 0, made.stdout.decode()
    made = subprocess.run([*ruff, "check", "--isolated", "--select", "F401,F821,I", *paths], capture_output=True)
    assert made.returncode == 0, made.stdout.decode()


def test_choosing_an_entry():
    text = ".version 8.0\n.target sm_80\n.global .u32 x;\n.entry a() { ret; }\n.entry b() { exit; }\n"
    program = codegen.ptx_to_python(text, entry="b", kernel_name="mine")
    assert "ptx.inst.exit()" in program and "ptx.ret()" not in program and "def mine():" in program
    codegen.verify(text, program, entry="b")
    with pytest.raises(PtxError, match=r"no \.entry `c`; it has a, b"):
        codegen.ptx_to_python(text, entry="c")
    with pytest.raises(PtxError, match="choose an entry"):
        codegen.ptx_to_python(text, kernel_name="mine")


def test_what_is_not_legal_is_refused():
    with pytest.raises(PtxError, match=r"`.f33` cannot follow `add`"):
        codegen.ptx_to_python(".version 8.0\n.target sm_80\n.entry k() { .reg .f32 a; add.f33 a, a, a; }\n")


def test_command(tmp_path, capsys):
    source, target = tmp_path / "add.ptx", tmp_path / "add.py"
    source.write_text(TEXT)
    assert command.main(["transpile", str(source)]) == 0
    assert capsys.readouterr().out == PLAIN
    assert command.main(["transpile", str(source), "--sugar", "--name", "plus", "-o", str(target)]) == 0
    assert "def plus():" in target.read_text()
    source.write_text(TEXT.replace("%f1, 0f3F800000", "%f9, 0f3F800000"))
    assert command.main(["transpile", str(source)]) == 1
    assert re.search(r"add\.ptx:24:.*%f9", capsys.readouterr().err)


def test_program_of_0_1_1(tmp_path):
    source = tmp_path / "add.ptx"
    source.write_text(TEXT)
    made = subprocess.run(
        [sys.executable, "-m", "pyptx.codegen", source, "--sugar", "--name", "my_kernel"],
        capture_output=True,
        check=True,
    )
    program = tmp_path / "my_kernel.py"
    program.write_bytes(made.stdout)
    assert "def my_kernel():" in program.read_text()
    printed = subprocess.run([sys.executable, program], capture_output=True, check=True).stdout.decode()
    assert not _core.module_difference(TEXT.encode(), printed.encode())
    assert pyptx.parser.parse(printed).diagnostics == []
    alone = subprocess.run([sys.executable, "-m", "pyptx.codegen"], capture_output=True)
    assert alone.returncode == 1 and alone.stderr.startswith(b"usage: python -m pyptx.codegen FILE.ptx")


def written(body, **options) -> str:
    return pyptx.kernel(arch="sm_80", version=(8, 0), **options)(body).ptx()


def test_blocks_as_compilers_write_them():
    def body():
        a, b = reg.scalars(u32, "a", "b")
        p = a < b
        with ptx.when(p):
            a += 1
        with ptx.otherwise(uniform=True):
            with ptx.loop("again"):
                a -= 1
                ptx.loop_while(a > 3)

    lines = written(body, bits=True).split("{", 1)[1].split()
    text = " ".join(lines)
    assert ".reg .b32 a, b;" in text
    assert "@!%p0 bra $_end_0; add.s32 a, a, 1; bra.uni $_end_1; $_end_0: again: sub.s32 a, a, 1;" in text
    assert text.endswith("setp.gt.u32 %p1, a, 3; @%p1 bra again; $_end_1: }")


def test_blocks_that_branches_leave_begin_again_and_enter():
    def body():
        p, q = reg.scalar(pred), reg.scalar(pred)
        with ptx.block() as outer:
            with ptx.loop("top") as loop:
                loop.leave(p)
                loop.again(~q, uniform=True)
                outer.leave()
                ptx.loop_while(q)
            with ptx.block("next", late=True, uniform=True) as part:
                part.leave(uniform=True)
                part.enter()
                part.again(p)
        with ptx.block():
            pass

    text = " ".join(written(body).split("{", 1)[1].split())
    assert text.endswith(
        "top: @%p0 bra $_end_0; @!%p1 bra.uni top; bra $_end_1; @%p1 bra top; $_end_0: "
        "bra.uni $_enter_2; next: bra.uni $_end_3; $_enter_2: @%p0 bra next; $_end_3: $_end_1: }"
    ), text


def closed():
    with ptx.block("a") as part:
        pass
    part.again()


def inside(name, make, *options, **named):
    def body():
        with make(*options, **named) as part:
            getattr(part, name)()

    return body


@pytest.mark.parametrize(
    "wrong, message",
    [
        (closed, "is not open here"),
        (lambda: ptx.block().leave(), "is not open here"),
        (inside("leave", ptx.scope), "loops and blocks can be left"),
        (inside("again", ptx.block), "blocks with a label, can begin again"),
        (inside("enter", ptx.block, "a"), "a late block is entered"),
        (inside("__enter__", ptx.block, late=True), "has a label, to begin again"),
        (inside("leave", ptx.block, "a", late=True), "nothing says where it is entered"),
        (lambda: ptx.otherwise().__enter__(), "must follow a when"),
        (lambda: ptx.loop_while(), "no loop is open"),
        (lambda: reg.named("x"), "no register `x`"),
        (lambda: reg.scalar(u32, name="v", vector=3), "2 or 4 elements"),
        (lambda: reg.scalar(u32, vector=2), "needs a name"),
        (lambda: reg.scalars(u32, "a", ""), "need names"),
        (lambda: reg.scalars(u32, "a", "a"), "declared already"),
    ],
)
def test_what_has_no_form_is_refused(wrong, message):
    with pytest.raises(PtxError, match=message):
        written(wrong)


def test_a_signature_that_is_none():
    with pytest.raises(PtxError, match=r"`u33` is not base"):

        @ptx.func(raw_params=[("u33", "x")])
        def f():
            ptx.ret()

        ptx.module([f], target="sm_80").ptx()


STAIRS = """\
.version 8.0
.target sm_80
.address_size 64

.visible .entry k(
	.param .u64 out
)
{
	.reg .pred %p<4>;
	.reg .b32 %r<3>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	setp.eq.s32 %p1, %r1, 0;
	setp.gt.s32 %p2, %r1, 9;
	mov.u32 %r2, 0;
	bra.uni COND;
STEP:
	add.s32 %r2, %r2, 1;
COND:
	setp.lt.s32 %p3, %r2, %r1;
	@!%p3 bra BEHIND;
	@%p1 bra STEP;
	@%p2 bra END;
	st.global.u32 [%rd1], %r2;
	bra.uni STEP;
BEHIND:
	st.global.u32 [%rd1], %r1;
END:
	ret;
}
"""


def test_every_way_out_of_a_loop():
    for sugar in ("flow", "all"):
        program = codegen.ptx_to_python(STAIRS, sugar=sugar)
        assert 'with ptx.block("STEP", late=True, uniform=True) as part_:' in program
        for line in (
            "part_.enter()",
            "with ptx.when(p3):",
            "part_.again(p1)",
            "part.leave(p2)",
            "part_.again(uniform=True)",
        ):
            assert line in program, program
        assert "ptx.label" not in program and "bra" not in program
        codegen.verify(STAIRS, program, names=False)
    in_cpp = codegen.ptx_to_cpp(STAIRS, sugar=True)
    for line in (
        'k.block({.label = "STEP", .late = true, .uniform = true}, [&](const auto& ',
        ".again(p1);",
        ".again(uni);",
    ):
        assert line in in_cpp, in_cpp


def test_a_label_stays_where_two_branches_enter_a_loop():
    text = STAIRS.replace("\tbra.uni COND;", "\t@%p1 bra COND;")
    program = codegen.ptx_to_python(text, sugar=True)
    assert "# Labels stay: a branch leads into the middle" in program and 'ptx.label("STEP")' in program
    codegen.verify(text, program, names=False)


def test_long_chains_of_branches_to_one_label_are_one_block():
    many = "".join(
        f"\tsetp.eq.s32 %p1, %r1, {n};\n\t@%p1 bra END;\n\tst.global.u32 [%rd1+{4 * n}], %r1;\n" for n in range(30)
    )
    text = STAIRS.replace("\tmov.u32 %r2, 0;\n", many + "\tmov.u32 %r2, 0;\n")
    program = codegen.ptx_to_python(text, sugar="flow")
    assert "ptx.label" not in program and max(len(line) - len(line.lstrip()) for line in program.splitlines()) <= 28
    codegen.verify(text, program, names=False)


SWITCH = """.version 8.0
.target sm_80
.entry k(.param .u32 x)
{
	.reg .b32 %r<3>;
	.reg .pred %p<2>;
	ld.param.u32 %r1, [x];
	setp.gt.u32 %p1, %r1, 3;
	@%p1 bra D;
ways: .branchtargets A, D, B, A;
	brx.idx %r1, ways;
A:
	add.s32 %r1, %r1, 1;
B:
	add.s32 %r1, %r1, 2;
	bra.uni E;
D:
	mov.u32 %r1, 7;
E:
	ret;
}
"""


def test_tables_of_targets():
    program = codegen.ptx_to_python(SWITCH, sugar="flow")
    for line in (
        "    with ptx.switch(x, default=p1):",
        "        with ptx.case(0, 3, falls=True):",
        "        with ptx.case(2, uniform=True):",
        "        with ptx.case(default=True):",
    ):
        assert line in program, program
    assert "ptx.label" not in program
    codegen.verify(SWITCH, program, names=False)
    in_cpp = codegen.ptx_to_cpp(SWITCH, sugar="flow")
    assert (
        "k.switch_(x, {.otherwise = when(p1)}, [&] {" in in_cpp and "k.case_({0, 3}, {.falls = true}, [&] {" in in_cpp
    )


@pytest.mark.parametrize(
    "old, new",
    [
        ("D:\n", "D:\n\t@%p1 bra B;\n"),  # between cases: the label of the case stays
        ("\tsetp", "\t@!%p1 bra B;\n\tsetp"),  # from outside into a case: no block
        ("A, D, B, A", "A, E, B, A"),  # the end, though there is a default
        ("\tbrx.idx", "\t@%p1 brx.idx"),
        ("\tbrx.idx %r1, ways;", "\tbrx.idx %r1, ways;\n\tadd.s32 %r1, %r1, 3;"),
        ("\tmov.u32 %r1, 7;", "\tbrx.idx %r1, ways;"),  # a table for two
    ],
)
def test_tables_that_are_no_blocks(old, new):
    text = SWITCH.replace(old, new, 1)
    assert text != SWITCH and is_legal(text.encode())
    for sugar in codegen.SUGARS:
        round_trip(text.encode(), sugar)
    program = codegen.ptx_to_python(text, sugar="flow")
    assert ("with ptx.switch" in program) == (old == "D:\n")
    assert "# Labels stay" in program


@pytest.mark.parametrize(
    "wrong, message",
    [
        (lambda i: ptx.case(0).__enter__(), "innermost open block is not a switch"),
        (lambda i: enter(ptx.switch(i), ptx.case()), "a case needs an index, or must be the default"),
        (lambda i: enter(ptx.switch(i), ptx.case(default=True)), "without the predicate of a default case"),
        (lambda i: leave(ptx.switch(i)), "has no case"),
        (lambda i: leave(ptx.switch(i, default=i > 3, count=2)), "has no default case"),
        (lambda i: ptx.switch(reg.scalar(f32)).__enter__(), "takes a .u32 or .b32 register"),
    ],
)
def test_switches_that_are_none(wrong, message):
    with pytest.raises(PtxError, match=message):
        written(lambda: wrong(reg.scalar(u32)))


def enter(*blocks):
    for block in blocks:
        block.__enter__()


def leave(block):
    with block:
        pass


def test_sugar_that_there_is_not():
    with pytest.raises(PtxError, match="there is no sugar `most`: none, names, flow, all"):
        codegen.ptx_to_cpp(TEXT, sugar="most")


CPP = """void add(Kernel& k) {
  k.add_raw("u64.ptr.global.palign16", "add_param_0");
  k.add_raw("u32", "add_param_1");
  const Reg param_0 = k.param(u64, "add_param_0");
  const Reg param_1 = k.param(u32, "add_param_1");  // how many
  const Reg tid_x = k.from(k.special("%tid.x"), u32);
  const Reg p1 = tid_x >= param_1;
  k.when(!p1, [&] {
    const Reg rd2 = k.mul(wide, u32, k.scalar(b64), tid_x, 4);
    const Reg rd3 = param_0 + rd2;
    const Reg f1 = k.ld(global, f32, k.scalar(f32), k.at(rd3, 16));
    const Reg f2 = f1 + 1.0;
    k.st(global, f32, k.at(rd3, 16), f2);
  });
  k.ret();
}
"""


def test_cpp_with_sugar():
    assert CPP in codegen.ptx_to_cpp(TEXT, sugar=True)
    assert "k.when" not in codegen.ptx_to_cpp(TEXT, sugar="names")


def test_cpp_declares_outside_of_a_block_what_is_named_behind_it():
    text = TEXT.replace("$L1:\n", "$L1:\n\tst.global.f32 [%rd1], %f2;\n")
    lines = codegen.ptx_to_cpp(text, sugar=True).splitlines()
    assert lines.index("  const Reg f2 = k.scalar(f32);") < lines.index("  k.when(!p1, [&] {")
    assert "    k.add(f32, f2, f1, 1.0);" in lines


def test_cpp_loops_arrays_and_tables():
    """What the loops in Python above are in C++; test_transpile_all.py compiles such programs."""
    statements = ["ld.param.u64 %rd1, [x];", "mov.u32 %r0, %tid.x;"]
    statements += [f"ld.global.f32 %f{n}, [%rd1+{4 * n}];" for n in range(8)]
    statements += [f"add.f32 %f{n}, %f{n}, %f{7 - n};" for n in range(4)]
    statements += [f"xor.b32 %r{n + 1}, %r0, {offset};" for n, offset in enumerate((64, 144, 208, 1024, 1088, 2048))]
    statements += [f"add.s64 %rd{n + 2}, %rd1, {n << 33};" for n in range(4)]
    statements += [f"st.global.v4.f32 [%rd{n + 2}], {{%f0, %f1, %f2, %f3}};" for n in range(4)]
    program = codegen.ptx_to_cpp(unrolled(statements), sugar=True)
    for part in (
        """\
  const RegArray sum = k.array(f32, 8);
  for (int i = 0; i < 8; ++i) {
    k.ld(global, f32, sum[i], k.at(x, 4 * i));
  }
  for (int i = 0; i < 4; ++i) {
    sum[i] += sum[7 - i];
  }
""",
        """\
  const std::array<int, 6> y{64, 144, 208, 1024, 1088, 2048};
  for (int i = 0; i < 6; ++i) {
""",
        "rd2.set(i, x + (8589934592L * i));",
        "k.vector(sum, 0, 4)",
    ):
        assert part in program, program


def test_labels_of_one_name_in_two_blocks():
    block = "{ .reg .pred p; setp.eq.s32 p, %r1, NUMBER; @p bra DONE; st.global.u32 [%rd1], %r1; DONE: }"
    statements = ["ld.param.u64 %rd1, [x];", "mov.u32 %r1, %tid.x;"]
    statements += [block.replace("NUMBER", number) for number in ("1", "2")]
    text = unrolled([*statements, "setp.ne.s32 %p1, %r1, 3;", "@%p1 bra DONE;", "st.global.u32 [%rd1], 0;", "DONE:"],
                    ".reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p<4>;")  # fmt: skip
    for sugar in ("flow", "all"):
        program = codegen.ptx_to_python(text, sugar=sugar)
        codegen.verify(text, program, names=False)
        assert program.count("with ptx.when(") == 3
        assert "ptx.label(" not in program
        assert codegen.ptx_to_cpp(text, sugar=sugar).count("k.when(") == 3
    # what is compared is where a label stands in its own block
    inner = text.replace(
        "{ .reg .pred p; setp.eq.s32 p, %r1, 2; @p bra DONE;", "{ .reg .pred p; setp.eq.s32 p, %r1, 2; @p bra OUT;"
    )
    inner = inner.replace("DONE:\nret;", "DONE:\nOUT:\nret;")
    assert "the labels stand at other places" in _core.module_difference(text.encode(), inner.encode())


def test_a_comment_behind_what_is_not_written_has_a_line():
    program = codegen.ptx_to_python(TEXT.replace(".reg .b32 %r<5>;", ".reg .b32 %r<5>;  // sums"), sugar=True)
    assert "    # sums\n" in program


FAMILIES = """\
.version 8.6
.target sm_90a
.visible .entry k(.param .u64 x)
{
	.shared .align 8 .b64 bars[2];
	.shared .align 16 .b8 tile[1024];
	.shared .align 4 .f32 sums[8];
	.reg .b64 %rd<4>;
	.reg .b32 %r<8>;
	.reg .pred %p<4>;
	ld.param.u64 %rd1, [x];
	mov.u32 %r1, tile;
	mbarrier.init.shared.b64 [bars], 1;
	mbarrier.init.shared::cta.b64 [bars+8], 1;
	fence.proxy.async.shared::cta;
	elect.sync _|%p2, 0xffffffff;
	@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [bars+8];
	mbarrier.arrive.expect_tx.shared::cta.b64 %rd2, [bars+8], 64;
	@%p2 mbarrier.arrive.shared::cta.b64 %rd3, [bars];
	mbarrier.try_wait.parity.shared::cta.b64 %p1, [bars+8], 0;
	bar.sync 1, 64;
	shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffffffff;
	shfl.sync.bfly.b32 %r3|%p3, %r1, 1, 31, -1;
	redux.sync.add.s32 %r4, %r2, 0xffffffff;
	st.shared.b32 [tile+16], %r4;
	st.shared.b32 [sums], %r3;
	wgmma.wait_group.sync.aligned 0;
	ret;
}
"""


def test_instructions_of_a_family_and_allocations():
    program = codegen.ptx_to_python(FAMILIES, sugar=True)
    codegen.verify(FAMILIES, program, names=False)
    for line in (
        'bars = smem.mbarrier(2, name="bars")',
        'tile = smem.alloc(b8, 1024, align=16, name="tile")',
        'ptx.var("shared", f32, "sums", size=8, align=4)',  # an allocation is an array of bytes
        "tile_ = ptx.inst.mov.u32(reg.scalar(b32), tile)",
        'ptx.mbarrier.init(bars[0], 1, space="shared")',
        "ptx.mbarrier.init(bars[1], 1)",
        "ptx.fence.proxy_async_shared_cta()",
        "ptx.warp.elect(dst=p2)",
        "ptx.cp_async_bulk.load(tile_, x, 64, bars[1], pred=p2)",
        "rd2 = ptx.mbarrier.arrive_expect_tx(bars[1], 64)",
        'rd3 = ptx.mbarrier.arrive(bars[0], space="shared::cta", dst=reg.scalar(b64), pred=p2)',
        'p1 = ptx.mbarrier.try_wait(bars[1], 0, space="shared::cta")',
        "ptx.bar.sync(1, 64)",
        'r2 = ptx.warp.shfl("bfly", tile_, 1)',
        'ptx.warp.shfl_inside("bfly", tile_, 1, dst=r3, inside=p3, membermask=-1)',
        'r4 = ptx.warp.redux("add", s32, r2)',
        "ptx.inst.st.shared.b32(ptx.addr(tile, 16), r4)",
        "ptx.wgmma.wait_group(0)",
    ):
        assert f"    {line}\n" in program, (line, program)
    assert "ptx.bar" not in codegen.ptx_to_python(FAMILIES, sugar="flow")


def test_allocations_that_would_not_stay():
    # more than 48 KiB would become dynamic; a name that a block has again is a variable of that block
    large = FAMILIES.replace("sums[8]", "sums[12200]")
    program = codegen.ptx_to_python(large, sugar=True)
    codegen.verify(large, program, names=False)
    assert "smem" not in program
    again = FAMILIES.replace("	ret;", "	{ .shared .align 16 .b8 tile[4]; mov.u32 %r5, tile; }\n	ret;")
    program = codegen.ptx_to_python(again, sugar=True)
    codegen.verify(again, program, names=False)
    assert 'ptx.var("shared", b8, "tile", size=1024, align=16)' in program


def test_cpp_allocates():
    program = codegen.ptx_to_cpp(FAMILIES, sugar=True)
    assert 'tile = ptx::author::shared(k, b8, {1024}, ptx::author::Swizzle::none, 16, "tile");' in program
    assert "k.at(tile, 16)" in program


def test_example_of_a_changed_kernel(tmp_path):
    pytest.importorskip("numpy")
    example = ROOT / "examples" / "triton_matmul.py"
    made = subprocess.run([sys.executable, example], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert made.stdout.count("-\tmul.f32") == made.stdout.count("+\tmul.f32") == 8
    assert "changed: 0.25 * a @ b" in made.stdout


def test_registers_of_a_signature_are_what_they_are():
    text = ".version 8.0\n.target sm_80\n.func (.reg .b32 d) f(.reg .b32 a)\n{\n\tmul.lo.u32 d, a, a;\n\tret;\n}\n"
    program = codegen.ptx_to_python(text, sugar=True)
    codegen.verify(text, program, names=False)
    assert "mul.lo.u32(d, a, a)" in program
    other = text.replace("\tmul.lo.u32 d,", "\t.reg .b32 e;\n\tmul.lo.u32 e,")
    assert "before, and is e" in _core.module_difference(text.encode(), other.encode())


@pytest.mark.parametrize("sugar", ["names", "flow", "all"])
@pytest.mark.parametrize(
    "line",
    ["setp.eq.f32 p, f, 0f7F800000;", "add.f32 f, f, 0f7FC00000;", "{ .reg .b32 %t; mov.b64 {%t, r}, d; }"],
    ids=["compared with infinity", "sum with NaN", "half of a pair ends with its block"],
)
def test_what_operators_and_arrays_cannot_be(line, sugar):
    text = f"""\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
{{
	.reg .pred p;
	.reg .f32 f;
	.reg .f64 d;
	.reg .b32 r;
	mov.f32 f, 0f00000000;
	mov.f64 d, 0d0000000000000000;
	{line}
	mov.b32 r, r;
	ret;
}}
"""
    codegen.verify(text, codegen.ptx_to_python(text, sugar=sugar), names=False)


def test_a_walk_over_registers_of_one_round():
    """Low halves of pairs, then the high ones: what is read walks on, so the pair that it is read of is no round's own."""

    def blocks(round: int, half: str, pair: int) -> str:
        return "".join(
            f"\t{{ .reg .b16 low, high; mov.b32 {{low, high}}, r{one}; mov.b16 h{2 * round + i}, {half}; }}\n"
            for i, one in enumerate((pair, pair + 1))
        ) + "".join(f"\tcvt.f32.bf16 f{2 * round + i}, h{2 * round + i};\n" for i in range(2))

    rounds = [("low", 0), ("high", 0), ("low", 2), ("high", 2)]
    text = f"""\
.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{{
	.reg .b32 r<4>;
	.reg .b16 h<8>;
	.reg .f32 f<8>;
{"".join(f"	mov.b32 r{i}, %clock;{chr(10)}" for i in range(4))}{"".join(blocks(i, *each) for i, each in enumerate(rounds))}	ret;
}}
"""
    codegen.verify(text, codegen.ptx_to_python(text, sugar="all"), names=False)


def test_without_sugar_as_fmt_writes_the_module(tmp_path, capfd):
    """Byte for byte; plain `fmt` keeps comments, and numbers as they are written."""
    file = tmp_path / "a.ptx"
    file.write_text(
        "// kept by fmt\n.version 8.0\n.target sm_80\n.address_size 64\n.entry k() { .reg .b32 r; mov.b32 r, 0x10; ret; }\n"
    )
    assert command.main(["fmt", "--module", str(file)]) == 0
    printed = capfd.readouterr().out
    assert printed == codegen.run(codegen.ptx_to_python(file.read_text()))
    assert "mov.b32 r, 16;" in printed
    assert command.main(["fmt", "--module", "--check", str(file)]) == 1
