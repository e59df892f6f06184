// fixtures/tolerated: a line marked "// taken" has one warning, assembler_only, and no error; one marked "// refused"
// an error. Every row of tolerance.def is met by a line. tests/oracle/test_tolerated.py asks the assembler the same.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/syntax/parse.h"

namespace {

namespace fs = std::filesystem;
using ptx::Code;
using ptx::Severity;

std::string contents(const fs::path& path) {
  std::stringstream all;
  all << std::ifstream(path, std::ios::binary).rdbuf();
  return all.str();
}

std::map<std::uint32_t, ptx::Diagnostics> by_line(const std::string& text) {
  const ptx::syntax::Parsed parsed = ptx::syntax::parse(text);
  CHECK(parsed.diagnostics.empty());
  ptx::ir::Lowered lowered = ptx::ir::lower(parsed.tree);
  CHECK(lowered.diagnostics.empty());
  std::map<std::uint32_t, ptx::Diagnostics> lines;
  for (ptx::Diagnostic& d : ptx::check::check(lowered.module)) lines[d.place.line].push_back(std::move(d));
  return lines;
}

// Reasons as they stand in tolerance.def, and what begins the message of words that are passed over.
constexpr std::string_view reasons[] = {
#define OPERAND(forms, operands, code, applies, reason) reason,
#define RULE(forms, rule, applies, reason) reason,
#define TARGET(forms, applies, reason) reason,
#define EXTRA(forms, applies, reason) reason,
#define MISSING(forms, applies, reason) reason,
#define LEFT_OUT(begin, word, reason) reason,
#include "ptx/check/tolerance.def"
    "it passes over .",
};

}  // namespace

TEST_CASE("what the assembler takes beyond the manual is a warning, its neighbour an error") {
  std::set<std::string_view> met;
  for (const auto& entry : fs::directory_iterator(PTX_SOURCE_DIR "/tests/fixtures/tolerated")) {
    const std::string text = contents(entry.path());
    const auto found = by_line(text);
    std::stringstream in(text);
    std::string line;
    for (std::uint32_t n = 1; std::getline(in, line); ++n) {
      CAPTURE(line);
      const bool taken = line.ends_with("// taken"), refused = line.ends_with("// refused");
      const auto here = found.find(n);
      REQUIRE((here != found.end()) == (taken || refused));
      if (!taken && !refused) continue;
      REQUIRE(here->second.size() == 1);
      const ptx::Diagnostic& d = here->second[0];
      CAPTURE(d.message);
      CHECK(d.severity == (taken ? Severity::warning : Severity::error));
      if (!taken) continue;
      CHECK(d.code == Code::assembler_only);
      CHECK(!d.section.empty());
      for (const std::string_view reason : reasons) {
        if (d.message.find(reason) != std::string::npos) met.insert(reason);
      }
    }
  }
  for (const std::string_view reason : reasons) CHECK_MESSAGE(met.contains(reason), reason);
}
