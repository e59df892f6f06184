"""The commands over PTX sources, fmt, lint, diff and stats, and the pages about them."""

from __future__ import annotations

import io
import json
import linecache
import re
import textwrap
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import pyptx
from pyptx import ir
from pyptx.__main__ import main
from pyptx.tools import difference, layout, lint, report, stats

ROOT = Path(__file__).resolve().parents[2]
UGLY = """\
.version 8.0 .target sm_80
.address_size 64
.visible .entry k(.param .u64 in) .maxntid 32 {
  .reg .b32 %r<4>, unused;   .reg .pred %p;
  mov.b32   %r1,0x10 ; // sixteen
L: add .s32 %r1 ,%r1, 1; @%p bra L;
  mov.b32 %r2, %r1;
  st.shared.b32 [%r1], %r1;
  ret;
}
"""
PRETTY = """\
.version 8.0
.target sm_80
.address_size 64

.visible .entry k(
	.param .u64 in
)
.maxntid 32
{
	.reg .b32 %r<4>, unused;
	.reg .pred %p;
	mov.b32 %r1, 0x10; // sixteen
L:
	add.s32 %r1, %r1, 1;
	@%p bra L;
	mov.b32 %r2, %r1;
	st.shared.b32 [%r1], %r1;
	ret;
}
"""


@pytest.fixture
def ugly(tmp_path):
    file = tmp_path / "a.ptx"
    file.write_text(UGLY)
    return file


def test_fmt(ugly, tmp_path, capfdbinary):
    assert main(["fmt", str(ugly)]) == 0
    assert capfdbinary.readouterr().out.decode() == PRETTY
    assert main(["fmt", "--check", str(ugly)]) == 1
    assert main(["fmt", "--diff", str(ugly)]) == 0
    said = capfdbinary.readouterr().out.decode()
    assert said.startswith(f"{ugly}\n--- {ugly}") and "+\tadd.s32 %r1, %r1, 1;" in said
    assert ugly.read_text() == UGLY
    assert main(["fmt", "--write", str(ugly)]) == 0 and ugly.read_text() == PRETTY
    assert main(["fmt", "--check", str(ugly)]) == 0
    (tmp_path / "b.ptx").write_text("add.s32 ]]")
    assert main(["fmt", "--write", str(tmp_path / "b.ptx")]) == 1
    assert "PTX10" in capfdbinary.readouterr().err.decode() and (tmp_path / "b.ptx").read_text() == "add.s32 ]]"


def test_fmt_of_crlf_and_no_last_line_break():
    assert layout.formatted(b".version 8.0\r\n.target sm_80 // a\r\n")[0] == b".version 8.0\n.target sm_80 // a\n"
    assert "No newline" in layout.difference(b"a", b"b\n", "x")


def names(text: str, *select: str) -> list[str]:
    return [each.name for each in lint.find(text.encode(), lint.chosen(select))]


def test_lint(ugly, capsys):
    assert main(["lint", str(ugly)]) == 1
    said = capsys.readouterr().out
    assert f"{ugly}:7:3: PTX6004" in said and "(dead-code)" in said and "never-written" in said
    assert main(["lint", "--select", "unused-label", str(ugly)]) == 0
    assert main(["lint", "--fix", "--select", "dead_code", str(ugly)]) == 0
    assert ugly.read_text() == UGLY.replace("  mov.b32 %r2, %r1;\n", "")
    with_notes = names(UGLY.replace(".maxntid 32", ""))
    assert "launch_bounds" in with_notes and "launch_bounds" not in names(UGLY)


def test_much_is_said_of_one_line():
    text = UGLY.replace("  ret;", "mov.b32 %r2, %r2; /* \u00e9 */ " * 500 + "\n  ret;").encode()
    found = list(report.with_lines(lint.find(text, lint.chosen(["no-effect"])), text, "a.ptx"))
    assert len(found) == 500 and len({id(each.line) for each in found}) == 1
    assert [each.first for each in found] == list(range(1, 1 + 500 * 26, 26)) and found[7].last - found[7].first == 7
    moves = [i for i in pyptx.parse(text).find("mov") if "%r2, %r2" in i.text]
    assert [i.place for i in moves] == [(9, 1 + 27 * n) for n in range(500)]


def test_lint_chooses_rules():
    everything = {rule.number for rule in lint.rules()}
    assert set(lint.chosen(["all"])) == everything
    assert lint.chosen(["PTX6004", "6005", "unused-label"]) == [6004, 6005, 6006]
    assert set(lint.chosen()) == {rule.number for rule in lint.rules() if rule.on}
    assert 6007 not in lint.chosen(ignore=["launch-bounds"])
    with pytest.raises(LookupError, match="no rule elephant"):
        lint.chosen(["elephant"])
    assert main(["lint", "--select", "elephant", "a.ptx"]) == 2 and main(["lint"]) == 2


