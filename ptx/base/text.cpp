#include "ptx/base/text.h"

namespace ptx {

Text& Text::hex(std::uint64_t value, int width) {
  char digits[20];
  const auto result = std::to_chars(digits, digits + sizeof digits, value, 16);
  const int length = static_cast<int>(result.ptr - digits);
  if (length < width) buffer_.append(static_cast<std::size_t>(width - length), '0');
  buffer_.append(digits, result.ptr);
  return *this;
}

Text& Text::real(double value) {
  char digits[40];
  const auto result = std::to_chars(digits, digits + sizeof digits, value);
  buffer_.append(digits, result.ptr);
  return *this;
}

}  // namespace ptx
