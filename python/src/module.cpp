// pyptx._core: what the Python face is made of. One init_x per area; each binds what the library does and adds no logic.
#include "python/src/module.h"

NB_MODULE(_core, m) {
  m.doc() = "The C++ library behind pyptx";
}
