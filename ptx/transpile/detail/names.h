// Names of Python and C++ for what PTX names.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include "ptx/transpile/detail/language.h"

namespace ptx::transpile {

// One scope of names: each is given once.
class Names {
 public:
  explicit Names(Language language);

  // `wanted` as an identifier, with `_`, `_1`, `_2`, ... behind it where it is taken.
  std::string take(std::string_view wanted);
  bool is_free(const std::string& name) const { return !taken_.contains(name); }
  void release(const std::string& name) { taken_.erase(name); }

 private:
  std::unordered_set<std::string> taken_;
};

// Letters, digits and _ of it, a letter first.
std::string identifier(std::string_view text);

}  // namespace ptx::transpile
