#define PTX_CHAPTER chapter_tensor
#define PTX_ROWS "ptx/isa/forms/tensor.def"
#include "ptx/isa/chapter.h"
