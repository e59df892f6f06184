#define PTX_CHAPTER chapter_atomic
#define PTX_ROWS "ptx/isa/forms/atomic.def"
#include "ptx/isa/chapter.h"
