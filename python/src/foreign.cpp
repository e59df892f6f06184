#include "python/src/foreign.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "ptx/base/text.h"
#include "ptx/cuda/executor.h"
#include "python/src/trace.h"

namespace ptx::python {
namespace {

using interop::DeviceType;
using interop::DLDataType;
using interop::DLManagedTensorVersioned;
using interop::DLTensor;

constexpr std::int32_t most_dimensions = 64;  // as NumPy

struct DLManagedTensor {  // of DLPack before 1.0
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};

[[noreturn]] void refuse(std::string_view what, std::string_view problem) {
  throw nb::type_error(cat("its ", what, " ", problem).c_str());
}

// An int of Python, or of a class with __index__.
std::int64_t integer(nb::handle object, std::string_view what) {
  const nb::object number = nb::steal(PyIndex_Check(object.ptr()) ? PyNumber_Index(object.ptr()) : nullptr);
  int overflow = 0;
  const long long value = number.is_valid() ? PyLong_AsLongLongAndOverflow(number.ptr(), &overflow) : 0;
  if (number.is_valid() && overflow == 0) return value;
  if (PyErr_Occurred()) throw nb::python_error();
  refuse(what, number.is_valid() ? "has an integer beyond 64 bits" : "has no integer where one is due");
}

std::uintptr_t address(nb::handle object, std::string_view what) {
  if (!PyLong_Check(object.ptr())) refuse(what, "has no integer where an address is due");
  const std::size_t value = PyLong_AsSize_t(object.ptr());
  if (PyErr_Occurred() == nullptr) return value;
  PyErr_Clear();
  refuse(what, "has an integer that is no address");
}

nb::tuple tuple(nb::handle object, std::string_view what) {
  if (!PyTuple_Check(object.ptr())) refuse(what, "is no tuple");
  return nb::borrow<nb::tuple>(object);
}

nb::tuple pair(nb::handle object, std::string_view what) {
  const nb::tuple found = tuple(object, what);
  if (found.size() != 2) refuse(what, "is no pair");
  return found;
}

// "<f4" and its like; those of the machine's byte order.
DLDataType type_spelled(const std::string& spelled) {
  DLDataType type;
  const int bytes = spelled.size() > 2 ? std::atoi(spelled.c_str() + 2) : 0;
  constexpr std::string_view kinds = "iuf?b";
  const std::size_t kind = spelled.size() > 2 && spelled[0] != '>' ? kinds.find(spelled[1]) : kinds.npos;
  if (kind == kinds.npos || bytes < 1 || bytes > 8)
    throw nb::type_error(cat("no element type of kernels: `", spelled, "`").c_str());
  constexpr std::uint8_t codes[] = {DLDataType::integer, DLDataType::unsigned_integer, DLDataType::floating,
                                    DLDataType::boolean, DLDataType::boolean};
  type.code = codes[kind], type.bits = static_cast<std::uint8_t>(bytes * 8);
  return type;
}

// A view whose sizes are no sizes would be read beyond its memory.
void check_sizes(const DLTensor& tensor, std::string_view what) {
  if (tensor.ndim < 0 || tensor.ndim > most_dimensions) refuse(what, cat("has ", tensor.ndim, " dimensions"));
  if (tensor.ndim > 0 && tensor.shape == nullptr) refuse(what, "has no shape");
  std::int64_t elements = 1;
  for (std::int32_t i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] < 0) refuse(what, cat("has the size ", tensor.shape[i]));
    if (tensor.shape[i] != 0 && elements > (std::numeric_limits<std::int64_t>::max() >> 10) / tensor.shape[i])
      refuse(what, "has more elements than there are addresses");
    elements *= tensor.shape[i];
  }
  if (elements != 0 && tensor.data == nullptr) refuse(what, "has no memory");
}

// 1 is the default stream by another name, 0 is not allowed in interfaces.
void* stream_of(std::uintptr_t number) { return reinterpret_cast<void*>(number == 1 ? 0 : number); }

void read_interface(const nb::dict& interface, DLTensor& tensor, Foreign& foreign) {
  constexpr std::string_view what = "__cuda_array_interface__";
  const auto entry = [&](const char* name) {
    if (!interface.contains(name)) refuse(what, cat("has no `", name, "`"));
    return nb::object(interface[name]);
  };
  const auto given = [&](const char* name) { return interface.contains(name) && !interface[name].is_none(); };
  for (nb::handle size : tuple(entry("shape"), what)) foreign.shape.push_back(integer(size, what));
  const nb::object type = entry("typestr");
  if (!nb::isinstance<nb::str>(type)) refuse(what, "has a `typestr` that is no string");
  tensor.dtype = type_spelled(nb::cast<std::string>(type));
  tensor.ndim = static_cast<std::int32_t>(std::min<std::size_t>(foreign.shape.size(), most_dimensions + 1));
  tensor.shape = foreign.shape.data();
  const nb::tuple data = pair(entry("data"), what);
  tensor.data = reinterpret_cast<void*>(address(data[0], what));
  foreign.read_only = PyObject_IsTrue(nb::object(data[1]).ptr()) == 1;
  if (given("strides")) {
    const std::int64_t bytes = tensor.dtype.bits / 8;
    for (nb::handle stride : tuple(interface["strides"], what)) {
      const std::int64_t distance = integer(stride, what);
      if (distance % bytes != 0) refuse(what, "has strides of parts of an element");
      foreign.strides.push_back(distance / bytes);
    }
    if (foreign.strides.size() != foreign.shape.size()) refuse(what, "has another number of strides than of sizes");
    tensor.strides = foreign.strides.data();
  }
  if (given("mask")) refuse(what, "is of a masked array");
  check_sizes(tensor, what);
  tensor.device = {DeviceType::cuda, tensor.data == nullptr ? 0 : cuda::device_of(tensor.data)};
  if (given("stream")) {
    foreign.has_stream = true;
    foreign.producer_stream = stream_of(address(interface["stream"], what));
  }
}

