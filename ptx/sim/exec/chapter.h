// Compiles the bodies of one chapter. CMake makes a source of chapter.cpp.in for each, which includes the bodies,
// <chapter>.h if there is one, and defines PTX_CHAPTER (the name of its function) and PTX_ROWS (its rows).
#include "ptx/isa/form_ids.h"
#include "ptx/sim/exec/table.h"
#include "ptx/sim/exec/unsimulated.h"

namespace ptx::sim {

Bound PTX_CHAPTER([[maybe_unused]] const isa::Match& match) {
  switch (match.id) {
#define OPCODE(name, ...)
#define SECTION(number, title)
#define FORM(id, syntax, ...) \
  case isa::form_id::id: return bind_body<type_slots(syntax)>(sem_##id, match);
#include PTX_ROWS
#undef OPCODE
#undef SECTION
#undef FORM
    default: return {};
  }
}

}  // namespace ptx::sim

#undef PTX_CHAPTER
#undef PTX_ROWS
