#define PTX_CHAPTER bind_video
#define PTX_ROWS "ptx/isa/forms/video.def"
#include "ptx/sim/exec/chapter.h"
