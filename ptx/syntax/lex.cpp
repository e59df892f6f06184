// The lexer. Lexical facts were tried on ptxas 13.5: `.word` is one token, with its `::` parts; form feed is white
// space, vertical tab is not; strings have no escapes; `# 1 "file"` and `#line 1 "file"` are skipped, other `#` lines
// are refused.
#include "ptx/syntax/detail/lex.h"

#include <array>
#include <charconv>
#include <cstring>

namespace ptx::syntax {
namespace {

enum Class : std::uint8_t { space = 1, follow = 2, digit = 4, start = 8 };

constexpr std::array<std::uint8_t, 256> make_classes() {
  std::array<std::uint8_t, 256> table{};
  for (const char c : {' ', '\t', '\n', '\r', '\f'}) table[static_cast<unsigned char>(c)] = space;
  for (int c = 'a'; c <= 'z'; ++c) table[c] = table[c - 'a' + 'A'] = follow | start;
  for (const char c : {'_', '$'}) table[static_cast<unsigned char>(c)] = follow | start;
  for (int c = '0'; c <= '9'; ++c) table[c] = follow | digit;
  return table;
}
constexpr auto classes = make_classes();
bool is(char c, int mask) { return classes[static_cast<unsigned char>(c)] & mask; }
// A loop over a local: one over a member would store it at every character.
const char* skip(const char* p, int mask) {
  while (is(*p, mask)) ++p;
  return p;
}
bool is_hex(char c) { return is(c, digit) || (static_cast<unsigned char>((c | 32) - 'a') < 6); }

struct Punctuation {
  std::string_view text;
  TokenKind kind;
};
constexpr Punctuation marks[] = {
#define PUNCTUATION(kind, text) {text, TokenKind::kind},
#include "ptx/syntax/punctuation.def"
#undef PUNCTUATION
};
// By first character: the mark of this one character, and whether marks of two begin with it.
constexpr std::array<TokenKind, 256> make_marks(std::size_t length) {
  std::array<TokenKind, 256> table{};
  for (auto& kind : table) kind = TokenKind::bad;
  for (const Punctuation& mark : marks) {
    if (mark.text.size() == length) table[static_cast<unsigned char>(mark.text[0])] = mark.kind;
  }
  return table;
}
constexpr auto singles = make_marks(1), pairs = make_marks(2);

// What the first character of a token decides.
enum class First : std::uint8_t { strange, word, percent, dot, digit, quote, mark, mark_or_two };
constexpr std::array<First, 256> make_firsts() {
  std::array<First, 256> table{};
  for (int c = 0; c < 256; ++c) {
    if (classes[c] & start) table[c] = First::word;
    if (classes[c] & digit) table[c] = First::digit;
    if (singles[c] != TokenKind::bad) table[c] = First::mark;
    if (pairs[c] != TokenKind::bad) table[c] = First::mark_or_two;
  }
  table['%'] = First::percent;
  table['.'] = First::dot;
  table['"'] = First::quote;
  return table;
}
constexpr auto firsts = make_firsts();

// A byte-order mark is three bytes that no editor shows. UTF-16 is known by its mark, or by the NUL beside its first
// character, which is ASCII in any PTX. ELF files are cubins and programs.
std::uint32_t foreign(const std::string& text) {
  if (text.starts_with("\xef\xbb\xbf")) return 3;
  const bool marked = text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
  const bool wide = text.size() >= 4 && (text[0] == 0) != (text[1] == 0) && (text[2] == 0) != (text[3] == 0);
  return marked || wide || text.starts_with(elf_magic) ? static_cast<std::uint32_t>(text.size()) : 0;
}

// Reads one text. The text ends in a NUL that is not part of it, so looking one byte ahead is always allowed.
class Lexer {
 public:
  explicit Lexer(const std::string& text) : begin_(text.data()), p_(begin_), end_(begin_ + text.size()) {
    lexed_.tokens.reserve(text.size() / 3 + 16);
    lexed_.foreign = foreign(text);
    p_ += lexed_.foreign;
  }

  Lexed run() {
    for (;;) {
      trivia();
      const char* first = p_;
      if (p_ == end_) {
        push(first, TokenKind::end);
        return std::move(lexed_);
      }
      push(first, token());
    }
  }

