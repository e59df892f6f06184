"""The protocol: pygls calls, document.py answers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from pyptx.lsp.document import PIECES, Document, Said, difference
from pyptx.tools import lint

__all__ = ["VERSION", "Server", "serve"]

VERSION = metadata.version("pyptx")
_SEVERITIES = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "note": lsp.DiagnosticSeverity.Hint,
}
# What editors know of the pieces of a text.
_TOKEN_TYPES = {
    "directive": "keyword",
    "opcode": "function",
    "modifier": "property",
    "type": "type",
    "reg": "variable",
    "name": "parameter",
    "label": "namespace",
    "function": "method",
    "number": "number",
    "string": "string",
    "comment": "comment",
}
_COMPLETIONS = {
    "opcode": lsp.CompletionItemKind.Function,
    "modifier": lsp.CompletionItemKind.Property,
    "register": lsp.CompletionItemKind.Variable,
    "label": lsp.CompletionItemKind.Reference,
    "variable": lsp.CompletionItemKind.Constant,
    "function": lsp.CompletionItemKind.Method,
}
_SYMBOLS = {
    "function": lsp.SymbolKind.Function,
    "label": lsp.SymbolKind.Key,
    "register": lsp.SymbolKind.Variable,
    "variable": lsp.SymbolKind.Constant,
}


_ANSWERS: list[tuple[str, Any, Callable[..., Any]]] = []  # method, options, function
_Answer = TypeVar("_Answer", bound=Callable[..., Any])


class _Protocol(LanguageServerProtocol):
    """pygls', which does not apply changes: it takes a form feed for the end of a line, and moves the places of a change in `params`."""

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: lsp.DidChangeTextDocumentParams) -> Iterator[Any]:
        yield self.fm.features[lsp.TEXT_DOCUMENT_DID_CHANGE], (params,), None


class Server(LanguageServer):
    """The texts that an editor has open, their versions, and the colours that it was told of."""

    def __init__(self) -> None:
        super().__init__("pyptx", VERSION, protocol_cls=_Protocol)
        self.documents: dict[str, Document] = {}
        self.versions: dict[str, int] = {}
        self.colours: dict[str, list[int]] = {}
        for method, options, answer in _ANSWERS:
            self.feature(method, options)(answer)

    def document(self, uri: str) -> Document:
        """An open text, or a file."""
        return self.documents.get(uri) or Document(self.workspace.get_text_document(uri).source, _name(uri))

    def publish(self, uri: str, with_lint: bool) -> None:
        text = self.documents[uri]
        said = text.diagnostics()
        if with_lint and not any(each.severity == "error" for each in said):
            said += text.findings()
        found = [_diagnostic(each, _range(text, each.begin, each.end)) for each in said]
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found, self.versions[uri]))


def serve() -> None:
    """Speaks with an editor over the standard streams, until it hangs up."""
    with os.fdopen(os.dup(0), "rb") as source, os.fdopen(os.dup(1), "wb") as target:  # pygls closes them
        Server().start_io(source, target)


def _answers(method: str, options: Any = None) -> Callable[[_Answer], _Answer]:
    """Marks the function that answers a request, or takes a notification, of the protocol."""

    def mark(answer: _Answer) -> _Answer:
        _ANSWERS.append((method, options, answer))
        return answer

    return mark


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]


def _range(text: Document, begin: int, end: int) -> lsp.Range:
    return lsp.Range(lsp.Position(*text.position(begin)), lsp.Position(*text.position(end)))


# ---- texts that open, change and close


@_answers(lsp.TEXT_DOCUMENT_DID_OPEN)
def _opened(ls: Server, params: lsp.DidOpenTextDocumentParams) -> None:
    item = params.text_document
    ls.documents[item.uri] = Document(item.text, _name(item.uri))
    ls.versions[item.uri] = item.version
    ls.publish(item.uri, True)


