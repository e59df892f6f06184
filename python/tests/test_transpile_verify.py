"""What `verify` sees: every change of a program's text but other names of registers and labels, and what nobody uses.

Each piece of a text with a bit of everything is changed in every way that its kind allows.  What a mutant means is said here a second
time, by text alone: `shape` renames registers and labels by where they stand first.  `module_difference` has to agree.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from pyptx import _core, codegen, parser
from pyptx.errors import PtxError

FIXTURES = Path(__file__).resolve().parents[2] / "tests/fixtures/run"

TEXT = """\
.version 8.6
.target sm_90a
.address_size 64

.global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.const .align 4 .f32 weights[2] = {0f3F800000, 0f40000000};
.extern .shared .align 16 .b8 dynamic[];
.func (.param .b32 result) twice(
	.param .b32 twice_x
)
{
	.reg .b32 %r<3>;
	ld.param.b32 %r1, [twice_x];
	add.s32 %r2, %r1, %r1;
	st.param.b32 [result], %r2;
	ret;
}
.visible .entry k(
	.param .u64 .ptr .global .align 16 k_x,
	.param .u32 k_n
)
.maxntid 128, 1, 1
.minnctapersm 2
{
	.reg .pred %p<5>;
	.reg .b16 %h<4>;
	.reg .b32 %r<12>;
	.reg .v2 .b32 %q<3>;
	.reg .v4 .f32 quad;
	.reg .b64 %rd<6>;
	.reg .f32 %f<9>;
	.shared .align 16 .b8 tile[1024];
	.shared .align 8 .b64 bars[2];
	.local .align 4 .b8 stack[32];
	.loc 1 10 3
	ld.param.u64 %rd1, [k_x];
	ld.param.u32 %r1, [k_n];
	cvta.to.global.u64 %rd2, %rd1;
	mov.u32 %r2, %tid.x;
	mov.u32 %r3, tile;
	setp.ge.u32 %p1|%p2, %r2, %r1;
	@%p1 bra $L_end;
	@!%p2 bra $L_end;
	mul.wide.u32 %rd3, %r2, 4;
	add.s64 %rd4, %rd2, %rd3;
	ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4+16];
	ld.global.v2.b32 %q1, [%rd4];
	mov.b32 %r4, %q1.x;
	mov.v4.f32 quad, {%f1, %f2, %f3, %f4};
	mov.f32 %f5, quad.w;
	fma.rn.f32 %f6, %f1, %f2, 0f3F800000;
	fma.rn.ftz.f32 %f6, %f6, %f2, %f5;
	mov.b32 {%h1, %h2}, %r4;
	mbarrier.init.shared::cta.b64 [bars+8], 1;
	bar.sync 0;
$L_loop:
	add.s32 %r4, %r4, -1;
	{
	.reg .b32 %inner<2>;
	.local .align 4 .b8 scratch[4];
	st.local.b32 [scratch], %r4;
	ld.local.b32 %inner1, [scratch];
	add.s32 %r5, %inner1, 5;
	}
	setp.ne.and.s32 %p3, %r4, 0, !%p1;
	@%p3 bra $L_loop;
$L_targets:
	.branchtargets $L_loop, $L_end, $L_middle;
	brx.idx %r5, $L_targets;
$L_middle:
	{
	.param .b32 argument;
	.param .b32 returned;
	st.param.b32 [argument], %r5;
	call.uni (returned), twice, (argument);
	ld.param.b32 %r6, [returned];
	}
	.pragma "nounroll";
	mad.lo.s32 %r7, %r6, 3, %r5;
	st.shared.b32 [%r3+4], %r7;
	prmt.b32 %r8, %r7, %r6, 0x5410;
	st.global.f32 [%rd4], %f6;
	atom.global.add.u32 %r9, [%rd4+8], %r8;
