"""The language server: what it answers, also about texts that are half typed, over the protocol, and how quickly."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pyptx.lsp.document import PIECES, Document, difference

EDITORS = Path(__file__).resolve().parents[2] / "editors"

TEXT = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in)
.maxntid 32
{
	.reg .pred %p;
	.reg .b32 %r<4>, x;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [in];
	mov.b32 %r1, 0;
	mov.f32 %r2, 0f3F800000;
TOP:
	add.s32 %r1, %r1, %tid.x; // add
	st.global.b32 [%rd1+4], %r1;
	{
		.reg .b32 x;
		mov.b32 x, %r1;
	}
	setp.lt.s32 %p, %r1, 9;
	@%p bra TOP;
	ret;
}
"""


@pytest.fixture
def text() -> Document:
    return Document(TEXT)


def at(what: str, part: int = 0, source: str = TEXT) -> tuple[int, int]:
    """The place of the first character of `what`, moved by `part`."""
    before = source[: source.index(what) + part]
    return before.count("\n"), len(before.rpartition("\n")[2])


def test_diagnostics_have_the_spans_of_operands(text):
    (special,) = [each for each in text.diagnostics() if "tid" in each.message]
    assert text.text(special.begin, special.end) == "%tid.x" and special.severity == "error"


def test_findings_carry_their_changes():
    text = Document(TEXT.replace("%tid.x", "2").replace("mov.f32 %r2, 0f3F800000", "mov.b32 %r2, 5"))
    assert text.diagnostics() == []
    dead = next(each for each in text.findings() if each.code == "PTX6004")
    assert text.text(dead.begin, dead.end) == "mov.b32" and [text.text(*fix[:2]) for fix in dead.fixes] == [
        "\tmov.b32 %r2, 5;\n"
    ]


def test_hover(text):
    page, begin, end = text.hover(*at("setp", 1))
    assert "9.7.6.2" in page and "setp" in page and text.text(begin, end) == "setp.lt.s32"
    assert ".reg .b32 %r<4>, x;" in text.hover(*at("%r1, 0"))[0]
    assert "1.0" in text.hover(*at("0f3F"))[0] and "%tid" in text.hover(*at("%tid"))[0]
    assert "label, line 13" in text.hover(*at("bra TOP", 4))[0]
    assert text.hover(*at("{\n")) is None
    assert text.hover(999, 0) is None


@pytest.mark.parametrize(
    ("typed", "offered", "not_offered"),
    [
        ("\tad", "add", "%r1"),
        ("\t@%p ad", "add", "%r1"),
        ("\tld.global.", "nc", "add"),
        ("\tadd.", "s32", "global"),
        ("\tadd.s32 %", "%r3", "add"),
        ("\tmov.u32 %r1, %", "%tid.x", "add"),
        ("\tbra ", "TOP", "ld"),
        ("\tld.param.u64 %rd1, [", "in", "add"),
    ],
)
def test_completion(typed, offered, not_offered):
    source = TEXT.replace("\tret;\n", f"{typed}\n")
    words = [each.text for each in Document(source).completions(*at(typed + "\n", len(typed), source))]
    assert offered in words and not_offered not in words
    assert Document(TEXT).completions(*at("// add", 5)) == []


def spans(text: Document, place: tuple[int, int]) -> list[tuple[int, str]]:
    found = text.symbol_at(*place)
    return [] if found is None else [(text.position(b)[0] + 1, text.text(b, e)) for b, e in text.references(found[0])]


def test_definition_and_references(text):
    assert spans(text, at("bra TOP", 4)) == [(13, "TOP"), (21, "TOP")]
    assert spans(text, at("[in]", 1)) == [(4, "in"), (10, "in")]
    assert spans(text, at("mov.b32 x", 8)) == [(17, "x"), (18, "x")]  # the inner one
    assert spans(text, at("%r<4>, x", 7)) == [(8, "x")]
    assert len(spans(text, at("%rd1"))) == 3 and spans(text, at("%tid")) == []
    assert spans(text, at(" k(", 1)) == [(4, "k")]


@pytest.mark.parametrize("count", ["0x2", "02", "WARP_SZ"])
def test_a_range_of_another_spelling(count):
    text = Document(TEXT.replace("%rd<2>", f"%rd<{count}>"))
    assert len(spans(text, at("%rd1"))) == 3


