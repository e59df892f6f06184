// PtxType: a type of PTX as a Python value. The library's own number for it is kept beside the name.
#include <nanobind/stl/string.h>

#include "ptx/ir/lower.h"
#include "python/src/trace.h"

namespace ptx::python {
namespace {

nb::handle type_class;

}  // namespace

const PtxType* as_type(nb::handle value) {
  return value.type().is(type_class) ? nb::inst_ptr<PtxType>(value) : nullptr;
}

isa::Type type_argument(nb::handle value) {
  const PtxType* type = as_type(value);
  if (!type) throw WrongKind(cat("`dtype` is a type, for example pyptx.types.f32, not ", shown(value)));
  if (type->type == isa::Type::none) throw WrongKind(cat("`dtype`: ", type->name, " is no type of PTX"));
  return type->type;
}

nb::object type_object(isa::Type type) {
  static nb::object* const known = new nb::object[256];
  nb::object& kept = known[static_cast<int>(type)];
  if (!kept.is_valid()) {
    const nb::object names = nb::module_::import_("pyptx.types");
    const isa::TypeInfo& about = info(type);
    const std::string name(about.name);
    kept = nb::hasattr(names, name.c_str()) ? nb::object(names.attr(name.c_str()))
                                            : nb::cast(PtxType{name, about.bits, type});
  }
  return kept;
}

void init_types(nb::module_& m) {
  m.def("is_opaque", [](const std::string& name) { return ir::is_opaque(name); });
  m.def("is_pointed", [](const std::string& word) { return ir::is_pointed(word); });
  type_class = nb::class_<PtxType>(m, "PtxType", "A type of PTX: `name`, `bits`, and `ptx`, the name with its dot")
                   .def(
                       "__init__",
                       [](PtxType* self, std::string name, int bits) {
                         const auto type = isa::type_named(name);
                         new (self) PtxType{std::move(name), bits, type.value_or(isa::Type::none)};
                       },
                       nb::arg("name"), nb::arg("bits"))
                   .def_ro("name", &PtxType::name)
                   .def_ro("bits", &PtxType::bits)
                   .def_prop_ro("ptx", [](const PtxType& t) { return "." + t.name; })
                   .def("__repr__", [](const PtxType& t) { return t.name; })
                   .def("__hash__", [](const PtxType& t) { return std::hash<std::string>{}(t.name); })
                   .def(
                       "__eq__",
                       [](const PtxType& t, nb::handle other) {
                         const PtxType* o = as_type(other);
                         return o && o->name == t.name;
                       },
                       nb::arg("other").none())
                   .def("__reduce__", [](nb::handle self) {
                     const PtxType& t = *as_type(self);
                     return nb::make_tuple(self.type(), nb::make_tuple(t.name, t.bits));
                   });
}

}  // namespace ptx::python
