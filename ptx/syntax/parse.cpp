// The parser: recursive descent over the tokens; blocks by a stack of their own, so that no depth of text overflows
// ours. It knows how statements and operands are put together, never what they mean. What it refuses, ptxas refuses too
// (13.5, tried), except for texts of the years before PTX 2.0: of those it reads what nvopencc wrote.
#include "ptx/syntax/parse.h"

#include <algorithm>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/syntax/detail/lex.h"

namespace ptx::syntax {
namespace {

enum class Shape : std::uint8_t {
  flag,
  bare,
  list,
  names,
  variable,
  linkage,
  function,
  file,
  location,
  section,
  prototype
};
enum class Where : std::uint8_t { module, header, body, any };

struct Directive {
  std::string_view word;
  Shape shape;
  Where where;
};
constexpr Directive directives[] = {
#define DIRECTIVE(word, shape, where) {word, Shape::shape, Where::where},
#include "ptx/syntax/directives.def"
#undef DIRECTIVE
};
static_assert(std::is_sorted(std::begin(directives), std::end(directives),
                             [](const Directive& a, const Directive& b) { return a.word < b.word; }));

const Directive* find_directive(std::string_view word) {
  const auto found = std::lower_bound(std::begin(directives), std::end(directives), word,
                                      [](const Directive& row, std::string_view text) { return row.word < text; });
  return found != std::end(directives) && found->word == word ? found : nullptr;
}

bool is_number(TokenKind kind) { return kind >= TokenKind::integer && kind <= TokenKind::f64_bits; }
bool is_operator(TokenKind kind) {
  return kind == TokenKind::colon || (kind >= TokenKind::plus && kind <= TokenKind::question);
}

}  // namespace

class Parser {
 public:
  Parser(std::shared_ptr<const std::string> text, Name file) {
    tree_.source_ = std::move(text);
    tree_.file_ = file;
  }

  Parsed run() {
    if (tree_.source_->size() > 0xfffffffe) return too_long();
    Lexed lexed = lex(*tree_.source_);
    tree_.tokens_ = std::move(lexed.tokens);
    tokens_ = tree_.tokens_.data();
    tree_.nodes_.reserve(tree_.tokens_.size() * 3 / 4 + 4);
    const NodeId root = open(NodeKind::module);
    if (lexed.foreign != 0)
      report(
          Code::bad_byte, {0, lexed.foreign},
          lexed.foreign == 3 ? "a byte-order mark stands before the text: PTX is ASCII, save the file without the mark"
          : tree_.source_->starts_with(elf_magic)
              ? "this is an ELF file, machine code: PTX is text, which `cuobjdump -ptx FILE` prints if the file has any"
              : "the text is UTF-16: PTX is ASCII, save the file as ASCII or UTF-8");
    while (kind() != TokenKind::end) statement();
    if (lexed.open_comment != Lexed::no_comment) {
      report(Code::open_comment, {lexed.open_comment, lexed.open_comment + 2}, "this comment has no `*/`");
    }
    while (!blocks_.empty()) report_open(blocks_.back().node), close_block();
    ++position_;
    close(root);
    std::sort(diagnostics_.begin(), diagnostics_.end(), [](const Diagnostic& a, const Diagnostic& b) {
      return a.span.begin != b.span.begin ? a.span.begin < b.span.begin : a.code < b.code;
    });
    return {std::move(tree_), std::move(diagnostics_)};
  }

 private:
  struct Block {
    NodeId node;
    NodeId function;  // the function that the block is the body of, or no_node
  };
  static constexpr NodeId no_node = 0xffffffff;
  static constexpr std::size_t max_diagnostics = 1000;
  static constexpr int max_depth = 200;  // of nested operands; the deepest of a compiler is 3

  // ---- nodes and tokens

