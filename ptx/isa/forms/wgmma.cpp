#define PTX_CHAPTER chapter_wgmma
#define PTX_ROWS "ptx/isa/forms/wgmma.def"
#include "ptx/isa/chapter.h"
