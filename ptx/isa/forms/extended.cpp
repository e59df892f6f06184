#define PTX_CHAPTER chapter_extended
#define PTX_ROWS "ptx/isa/forms/extended.def"
#include "ptx/isa/chapter.h"
