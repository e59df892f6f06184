#include "ptx/sim/exec/matrix.h"

#define PTX_CHAPTER bind_matrix
#define PTX_ROWS "ptx/isa/forms/matrix.def"
#include "ptx/sim/exec/chapter.h"