def test_fixes_come_to_an_end_and_keep_the_text_legal():
    chain = "".join(f"add.s32 %r{n + 1}, %r{n}, 1;\n" for n in range(50))
    text = f".version 8.0\n.target sm_80\n.entry k()\n.maxntid 32\n{{\n.reg .b32 %r<52>;\nmov.b32 %r0, 0;\n{chain}ret;\n}}\n"
    fixed = lint.fix(text.encode(), lint.chosen())
    assert b"add" not in fixed and b".reg" not in fixed and b"ret;" in fixed
    assert not pyptx.parse(fixed).check()


def test_fixes_go_through_as_many_blocks_as_there_are():
    links = "".join(f"@p bra L{n};\nadd.s32 %r{n + 1}, %r{n}, 1;\nadd.s32 a, a, 1;\nL{n}:\n" for n in range(300))
    text = (
        ".version 8.0\n.target sm_80\n.entry k()\n.maxntid 32\n{\n.reg .b32 a, %r<301>; .reg .pred p;\n"
        f"mov.b32 %r0, %clock;\nsetp.eq.s32 p, %r0, 1;\nmov.b32 a, 0;\n{links}mov.b32 a, 5;\nst.shared.b32 [a], a;\nret;\n}}\n"
    )
    fixed = lint.fix(text.encode(), lint.chosen())
    assert fixed.count(b"add") == 0 and fixed.count(b"mov") == 2 and fixed.count(b"bra") == 300
    assert lint.fix(fixed, lint.chosen()) == fixed and not pyptx.parse(fixed).check()


@pytest.mark.parametrize("format", ["json", "sarif"])
def test_lint_for_machines(ugly, capsys, format):
    main(["lint", "--format", format, str(ugly)])
    said = json.loads(capsys.readouterr().out)
    if format == "json":
        (dead,) = [each for each in said if each["name"] == "dead_code"]
        assert (dead["code"], dead["line"], dead["column"], dead["end_column"]) == ("PTX6004", 7, 3, 10)
    else:
        ids = {rule["id"] for rule in said["runs"][0]["tool"]["driver"]["rules"]}
        assert {result["ruleId"] for result in said["runs"][0]["results"]} == ids


def test_every_rule_has_its_section(capsys):
    page = (ROOT / "docs/lint.md").read_text()
    rows = re.findall(
        r"^\| \[(PTX\d+)\]\(#(ptx\d+)\) \| ([\w-]+) \| (\w+) \| (yes|no) \| (yes|no) \| (.*) \|$", page, re.M
    )
    word = {True: "yes", False: "no"}
    assert rows == [
        (r.code, r.code.lower(), r.name.replace("_", "-"), r.severity, word[r.on], word[r.fixes], r.summary)
        for r in lint.rules()
    ]
    assert re.findall(r"^## (PTX\d+)$", page, re.M) == [rule.code for rule in lint.rules()]
    assert main(["lint", "--rules"]) == 0 and capsys.readouterr().out.count("\n") == len(lint.rules())


def test_diff_up_to_names(ugly, tmp_path, capsys):
    other = tmp_path / "b.ptx"
    other.write_text(PRETTY.replace("%r", "%x").replace("L", "M").replace("0x10", "16").replace(" // sixteen", ""))
    assert main(["diff", str(ugly), str(other)]) == 0 and capsys.readouterr().out == ""
    other.write_text(other.read_text().replace("%x2, %x1", "%x2, %x2"))
    assert main(["diff", str(ugly), str(other)]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if " | " in line]
    assert "mov.b32 %r2, %r1;" in line and "mov.b32 %x2, %x2;" in line