def test_rename(text):
    def apply(place, new):
        raw = text.raw
        for begin, end, name in sorted(text.renamed(*place, new), reverse=True):
            raw = raw[:begin] + name.encode() + raw[end:]
        return raw.decode()

    assert apply(at("TOP"), "AGAIN") == TEXT.replace("TOP", "AGAIN")
    assert apply(at("%rd<2>"), "%at") == TEXT.replace("%rd", "%at")
    assert apply(at(".b32 x", 5), "y") == TEXT.replace("\t\t.reg .b32 x", "\t\t.reg .b32 y").replace(
        "mov.b32 x", "mov.b32 y"
    )
    for place, new, why in (
        (at("%r1, 0"), "%q", "one of"),
        (at("TOP"), "x", "declared"),
        (at("TOP"), "1x", "no name"),
        (at("%tid"), "y", "no name here"),
        (at(" k(", 1), "add.s32", "no name"),
        (at("TOP"), "WARP_SZ", "WARP_SZ"),  # legal where it is typed, not as a label
        (at("%rd<2>"), "%r", "declared already, in line 8"),
        (at(".b32 x", 5), "in", "declared already, in line 4"),
    ):
        with pytest.raises(ValueError, match=why):
            text.renamed(*place, new)


def test_the_rest(text):
    assert text.formatted().count("\n") == TEXT.count("\n") + 3 and Document("add ]]").formatted() is None
    assert (3, 22) in text.folds() and (15, 18) in text.folds()
    ((line, _, said),) = text.hints(0, 99)
    assert line == 12 and "b32" in said and "b64" in said
    data = text.semantic_tokens()
    line = column = 0
    seen = []
    lines = TEXT.splitlines()
    for down, right, length, kind, _ in zip(*[iter(data)] * 5, strict=True):
        line, column = line + down, right if down else column + right
        seen.append((PIECES[kind], lines[line][column : column + length]))
    assert ("opcode", "setp") in seen and ("comment", "// add") in seen and ("label", "TOP") in seen
    assert [each.name for each in text.symbols()] == ["k", "in", "%p", "%r", "x", "%rd", "TOP", "x"]


def test_a_name_with_a_zero_is_none_of_a_range():
    source = ".version 8.0\n.target sm_80\n.entry k()\n{\n\t.reg .b32 %r01, %r<3>;\n\tmov.b32 %r01, %r1;\n\tret;\n}\n"
    text = Document(source)
    assert text.diagnostics() == [] and text.symbol_at(*at("%r01, %r1", 0, source))[0].name == "%r01"
    assert Document(source.replace(" %r01, %r<", " %r<")).symbol_at(*at("%r01, %r1", 0, source)) is None


def test_lines_end_as_the_protocol_says():
    text = Document("a\rb\r\nc\x0cd\u2028e\n")
    assert [text.offset(line, 0) for line in range(4)] == [0, 2, 5, 13] and text.offset(1, 9) == 3
    assert text.position(11) == (2, 4) and text.offset(2, 4) == 11
    assert Document("// \ud83d x").text(3, 6) == "\ufffd"


def test_what_two_lists_share():
    long = list(range(10_000))
    for one, other, begin, end in (
        (long, long, 10_000, 0),
        (long, [*long[:5000], 7, *long[5001:]], 5000, 4999),
        (long, [*long[:5000], *long[5002:]], 5000, 4998),
        ([1, 1], [1, 1, 1], 2, 0),
        ([], [1], 0, 0),
        ([1, 2], [3, 2], 0, 1),
    ):
        assert difference(one, other) == (begin, end)


def test_columns_are_utf_16():
    text = Document("// \U0001f600é\nret; // é x\n")
    assert text.position(len("// \U0001f600é".encode())) == (0, 6) and text.offset(0, 6) == len(
        "// \U0001f600é".encode()
    )
    assert text.position(text.offset(1, 10)) == (1, 10)


def test_half_typed_texts():
    chance = random.Random(3)
    for _ in range(60):
        cut, add = chance.randrange(len(TEXT)), chance.choice(["", "{", "%", "\x00", "é", "ld.", "}", '"', "/*"])
        document = Document(TEXT[:cut] + add + TEXT[cut + chance.randrange(5) :])
        place = document.position(cut)
        document.diagnostics(), document.findings(), document.hover(*place), document.completions(*place)
        (
            document.symbol_at(*place),
            document.folds(),
            document.hints(0, 99),
            document.semantic_tokens(),
            document.formatted(),
        )
        for symbol in document.symbols():
            document.references(symbol)


def long_text(lines: int = 10_000) -> str:
    head, tail = TEXT.replace("%tid.x", "2").replace("mov.f32 %r2, 0f3F800000", "mov.b32 %r2, 5").split("\tret;\n")
    return head + "\tadd.s32 %r1, %r1, %r2; // one more\n" * lines + "\tret;\n" + tail


def test_a_keystroke_in_ten_thousand_lines():
    """What a change asks of the processor: diagnostics of the whole text, and what may be typed."""
    source, best = long_text(), 1.0
    Document(source).completions(20, 3)
    for _ in range(5):
        start = time.process_time()
        document = Document(source)
        document.diagnostics(), document.completions(20, 3)
        best = min(best, time.process_time() - start)
    assert best < 0.03


