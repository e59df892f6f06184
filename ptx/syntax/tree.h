// The lossless tree: one immutable source text, its tokens, and nodes over them. It knows the grammar of PTX and no
// instruction. Tokens and nodes are flat arrays; a node is a range of tokens, and its children follow it in the array.
// An edit keeps everything that it does not name, byte for byte; print.h writes the result.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/base/place.h"
#include "ptx/syntax/token.h"

namespace ptx::syntax {

using TokenId = std::uint32_t;
using NodeId = std::uint32_t;  // the module is node 0

enum class NodeKind : std::uint8_t {
  module,  // statements
  // Statements
  instruction,  // [guard] mnemonic operand... ;
  label,        // name :
  block,        // { statements }
  variable,     // .space [.align n] [.attribute(..)] [.v2] .type declarator... ; also a parameter (no `;`) and .reg
  function,     // [linkage] .entry|.func [parameters: returns] name [parameters] directive... block or ;
  section,      // .section name { label, data... }
  data,         // .b32 operand, operand...  in a section
  directive,    // any other: .version .target .file .loc .pragma .maxntid ...; children are its operands.
                // .callprototype has those of a function
  error,        // tokens that begin no statement; an instruction or directive with a mistake in it
  // Parts of statements
  guard,        // @p  @!p
  mnemonic,     // opcode and modifiers: ld.global.v4.u32
  parameters,   // ( variable, ... )
  declarator,   // name [range] [dimension...] [initializer]
  range,        // <4>
  dimension,    // [16]  []
  initializer,  // = value; braces are `vector`, generic(x) and 0xff(x) are `apply`, width = 5 is `field`
  // Operands
  name,        // register, variable, label, function; with its selectors: %tid.x  v.b0
  literal,     // number
  string,      // "text"
  sink,        // _
  address,     // [base, ...] then modifiers: [x+4]  [t, {a, b}]  [x].unified
  vector,      // {a, b}
  list,        // (a, b): arguments of a call, or a parenthesised expression; (.s64) is a cast, a list without children
  pair,        // a|b
  unary,       // !a  -a  ~a  +a
  expression,  // terms with operators between: a + 4 * 2; precedence is left to the reader
  index,       // a[4]
  apply,       // generic(x)  0xff(x)
  field,       // width = 5
};
std::string_view name(NodeKind kind);

struct Node {
  NodeKind kind;
  TokenId first;  // tokens [first, last)
  TokenId last;
  NodeId end;  // the subtree is nodes [this, end): the first child is this + 1, the next sibling is `end`
};
static_assert(sizeof(Node) == 16);

// Lines of a text; the places of offsets.
class Lines {
 public:
  explicit Lines(std::string_view text, Name file = {});
  Place place(std::uint32_t offset) const;

 private:
  Name file_;
  std::vector<std::uint32_t> starts_;
};

class Tree {
 public:
  // Direct children of a node, in order; yields NodeIds.
  class Children {
   public:
    struct Iterator {
      const Node* nodes;
      NodeId id;
      NodeId operator*() const { return id; }
      Iterator& operator++() { return id = nodes[id].end, *this; }
      bool operator!=(const Iterator& other) const { return id != other.id; }
    };
    Children(const Node* nodes, NodeId parent) : nodes_(nodes), parent_(parent) {}
    Iterator begin() const { return {nodes_, parent_ + 1}; }
    Iterator end() const { return {nodes_, nodes_[parent_].end}; }
    bool empty() const { return parent_ + 1 == nodes_[parent_].end; }

   private:
    const Node* nodes_;
    NodeId parent_;
  };

  std::string_view source() const { return *source_; }  // as it was parsed, without edits
  Name file() const { return file_; }
  std::span<const Token> tokens() const { return tokens_; }
  std::span<const Node> nodes() const { return nodes_; }
  const Token& token(TokenId id) const { return tokens_[id]; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  Children children(NodeId id) const { return {nodes_.data(), id}; }
  // Text of a token, the edited one if there is one; what stands before it; both views live as long as the tree.
  std::string_view text(TokenId id) const;
  std::string_view trivia(TokenId id) const;
  // Bytes of a node in the source, from its first token to its last, without the trivia before.
  Span span(NodeId id) const;

  bool edited() const { return !edits_.empty(); }

  // Edits. The nodes stay as they were parsed: parse the printed text to see what an edit means.
  void replace(TokenId id, std::string text);
  // A statement's own line (or place in its line) before or after `statement`, indented as that one is.
  void insert_before(NodeId statement, std::string_view text);
  void insert_after(NodeId statement, std::string_view text);
  // Takes out the node's tokens and its line, if it has one to itself; comments above it stay.
  void remove(NodeId statement);

 private:
  friend class Parser;
  friend class Printer;
  struct Edit {
    enum class Trivia : std::uint8_t { all, without_last_line, none } trivia = Trivia::all;  // what stays of it
    bool replaced = false;                                                                   // by `text`
    std::string before, text, after;
    std::size_t separator = 0;  // bytes at the end of `before` that set it off from the statement
  };
  Edit& edit(TokenId id);
  std::string_view indentation(NodeId statement) const;

  std::shared_ptr<const std::string> source_;
  Name file_;
  std::vector<Token> tokens_;
  std::vector<Node> nodes_;
  std::map<TokenId, Edit> edits_;
};

}  // namespace ptx::syntax
