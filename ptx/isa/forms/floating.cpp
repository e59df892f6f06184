#define PTX_CHAPTER chapter_floating
#define PTX_ROWS "ptx/isa/forms/floating.def"
#include "ptx/isa/chapter.h"
