"""The language server: `pyptx lsp`.  It needs pygls, `pip install pyptx[lsp]`; document.py, which knows PTX, needs nothing."""
