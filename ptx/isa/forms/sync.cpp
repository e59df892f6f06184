#define PTX_CHAPTER chapter_sync
#define PTX_ROWS "ptx/isa/forms/sync.def"
#include "ptx/isa/chapter.h"
