#include "ptx/sim/exec/half.h"

#define PTX_CHAPTER bind_half
#define PTX_ROWS "ptx/isa/forms/half.def"
#include "ptx/sim/exec/chapter.h"