// The producer is asked to make the data ready on the default stream; who launches elsewhere waits for that one.
void read_capsule(const nb::object& capsule, DLTensor& tensor, Foreign& foreign) {
  constexpr std::string_view what = "__dlpack__()";
  constexpr std::uint64_t read_only = 1;  // a flag of DLPack
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    foreign.versioned =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    // Another major version keeps only the version and the deleter at places that we know.
    if (foreign.versioned->version.major != 1)
      refuse(what, cat("gave DLPack ", foreign.versioned->version.major, ".", foreign.versioned->version.minor,
                       "; version 1 is read"));
    foreign.read_only = (foreign.versioned->flags & read_only) != 0;
    tensor = foreign.versioned->tensor;
  } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
    foreign.managed = PyCapsule_GetPointer(capsule.ptr(), "dltensor");
    PyCapsule_SetName(capsule.ptr(), "used_dltensor");
    tensor = static_cast<DLManagedTensor*>(foreign.managed)->tensor;
  } else {
    refuse(what, "gave no capsule with a tensor, or one that was used before");
  }
  check_sizes(tensor, what);
  if (tensor.device.type == DeviceType::cuda) foreign.has_stream = true;
}

nb::object call_dlpack(nb::handle object, std::int64_t& device) {
  const nb::tuple spelled = pair(object.attr("__dlpack_device__")(), "__dlpack_device__()");
  device = integer(spelled[0], "__dlpack_device__()");
  const nb::object method = object.attr("__dlpack__");
  const nb::object stream = device == static_cast<int>(DeviceType::cuda) ? nb::object(nb::int_(1)) : nb::none();
  try {
    return method(nb::arg("stream") = stream, nb::arg("max_version") = nb::make_tuple(1, 0));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;  // older producers do not know max_version
  }
  return method(nb::arg("stream") = stream);
}

// Pinned memory is the host's, managed memory CUDA's: producers name them either way.
std::int64_t kind_of(std::int64_t device) {
  if (device == static_cast<int>(DeviceType::cuda_managed)) return static_cast<int>(DeviceType::cuda);
  return device == static_cast<int>(DeviceType::cuda_host) ? static_cast<int>(DeviceType::cpu) : device;
}

// By the type, as Python finds other methods of protocols: a torch.fx.Proxy has every attribute that it is asked for.
bool has_dlpack(PyObject* object) {
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  return PyObject_HasAttrString(type, "__dlpack__") == 1 && PyObject_HasAttrString(type, "__dlpack_device__") == 1;
}

// An attribute, or none. Errors other than of Python's hierarchy of exceptions (Ctrl-C) are the caller's to see.
nb::object attribute(PyObject* object, const char* name) {
  const nb::object found = nb::steal(PyObject_GetAttrString(object, name));
  if (found.is_valid()) return found;
  if (!PyErr_ExceptionMatches(PyExc_Exception)) throw nb::python_error();
  PyErr_Clear();
  return nb::none();
}

}  // namespace

// A deleter that fails has nobody to tell: neither the call's result nor its error is the deleter's.
Foreign::~Foreign() {
  if (versioned == nullptr && managed == nullptr) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (versioned != nullptr && versioned->deleter != nullptr) versioned->deleter(versioned);
  auto* const older = static_cast<DLManagedTensor*>(managed);
  if (older != nullptr && older->deleter != nullptr) older->deleter(older);
  if (PyErr_Occurred()) PyErr_WriteUnraisable(nullptr);
  PyErr_Restore(type, value, trace);
}

ForeignRead read_foreign(PyObject* object, DLTensor& tensor, Foreign& foreign) {
  try {
    const nb::object interface = attribute(object, "__cuda_array_interface__");
    if (nb::isinstance<nb::dict>(interface))
      return read_interface(nb::borrow<nb::dict>(interface), tensor, foreign), ForeignRead::done;
    if (!has_dlpack(object)) return ForeignRead::none;
    std::int64_t device = 0;
    read_capsule(call_dlpack(object, device), tensor, foreign);
    if (kind_of(device) != kind_of(static_cast<std::int64_t>(tensor.device.type)))
      refuse("__dlpack__()", cat("gave memory of another kind of device (", static_cast<int>(tensor.device.type),
                                 ") than its __dlpack_device__() (", device, ")"));
    return ForeignRead::done;
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  }
  return ForeignRead::failed;
}

bool read_stream(PyObject* object, void*& stream) {
  constexpr std::string_view what = "__cuda_stream__()";
  try {
    nb::object number = nb::borrow(object);
    if (PyObject_HasAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__cuda_stream__") == 1)
      number = pair(nb::object(nb::handle(object).attr("__cuda_stream__")()), what)[1];
    else if (!PyLong_Check(object))
      throw nb::type_error(
          cat("stream= takes an object with __cuda_stream__() or the address of a CUstream, not ", shown(object))
              .c_str());
    stream = stream_of(address(number, "stream"));
    return true;
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  }
  return false;
}

}  // namespace ptx::python
