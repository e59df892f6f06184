#define PTX_CHAPTER chapter_control
#define PTX_ROWS "ptx/isa/forms/control.def"
#include "ptx/isa/chapter.h"
