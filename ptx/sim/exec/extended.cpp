#include "ptx/sim/exec/extended.h"

#define PTX_CHAPTER bind_extended
#define PTX_ROWS "ptx/isa/forms/extended.def"
#include "ptx/sim/exec/chapter.h"