STORE = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	add.s32 %r2, %r1, 41;
	st.global.u32 [%rd1], %r2;
	ret;
}
"""


def test_diff_of_machine_code(tmp_path, capsys):
    a, b, c = (tmp_path / name for name in ("a.ptx", "b.ptx", "c.ptx"))
    a.write_text(STORE)
    b.write_text(STORE.replace("%r", "%x").replace("add.s32 %x2, %x1, 41;", "add.u32 %x2, %x1, 41;"))
    c.write_text(STORE.replace("41", "42"))
    status = main(["diff", "--sass", str(a), str(b)])
    said = capsys.readouterr()
    if status == 2:
        assert re.search("PTX40[0-9]{2}", said.err), said.err
        pytest.skip("skipped: no ptxas, or no nvdisasm")
    assert (status, said.out) == (0, "")
    assert main(["diff", str(a), str(b)]) == 1  # two instructions of PTX, one of the machine
    capsys.readouterr()
    assert main(["diff", "--sass", str(a), str(c)]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if " | " in line]
    assert "0x29" in line and "0x2a" in line
    c.write_text(STORE.replace("%rd1, [out]", "%r1, [out]"))
    assert main(["diff", "--sass", str(a), str(c)]) == 2 and "c.ptx" in capsys.readouterr().err


def test_diff_of_an_inserted_line():
    new = PRETTY.replace("\tret;", "\tmov.b32 %r3, 5;\n\tbar.sync 0;\n\tret;")
    rows = difference.of(pyptx.parse(PRETTY), pyptx.parse(new))
    assert [row for row in rows if not row.same] == [("", "\tmov.b32 %r3, 5;", False), ("", "\tbar.sync 0;", False)]
    swapped = PRETTY.replace("mov.b32 %r2, %r1", "mov.b32 %r1, %r2")
    assert sum(not row.same for row in difference.of(pyptx.parse(PRETTY), pyptx.parse(swapped))) == 1


def test_diff_of_numbers():
    text = ".version 8.0\n.target sm_80\n.visible .entry k() { .reg .b32 a_089; .reg .f32 f; mov.b32 a_089, 16; mov.f32 f, 0f08890000; ret; }\n"

    def differs(old, new):
        return sum(not row.same for row in difference.of(pyptx.parse(text), pyptx.parse(text.replace(old, new))))

    for same in ("0x10", "020", "0b10000", "16U"):
        assert differs("16", same) == 0, same
    for other in ("0x16", "026", "1_6"):
        assert differs("16;", f"{other};") == 1, other
    assert differs("0f08890000", "0f08890010") == differs("0f0889", "0f8089") == 1
    assert differs("a_089", "a_098") == 0


def test_stats(tmp_path, capsys):
    text = """.version 8.0
.target sm_80
.shared .align 4 .b8 tile[256];
.entry k()
.maxntid 64, 1, 1
{
	.reg .f32 %f<8>; .reg .b64 %rd<2>; .reg .b32 %r<8>; .reg .pred %p;
	.shared .f32 more[4][8];
	mov.b64 %rd1, 0; mov.b32 %r1, 0; mov.f32 %f7, 0f00000000;
L:	ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];
	fma.rn.f32 %f7, %f1, %f2, %f7;
	add.f32 %f7, %f7, %f3;
	cp.async.cg.shared.global [tile], [%rd1], 16;
	mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r2, %r3, %r4, %r5}, {%r6, %r7}, {%f1, %f2, %f3, %f4};
	setp.lt.s32 %p, %r1, 9;
	@%p bra L;
	ret;
}
"""
    (found,) = stats.of(pyptx.parse(text))
    assert (found.instructions, found.shared, found.bounds, found.blocks) == (11, 256 + 128, [".maxntid 64, 1, 1"], 3)
    assert found.classes["Floating Point"] == 2 and found.opcodes["mov"] == 3
    (loop,) = found.loops
    assert (loop.label, loop.flops, loop.matrix_flops) == ("L", 3, 2 * 16 * 8 * 8)
    assert loop.bytes == {"global": 16, "shared+global": 16}
    file = tmp_path / "a.ptx"
    file.write_text(text)
    assert main(["stats", str(file)]) == 0 and "loop L" in capsys.readouterr().out
    assert main(["stats", "--format", "json", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)[str(file)][0]["words"] == found.words


def examples() -> list:
    found = []
    holders = [(ir, ir.__all__), (difference, difference.__all__), (stats, stats.__all__)]
    for module, public in holders:
        for name in public:
            value = getattr(module, name)
            each = (
                [(name, value), *((f"{name}.{m}", v) for m, v in vars(value).items() if not m.startswith("_"))]
                if isinstance(value, type)
                else [(name, value)]
            )
            found += [
                pytest.param(v.__doc__, id=n) for n, v in each if "Example:\n" in (getattr(v, "__doc__", None) or "")
            ]
    return found


@pytest.mark.parametrize("doc", examples())
def test_examples_of_docstrings_run(doc):
    exec(textwrap.dedent(doc.partition("Example:\n")[2]), {"pyptx": pyptx})


def test_the_examples_are_found():
    assert len(examples()) >= 9


def test_the_page_of_the_ir_runs():
    """Blocks in one scope; a block of text behind one is what it prints, `...` for any text."""
    page = (ROOT / "docs/ir.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", page, re.S | re.M)
    assert len(blocks) >= 6
    scope: dict = {}
    for number, (code, expected) in enumerate(blocks):
        name = f"docs/ir.md, block {number}"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(code, name, "exec"), scope)
        pattern = re.escape(expected).replace(re.escape("..."), ".*")
        assert re.fullmatch(pattern, out.getvalue()), f"{name}:\n{out.getvalue()}"
