// Diagnostics as Python values, and the exceptions of pyptx.errors that carry them.
#include "python/src/diagnostics.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "ptx/base/text.h"

namespace ptx::python {

const char* severity_name(Severity severity) {
  constexpr const char* names[] = {"note", "warning", "error"};
  return names[static_cast<int>(severity)];
}

nb::str readable(std::string_view text) {
  PyObject* const decoded = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  if (decoded == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(decoded);
}

namespace {

nb::typed<nb::list, nb::str> readable_list(const std::vector<std::string>& texts) {
  nb::typed<nb::list, nb::str> list;
  for (const std::string& text : texts) list.append(readable(text));
  return list;
}

// The exception of pyptx.errors: the phase, and the kind of mistake where the phase has an exception for it.
std::string exception_name(Phase phase, const Diagnostics& why) {
  constexpr std::string_view phases[] = {"Parse", "Authoring", "Assembler", "Launch", "Simulation"};
  constexpr std::string_view kinds[] = {"", "Type", "Value", "Index", "Runtime", ""};
  const Mistake mistake = why.empty() ? Mistake::none : info(why.front().code).mistake;
  if (mistake == Mistake::assembler) return "AssemblerError";
  if (phase == Phase::launch && !why.empty() && static_cast<int>(why.front().code) >= 5000) phase = Phase::simulation;
  const bool known =
      phase == Phase::authoring || (phase == Phase::launch && (mistake == Mistake::type || mistake == Mistake::value));
  return cat(phases[static_cast<int>(phase)], known ? kinds[static_cast<int>(mistake)] : "", "Error");
}

}  // namespace

void set_error(Phase phase, const Diagnostics& why) {
  const bool interrupted = !why.empty() && why.front().code == Code::interrupted;
  if (interrupted && PyErr_Occurred()) return;  // KeyboardInterrupt, or what the signal's handler raised
  try {
    const std::string name = exception_name(phase, why);
    const nb::object type = nb::module_::import_("pyptx.errors").attr(name.c_str());
    const nb::object error = type(readable(to_string(why)), nb::cast(why));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  } catch (nb::python_error& error) {
    error.restore();
  }
}

void raise(Phase phase, const Diagnostics& why) {
  set_error(phase, why);
  throw nb::python_error();
}

namespace {

// Errors cross processes, and take their diagnostics along.
using State =
    std::tuple<int, std::string, std::uint32_t, std::uint32_t, std::string, std::vector<std::string>, int, std::string>;

nb::tuple diagnostic_state(const Diagnostic& d) {
  return nb::make_tuple(static_cast<int>(d.code), readable(d.place.file.view()), d.place.line, d.place.column,
                        readable(d.message), readable_list(d.notes), d.operand, d.section);
}

void restore_diagnostic(Diagnostic& made, const State& state) {
  const auto& [code, file, line, column, message, notes, operand, section] = state;
  new (&made) Diagnostic(static_cast<Code>(code), Place{Name(file), line, column}, message);
  made.notes = notes;
  made.operand = operand;
  made.section = section;
}

}  // namespace

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
      .def_prop_ro("file", [](const Diagnostic& d) { return readable(d.place.file.view()); })
      .def_prop_ro("line", [](const Diagnostic& d) { return d.place.line; })
      .def_prop_ro("column", [](const Diagnostic& d) { return d.place.column; })
      .def_prop_ro("message", [](const Diagnostic& d) { return readable(d.message); })
      .def_prop_ro("notes", [](const Diagnostic& d) { return readable_list(d.notes); })
      .def_ro("operand", &Diagnostic::operand)
      .def_prop_ro(
          "span", [](const Diagnostic& d) { return nb::make_tuple(d.span.begin, d.span.end); },
          nb::sig("def span(self) -> tuple[int, int]"))
      .def_ro("section", &Diagnostic::section)
      .def(
          "__init__",
          [](Diagnostic* made, int code, const std::string& file, std::uint32_t line, const std::string& message) {
            new (made) Diagnostic(static_cast<Code>(code), Place{Name(file), line, 0}, message);
          },
          nb::arg("code"), nb::arg("file"), nb::arg("line"), nb::arg("message"))
      .def("__getstate__", diagnostic_state)
      .def("__setstate__", restore_diagnostic)
      .def("__str__", [](const Diagnostic& d) { return readable(to_string(d)); })
      .def("__repr__", [](const Diagnostic& d) { return readable("<Diagnostic " + to_string(d) + ">"); });
}

}  // namespace ptx::python
