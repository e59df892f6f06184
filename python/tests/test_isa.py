"""The rows of the ISA as users see them: `pyptx isa`, the reference pages, completion, and what `pyptx check` prints."""

import ast
import json
import pathlib
import subprocess
import sys

import pytest

import pyptx
from pyptx import _core, parser
from pyptx.__main__ import main
from pyptx.tools import isa, report

ROOT = pathlib.Path(__file__).resolve().parents[2]

BAD = """\
.version 8.0
.target sm_80
.visible .entry k()
{
\t.reg .b32 %r<4>;
\t.reg .f32 %f<4>;
\t.reg .pred %p;
\t@%p add.s32   %r1, %r2, %f1;
\tld.global.v2.f32 {%f1, %f2}, %r1; ret;
\tmul.wide.s32 %r1, %r2, %r3; // {,
}
"""


def test_a_page_has_forms_targets_operands_and_rules(capsys):
    assert main(["isa", "wgmma.fence"]) == 0
    out = capsys.readouterr().out
    assert "PTX ISA 9.7.15.7.1" in out and "since PTX 8.0 and sm_90a" in out and "wgmma_fence" in out
    page = isa.report("setp.lo")
    assert (
        "{|q" in page and "rule: lo ls hi hs compare unsigned integers" in page and "setp_int; simulator: yes" in page
    )


def test_words_of_a_query_may_stand_in_any_order():
    assert isa.report("ld.v2.global") == isa.report("ld.global.v2")
    assert "ld_global_256" not in isa.report("ld.v2")


def test_every_opcode_has_a_page():
    listed = set(isa.report().split())
    assert {form.opcode for form in _core.forms()} == listed
    for opcode in listed:
        assert f"{opcode}" in isa.report(opcode)


def test_special_registers_have_lines(capsys):
    assert main(["isa", "%clock64"]) == 0
    assert capsys.readouterr().out.split()[:2] == ["%clock64", ".u64"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("sadd", "did you mean"),
        ("add.foo", "cannot follow"),
        ("%elephant", "no special register"),
        ("zzzzzz", "pyptx isa"),
    ],
)
def test_what_is_not_there(capsys, query, words):
    assert main(["isa", query]) == 1
    assert words in capsys.readouterr().err


def test_pages_are_what_the_rows_say():
    if not (ROOT / "docs" / "isa").is_dir():
        pytest.skip("skipped: the package is installed without its repository")
    run = subprocess.run([sys.executable, ROOT / "tools" / "isa_pages.py", "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_completion_for_editors_holds_every_modifier():
    stub = (pathlib.Path(pyptx.__file__).parent / "_inst.pyi").read_text()
    classes = {node.name: node for node in ast.parse(stub).body if isinstance(node, ast.ClassDef)}
    add = {node.target.id for node in classes["_add"].body if isinstance(node, ast.AnnAssign)}
    assert {"s32", "f32", "sat", "ftz", "rn"} <= add
    assert "b8x16" in {node.target.id for node in classes["_ldmatrix"].body if isinstance(node, ast.AnnAssign)}
    opcodes = {node.target.id for node in classes["Inst"].body if isinstance(node, ast.AnnAssign)}
    assert {form.opcode for form in _core.forms()} <= {name.rstrip("_") for name in opcodes}


def test_completion_while_running_is_what_may_follow():
    names = dir(pyptx.ptx.inst.ld.global_)
    assert "v4" in names and "sat" not in names


def found(text: str = BAD):
    return list(report.with_lines(parser.check(text, file="bad.ptx"), text.encode(), "bad.ptx"))


def test_the_operand_is_underlined():
    lines = "\n".join(report.text(found())).splitlines()
    at = next(i for i, line in enumerate(lines) if "operand 3" in line)
    source, mark = lines[at + 1 : at + 3]
    assert source[mark.index("^") : mark.rindex("^") + 1] == "%f1" and mark[:5] == "    \t"


def test_the_mnemonic_is_underlined_where_no_operand_is_meant():
    text = BAD.replace("add.s32 ", "add.s33 ")
    one = found(text)[0]
    assert one.line[one.first - 1 : one.last - 1] == "add.s33"


def test_columns_count_characters_and_not_bytes():
    one = found(BAD.replace("@%p add.s32 ", "/* \u00e9\u00e9 */ @%p add.s33 "))[0]
    assert one.line[one.first - 1 : one.last - 1] == "add.s33"


def test_json_says_what_the_text_says(tmp_path, capsys):
    file = tmp_path / "bad.ptx"
    file.write_text(BAD)
    assert main(["check", "--format", "json", str(file)]) == 1
    entries = json.loads(capsys.readouterr().out)
    main(["check", str(file)])
    printed = capsys.readouterr().out
    assert len(entries) >= 3
    for entry in entries:
        assert f"{file}:{entry['line']}:" in printed and f"{entry['code']} " in printed and entry["message"] in printed
    assert entries[0] | {"line": 8, "column": 26, "end_column": 29, "severity": "error"} == entries[0]


def test_sarif_has_rules_and_regions(tmp_path, capsys):
    file = tmp_path / "bad.ptx"
    file.write_text(BAD)
    assert main(["check", "--format", "sarif", str(file)]) == 1
    log = json.loads(capsys.readouterr().out)
    (run,) = log["runs"]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert log["version"] == "2.1.0" and run["results"]
    for result in run["results"]:
        assert result["ruleId"] in rules and result["level"] in ("error", "warning", "note")
        region = result["locations"][0]["physicalLocation"]["region"]
        assert 0 < region["startColumn"] < region["endColumn"]


def test_what_only_the_assembler_takes_is_a_warning(tmp_path, capsys):
    file = tmp_path / "odd.ptx"
    body = "\t.reg .b32 r<4>;\n\tlop3.b32 r0, r1, r2, r3, 256;\n\tret;\n"
    file.write_text(".version 8.0\n.target sm_80\n.visible .entry k()\n{\n" + body + "}\n")
    assert main(["check", str(file)]) == 0
    assert "PTX2206" in capsys.readouterr().out
    for format, levels in (
        ("json", lambda log: [d["severity"] for d in log]),
        ("sarif", lambda log: [r["level"] for r in log["runs"][0]["results"]]),
    ):
        assert main(["check", "--format", format, str(file)]) == 0
        assert levels(json.loads(capsys.readouterr().out)) == ["warning"]


def test_a_legal_file_prints_nothing(tmp_path, capsys):
    file = tmp_path / "good.ptx"
    file.write_text(".version 8.0\n.target sm_80\n.visible .entry k()\n{\n\tret;\n}\n")
    assert main(["check", str(file)]) == 0
    assert capsys.readouterr().out == ""
    assert main(["check", "--format", "json", str(file)]) == 0
    assert json.loads(capsys.readouterr().out) == []
