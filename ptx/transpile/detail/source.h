// The text of a program while it is written: lines with their indentation, too long ones broken as black and ruff break
// them, or, in C++, as clang-format does with the options of this project.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "ptx/transpile/detail/language.h"

namespace ptx::transpile {

class Source {
 public:
  static constexpr std::size_t width = 120;

  explicit Source(Language language = Language::python) : cpp_(language == Language::cpp), step_(cpp_ ? 2 : 4) {}

  void indent() { ++depth_; }
  void dedent() { --depth_; }
  std::size_t depth() const { return depth_; }

  // A statement, or the head of a block. `behind`: a comment at its end, without #; above it if there is no room.
  void line(std::string_view text, std::string_view behind = {});
  void comment(std::string_view text);
  // Appends the text as it is, without indentation: it stands inside of a string.
  void verbatim(std::string_view text) { text_.append(text); }
  void blank() { text_ += '\n'; }
  // A block of one line, head and end around it, on one line if there is room and no comment: as C++ has short lambdas.
  void join(std::size_t start);
  std::size_t size() const { return text_.size(); }
  std::string take() { return std::exchange(text_, {}); }

 private:
  std::string_view ending(std::string_view comment) const;
  void put(std::size_t depth, std::string_view text) { text_.append(step_ * depth, ' ').append(text).push_back('\n'); }
  void broken(std::size_t depth, std::string_view text);
  void packed(std::string_view text);

  bool cpp_;
  std::size_t step_;
  std::string text_;
  std::size_t depth_ = 0;
};

// "text" as a literal of Python and C++, which agree on ASCII; bytes beyond are kept.
std::string quoted(std::string_view text);

}  // namespace ptx::transpile
