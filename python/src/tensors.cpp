#include "python/src/tensors.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <deque>

#include "ptx/base/text.h"
#include "python/src/foreign.h"
#include "python/src/torch_state.h"

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

[[gnu::cold]] bool no_tensor(PyObject* object, const std::string& why) {
  const nb::str type = nb::type_name(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  PyErr_Format(PyExc_TypeError, "a kernel takes PyTorch tensors, NumPy arrays and other arrays of DLPack, not %U%s",
               type.ptr(), why.c_str());
  return false;
}

[[gnu::cold]] bool refuse_array(const std::string& why) { return PyErr_SetString(PyExc_TypeError, why.c_str()), false; }

// Complex numbers, strings, records, types of ml_dtypes that PTX has not.
[[gnu::cold]] bool refuse_elements(std::string_view what, std::string_view name) {
  return refuse_array(
      cat("no kernel takes elements of ", what, ' ', name, ": convert the array to a type that pyptx.types has"));
}

// The element type that NumPy's extensions (ml_dtypes) call so, where an array holds it in that many bytes: their int4
// has a byte an element, which is not how kernels have it.
std::optional<launch::Element> element_called(std::string_view name, Py_ssize_t bytes) {
  for (std::size_t i = 0; i < arch::element_count; ++i)
    if (arch::element_table[i].framework == name && arch::element_table[i].bits == bytes * 8)
      return static_cast<launch::Element>(i);
  return std::nullopt;
}

bool empty(const DLTensor& tensor) {
  for (std::int32_t i = 0; i < tensor.ndim; ++i)
    if (tensor.shape[i] == 0) return true;
  return false;
}

// An attribute of a type, or null: an attribute that is not there is no error here.
PyObject* attribute_of(PyTypeObject* type, const char* name) {
  PyObject* const found = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), name);
  if (found == nullptr) PyErr_Clear();
  return found;
}

// Whether it is torch.Tensor or derives from it; and whether reading an attribute of such a tensor calls a function of
// its class, which Parameter's does not.
void look_up_torch(PyTypeObject* type, TensorType& known) {
  const nb::object torch = nb::steal(PyImport_GetModule(nb::str("torch").ptr()));
  if (!torch.is_valid()) return;
  const nb::object base = nb::steal(PyObject_GetAttrString(torch.ptr(), "Tensor"));
  const nb::object core = nb::steal(PyObject_GetAttrString(torch.ptr(), "_C"));
  const nb::object own = nb::steal(attribute_of(type, "__torch_function__"));
  const nb::object off =
      nb::steal(core.is_valid() ? PyObject_GetAttrString(core.ptr(), "_disabled_torch_function_impl") : nullptr);
  PyErr_Clear();
  if (!base.is_valid() || !PyType_Check(base.ptr())) return;  // torch is still being imported
  known.of_torch = PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(base.ptr()));
  known.runs_python |= known.of_torch && base.ptr() != reinterpret_cast<PyObject*>(type) && !own.is(off);
}

// Whether a function of Python makes its buffer (since Python 3.12). A type in C has a wrapper of its slot there.
bool has_python_buffer(PyTypeObject* type) {
  const nb::object found = nb::steal(attribute_of(type, "__buffer__"));
  return found.is_valid() && Py_TYPE(found.ptr()) != &PyWrapperDescr_Type;
}

// Whether it is a masked array of NumPy, whose memory does not show its mask.
bool is_masked(PyTypeObject* type) {
  const nb::object module = nb::steal(PyImport_GetModule(nb::str("numpy.ma").ptr()));
  const nb::object base = nb::steal(module.is_valid() ? PyObject_GetAttrString(module.ptr(), "MaskedArray") : nullptr);
  PyErr_Clear();
  return base.is_valid() && PyType_Check(base.ptr()) &&
         PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(base.ptr()));
}

