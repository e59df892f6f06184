#include "ptx/sim/exec/tensor.h"

#define PTX_CHAPTER bind_tensor
#define PTX_ROWS "ptx/isa/forms/tensor.def"
#include "ptx/sim/exec/chapter.h"
