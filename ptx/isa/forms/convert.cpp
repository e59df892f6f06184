#define PTX_CHAPTER chapter_convert
#define PTX_ROWS "ptx/isa/forms/convert.def"
#include "ptx/isa/chapter.h"
