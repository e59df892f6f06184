#include "ptx/sim/exec/async.h"

#define PTX_CHAPTER bind_async
#define PTX_ROWS "ptx/isa/forms/async.def"
#include "ptx/sim/exec/chapter.h"
