#define PTX_CHAPTER chapter_misc
#define PTX_ROWS "ptx/isa/forms/misc.def"
#include "ptx/isa/chapter.h"
