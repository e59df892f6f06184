#include "python/src/tensors.h"

#include <cstring>

#include "ptx/base/text.h"

namespace ptx::python {
namespace {

using interop::DeviceType;
using interop::DLDataType;
using interop::DLManagedTensorVersioned;
using interop::DLPackExchangeAPI;
using interop::DLTensor;

// Whether torch sends the operators of this subclass to Python code: a FakeTensor, a DTensor. Such tensors inherit the
// table, but what it reads is not their memory.
bool dispatches(PyTypeObject* type) {
  const nb::object found = nb::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__torch_dispatch__"));
  if (!found.is_valid()) PyErr_Clear();
  return found.is_valid() && !PyCFunction_Check(found.ptr());  // torch.Tensor's own is a builtin that does nothing
}

const DLPackExchangeAPI* table_of(PyTypeObject* type) {
  if (dispatches(type)) return nullptr;
  // DLPack 1.3 says a capsule; the first torch releases with a table had an integer under another name.
  for (const char* name : {"__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"}) {
    const nb::object found = nb::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), name));
    if (!found.is_valid()) {
      PyErr_Clear();
      continue;
    }
    void* table = PyLong_Check(found.ptr()) ? PyLong_AsVoidPtr(found.ptr())
                                            : PyCapsule_GetPointer(found.ptr(), "dlpack_exchange_api");
    PyErr_Clear();
    const auto* api = interop::usable(static_cast<const DLPackExchangeAPI*>(table));
    if (api != nullptr && api->tensor_from_object != nullptr && api->allocate != nullptr &&
        api->managed_to_object != nullptr)
      return api;
  }
  return nullptr;
}

// The type of a buffer by its struct format, in the machine's own sizes. Byte order marks other than the machine's
// refuse.
bool type_of(const char* format, Py_ssize_t size, DLDataType& type) {
  if (format == nullptr) format = "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == '\0' || format[1] != '\0') return false;
  const auto bits = static_cast<std::uint8_t>(size * 8);
  if (std::strchr("bhilqn", *format)) return type = {DLDataType::integer, bits, 1}, true;
  if (std::strchr("BHILQN", *format)) return type = {DLDataType::unsigned_integer, bits, 1}, true;
  if (std::strchr("efd", *format)) return type = {DLDataType::floating, bits, 1}, true;
  if (*format == '?') return type = {DLDataType::boolean, bits, 1}, true;
  return false;
}

// Whether this is an array of JAX or a tracer of one. They have buffers on the CPU, but what a kernel makes of them is
// an operation of JAX's own: the slow path sees to it.
bool is_jax(PyTypeObject* type) {
  static std::vector<std::pair<PyTypeObject*, bool>> known;  // a handful, kept alive by exchange_of; guarded by the GIL
  for (const auto& [each, is] : known)
    if (each == type) return is;
  const bool is = PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), "aval") == 1;
  known.emplace_back(type, is);
  return is;
}

bool no_tensor(PyObject* object, const std::string& why) {
  PyErr_Format(PyExc_TypeError, "a kernel takes PyTorch tensors and NumPy arrays, not %R%s",
               reinterpret_cast<PyObject*>(Py_TYPE(object)), why.c_str());
  return false;
}

bool empty(const DLTensor& tensor) {
  for (std::int32_t i = 0; i < tensor.ndim; ++i)
    if (tensor.shape[i] == 0) return true;
  return false;
}

}  // namespace

const DLPackExchangeAPI* exchange_of(PyTypeObject* type) {
  struct Known {
    PyTypeObject* type;
    const DLPackExchangeAPI* api;
  };
  static std::vector<Known> known;  // a handful: Tensor, Parameter, subclasses; guarded by the GIL
  for (const Known& row : known)
    if (row.type == type) return row.api;
  Py_INCREF(reinterpret_cast<PyObject*>(type));  // so that no other type takes its address
  known.push_back({type, table_of(type)});
  return known.back().api;
}

Inputs::~Inputs() {
  for (const auto& buffer : buffers_) PyBuffer_Release(&buffer->view);
}

