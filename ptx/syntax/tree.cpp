// Places, token texts and edits of the tree.
#include "ptx/syntax/tree.h"

#include <algorithm>
#include <cstring>

#include "ptx/base/check.h"

namespace ptx::syntax {

Lines::Lines(std::string_view text, Name file) : file_(file), starts_{0} {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  for (const char* p = begin; p != end;) {
    const void* newline = std::memchr(p, '\n', end - p);
    if (!newline) break;
    p = static_cast<const char*>(newline) + 1;
    starts_.push_back(static_cast<std::uint32_t>(p - begin));
  }
}

Place Lines::place(std::uint32_t offset) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), offset);
  return {file_, static_cast<std::uint32_t>(after - starts_.begin()), offset - after[-1] + 1};
}

std::string_view Tree::text(TokenId id) const {
  const Token& token = tokens_[id];
  if (token.edited) {
    const auto found = edits_.find(id);
    if (found != edits_.end() && found->second.replaced) return found->second.text;
  }
  return source().substr(token.begin, token.end - token.begin);
}

std::string_view Tree::trivia(TokenId id) const {
  const std::uint32_t begin = id ? tokens_[id - 1].end : 0;
  return source().substr(begin, tokens_[id].begin - begin);
}

Span Tree::span(NodeId id) const {
  const Node& node = nodes_[id];
  if (node.first == node.last) return {tokens_[node.first].begin, tokens_[node.first].begin};
  return {tokens_[node.first].begin, tokens_[node.last - 1].end};
}

Tree::Edit& Tree::edit(TokenId id) {
  PTX_CHECK(id < tokens_.size(), "no such token");
  tokens_[id].edited = true;
  return edits_[id];
}

void Tree::replace(TokenId id, std::string text) {
  Edit& change = edit(id);
  change.replaced = true;
  change.text = std::move(text);
}

// The line break and blanks before a statement, or one blank where it shares its line with another.
std::string_view Tree::indentation(NodeId statement) const {
  const std::string_view before = trivia(nodes_[statement].first);
  const auto newline = before.rfind('\n');
  if (newline == before.npos) return nodes_[statement].first == 0 ? "\n" : " ";
  const auto end = before.find_first_not_of(" \t", newline + 1);
  const bool carriage = newline > 0 && before[newline - 1] == '\r';
  return before.substr(newline - carriage, end == before.npos ? end : end - newline + carriage);
}

void Tree::insert_before(NodeId statement, std::string_view text) {
  Edit& change = edit(nodes_[statement].first);
  const std::string_view separator = indentation(statement);
  change.before.append(text).append(separator);
  change.separator = separator.size();
}

void Tree::insert_after(NodeId statement, std::string_view text) {
  const Node& node = nodes_[statement];
  PTX_CHECK(node.first != node.last, "the statement has no tokens");
  edit(node.last - 1).after.append(indentation(statement)).append(text);
}

void Tree::remove(NodeId statement) {
  const Node& node = nodes_[statement];
  if (node.first == node.last) return;
  for (TokenId id = node.first; id != node.last; ++id) {
    replace(id, "");
    if (id != node.first) edit(id).trivia = Edit::Trivia::none;
  }
  // The statement has its line to itself if what follows begins on another; else the line break before it must stay, as
  // it may end a comment.
  const std::string_view next = node.last < tokens_.size() ? trivia(node.last) : std::string_view();
  const auto text = next.find_first_not_of(" \t\r");
  if (text != next.npos && next[text] == '\n') edit(node.first).trivia = Edit::Trivia::without_last_line;
}

std::string_view name(NodeKind kind) {
  static constexpr std::string_view names[] = {
      "module",      "instruction", "label",      "block",    "variable",   "function",   "section", "data",
      "directive",   "error",       "guard",      "mnemonic", "parameters", "declarator", "range",   "dimension",
      "initializer", "name",        "literal",    "string",   "sink",       "address",    "vector",  "list",
      "pair",        "unary",       "expression", "index",    "apply",      "field"};
  static_assert(std::size(names) == static_cast<std::size_t>(NodeKind::field) + 1);
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace ptx::syntax
