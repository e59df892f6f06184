#define PTX_CHAPTER bind_simd_video
#define PTX_ROWS "ptx/isa/forms/simd_video.def"
#include "ptx/sim/exec/chapter.h"
