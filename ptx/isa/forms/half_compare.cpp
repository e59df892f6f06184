#define PTX_CHAPTER chapter_half_compare
#define PTX_ROWS "ptx/isa/forms/half_compare.def"
#include "ptx/isa/chapter.h"
