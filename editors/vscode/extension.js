// Starts `pyptx lsp` and lets VS Code's own client speak with it.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = async () => {
  const [command, ...args] = workspace.getConfiguration("pyptx").get("command");
  const server = { command, args };
  client = new LanguageClient("pyptx", "PTX", server, { documentSelector: [{ language: "ptx" }] });
  await client.start();
};

exports.deactivate = () => client?.stop();
