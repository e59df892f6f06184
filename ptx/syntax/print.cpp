// The printer: one walk over the tokens of a node.
#include "ptx/syntax/print.h"

namespace ptx::syntax {

class Printer {
 public:
  explicit Printer(const Tree& tree) : tree_(tree), source_(tree.source()) {}

  std::string print(TokenId first, TokenId last, bool with_trivia) {
    out_.reserve(last == tree_.tokens_.size() ? source_.size() : 0);
    for (TokenId id = first; id != last; ++id) {
      const Token& token = tree_.tokens_[id];
      const bool trivia = with_trivia || id != first;
      const std::uint32_t begin = !trivia ? token.begin : id ? tree_.tokens_[id - 1].end : 0;
      if (token.edited) {
        edited(tree_.edits_.at(id), source_.substr(begin, token.begin - begin), tree_.text(id));
      } else {
        out_.append(source_.data() + begin, token.end - begin);
      }
    }
    return std::move(out_);
  }

 private:
  void edited(const Tree::Edit& edit, std::string_view trivia, std::string_view text) {
    using Trivia = Tree::Edit::Trivia;
    std::string_view before = edit.before;
    if (edit.trivia == Trivia::without_last_line) {
      if (before.empty()) trivia = trivia.substr(0, last_line(trivia));
      before.remove_suffix(edit.separator);
    }
    if (edit.trivia != Trivia::none) out_.append(trivia);
    out_.append(before).append(text).append(edit.after);
  }

  // Where the last line of a trivia begins, its line break included.
  static std::size_t last_line(std::string_view trivia) {
    const auto newline = trivia.rfind('\n');
    if (newline == trivia.npos || trivia.find_first_not_of(" \t", newline + 1) != trivia.npos) return trivia.size();
    return newline > 0 && trivia[newline - 1] == '\r' ? newline - 1 : newline;
  }

  const Tree& tree_;
  const std::string_view source_;
  std::string out_;
};

std::string print(const Tree& tree) { return Printer(tree).print(0, static_cast<TokenId>(tree.tokens().size()), true); }

std::string print(const Tree& tree, NodeId node) {
  return Printer(tree).print(tree.node(node).first, tree.node(node).last, false);
}

}  // namespace ptx::syntax
