#define PTX_CHAPTER chapter_video
#define PTX_ROWS "ptx/isa/forms/video.def"
#include "ptx/isa/chapter.h"
