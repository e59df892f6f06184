"""The protocol: pygls calls, document.py answers."""

from __future__ import annotations

import os
from importlib import metadata
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from pyptx.lsp.document import PIECES, Document, Said
from pyptx.tools import lint

__all__ = ["VERSION", "make", "serve"]

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


def serve() -> None:
    """Speaks with an editor over the standard streams, until it hangs up."""
    with os.fdopen(os.dup(0), "rb") as source, os.fdopen(os.dup(1), "wb") as target:  # pygls closes them
        make().start_io(source, target)


def make() -> LanguageServer:
    """The server, which nobody speaks with yet."""
    server = LanguageServer("pyptx", VERSION)
    documents: dict[str, tuple[int | None, Document]] = {}

    def document(uri: str) -> Document:
        opened = server.workspace.get_text_document(uri)
        kept = documents.get(uri)
        if kept is None or kept[0] != opened.version or opened.version is None:
            kept = documents[uri] = (opened.version, Document(opened.source, uri.rpartition("/")[2]))
        return kept[1]

    def span(text: Document, begin: int, end: int) -> lsp.Range:
        return lsp.Range(lsp.Position(*text.position(begin)), lsp.Position(*text.position(end)))

    def publish(uri: str, with_lint: bool) -> None:
        text = document(uri)
        said = text.diagnostics()
        if with_lint and not any(each.severity == "error" for each in said):
            said += text.findings()
        found = [_diagnostic(each, span(text, each.begin, each.end)) for each in said]
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found, documents[uri][0]))

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        publish(params.text_document.uri, True)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        publish(params.text_document.uri, True)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        publish(params.text_document.uri, False)  # lint waits until the text is saved

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        documents.pop(params.text_document.uri, None)
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(params.text_document.uri, []))

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        text = document(params.text_document.uri)
        found = text.hover(params.position.line, params.position.character)
        if found is None:
            return None
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, found[0]), span(text, *found[1:]))

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[".", "%"]))
    def complete(params: lsp.CompletionParams) -> lsp.CompletionList:
        text = document(params.text_document.uri)
        line, column = params.position.line, params.position.character
        at = text.offset(line, column)
        typed = (
            at - len(text.raw[:at][-200:].rpartition(b"%")[2]) - 1 if text.raw[:at][-200:].rpartition(b"%")[1] else at
        )
        items = []
        for each in text.completions(line, column):
            # Words that begin with % are replaced with it: editors do not agree on whether it is part of a word.
            edit = lsp.TextEdit(span(text, typed, at), each.text) if each.text.startswith("%") and typed < at else None
            item = lsp.CompletionItem(each.text, kind=_COMPLETIONS[each.kind], detail=each.detail or None)
            if edit is not None and b" " not in text.raw[typed:at]:
                item.text_edit, item.filter_text = edit, each.text
            items.append(item)
        return lsp.CompletionList(is_incomplete=False, items=items)

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def definition(params: lsp.DefinitionParams) -> lsp.Location | None:
        text = document(params.text_document.uri)
        found = text.symbol_at(params.position.line, params.position.character)
        return found and lsp.Location(params.text_document.uri, span(text, found[0].begin, found[0].end))

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def references(params: lsp.ReferenceParams) -> list[lsp.Location]:
        text = document(params.text_document.uri)
        found = text.symbol_at(params.position.line, params.position.character)
        spans = text.references(found[0]) if found else []
        if found and not params.context.include_declaration:
            spans = [each for each in spans if each[0] != found[0].begin]
        return [lsp.Location(params.text_document.uri, span(text, *each)) for each in spans]

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepare_rename(params: lsp.PrepareRenameParams) -> lsp.Range | None:
        text = document(params.text_document.uri)
        found = text.symbol_at(params.position.line, params.position.character)
        return found and span(text, found[1], found[2])

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    def rename(params: lsp.RenameParams) -> lsp.WorkspaceEdit:
        text = document(params.text_document.uri)
        try:
            edits = text.renamed(params.position.line, params.position.character, params.new_name)
        except ValueError as error:
            raise JsonRpcInvalidParams(str(error)) from None
        changes = [lsp.TextEdit(span(text, begin, end), new) for begin, end, new in edits]
        return lsp.WorkspaceEdit(changes={params.text_document.uri: changes})

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def formatting(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
        text = document(params.text_document.uri)
        made = text.formatted()
        return None if made is None else [lsp.TextEdit(span(text, 0, len(text.raw)), made)]

    legend = lsp.SemanticTokensLegend([_TOKEN_TYPES[piece] for piece in PIECES], [])

    @server.feature(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, legend)
    def semantic_tokens(params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
        return lsp.SemanticTokens(data=document(params.text_document.uri).semantic_tokens())

    @server.feature(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
    def folding(params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange]:
        return [lsp.FoldingRange(*lines) for lines in document(params.text_document.uri).folds()]

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def hints(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        found = document(params.text_document.uri).hints(params.range.start.line, params.range.end.line)
        return [lsp.InlayHint(lsp.Position(line, at), said, padding_left=True) for line, at, said in found]

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        text = document(params.text_document.uri)
        found: list[lsp.DocumentSymbol] = []
        for each in text.symbols():
            whole, own = span(text, *text.scope_span(each)), span(text, each.begin, each.end)
            symbol = lsp.DocumentSymbol(each.name, _SYMBOLS[each.kind], whole, own, children=[])
            inside = found and found[-1].kind == lsp.SymbolKind.Function and whole.start < found[-1].range.end
            (found[-1].children if inside and found[-1].children is not None else found).append(symbol)
        return found

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION)
    def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        text = document(params.text_document.uri)
        wanted = [each for each in params.context.diagnostics if (each.code or "").startswith("PTX6")]
        made = []
        for each in text.findings() if wanted else []:
            for asked in wanted:
                if not each.fixes or asked.code != each.code or asked.range != span(text, each.begin, each.end):
                    continue
                edits = [lsp.TextEdit(span(text, fix.begin, fix.end), fix.text) for fix in each.fixes]
                change = lsp.WorkspaceEdit(changes={params.text_document.uri: edits})
                title = f"{_NAMES[each.code]}: mend"
                made.append(lsp.CodeAction(title, kind=lsp.CodeActionKind.QuickFix, diagnostics=[asked], edit=change))
        return made

    return server


_NAMES = {rule.code: rule.name.replace("_", " ") for rule in lint.rules()}


def _diagnostic(said: Said, where: lsp.Range) -> lsp.Diagnostic:
    tags: list[Any] = [lsp.DiagnosticTag.Unnecessary] if said.fixes else []
    return lsp.Diagnostic(where, said.message, _SEVERITIES[said.severity], said.code, source="pyptx", tags=tags)
