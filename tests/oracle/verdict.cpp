// What check says of whole files: `legal FILE`, or `refused FILE:LINE CODE MESSAGE` for the first error. With --other,
// a file whose first error is an opcode that no row has is `other`: an instruction of a chapter that is not written
// yet. With --all, every error has a line of its own; with --emit, the file is instead printed from its ir.
#include <cstdio>
#include <fstream>
#include <sstream>

#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/syntax/parse.h"

int main(int argc, char** argv) {
  bool tell_other = false, tell_all = false, emit = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view path = argv[i];
    if (path == "--other") {
      tell_other = true;
      continue;
    }
    if (path == "--all" || path == "--emit") {
      (path == "--all" ? tell_all : emit) = true;
      continue;
    }
    std::stringstream text;
    text << std::ifstream(argv[i], std::ios::binary).rdbuf();
    const ptx::syntax::Parsed parsed = ptx::syntax::parse(text.str(), ptx::Name(path));
    ptx::ir::Lowered lowered = ptx::ir::lower(parsed.tree);
    if (emit) {
      std::fputs(ptx::ir::emit(lowered.module).c_str(), stdout);
      continue;
    }
    ptx::Diagnostics all = parsed.diagnostics;
    all.insert(all.end(), lowered.diagnostics.begin(), lowered.diagnostics.end());
    const ptx::Diagnostics found = ptx::check::check(lowered.module);
    all.insert(all.end(), found.begin(), found.end());
    const ptx::Diagnostic *first = nullptr, *unknown = nullptr;
    for (const ptx::Diagnostic& d : all) {
      if (d.severity != ptx::Severity::error) continue;
      if (d.code == ptx::Code::unknown_instruction && !unknown) unknown = &d;
      if (!first) first = &d;
      if (tell_all) std::printf("error\t%s\n", to_string(d).c_str());
    }
    if (tell_other && unknown) first = unknown;
    const char* verdict = !first ? "legal" : tell_other && unknown ? "other" : "refused";
    std::printf("%s\t%s\t%s\n", verdict, argv[i], first ? to_string(*first).c_str() : "");
  }
}
