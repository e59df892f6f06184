#define PTX_CHAPTER chapter_logic
#define PTX_ROWS "ptx/isa/forms/logic.def"
#include "ptx/isa/chapter.h"
