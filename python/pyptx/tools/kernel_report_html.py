"""The page of a kernel's report: one file of HTML and CSS, no script.  PTX and machine code stand side by side, on a narrow screen
one below the other."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

__all__ = ["BASE", "head", "page"]

# What the pages of this package share.
BASE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2430; --faint: #5d6b7e; --rule: #d8dee8; --card: #f4f6fa;
  --accent: #2463c4; --bar: #d5e3fa; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --paper: #12161d; --ink: #e3e8f0; --faint: #93a1b5; --rule: #2b3442;
  --card: #1a202a; --accent: #7fb0ff; --bar: #25406b; --bad: #ff8f86; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 84rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { margin: 0; font-size: 1.5rem; overflow-wrap: anywhere; }
h2 { margin: 2.2rem 0 .4rem; font-size: 1.1rem; }
p { margin: .2rem 0; color: var(--faint); overflow-wrap: anywhere; }
code, pre { font: 12.5px/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
"""
_STYLE = """
dl { display: grid; grid-template-columns: repeat(4, 1fr); gap: .6rem; margin: 1.2rem 0 0; }
dl > div { background: var(--card); border: 1px solid var(--rule); border-radius: .5rem; padding: .55rem .75rem; }
dt { color: var(--faint); font-size: .85rem; }
dd { margin: 0; font-size: 1.2rem; font-weight: 600; }
dd small { display: block; color: var(--faint); font-size: .8rem; font-weight: 400; }
.bad dd { color: var(--bad); }
.meter { height: .3rem; margin-top: .35rem; border-radius: .2rem; background: var(--bar); }
.meter i { display: block; height: 100%; border-radius: .2rem; background: var(--accent); }
section { margin-top: .9rem; border: 1px solid var(--rule); border-radius: .5rem; overflow: hidden; }
h3 { display: flex; gap: .9rem; align-items: baseline; margin: 0; padding: .4rem .75rem; background: var(--card); font-size: 1rem;
  font-weight: 400; }
h3 a { color: var(--accent); text-decoration: none; white-space: nowrap; font-size: .85rem; }
h3 code { flex: 1; min-width: 0; white-space: pre-wrap; overflow-wrap: anywhere; font-weight: 600; }
h3 span { color: var(--faint); font-size: .8rem; white-space: nowrap; }
.row { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); border-top: 1px solid var(--rule); }
.row pre { margin: 0; padding: .15rem .75rem; overflow-x: auto; }
.row pre + pre { border-left: 1px solid var(--rule); }
.row b { color: var(--faint); font-weight: 400; user-select: none; }
@media (max-width: 44rem) {
  body { padding: 1rem .6rem 3rem; }
  dl { grid-template-columns: 1fr 1fr; }
  h3 { flex-wrap: wrap; gap: 0 .6rem; }
  h3 code { flex-basis: 100%; order: 3; }
  .row { grid-template-columns: minmax(0, 1fr); }
  .row pre + pre { border-left: 0; padding-left: 1.8rem; background: var(--card); }
  .row pre:empty { display: none; }
}
@media print { section { break-inside: avoid; } }
"""


def head(title: str, style: str) -> list[str]:
    """A page's beginning, up to its heading."""
    return [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{BASE}{style}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
    ]


def page(report) -> str:
    """All of the page, as text."""
    parts = [
        *head(f"{report.name} for {report.target}", _STYLE),
        f"<p>{escape(report.assembler)}</p>",
        *_chosen(report),
        "<dl>",
        *_facts(report),
        "</dl>",
        "<h2>By the author's lines</h2>",
        "<p>PTX, then the machine code that the assembler made of it.</p>",
        *(section for line in report.lines for section in _section(line)),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _chosen(report) -> Iterator[str]:
    if report.chosen:
        yield f"<p>{escape(', '.join(f'{name} = {value!r}' for name, value in report.chosen.items()))}</p>"


def _facts(report) -> Iterator[str]:
    r = report.resources
    bad = {"spills": r.spill_stores + r.spill_loads > 0, "occupancy": r.blocks == 0}
    for name, value, remark in report.facts():
        meter = f'<div class="meter"><i style="width:{r.occupancy:.1%}"></i></div>' if name == "occupancy" else ""
        marked = ' class="bad"' if bad.get(name) else ""
        yield f"<div{marked}><dt>{name}</dt><dd>{escape(value)}<small>{escape(remark)}</small>{meter}</dd></div>"


def _section(line) -> Iterator[str]:
    if line.line:
        anchor = f"{Path(line.file).name}:{line.line}"
        head = f'<a href="#{escape(anchor)}" title="{escape(line.file)}">{escape(anchor)}</a>'
        yield f'<section id="{escape(anchor)}"><h3>{head}<code>{escape(line.source.strip())}</code>{_count(line)}</h3>'
    else:
        yield f"<section><h3><code>the kernel's frame</code>{_count(line)}</h3>"
    for number, ptx, sass in line.rows:
        left = f"<b>{number:>4} </b>{escape(ptx.strip())}" if ptx else ""
        right = "\n".join(f"<b>{address}</b>{escape(code)}" for address, code in (_parts(text) for text in sass))
        yield f'<div class="row"><pre>{left}</pre><pre>{right}</pre></div>'
    yield "</section>"


def _count(line) -> str:
    return f"<span>{line.machine} machine instruction{'' if line.machine == 1 else 's'}</span>"


def _parts(text: str) -> tuple[str, str]:
    address, _, code = text.partition(" ")
    return address, f" {code}"
