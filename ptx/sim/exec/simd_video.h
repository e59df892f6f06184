// Manual 9.7.18.2: video instructions of two halves and four bytes.
#pragma once

#include "ptx/sim/exec/video.h"

namespace ptx::sim {

// 9.7.18.2.1  vadd2, vsub2, vavrg2, vabsdiff2, vmin2, vmax2
constexpr WarpBody sem_vadd2{video_body};
constexpr WarpBody sem_vsub2{video_body};
constexpr WarpBody sem_vavrg2{video_body};
constexpr WarpBody sem_vabsdiff2{video_body};
constexpr WarpBody sem_vmin2{video_body};
constexpr WarpBody sem_vmax2{video_body};

// 9.7.18.2.2  vset2
constexpr WarpBody sem_vset2{video_body};

// 9.7.18.2.3  vadd4, vsub4, vavrg4, vabsdiff4, vmin4, vmax4
constexpr WarpBody sem_vadd4{video_body};
constexpr WarpBody sem_vsub4{video_body};
constexpr WarpBody sem_vavrg4{video_body};
constexpr WarpBody sem_vabsdiff4{video_body};
constexpr WarpBody sem_vmin4{video_body};
constexpr WarpBody sem_vmax4{video_body};

// 9.7.18.2.4  vset4
constexpr WarpBody sem_vset4{video_body};

}  // namespace ptx::sim