class Client:
    """The protocol by hand."""

    def __init__(self, arguments=("lsp",)):
        command = [sys.executable, "-m", "pyptx", *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.count, self.notified = 0, []

    def send(self, method, params, **more):
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def read(self):
        size = 0
        while (line := self.process.stdout.readline()) != b"\r\n":
            assert line, "the server has ended"
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        return json.loads(self.process.stdout.read(size))

    def ask(self, method, params):
        self.count += 1
        self.send(method, params, id=self.count)
        while (answer := self.read()).get("id") != self.count:
            self.notified.append(answer)
        return answer

    def published(self):
        while not any(each.get("method") == "textDocument/publishDiagnostics" for each in self.notified):
            self.notified.append(self.read())
        return next(each["params"] for each in self.notified if each.get("method") == "textDocument/publishDiagnostics")


def test_over_the_protocol():
    pytest.importorskip("pygls", reason="skipped: no pygls")
    client = Client()
    uri, text = "file:///a.ptx", {"uri": "file:///a.ptx"}
    server = client.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})["result"]
    assert server["serverInfo"]["name"] == "pyptx" and server["capabilities"]["renameProvider"]
    client.send("initialized", {})
    client.send("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "ptx", "version": 1, "text": TEXT}})
    said = client.published()
    assert "PTX2011" in {each["code"] for each in said["diagnostics"]}
    client.notified.clear()
    line, column = at("%tid.x")
    where = {"start": {"line": line, "character": column}, "end": {"line": line, "character": column + 6}}
    change = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"range": where, "text": "2"}]}
    client.send("textDocument/didChange", change)
    assert "PTX2011" not in {each["code"] for each in client.published()["diagnostics"]}

    def place(what, part=0):
        line, column = at(what, part)
        return {"textDocument": text, "position": {"line": line, "character": column}}

    assert "setp" in client.ask("textDocument/hover", place("setp"))["result"]["contents"]["value"]
    assert client.ask("textDocument/definition", place("bra TOP", 5))["result"]["range"]["start"]["line"] == 12
    found = client.ask("textDocument/references", {**place("TOP"), "context": {"includeDeclaration": False}})["result"]
    assert [each["range"]["start"]["line"] for each in found] == [20]
    edits = client.ask("textDocument/rename", {**place("TOP"), "newName": "L"})["result"]["changes"][uri]
    assert len(edits) == 2
    assert "one of" in client.ask("textDocument/rename", {**place("%r1, 0"), "newName": "L"})["error"]["message"]
    assert client.ask("textDocument/prepareRename", place("TOP"))["result"]
    items = client.ask("textDocument/completion", place("setp.lt", 5))["result"]["items"]
    assert "ge" in {item["label"] for item in items}
    for method, more in (
        ("formatting", {"options": {"tabSize": 4, "insertSpaces": False}}),
        ("semanticTokens/full", {}),
        ("foldingRange", {}),
        ("documentSymbol", {}),
        ("inlayHint", {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}}),
    ):
        assert client.ask(f"textDocument/{method}", {"textDocument": text, **more})["result"], method
    assert client.ask("shutdown", None)["result"] is None
    client.send("exit", None)
    assert client.process.wait(20) == 0


@pytest.mark.parametrize(
    "source", [TEXT, TEXT.replace("\n", "\r\n"), TEXT.replace("// add", "// \f \u2028 é\U0001f600")]
)
def test_bursts_of_changes(source):
    """The server has the text that the editor has, whatever is typed; and tells which colours changed."""
    pytest.importorskip("pygls", reason="skipped: no pygls")
    client, chance, text = Client(), random.Random(5), Document(source)
    client.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    client.send("initialized", {})
    uri = {"uri": "file:///a.ptx"}
    client.send("textDocument/didOpen", {"textDocument": {**uri, "languageId": "ptx", "version": 0, "text": source}})
    told = client.ask("textDocument/semanticTokens/full", {"textDocument": uri})["result"]
    for version in range(1, 61):
        changes = []
        for _ in range(chance.randrange(1, 4)):
            places = sorted((chance.randrange(26), chance.randrange(40)) for _ in range(2))
            new = chance.choice(["", "x", "\U0001f600", "\n", "\tadd.s32 %r1, %r1, 1;\n", "{", "}", "/*", "*/"])
            start, end = ({"line": line, "character": column} for line, column in places)
            changes.append({"range": {"start": start, "end": end}, "text": new})
            text = text.changed(text.offset(*places[0]), text.offset(*places[1]), new)
        client.send("textDocument/didChange", {"textDocument": {**uri, "version": version}, "contentChanges": changes})
        if version % 5 == 0:
            asked = {"textDocument": uri, "previousResultId": told["resultId"]}
            answer = client.ask("textDocument/semanticTokens/full/delta", asked)["result"]
            data = told["data"]
            for edit in answer["edits"]:
                data[edit["start"] : edit["start"] + edit["deleteCount"]] = edit.get("data", [])
            told = {"data": data, "resultId": answer["resultId"]}
            assert data == text.semantic_tokens()
    client.process.kill()


