#include "ptx/sim/exec/atomic.h"

#define PTX_CHAPTER bind_atomic
#define PTX_ROWS "ptx/isa/forms/atomic.def"
#include "ptx/sim/exec/chapter.h"
