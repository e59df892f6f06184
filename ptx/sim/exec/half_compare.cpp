#include "ptx/sim/exec/half_compare.h"

#define PTX_CHAPTER bind_half_compare
#define PTX_ROWS "ptx/isa/forms/half_compare.def"
#include "ptx/sim/exec/chapter.h"
