// Two passes: over the nodes, where each token's line begins; over the tokens, the white space between two of them. So
// no token can be lost, whatever the nodes are.
#include "ptx/syntax/format.h"

#include <cstring>

#include "ptx/syntax/parse.h"
#include "ptx/syntax/print.h"

namespace ptx::syntax {
namespace {

enum Mark : std::uint8_t {
  line = 1,      // begins a line
  tab = 2,       // behind a tab
  gap = 4,       // a blank before it: the operands behind a mnemonic
  code = 8,      // begins an instruction
  apart = 16,    // a blank line before it: a function
  verbatim = 32  // with its trivia as it is
};

// Where lines begin.
class Layout {
 public:
  explicit Layout(const Tree& tree) : tree_(tree), marks(tree.tokens().size() + 1) { statements(); }

 private:
  void statements() {
    std::vector<NodeId> open;  // blocks and functions
    const auto count = static_cast<NodeId>(tree_.nodes().size());
    for (NodeId id = 1; id < count;) {
      while (!open.empty() && id >= tree_.node(open.back()).end) open.pop_back();
      switch (tree_.node(id).kind) {
        case NodeKind::function: function(id), open.push_back(id++); break;
        case NodeKind::block: braces(id), open.push_back(id++); break;
        case NodeKind::section: section(id), id = tree_.node(id).end; break;
        default:
          if (!open.empty() && tree_.node(open.back()).kind == NodeKind::function)
            head(id);
          else
            statement(id, !open.empty());
          id = tree_.node(id).end;
      }
    }
  }

  void statement(NodeId id, bool inside) {
    const Node& node = tree_.node(id);
    const bool label = node.kind == NodeKind::label;
    mark(node.first, label || !inside ? line : line | tab);
    if (node.kind == NodeKind::error) {
      for (TokenId token = node.first + 1; token < node.last; ++token) mark(token, verbatim);
    }
    if (node.kind != NodeKind::instruction) return;
    mark(node.first, code);
    for (const NodeId part : tree_.children(id)) {
      const NodeKind kind = tree_.node(part).kind;
      if (kind != NodeKind::guard && kind != NodeKind::mnemonic) break;
      mark(tree_.node(part).last, gap);
    }
  }

  void function(NodeId id) { mark(tree_.node(id).first, line | apart), named_ = false; }
  // A part of a function before its body.
  void head(NodeId id) {
    const Node& node = tree_.node(id);
    if (node.kind == NodeKind::name) named_ = true;
    if (node.kind == NodeKind::directive || node.kind == NodeKind::error) mark(node.first, line);
    if (node.kind != NodeKind::parameters || !named_ || tree_.children(id).empty()) return;
    for (const NodeId parameter : tree_.children(id)) mark(tree_.node(parameter).first, line | tab);
    if (tree_.token(node.last - 1).kind == TokenKind::right_paren) mark(node.last - 1, line);
  }

  void braces(NodeId id) {
    const Node& node = tree_.node(id);
    mark(node.first, line);
    if (node.last > node.first + 1 && tree_.token(node.last - 1).kind == TokenKind::right_brace)
      mark(node.last - 1, line);
  }
  void section(NodeId id) {
    const Node& node = tree_.node(id);
    for (TokenId token = node.first; token < node.last; ++token) {
      const TokenKind kind = tree_.token(token).kind;
      if (kind == TokenKind::left_brace || kind == TokenKind::right_brace) mark(token, line);
    }
    mark(node.first, line);
    for (const NodeId part : tree_.children(id)) {
      if (tree_.node(part).kind == NodeKind::data) mark(tree_.node(part).first, line | tab);
      if (tree_.node(part).kind == NodeKind::label) mark(tree_.node(part).first, line);
    }
  }

  void mark(TokenId token, int what) { marks[token] |= static_cast<std::uint8_t>(what); }

  const Tree& tree_;
  bool named_ = false;

 public:
  std::vector<std::uint8_t> marks;
};

bool ends_word(TokenKind kind) {
  return (kind >= TokenKind::word && kind <= TokenKind::bad) || kind == TokenKind::right_paren ||
         kind == TokenKind::right_bracket || kind == TokenKind::right_brace;
}
bool begins_word(TokenKind kind) {
  return (kind >= TokenKind::word && kind <= TokenKind::bad) || kind == TokenKind::left_paren ||
         kind == TokenKind::left_bracket || kind == TokenKind::left_brace;
}

class Writer {
 public:
  Writer(const Tree& tree, const FormatOptions& options)
      : tree_(tree), source_(tree.source()), options_(options), marks_(Layout(tree).marks) {
    out_.reserve(source_.size() + source_.size() / 8 + 16);
  }

  std::string run() {
    const auto tokens = tree_.tokens();
    for (TokenId id = 0; id + 1 < tokens.size(); ++id) {
      const std::uint8_t mark = marks_[id];
      if (mark & verbatim) {
        out_.append(source_.substr(begin_of_trivia(id), tokens[id].end - begin_of_trivia(id)));
        continue;
      }
      if (mark & line) {
        in_instruction_ = mark & code;
        own_lines(id, mark);
        if (mark & tab) out_ += '\t';
      } else {
        between(id, mark);
      }
      out_.append(source_.data() + tokens[id].begin, tokens[id].end - tokens[id].begin);
    }
    if (!tokens.empty()) own_lines(static_cast<TokenId>(tokens.size() - 1), line);
    return std::move(out_);
  }