$L_end:
	ret;
}
"""

PIECES = re.compile(r'//[^\n]*|"[^"]*"|0[fd][0-9A-Fa-f]+|[%$.]?[A-Za-z_][\w$:]*(?:\.[A-Za-z_][\w:]*)*|-?\d\w*|\S')
WORDS = {  # another one of its kind
    ".s32": ".u32", ".u32": ".s32", ".b32": ".u32", ".f32": ".b32", ".u64": ".b64", ".b64": ".u64", ".b8": ".u8", ".b16": ".u16",
    ".pred": ".b32", ".v2": ".v4", ".v4": ".v2", ".shared": ".local", ".local": ".shared", ".global": ".const", ".const": ".global",
    ".visible": ".weak", ".maxntid": ".reqntid", ".x": ".y", "%tid.x": "%tid.y", ".ptr": "", ".extern": "",
}  # fmt: skip


def changes(piece: str, registers: list[str], labels: list[str]) -> list[str]:
    """What may stand in its place."""
    if piece.startswith("%") and piece not in WORDS:
        stem, dot, rest = piece.partition(".")
        kind = re.match(r"%[a-z]+", stem)[0]
        return [other + dot + rest for other in registers if re.match(r"%[a-z]+", other)[0] == kind and other != stem]
    if piece.startswith("$"):
        return [label for label in labels if label != piece]
    if re.fullmatch(r"0f\w+", piece):
        return ["0f3F000000"]
    if re.fullmatch(r"-?\d\w*", piece):
        return [str(int(piece, 0) + 1), str(int(piece, 0) * 2)]
    if piece in WORDS:
        return [WORDS[piece]]
    if piece.startswith("."):
        return [WORDS.get(piece, "")]
    if piece == "!":
        return [""]
    if "." in piece:  # an instruction: without a modifier, with another
        opcode, *modifiers = piece.split(".")
        fewer = [modifiers[:n] + modifiers[n + 1 :] for n in range(len(modifiers))]
        other = [
            [*modifiers[:n], WORDS["." + one][1:], *modifiers[n + 1 :]]
            for n, one in enumerate(modifiers)
            if WORDS.get("." + one)
        ]
        return [".".join([opcode, *rest]) for rest in [*fewer, *other]]
    swaps = {
        "tile": "stack",
        "stack": "tile",
        "bars": "tile",
        "k_x": "k_n",
        "quad": "%f9",
        "argument": "returned",
        "_": "%f3",
    }
    return [swaps[piece]] if piece in swaps else []


def mutants():
    registers = sorted(set(re.findall(r"%[a-z]+\d+", TEXT)))
    labels = sorted(set(re.findall(r"\$L_\w+", TEXT)))
    for found in PIECES.finditer(TEXT):
        for other in changes(found[0], registers, labels):
            yield TEXT[: found.start()] + other + TEXT[found.end() :]
    lines = TEXT.splitlines(keepends=True)
    for n in range(3, len(lines)):
        yield "".join(lines[:n] + lines[n + 1 :])
        yield "".join([*lines[:n], lines[n], *lines[n:]])
        if n + 1 < len(lines):
            yield "".join([*lines[:n], lines[n + 1], lines[n], *lines[n + 2 :]])


def shape(text: str) -> str:
    """The module with registers and labels by where they stand first, and without the declarations of registers: their types stand
    at each register."""
    return re.sub(
        r"\s+", " ", " ".join(map(shape_of_function, re.split(r"(?m)^(?=\.visible|\.weak|\.entry|\.func)", text)))
    )


def shape_of_function(part: str) -> str:
    types = {}
    for declared in re.finditer(r"\.reg((?: \.\w+)+) ([^;]+);", part):
        for name in declared[2].split(","):
            types[name.strip().partition("<")[0]] = declared[1]
    known: dict[str, str] = {}

    def renamed(found: re.Match) -> str:
        name = found[0]
        stem = re.sub(r"\d+$", "", name)
        kind = types.get(name, types.get(stem))
        if kind is None:
            return name
        return known.setdefault(name, f"<{len(known)}{kind}>")

    body = re.sub(r"\.reg[^;]*;\s*", "", part)
    places = {}
    statements = re.split(r"(?<=[;{}:])\s*", re.sub(r"(?m)^\s*\.loc .*$", r"\g<0>;", body))
    kept, variables = [], []
    block, count = [0], 0
    for one in statements:
        if one.endswith("{"):
            block.append(count := count + 1)
        if one.endswith("}"):
            block.pop()
        if re.match(r"\.(shared|local|param)\b", one) and len(block) > 1:  # anywhere in its block
            variables.append(f"{block[-1]} {one}")
        elif label := re.fullmatch(r"(\$\w+):", one):
            places[label[1]] = f"<label {len(kept)}>"
        else:
            kept.append(one)
    variables.sort()
    rest = " ".join(kept)
    rest = re.sub(r"\$\w+", lambda found: places.get(found[0], found[0]), rest)
    rest = re.sub(r"%[a-z]+\d+|\bquad\b", renamed, rest)
    return " ".join(variables) + rest


def test_every_change_is_seen():
    wanted = _core.module_text_of(TEXT.encode())
    assert wanted and not _core.module_difference(wanted.encode(), TEXT.encode())
    seen = same = 0
    unseen = []
    for mutant in dict.fromkeys(mutants()):
        if any(one.severity == "error" for one in parser.check(mutant)):
            continue  # no program prints it
        printed = _core.module_text_of(mutant.encode())
        means_the_same = shape(printed) == shape(wanted)
        differs = bool(_core.module_difference(wanted.encode(), printed.encode()))
        same += means_the_same
        seen += differs
        if differs == means_the_same:
            unseen.append(f"{'same' if means_the_same else 'other'}: {changed(wanted, printed)}")
    assert not unseen, "\n".join(unseen)
    assert seen > 300 and same > 5


def changed(a: str, b: str) -> str:
    lines = zip(a.splitlines(), b.splitlines(), strict=False)
    return next((f"{left.strip()}  ->  {right.strip()}" for left, right in lines if left != right), "at the end")


def test_a_program_that_writes_less_is_refused():
    program = codegen.ptx_to_python(TEXT, sugar=True)
    codegen.verify(TEXT, program, names=False)
    dropped = re.sub(r"\n[^\n]*atom\.global_[^\n]*", "", program)
    assert dropped != program
    with pytest.raises(PtxError, match="another module: in k"):
        codegen.verify(TEXT, dropped, names=False)
    for sugar in codegen.SUGARS:
        codegen.verify(TEXT, codegen.ptx_to_python(TEXT, sugar=sugar), names=sugar == "none")
        assert "twice" in codegen.ptx_to_cpp(TEXT, sugar=sugar)


def machine_code(elf: bytes) -> dict[str, bytes]:
    """The sections of a cubin that are instructions."""
    start, size, count, names = struct.unpack_from("<Q", elf, 0x28) + struct.unpack_from("<HHH", elf, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", elf, start + n * size) for n in range(count)]
    named = {}
    for name, _, _, _, at, length in heads:
        begin = heads[names][4] + name
        named[elf[begin : elf.index(b"\0", begin)].decode()] = elf[at : at + length]
    return {name: code for name, code in named.items() if name.startswith(".text.")}


@pytest.mark.parametrize("name", ["atomics", "barriers", "calls", "divergence", "switch", "vectors", "votes"])
def test_the_machine_code_is_the_same(name, tmp_path):
    ptxas = next(iter(sorted(Path(pytest.__file__).parents[1].glob("nvidia/*/bin/ptxas"))), None) or shutil.which(
        "ptxas"
    )
    if ptxas is None:
        pytest.skip("skipped: no ptxas")
    source = (FIXTURES / f"{name}.ptx").read_bytes()
    (target,) = re.findall(rb"(?m)^\.target (\w+)", source)
    codes = []
    for sugar in ("none", "all"):
        (tmp_path / "a.ptx").write_text(codegen.run(codegen.ptx_to_python(source, sugar=sugar)))
        command = [ptxas, f"-arch={target.decode()}", tmp_path / "a.ptx", "-o", tmp_path / "a.cubin"]
        subprocess.run(command, check=True, capture_output=True)
        codes.append(machine_code((tmp_path / "a.cubin").read_bytes()))
    assert codes[0] and codes[0] == codes[1]
