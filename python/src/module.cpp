// pyptx._core: what the Python face is made of. One init_x per area; each binds what the library does and adds no
// logic.
#include "python/src/module.h"

#include "python/src/analysis.h"
#include "python/src/built.h"
#include "python/src/trace.h"

NB_MODULE(_core, m) {
  using namespace ptx::python;
  nb::set_leak_warnings(false);     // types and singletons of pyptx.types are kept for the process
  m.attr("version") = PTX_VERSION;  // of CMakeLists.txt, which the package's metadata are read off, too
  m.doc() = "The C++ library behind pyptx";
  init_diagnostics(m);
  init_ahead(m);
  init_arch(m);
  init_isa(m);
  init_jax(m);
  init_launch(m);
  init_choice(m);
  init_place(m);
  init_types(m);
  init_values(m);
  init_inst(m);
  init_built(m);
  init_trace(m);
  init_control(m);
  init_functions(m);
  init_shared(m);
  init_families(m);
  init_profile(m);
  init_replay(m);
  init_run(m);
  init_simulator(m);
  init_text(m);
  init_analysis(m);
  init_transpile(m);
}
