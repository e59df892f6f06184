// The tables of ptx/arch as Python values: what the face and the tests read instead of lists of their own.
#include <nanobind/stl/string.h>

#include "ptx/arch/target.h"
#include "python/src/module.h"

namespace ptx::python {
namespace {

nb::object version(arch::Version since) {
  if (since == arch::Version{}) return nb::none();
  return nb::make_tuple(since.major, since.minor);
}

nb::list architectures() {
  nb::list rows;
  for (const arch::Architecture& row : arch::architectures()) {
    nb::dict made;
    made["number"] = row.number, made["is"] = row.is;
    made["since"] = version(row.since), made["since_a"] = version(row.since_a), made["since_f"] = version(row.since_f);
    made["warps"] = row.warps, made["ctas"] = row.ctas;
    made["sm_shared"] = row.sm_shared, made["cta_shared"] = row.cta_shared;
    made["cluster"] = row.cluster, made["tensor_columns"] = row.tensor_columns;
    rows.append(made);
  }
  return rows;
}

}  // namespace

void init_arch(nb::module_& m) {
  m.def("architectures", &architectures, "The rows of ptx/arch/targets.def, in the order of their numbers");
  m.def(
      "target_of_device", [](int major, int minor) { return arch::to_string(arch::target_of_device(major, minor)); },
      nb::arg("major"), nb::arg("minor"),
      "The most specific target of a device of this compute capability, for example sm_90a");
}

}  // namespace ptx::python
