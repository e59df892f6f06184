#define PTX_CHAPTER chapter_matrix
#define PTX_ROWS "ptx/isa/forms/matrix.def"
#include "ptx/isa/chapter.h"
