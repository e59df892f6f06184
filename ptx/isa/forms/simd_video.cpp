#define PTX_CHAPTER chapter_simd_video
#define PTX_ROWS "ptx/isa/forms/simd_video.def"
#include "ptx/isa/chapter.h"
