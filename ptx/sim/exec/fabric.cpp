#define PTX_CHAPTER bind_fabric
#define PTX_ROWS "ptx/isa/forms/fabric.def"
#include "ptx/sim/exec/chapter.h"
