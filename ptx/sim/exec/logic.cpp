#include "ptx/sim/exec/logic.h"

#define PTX_CHAPTER bind_logic
#define PTX_ROWS "ptx/isa/forms/logic.def"
#include "ptx/sim/exec/chapter.h"
