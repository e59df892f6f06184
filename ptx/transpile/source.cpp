// Breaking of lines. A statement that is too long is split at the bracket that closes last: what is inside goes on a
// line of its own, or, where that is too long as well, each part between its commas does, with a comma behind the last.
#include "ptx/transpile/detail/source.h"

#include <algorithm>
#include <vector>

#include "ptx/base/text.h"

namespace ptx::transpile {
namespace {

// Behind the literal that begins at `i`.
std::size_t behind_literal(std::string_view text, std::size_t i) {
  const char quote = text[i];
  for (++i; i < text.size() && text[i] != quote; ++i) i += text[i] == '\\';
  return i + 1;
}

struct Bracket {
  std::size_t open = std::string_view::npos, close = 0;
};

// The last pair of brackets that is inside no other.
Bracket last_bracket(std::string_view text) {
  Bracket found;
  int depth = 0;
  std::size_t open = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      i = behind_literal(text, i);
      continue;
    }
    if ((c == '(' || c == '[' || c == '{') && depth++ == 0) open = i;
    if ((c == ')' || c == ']' || c == '}') && --depth == 0) found = {open, i};
    ++i;
  }
  return found;
}

std::vector<std::string_view> parts(std::string_view text) {
  std::vector<std::string_view> found;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      i = behind_literal(text, i);
      continue;
    }
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c == ',' && depth == 0) {
      found.push_back(text.substr(begin, i - begin));
      begin = i + 1;
      while (begin < text.size() && text[begin] == ' ') ++begin;
    }
    ++i;
  }
  if (begin < text.size()) found.push_back(text.substr(begin));
  return found;
}

// Whether a bracket is around a value, (a + b), and not around arguments or elements.
bool groups(std::string_view text, Bracket at) {
  if (text[at.open] != '(') return false;
  const char before = at.open == 0 ? ' ' : text[at.open - 1];
  return before == ' ' || before == '(' || before == '~' || before == '-';
}

}  // namespace

void Source::broken(std::size_t depth, std::string_view text) {
  const Bracket at = 4 * depth + text.size() > width ? last_bracket(text) : Bracket{};
  if (at.open == text.npos || at.close == at.open + 1) return put(depth, text);
  const std::string_view inside = text.substr(at.open + 1, at.close - at.open - 1);
  put(depth, text.substr(0, at.open + 1));
  const std::vector<std::string_view> each = parts(inside);
  if (4 * (depth + 1) + inside.size() <= width && inside.back() != ',') {
    put(depth + 1, inside);
  } else if (each.size() == 1 && inside.back() != ',' && (groups(text, at) || inside.find(" for ") != inside.npos)) {
    broken(depth + 1, inside);
  } else {
    for (const std::string_view part : each) broken(depth + 1, std::string(part) + ',');
  }
  put(depth, text.substr(at.close));
}

// C++: as many parts on a line as there is room for, below the bracket that they are in.
void Source::packed(std::string_view text) {
  std::vector<std::size_t> columns;  // behind each open bracket
  std::string line(step_ * depth_, ' ');
  std::size_t begin = 0;
  const auto piece = [&](std::size_t end) {
    const std::string_view part = text.substr(begin, end - begin);
    if (line.size() + part.size() > width && line.find_first_not_of(' ') != line.npos) {
      while (line.ends_with(' ')) line.pop_back();
      text_.append(line).push_back('\n');
      line.assign(columns.empty() ? step_ * depth_ + 4 : columns.back(), ' ');
    }
    for (std::size_t i = 0; i < part.size();) {
      if (part[i] == '"') {
        i = behind_literal(part, i);
        continue;
      }
      if (part[i] == '(' || part[i] == '{' || part[i] == '[') columns.push_back(line.size() + i + 1);
      if ((part[i] == ')' || part[i] == '}' || part[i] == ']') && !columns.empty()) columns.pop_back();
      ++i;
    }
    line += part;
    begin = end;
  };
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      i = behind_literal(text, i);
      continue;
    }
    if (text[i] == ',' && i + 1 < text.size() && text[i + 1] == ' ') piece(i + 2);
    ++i;
  }
  piece(text.size());
  text_.append(line).push_back('\n');
}

// What a comment has at its end so that C++ does not join the next line to it.
std::string_view Source::ending(std::string_view comment) const { return cpp_ && comment.ends_with('\\') ? " ." : ""; }

void Source::line(std::string_view text, std::string_view behind) {
  if (step_ * depth_ + text.size() > width) {
    if (!behind.empty()) comment(behind);
    return cpp_ ? packed(text) : broken(depth_, text);
  }
  if (!behind.empty() && step_ * depth_ + text.size() + 5 + behind.size() > width) {
    comment(behind);
    behind = {};
  }
  text_.append(step_ * depth_, ' ').append(text);
  if (!behind.empty()) text_.append(cpp_ ? "  // " : "  # ").append(behind).append(ending(behind));
  text_ += '\n';
}

void Source::join(std::size_t start) {
  const std::string_view whole = std::string_view(text_).substr(start);
  std::size_t lines = 0, at_end = 0;
  while (lines < 4 && (at_end = whole.find('\n', at_end)) != whole.npos) ++lines, ++at_end;
  if (lines != 3 || whole.find("//") != whole.npos) return;
  std::string line;
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t end = whole.find('\n', at);
    std::string_view part = whole.substr(at, end - at);
    if (!line.empty()) part.remove_prefix(part.find_first_not_of(' '));
    line += cat(line.empty() ? "" : " ", part);
    at = end + 1;
  }
  if (line.size() <= width) text_.replace(start, text_.npos, line + '\n');
}

void Source::comment(std::string_view text) {
  std::string line(cpp_ ? "//" : "#");
  if (!text.empty()) line.append(" ").append(text);
  put(depth_, line.append(ending(line)));
}

std::string quoted(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': made += "\\\""; break;
      case '\\': made += "\\\\"; break;
      case '\n': made += "\\n"; break;
      case '\t': made += "\\t"; break;
      case '\r': made += "\\r"; break;
      default: made += c;
    }
  }
  return made += '"';
}

}  // namespace ptx::transpile
