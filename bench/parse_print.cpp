// Text to tree and back, on one core, over PTX files: bench_parse_print FILE_OR_FOLDER...
// Columns: MB = 10^6 bytes read, parse and print in MB/s each alone, both in MB/s for parse + print, bytes a token,
// and bytes of tree (tokens and nodes) a byte of text. Each file's best of nine rounds; no file is read in them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "ptx/syntax/parse.h"
#include "ptx/syntax/print.h"

namespace {

using Texts = std::vector<std::shared_ptr<const std::string>>;

void add(Texts& texts, const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  texts.push_back(
      std::make_shared<const std::string>(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()));
}

double seconds(auto&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  Texts texts;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      add(texts, argv[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (entry.path().extension() == ".ptx") add(texts, entry.path());
    }
  }
  double bytes = 0, tokens = 0, nodes = 0;
  double parse = 0, print = 0;
  bool same = true;
  for (const auto& text : texts) {
    double best_parse = 1e30, best_print = 1e30;
    for (int round = 0; round < 9; ++round) {
      ptx::syntax::Parsed parsed;
      best_parse = std::min(best_parse, seconds([&] { parsed = ptx::syntax::parse(text); }));
      std::string printed;
      best_print = std::min(best_print, seconds([&] { printed = ptx::syntax::print(parsed.tree); }));
      same = same && printed == *text;
      if (round > 0) continue;
      bytes += static_cast<double>(text->size());
      tokens += static_cast<double>(parsed.tree.tokens().size());
      nodes += static_cast<double>(parsed.tree.nodes().size());
    }
    parse += best_parse;
    print += best_print;
  }
  if (bytes == 0) return std::puts("usage: bench_parse_print FILE_OR_FOLDER..."), 1;
  const double both = parse + print;
  std::printf("files     MB   parse   print    both  bytes/token  tree/text  identical\n");
  std::printf("%5zu %6.2f %7.0f %7.0f %7.0f %12.2f %10.2f  %s\n", texts.size(), bytes / 1e6, bytes / parse / 1e6,
              bytes / print / 1e6, bytes / both / 1e6, bytes / tokens, (tokens * 12 + nodes * 16) / bytes,
              same ? "yes" : "NO");
  return same ? 0 : 1;
}
