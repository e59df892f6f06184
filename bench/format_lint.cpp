// Layout and lint of PTX files on one core: bench_format_lint FOLDER. MB = 10^6 bytes of text in processor time, each
// from the text on (parsing, and for lint lowering and checking, are in it). Best of five rounds; no file is read in
// them.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/lint/lint.h"
#include "ptx/syntax/format.h"
#include "ptx/syntax/parse.h"
#include "tests/ptx_files.h"

using namespace ptx;

int main(int argc, char** argv) {
  std::vector<std::string> texts;
  double megabytes = 0;
  for (const auto& path : ptx_files(argc > 1 ? argv[1] : "tests/fixtures")) {
    texts.push_back(read(path));
    megabytes += static_cast<double>(texts.back().size()) / 1e6;
  }
  const auto rate = [&](auto&& work) {
    double best = 1e9;
    for (int round = 0; round < 5; ++round) {
      const std::clock_t start = std::clock();
      for (const std::string& text : texts) work(text);
      best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    return megabytes / best;
  };
  std::size_t kept = 0;  // so that nothing is left out
  const double format = rate([&](const std::string& text) { kept += syntax::format(syntax::parse(text).tree).size(); });
  const double lint = rate([&](const std::string& text) {
    const syntax::Parsed parsed = syntax::parse(text);
    ir::Lowered lowered = ir::lower(parsed.tree);
    check::check(lowered.module, false, true);
    kept += lint::lint(parsed.tree, lowered.module).size();
  });
  std::printf("%zu files, %.1f MB: format %.0f MB/s, lint %.0f MB/s (%zu)\n", texts.size(), megabytes, format, lint,
              kept);
}
