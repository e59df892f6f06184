"""Modules that compilers hardly write: unusual directives, names that a program uses itself, blocks deeper than Python nests."""

import warnings

import pytest

from pyptx import codegen, kernel, parser, ptx, reg
from pyptx.errors import PtxError
from pyptx.types import b32, f32

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
KERNEL = ".visible .entry k(.param .u64 x)\n{\n"
NAMES = """\
class def lambda None True False import print ptx reg kernel smem range for enumerate zip u32 b32 f32 pred k x
int k_ this new delete template and or not Reg const auto main program std text m i j __x self Tile pyptx when
uni array nonlocal await match case type exec __name__ abs len list wide global shared"""

ODD = {
    "reg v4": """\
<H><K>.reg .v4 .f32 %v, %w;

.reg .f32 %f<4>;
.reg .b64 %rd1;
ld.param.u64 %rd1,[x];
ld.global.v4.f32 %v,[%rd1];
mov.f32 %f1,%v.x;
add.f32 %f2,%v.y,%w.w;
st.global.v4.f32 [%rd1],%v;
ret;
}
""",
    "reg v4 one": """\
<H><K>.reg .v4 .f32 %v;
.reg .v4 .f32 %w;
.reg .f32 %f<4>;
mov.f32 %f1,%v.r;
mov.f32 %f1,%w.g;
ret;
}
""",
    "numbers longer than their type": """\
<H><K>.reg .b64 %rd1;
ld.param.u64 %rd1,[x];
st.global.u16 [%rd1],65536;
st.global.u8 [%rd1],-300;
st.global.u32 [%rd1],4294967296;
st.global.v2.u16 [%rd1],{65536,1};
ret;
}
""",
    "alias": """\
<H>.func (.reg .b32 r) foo(.reg .b32 a);
.visible .func (.reg .b32 r) bar(.reg .b32 a)
{
mov.b32 r,a;
ret;
}
.alias foo, bar;
""",
    "alias2": """\
<H>.visible .func bar();
.visible .func foo()
{
ret;
}
.alias bar, foo;
<K>call bar;
ret;
}
""",
    "pragma": """\
<H>.pragma "nounroll";
<K>.pragma "nounroll";
.pragma "used_bytes_mask 0xff";
ret;
}
""",
    "callproto": """\
<H><K>.reg .b64 %rd<4>;.reg .b32 %r<4>;
Proto: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);
{
.param .b32 a; .param .b64 b; .param .b32 r;
st.param.b32 [a],%r1; st.param.b64 [b],%rd1;
call (r), %rd2, (a,b), Proto;
ld.param.b32 %r2,[r];
}
ret;
}
""",
    "calltargets": """\
<H>.func (.param .b32 r) f(.param .b32 a)
{
.reg .b32 %r1;
ld.param.b32 %r1,[a];
st.param.b32 [r],%r1;
ret;
}
.func (.param .b32 r) g(.param .b32 a)
{
ret;
}
<K>.reg .b64 %rd<4>;.reg .b32 %r<4>;
Tab: .calltargets f, g;
{
.param .b32 a; .param .b32 r;
st.param.b32 [a],%r1;
mov.u64 %rd1,f;
call (r), %rd1, (a), Tab;
ld.param.b32 %r2,[r];
}
ret;
}
""",
    "branchtargets": """\
<H><K>.reg .b32 %r<4>;
ts: .branchtargets A, B, C;
brx.idx %r1, ts;
A: add.u32 %r1,%r1,1;
B: bra E;
C: bra A;
E: ret;
}
""",
    "two entries": """\
<H><K>ret;
}
.visible .entry k2(.param .u64 x)
{
ret;
}
.entry class(.param .u64 def)
{.reg .b64 lambda;
ld.param.u64 lambda,[def];
ret;
}
""",
    "texmode": """\
.version 8.6
.target sm_90, texmode_independent
.address_size 64
.global .texref tex;
.global .samplerref s;
<K>.reg .f32 %f<8>;.reg .b32 %r<4>;
tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4},[tex,s,{%f5,%f6}];
ret;
}
""",
    "linkage": """\
<H>.weak .global .u32 w;
.common .global .u32 c;
.extern .global .u32 e;
.visible .global .u32 v = 5;
.extern .shared .align 16 .b8 dyn[];
.weak .func f()
{
ret;
}
.weak .entry we()
{
ret;
}
.extern .func g(.param .b32 a);
<K>ret;
}
""",
    "scopes": """\
<H><K>.reg .b32 %r<4>;
{
.reg .b32 %r<4>;
mov.u32 %r1,1;
{
.reg .b32 t;
.reg .pred %r2;
mov.u32 t,%r1;
setp.eq.u32 %r2,t,1;
@%r2 bra L;
{
.reg .b64 t;
mov.u64 t,0;
}
L:
}
}
mov.u32 %r1,2;
L: bra L;
}
""",
    "labels": """\
<H><K>.reg .b32 r;
class: bra def;
def: bra if;
if: bra $1;
$1: bra _a$;
_a$: bra %l;
%l: ret;
}
""",
    "unicode": '<H>// héllo 🎉 \u2028 日本\n<K>/* été */ .reg .b32 r; // ü\n mov.b32 r,1; // \\ " \'\'\' """ \x07 \n // trailing \\\n ret; /* a\n   b */\n}\n// end\n',
    "commentweird": '<H><K>// """ \n/* """ */\nret; // # x\n//\n// \\n\n}\n',
    "locals": """\
<H><K>.local .align 8 .b8 __local_depot0[16];
.reg .b64 %SP;
.reg .b64 %SPL;
mov.u64 %SPL, __local_depot0;
cvta.local.u64 %SP, %SPL;
.shared .f32 a[4][5];
.shared .v4 .f32 v;
st.shared.f32 [a+4], 0f00000000;
ret;
}
""",
    "params": """\
<H>.visible .entry k(.param .align 64 .b8 m[128], .param .b8 s[3], .param .f32 f, .param .u64 .ptr .shared .align 8 p, .param .b16 h, .param .texref t, .param .u64 .ptr .surfref .align 4 u, .param .u8 b)
.maxnreg 32
.minnctapersm 2
.maxntid 64,2
.reqnctapercluster 2,1,1
.explicitcluster
{
ret;
}
""",
    "noreturn": """\
<H>.func f() .noreturn
{
exit;
}
.func .attribute(.unified(1,2)) g() { ret; }
.global .attribute(.managed) .u32 mg;
<K>ret;
}
""",
    "noaddr": """\
.version 8.6
.target sm_90
<K>ret;
}
""",
    "nokernel": """\
<H>.global .u32 x;
""",
    "proto only": """\
<H>.extern .entry k(.param .u64 x);
.extern .func (.param .b32 r) f(.param .b32 a);
.extern .func vprintf(.param .b64 a, .param .b64 b);
""",
    "vararg": """\
<H>.func (.param .b32 r) f(.param .b32 a, .param .align 8 .b8 va[]) { ret; }
""",
    "same names": """\
<H>.global .u32 r;
.visible .entry r1(.param .u64 r2)
{
.reg .b32 r;
.reg .b32 r3;
.reg .b64 r2_;
ld.param.u64 r2_,[r2];
mov.b32 r,1;
mov.b32 r3,r;
ret;
}
""",
    "collide": """\
<H>.func ptx() { ret; }
.func reg() { ret; }
.func kernel(){ret;}
.func module(){ret;}
<K>.reg .b32 ptx_, reg_, %ptx, $ptx, %_ptx;
mov.b32 ptx_,reg_; mov.b32 %ptx,$ptx; mov.b32 %_ptx,1;
call ptx;
call reg;
ret;
}
""",
    "percent": """\
<H><K>.reg .b32 %a, a, $a, _a, %_a, $_a, a_, a$, a$b;
mov.b32 %a,a; mov.b32 $a,_a; mov.b32 %_a,$_a; mov.b32 a_,a$; mov.b32 a$b,1;
ret;
}
""",
    "case": """\
<H><K>.reg .b32 A, a, Aa, aA;
mov.b32 A,a; mov.b32 Aa,aA;
ret;
}
""",
    "numbers": """\
<H><K>.reg .b64 d<9>; .reg .b32 r<9>; .reg .f32 f<9>; .reg .f64 g<9>;
mov.u64 d1, 0xFFFFFFFFFFFFFFFF; mov.s64 d1,-9223372036854775808; mov.u32 r1,0b1011; mov.u32 r1,017; mov.u32 r1,4294967295U; mov.s32 r1,-1; mov.f32 f1,0f7FC00001; mov.f32 f1, 0fFF800000; mov.f64 g1,0d8000000000000000; mov.f32 f1,1.5e10; mov.f64 g1, 1e300; add.f32 f1,f2,0f80000000; mov.u32 r1, 3*4+1; mov.u32 r1, (1<2)?5:6; mov.u32 r1, WARP_SZ; mov.b64 d1,{r1,r2}; mov.b64 {r1,_},d1;
ret;
}
""",
    "guards": """\
<H><K>.reg .pred p<3>; .reg .b32 r<4>;
@!p1 mov.u32 r1,r2; @p1 bra L; @p1 ret; L: @!p2 exit; vote.sync.any.pred p1,!p2,-1; setp.lt.and.u32 p1|p2,r1,r2,!p1; selp.u32 r1,r2,r3,p1; mov.pred p1,1; @p1 trap; brkpt;
ret;
}
""",
    "globals many": """\
<H>.global .u32 a, b[2], c = 3;
.shared .u32 d, e;
<K>.shared .u32 f, g[3];
.local .u32 h, i;
ret;
}
""",
    "multi dims": """\
<H>.global .u32 a[2][3][4] = {{{1,2,3,4},{5}},{{6}}};
.global .u32 e[][2] = {{1,2},{3,4}};
<K>.reg .b32 r;
ld.global.u32 r,[a];
ret;
}
""",
    "alloca": """\
<H><K>.reg .b64 d<3>;.reg .b32 r1;
stacksave.u64 d1; alloca.u64 d2, 16; stackrestore.u64 d1;
ret;
}
""",
    "blocksareclusters": """\
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k() .blocksareclusters .reqntid 32 .reqnctapercluster 2 { ret; }
""",
    "values of a variable in a body": """\
<H><K>.global .b32 values[3] = {10 + 5 * 2, ~0, 1};
.global .attribute(.managed) .b32 shown;
.reg .b32 r;
ld.global.b32 r, [values+4];
st.global.b32 [shown], r;
ret;
}
""",
    "a parameter that is read beyond its end": """\
<H>.visible .entry k(.param .b32 x, .param .b32 y)
{
.reg .b64 d;
ld.param.u64 d, [x];
st.global.b64 [d], d;
ret;
}
""",
    "func ptr init": """\
<H>.func f()
{
ret;
}
.global .u64 t[2] = {f, 0};
<K>ret;
}
""",
}
ODD["deep blocks"] = "<H><K>.reg .b32 r;\n" + "{\n" * 40 + "mov.b32 r, 1;\n" + "}\n" * 40 + "ret;\n}\n"
ODD["deep loops"] = "<H><K>.reg .pred p;\n.reg .b32 r;\n" + "".join(f"L{i}:\nadd.u32 r, r, {i};\n" for i in range(60))
ODD["deep loops"] += "".join(f"@p bra L{i};\n" for i in reversed(range(60))) + "ret;\n}\n"
ODD["deep branches"] = "<H><K>.reg .pred p;\n.reg .b32 r;\n" + "{\n" * 12
ODD["deep branches"] += "".join(f"@p bra L{i};\nadd.u32 r, r, {i};\n" for i in range(60))
ODD["deep branches"] += "".join(f"L{i}:\n" for i in reversed(range(60))) + "}\n" * 12 + "ret;\n}\n"
ODD["registers by names of the program"] = "<H>.global .u32 memory[999];\n.visible .entry k()\n{\n" + "".join(
    f".reg .b32 {name};\n" for name in NAMES.split()
)
ODD["registers by names of the program"] += "".join(
    f"add.u32 {a}, {b}, {b};\n" for a, b in zip(NAMES.split(), NAMES.split()[1:], strict=False)
)
ODD["registers by names of the program"] += "".join(
    f"st.global.u32 [memory+{4 * n * n + 64}], {n % 5};\n" for n in range(9)
)
ODD["registers by names of the program"] += "ret;\n}\n"
for name in NAMES.split():
    ODD[f"kernel {name}"] = (
        f"<H>.visible .entry {name}(.param .u64 {name}_p)\n{{\n.reg .b64 {name}1;\nld.param.u64 {name}1, [{name}_p];\nret;\n}}\n"
    )


