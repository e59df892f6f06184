#define PTX_CHAPTER bind_wgmma
#define PTX_ROWS "ptx/isa/forms/wgmma.def"
#include "ptx/sim/exec/chapter.h"
