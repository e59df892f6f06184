// Names of Python and C++ for what PTX names.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "ptx/transpile/detail/language.h"

namespace ptx::transpile {

// One scope of names: each is given once.
class Names {
 public:
  explicit Names(Language language);
  // A scope inside of another one, which has to outlive it.
  static Names inside(const Names& around) {
    Names made;
    made.around_ = &around;
    return made;
  }

  // `wanted` as an identifier, with `_`, `_1`, `_2`, ... behind it where it is taken.
  std::string take(std::string_view wanted);
  bool is_free(const std::string& name) const { return !taken_.contains(name) && (!around_ || around_->is_free(name)); }
  void release(const std::string& name);

 private:
  Names() = default;
  bool insert(const std::string& name) { return is_free(name) && taken_.insert(name).second; }

  const Names* around_ = nullptr;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_;  // the number behind a name that may be free; those below it are taken
};

// What C++ calls the thing with a mangled name: tile of _ZZ4gemmPfE4tile, gemm of _Z4gemmPf. Another name is itself.
std::string_view unmangled(std::string_view name);

// Letters, digits and _ of it, a letter first.
std::string identifier(std::string_view text);

}  // namespace ptx::transpile
