#include "ptx/sim/exec/misc.h"

#define PTX_CHAPTER bind_misc
#define PTX_ROWS "ptx/isa/forms/misc.def"
#include "ptx/sim/exec/chapter.h"
