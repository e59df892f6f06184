// Descriptors of matrices in shared memory, as wgmma (manual 9.7.15.5.1.2) and tcgen05 (9.7.16.3, 9.7.16.4.1) read
// them: their bits, and where the bytes of the matrix lie then. Who has which elements of a matrix is not said here.
#pragma once

#include <cstdint>

#include "ptx/arch/matrix.h"

namespace ptx::arch {

struct BitField {
  int at = 0, bits = 0;
  constexpr std::uint32_t of(std::uint64_t word) const {
    return static_cast<std::uint32_t>(word >> at & ((std::uint64_t{1} << bits) - 1));
  }
  constexpr std::uint64_t put(std::uint64_t value) const { return value << at; }
  constexpr std::uint32_t most() const { return (1u << bits) - 1; }
};

struct DescriptorFormat {
  std::int16_t SwizzleInfo::* code;  // of a swizzle, in these descriptors
  BitField start, leading, stride;   // in units of 16 bytes
  BitField version;                  // has to be 1; of no bits: there is none
  BitField base_offset;
  BitField absolute;  // the leading dimension's stride is an address
  BitField zero;      // has to be 0
  BitField swizzle;
};
inline constexpr DescriptorFormat wgmma_descriptor{
    &SwizzleInfo::wgmma, {0, 14}, {16, 14}, {32, 14}, {}, {49, 3}, {}, {}, {62, 2}};
inline constexpr DescriptorFormat tcgen05_descriptor{
    &SwizzleInfo::tcgen05, {0, 14}, {16, 14}, {32, 14}, {46, 3}, {49, 3}, {52, 1}, {53, 8}, {61, 3}};

// A matrix in shared memory is rows of 16-byte units. A row runs along the dimension whose elements lie side by side:
// along K, or along M or N where the instruction transposes (`mn_major`), and is as long as the instruction needs.
struct MatrixDescriptor {
  std::uint32_t start = 0, leading = 0, stride = 0;  // bytes
  std::uint32_t base_offset = 0;                     // in 128 bytes: where the swizzle's pattern starts
  bool absolute = false;                             // `leading` is the address of what lies beyond 128 bytes of a row
  Swizzle swizzle = Swizzle::none;

  // The address of a unit. It may lie beyond the memory that there is, or beyond any that a descriptor can name.
  constexpr std::uint32_t at(bool mn_major, std::uint32_t row, std::uint32_t unit) const {
    const std::uint32_t width = info(swizzle).bytes;
    const std::uint32_t repeats = mn_major && swizzle == Swizzle::b128_atom_32 ? 4 : 8;  // rows of a pattern
    const std::uint32_t inner = row % repeats, outer = row / repeats;
    if (swizzle == Swizzle::none)
      return start + inner * 16 + (mn_major ? outer * leading + unit * stride : outer * stride + unit * leading);
    std::uint32_t at = start + inner * width + outer * stride;
    if (const std::uint32_t along = start % 128 + unit * 16; absolute && along >= 128) {
      at += leading - start + along - 128;
    } else {  // along K only a sparse product has rows longer than a pattern: 64 bytes of B, with 32B; so does an H200
      at += unit * 16 / width * leading + unit * 16 % width;
    }
    // Which rows are exchanged is told by the address, counted from where the pattern starts.
    const std::uint32_t in_pattern = at - base_offset * 128;
    return at ^ in_pattern ^ static_cast<std::uint32_t>(swizzled(swizzle, in_pattern));
  }
};

// Reads a descriptor's bits. Refuses (bad_argument), with the field's name, what no matrix has: a code of no swizzle, a
// wrong version, bits that have to be 0, a base offset that the start address or the swizzle contradicts.
Expected<MatrixDescriptor> read_descriptor(const DescriptorFormat& format, std::uint64_t bits);

}  // namespace ptx::arch