@_answers(lsp.TEXT_DOCUMENT_DID_CHANGE)
def _changed(ls: Server, params: lsp.DidChangeTextDocumentParams) -> None:
    uri = params.text_document.uri
    for change in params.content_changes:
        if isinstance(change, lsp.TextDocumentContentChangePartial):
            begin, end = change.range.start, change.range.end
            text = ls.document(uri)
            ls.documents[uri] = text.changed(
                text.offset(begin.line, begin.character), text.offset(end.line, end.character), change.text
            )
        else:
            ls.documents[uri] = Document(change.text, _name(uri))
    ls.versions[uri] = params.text_document.version
    ls.publish(uri, False)  # lint waits until the text is saved


@_answers(lsp.TEXT_DOCUMENT_DID_SAVE)
def _saved(ls: Server, params: lsp.DidSaveTextDocumentParams) -> None:
    uri = params.text_document.uri
    if uri in ls.documents:
        ls.publish(uri, True)


@_answers(lsp.TEXT_DOCUMENT_DID_CLOSE)
def _closed(ls: Server, params: lsp.DidCloseTextDocumentParams) -> None:
    uri = params.text_document.uri
    ls.documents.pop(uri, None)
    ls.colours.pop(uri, None)
    ls.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))


# ---- what stands at a place


@_answers(lsp.TEXT_DOCUMENT_HOVER)
def _hover(ls: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    text = ls.document(params.text_document.uri)
    found = text.hover(params.position.line, params.position.character)
    if found is None:
        return None
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, found[0]), _range(text, *found[1:]))


@_answers(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[".", "%"]))
def _complete(ls: Server, params: lsp.CompletionParams) -> lsp.CompletionList:
    text = ls.document(params.text_document.uri)
    line, column = params.position.line, params.position.character
    at = text.offset(line, column)
    register = re.search(rb"%[\w.$]*$", text.raw[max(0, at - 200) : at])
    items = []
    for each in text.completions(line, column):
        item = lsp.CompletionItem(each.text, kind=_COMPLETIONS[each.kind], detail=each.detail or None)
        if register and each.text.startswith("%"):  # with the %: editors do not agree on whether it is part of a word
            item.text_edit = lsp.TextEdit(_range(text, at - len(register[0]), at), each.text)
            item.filter_text = each.text
        items.append(item)
    return lsp.CompletionList(is_incomplete=False, items=items)


@_answers(lsp.TEXT_DOCUMENT_DEFINITION)
def _definition(ls: Server, params: lsp.DefinitionParams) -> lsp.Location | None:
    text = ls.document(params.text_document.uri)
    found = text.symbol_at(params.position.line, params.position.character)
    return found and lsp.Location(params.text_document.uri, _range(text, found[0].begin, found[0].end))


@_answers(lsp.TEXT_DOCUMENT_REFERENCES)
def _references(ls: Server, params: lsp.ReferenceParams) -> list[lsp.Location]:
    text = ls.document(params.text_document.uri)
    found = text.symbol_at(params.position.line, params.position.character)
    spans = text.references(found[0]) if found else []
    if found and not params.context.include_declaration:
        spans = [each for each in spans if each[0] != found[0].begin]
    return [lsp.Location(params.text_document.uri, _range(text, *each)) for each in spans]


