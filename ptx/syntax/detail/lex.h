// Bytes to tokens, in one pass. Internal to the room.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptx/syntax/token.h"

namespace ptx::syntax {

inline constexpr std::string_view elf_magic =
    "\x7f"
    "ELF";

struct Lexed {
  std::vector<Token> tokens;                // the last one is `end`
  std::uint32_t foreign = 0;                // bytes of a byte-order mark, or of a text that is all UTF-16 or ELF
  std::uint32_t open_comment = no_comment;  // offset of a /* that never ends
  static constexpr std::uint32_t no_comment = 0xffffffff;
};

Lexed lex(const std::string& text);

}  // namespace ptx::syntax