 private:
  std::uint32_t begin_of_trivia(TokenId id) const { return id ? tree_.tokens()[id - 1].end : 0; }
  std::string_view trivia(TokenId id) const {
    return source_.substr(begin_of_trivia(id), tree_.tokens()[id].begin - begin_of_trivia(id));
  }
  // Whether it is nothing but white space; counts its line breaks.
  static bool plain(std::string_view trivia, int& breaks) {
    for (const char c : trivia) {
      if (c == '/' || c == '#') return false;
      breaks += c == '\n';
    }
    return true;
  }

  // ---- within a statement

  void between(TokenId id, std::uint8_t mark) {
    const std::string_view before = trivia(id);
    if (id == 0) return;
    int breaks = 0;
    if (!plain(before, breaks) && options_.comments) {
      bool fresh = false;
      each_comment(before, [&](std::string_view comment, int, bool ends_line) {
        out_.append(fresh ? "\n\t\t" : " ").append(comment);
        fresh = ends_line;
      });
      out_ += fresh ? "\n\t\t" : " ";
    } else if ((mark & gap) ? tree_.token(id).kind != TokenKind::semicolon : blank(id, before.empty())) {
      out_ += ' ';
    }
  }
  bool blank(TokenId id, bool adjacent) const {
    const TokenKind left = tree_.token(id - 1).kind, right = tree_.token(id).kind;
    if (left == TokenKind::comma) return right != TokenKind::comma;
    if (left == TokenKind::equals || right == TokenKind::equals) return true;
    // %b is a word.
    if (left == TokenKind::percent || right == TokenKind::percent) return true;
    if (!ends_word(left) || !begins_word(right)) return false;
    if (right == TokenKind::dot_word) return !in_instruction_ && !(adjacent && left == TokenKind::word);
    if (right == TokenKind::left_bracket) return false;
    if (right == TokenKind::left_paren) {
      if (left == TokenKind::dot_word) return text(id - 1) != ".attribute";
      return left != TokenKind::word && left != TokenKind::integer;
    }
    return left != TokenKind::right_bracket || right != TokenKind::left_bracket;
  }
  std::string_view text(TokenId id) const { return tree_.text(id); }

  // ---- between statements

  // Ends the line before; writes the comments and the blank line that stand there.
  void own_lines(TokenId id, std::uint8_t mark) {
    const std::string_view before = trivia(id);
    bool ended = out_.empty();
    bool at_brace = id > 0 && tree_.token(id - 1).kind == TokenKind::left_brace;
    bool wants_blank = (mark & apart) && !ended;
    const char* const indent = inside_ ? "\t" : "";
    int breaks = 0;
    if (!plain(before, breaks)) {
      each_comment(
          before,
          [&](std::string_view comment, int lines, bool ends_line) {
            if (!options_.comments && comment[0] != '#') return;
            if (lines == 0 && !ended && comment[0] != '#') {
              out_.append(" ").append(comment);  // behind the statement
              if (ends_line) out_ += '\n', ended = true;
              return;
            }
            if (!ended) out_ += '\n';
            blank_line(wants_blank || (lines > 1 && !at_brace), wants_blank);
            out_.append(comment[0] == '#' ? "" : indent).append(comment) += '\n', at_brace = false;
            ended = true;
          },
          &breaks);
    }
    if (!ended) out_ += '\n';
    const bool last = id + 1 == tree_.tokens().size();
    const bool closes = tree_.token(id).kind == TokenKind::right_brace;
    if (!last)
      blank_line(wants_blank || (breaks > 1 && !at_brace && !closes && !(mark & tab && in_head_)), wants_blank);
    track(id);
  }
  void blank_line(bool wanted, bool& owed) {
    if ((wanted && options_.blank_lines) || owed) {
      if (!out_.empty() && !out_.ends_with("\n\n")) out_ += '\n';
    }
    owed = false;
  }
  // Comments in a body stand behind a tab.
  void track(TokenId id) {
    const TokenKind kind = tree_.token(id).kind;
    if (kind == TokenKind::left_brace) ++inside_;
    if (kind == TokenKind::right_brace && inside_) --inside_;
    in_head_ = (marks_[id] & apart) || (in_head_ && kind != TokenKind::left_brace);
  }

  // take(comment, line breaks before it, whether a line ends with it); `rest` gets the line breaks behind the last.
  template <class Take>
  void each_comment(std::string_view trivia, Take take, int* rest = nullptr) const {
    int lines = 0;
    for (std::size_t at = 0; at < trivia.size();) {
      const char c = trivia[at];
      if (c == '/' && trivia.substr(at).starts_with("/*")) {
        const std::size_t close = trivia.find("*/", at + 2);
        const std::size_t end = close == trivia.npos ? trivia.size() : close + 2;
        std::string_view comment = trivia.substr(at, end - at);
        if (close == trivia.npos) comment = comment.substr(0, comment.find_last_not_of(" \t\r\f\n") + 1);
        take(comment, lines, close == trivia.npos);
        lines = 0, at = end;
      } else if (c == '/' || c == '#') {
        const std::size_t end = std::min(trivia.find('\n', at), trivia.size());
        std::string_view comment = trivia.substr(at, end - at);
        while (!comment.empty() && std::strchr(" \t\r\f", comment.back())) comment.remove_suffix(1);
        take(comment, lines, true);
        lines = 1, at = end + 1;
      } else {
        lines += c == '\n';
        ++at;
      }
    }
    if (rest) *rest = lines;
  }

  const Tree& tree_;
  const std::string_view source_;
  const FormatOptions options_;
  const std::vector<std::uint8_t> marks_;
  std::string out_;
  int inside_ = 0;
  bool in_instruction_ = false, in_head_ = false;
};

}  // namespace

std::string format(const Tree& tree, const FormatOptions& options) {
  if (tree.edited()) return format(parse(print(tree), tree.file()).tree, options);
  return Writer(tree, options).run();
}

}  // namespace ptx::syntax