  TokenKind kind(int ahead = 0) const { return tokens_[position_ + ahead].kind; }
  std::string_view text(TokenId id) const {
    return {tree_.source_->data() + tokens_[id].begin, tokens_[id].end - tokens_[id].begin};
  }
  NodeId open(NodeKind kind) {
    tree_.nodes_.push_back({kind, position_, position_, 0});
    return static_cast<NodeId>(tree_.nodes_.size() - 1);
  }
  void close(NodeId id) {
    tree_.nodes_[id].last = position_;
    tree_.nodes_[id].end = static_cast<NodeId>(tree_.nodes_.size());
  }
  bool closed(NodeId id, bool result) { return close(id), result; }
  void leaf(NodeKind kind) {
    tree_.nodes_.push_back({kind, position_, position_ + 1, static_cast<NodeId>(tree_.nodes_.size() + 1)});
    ++position_;
  }
  // Puts a node around the last subtree, which begins at `id`; the new node has that id and is open.
  void wrap(NodeId id, NodeKind kind) {
    const Node inner = tree_.nodes_[id];
    tree_.nodes_.insert(tree_.nodes_.begin() + id, {kind, inner.first, inner.first, 0});
    for (NodeId i = id + 1; i < tree_.nodes_.size(); ++i) ++tree_.nodes_[i].end;
  }
  bool accept(TokenKind wanted) { return kind() == wanted && ++position_; }
  bool expect(TokenKind wanted, std::string_view after) {
    return accept(wanted) || expected(cat(name(wanted), " ", after));
  }
  bool begins_line(TokenId id) const {
    if (id == 0) return true;
    const char* const from = tree_.source_->data() + tokens_[id - 1].end;
    return std::memchr(from, '\n', tokens_[id].begin - tokens_[id - 1].end) != nullptr;
  }
  // Whether a word with a dot belongs to the word before it: `%tid.x`, in an instruction also `add .s32`, but neither
  // `.loc` on the next line nor the second directive of `.target sm_90 .address_size 64`.
  bool extends_word() const {
    if (kind() != TokenKind::dot_word) return false;
    if (tokens_[position_].begin == tokens_[position_ - 1].end) return true;
    return in_instruction_ && !(begins_line(position_) && find_directive(text(position_)));
  }

  // ---- diagnostics and recovery

  void report(Code code, Span span, std::string message) {
    if (diagnostics_.size() == max_diagnostics) return;
    if (lines_.empty()) lines_.emplace_back(*tree_.source_, tree_.file_);
    Diagnostic diagnostic(code, lines_[0].place(span.begin), std::move(message));
    diagnostic.span = span;
    diagnostics_.push_back(std::move(diagnostic));
  }
  bool refuse(Code code, TokenId id, std::string message) {
    return report(code, {tokens_[id].begin, tokens_[id].end}, std::move(message)), false;
  }

  std::string found() const {
    if (kind() == TokenKind::end) return "the text ends";
    Text words;
    const std::string_view written = text(position_);
    words << "found `";
    for (const char c : written.substr(0, 40)) {
      if (c >= ' ' && c < 0x7f)
        words << c;
      else
        words << "\\x", words.hex(static_cast<unsigned char>(c), 2);
    }
    words << (written.size() > 40 ? "...`" : "`");
    return words.take();
  }

  bool expected(std::string_view what) {
    if (kind() == TokenKind::bad) return bad_token();
    return refuse(Code::syntax_error, position_, cat("expected ", what, ", ", found()));
  }
  bool bad_token() {
    const char first = text(position_)[0];
    if (first == '"') return refuse(Code::open_string, position_, "this string has no closing quote on its line");
    if (first >= '0' && first <= '9') return refuse(Code::bad_number, position_, cat("no number of PTX: ", found()));
    return refuse(Code::bad_byte, position_, cat("no token of PTX begins like this: ", found()));
  }

  // Goes on at the next statement: after a `;`, or at a brace or a directive that can begin one. `first` is the first
  // token of the statement that went wrong: braces that it opened are its own.
  void recover(TokenId first) {
    int open = 0;
    for (TokenId id = first; id != position_; ++id) {
      if (tokens_[id].kind == TokenKind::left_brace) ++open;
      if (tokens_[id].kind == TokenKind::right_brace) --open;
    }
    for (;; ++position_) {
      switch (kind()) {
        case TokenKind::end: return;
        case TokenKind::semicolon: ++position_; return;
        case TokenKind::right_brace:
          if (open-- <= 0) return;
          break;
        case TokenKind::left_brace:
          if (!skip_vector()) return;
          break;
        case TokenKind::dot_word:
          if (begins_line(position_) && find_directive(text(position_))) return;
          break;
        default: break;
      }
    }
  }
  // At `{`: a vector operand closes before the next statement ends. Leaves the position on its `}`.
  bool skip_vector() {
    for (TokenId id = position_ + 1;; ++id) {
      const TokenKind kind = tokens_[id].kind;
      if (kind == TokenKind::right_brace) return position_ = id, true;
      if (kind == TokenKind::semicolon || kind == TokenKind::left_brace || kind == TokenKind::end) return false;
    }
  }

