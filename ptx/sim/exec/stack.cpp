#define PTX_CHAPTER bind_stack
#define PTX_ROWS "ptx/isa/forms/stack.def"
#include "ptx/sim/exec/chapter.h"
