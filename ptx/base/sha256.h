// SHA-256 (FIPS 180-4), for names of cached files and for noticing that one was damaged. Not meant for secrets.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ptx {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::string_view bytes);
std::string hexadecimal(const Digest& digest);

}  // namespace ptx