  // What was read of a declaration still declares; half an instruction means nothing.
  void give_up(NodeId id) {
    Node& node = tree_.nodes_[id];
    if (node.kind == NodeKind::instruction || node.kind == NodeKind::directive) node.kind = NodeKind::error;
    recover(node.first);
  }

  // The end of a statement. A missing `;` before a line break costs nothing but the diagnostic.
  void finish(NodeId id, bool good) {
    if (good && !accept(TokenKind::semicolon)) {
      good = missing_semicolon();
    }
    if (!good) give_up(id);
    close(id);
  }
  bool missing_semicolon() {
    if (kind() == TokenKind::bad) return bad_token();
    const std::uint32_t end = tokens_[position_ - 1].end;
    const bool next_line = begins_line(position_);
    report(Code::syntax_error,
           {next_line ? end - 1 : tokens_[position_].begin, next_line ? end : tokens_[position_].end},
           next_line ? cat("expected `;` after `", text(position_ - 1).substr(0, 40), "`")
                     : cat("expected `;`, ", found()));
    return next_line;
  }

  Parsed too_long() {
    tree_.tokens_.push_back({0, 0, TokenKind::end});
    tree_.nodes_ = {{NodeKind::module, 0, 1, 1}};
    diagnostics_.emplace_back(Code::syntax_error, Place{tree_.file_, 1, 1}, "the text is longer than 4 GiB");
    return {std::move(tree_), std::move(diagnostics_)};
  }

  // ---- statements

  void statement() {
    switch (kind()) {
      case TokenKind::word:
        place(Where::body, "an instruction");
        return kind(1) == TokenKind::colon ? label() : instruction();
      case TokenKind::at: place(Where::body, "an instruction"); return instruction();
      case TokenKind::dot_word: return directive();
      case TokenKind::left_brace: place(Where::body, "a block"); return open_block(no_node);
      case TokenKind::right_brace:
        if (!blocks_.empty()) {
          ++position_;
          return close_block();
        }
        refuse(Code::unmatched_brace, position_, "this `}` closes nothing");
        return leaf(NodeKind::error);
      default: break;
    }
    const NodeId id = open(NodeKind::error);
    expected("a statement");
    const TokenId first = position_;
    recover(first);
    if (position_ == first) ++position_;
    close(id);
  }

  // Statements on the wrong side of a function's brace. Said once until the next function: one stray brace moves many.
  void place(Where where, std::string_view what) {
    if (where == Where::body && blocks_.empty() && !said_misplaced_) {
      said_misplaced_ = true;
      const std::string_view quote = kind() == TokenKind::dot_word ? "`" : "";
      refuse(Code::misplaced_statement, position_,
             cat(quote, what, quote, " stands in a function, and this is outside of any"));
    } else if (where == Where::module && !blocks_.empty()) {
      refuse(Code::misplaced_statement, position_, cat("`", what, "` stands outside of functions"));
    } else if (where == Where::header) {
      refuse(Code::misplaced_statement, position_,
             cat("`", what, "` stands between a function's parameters and its `{`"));
    }
  }

  void label() {
    const NodeId id = open(NodeKind::label);
    position_ += 2;
    close(id);
  }

  void open_block(NodeId function) {
    blocks_.push_back({open(NodeKind::block), function});
    ++position_;
  }
  void close_block() {
    close(blocks_.back().node);
    if (blocks_.back().function != no_node) close(blocks_.back().function);
    blocks_.pop_back();
  }
  void report_open(NodeId block) { refuse(Code::open_brace, tree_.nodes_[block].first, "this `{` has no `}`"); }

  void instruction() {
    const NodeId id = open(NodeKind::instruction);
    in_instruction_ = true;
    const bool good =
        (kind() != TokenKind::at || guard()) && mnemonic() && (kind() == TokenKind::semicolon || operands());
    in_instruction_ = in_vector_ = false;
    finish(id, good);
  }
  bool guard() {
    const NodeId id = open(NodeKind::guard);
    ++position_;
    accept(TokenKind::bang);
    return closed(id, expect(TokenKind::word, "of a predicate register after `@`"));
  }
  bool mnemonic() {
    if (kind() != TokenKind::word) return expected("an instruction");
    const NodeId id = open(NodeKind::mnemonic);
    do ++position_;
    while (extends_word());
    return closed(id, true);
  }

