// Building text: an append-only buffer and `cat`, which joins pieces. libstdc++ 12 has no <format>.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace ptx {

class Text {
 public:
  Text& operator<<(std::string_view piece) { return buffer_.append(piece), *this; }
  Text& operator<<(const char* piece) { return buffer_.append(piece), *this; }
  Text& operator<<(char c) { return buffer_.push_back(c), *this; }
  Text& operator<<(std::integral auto value) {
    char digits[24];
    const auto result = std::to_chars(digits, digits + sizeof digits, value);
    // By length: g++ 12 takes the overload for iterators for an overlap (-Wrestrict).
    return buffer_.append(digits, static_cast<std::size_t>(result.ptr - digits)), *this;
  }
  // Lower-case hexadecimal, padded with zeros to `width` digits.
  Text& hex(std::uint64_t value, int width = 0);
  // Shortest decimal that reads back as the same double.
  Text& real(double value);

  void reserve(std::size_t bytes) { buffer_.reserve(bytes); }
  std::size_t size() const { return buffer_.size(); }
  std::string_view view() const { return buffer_; }
  std::string take() { return std::move(buffer_); }

 private:
  std::string buffer_;
};

template <class... Pieces>
std::string cat(const Pieces&... pieces) {
  Text text;
  (text << ... << pieces);
  return text.take();
}

}  // namespace ptx
