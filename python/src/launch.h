// What the areas of launching share: diagnostics as exceptions, work without Python's lock, tables of lines.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "ptx/base/expected.h"
#include "ptx/launch/record.h"
#include "python/src/module.h"

namespace ptx::python {

void init_machine(nb::module_& m);  // assemblers, devices
void init_record(nb::module_& m);

// Sets the Python error that the first diagnostic stands for; for code that Python calls directly and that must not
// throw.
void set_error(const Diagnostics& why);
[[noreturn]] void raise_launch(const Diagnostics& why);

template <class T>
T value_or_raise(Expected<T> result) {
  if (!result) raise_launch(result.why());
  return std::move(result).value();
}

// The same object, or equal values of one of the plain types. Others are compared by the slow path, which freezes them.
bool same_value(PyObject* left, PyObject* right);

// Whether it is of these types, so that it cannot change: a number, a string, True, False, None, or a tuple of such.
bool is_plain_value(PyObject* value);

// Work of the library that needs no Python and may take long.
template <class F>
auto unlocked(F work) {
  const Unlocked without_lock;
  return work();
}

using Three = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
inline launch::Dim3 three(const Three& size) { return {std::get<0>(size), std::get<1>(size), std::get<2>(size)}; }

// The author's (file, line) of each line of a PTX text; entry 0 is not used.
using Lines = std::vector<std::tuple<std::string, std::uint32_t>>;
std::vector<Place> places(const Lines& lines);

}  // namespace ptx::python
