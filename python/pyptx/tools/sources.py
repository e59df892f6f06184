"""The subcommands over PTX sources: fmt, lint, diff, stats, lsp.  Each is a thin shell over functions of the modules beside this."""

from __future__ import annotations

import argparse
import json
import sys

from pyptx.tools import files, words

__all__ = ["add_commands"]


def add_commands(add: words.Add) -> None:
    """`add` makes a subcommand: that of __main__."""
    for each in (_add_fmt, _add_lint, _add_diff, _add_stats, _add_lsp):
        each(add)


def _add_fmt(add: words.Add):
    fmt = add(
        "fmt",
        _fmt,
        does="lay PTX out in the standard style, and print it or write it back",
        fails="with --check, a file would change; or a text is not PTX",
        examples=["a.ptx", "--diff a.ptx", "--write a.ptx b.ptx", "- < a.ptx"],
    )
    words.file(fmt, nargs="+", dest="files")
    what = fmt.add_mutually_exclusive_group()
    what.add_argument("--write", action="store_true", help="write changed files back")
    what.add_argument("--check", action="store_true", help="name the files that would change")
    what.add_argument("--diff", action="store_true", help="show what would change")
    fmt.add_argument(
        "--module", action="store_true", help="spell numbers and modifiers as pyptx does, and leave comments out"
    )


def _add_lint(add: words.Add):
    lint = add(
        "lint",
        _lint,
        does="find dead code, unused registers and other doubtful places in legal PTX",
        fails="there is a warning, or a text is not legal",
        examples=["a.ptx", "--select dead-code,PTX6006 a.ptx", "--ignore launch-bounds --fix a.ptx", "--rules"],
    )
    words.file(lint, nargs="*", dest="files")
    lint.add_argument(
        "--select", type=_words, default=[], metavar="RULES", help="apply only these: codes, names, or all"
    )
    lint.add_argument("--ignore", type=_words, default=[], metavar="RULES", help="leave these out")
    lint.add_argument("--fix", action="store_true", help="write the files back with the changes that keep the meaning")
    lint.add_argument("--format", choices=("text", "json", "sarif"), default="text", help="default: text")
    lint.add_argument("--rules", action="store_true", help="list the rules")


def _add_diff(add: words.Add):
    diff = add(
        "diff",
        _diff,
        does="compare two PTX files by meaning, ignoring layout and the names of registers and labels",
        fails="they differ",
        examples=["a.ptx a.ptx", "--all --width 200 a.ptx a.ptx"],
    )
    for name in ("file", "other"):
        words.file(diff, dest=name)
    diff.add_argument("--all", action="store_true", help="also show lines that are the same")
    diff.add_argument("--width", type=int, default=160, metavar="N", help="columns; default: 160")
    diff.add_argument("--sass", action="store_true", help="compare their machine code")


def _add_stats(add: words.Add):
    stats = add(
        "stats",
        _stats,
        does="count instructions by class, registers, memory, and the bytes and flops of each loop",
        fails="a text is not legal",
        examples=["a.ptx", "--format json a.ptx"],
    )
    words.file(stats, nargs="+", dest="files")
    stats.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def _add_lsp(add: words.Add):
    lsp = add(
        "lsp",
        _lsp,
        does="start a language server for editors on the standard streams (pip install pyptx[lsp])",
        fails="never",
        examples=["--check"],
    )
    lsp.add_argument("--check", action="store_true", help="only say whether its packages are installed")


def _words(text: str) -> list[str]:
    return [word for word in text.replace(" ", ",").split(",") if word]


def _fmt(arguments: argparse.Namespace) -> int:
    from pyptx.tools import layout

    status = 0
    for file in arguments.files:
        source = files.read(file)
        text, wrong = layout.formatted(source, files.shown(file))
        if wrong:  # what the parser cannot read is not moved about
            print(wrong[0], file=sys.stderr)
            status = 1
            continue
        if arguments.module:
            text = layout.module(source)
        if arguments.check:
            if text != source:
                print(files.shown(file))
                status = 1
        elif arguments.diff:
            print(layout.difference(source, text, files.shown(file)), end="")
        elif not arguments.write or file == "-":
            if sys.stdout is not None:
                sys.stdout.buffer.write(text)
        elif text != source:
            files.write(file, text)
    return status


def _lint(arguments: argparse.Namespace) -> int:
    from pyptx.tools import layout, lint, report

    if arguments.rules:
        for rule in lint.rules():
            marks = ("on" if rule.on else "off") + (", fix" if rule.fixes else "")
            print(f"{rule.code} {lint.spelled(rule.name):18} {rule.severity:8} {marks:9} {rule.summary}")
        return 0
    if not arguments.files:
        raise files.Unusable("lint needs a FILE, or --rules")
    try:
        numbers = lint.chosen(arguments.select, arguments.ignore)
    except LookupError as error:
        raise files.Unusable(error.args[0]) from None
    found: list[report.Found] = []
    unread = False
    for file in arguments.files:
        source = files.read(file)
        if wrong := layout.formatted(source, files.shown(file))[1]:
            print(wrong[0], file=sys.stderr)
            unread = True
            continue
        if arguments.fix:
            fixed = lint.fix(source, numbers)
            if file == "-" and sys.stdout is not None:
                sys.stdout.buffer.write(fixed)
            elif fixed != source:
                files.write(file, fixed)
            source = fixed
        found += report.with_lines(lint.find(source, numbers, files.shown(file)), source, file)
    if arguments.format == "text":
        for line in report.text(found):
            print(line, file=sys.stderr if arguments.fix and "-" in arguments.files else sys.stdout)
    else:
        print(report.as_json(found) if arguments.format == "json" else report.sarif(found))
    return int(unread or any(one.diagnostic.severity != "note" for one in found))


def _diff(arguments: argparse.Namespace) -> int:
    from pyptx import ir
    from pyptx.tools import difference

    modules = [ir.Module(files.read(file), files.shown(file)) for file in (arguments.file, arguments.other)]
    rows = difference.of_lines(*map(_sass, modules)) if arguments.sass else difference.of(*modules)
    same = all(row.same for row in rows)
    if not same or arguments.all:
        print(difference.side_by_side(rows, arguments.width, None if arguments.all else 3))
    return int(not same)


def _sass(module) -> list[str]:
    from pyptx import _core
    from pyptx.errors import PtxError

    target = module.target.partition(",")[0].strip()
    lines: list[str] = []
    for function in module.functions:
        if function.is_entry and not function.is_declaration:
            try:
                lines += _core.sass(str(module), target, function.name, []).splitlines()
            except PtxError as error:
                raise files.Unusable(f"{module.file}: {error}") from None
    return lines


def _stats(arguments: argparse.Namespace) -> int:
    from pyptx import ir
    from pyptx.tools import stats

    status, all_files = 0, {}
    for file in arguments.files:
        module = ir.Module(files.read(file), files.shown(file))
        wrong = [each for each in module.check() if each.severity == "error"]
        if wrong:
            print(wrong[0], file=sys.stderr)
            status = 1
        figures = stats.of(module)
        if arguments.format == "json":
            all_files[files.shown(file)] = stats.as_dicts(figures)
        else:
            print(stats.report(figures))
    if arguments.format == "json":
        print(json.dumps(all_files, indent=1))
    return status


def _lsp(arguments: argparse.Namespace) -> int:
    try:
        from pyptx.lsp import server
    except ImportError as error:
        raise files.Unusable(f"the language server needs pygls: pip install pyptx[lsp] ({error})") from None
    if arguments.check:
        print(f"pyptx lsp {server.VERSION}: ready")
    else:
        server.serve()
    return 0
