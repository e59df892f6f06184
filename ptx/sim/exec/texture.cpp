#define PTX_CHAPTER bind_texture
#define PTX_ROWS "ptx/isa/forms/texture.def"
#include "ptx/sim/exec/chapter.h"
