// How a modifier or an opcode of PTX is spelled as a name: shared::cta is shared_cta in C++ and shared__cta in Python,
// 2d is _2d in both, `and` is and_. The one place that knows; author/modifiers.def, ptx.inst and its stub follow it.
#pragma once

#include <string>
#include <string_view>

namespace ptx::isa {

namespace spelling {

constexpr bool among(std::string_view name, const auto& list) {
  for (const std::string_view one : list)
    if (one == name) return true;
  return false;
}

// With `separator` for `::` and `colon` for one alone (sp::2:4), and `_` in front of a digit.
inline std::string with(std::string_view separator, std::string_view colon, std::string_view text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool two = text[i] == ':' && i + 1 < text.size() && text[i + 1] == ':';
    if (two) ++i;
    if (text[i] != ':')
      name += text[i];
    else
      name += two ? separator : colon;
  }
  if (!name.empty() && name[0] >= '0' && name[0] <= '9') name.insert(name.begin(), '_');
  return name;
}

}  // namespace spelling

// `_` stands behind what C++ reserves and what a header of C declares (abs, read, wait), so that `using namespace
// ptx::modifiers` makes no name ambiguous.
inline std::string cpp_name(std::string_view text) {
  constexpr std::string_view reserved[] = {"abs", "and",  "const", "finite",   "nan",  "not",
                                           "or",  "read", "sync",  "volatile", "wait", "xor"};
  std::string name = spelling::with("_", "_", text);
  if (spelling::among(name, reserved)) name += '_';
  return name;
}

// A single colon stays: Python has no name for sp::2:4.
inline std::string python_name(std::string_view text) {
  constexpr std::string_view reserved[] = {"and", "async", "for", "global", "if",  "in",
                                           "is",  "not",   "or",  "pass",   "try", "with"};
  std::string name = spelling::with("__", ":", text);
  if (spelling::among(name, reserved)) name += '_';
  return name;
}

// Back from Python: _2d, global_, shared__cta. Whether there is such a modifier is not asked.
inline std::string from_python(std::string_view name) {
  if (name.size() > 1 && name[0] == '_' && name[1] >= '0' && name[1] <= '9') name.remove_prefix(1);
  if (name.size() > 1 && name.back() == '_') name.remove_suffix(1);
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool two = name[i] == '_' && i + 1 < name.size() && name[i + 1] == '_';
    if (two)
      ++i, text += "::";
    else
      text += name[i];
  }
  return text;
}

}  // namespace ptx::isa
