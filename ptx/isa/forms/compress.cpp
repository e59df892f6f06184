#define PTX_CHAPTER chapter_compress
#define PTX_ROWS "ptx/isa/forms/compress.def"
#include "ptx/isa/chapter.h"