TensorType look_up(PyTypeObject* type) {
  TensorType known;
  known.type = nb::borrow(reinterpret_cast<PyObject*>(type));
  known.runs_python = has_python_buffer(type);
  known.masked = is_masked(type);
  known.api = table_of(type);
  // Arrays of JAX and its tracers have buffers on the CPU, but what a kernel makes of them is an operation of JAX's
  // own.
  known.takes_over = PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), "aval") == 1 || dispatches(type);
  known.on_device = PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), "__cuda_array_interface__") == 1;
  look_up_torch(type, known);
  if (known.api == nullptr) return known;
  // By what it has, not by its name: subclasses and Parameter have the same.
  known.requires_grad = nb::steal(attribute_of(type, "requires_grad"));
  if (known.requires_grad.is_valid())
    known.read = reinterpret_cast<descrgetfunc>(PyType_GetSlot(Py_TYPE(known.requires_grad.ptr()), Py_tp_descr_get));
  if (known.read == nullptr) return known;
  known.is_neg = nb::steal(attribute_of(type, "is_neg"));
  known.is_conj = nb::steal(attribute_of(type, "is_conj"));
  return known;
}

}  // namespace

// The row of a type in the table, or null: it is full. A row keeps its type, so no other type takes its address.
static const TensorType* find_type(PyTypeObject* type) {
  constexpr std::size_t most = 256;
  static std::deque<TensorType>& known = *new std::deque<TensorType>;  // a handful; guarded by the GIL; rows stay put
  for (const TensorType& row : known)
    if (row.type.ptr() == reinterpret_cast<PyObject*>(type)) return &row;
  if (known.size() >= most) return nullptr;
  TensorType made = look_up(type);  // which may run Python, and that may come here
  return &known.emplace_back(std::move(made));
}

void TypeOf::look(PyTypeObject* type) {
  if ((found_ = find_type(type)) != nullptr)
    last_ = found_;
  else
    found_ = &own_.emplace(look_up(type));
}

// torch adds the tensor's offset to the address of a storage that has no memory, too (it was freed, or it is that of a
// functional tensor): what looks like a small address may be an offset. Where it may be either, the storage is asked.
constexpr std::uintptr_t low_addresses = std::uintptr_t{1} << 33;

[[gnu::cold]] static bool without_memory(const TensorType& type, PyObject* object, const DLTensor& tensor) {
  if (tensor.data == nullptr || empty(tensor) || !type.of_torch) return tensor.data == nullptr && !empty(tensor);
  const nb::object storage = nb::steal(PyObject_CallMethod(object, "untyped_storage", nullptr));
  const nb::object address =
      nb::steal(storage.is_valid() ? PyObject_CallMethod(storage.ptr(), "data_ptr", nullptr) : nullptr);
  const bool memory = address.is_valid() && PyLong_AsVoidPtr(address.ptr()) != nullptr;
  PyErr_Clear();
  return !memory;
}

Inputs::~Inputs() {
  for (const auto& buffer : buffers_) PyBuffer_Release(&buffer->view);
}

bool Inputs::read(PyObject* const* objects, std::size_t count) {
  if (count > most) return PyErr_Format(PyExc_TypeError, "a kernel takes at most %zu arrays", most), false;
  for (; count_ < count; ++count_) {
    PyObject* const object = objects[count_];
    auto* const tensor = new (storage_ + count_ * sizeof(DLTensor)) DLTensor;
    const TypeOf known(object);
    const TensorType& type = *known;
    if (type.takes_over) return no_tensor(object, "");
    if (type.api == nullptr) {
      if (!read_other(type, object, *tensor)) return false;
      continue;
    }
    if (!read_memory(type, object, *tensor)) return false;
    const bool on_gpu = tensor->device.type == DeviceType::cuda;
    if (api_ == nullptr || (on_gpu && !on_gpu_)) api_ = type.api;
    on_gpu_ |= on_gpu;
    if (type.read == nullptr) continue;
    of_torch_ = true;
    if (tensor->dtype.code > DLDataType::unsigned_integer && !read_state(type, object, *tensor)) return false;
  }
  if (!ran_python_) return true;
  const int gone = refresh(objects);
  if (gone >= 0) count_ = static_cast<std::size_t>(gone);
  return gone < 0;
}

// What a table shows of an object, if that is memory.
bool Inputs::read_memory(const TensorType& type, PyObject* object, DLTensor& tensor) {
  const bool plain = type.of_torch && !type.runs_python;
  if (!plain || !view_of(object, tensor)) {
    if (type.api->tensor_from_object(object, &tensor) != 0) return false;
    if (plain) learn_view(object, tensor);
  }
  if (reinterpret_cast<std::uintptr_t>(tensor.data) >= low_addresses || !without_memory(type, object, tensor))
    return true;
  return no_tensor(object, " without memory");
}

