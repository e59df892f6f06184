// The author's line. Reading a line number from a code object walks its line table, so lines are kept per (code,
// offset).
#include <cxxabi.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <string_view>
#include <unordered_map>
#include <vector>

#include "python/src/module.h"

namespace ptx::python {
namespace {

struct KnownCode {
  nb::object keep_alive;  // a freed code object's address could come back as another's
  Name file;
  bool ours = false;
  std::uint16_t number = 0;          // of numbered() + 1
  std::vector<std::uint32_t> lines;  // by instruction, 0: not read yet
  int misses = 0;
};

std::string& package_folder() {
  static std::string folder;
  return folder;
}

std::unordered_map<PyCodeObject*, KnownCode>& codes() {
  static auto* map = new std::unordered_map<PyCodeObject*, KnownCode>;  // outlives the interpreter on purpose
  return *map;
}

// Those whose registers may be asked for by name, long after their trace.
std::vector<std::pair<nb::object, Name>>& numbered() {
  static auto* list = new std::vector<std::pair<nb::object, Name>>;  // as above
  return *list;
}

std::pair<PyCodeObject* const, KnownCode>* latest = nullptr;  // most lines are of the function of the line before

void forget_codes() {
  latest = nullptr;
  codes().clear();
}

KnownCode& code_of(PyFrameObject* frame) {
  constexpr std::size_t most = 20'000;  // programs that exec() without end
  PyCodeObject* code = PyFrame_GetCode(frame);
  const nb::object owned = nb::steal(reinterpret_cast<PyObject*>(code));
  if (latest && latest->first == code) return latest->second;
  auto& map = codes();
  if (const auto found = map.find(code); found != map.end()) {
    latest = &*found;
    return found->second;
  }
  if (map.size() >= most) forget_codes();
  const std::string file = nb::cast<std::string>(nb::str(owned.attr("co_filename")));
  const std::string& folder = package_folder();
  const bool ours = !folder.empty() && file.starts_with(folder) && !file.starts_with(folder + "kernels/");
  std::uint16_t number = 0;
  if (!ours && numbered().size() < most) {
    numbered().emplace_back(owned, Name(file));
    number = static_cast<std::uint16_t>(numbered().size());
  }
  return map.emplace(code, KnownCode{owned, Name(file), ours, number, {}}).first->second;
}

// All lines. One at a time is quadratic for a body of 10,000 calls.
void read_lines(KnownCode& code) {
  for (nb::handle range : code.keep_alive.attr("co_lines")()) {
    const nb::tuple row = nb::borrow<nb::tuple>(range);  // from, to, line
    if (row[2].is_none()) continue;
    const auto to = nb::cast<std::size_t>(row[1]) / 2, line = nb::cast<std::size_t>(row[2]);
    if (to > code.lines.size()) code.lines.resize(to);
    for (std::size_t i = nb::cast<std::size_t>(row[0]) / 2; i < to; ++i)
      code.lines[i] = static_cast<std::uint32_t>(line);
  }
}

// How a frame's type reads `f_lasti`: a look-up of the attribute costs more than the rest of a place. Null: not this
// way.
const PyGetSetDef* offset_getter(PyObject* frame) {
  const auto* fields = static_cast<const PyGetSetDef*>(PyType_GetSlot(Py_TYPE(frame), Py_tp_getset));
  while (fields && fields->name && std::string_view(fields->name) != "f_lasti") ++fields;
  return fields && fields->name ? fields : nullptr;
}

long offset_of(PyFrameObject* frame) {
  auto* const object = reinterpret_cast<PyObject*>(frame);
  static const PyGetSetDef* const getter = offset_getter(object);
  PyObject* const offset = getter ? getter->get(object, getter->closure) : PyObject_GetAttrString(object, "f_lasti");
  const long value = offset ? PyLong_AsLong(offset) : -1;
  Py_XDECREF(offset);
  return value;
}

std::uint32_t line_of(PyFrameObject* frame, KnownCode& code, long value) {
  if (value < 0) {
    PyErr_Clear();
    return static_cast<std::uint32_t>(PyFrame_GetLineNumber(frame));
  }
  const auto index = static_cast<std::size_t>(value) / 2;
  constexpr int many = 200;
  if (index >= code.lines.size() || code.lines[index] == 0)
    if (++code.misses == many) read_lines(code);
  if (index >= code.lines.size()) code.lines.resize(index + 1);
  std::uint32_t& line = code.lines[index];
  if (line == 0) line = static_cast<std::uint32_t>(PyFrame_GetLineNumber(frame));
  return line;
}

}  // namespace

Place author_place() { return author().place; }

Author author() {
  PyFrameObject* frame = PyEval_GetFrame();
  nb::object owner;
  for (std::uint32_t wrappers = 0; frame; ++wrappers) {
    KnownCode& code = code_of(frame);
    if (!code.ours) {
      const long offset = offset_of(frame);
      return {{code.file, line_of(frame, code, offset), 0},
              offset < 0 ? std::uint16_t{0} : code.number,
              static_cast<std::uint32_t>(offset),
              wrappers};
    }
    owner = nb::getattr(nb::handle(reinterpret_cast<PyObject*>(frame)), "f_back");
    frame = owner.is_none() ? nullptr : reinterpret_cast<PyFrameObject*>(owner.ptr());
  }
  return {};
}

nb::object author_code(std::uint32_t code) { return code == 0 ? nb::none() : numbered()[code - 1].first; }
Place author_place(std::uint32_t code, std::uint32_t offset) {
  const auto& [owned, file] = numbered()[code - 1];
  const auto known = codes().find(reinterpret_cast<PyCodeObject*>(owned.ptr()));
  if (known != codes().end() && offset / 2 < known->second.lines.size() && known->second.lines[offset / 2] != 0)
    return {file, known->second.lines[offset / 2], 0};
  KnownCode again{owned, file, false, 0, {}};
  read_lines(again);
  return {file, offset / 2 < again.lines.size() ? again.lines[offset / 2] : 0, 0};
}

void init_place(nb::module_& m) {
  m.def("set_package_folder", [](std::string folder) {
    package_folder() = std::move(folder);
    forget_codes();
  });
  m.def("author_place", [] {
    const Place place = author_place();
    return nb::make_tuple(std::string(place.file.view()), place.line);
  });
}

namespace {

template <class F>
auto or_wait(F ask) {
  try {
    return ask();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

}  // namespace

void take_back(PyThreadState* state) {
  or_wait([&] { PyEval_RestoreThread(state); });
}

Locked::Locked() : state_(or_wait([] { return PyGILState_Ensure(); })) {}

}  // namespace ptx::python
