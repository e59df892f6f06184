// The parts of a 32-bit register that an operand of a video instruction selects: %r1.b0, %r1.h32 (manual 9.7.18).
#pragma once

#include <cstdint>
#include <string_view>

namespace ptx::isa {

enum class Selector : std::uint8_t {
  none,
  part,       // b0 b1 b2 b3 h0 h1: a byte or a half
  halves,     // h and two digits of 0..3: halves of the pair {a, b}
  bytes,      // b and four digits of 0..7: bytes of the pair {a, b}
  half_mask,  // h0 h1 h10: which halves are written
  byte_mask,  // b0 b1 b10 ... b3210: which bytes are written
};

constexpr Selector selector_named(std::string_view name) {
  constexpr std::string_view names[] = {"", "part", "halves", "bytes", "half_mask", "byte_mask"};
  for (std::uint8_t i = 1; i < 6; ++i) {
    if (names[i] == name) return static_cast<Selector>(i);
  }
  return Selector::none;
}

// What may stand behind the dot, for messages.
constexpr std::string_view legal(Selector selector) {
  switch (selector) {
    case Selector::part: return ".b0 .b1 .b2 .b3 .h0 .h1";
    case Selector::halves: return ".h and two digits of 0..3";
    case Selector::bytes: return ".b and four digits of 0..7";
    case Selector::half_mask: return ".h0 .h1 .h10";
    case Selector::byte_mask: return ".b0 .b1 .b10 .b2 ... .b3210, digits falling";
    case Selector::none: break;
  }
  return "";
}

// Whether `word`, without its dot, is one of them.
constexpr bool selects(Selector selector, std::string_view word) {
  if (selector == Selector::none || word.size() < 2 || (word[0] != 'b' && word[0] != 'h')) return false;
  const bool half = word[0] == 'h', mask = selector == Selector::half_mask || selector == Selector::byte_mask;
  if (selector == Selector::halves || selector == Selector::half_mask ? !half : half && selector != Selector::part)
    return false;
  const bool pair = selector == Selector::halves || selector == Selector::bytes;
  const int digits = (half ? 2 : 4) * (pair ? 2 : 1);
  for (std::size_t i = 1; i < word.size(); ++i) {
    if (word[i] < '0' || word[i] >= '0' + digits) return false;
    if (mask && i > 1 && word[i] >= word[i - 1]) return false;
  }
  const std::size_t count = word.size() - 1;
  return mask || count == (selector == Selector::halves ? 2u : selector == Selector::bytes ? 4u : 1u);
}

}  // namespace ptx::isa
