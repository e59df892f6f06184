#include "python/src/scalars.h"

#include "ptx/base/text.h"
#include "python/src/launch.h"
#include "python/src/tensors.h"

namespace ptx::python {
namespace {

// A record's scalar, whose errors say which one it is.
struct Scalar {
  const launch::Record& record;
  const launch::ScalarArgument& argument;

  [[gnu::cold]] bool refuse(std::string_view message) const {
    return set_error({Diagnostic(Code::wrong_scalar, Place{}, cat(record.entry, ": ", message))}), false;
  }

  bool keep(const Expected<std::uint64_t>& packed, std::uint64_t& bits) const {
    if (!packed) return refuse(packed.why().front().message);
    return bits = packed.value(), true;
  }
};

bool pack_integer(const Scalar& scalar, PyObject* integer, std::uint64_t& bits) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(integer, &overflow);
  if (overflow == 0) return scalar.keep(interop::pack(scalar.argument, static_cast<std::int64_t>(value)), bits);
  const unsigned long long large = PyLong_AsUnsignedLongLong(integer);
  if (!PyErr_Occurred()) return scalar.keep(interop::pack(scalar.argument, static_cast<std::uint64_t>(large)), bits);
  PyErr_Clear();
  return scalar.refuse(cat("argument `", scalar.argument.name, "`: the integer does not fit 64 bits"));
}

// Python's own words (whatever the number's class raised) behind the argument's name.
[[gnu::cold]] bool refuse_number(const Scalar& scalar, PyObject* number) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return false;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  const nb::object message = nb::steal(value == nullptr ? nullptr : PyObject_Str(value));
  const char* text =
      message.is_valid() && PyUnicode_Check(message.ptr()) ? PyUnicode_AsUTF8AndSize(message.ptr(), nullptr) : nullptr;
  std::string_view reason = text == nullptr ? "" : text;
  reason = reason.substr(0, reason.find('\n'));
  if (reason.starts_with("must be real number")) reason = "";  // which the message says itself
  PyErr_Clear();
  scalar.refuse(cat("argument `", scalar.argument.name, "` (", scalar.argument.type, "): a number is needed, not ",
                    nb::type_name(reinterpret_cast<PyObject*>(Py_TYPE(number))).c_str(), reason.empty() ? "" : ": ",
                    reason));
  Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
  return false;
}

// A tensor of torch is read in Python, which knows what of it would be lost (pyptx/frameworks/torch/call.py).
nb::object read_tensor(PyObject* tensor) {
  const nb::object module = nb::steal(PyImport_ImportModule("pyptx.frameworks.torch.call"));
  return nb::steal(module.is_valid() ? PyObject_CallMethod(module.ptr(), "number", "O", tensor) : nullptr);
}

// NumPy's scalars and arrays, and other arrays: `item()` gives the number of an array of any shape with one element,
// and a bool of NumPy, which has no other way to an integer.
bool has_item(PyObject* number) {
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(number));
  if (PyObject_HasAttrString(type, "item") != 1) return false;
  return PyObject_HasAttrString(type, "__array_interface__") == 1 || PyObject_HasAttrString(type, "__dlpack__") == 1;
}

// The Python number that an object stands for, or the object; null with a Python error set.
nb::object read_number(PyObject* number) {
  if (TypeOf(number)->of_torch) return read_tensor(number);
  if (has_item(number)) return nb::steal(PyObject_CallMethod(number, "item", nullptr));
  return nb::borrow(number);
}

}  // namespace

bool pack(const launch::Record& record, std::size_t index, PyObject* number, std::uint64_t& bits, bool& ran_python) {
  const Scalar scalar{record, record.scalars[index]};
  if (PyFloat_Check(number)) return scalar.keep(interop::pack(scalar.argument, PyFloat_AsDouble(number)), bits);
  if (PyLong_CheckExact(number) || PyBool_Check(number)) return pack_integer(scalar, number, bits);
  ran_python = true;
  const nb::object read = read_number(number);
  if (!read.is_valid()) return refuse_number(scalar, number);
  if (PyIndex_Check(read.ptr())) {
    const nb::object integer = nb::steal(PyNumber_Index(read.ptr()));
    if (integer.is_valid()) return pack_integer(scalar, integer.ptr(), bits);
    // Arrays have __index__, too, whatever they hold.
    if (!PyErr_ExceptionMatches(PyExc_TypeError) || PyObject_HasAttrString(read.ptr(), "__float__") != 1)
      return refuse_number(scalar, number);
    PyErr_Clear();
  }
  const double real = PyFloat_AsDouble(read.ptr());
  if (real == -1.0 && PyErr_Occurred()) return refuse_number(scalar, number);
  return scalar.keep(interop::pack(scalar.argument, real), bits);
}

}  // namespace ptx::python
