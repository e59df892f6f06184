// What a finished trace made, as Python sees it.
#include "python/src/built.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "ptx/base/text.h"

namespace ptx::python {
namespace {

nb::list lines_of(const std::vector<Place>& lines) {
  nb::list rows;
  for (const Place& place : lines) rows.append(nb::make_tuple(std::string(place.file.view()), place.line));
  return rows;
}

}  // namespace

void init_built(nb::module_& m) {
  nb::class_<RegistersOfModule>(m, "MadeRegisters", "Registers that an author's program has, and where it got them")
      .def_prop_ro("rows", [](const RegistersOfModule& self) { return tuples_of(rows_of(*self.all)); });
  nb::class_<BuiltModule>(m, "Module", "One kernel as instructions: what a trace made")
      .def(
          "emit",
          [](const BuiltModule& self, bool lineinfo) { return ir::emit(*self.module, ir::EmitOptions{lineinfo}); },
          nb::arg("lineinfo") = false, "Its PTX text; with `lineinfo`, with .file and .loc lines.")
      .def_prop_ro(
          "lines",
          [](const BuiltModule& self) {
            std::vector<Place> lines;
            ir::emit(*self.module, {}, &lines);
            return lines_of(lines);
          },
          "(file, line) of the author for each line of the text; entry 0 is not used")
      .def_prop_ro("version",
                   [](const BuiltModule& self) {
                     return nb::make_tuple(self.module->version.major, self.module->version.minor);
                   })
      .def_prop_ro("target", [](const BuiltModule& self) { return self.module->target; })
      .def_prop_ro("instruction_count",
                   [](const BuiltModule& self) {
                     std::size_t count = 0;
                     for (const auto& function : self.module->functions) count += function.instructions.size();
                     return count;
                   })
      .def_prop_ro("dynamic_shared", [](const BuiltModule& self) { return self.built.dynamic_shared; })
      .def_prop_ro("static_shared", [](const BuiltModule& self) { return self.built.static_shared; })
      .def_prop_ro("tensor_maps", [](const BuiltModule& self) { return self.built.tensor_maps; })
      .def_prop_ro(
          "tile_copies",
          [](const BuiltModule& self) {
            nb::list rows;
            for (const author::TileCopy& copy : self.built.tile_copies)
              rows.append(nb::make_tuple(copy.tensor, copy.tile, std::string(arch::name(copy.swizzle)),
                                         std::string(copy.place.file.view()), copy.place.line));
            return rows;
          },
          "(tensor, tile, swizzle of the tile, file, line) of tensor copies into tiles that wgmma multiplies")
      .def_prop_ro(
          "allocated",
          [](const BuiltModule& self) {
            nb::list rows;
            for (const Allocated& a : self.built.allocated)
              rows.append(nb::make_tuple(std::string(a.name.view()), std::string(a.array.view()), a.offset, a.bytes,
                                         std::string(a.place.file.view()), a.place.line));
            return rows;
          },
          "(name, array, offset, bytes, file, line) of shared memory; array: the dynamic memory of which it is a part")
      .def_prop_ro("registers", [](const BuiltModule& self) { return RegistersOfModule{self.registers}; })
      .def_prop_ro("notes", [](const BuiltModule& self) { return nb::cast(self.built.notes); });
}

}  // namespace ptx::python
