"""Neovim and Helix themselves, without a screen, with the settings of editors/ and the language server.

They come from the path or from `tools/editors` (Debian's packages, unpacked); what is absent is a skip that says so.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest

from pyptx.lsp.document import Document

pytest.importorskip("pygls", reason="skipped: no pygls")

EDITORS = Path(__file__).resolve().parents[2] / "editors"
BROUGHT = Path(os.environ.get("PYPTX_EDITORS") or Path.home() / ".cache/pyptx/editors") / "bin"

TEXT = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
.maxntid 32
{
	.reg .pred %p;
	.reg .b32 %r<4>;
	mov.u32 %r1, 0;
TOP:
	add.s32 %r1, %r1, %tid.x;
	setp.lt.s32 %p, %r1, 9;
	@%p bra TOP;
	ret;
}
"""


def editor(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(BROUGHT))
    if found is None:
        pytest.skip(f"skipped: no {name}; tools/editors brings it")
    return found


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder with a.ptx, in which `pyptx` is a command."""
    program = tmp_path / "bin" / "pyptx"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pyptx "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "a.ptx").write_text(TEXT)
    return tmp_path


NEOVIM = """
local editors, folder = arg[1], arg[2]
local settings = dofile(editors .. "/neovim/ptx.lua")
vim.filetype.add({ extension = { ptx = "ptx" } })
if vim.lsp.config then  -- Neovim 0.11, as the file says
  vim.lsp.config("ptx", settings)
  vim.lsp.enable("ptx")
else
  vim.api.nvim_create_autocmd("FileType", { pattern = settings.filetypes, callback = function()
    vim.lsp.start({ name = "ptx", cmd = settings.cmd, root_dir = folder })
  end })
end
vim.cmd("filetype on")
vim.cmd.edit(folder .. "/a.ptx")
local said = {}
local function wait(what, test)
  if not vim.wait(60000, test, 20) then said.failed = what; print(vim.json.encode(said)); vim.cmd("qall!") end
end
local function place(line, column)
  vim.api.nvim_win_set_cursor(0, { line, column })
  return vim.lsp.util.make_position_params(0, "utf-16")
end
local function ask(method, params)
  local answers = vim.lsp.buf_request_sync(0, method, params, 60000)
  for _, one in pairs(answers or {}) do return one.result end
end
wait("diagnostics", function() return #vim.diagnostic.get(0) > 0 end)
for _, one in ipairs(vim.diagnostic.get(0)) do
  if one.severity == vim.diagnostic.severity.ERROR then said.code, said.line = one.code, one.lnum + 1 end
end
said.hover = ask("textDocument/hover", place(12, 2)).contents.value:match("setp") ~= nil
said.definition = ask("textDocument/definition", place(13, 9)).range.start.line + 1
local items = ask("textDocument/completion", place(12, 6)).items
said.completes = vim.iter(items):any(function(one) return one.label == "ge" end)
vim.api.nvim_buf_set_lines(0, 10, 11, true, { "\\tadd.s32 %r1, %r1, 2;" })
wait("no errors", function() return #vim.diagnostic.get(0, { severity = vim.diagnostic.severity.ERROR }) == 0 end)
place(10, 0)
vim.lsp.buf.rename("AGAIN")
wait("rename", function() return vim.api.nvim_buf_get_lines(0, 12, 13, true)[1]:match("AGAIN") ~= nil end)
vim.lsp.buf.format({ timeout_ms = 60000 })
said.text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, true), "\\n") .. "\\n"
print(vim.json.encode(said))
vim.cmd("qall!")
"""


def test_neovim(place):
    nvim = editor("nvim")
    (place / "test.lua").write_text(NEOVIM)
    command = [nvim, "--clean", "--headless", "-l", place / "test.lua", EDITORS, place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd=place)
    said = json.loads((done.stdout + done.stderr).strip().splitlines()[-1])
    assert (said["code"], said["line"]) == ("PTX2011", 11)
    assert said["hover"] and said["completes"] and said["definition"] == 10
    edited = TEXT.replace("%tid.x", "2").replace("TOP", "AGAIN")
    assert said["text"] == Document(edited).formatted()


class Screen:
    """A program on a terminal of its own, and keys for it."""

    def __init__(self, command: list[str], folder: Path):
        self.end, other = pty.openpty()
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        # By a program that takes the terminal: a fork of this process, which has threads of JAX and torch, may hang.
        take = (
            "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
        )
        self.child = subprocess.Popen(
            [sys.executable, "-c", take, *map(str, command)], stdin=other, stdout=other, stderr=other, cwd=folder,
            env={**os.environ, "TERM": "xterm-256color"}, start_new_session=True,
        )  # fmt: skip
        os.close(other)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with contextlib.suppress(OSError):
            while os.read(self.end, 65536):
                pass

    def keys(self, *parts: str):
        for part in parts:
            os.write(self.end, part.encode())
            time.sleep(0.2)  # behind Escape, or what follows is a key with Alt

    def until(self, test, *parts: str) -> bool:
        """Whether it is so within two minutes, in which these keys are given again and again."""
        end = time.monotonic() + 120
        while not (self.keys(*parts) or test()):
            if time.monotonic() > end:
                return False
        return True


def test_settings_of_helix():
    """What Helix would read, where it is absent: https://docs.helix-editor.com/languages.html names the keys."""
    tomllib = pytest.importorskip("tomllib", reason="skipped: Python 3.10 has no tomllib")
    settings = tomllib.loads((EDITORS / "helix/languages.toml").read_text())
    (language,) = settings["language"]
    assert language["name"] == "ptx" and language["scope"] == "source.ptx" and language["file-types"] == ["ptx"]
    assert language["language-servers"] == list(settings["language-server"]) == ["pyptx"]
    assert settings["language-server"]["pyptx"] == {"command": "pyptx", "args": ["lsp"]}
    assert language["comment-token"] == "//" and set(language["indent"]) == {"tab-width", "unit"}


def test_helix(place):
    """In a process of its own: this one may have run thousands of tests."""
    settings = place / "XDG_CONFIG_HOME/helix"
    settings.mkdir(parents=True)
    (settings / "languages.toml").write_text((EDITORS / "helix/languages.toml").read_text())
    command = [sys.executable, __file__, editor("hx"), place]
    for _ in range(2):  # a Helix that does not come up is started again
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if run.returncode == 0:
            return
    pytest.fail(run.stderr)


def drive_helix(program: str, place: Path):
    file = place / "a.ptx"
    file.write_text(TEXT.replace("%tid.x", "2"))
    formatted = Document(file.read_text()).formatted()
    screen = Screen([program, "a.ptx"], place)
    try:
        escape, write = "\x1b", (":write\r", "")
        assert screen.until(lambda: file.read_text() == formatted, escape, ":format\r", "", "", *write)
        top = f"{formatted.splitlines().index('TOP:') + 1}G"
        renamed = formatted.replace("TOP", "AGAIN")
        assert screen.until(
            lambda: file.read_text() == renamed, escape, top, " ", "r", "", "\x15", "AGAIN\r", "", "", *write
        )
    finally:
        screen.child.kill()
        screen.child.wait()


if __name__ == "__main__":
    drive_helix(sys.argv[1], Path(sys.argv[2]))
