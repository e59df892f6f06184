#define PTX_CHAPTER chapter_integer
#define PTX_ROWS "ptx/isa/forms/integer.def"
#include "ptx/isa/chapter.h"