@pytest.mark.parametrize("sugar", codegen.SUGARS)
@pytest.mark.parametrize("name", ODD)
def test_odd_modules(name, sugar):
    text = ODD[name].replace("<H>", HEAD).replace("<K>", KERNEL)
    assert [one for one in parser.check(text) if one.severity == "error"] == []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        codegen.verify(text, codegen.ptx_to_python(text, sugar=sugar), names=sugar == "none")
    assert "std::string text() {" in codegen.ptx_to_cpp(text, sugar=sugar)


@pytest.mark.parametrize("sugar", codegen.SUGARS)
def test_a_comment_that_would_go_on(sugar):
    body = ".reg .b32 r; // one \\\n mov.b32 r, 1; // two \\\n mov.b32 r, 2; // a long one, %s \\\n ret; /* three \\\n four */\n}\n"
    source = f"// zero \\\n{HEAD}{KERNEL}{body % ('word ' * 30)}"
    made = codegen.ptx_to_cpp(source, sugar=sugar)
    assert made.count("\\ .\n") == 5 and "\\\n" not in made
    codegen.verify(source, codegen.ptx_to_python(source, sugar=sugar), names=sugar == "none")


@pytest.mark.parametrize("sugar", codegen.SUGARS)
def test_marks_of_inline_assembly(sugar):
    source = f"{HEAD}{KERNEL}// begin inline asm\nbar.sync 0; // mine\n// end inline asm\nret;\n}}\n"
    for program in (codegen.ptx_to_python(source, sugar=sugar), codegen.ptx_to_cpp(source, sugar=sugar)):
        assert program.count("inline asm") == (0 if sugar == "all" else 2) and "mine" in program


