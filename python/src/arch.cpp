// The tables of ptx/arch as Python values: what the face and the tests read instead of lists of their own.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "ptx/arch/instruction_descriptor.h"
#include "ptx/arch/matrix.h"
#include "ptx/arch/target.h"
#include "ptx/base/text.h"
#include "ptx/isa/types.h"
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

// (name, bits, kind, name in frameworks, another name there) of each element type of tensors.
nb::list elements() {
  nb::list rows;
  for (const arch::ElementInfo& row : arch::element_table)
    rows.append(nb::make_tuple(row.name, row.bits, std::string(1, row.kind), row.framework, row.alias));
  return rows;
}

// (name, bits) of each type of PTX.
nb::list types() {
  nb::list rows;
  for (const isa::TypeInfo& row : isa::type_table)
    if (!row.name.empty()) rows.append(nb::make_tuple(row.name, row.bits));
  return rows;
}

nb::list swizzles() {
  nb::list rows;
  for (const arch::SwizzleInfo& row : arch::swizzle_table) rows.append(nb::make_tuple(row.name, row.bytes, row.wgmma));
  return rows;
}

nb::tuple tile_layout(int bits, std::int64_t rows, std::int64_t columns, bool mn_major) {
  const auto made = arch::tile_layout(bits, rows, columns, mn_major);
  if (!made) throw nb::value_error(made.why().front().message.c_str());
  return nb::make_tuple(arch::name(made->swizzle), made->leading, made->stride);
}

}  // namespace

void init_arch(nb::module_& m) {
  m.def("architectures", &architectures, "The rows of ptx/arch/targets.def, in the order of their numbers");
  m.def(
      "tcgen05_shape",
      [](std::uint32_t descriptor) {
        namespace fields = arch::instruction_descriptor;
        return nb::make_tuple(fields::m.of(descriptor) * 16, fields::n.of(descriptor) * 8);
      },
      nb::arg("descriptor"), "(M, N) of an instruction descriptor of tcgen05.mma");
  m.def("elements", &elements, "(name, bits, kind, framework, alias) of each element type of tensors");
  m.def("types", &types, "(name, bits) of each type of PTX");
  m.def("swizzles", &swizzles, "(name, bytes of a row, code in a wgmma descriptor or -1) of each swizzle");
  m.def(
      "swizzled",
      [](const std::string& name, std::uint64_t offset) {
        const auto swizzle = arch::swizzle_named(name);
        if (!swizzle) throw nb::value_error(cat("swizzle ", name, "; legal: ", arch::swizzle_names()).c_str());
        return arch::swizzled(*swizzle, offset);
      },
      nb::arg("name"), nb::arg("offset"),
      "Where the byte at `offset` of a tile lies, from a boundary at which the swizzle's pattern starts");
  m.def("tile_layout", &tile_layout, nb::arg("bits"), nb::arg("rows"), nb::arg("columns"), nb::arg("mn_major"),
        "(swizzle, leading and stride byte offsets) of a tile that a wgmma descriptor names; ValueError if none can");
  m.def(
      "element_of",
      [](const std::string& type, int bits) -> std::optional<std::string> {
        const auto found = arch::element_of(type, bits);
        return found ? std::optional(std::string(arch::name(*found))) : std::nullopt;
      },
      nb::arg("type"), nb::arg("bits"), "The element type of tensors of this PTX type; None where there is none");
  m.def(
      "target_of_device", [](int major, int minor) { return arch::to_string(arch::target_of_device(major, minor)); },
      nb::arg("major"), nb::arg("minor"),
      "The most specific target of a device of this compute capability, for example sm_90a");
}

}  // namespace ptx::python
