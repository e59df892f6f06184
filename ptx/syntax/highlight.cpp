#include "ptx/syntax/highlight.h"

#include <algorithm>

namespace ptx::syntax {
namespace {

using Kind = Highlight::Kind;

// What words are in a node, and words with a dot.
struct Words {
  Kind plain = Kind::name, dotted = Kind::directive;
};

std::vector<Words> words_of(const Tree& tree) {
  std::vector<Words> words(tree.tokens().size());
  const auto count = static_cast<NodeId>(tree.nodes().size());
  const auto fill = [&](const Node& node, Words what) {
    std::fill(words.begin() + node.first, words.begin() + std::max(node.first, node.last), what);
  };
  NodeId function = count;  // whose name has not come yet
  for (NodeId id = 0; id < count; ++id) {
    const Node& node = tree.node(id);
    switch (node.kind) {
      case NodeKind::mnemonic: fill(node, {Kind::opcode, Kind::modifier}); break;
      case NodeKind::label: fill(node, {Kind::label, Kind::directive}); break;
      case NodeKind::function: function = id; break;
      case NodeKind::variable:
        words[node.first] = {Kind::name, Kind::directive};
        for (TokenId token = node.first + 1; token < node.last; ++token) words[token].dotted = Kind::type;
        break;
      case NodeKind::address:
        for (TokenId token = node.first; token < node.last; ++token) words[token].dotted = Kind::modifier;
        break;
      case NodeKind::name:
        if (function < count && id < tree.node(function).end) fill(node, {Kind::function, Kind::directive});
        if (function < count) function = count;
        break;
      default: break;
    }
  }
  return words;
}

class Highlighter {
 public:
  explicit Highlighter(const Tree& tree) : tree_(tree), words_(words_of(tree)) {}

  std::vector<Highlight> run() {
    std::uint32_t before = 0;
    for (TokenId id = 0; id < tree_.tokens().size(); ++id) {
      const Token& token = tree_.token(id);
      comments({before, token.begin});
      before = token.end;
      switch (token.kind) {
        case TokenKind::word: word(id, token); break;
        case TokenKind::dot_word: add(words_[id].dotted, token); break;
        case TokenKind::integer:
        case TokenKind::real:
        case TokenKind::f32_bits:
        case TokenKind::f64_bits: add(Kind::number, token); break;
        case TokenKind::string: add(Kind::string, token); break;
        default: break;
      }
    }
    return std::move(found_);
  }

 private:
  void add(Kind kind, const Token& token) { found_.push_back({kind, {token.begin, token.end}}); }
  void word(TokenId id, const Token& token) {
    const bool reg = tree_.source()[token.begin] == '%' && words_[id].plain == Kind::name;
    add(reg ? Kind::reg : words_[id].plain, token);
  }
  void comments(Span trivia) {
    const std::string_view text = tree_.source().substr(0, trivia.end);
    for (auto at = text.find('/', trivia.begin); at < trivia.end; at = text.find('/', at)) {
      const bool block = text.substr(at).starts_with("/*");
      const auto close = block ? text.find("*/", at + 2) : text.find('\n', at);
      const auto end = close == text.npos ? trivia.end : close + 2 * block;
      found_.push_back({Kind::comment, {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(end)}});
      at = end;
    }
  }

  const Tree& tree_;
  const std::vector<Words> words_;
  std::vector<Highlight> found_;
};

}  // namespace

std::vector<Highlight> highlight(const Tree& tree) { return Highlighter(tree).run(); }

}  // namespace ptx::syntax
