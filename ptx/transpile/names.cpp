#include "ptx/transpile/detail/names.h"

#include "ptx/base/text.h"
#include "ptx/isa/types.h"

namespace ptx::transpile {
namespace {

constexpr std::string_view python_words[] = {"False", "None", "True", "and", "as", "assert", "async", "await", "break",
                                             "class", "continue", "def", "del", "elif", "else", "except", "finally",
                                             "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
                                             "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
                                             // what the program itself uses
                                             "kernel", "module", "ptx", "reg", "smem", "range", "enumerate", "zip",
                                             "list", "print", "getattr", "__name__", "Tile"};

constexpr std::string_view cpp_words[] = {
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char",
    "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return", "co_yield", "compl", "concept", "const",
    "const_cast", "consteval", "constexpr", "constinit", "continue", "decltype", "default", "delete", "do", "double",
    "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if",
    "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or",
    "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires", "return", "short", "signed",
    "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local", "throw",
    "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile",
    "wchar_t", "while", "xor", "xor_eq",
    // what the program itself uses
    "k", "m", "ptx", "main", "std", "module", "when", "part", "minus", "program", "text", "Arguments", "Kernel",
    "Module", "Reg", "RegArray"};

}  // namespace

Names::Names(Language language) {
  const auto add = [&](const auto& words) {
    for (const std::string_view word : words) taken_.emplace(word);
  };
  language == Language::python ? add(python_words) : add(cpp_words);
  for (const isa::TypeInfo& type : isa::type_table) taken_.emplace(type.name);
}

std::string Names::take(std::string_view wanted) {
  std::string name = identifier(wanted);
  if (insert(name)) return name;
  if (std::string marked = name + '_'; insert(marked)) return marked;
  for (int& n = next_.try_emplace(name, 1).first->second;; ++n) {
    std::string numbered = cat(name, '_', n);
    if (insert(numbered)) return numbered;
  }
}

void Names::release(const std::string& name) {
  taken_.erase(name);
  next_.erase(name.substr(0, name.rfind('_')));
}

namespace {

// Reads "4tile", a name behind its length; "" where there is none.
std::string_view counted(std::string_view& text) {
  std::size_t length = 0, digits = 0;
  for (; digits < text.size() && digits < 4 && text[digits] >= '0' && text[digits] <= '9'; ++digits)
    length = length * 10 + static_cast<std::size_t>(text[digits] - '0');
  if (length == 0 || length > text.size() - digits) return {};
  const std::string_view name = text.substr(digits, length);
  text.remove_prefix(digits + length);
  return name;
}

}  // namespace

std::string_view unmangled(std::string_view name) {
  if (!name.starts_with("_Z")) return name;
  std::string_view rest = name.substr(2), found;
  if (rest.starts_with('Z')) {  // of a function: what stands behind its last E
    for (std::size_t at = rest.rfind('E'); at != rest.npos && at > 0; at = rest.rfind('E', at - 1)) {
      std::string_view end = rest.substr(at + 1);
      found = counted(end);
      if (!found.empty() && (end.empty() || end.starts_with('_'))) return found;
    }
    return name;
  }
  const bool nested = rest.starts_with('N');
  if (nested) rest.remove_prefix(1);
  for (std::string_view part; !(part = counted(rest)).empty() && (nested || found.empty());) found = part;
  return found.empty() ? name : found;
}

std::string identifier(std::string_view text) {
  std::string made;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool digit = c >= '0' && c <= '9';
    if (digit && made.empty()) made += '_';
    if (letter || digit)
      made += c;
    else if (!made.empty() && c != '%')
      made += '_';
  }
  return made.empty() ? "_x" : made;
}

}  // namespace ptx::transpile
