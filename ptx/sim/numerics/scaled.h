// Products whose operands have scale factors (mma and tcgen05.mma with .block_scale): what a tensor core adds then.
#pragma once

#include "ptx/isa/types.h"
#include "ptx/sim/numerics/tensor_core.h"

namespace ptx::sim {

// Of .ue8m0 or .ue4m3: its value, and the exponent of its power.
Factor scale_factor(isa::Type type, std::uint32_t bits);

// One block, with one scale factor for all of a and one for all of b.
double dot_scaled(const TensorCore& core, std::span<const Factor> a, std::span<const Factor> b, Factor x, Factor y,
                  double c);
// f4, with `scales` factors for each line of k: sixteen products are one term, their sum times the scale factors, with
// the exponent of those.
double dot_f4(const TensorCore& core, std::span<const Factor> a, std::span<const Factor> b, const Factor* scale_a,
              const Factor* scale_b, int scales, double c);

}  // namespace ptx::sim
