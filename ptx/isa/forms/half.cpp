#define PTX_CHAPTER chapter_half
#define PTX_ROWS "ptx/isa/forms/half.def"
#include "ptx/isa/chapter.h"
