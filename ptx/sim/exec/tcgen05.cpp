#include "ptx/sim/exec/tcgen05.h"

#define PTX_CHAPTER bind_tcgen05
#define PTX_ROWS "ptx/isa/forms/tcgen05.def"
#include "ptx/sim/exec/chapter.h"
