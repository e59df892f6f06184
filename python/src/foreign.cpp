#include "python/src/foreign.h"

#include <nanobind/stl/string.h>

#include <cstdlib>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/cuda/executor.h"

namespace ptx::python {
namespace {

using interop::DeviceType;
using interop::DLDataType;
using interop::DLManagedTensorVersioned;
using interop::DLTensor;

struct DLManagedTensor {  // of DLPack before 1.0
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};

// "<f4" and its like; those of the machine's byte order.
DLDataType type_of(const std::string& spelled) {
  DLDataType type;
  const int bytes = spelled.size() > 2 ? std::atoi(spelled.c_str() + 2) : 0;
  const char* const kinds = "iuf?b";
  const char* const kind = spelled.size() > 2 && spelled[0] != '>' ? std::strchr(kinds, spelled[1]) : nullptr;
  if (kind == nullptr || bytes < 1 || bytes > 8)
    throw nb::type_error(cat("`", spelled, "` is no element type of kernels").c_str());
  constexpr std::uint8_t codes[] = {DLDataType::integer, DLDataType::unsigned_integer, DLDataType::floating,
                                    DLDataType::boolean, DLDataType::boolean};
  type.code = codes[kind - kinds], type.bits = static_cast<std::uint8_t>(bytes * 8);
  return type;
}

// 1 is the default stream by another name, 0 is not allowed in interfaces.
void* stream_of(std::uintptr_t number) { return reinterpret_cast<void*>(number == 1 ? 0 : number); }

void read_interface(const nb::dict& interface, DLTensor& tensor, Foreign& foreign) {
  for (nb::handle size : nb::borrow<nb::tuple>(interface["shape"]))
    foreign.shape.push_back(nb::cast<std::int64_t>(size));
  tensor.dtype = type_of(nb::cast<std::string>(interface["typestr"]));
  tensor.ndim = static_cast<std::int32_t>(foreign.shape.size());
  tensor.shape = foreign.shape.data();
  tensor.data = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(nb::borrow<nb::tuple>(interface["data"])[0]));
  if (interface.contains("strides") && !interface["strides"].is_none()) {
    const std::int64_t bytes = tensor.dtype.bits / 8;
    for (nb::handle stride : nb::borrow<nb::tuple>(interface["strides"])) {
      const auto distance = nb::cast<std::int64_t>(stride);
      if (distance % bytes != 0) throw nb::type_error("strides of parts of an element");
      foreign.strides.push_back(distance / bytes);
    }
    tensor.strides = foreign.strides.data();
  }
  if (interface.contains("mask") && !interface["mask"].is_none()) throw nb::type_error("a masked array");
  tensor.device = {DeviceType::cuda, tensor.data == nullptr ? 0 : cuda::device_of(tensor.data)};
  if (interface.contains("stream") && !interface["stream"].is_none()) {
    foreign.has_stream = true;
    foreign.producer_stream = stream_of(nb::cast<std::uintptr_t>(interface["stream"]));
  }
}

// The producer is asked to make the data ready on the default stream; who launches elsewhere waits for that one.
void read_capsule(const nb::object& capsule, DLTensor& tensor, Foreign& foreign) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    foreign.versioned =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    tensor = foreign.versioned->tensor;
  } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
    foreign.managed = PyCapsule_GetPointer(capsule.ptr(), "dltensor");
    PyCapsule_SetName(capsule.ptr(), "used_dltensor");
    tensor = static_cast<DLManagedTensor*>(foreign.managed)->tensor;
  } else {
    throw nb::type_error("its __dlpack__() gave no capsule with a tensor");
  }
  if (tensor.device.type == DeviceType::cuda) foreign.has_stream = true;
}

nb::object call_dlpack(nb::handle object) {
  const nb::object device = object.attr("__dlpack_device__")();
  const int kind = nb::cast<int>(nb::borrow<nb::tuple>(device)[0]);
  const nb::object method = object.attr("__dlpack__");
  const nb::object stream = kind == static_cast<int>(DeviceType::cuda) ? nb::object(nb::int_(1)) : nb::none();
  try {
    return method(nb::arg("stream") = stream, nb::arg("max_version") = nb::make_tuple(1, 0));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;  // older producers do not know max_version
  }
  return method(nb::arg("stream") = stream);
}

}  // namespace

Foreign::~Foreign() {
  if (versioned != nullptr && versioned->deleter != nullptr) versioned->deleter(versioned);
  auto* const older = static_cast<DLManagedTensor*>(managed);
  if (older != nullptr && older->deleter != nullptr) older->deleter(older);
}

ForeignRead read_foreign(PyObject* object, DLTensor& tensor, Foreign& foreign) {
  const nb::handle handle(object);
  try {
    const nb::object interface = nb::getattr(handle, "__cuda_array_interface__", nb::none());
    if (nb::isinstance<nb::dict>(interface))
      return read_interface(nb::borrow<nb::dict>(interface), tensor, foreign), ForeignRead::done;
    if (!nb::hasattr(handle, "__dlpack__") || !nb::hasattr(handle, "__dlpack_device__")) return ForeignRead::none;
    return read_capsule(call_dlpack(handle), tensor, foreign), ForeignRead::done;
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  }
  return ForeignRead::failed;
}

bool read_stream(PyObject* object, void*& stream) {
  try {
    const nb::handle handle(object);
    nb::object number = nb::borrow(handle);
    if (nb::hasattr(handle, "__cuda_stream__"))
      number = nb::borrow<nb::tuple>(nb::object(handle.attr("__cuda_stream__")()))[1];
    else if (!PyLong_Check(object))
      throw nb::type_error("stream= takes an object with __cuda_stream__() or the address of a CUstream");
    stream = stream_of(nb::cast<std::uintptr_t>(number));
    return true;
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  }
  return false;
}

}  // namespace ptx::python
