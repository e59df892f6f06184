#include "python/src/scalars.h"

#include "ptx/base/text.h"
#include "python/src/launch.h"
#include "python/src/tensors.h"

namespace ptx::python {
namespace {

bool keep(const Expected<std::uint64_t>& packed, std::uint64_t& bits) {
  if (!packed) return set_error(packed.why()), false;
  return bits = packed.value(), true;
}

bool pack_integer(const launch::ScalarArgument& argument, PyObject* integer, std::uint64_t& bits) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(integer, &overflow);
  if (overflow == 0) return keep(interop::pack(argument, static_cast<std::int64_t>(value)), bits);
  const unsigned long long large = PyLong_AsUnsignedLongLong(integer);
  if (!PyErr_Occurred()) return keep(interop::pack(argument, static_cast<std::uint64_t>(large)), bits);
  PyErr_Clear();
  set_error({Diagnostic(Code::wrong_scalar, Place{},
                        cat("argument `", argument.name, "`: the integer does not fit 64 bits"))});
  return false;
}

// Python's own words (whatever the number's class raised) behind the argument's name.
[[gnu::cold]] bool refuse(const launch::ScalarArgument& argument, PyObject* number) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return false;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  const nb::object message = nb::steal(value == nullptr ? nullptr : PyObject_Str(value));
  const char* text =
      message.is_valid() && PyUnicode_Check(message.ptr()) ? PyUnicode_AsUTF8AndSize(message.ptr(), nullptr) : nullptr;
  std::string_view reason = text == nullptr ? "" : text;
  reason = reason.substr(0, reason.find('\n'));
  PyErr_Clear();
  set_error({Diagnostic(
      Code::wrong_scalar, Place{},
      cat("argument `", argument.name, "` (", argument.type, "): a number is needed, not ",
          nb::type_name(reinterpret_cast<PyObject*>(Py_TYPE(number))).c_str(), reason.empty() ? "" : ": ", reason))});
  Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
  return false;
}

// A tensor of torch is read in Python, which knows what of it would be lost (pyptx/frameworks/torch/call.py).
nb::object read_tensor(PyObject* tensor) {
  const nb::object module = nb::steal(PyImport_ImportModule("pyptx.frameworks.torch.call"));
  return nb::steal(module.is_valid() ? PyObject_CallMethod(module.ptr(), "number", "O", tensor) : nullptr);
}

}  // namespace

bool pack(const launch::ScalarArgument& argument, PyObject* number, std::uint64_t& bits, bool& ran_python) {
  if (PyFloat_Check(number)) return keep(interop::pack(argument, PyFloat_AsDouble(number)), bits);
  if (PyLong_CheckExact(number) || PyBool_Check(number)) return pack_integer(argument, number, bits);
  ran_python = true;
  nb::object read = nb::borrow(number);
  if (tensor_type(Py_TYPE(number)).of_torch) {
    read = read_tensor(number);
    if (!read.is_valid()) return refuse(argument, number);
  }
  if (PyIndex_Check(read.ptr())) {
    const nb::object integer = nb::steal(PyNumber_Index(read.ptr()));
    if (integer.is_valid()) return pack_integer(argument, integer.ptr(), bits);
    // Arrays have __index__, too, whatever they hold.
    if (!PyErr_ExceptionMatches(PyExc_TypeError) || PyObject_HasAttrString(read.ptr(), "__float__") != 1)
      return refuse(argument, number);
    PyErr_Clear();
  }
  const double real = PyFloat_AsDouble(read.ptr());
  if (real == -1.0 && PyErr_Occurred()) return refuse(argument, number);
  return keep(interop::pack(argument, real), bits);
}

}  // namespace ptx::python
