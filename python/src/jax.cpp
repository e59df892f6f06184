// The handlers of kernels in XLA programs, for jax.ffi.register_ffi_target. Knows nothing of jax itself.
#include <nanobind/stl/string.h>

#include "ptx/interop/xla.h"
#include "python/src/module.h"

namespace ptx::python {

void init_jax(nb::module_& m) {
  m.def(
      "xla_handlers",
      [](const std::string& platform, bool values) {
        const interop::xla::Handlers handlers = interop::xla::handlers(platform, values);
        nb::dict stages;
        const auto add = [&](const char* stage, interop::xla::Handler* handler) {
          if (handler != nullptr) stages[stage] = nb::capsule(reinterpret_cast<void*>(handler));
        };
        add("instantiate", handlers.instantiate);
        add("initialize", handlers.initialize);
        add("execute", handlers.execute);
        return stages;
      },
      nb::arg("platform"), nb::arg("values") = false,
      "Stage -> handler of the typed FFI call pyptx_launch, or pyptx_launch_values, for \"cpu\" or \"CUDA\"");
}

}  // namespace ptx::python
