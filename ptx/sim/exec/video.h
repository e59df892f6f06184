// Manual 9.7.18.1: scalar video instructions. What they do is video.cpp's; the parts of registers that operands name
// are Operand::part.
#pragma once

#include "ptx/sim/exec/lanes.h"

namespace ptx::sim {

Bound video_body(const isa::Match& match);  // of this chapter and of simd_video.h

// 9.7.18.1.1  vadd, vsub, vabsdiff, vmin, vmax
constexpr WarpBody sem_vadd{video_body};
constexpr WarpBody sem_vadd_merge{video_body};
constexpr WarpBody sem_vsub{video_body};
constexpr WarpBody sem_vsub_merge{video_body};
constexpr WarpBody sem_vabsdiff{video_body};
constexpr WarpBody sem_vabsdiff_merge{video_body};
constexpr WarpBody sem_vmin{video_body};
constexpr WarpBody sem_vmin_merge{video_body};
constexpr WarpBody sem_vmax{video_body};
constexpr WarpBody sem_vmax_merge{video_body};

// 9.7.18.1.2  vshl, vshr
constexpr WarpBody sem_vshl{video_body};
constexpr WarpBody sem_vshl_merge{video_body};
constexpr WarpBody sem_vshr{video_body};
constexpr WarpBody sem_vshr_merge{video_body};

// 9.7.18.1.3  vmad
constexpr WarpBody sem_vmad{video_body};
constexpr WarpBody sem_vmad_po{video_body};

// 9.7.18.1.4  vset
constexpr WarpBody sem_vset{video_body};
constexpr WarpBody sem_vset_merge{video_body};

}  // namespace ptx::sim
