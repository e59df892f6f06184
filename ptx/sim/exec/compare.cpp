#include "ptx/sim/exec/compare.h"

#define PTX_CHAPTER bind_compare
#define PTX_ROWS "ptx/isa/forms/compare.def"
#include "ptx/sim/exec/chapter.h"
