#include "ptx/sim/exec/move.h"

#define PTX_CHAPTER bind_move
#define PTX_ROWS "ptx/isa/forms/move.def"
#include "ptx/sim/exec/chapter.h"