 private:
  void push(const char* first, TokenKind kind) { lexed_.tokens.push_back({offset(first), offset(p_), kind}); }
  std::uint32_t offset(const char* p) const { return static_cast<std::uint32_t>(p - begin_); }

  void trivia() {
    for (;;) {
      p_ = skip(p_, space);
      if (*p_ == '/' && p_[1] == '/') {
        const void* newline = std::memchr(p_, '\n', end_ - p_);
        p_ = newline ? static_cast<const char*>(newline) : end_;
      } else if (*p_ == '/' && p_[1] == '*') {
        block_comment();
      } else if (!(*p_ == '#' && line_marker()) && !(*p_ == 0 && only_nul_left())) {
        return;
      }
      if (p_ == end_) return;
    }
  }

  void block_comment() {
    const std::string_view rest(p_ + 2, end_ - p_ - 2);
    const auto close = rest.find("*/");
    if (close == rest.npos) lexed_.open_comment = offset(p_);
    p_ = close == rest.npos ? end_ : p_ + 2 + close + 2;
  }

  // The preprocessor's `# 1 "file"` or `#line 1 "file"`, alone on its line.
  bool line_marker() {
    for (const char* back = p_; back != begin_ && back[-1] != '\n'; --back) {
      if (back[-1] != ' ' && back[-1] != '\t') return false;
    }
    const char* p = blanks(p_ + 1);
    if (std::string_view(p, end_ - p).starts_with("line")) p = blanks(p + 4);
    if (!is(*p, digit)) return false;
    const char* const behind = skip(p, digit);
    const void* newline = std::memchr(p_, '\n', end_ - p_);
    const char* const line_end = newline ? static_cast<const char*>(newline) : end_;
    p = blanks(behind);
    if (p == behind || *p != '"' || !std::memchr(p + 1, '"', line_end - p - 1)) return false;
    p_ = line_end;
    return true;
  }

  static const char* blanks(const char* p) {
    while (*p == ' ' || *p == '\t') ++p;
    return p;
  }

  // Some compilers leave the C string's NUL at the end of the file.
  bool only_nul_left() {
    if (p_ == end_ || *(end_ - 1) != 0) return false;
    for (const char* p = p_; p != end_; ++p) {
      if (*p != 0) return false;
    }
    p_ = end_;
    return true;
  }

  TokenKind token() {
    const char c = *p_++;
    switch (firsts[static_cast<unsigned char>(c)]) {
      case First::word: return word(c == '_');
      case First::percent: return is(*p_, follow) ? word(false) : TokenKind::percent;
      case First::dot: return dot();
      case First::digit: return number(c);
      case First::quote: return string();
      case First::mark: return singles[static_cast<unsigned char>(c)];
      case First::mark_or_two: return mark_or_two(c);
      case First::strange: break;
    }
    while (p_ != end_ && !is(*p_, space) && firsts[static_cast<unsigned char>(*p_)] == First::strange) ++p_;
    return TokenKind::bad;  // a run of strange bytes
  }

  TokenKind word(bool underscore) {
    const char* const second = p_;
    p_ = skip(p_, follow);
    return underscore && p_ == second ? TokenKind::underscore : TokenKind::word;
  }

  // `.b32`, `.shared::cta`, `.sp::2:4`; after a digit a modifier (`.2d`, `.16x256b`) unless it reads as a number (`.5`,
  // `.5e3`).
  TokenKind dot() {
    if (!is(*p_, follow)) return TokenKind::bad;
    if (is(*p_, digit)) {
      const char* p = p_;
      p = skip(p, digit);
      if (!is(*p, follow) || exponent(p)) return fraction();
    }
    for (bool scoped = false;; scoped = true) {
      p_ = skip(p_, follow);
      if (*p_ == ':' && p_[1] == ':' && is(p_[2], follow)) {
        p_ += 2;
      } else if (scoped && *p_ == ':' && is(p_[1], digit)) {
        ++p_;
      } else {
        return TokenKind::dot_word;
      }
    }
  }

