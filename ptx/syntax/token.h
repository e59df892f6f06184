// Tokens: the pieces that own the bytes of a PTX text. A token owns its own text and the white space and comments
// before it (its trivia), back to the end of the token before; the last token, `end`, owns what remains. So the tokens
// of any text, legal or not, add up to the text. Which words mean something is the parser's and the ISA's business.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ptx::syntax {

enum class TokenKind : std::uint8_t {
  end,
  word,        // mov  %r1  $L__BB0_2  sm_90a
  dot_word,    // .b32  .shared::cta  .2d  .L2::128B
  underscore,  // _
  integer,     // 42  0x2aU  052  0b101010
  real,        // 1.5  .5  1e-5
  f32_bits,    // 0f3F800000
  f64_bits,    // 0d3FF0000000000000
  string,      // "text"; PTX has no escapes
  bad,         // a malformed number, a string without an end, bytes that begin no token
#define PUNCTUATION(name, text) name,
#include "ptx/syntax/punctuation.def"
#undef PUNCTUATION
};

// How a message calls the kind: "a number", "`;`".
std::string_view name(TokenKind kind);

// 12 bytes. Offsets are of the source text; an edit (tree.h) never moves them.
struct Token {
  std::uint32_t begin;  // of the text proper, after the trivia
  std::uint32_t end;
  TokenKind kind;
  bool edited = false;  // the tree holds another text for it, or something inserted beside it
};
static_assert(sizeof(Token) == 12);

// The value of an integer, "0x1FU" (manual 4.5.1); nothing if it does not fit 64 bits.
std::optional<std::uint64_t> integer(std::string_view literal);

}  // namespace ptx::syntax
