#include "ptx/sim/exec/integer.h"

#define PTX_CHAPTER bind_integer
#define PTX_ROWS "ptx/isa/forms/integer.def"
#include "ptx/sim/exec/chapter.h"
