#include "ptx/base/diagnostic.h"

#include <algorithm>

#include "ptx/base/check.h"
#include "ptx/base/text.h"

namespace ptx {

const std::vector<CodeInfo>& all_codes() {
  using enum Severity;
  static const std::vector<CodeInfo> rows = {
#define DIAGNOSTIC(number, name, severity, summary) {Code::name, #name, severity, summary},
#include "ptx/base/diagnostic.def"
#undef DIAGNOSTIC
  };
  return rows;
}

const CodeInfo& info(Code code) {
  const auto& rows = all_codes();
  const auto found = std::lower_bound(rows.begin(), rows.end(), code,
                                      [](const CodeInfo& row, Code wanted) { return row.code < wanted; });
  PTX_CHECK(found != rows.end() && found->code == code, "diagnostic.def must be sorted by number");
  return *found;
}

bool has_error(const Diagnostics& list) {
  return std::any_of(list.begin(), list.end(), [](const Diagnostic& d) { return d.severity == Severity::error; });
}

std::string to_string(const Diagnostic& diagnostic) {
  Text text;
  if (diagnostic.place.line != 0) {
    text << diagnostic.place.file.view() << ':' << diagnostic.place.line << ':';
    if (diagnostic.place.column != 0) text << diagnostic.place.column << ':';
    text << ' ';
  }
  text << "PTX" << static_cast<int>(diagnostic.code) << ' ';
  if (diagnostic.severity != Severity::error)
    text << (diagnostic.severity == Severity::warning ? "warning: " : "note: ");
  text << diagnostic.message;
  if (!diagnostic.section.empty()) text << "  [PTX ISA " << diagnostic.section << ']';
  for (const std::string& note : diagnostic.notes) text << "\n    " << note;
  return text.take();
}

std::string to_string(const Diagnostics& list) {
  Text text;
  for (const Diagnostic& diagnostic : list) {
    if (text.size() != 0) text << '\n';
    text << to_string(diagnostic);
  }
  return text.take();
}

}  // namespace ptx
