#include "ptx/base/diagnostic.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

#include "ptx/base/check.h"
#include "ptx/base/text.h"

namespace ptx {

const std::vector<CodeInfo>& all_codes() {
  using enum Severity;
  static const std::vector<CodeInfo> rows = {
#define DIAGNOSTIC(number, name, severity, mistake, summary) {Code::name, #name, severity, Mistake::mistake, summary},
#include "ptx/base/diagnostic.def"
#undef DIAGNOSTIC
  };
  return rows;
}

namespace {

// For the test that every code is provoked: the file that PTX_RECORD_CODES names gets a line for each code that this
// process has made a diagnostic of.
struct Record {
  std::FILE* file = nullptr;
  std::mutex mutex;
  std::set<Code> seen;
  Record() {
    if (const char* path = std::getenv("PTX_RECORD_CODES")) file = std::fopen(path, "a");
  }
};

void record(Code code) {
  static Record& shared = *new Record;  // never destroyed: diagnostics are made until the process ends
  if (!shared.file) return;
  const std::lock_guard lock(shared.mutex);
  if (!shared.seen.insert(code).second) return;
  std::fprintf(shared.file, "%d\n", static_cast<int>(code));
  std::fflush(shared.file);
}

}  // namespace

Diagnostic::Diagnostic(Code code, Place place, std::string message)
    : code(code), severity(info(code).severity), place(place), message(std::move(message)) {
  record(code);
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
