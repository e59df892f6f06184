#include "ptx/sim/exec/convert.h"

#define PTX_CHAPTER bind_convert
#define PTX_ROWS "ptx/isa/forms/convert.def"
#include "ptx/sim/exec/chapter.h"
