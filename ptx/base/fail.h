// Where a check of our own invariants ends (check.h); for public headers, which leave no macro behind.
#pragma once

#include <source_location>
#include <string_view>

namespace ptx {

[[noreturn]] void fail_check(const char* condition, std::string_view facts,
                             std::source_location where = std::source_location::current());

}  // namespace ptx