  void directive() {
    const Directive* row = find_directive(text(position_));
    if (!row) {
      refuse(Code::unknown_directive, position_, cat("no directive of PTX: ", found()));
      const NodeId id = open(NodeKind::error);
      ++position_;
      recover(position_);
      return close(id);
    }
    switch (row->shape) {
      case Shape::function: return function();
      case Shape::linkage: return linkage();
      case Shape::variable: return variable();
      default: break;
    }
    place(row->where, row->word);
    if (row->shape == Shape::section) return section();
    const NodeId id = open(NodeKind::directive);
    ++position_;
    switch (row->shape) {
      case Shape::list: return finish(id, operands());
      case Shape::names: return finish(id, names());
      case Shape::bare: return undelimited(id, operands());
      case Shape::file: return undelimited(id, file());
      case Shape::location: return undelimited(id, location());
      case Shape::prototype: return finish(id, signature(true) && header(true));
      default: return close(id);
    }
  }
  // A directive without `;`.
  void undelimited(NodeId id, bool good) {
    if (!good) give_up(id);
    close(id);
  }

  bool file() {
    if (!number() || (kind() != TokenKind::string && !expected("the name of a file in quotes"))) return false;
    leaf(NodeKind::string);
    while (accept(TokenKind::comma)) {
      if (!number()) return false;
    }
    return true;
  }
  // .loc file line column {, function_name label {+ n}, inlined_at file line column}
  bool location() {
    if (!place_in_file()) return false;
    if (!accept(TokenKind::comma)) return true;
    if (!word("function_name", "`function_name`")) return false;
    if (kind() != TokenKind::word && kind() != TokenKind::dot_word) return expected("a label of .debug_str");
    const NodeId id = static_cast<NodeId>(tree_.nodes_.size());
    leaf(NodeKind::name);
    if (kind() == TokenKind::plus) {
      wrap(id, NodeKind::expression);
      ++position_;
      if (!closed(id, number())) return false;
    }
    return expect(TokenKind::comma, "and `inlined_at` after the name of a function") &&
           word("inlined_at", "`inlined_at`") && place_in_file();
  }
  bool place_in_file() { return number() && number() && number(); }
  bool word(std::string_view wanted, std::string_view name) {
    if (kind() != TokenKind::word || text(position_) != wanted) return expected(name);
    return leaf(NodeKind::name), true;
  }
  bool number() {
    if (!is_number(kind())) return expected("a number");
    return leaf(NodeKind::literal), true;
  }
  bool at_warp_size() { return text(position_) == "WARP_SZ" && accept(TokenKind::word); }

  // .section .name { label: .b32 a, b ... }
  void section() {
    const NodeId id = open(NodeKind::section);
    ++position_;
    if (kind() != TokenKind::dot_word) return undelimited(id, expected("the name of a section, as .debug_info"));
    leaf(NodeKind::name);
    const TokenId brace = position_;
    bool good = expect(TokenKind::left_brace, "after the name of a section");
    while (good && kind() != TokenKind::right_brace) {
      if (kind() == TokenKind::word && kind(1) == TokenKind::colon) {
        label();
      } else if (kind() == TokenKind::dot_word) {
        const NodeId data = open(NodeKind::data);
        ++position_;
        good = closed(data, operands());
      } else {
        good =
            kind() == TokenKind::end ? refuse(Code::open_brace, brace, "this `{` has no `}`") : expected("data or `}`");
      }
    }
    if (!good) recover(position_);
    accept(TokenKind::right_brace);
    close(id);
  }

  void linkage() {
    TokenId next = position_;
    while (tokens_[next].kind == TokenKind::dot_word && linkage_word(next)) ++next;
    const std::string_view word = tokens_[next].kind == TokenKind::dot_word ? text(next) : std::string_view();
    word == ".entry" || word == ".func" ? function() : variable();
  }
  bool linkage_word(TokenId id) const {
    const Directive* row = find_directive(text(id));
    return row && row->shape == Shape::linkage;
  }

