// print(parse(x)) == x for any x; what an edit changes, and that it changes nothing else.
#include "ptx/syntax/print.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ptx/syntax/parse.h"
#include "tests/ptx_files.h"

using namespace ptx;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(PTX_SOURCE_DIR) / "tests/fixtures/syntax";

// The tree's own invariants: ranges nest, children are in order, the tokens add up to the text.
void check_tree(const syntax::Tree& tree) {
  const auto nodes = tree.nodes();
  bool good = nodes[0].first == 0 && nodes[0].last == tree.tokens().size() && nodes[0].end == nodes.size();
  for (syntax::NodeId id = 0; id < nodes.size(); ++id) {
    syntax::TokenId position = nodes[id].first;
    for (const auto child : tree.children(id)) {
      good = good && nodes[child].first >= position && nodes[child].end <= nodes[id].end;
      position = nodes[child].last;
    }
    good = good && position <= nodes[id].last;
  }
  std::string sum;
  for (syntax::TokenId id = 0; id < tree.tokens().size(); ++id) sum.append(tree.trivia(id)).append(tree.text(id));
  CHECK(good);
  CHECK(sum == tree.source());
}

syntax::NodeId find(const syntax::Tree& tree, std::string_view text) {
  for (syntax::NodeId id = 0; id < tree.nodes().size(); ++id) {
    if (syntax::print(tree, id) == text) return id;
  }
  FAIL("no node reads " << std::string(text));
  return 0;
}

}  // namespace

TEST_CASE("fixtures parse without a diagnostic and print back") {
  const auto files = ptx_files(fixtures);
  REQUIRE(files.size() >= 14);
  for (const auto& file : files) {
    CAPTURE(file.filename().string());
    const std::string text = read(file);
    const auto parsed = syntax::parse(text, Name(file.filename().string()));
    CHECK(to_string(parsed.diagnostics) == "");
    CHECK(syntax::print(parsed.tree) == text);
    check_tree(parsed.tree);
  }
}

TEST_CASE("what compilers write parses without a diagnostic and prints back") {
  std::vector<fs::path> files = ptx_files(fs::path(PTX_SOURCE_DIR) / "../shared/corpus");
  if (const char* home = std::getenv("HOME")) {
    for (auto& file : ptx_files(fs::path(home) / ".cache/pyptx/corpus/ptx")) files.push_back(std::move(file));
  }
  if (files.empty()) {
    MESSAGE("skipped: no ../shared/corpus and no corpus in the cache");
    return;
  }
  for (const auto& file : files) {
    CAPTURE(file.filename().string());
    const std::string text = read(file);
    const auto parsed = syntax::parse(text);
    CHECK(to_string(parsed.diagnostics) == "");
    CHECK(syntax::print(parsed.tree) == text);
  }
}

TEST_CASE("every truncation of every fixture prints back") {
  for (const auto& file : ptx_files(fixtures)) {
    const std::string text = read(file);
    for (std::size_t length = 0; length < text.size(); ++length) {
      const std::string part = text.substr(0, length);
      const auto parsed = syntax::parse(part);
      if (syntax::print(parsed.tree) != part) FAIL("differs at " << length << " bytes of " << file.filename().string());
    }
  }
}

TEST_CASE("any bytes print back") {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  std::string nuls("ret;\0\0 mov.b32\0 a, b;\0", 23);
  for (const std::string& text : {std::string(),
                                  std::string("\0", 1),
                                  nuls,
                                  all,
                                  all + all,
                                  std::string("\xef\xbb\xbf.version 8.5"),
                                  std::string(100000, '{'),
                                  std::string(100000, '('),
                                  "mov.b32 a, " + std::string(100000, '-') + ";",
                                  std::string(100000, '}'),
                                  "mov.b32 a, " + std::string(100000, '[') + ";",
                                  std::string(5000, '"'),
                                  std::string("/*"),
                                  std::string("/"),
                                  std::string("."),
                                  std::string("%"),
                                  std::string("0x"),
                                  std::string("@"),
                                  std::string("# 1"),
                                  std::string(".reg .b32 a<"),
                                  std::string(".section"),
                                  std::string(".func (")}) {
    CAPTURE(text.substr(0, 40));
    const auto parsed = syntax::parse(text);
    CHECK(syntax::print(parsed.tree) == text);
    check_tree(parsed.tree);
  }
}

TEST_CASE("every mutation of a byte prints back") {
  const std::string text = read(fixtures / "operands.ptx");
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char c : {';', '{', '}', '"', '\0', '(', '.', '\n', '\xff'}) {
      std::string changed = text;
      changed[at] = c;
      if (syntax::print(syntax::parse(changed).tree) != changed) FAIL("differs with a changed byte " << at);
    }
  }
}

TEST_CASE("an edited token prints its edit, and all else as it was") {
  const std::string text = ".entry k() { // one\n\tmov.u32 a, /* here */ 1; // two\n\tret;\n}\n";
  auto tree = syntax::parse(text).tree;
  const auto literal = tree.node(find(tree, "1")).first;
  tree.replace(literal, "0x10");
  CHECK(syntax::print(tree) == ".entry k() { // one\n\tmov.u32 a, /* here */ 0x10; // two\n\tret;\n}\n");
  CHECK(tree.text(literal) == "0x10");
  CHECK(tree.source() == text);
  tree.replace(literal, "7");
  CHECK(syntax::print(tree) == ".entry k() { // one\n\tmov.u32 a, /* here */ 7; // two\n\tret;\n}\n");
}

TEST_CASE("statements are inserted on lines of their own, indented as their neighbour") {
  auto tree = syntax::parse(".entry k()\r\n{\r\n\t// why\r\n\tret;\r\n}\r\n").tree;
  const auto statement = find(tree, "ret;");
  tree.insert_before(statement, "bar.sync 0;");
  tree.insert_before(statement, "bar.sync 1;");
  tree.insert_after(statement, "trap;");
  CHECK(syntax::print(tree) ==
        ".entry k()\r\n{\r\n\t// why\r\n\tbar.sync 0;\r\n\tbar.sync 1;\r\n\tret;\r\n\ttrap;\r\n}\r\n");

  auto line = syntax::parse("{ ret; }").tree;
  line.insert_before(find(line, "ret;"), "trap;");
  CHECK(syntax::print(line) == "{ trap; ret; }");
}

TEST_CASE("a removed statement takes its line along, never a comment's end") {
  auto lines = syntax::parse("{\n\t// why\n\tret;\n\ttrap;\n}").tree;
  lines.remove(find(lines, "ret;"));
  CHECK(syntax::print(lines) == "{\n\t// why\n\ttrap;\n}");

  auto shared = syntax::parse("{ // why\n\tret; trap; }").tree;
  shared.remove(find(shared, "ret;"));
  CHECK(syntax::print(shared) == "{ // why\n\t trap; }");

  auto replaced = syntax::parse("{\n\tret;\n}").tree;
  const auto old = find(replaced, "ret;");
  replaced.insert_before(old, "trap;");
  replaced.remove(old);
  CHECK(syntax::print(replaced) == "{\n\ttrap;\n}");
}
