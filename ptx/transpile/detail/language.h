// The languages that are written.
#pragma once

#include <cstdint>

namespace ptx::transpile {

enum class Language : std::uint8_t { python, cpp };

}  // namespace ptx::transpile
