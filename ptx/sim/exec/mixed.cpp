#include "ptx/sim/exec/mixed.h"

#define PTX_CHAPTER bind_mixed
#define PTX_ROWS "ptx/isa/forms/mixed.def"
#include "ptx/sim/exec/chapter.h"
