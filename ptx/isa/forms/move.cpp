#define PTX_CHAPTER chapter_move
#define PTX_ROWS "ptx/isa/forms/move.def"
#include "ptx/isa/chapter.h"