bool Inputs::read(PyObject* const* objects, std::size_t count) {
  if (count > most) return PyErr_Format(PyExc_TypeError, "a kernel takes at most %zu arrays", most), false;
  for (; count_ < count; ++count_) {
    PyObject* const object = objects[count_];
    auto* const tensor = new (storage_ + count_ * sizeof(DLTensor)) DLTensor;
    if (const DLPackExchangeAPI* api = exchange_of(Py_TYPE(object))) {
      if (api->tensor_from_object(object, tensor) != 0) return false;
      if (tensor->data == nullptr && !empty(*tensor)) return no_tensor(object, " without memory");
      if (api_ == nullptr || (tensor->device.type == DeviceType::cuda && !on_gpu_)) api_ = api;
      on_gpu_ |= tensor->device.type == DeviceType::cuda;
    } else if (is_jax(Py_TYPE(object))) {
      return no_tensor(object, "");
    } else if (!read_buffer(object, *tensor)) {
      return false;
    }
  }
  return true;
}

bool Inputs::read_buffer(PyObject* object, DLTensor& tensor) {
  if (!PyObject_CheckBuffer(object)) return no_tensor(object, "");
  auto buffer = std::make_unique<Buffer>();
  if (PyObject_GetBuffer(object, &buffer->view, PyBUF_STRIDES | PyBUF_FORMAT) != 0) return false;
  Py_buffer& view = buffer->view;
  buffers_.push_back(std::move(buffer));
  DLDataType type;
  if (!type_of(view.format, view.itemsize, type))
    return no_tensor(object, cat(" with elements of format ", view.format));
  static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
  tensor.data = view.buf;
  tensor.device = {DeviceType::cpu, 0};
  tensor.ndim = view.ndim;
  tensor.dtype = type;
  tensor.shape = reinterpret_cast<std::int64_t*>(view.shape);
  tensor.strides = buffers_.back()->strides;
  for (int i = 0; i < view.ndim; ++i) {
    if (view.strides[i] % view.itemsize != 0) return no_tensor(object, " with strides of parts of an element");
    tensor.strides[i] = view.strides[i] / view.itemsize;
  }
  return true;
}

Outputs::~Outputs() {
  for (std::size_t i = 0; i < count_; ++i) Py_XDECREF(objects_[i]);
}

bool Outputs::allocate(DLTensor& tensor) {
  if (api_ == nullptr) return allocate_numpy(tensor);
  const auto set_error = [](void*, const char* kind, const char* message) {
    PyErr_Format(std::strcmp(kind, "MemoryError") == 0 ? PyExc_MemoryError : PyExc_RuntimeError, "%s", message);
  };
  DLManagedTensorVersioned* managed = nullptr;
  if (api_->allocate(&tensor, &managed, nullptr, set_error) != 0) return false;
  tensor.data = managed->tensor.data;
  tensor.byte_offset = managed->tensor.byte_offset;
  void* object = nullptr;
  if (api_->managed_to_object(managed, &object) != 0) return false;
  objects_[count_++] = static_cast<PyObject*>(object);
  return true;
}

bool Outputs::allocate_numpy(DLTensor& tensor) {
  launch::Element element;
  if (!interop::read(tensor.dtype, element)) return false;
  if (tensor.device.type != DeviceType::cpu) {
    PyErr_SetString(PyExc_TypeError, "a kernel without tensor inputs runs on the simulator only");
    return false;
  }
  // numpy.empty wants NumPy's names; bfloat16 and the 8-bit floats are not among them.
  constexpr const char* names[] = {"u1", "u2",    "u4", "u8", "i1",    "i2",    "i4", "i8",
                                   "f2", nullptr, "f4", "f8", nullptr, nullptr, "?"};
  const char* const name = names[static_cast<int>(element)];
  if (name == nullptr) {
    PyErr_Format(PyExc_TypeError, "NumPy has no element type %s for an output: call the kernel with PyTorch tensors",
                 std::string(launch::name(element)).c_str());
    return false;
  }
  try {
    nb::list shape;
    for (std::int32_t i = 0; i < tensor.ndim; ++i) shape.append(tensor.shape[i]);
    nb::object array = nb::module_::import_("numpy").attr("empty")(nb::tuple(shape), name);
    Py_buffer view;
    if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_ANY_CONTIGUOUS | PyBUF_WRITABLE) != 0) return false;
    tensor.data = view.buf;
    PyBuffer_Release(&view);  // the array itself keeps the memory
    objects_[count_++] = array.release().ptr();
    return true;
  } catch (nb::python_error& error) {
    return error.restore(), false;
  }
}

PyObject* Outputs::take() {
  const std::size_t count = std::exchange(count_, 0);
  if (count == 0) return Py_NewRef(Py_None);
  if (count == 1) return objects_[0];
  PyObject* const all = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    if (all != nullptr)
      PyTuple_SetItem(all, static_cast<Py_ssize_t>(i), objects_[i]);
    else
      Py_DECREF(objects_[i]);
  }
  return all;
}

}  // namespace ptx::python