int Inputs::refresh(PyObject* const* objects) {
  for (std::size_t i = 0; i < count_; ++i) {
    const TypeOf type(objects[i]);
    if (type->api != nullptr && !read_memory(*type, objects[i], reinterpret_cast<DLTensor*>(storage_)[i]))
      return static_cast<int>(i);
  }
  return -1;
}

// A pending negation is what the imaginary part of a conjugate has, which is every other number of it: a packed tensor
// of several elements has none, unless somebody called torch._neg_view. To ask torch costs 0.1 us a tensor.
static bool may_be_negated(const DLTensor& tensor) {
  std::int64_t packed = 1;
  for (int axis = tensor.ndim; axis-- > 0;) {
    if (tensor.strides != nullptr && tensor.shape[axis] != 1 && tensor.strides[axis] != packed) return true;
    packed *= tensor.shape[axis];
  }
  return packed == 1;
}

// Whether a method of torch without arguments says yes; remembered as pending.
bool Inputs::ask(PyObject* method, PyObject* object) {
  PyObject* const answer = PyObject_Vectorcall(method, &object, 1, nullptr);
  if (answer == nullptr) return false;
  if (answer == Py_True && pending_ < 0) pending_ = static_cast<int>(count_);
  Py_DECREF(answer);
  return true;
}

bool Inputs::read_state(const TensorType& type, PyObject* object, const DLTensor& tensor) {
  if (!real_ || ran_python_) tracks_ = gradients_on();  // once a call, unless others' code may have changed it
  real_ = true;
  ran_python_ |= type.runs_python;
  if (tracks_) {
    int tracked = type.runs_python ? -1 : requires_gradient(object);
    if (tracked < 0) {
      PyObject* const told = type.read(type.requires_grad.ptr(), object, type.type.ptr());
      if (told == nullptr) return false;
      tracked = told == Py_True;
      Py_DECREF(told);
    }
    if (tracked != 0) tracked_ |= 1u << count_;
  }
  if (tensor.dtype.code == DLDataType::complex && type.is_conj.is_valid() && !ask(type.is_conj.ptr(), object))
    return false;
  return !type.is_neg.is_valid() || !may_be_negated(tensor) || ask(type.is_neg.ptr(), object);
}

bool Inputs::read_other(const TensorType& type, PyObject* object, DLTensor& tensor) {
  if (type.masked) return no_tensor(object, ": its mask would be lost (pass .data or .filled())");
  if (!type.on_device && PyObject_CheckBuffer(object)) {
    ran_python_ |= type.runs_python;
    return read_buffer(object, tensor);
  }
  auto foreign = std::make_unique<Foreign>();
  ran_python_ = true;
  switch (read_foreign(object, tensor, *foreign)) {
    case ForeignRead::done: break;
    case ForeignRead::failed: return false;
    case ForeignRead::none: return no_tensor(object, "");
  }
  if (foreign->read_only) read_only_ |= 1u << count_;
  foreign_.push_back(std::move(foreign));
  return true;
}

// An array whose elements the struct module cannot spell has no buffer: bfloat16, datetime64. NumPy's view of it as the
// unsigned integers of its width has one. Null, with a Python error set, unless its type's name is that of an element.
static nb::object view_as_bits(PyObject* object, DLDataType& type) {
  nb::python_error refused;  // takes the error
  const nb::object dtype = nb::steal(PyObject_GetAttrString(object, "dtype"));
  const nb::object name = nb::steal(dtype.is_valid() ? PyObject_GetAttrString(dtype.ptr(), "name") : nullptr);
  const nb::object size = nb::steal(name.is_valid() ? PyObject_GetAttrString(dtype.ptr(), "itemsize") : nullptr);
  PyErr_Clear();
  const nb::object numpy = nb::steal(PyImport_GetModule(nb::str("numpy").ptr()));
  const nb::object array = nb::steal(numpy.is_valid() ? PyObject_GetAttrString(numpy.ptr(), "ndarray") : nullptr);
  PyErr_Clear();
  if (!array.is_valid() || PyObject_IsInstance(object, array.ptr()) != 1 || !size.is_valid() ||
      !nb::isinstance<nb::str>(name) || !nb::isinstance<nb::int_>(size))
    return refused.restore(), nb::object();
  const auto bytes = nb::cast<Py_ssize_t>(size);
  const auto element = element_called(nb::cast<std::string>(name), bytes);
  if (!element) return refuse_elements("type", nb::cast<std::string>(name)), nb::object();
  type = interop::spell(*element);
  return nb::steal(PyObject_CallMethod(array.ptr(), "view", "Os", object, cat("u", bytes).c_str()));
}

