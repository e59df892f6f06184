// The instruction descriptor of tcgen05.mma (manual 9.7.16.4.2, tables 42 to 44): where its fields lie. Which values
// are legal depends on the instruction.
#pragma once

#include "ptx/arch/descriptor.h"

namespace ptx::arch::instruction_descriptor {

inline constexpr BitField sparse{2, 1}, a_type{7, 3}, b_type{10, 3}, negate_a{13, 1}, negate_b{14, 1},
    transpose_a{15, 1}, transpose_b{16, 1};
inline constexpr BitField n{17, 6}, m{24, 5};  // in eights and sixteens
// Without scale factors: table 42.
inline constexpr BitField selector{0, 2}, saturate{3, 1}, d_type{4, 2}, max_shift{30, 2};
// With them: tables 43 and 44.
inline constexpr BitField scale_b_id{4, 2}, scale_type{23, 1}, scale_a_id{29, 2}, k_96{31, 1};

}  // namespace ptx::arch::instruction_descriptor
