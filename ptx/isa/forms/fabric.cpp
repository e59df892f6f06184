#define PTX_CHAPTER chapter_fabric
#define PTX_ROWS "ptx/isa/forms/fabric.def"
#include "ptx/isa/chapter.h"