bool Inputs::read_buffer(PyObject* object, DLTensor& tensor) {
  auto buffer = std::make_unique<Buffer>();
  Py_buffer& view = buffer->view;
  constexpr int wanted = PyBUF_STRIDES | PyBUF_FORMAT;
  std::optional<DLDataType> named;
  if (PyObject_GetBuffer(object, &view, wanted) != 0) {
    if (PyErr_ExceptionMatches(PyExc_ValueError) == 0) return false;
    ran_python_ |= (PyType_GetFlags(Py_TYPE(object)) & Py_TPFLAGS_HEAPTYPE) != 0;  // a class of Python
    const nb::object bits = view_as_bits(object, named.emplace());
    if (!bits.is_valid() || PyObject_GetBuffer(bits.ptr(), &view, wanted) != 0) return false;
  }
  buffers_.push_back(std::move(buffer));
  DLDataType type;
  if (!type_of(view.format, view.itemsize, type) || (named && named->bits != view.itemsize * 8))
    return refuse_elements("format", view.format);
  static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
  if (view.readonly != 0) read_only_ |= 1u << count_;
  tensor.data = view.buf;
  tensor.device = {DeviceType::cpu, 0};
  tensor.ndim = view.ndim;
  tensor.dtype = named.value_or(type);
  tensor.shape = reinterpret_cast<std::int64_t*>(view.shape);
  if (view.strides == nullptr) return true;  // packed: ctypes says so even where it is asked for strides
  tensor.strides = buffers_.back()->strides;
  for (int i = 0; i < view.ndim; ++i) {
    if (view.strides[i] % view.itemsize != 0) return refuse_array("its strides are no multiples of an element's size");
    tensor.strides[i] = view.strides[i] / view.itemsize;
  }
  return true;
}

Outputs::~Outputs() {
  for (std::size_t i = 0; i < count_; ++i) Py_XDECREF(objects_[i]);
}

// The maker's tensor, where it lies on the call's device: makers know the framework's current device alone.
Outputs::Made Outputs::make(const Maker& maker, DLTensor& tensor) {
  PyObject* const object = PyObject_Call(maker.function.ptr(), maker.arguments.ptr(), nullptr);
  if (object == nullptr) return Made::failed;
  DLTensor made;
  if (!place_of(object, made) && api_->tensor_from_object(object, &made) != 0) return Py_DECREF(object), Made::failed;
  if (made.device != tensor.device) return Py_DECREF(object), Made::elsewhere;
  tensor.data = made.data;
  tensor.byte_offset = made.byte_offset;
  objects_[count_++] = object;
  return Made::here;
}

bool Outputs::allocate(DLTensor& tensor) {
  if (api_ != nullptr && count_ < makers_.size()) {
    const Made made = make(makers_[count_], tensor);
    if (made != Made::elsewhere) return made == Made::here;
  }
  if (api_ == nullptr) return allocate_elsewhere(tensor);
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
  // What torch.func.functionalize makes is a wrapper.
  if (tensor.data == nullptr && !empty(tensor))
    return PyErr_SetString(PyExc_TypeError, "the framework gave an output without memory: pass it as out=..."), false;
  return true;
}

// By the framework of the first input, in Python; NumPy where there is none.
bool Outputs::allocate_elsewhere(DLTensor& tensor) {
  launch::Element element;
  if (!interop::read(tensor.dtype, element)) return false;
  try {
    nb::list shape;
    for (std::int32_t i = 0; i < tensor.ndim; ++i) shape.append(tensor.shape[i]);
    const nb::object empty = nb::module_::import_("pyptx.launch.call").attr("empty");
    const nb::object first = first_ == nullptr ? nb::none() : nb::borrow(first_);
    nb::object array = empty(first, nb::tuple(shape), std::string(arch::name(element)),
                             nb::make_tuple(static_cast<int>(tensor.device.type), tensor.device.id));
    Inputs view;
    PyObject* const object = array.ptr();
    if (!view.read(&object, 1)) return false;
    tensor.data = view.views()[0].data;
    tensor.byte_offset = view.views()[0].byte_offset;
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