@pytest.mark.parametrize("sugar", codegen.SUGARS)
def test_bytes_of_another_encoding(sugar):
    source = f"{HEAD}{KERNEL}ret; // gr".encode() + b"\xf6\xdfe\n}\n"
    for program in (codegen.ptx_to_python(source, sugar=sugar), codegen.ptx_to_cpp(source, sugar=sugar)):
        assert r"gr\xf6\xdfe" in program
    codegen.verify(source, codegen.ptx_to_python(source, sugar=sugar), names=sugar == "none")
    named = HEAD.encode() + b'.file 1 "gr\xf6\xdfe.cu"\n' + (KERNEL + "ret;\n}\n").encode()
    with pytest.raises(PtxError, match="characters of ASCII alone"):  # as the assembler says
        codegen.ptx_to_python(named, sugar=sugar)


def test_vector_registers_of_one_declaration():
    text = ODD["reg v4"].replace("<H>", HEAD).replace("<K>", KERNEL)
    assert 'v, w = reg.scalars(f32, "%v", "%w", vector=4)' in codegen.ptx_to_python(text)
    assert '>{"%v", "%w"}, 4);' in codegen.ptx_to_cpp(text)

    @kernel(arch="sm_90a")
    def wrong():
        reg.scalars(f32, "a", "b", vector=3)

    with pytest.raises(PtxError, match="2 or 4 elements"):
        wrong.ptx()


