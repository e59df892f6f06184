// Every single-thread kernel of ../shared/corpus/zluda whose instructions the simulator runs gives the bytes that an
// H200 gave.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "tests/sim/run.h"

using namespace ptx;

namespace {

// Kernels that do not run, each with the reason. A line that no longer holds fails the test.
struct Gap {
  std::string_view file, why;
};
const Gap gaps[] = {
    {"vector8_extract.ptx", "vectors of eight bytes and mov.v8 are not PTX up to 9.1"},
};

}  // namespace

TEST_CASE("zluda kernels") {
  const std::filesystem::path corpus = std::filesystem::path(PTX_SOURCE_DIR) / "../shared/corpus/zluda";
  if (!std::filesystem::exists(corpus)) {
    MESSAGE("skipped: no ../shared/corpus");
    return;
  }
  const auto rows = sim_test::read_table(corpus / "expected.tsv");
  int ran = 0;
  for (const auto& row : rows) {
    CAPTURE(row[0]);
    const std::string text = sim_test::read_file(corpus / row[0]);
    sim_test::Fixture f;
    f.dynamic_shared = 1024;
    f.arguments = {{"in", row[2], {}}, {"inout", std::string(row[4].size(), '0'), row[4]}};
    const auto result = sim_test::run(text, f);
    const auto gap = std::find_if(std::begin(gaps), std::end(gaps), [&](const Gap& g) { return g.file == row[0]; });
    const bool equal = result.diagnostics.empty() && !result.outputs.empty() && result.outputs[0] == row[4];
    if (gap != std::end(gaps)) {
      CHECK_MESSAGE(!equal, "runs now; its line among the gaps is stale");
      continue;
    }
    CHECK_MESSAGE(result.diagnostics.empty(), to_string(result.diagnostics));
    if (!result.outputs.empty()) CHECK(result.outputs[0] == row[4]);
    ran += equal;
  }
  CHECK(ran + static_cast<int>(std::size(gaps)) == static_cast<int>(rows.size()));
}
