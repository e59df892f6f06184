// Factors from the bits of elements, as tensor cores read them.
#pragma once

#include "ptx/arch/format.h"
#include "ptx/isa/types.h"
#include "ptx/sim/numerics/tensor_core.h"

namespace ptx::sim {

// One factor of a narrow format.
Factor factor_of(const arch::Format& format, std::uint32_t bits);

// Values and exponents (as Factor; zero has exponent_of_zero) of `size` elements, each in the low bits of a word. .tf32
// loses its 13 low bits. `in_bytes`: .e2m1 lies in the middle of its byte, the 6-bit types lie low. Returns whether all
// are plain.
bool factorise(isa::Type type, bool in_bytes, const std::uint32_t* bits, int size, float* values,
               std::int32_t* exponents);

}  // namespace ptx::sim
