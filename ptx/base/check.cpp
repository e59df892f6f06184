#include "ptx/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ptx {

void fail_check(const char* condition, std::string_view facts, std::source_location where) {
  std::fprintf(stderr, "%s:%u: broken invariant `%s`: %.*s\n", where.file_name(), where.line(), condition,
               static_cast<int>(facts.size()), facts.data());
  std::abort();
}

}  // namespace ptx
