#define PTX_CHAPTER bind_multimem
#define PTX_ROWS "ptx/isa/forms/multimem.def"
#include "ptx/sim/exec/chapter.h"
