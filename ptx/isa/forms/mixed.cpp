#define PTX_CHAPTER chapter_mixed
#define PTX_ROWS "ptx/isa/forms/mixed.def"
#include "ptx/isa/chapter.h"
