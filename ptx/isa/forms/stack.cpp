#define PTX_CHAPTER chapter_stack
#define PTX_ROWS "ptx/isa/forms/stack.def"
#include "ptx/isa/chapter.h"
