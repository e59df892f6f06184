// Every fixture of tests/fixtures/run on the simulator, with the plain schedule and with seeded ones.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/sim/run.h"

using namespace ptx;

TEST_CASE("run fixtures") {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(PTX_SOURCE_DIR "/tests/fixtures/run")) {
    if (entry.path().extension() == ".ptx") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  REQUIRE(!files.empty());
  for (const auto& file : files) {
    const std::string text = sim_test::read_file(file);
    const sim_test::Fixture fixture = sim_test::parse_fixture(text);
    for (const std::uint64_t seed : {0, 1, 2, 3}) {
      const auto result = sim_test::run(text, fixture, {.cores = 2, .seed = seed});
      INFO(file.filename().string(), ", seed ", seed);
      CHECK_MESSAGE(result.diagnostics.empty(), to_string(result.diagnostics));
      std::size_t i = 0;
      for (const auto& a : fixture.arguments) {
        if (a.kind != "out" && a.kind != "inout") continue;
        REQUIRE(i < result.outputs.size() + !result.diagnostics.empty());
        if (i < result.outputs.size() && !a.expected.empty()) CHECK(result.outputs[i] == a.expected);
        ++i;
      }
    }
  }
}
