// fixtures/quirks: a line marked "// taken" has one warning, assembler_only, and no error; one marked "// refused"
// an error. Every row of ptxas_13_5.def is met by a line. tests/oracle/test_quirks.py asks the assembler the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/quirks/detail/form_set.h"
#include "ptx/syntax/parse.h"

namespace {

namespace fs = std::filesystem;
using ptx::Code;
using ptx::Severity;
using ptx::quirks::FormSet;

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

// Reasons as they stand in ptxas_13_5.def, and what begins the message of modifiers that are passed over.
constexpr std::string_view reasons[] = {
#define OPERAND(forms, operands, code, applies, reason) reason,
#define RULE(forms, rule, applies, reason) reason,
#define TARGET(forms, applies, reason) reason,
#define EXTRA(forms, applies, reason) reason,
#define MISSING(forms, applies, reason) reason,
#define LEFT_OUT(begin, modifier, reason) reason,
#include "ptx/quirks/ptxas_13_5.def"
    "it passes over .",
};

}  // namespace

TEST_CASE("what the assembler takes beyond the manual is a warning, its neighbour an error") {
  std::set<std::string_view> met;
  for (const auto& entry : fs::directory_iterator(PTX_SOURCE_DIR "/tests/fixtures/quirks")) {
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

TEST_CASE("every row names operands of its forms") {
  struct Row {
    FormSet forms;
    std::string_view operands;
  };
  static constexpr Row rows[] = {
#define OPERAND(forms, operands, code, applies, reason) {forms, operands},
#include "ptx/quirks/ptxas_13_5.def"
  };
  for (const Row& row : rows) {
    std::istringstream names{std::string(row.operands)};
    for (std::string name; names >> name;) {
      bool found = false;
      for (ptx::isa::FormId id = 0; const ptx::isa::Form& form : ptx::isa::forms()) {
        if (!row.forms.has(id++)) continue;
        for (const ptx::isa::OperandRow& operand : form.operands) found = found || form.text(operand.name) == name;
      }
      CHECK_MESSAGE(found, row.operands, ": ", name);
    }
  }
}

TEST_CASE("modifiers that are ignored or left out are of some instruction") {
  std::set<std::string_view> known;
  for (const ptx::isa::Form& form : ptx::isa::forms()) {
    for (const ptx::isa::Modifier& m : form.modifiers) {
      if (m.slot == ptx::isa::Modifier::literal) known.insert(form.text(m.text));
    }
    for (const ptx::isa::Value& v : form.values) known.insert(form.text(v.text));
  }
  constexpr std::string_view named[] = {
#define IGNORED(modifier, except) modifier,
#define LEFT_OUT(begin, modifier, reason) modifier,
#include "ptx/quirks/ptxas_13_5.def"
  };
  for (const std::string_view modifiers : named) {
    std::string spaced(modifiers);
    std::replace(spaced.begin(), spaced.end(), '.', ' ');
    std::istringstream names(spaced);
    for (std::string name; names >> name;) CHECK_MESSAGE(known.contains(name), name);
  }
}
