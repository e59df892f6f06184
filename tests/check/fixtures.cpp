// fixtures/accept: nothing to say. fixtures/reject: an error in each line marked "// refused", and in no other.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/syntax/parse.h"

namespace {

namespace fs = std::filesystem;

struct Verdict {
  std::string text;
  ptx::Diagnostics errors;
};

Verdict verdict(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  Verdict v{all.str(), {}};
  const ptx::syntax::Parsed parsed = ptx::syntax::parse(v.text);
  CHECK(parsed.diagnostics.empty());
  ptx::ir::Lowered lowered = ptx::ir::lower(parsed.tree);
  for (const ptx::Diagnostic& d : ptx::check::check(lowered.module)) {
    if (d.severity == ptx::Severity::error) v.errors.push_back(d);
  }
  return v;
}

std::set<std::uint32_t> marked(const std::string& text) {
  std::set<std::uint32_t> lines;
  std::stringstream in(text);
  std::string line;
  for (std::uint32_t n = 1; std::getline(in, line); ++n) {
    if (line.ends_with("// refused")) lines.insert(n);
  }
  return lines;
}

}  // namespace

TEST_CASE("accept fixtures are legal") {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(PTX_SOURCE_DIR "/tests/fixtures/accept")) {
    CAPTURE(entry.path().filename().string());
    const Verdict v = verdict(entry.path());
    CHECK_MESSAGE(v.errors.empty(), ptx::to_string(v.errors));
    ++files;
  }
  CHECK(files > 0);
}

TEST_CASE("reject fixtures are refused line by line") {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(PTX_SOURCE_DIR "/tests/fixtures/reject")) {
    CAPTURE(entry.path().filename().string());
    const Verdict v = verdict(entry.path());
    std::set<std::uint32_t> found;
    for (const ptx::Diagnostic& d : v.errors) found.insert(d.place.line);
    const std::set<std::uint32_t> wanted = marked(v.text);
    for (std::uint32_t line : wanted) CHECK_MESSAGE(found.contains(line), "accepted: line " << line);
    for (std::uint32_t line : found) CHECK_MESSAGE(wanted.contains(line), "refused: line " << line);
    ++files;
  }
  CHECK(files > 0);
}
