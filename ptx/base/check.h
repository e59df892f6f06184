// PTX_CHECK guards our own invariants and aborts with facts. What a user can cause is a Diagnostic, never a check.
#pragma once

#include <source_location>
#include <string_view>

namespace ptx {

[[noreturn]] void fail_check(const char* condition, std::string_view facts,
                             std::source_location where = std::source_location::current());

}  // namespace ptx

#define PTX_CHECK(condition, facts)                         \
  do {                                                      \
    if (!(condition)) ::ptx::fail_check(#condition, facts); \
  } while (false)