  static bool exponent(const char* p) {
    if ((*p | 32) != 'e') return false;
    if (p[1] == '+' || p[1] == '-') ++p;
    return is(p[1], digit);
  }

  // What follows the point, or the digits, of a real.
  TokenKind fraction() {
    p_ = skip(p_, digit);
    if (exponent(p_)) {
      p_ += 2;
      p_ = skip(p_, digit);
    }
    return whole(TokenKind::real);
  }

  // Characters that stick to a number make it malformed: `1a`, `08`, `1.0f`.
  TokenKind whole(TokenKind kind) {
    if (!is(*p_, follow)) return kind;
    p_ = skip(p_, follow);
    return TokenKind::bad;
  }

  TokenKind number(char first) {
    if (first == '0') {
      switch (*p_ | 32) {
        case 'x': return based([](char c) { return is_hex(c); });
        case 'b': return based([](char c) { return c == '0' || c == '1'; });
        case 'f': return bits(8, TokenKind::f32_bits);
        case 'd': return bits(16, TokenKind::f64_bits);
      }
    }
    bool octal = true;
    for (; is(*p_, digit); ++p_) octal = octal && *p_ < '8';
    if (*p_ == '.') return ++p_, fraction();
    if (exponent(p_)) return fraction();
    if (*p_ == 'U') ++p_;
    return whole(first == '0' && !octal ? TokenKind::bad : TokenKind::integer);
  }

  template <class Digit>
  TokenKind based(Digit is_digit) {
    const char* first = ++p_;
    while (is_digit(*p_)) ++p_;
    const bool empty = p_ == first;
    if (!empty && *p_ == 'U') ++p_;
    const TokenKind kind = whole(TokenKind::integer);
    return empty ? TokenKind::bad : kind;
  }

  TokenKind bits(int digits, TokenKind kind) {
    const char* first = ++p_;
    while (is_hex(*p_)) ++p_;
    const bool right = p_ - first == digits;
    kind = whole(kind);
    return right ? kind : TokenKind::bad;
  }

  TokenKind string() {
    while (p_ != end_ && *p_ != '"' && *p_ != '\n') ++p_;
    if (p_ == end_ || *p_ == '\n') return TokenKind::bad;
    ++p_;
    return TokenKind::string;
  }

  TokenKind mark_or_two(char c) {
    for (const Punctuation& mark : marks) {
      if (mark.text.size() == 2 && mark.text[0] == c && mark.text[1] == *p_) return ++p_, mark.kind;
    }
    return singles[static_cast<unsigned char>(c)];
  }

  const char* const begin_;
  const char* p_;
  const char* const end_;
  Lexed lexed_;
};

}  // namespace

Lexed lex(const std::string& text) { return Lexer(text).run(); }

std::string_view name(TokenKind kind) {
  switch (kind) {
    case TokenKind::end: return "the end of the text";
    case TokenKind::word: return "a name";
    case TokenKind::dot_word: return "a word with a dot";
    case TokenKind::underscore: return "`_`";
    case TokenKind::integer: return "an integer";
    case TokenKind::real: return "a number";
    case TokenKind::f32_bits: return "a number";
    case TokenKind::f64_bits: return "a number";
    case TokenKind::string: return "a string";
    case TokenKind::bad: return "bytes that are no PTX";
#define PUNCTUATION(kind, text) \
  case TokenKind::kind: return "`" text "`";
#include "ptx/syntax/punctuation.def"
#undef PUNCTUATION
  }
  return "";
}

std::optional<std::uint64_t> integer(std::string_view literal) {
  if (!literal.empty() && literal.back() == 'U') literal.remove_suffix(1);
  int base = 10;
  if (literal.size() > 1 && literal[0] == '0') {
    base = (literal[1] | 32) == 'x' ? 16 : (literal[1] | 32) == 'b' ? 2 : 8;
    literal.remove_prefix(base == 8 ? 1 : 2);
  }
  std::uint64_t value = 0;
  const auto result = std::from_chars(literal.data(), literal.data() + literal.size(), value, base);
  if (result.ec != std::errc() || result.ptr != literal.data() + literal.size()) return {};
  return value;
}

}  // namespace ptx::syntax
