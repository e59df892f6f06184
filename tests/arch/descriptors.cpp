// Descriptors of matrices in shared memory, against the manual's canonical layouts (9.7.15.5.1.2.1.3).
#include <doctest/doctest.h>

#include <set>

#include "ptx/arch/descriptor.h"

using namespace ptx;
using namespace ptx::arch;

namespace {

constexpr Swizzle canonical[] = {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};

// Swizzle<bits, 4, 3> of CuTe.
std::uint32_t cute_swizzle(int bits, std::uint32_t x) { return x ^ ((x >> 3) & (((1u << bits) - 1) << 4)); }

// The table's layout of the element (mn, k), in bytes; T elements are 16 bytes.
std::uint32_t by_the_table(const MatrixDescriptor& d, bool mn_major, int T, int mn, int k) {
  const int bits = static_cast<int>(d.swizzle), w = 1 << bits;  // NONE, 32B, 64B, 128B
  const int size = 16 / T, lbo = static_cast<int>(d.leading) / size, sbo = static_cast<int>(d.stride) / size;
  int at = 0;
  if (mn_major) {
    const int repeat = mn / (T * w);
    at = mn % T + mn / T % w * T + repeat * (bits ? lbo : sbo) + k % 8 * w * T + k / 8 * (bits ? sbo : lbo);
  } else {
    at = mn % 8 * w * T + mn / 8 * sbo + k % T + k / T * (bits ? T : lbo);
  }
  return cute_swizzle(bits, d.start + static_cast<std::uint32_t>(at * size));
}

}  // namespace

TEST_CASE("a descriptor names the bytes that the manual's canonical layouts name") {
  for (const Swizzle swizzle : canonical) {
    for (const bool mn_major : {false, true}) {
      for (const int T : {4, 8, 16}) {
        CAPTURE(name(swizzle));
        CAPTURE(mn_major);
        CAPTURE(T);
        MatrixDescriptor d{.start = 4096, .leading = 8192, .stride = 1024};
        d.swizzle = swizzle;
        std::set<std::uint32_t> seen;
        for (int mn = 0; mn < 64; ++mn) {
          for (int k = 0; k < 2 * T; ++k) {
            const int along = mn_major ? mn : k, across = mn_major ? k : mn;
            const std::uint32_t at =
                d.at(mn_major, static_cast<std::uint32_t>(across), static_cast<std::uint32_t>(along / T)) +
                static_cast<std::uint32_t>(along % T * 16 / T);
            REQUIRE(at == by_the_table(d, mn_major, T, mn, k));
            seen.insert(at);
          }
        }
        CHECK(seen.size() == 64 * 2 * static_cast<std::size_t>(T));
      }
    }
  }
}

TEST_CASE("the swizzle that keeps 32 bytes together repeats after four rows of K") {
  MatrixDescriptor d{.start = 0, .leading = 8192, .stride = 512};
  d.swizzle = Swizzle::b128_atom_32;
  CHECK(d.at(true, 1, 0) == 128 + 32);
  CHECK(d.at(true, 3, 1) == 3 * 128 + 96 + 16);
  CHECK(d.at(true, 4, 0) == 512);
  CHECK(d.at(true, 4, 8) == 512 + 8192);
}

TEST_CASE("what is longer than a pattern goes on at the leading dimension's offset") {
  MatrixDescriptor d{.start = 1024, .leading = 4096, .stride = 256};
  d.swizzle = Swizzle::b32;
  CHECK(d.at(false, 0, 1) == 1024 + 16);
  CHECK(d.at(false, 0, 2) == 1024 + 4096);
  CHECK(d.at(false, 4, 3) == 1024 + 128 + 4096);
}

TEST_CASE("a base offset says where the pattern starts") {
  for (const Swizzle swizzle : {Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
    const std::uint32_t phases = info(swizzle).alignment / 128;
    for (std::uint32_t base = 0; base < phases; ++base) {
      MatrixDescriptor at_boundary{.start = 1024, .stride = 2048}, moved = at_boundary;
      at_boundary.swizzle = moved.swizzle = swizzle;
      moved.start += 128 * base, moved.base_offset = base;
      for (std::uint32_t row = 0; row < 64; ++row) {
        for (std::uint32_t unit = 0; unit < 2; ++unit)
          REQUIRE(moved.at(false, row, unit) == at_boundary.at(false, row, unit) + 128 * base);
      }
    }
  }
}

TEST_CASE("a stride that is an address names what lies beyond 128 bytes of a row") {
  MatrixDescriptor d{.start = 96, .leading = 16384, .stride = 1024};
  d.swizzle = Swizzle::b128, d.absolute = true;
  CHECK(d.at(false, 0, 1) == 112);
  CHECK(d.at(false, 0, 2) == 16384);
  CHECK(d.at(false, 9, 2) == (16384 + 1024 + 128) + 16);
}

TEST_CASE("descriptors are read from their bits") {
  const auto wgmma = read_descriptor(wgmma_descriptor, 0x4000004000010000 | 0x1234);
  REQUIRE(wgmma);
  CHECK(wgmma->start == 0x12340);
  CHECK(wgmma->leading == 16);
  CHECK(wgmma->stride == 1024);
  CHECK(wgmma->swizzle == Swizzle::b128);
  const auto tcgen05 = read_descriptor(tcgen05_descriptor, 0x2000404000010000 | 0x1234);
  REQUIRE(tcgen05);
  CHECK(tcgen05->stride == 1024);
  CHECK(tcgen05->swizzle == Swizzle::b128_atom_32);
  CHECK_FALSE(tcgen05->absolute);
}

TEST_CASE("fields that contradict each other are named") {
  const auto why = [](const DescriptorFormat& format, std::uint64_t bits) {
    const auto read = read_descriptor(format, bits);
    return read ? std::string() : read.why().front().message;
  };
  CHECK(why(tcgen05_descriptor, 0x4000000000000000).find("version (bits 46 to 48) = 0; it is 1") != std::string::npos);
  CHECK(why(tcgen05_descriptor, 0x6000400000000000).find("swizzle = 3; legal: 0 (NONE), 6 (32B)") != std::string::npos);
  CHECK(why(tcgen05_descriptor, 0x8010400000000000).find("stride mode = 1") != std::string::npos);
  const std::uint64_t base_2 = wgmma_descriptor.base_offset.put(2), b128 = wgmma_descriptor.swizzle.put(1);
  CHECK(why(wgmma_descriptor, base_2).find("base_offset = 2 without a swizzle") != std::string::npos);
  CHECK(why(wgmma_descriptor, base_2 | b128 | 0x18).find("a pattern that starts there has 3") != std::string::npos);
  CHECK(why(wgmma_descriptor, base_2 | b128 | 0x10) == "");
  const std::uint64_t b32 = wgmma_descriptor.swizzle.put(3);
  CHECK(why(wgmma_descriptor, base_2 | b32 | 0x40) == "");  // 0x400: a boundary of 256
}
