// Text to tree and back, on one core, over PTX files: bench_parse_print FILE_OR_FOLDER...
// Columns: MB = 10^6 bytes read, parse and print in MB/s each alone, both in MB/s for parse + print, bytes a token,
// and bytes of tree (tokens and nodes) a byte of text. The best of several rounds; no file is read in them.
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
  double parse = 1e30, print = 1e30, both = 1e30;
  bool same = true;
  for (const auto& text : texts) {
    const auto parsed = ptx::syntax::parse(text);
    bytes += static_cast<double>(text->size());
    tokens += static_cast<double>(parsed.tree.tokens().size());
    nodes += static_cast<double>(parsed.tree.nodes().size());
    same = same && ptx::syntax::print(parsed.tree) == *text;
  }
  if (bytes == 0) return std::puts("usage: bench_parse_print FILE_OR_FOLDER..."), 1;
  for (int round = 0; round < 7; ++round) {
    double parse_time = 0, print_time = 0;
    for (const auto& text : texts) {
      ptx::syntax::Parsed parsed;
      parse_time += seconds([&] { parsed = ptx::syntax::parse(text); });
      std::string printed;
      print_time += seconds([&] { printed = ptx::syntax::print(parsed.tree); });
      same = same && printed.size() == text->size();
    }
    parse = std::min(parse, parse_time);
    print = std::min(print, print_time);
    both = std::min(both, parse_time + print_time);
  }
  std::printf("files     MB   parse   print    both  bytes/token  tree/text  identical\n");
  std::printf("%5zu %6.2f %7.0f %7.0f %7.0f %12.2f %10.2f  %s\n", texts.size(), bytes / 1e6, bytes / parse / 1e6,
              bytes / print / 1e6, bytes / both / 1e6, bytes / tokens, (tokens * 12 + nodes * 16) / bytes,
              same ? "yes" : "NO");
  return same ? 0 : 1;
}
