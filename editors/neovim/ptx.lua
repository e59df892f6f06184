-- ~/.config/nvim/lsp/ptx.lua (Neovim 0.11), with these two lines in init.lua:
--   vim.filetype.add({ extension = { ptx = "ptx" } })
--   vim.lsp.enable("ptx")
return {
  cmd = { "pyptx", "lsp" },
  filetypes = { "ptx" },
  root_markers = { ".git" },
}
