#include "ptx/sim/exec/sync.h"

#define PTX_CHAPTER bind_sync
#define PTX_ROWS "ptx/isa/forms/sync.def"
#include "ptx/sim/exec/chapter.h"