  void variable() {
    const NodeId id = open(NodeKind::variable);
    bool good = specifiers() && declarator();
    while (good && accept(TokenKind::comma)) good = declarator();
    finish(id, good);
  }

  // .space .align 16 .attribute(.managed) .v4 .f32, in any order: which of them may stand together is not syntax.
  bool specifiers() {
    while (kind() == TokenKind::dot_word) {
      const std::string_view word = text(position_++);
      if (word == ".align" && !at_warp_size() && !expect(TokenKind::integer, "after `.align`")) return false;
      if (word == ".attribute" && !attribute()) return false;
    }
    return true;
  }
  bool attribute() {
    int depth = 0;
    do {
      const TokenKind inside = kind();
      if (depth == 0 && inside != TokenKind::left_paren) return expected("`(` after `.attribute`");
      const bool known = inside == TokenKind::dot_word || inside == TokenKind::comma || inside == TokenKind::integer;
      if (inside == TokenKind::left_paren)
        ++depth;
      else if (inside == TokenKind::right_paren)
        --depth;
      else if (!known)
        return expected("an attribute or `)`");
      ++position_;
    } while (depth > 0);
    return true;
  }

  bool declarator(bool parameter = false) {
    const NodeId id = open(NodeKind::declarator);
    bool good = accept(TokenKind::word) || (parameter && accept(TokenKind::underscore)) || expected("a name");
    if (!good) return closed(id, good);
    if (kind() == TokenKind::less) return closed(id, range());  // neither dimensions nor a value
    while (good && kind() == TokenKind::left_bracket) {
      const NodeId dimension = open(NodeKind::dimension);
      ++position_;
      good = (kind() == TokenKind::right_bracket || operand()) && expect(TokenKind::right_bracket, "after a dimension");
      close(dimension);
    }
    if (good && kind() == TokenKind::equals) good = initializer();
    return closed(id, good);
  }
  // The entries of a table: a, b<3>.
  bool names() {
    do {
      if (kind() != TokenKind::word) return expected("a name");
      leaf(NodeKind::name);
      if (kind() == TokenKind::less && !range()) return false;
    } while (accept(TokenKind::comma));
    return true;
  }
  bool range() {
    const NodeId id = open(NodeKind::range);
    ++position_;
    const bool warp_size = text(position_) == "WARP_SZ";
    if (warp_size) leaf(NodeKind::name);
    return closed(id, (warp_size || number()) && expect(TokenKind::greater, "after the number of names"));
  }
  bool initializer() {
    const NodeId id = open(NodeKind::initializer);
    ++position_;
    in_initializer_ = true;
    const bool good = operand();
    in_initializer_ = false;
    return closed(id, good);
  }

  void function() {
    if (!blocks_.empty()) {  // a function in a function: a brace was forgotten
      report_open(blocks_.back().node);
      while (!blocks_.empty()) close_block();
    }
    said_misplaced_ = false;
    const NodeId id = open(NodeKind::function);
    while (linkage_word(position_)) ++position_;
    const bool is_func = text(position_++) == ".func";
    bool good = true;
    while (good && kind() == TokenKind::dot_word && text(position_) == ".attribute") ++position_, good = attribute();
    good = good && signature() && header(is_func);
    if (good && kind() == TokenKind::left_brace) return open_block(id);
    const bool declared = kind() == TokenKind::end || kind() == TokenKind::dot_word;
    if (good && is_func && declared) return close(id);  // nvopencc writes no `;` after a prototype
    if (good && kind() != TokenKind::semicolon) good = expected("`{` or `;` after the head of a function");
    if (good) return finish(id, true);
    while (!head_ends()) ++position_;
    if (kind() == TokenKind::left_brace) return open_block(id);
    accept(TokenKind::semicolon);
    close(id);
  }
  // In a head that went wrong.
  bool head_ends() const {
    const TokenKind here = kind();
    if (here == TokenKind::dot_word) return text(position_) == ".entry" || text(position_) == ".func";
    return here == TokenKind::left_brace || here == TokenKind::right_brace || here == TokenKind::semicolon ||
           here == TokenKind::end;
  }
  // {returns} name {parameters}; a prototype has `_` for the name.
  bool signature(bool prototype = false) {
    if (kind() == TokenKind::left_paren && !parameters()) return false;
    if (kind() != (prototype ? TokenKind::underscore : TokenKind::word))
      return expected(prototype ? "`_` in place of a function's name" : "the name of a function");
    leaf(prototype ? NodeKind::sink : NodeKind::name);
    return kind() != TokenKind::left_paren || parameters();
  }
  bool parameters() {
    const NodeId id = open(NodeKind::parameters);
    ++position_;
    bool good = true;
    if (kind() != TokenKind::right_paren) {
      do {
        const NodeId parameter = open(NodeKind::variable);
        good = kind() == TokenKind::dot_word ? specifiers() && declarator(true) : expected("a parameter");
        close(parameter);
      } while (good && accept(TokenKind::comma));
    }
    return closed(id, good && expect(TokenKind::right_paren, "after the parameters"));
  }
  // The directives between a function's parameters and its body. With `may_end`, one that stands elsewhere begins the
  // next statement.
  bool header(bool may_end = false) {
    while (kind() == TokenKind::dot_word) {
      const Directive* row = find_directive(text(position_));
      const bool fits = row && (row->where == Where::header || (!may_end && row->word == ".pragma"));
      if (row && !fits && may_end) return true;
      if (!fits) {
        return refuse(Code::unknown_directive, position_, cat("no directive of a function's head: ", found()));
      }
      const NodeId id = open(NodeKind::directive);
      ++position_;
      bool good = row->shape == Shape::flag || operands();
      if (good && row->shape == Shape::list) good = expect(TokenKind::semicolon, "after a directive");
      if (!closed(id, good)) return false;
    }
    return true;
  }