@_answers(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
def _prepare_rename(ls: Server, params: lsp.PrepareRenameParams) -> lsp.Range | None:
    text = ls.document(params.text_document.uri)
    found = text.symbol_at(params.position.line, params.position.character)
    return found and _range(text, found[1], found[2])


@_answers(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
def _rename(ls: Server, params: lsp.RenameParams) -> lsp.WorkspaceEdit:
    text = ls.document(params.text_document.uri)
    try:
        edits = text.renamed(params.position.line, params.position.character, params.new_name)
    except ValueError as error:
        raise JsonRpcInvalidParams(str(error)) from None
    changes = [lsp.TextEdit(_range(text, begin, end), new) for begin, end, new in edits]
    return lsp.WorkspaceEdit(changes={params.text_document.uri: changes})


@_answers(lsp.TEXT_DOCUMENT_CODE_ACTION)
def _actions(ls: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    text = ls.document(params.text_document.uri)
    wanted = [each for each in params.context.diagnostics if str(each.code or "").startswith("PTX6")]
    made = []
    for each in text.findings() if wanted else []:
        for asked in wanted:
            if not each.fixes or asked.code != each.code or asked.range != _range(text, each.begin, each.end):
                continue
            edits = [lsp.TextEdit(_range(text, fix.begin, fix.end), fix.text) for fix in each.fixes]
            change = lsp.WorkspaceEdit(changes={params.text_document.uri: edits})
            title = f"{_NAMES[each.code]}: mend"
            made.append(lsp.CodeAction(title, kind=lsp.CodeActionKind.QuickFix, diagnostics=[asked], edit=change))
    return made


# ---- the whole text


@_answers(lsp.TEXT_DOCUMENT_FORMATTING)
def _formatting(ls: Server, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
    text = ls.document(params.text_document.uri)
    made = text.formatted()
    return None if made is None else [lsp.TextEdit(_range(text, 0, len(text.raw)), made)]


@_answers(
    lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, lsp.SemanticTokensLegend([_TOKEN_TYPES[piece] for piece in PIECES], [])
)
def _colours(ls: Server, params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
    uri = params.text_document.uri
    now = ls.colours[uri] = ls.document(uri).semantic_tokens()
    return lsp.SemanticTokens(now, _mark(now))


@_answers(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL_DELTA)
def _colours_that_changed(
    ls: Server, params: lsp.SemanticTokensDeltaParams
) -> lsp.SemanticTokens | lsp.SemanticTokensDelta:
    """After a keystroke a few numbers change; all of those of 10,000 lines take 20 ms to write."""
    uri = params.text_document.uri
    was, now = ls.colours.get(uri), ls.document(uri).semantic_tokens()
    ls.colours[uri] = now
    if was is None or params.previous_result_id != _mark(was):
        return lsp.SemanticTokens(now, _mark(now))
    begin, end = difference(was, now)
    edits = [lsp.SemanticTokensEdit(begin, len(was) - end - begin, now[begin : len(now) - end])] if was != now else []
    return lsp.SemanticTokensDelta(edits, _mark(now))


def _mark(colours: list[int]) -> str:
    return str(id(colours))  # kept in Server.colours as long as the mark may be asked about


@_answers(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
def _folding(ls: Server, params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange]:
    return [lsp.FoldingRange(*lines) for lines in ls.document(params.text_document.uri).folds()]


@_answers(lsp.TEXT_DOCUMENT_INLAY_HINT)
def _hints(ls: Server, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
    found = ls.document(params.text_document.uri).hints(params.range.start.line, params.range.end.line)
    return [lsp.InlayHint(lsp.Position(line, at), said, padding_left=True) for line, at, said in found]


@_answers(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
def _symbols(ls: Server, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
    text = ls.document(params.text_document.uri)
    found: list[lsp.DocumentSymbol] = []
    for each in text.symbols():
        whole, own = _range(text, *text.scope_span(each)), _range(text, each.begin, each.end)
        symbol = lsp.DocumentSymbol(each.name, _SYMBOLS[each.kind], whole, own, children=[])
        inside = found and found[-1].kind == lsp.SymbolKind.Function and whole.start < found[-1].range.end
        (found[-1].children if inside and found[-1].children is not None else found).append(symbol)
    return found


_NAMES = {rule.code: rule.name.replace("_", " ") for rule in lint.rules()}


def _diagnostic(said: Said, where: lsp.Range) -> lsp.Diagnostic:
    tags: list[Any] = [lsp.DiagnosticTag.Unnecessary] if said.fixes else []
    return lsp.Diagnostic(where, said.message, _SEVERITIES[said.severity], said.code, source="pyptx", tags=tags)
