#define PTX_CHAPTER chapter_async
#define PTX_ROWS "ptx/isa/forms/async.def"
#include "ptx/isa/chapter.h"