  // ---- operands

  bool operands() {
    do {
      if (!operand()) return false;
    } while (accept(TokenKind::comma));
    return true;
  }

  bool operand() {
    const NodeId id = static_cast<NodeId>(tree_.nodes_.size());
    if (!term()) return false;
    return !is_operator(kind()) || kind() == TokenKind::colon || expression(id);
  }

  // a|b, or terms with operators between; the first term is there. In an instruction only that one may be a name.
  bool expression(NodeId id) {
    if (in_initializer_ && !adds_to_name(id)) return false;
    wrap(id, NodeKind::expression);
    const bool bar = kind() == TokenKind::bar;
    if (in_instruction_ && kind() == TokenKind::minus && tokens_[position_ - 1].kind == TokenKind::word) {
      refuse(Code::syntax_error, position_, cat("a negative offset is written `", text(position_ - 1), "+-`"));
    }
    int terms = 1, open_questions = 0;
    bool good = true;
    for (; good && is_operator(kind()); ++terms) {
      if (kind() == TokenKind::question) ++open_questions;
      if (kind() == TokenKind::colon && open_questions-- == 0) break;
      ++position_;
      const bool name = kind() == TokenKind::word && text(position_) != "WARP_SZ";
      good = name && (in_instruction_ || in_initializer_) && !(bar && terms == 1) ? expected("a constant") : term();
    }
    const NodeKind first = tree_.nodes_[id + 1].kind;
    const bool pairs = first == NodeKind::name || first == NodeKind::sink || first == NodeKind::vector;
    if (bar && terms == 2 && pairs) tree_.nodes_[id].kind = NodeKind::pair;
    return closed(id, good);
  }

  // In an initial value: g + 4 and generic(g) + 4 are all that is computed of a name.
  bool adds_to_name(NodeId first) {
    const Node& node = tree_.nodes_[first];
    const TokenKind head = tokens_[node.first].kind;
    if (node.kind == NodeKind::apply && head != TokenKind::word) return expected("`,` or the end of the initial value");
    const bool name = head == TokenKind::word && text(node.first) != "WARP_SZ";
    return !name || kind() == TokenKind::plus || expected("`+`: a negative offset is written `+-`");
  }

  bool term() {
    if (depth_ == max_depth) return refuse(Code::too_deep, position_, cat("operands nest deeper than ", max_depth));
    ++depth_;
    const bool good = nested_term();
    --depth_;
    return good;
  }

