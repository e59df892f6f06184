#define PTX_CHAPTER chapter_texture
#define PTX_ROWS "ptx/isa/forms/texture.def"
#include "ptx/isa/chapter.h"
