// The areas of the extension module, and what they share.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "ptx/base/diagnostic.h"

#if PY_VERSION_HEX < 0x030C0000  // the names of 3.12
#include <structmember.h>
#define Py_T_PYSSIZET T_PYSSIZET
#define Py_READONLY READONLY
#endif

namespace nb = nanobind;

namespace ptx::python {

void init_ahead(nb::module_& m);
void init_arch(nb::module_& m);
void init_choice(nb::module_& m);
void init_diagnostics(nb::module_& m);
void init_isa(nb::module_& m);
void init_jax(nb::module_& m);
void init_launch(nb::module_& m);
void init_place(nb::module_& m);
void init_profile(nb::module_& m);
void init_replay(nb::module_& m);
void init_run(nb::module_& m);
void init_simulator(nb::module_& m);
void init_text(nb::module_& m);
void init_transpile(nb::module_& m);

// The place of the Python line that called into the library: of the innermost frame outside the package.
Place author_place();

// Phases of pyptx.errors.
enum class Phase { parse, authoring, assembler, launch, simulation };
[[gnu::cold]] void set_error(Phase phase, const Diagnostics& why);  // sets the Python error
[[noreturn]] void raise(Phase phase, const Diagnostics& why);

}  // namespace ptx::python