  bool nested_term() {
    switch (kind()) {
      case TokenKind::word: return named();
      case TokenKind::integer:
        if (in_initializer_ && kind(1) == TokenKind::left_paren) return apply(NodeKind::literal);
        return leaf(NodeKind::literal), true;
      case TokenKind::real:
      case TokenKind::f32_bits:
      case TokenKind::f64_bits: return leaf(NodeKind::literal), true;
      case TokenKind::string: return in_instruction_ ? expected("an operand") : (leaf(NodeKind::string), true);
      case TokenKind::underscore: return leaf(NodeKind::sink), true;
      case TokenKind::dot_word: return leaf(NodeKind::name), true;  // a section's name, among its data
      case TokenKind::left_brace: return vector();
      case TokenKind::left_bracket: return address();
      case TokenKind::left_paren: return parenthesised();
      case TokenKind::bang:
      case TokenKind::tilde:
      case TokenKind::plus:
      case TokenKind::minus: {
        const NodeId id = open(NodeKind::unary);
        ++position_;
        if (nameless_in_initializer()) return closed(id, expected("a constant"));
        return closed(id, kind() == TokenKind::f32_bits ? expected("another number") : term());
      }
      default: return expected("an operand");
    }
  }

  // At a name that an operator or a parenthesis keeps from being the address that an initial value may be.
  bool nameless_in_initializer() const {
    return in_initializer_ && kind() == TokenKind::word && text(position_) != "WARP_SZ";
  }

  // A name with its selectors, then a[4], generic(x) or width = 5.
  bool named() {
    if (in_initializer_ && kind(1) == TokenKind::left_paren) return apply(NodeKind::name);
    const NodeId id = open(NodeKind::name);
    ++position_;
    if (extends_word()) ++position_;
    close(id);
    if (kind() == TokenKind::left_bracket) {
      if (in_initializer_) return expected("`+` and an offset in bytes");
      wrap(id, NodeKind::index);
      ++position_;
      return closed(id, operand() && expect(TokenKind::right_bracket, "after an index"));
    }
    if (in_initializer_ && kind() == TokenKind::equals) {
      wrap(id, NodeKind::field);
      ++position_;
      return closed(id, term());
    }
    return true;
  }

  bool apply(NodeKind head) {
    const NodeId id = open(NodeKind::apply);
    leaf(head);
    ++position_;
    if (head == NodeKind::name) {  // generic(g)
      const bool name = kind() == TokenKind::word || expected("the name of a variable");
      if (name) leaf(NodeKind::name);
      return closed(id, name && expect(TokenKind::right_paren, "after the name; an offset stands behind it"));
    }
    return closed(id, operand() && expect(TokenKind::right_paren, "after an address or a number"));
  }

  bool address() {
    const NodeId id = open(NodeKind::address);
    ++position_;
    bool good = operands() && expect(TokenKind::right_bracket, "after an address");
    while (good && extends_word()) ++position_;
    return closed(id, good);
  }

  bool parenthesised() {
    const NodeId id = open(NodeKind::list);
    if (kind(1) == TokenKind::dot_word && kind(2) == TokenKind::right_paren) {  // a cast: (.s64) x
      tree_.nodes_[id].kind = NodeKind::unary;
      position_ += 3;
      if (nameless_in_initializer()) return closed(id, expected("a constant"));
      return closed(id, term());
    }
    ++position_;
    if (accept(TokenKind::right_paren)) return closed(id, true);
    if (nameless_in_initializer()) return closed(id, expected("a constant"));
    return closed(id, operands() && expect(TokenKind::right_paren, "after `(`"));
  }

  bool vector() {
    if (in_vector_) return expected("an element of a vector");
    in_vector_ = in_instruction_;
    const NodeId id = open(NodeKind::vector);
    ++position_;
    const bool empty = in_initializer_ && accept(TokenKind::right_brace);  // x[4] = {}: zeros
    const bool good = empty || (operands() && expect(TokenKind::right_brace, "after the elements of a vector"));
    in_vector_ = false;
    return closed(id, good);
  }

  Tree tree_;
  const Token* tokens_ = nullptr;
  TokenId position_ = 0;
  std::vector<Block> blocks_;
  int depth_ = 0;
  bool in_instruction_ = false;
  bool in_initializer_ = false;
  bool in_vector_ = false;  // of an instruction, which has no vectors of vectors
  bool said_misplaced_ = false;
  Diagnostics diagnostics_;
  std::vector<Lines> lines_;  // made for the first diagnostic
};

Parsed parse(std::shared_ptr<const std::string> text, Name file) { return Parser(std::move(text), file).run(); }
Parsed parse(std::string text, Name file) { return parse(std::make_shared<const std::string>(std::move(text)), file); }

}  // namespace ptx::syntax
