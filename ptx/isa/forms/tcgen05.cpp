#define PTX_CHAPTER chapter_tcgen05
#define PTX_ROWS "ptx/isa/forms/tcgen05.def"
#include "ptx/isa/chapter.h"
