#define PTX_CHAPTER bind_surface
#define PTX_ROWS "ptx/isa/forms/surface.def"
#include "ptx/sim/exec/chapter.h"
