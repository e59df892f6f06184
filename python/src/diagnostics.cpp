// Diagnostics as Python values, and the exceptions of pyptx.errors that carry them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "ptx/base/text.h"
#include "python/src/module.h"

namespace ptx::python {
namespace {

const char* severity_name(Severity severity) {
  constexpr const char* names[] = {"note", "warning", "error"};
  return names[static_cast<int>(severity)];
}

const char* phase_class(Phase phase) {
  constexpr const char* names[] = {"Parse", "Authoring", "Assembler", "Launch", "Simulation"};
  return names[static_cast<int>(phase)];
}

// The built-in exception that a code stands for besides its phase: "Type" makes AuthoringTypeError.
const char* kind_of(Code code) {
  switch (code) {
    case Code::bad_operand:
    case Code::operator_type:
    case Code::literal_type:
    case Code::truth_of_register: return "Type";
    case Code::bad_argument:
    case Code::duplicate_name:
    case Code::duplicate_label:
    case Code::wrong_parameter: return "Value";
    case Code::index_range: return "Index";
    case Code::else_without_if:
    case Code::foreign_register: return "Runtime";
    default: return "";
  }
}

}  // namespace

void set_error(Phase phase, const Diagnostics& why) {
  try {
    const std::string name = cat(phase_class(phase), why.empty() ? "" : kind_of(why.front().code), "Error");
    const nb::object type = nb::module_::import_("pyptx.errors").attr(name.c_str());
    const nb::object error = type(to_string(why), nb::cast(why));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  } catch (nb::python_error& error) {
    error.restore();
  }
}

void raise(Phase phase, const Diagnostics& why) {
  set_error(phase, why);
  throw nb::python_error();
}

void init_diagnostics(nb::module_& m) {
  m.def("diagnostic_codes", [] {
    nb::list rows;  // (number, name, severity, summary), for reports that list what they may say
    for (const CodeInfo& row : all_codes())
      rows.append(nb::make_tuple(static_cast<int>(row.code), nb::str(row.name.data(), row.name.size()),
                                 severity_name(row.severity), nb::str(row.summary.data(), row.summary.size())));
    return rows;
  });
  nb::class_<Diagnostic>(m, "Diagnostic", "What the library has to say about one line")
      .def_prop_ro("code", [](const Diagnostic& d) { return static_cast<int>(d.code); })
      .def_prop_ro("name", [](const Diagnostic& d) { return std::string(info(d.code).name); })
      .def_prop_ro("severity", [](const Diagnostic& d) { return severity_name(d.severity); })
      .def_prop_ro("file", [](const Diagnostic& d) { return std::string(d.place.file.view()); })
      .def_prop_ro("line", [](const Diagnostic& d) { return d.place.line; })
      .def_prop_ro("column", [](const Diagnostic& d) { return d.place.column; })
      .def_ro("message", &Diagnostic::message)
      .def_ro("notes", &Diagnostic::notes)
      .def_ro("operand", &Diagnostic::operand)
      .def_ro("section", &Diagnostic::section)
      .def("__str__", [](const Diagnostic& d) { return to_string(d); })
      .def("__repr__", [](const Diagnostic& d) { return "<Diagnostic " + to_string(d) + ">"; });
}

}  // namespace ptx::python
