#include "ptx/transpile/detail/comments.h"

namespace ptx::transpile {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n\f\v";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// Characters of control, which a line of source could not hold, become `?`.
std::string shown(std::string_view text) {
  std::string made;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    made += byte == '\t' ? ' ' : byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return made;
}

class Reader {
 public:
  explicit Reader(const syntax::Tree& tree) : tree_(tree), lines_(tree.source(), tree.file()) {}

  std::vector<Comment> read() {
    std::uint32_t begin = 0;
    const std::string_view source = tree_.source();
    for (const syntax::Token& token : tree_.tokens()) {
      if (token.begin > begin + 1) trivia(source.substr(begin, token.begin - begin), begin);
      begin = token.end;
    }
    return std::move(found_);
  }

 private:
  void trivia(std::string_view text, std::uint32_t offset) {
    bool first_line = offset != 0;
    for (std::size_t i = 0; i < text.size();) {
      if (text[i] == '\n') first_line = false;
      if (text[i] != '/' || i + 1 == text.size()) {
        ++i;
        continue;
      }
      const bool block = text[i + 1] == '*';
      std::size_t end = text.find(block ? "*/" : "\n", i + 2);
      const std::uint32_t line = lines_.place(offset + static_cast<std::uint32_t>(i)).line;
      add(text.substr(i + 2, std::min(end, text.size()) - i - 2), line, first_line, block);
      if (end == text.npos) return;
      i = end + (block ? 2 : 0);
    }
  }
  void add(std::string_view text, std::uint32_t line, bool behind, bool block) {
    if (!block) return found_.push_back({line, behind, shown(trimmed(text))});
    while (true) {
      const std::size_t end = text.find('\n');
      std::string_view part = trimmed(text.substr(0, end));
      if (part.starts_with('*')) part = trimmed(part.substr(1));  // the stars at the left of a block
      if (!part.empty()) found_.push_back({line, behind, shown(part)});
      if (end == text.npos) return;
      text.remove_prefix(end + 1);
      behind = false;
      ++line;
    }
  }

  const syntax::Tree& tree_;
  const syntax::Lines lines_;
  std::vector<Comment> found_;
};

}  // namespace

namespace {

// What compilers write around inline assembly and calls, at the head of blocks and functions, and to set lines apart.
bool is_mark(const Comment& c) {
  for (const std::string_view word : {"callseq ", "%bb.", ".globl", "-- Begin function", "-- End function"})
    if (c.text.starts_with(word)) return true;
  return c.text.empty() || c.text == "begin inline asm" || c.text == "end inline asm";
}

}  // namespace

std::vector<Comment> comments_of(const syntax::Tree& tree, bool marks) {
  std::vector<Comment> found = Reader(tree).read();
  if (!marks) std::erase_if(found, is_mark);
  return found;
}

std::vector<std::uint32_t> ends_of_functions(const syntax::Tree& tree) {
  const syntax::Lines lines(tree.source(), tree.file());
  std::vector<std::uint32_t> ends;
  for (const syntax::NodeId id : tree.children(0)) {
    if (tree.node(id).kind == syntax::NodeKind::function)
      ends.push_back(lines.place(tree.token(tree.node(id).last - 1).begin).line);
  }
  return ends;
}

}  // namespace ptx::transpile
