#include "ptx/sim/exec/control.h"

#define PTX_CHAPTER bind_control
#define PTX_ROWS "ptx/isa/forms/control.def"
#include "ptx/sim/exec/chapter.h"