def test_lines_of_a_long_body():
    """Behind some hundred lines, all of a body are read at once."""
    calls = "".join(f"    ptx.inst.mov.b32(r, {n})\n" for n in range(900))
    scope = {"ptx": ptx, "reg": reg, "b32": b32}
    exec(
        compile(f"def long():\n    r = reg.scalar(b32)\n{calls}    ptx.inst.mov.b32(r, 1.5, 3)\n", "long.py", "exec"),
        scope,
    )
    with pytest.raises(PtxError, match=r"long\.py:903: "):
        kernel(arch="sm_90a")(scope["long"]).ptx()


@pytest.mark.parametrize("sugar", [False, True])
def test_dynamic_memory_is_an_option_of_its_kernel(sugar):
    head = ".version 8.0\n.target sm_90a\n.address_size 64\n"
    memory = ".extern .shared .align 128 .b8 buffer[];\n"
    entry = ".visible .entry k()\n{\n\t.reg .u32 %r0;\n\tmov.u32 %r0, buffer;\n\tst.shared.u32 [%r0+4], 1;\n\tret;\n}\n"
    program = codegen.ptx_to_python(head + memory + entry, sugar=sugar)
    assert 'extern_smem="buffer"' in program and "ptx.module" not in program
    codegen.verify(head + memory + entry, program)
    for other in (memory.replace("128", "16"), memory + ".global .u32 g;\n"):  # what extern_smem= does not write
        program = codegen.ptx_to_python(head + other + entry, sugar=sugar)
        assert "extern_smem" not in program and "ptx.module" in program
        codegen.verify(head + other + entry, program)