def test_a_quick_fix_over_the_protocol():
    pytest.importorskip("pygls", reason="skipped: no pygls")
    client = Client()
    client.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    client.send("initialized", {})
    uri = "file:///a.ptx"
    source = ".version 8.0\n.target sm_80\n.entry k()\n.maxntid 32\n{\n\t.reg .b32 %r;\n\tret;\n}\n"
    client.send(
        "textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "ptx", "version": 1, "text": source}}
    )
    said = client.published()["diagnostics"]
    asked = {"textDocument": {"uri": uri}, "range": said[0]["range"], "context": {"diagnostics": said}}
    actions = client.ask("textDocument/codeAction", asked)["result"]
    edits = [edit for action in actions for edit in action["edit"]["changes"][uri]]
    assert actions[0]["kind"] == "quickfix" and edits[0]["newText"] == ""
    client.process.kill()


def commands_of_editors() -> dict[str, list[str]]:
    """What each editor of editors/ starts."""
    tomllib = pytest.importorskip("tomllib", reason="skipped: Python 3.10 reads no TOML")
    package = json.loads((EDITORS / "vscode/package.json").read_text())
    helix = tomllib.loads((EDITORS / "helix/languages.toml").read_text())["language-server"]["pyptx"]
    neovim = re.search(r"^\s*cmd = \{(.*)\},$", (EDITORS / "neovim/ptx.lua").read_text(), re.MULTILINE)
    return {
        "vscode": package["contributes"]["configuration"]["properties"]["pyptx.command"]["default"],
        "helix": [helix["command"], *helix["args"]],
        "neovim": re.findall(r'"([^"]*)"', neovim[1]),
    }


@pytest.mark.parametrize("editor", ["vscode", "helix", "neovim"])
def test_what_an_editor_starts_answers(editor):
    pytest.importorskip("pygls", reason="skipped: no pygls")
    program, *arguments = commands_of_editors()[editor]
    assert program == "pyptx"
    client = Client(arguments)
    server = client.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})["result"]
    assert server["capabilities"]["hoverProvider"]
    client.ask("shutdown", None)
    client.send("exit", None)
    assert client.process.wait(20) == 0


# In place of VS Code and of its client library: the client starts what it is given and asks it to begin.
STUBS = """
const { Module } = require("module");
const { spawn } = require("child_process");
const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize",
                              params: { processId: null, rootUri: null, capabilities: {} } });
class LanguageClient {
  constructor(id, name, server, options) { Object.assign(this, { server, options }); }
  start() {
    return new Promise((resolve) => {
      this.child = spawn(this.server.command, this.server.args);
      let text = "";
      this.child.stdout.on("data", (part) => {
        text += part;
        if (!text.includes('"serverInfo"')) return;
        console.log(this.options.documentSelector[0].language, text.includes('"hoverProvider"'));
        resolve();
      });
      this.child.stdin.write(`Content-Length: ${body.length}\\r\\n\\r\\n${body}`);
    });
  }
  stop() { this.child.kill(); console.log("stopped"); }
}
const settings = { get: () => JSON.parse(process.argv[3]) };
const stubs = { vscode: { workspace: { getConfiguration: () => settings } },
                "vscode-languageclient/node": { LanguageClient } };
const load = Module._load;
Module._load = (name, ...rest) => stubs[name] ?? load(name, ...rest);
const extension = require(process.argv[2]);
extension.activate().then(() => extension.deactivate());
"""


def test_the_extension_of_vs_code_starts_and_stops_the_server(tmp_path):
    pytest.importorskip("pygls", reason="skipped: no pygls")
    node = shutil.which("node")
    if node is None:
        pytest.skip("skipped: no node")
    (tmp_path / "stubs.js").write_text(STUBS)
    command = json.dumps([sys.executable, "-m", "pyptx", "lsp"])
    run = [node, tmp_path / "stubs.js", EDITORS / "vscode/extension.js", command]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["ptx", "true", "stopped"], done.stderr


def test_editors_name_the_same_words():
    root = EDITORS
    grammar = json.loads((root / "vscode/syntaxes/ptx.tmLanguage.json").read_text())
    package = json.loads((root / "vscode/package.json").read_text())
    assert package["contributes"]["grammars"][0]["scopeName"] == grammar["scopeName"]
    assert "pyptx" in (root / "neovim/ptx.lua").read_text() and "pyptx" in (root / "helix/languages.toml").read_text()
