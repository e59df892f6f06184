// Any bytes: the layout keeps every token and is its own layout; control flow, liveness, lint and the pieces for
// editors come to an end, and their spans lie in the text. What lint changes of legal text stays legal.
#include <cstdint>
#include <cstdlib>

#include "ptx/analysis/flow.h"
#include "ptx/analysis/liveness.h"
#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/lint/lint.h"
#include "ptx/syntax/format.h"
#include "ptx/syntax/highlight.h"
#include "ptx/syntax/parse.h"

using namespace ptx;

static void demand(bool holds) {
  if (!holds) std::abort();
}

static bool same_tokens(const syntax::Tree& a, const syntax::Tree& b) {
  if (a.tokens().size() != b.tokens().size()) return false;
  for (syntax::TokenId id = 0; id < a.tokens().size(); ++id) {
    if (a.token(id).kind != b.token(id).kind || a.text(id) != b.text(id)) return false;
  }
  return true;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const syntax::Parsed parsed = syntax::parse(text);
  const std::string made = syntax::format(parsed.tree);
  const syntax::Parsed again = syntax::parse(made);
  if (parsed.diagnostics.empty()) {
    demand(same_tokens(parsed.tree, again.tree));
    demand(syntax::format(again.tree) == made);
  }
  for (const syntax::Highlight& one : syntax::highlight(parsed.tree))
    demand(one.span.begin <= one.span.end && one.span.end <= size);

  ir::Lowered lowered = ir::lower(parsed.tree);
  const bool legal =
      parsed.diagnostics.empty() && lowered.diagnostics.empty() && !has_error(check::check(lowered.module));
  for (const ir::Function& f : lowered.module.functions) {
    const analysis::Flow flow(f);
    demand(analysis::Liveness(f, flow).pressures().size() == f.body.size());
    for (const analysis::BlockId block : flow.order()) demand(flow.dominates(0, block));
  }
  const auto findings = lint::lint(parsed.tree, lowered.module, lint::Selection().set());
  for (const lint::Finding& finding : findings) {
    demand(finding.span.begin <= finding.span.end && finding.span.end <= size);
    for (const lint::Change& change : finding.changes) demand(change.span.end <= size);
  }
  const std::string fixed = lint::fix(text, findings);
  if (legal) {
    ir::Lowered after = ir::lower(syntax::parse(fixed).tree);
    demand(after.diagnostics.empty() && !has_error(check::check(after.module)));
  }
  return 0;
}
