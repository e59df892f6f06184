#define PTX_CHAPTER chapter_multimem
#define PTX_ROWS "ptx/isa/forms/multimem.def"
#include "ptx/isa/chapter.h"
