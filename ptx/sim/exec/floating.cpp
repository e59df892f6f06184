#include "ptx/sim/exec/floating.h"

#define PTX_CHAPTER bind_floating
#define PTX_ROWS "ptx/isa/forms/floating.def"
#include "ptx/sim/exec/chapter.h"
