#define PTX_CHAPTER chapter_surface
#define PTX_ROWS "ptx/isa/forms/surface.def"
#include "ptx/isa/chapter.h"
