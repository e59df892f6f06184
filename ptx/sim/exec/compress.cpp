#define PTX_CHAPTER bind_compress
#define PTX_ROWS "ptx/isa/forms/compress.def"
#include "ptx/sim/exec/chapter.h"
