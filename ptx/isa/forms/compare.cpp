#define PTX_CHAPTER chapter_compare
#define PTX_ROWS "ptx/isa/forms/compare.def"
#include "ptx/isa/chapter.h"
