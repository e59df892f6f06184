#include "python/src/torch_state.h"

#include <dlfcn.h>

#include <algorithm>

namespace ptx::python {
namespace {

// A name of a loaded module, or null. Modules are not imported: what torch has not loaded is not going on.
PyObject* name_of(const char* module, const char* name) {
  PyObject* const loaded = PyImport_GetModule(nb::str(module).ptr());
  PyObject* const found = loaded == nullptr ? nullptr : PyObject_GetAttrString(loaded, name);
  Py_XDECREF(loaded);
  if (found == nullptr) PyErr_Clear();
  return found;
}

// A function of one of torch's libraries, or null. Python's function of the same meaning takes 40 ns of a call that
// takes 700, this one 2; where a release has no such symbol, Python's is asked.
template <class Symbol>
void look_up_symbol(Symbol*& found, const char* library, const char* symbol) {
  void* const loaded = dlopen(library, RTLD_NOLOAD | RTLD_LAZY);
  if (loaded != nullptr) found = reinterpret_cast<Symbol*>(dlsym(loaded, symbol));
}

struct Library {
  std::int64_t (*modes)() = nullptr;
  const void* const* (*tracing)() = nullptr;  // torch.jit.trace's state, a shared_ptr: its first word is the pointer
  bool (*gradients)() = nullptr;
  bool (*requires_gradient)(const void* implementation) = nullptr;
  // torch's stable C functions. What fails in them is printed, so they are asked about plain tensors alone.
  int (*data)(void* tensor, void** data) = nullptr;
  int (*rank)(void* tensor, std::int64_t* rank) = nullptr;
  int (*sizes)(void* tensor, std::int64_t** sizes) = nullptr;
  int (*strides)(void* tensor, std::int64_t** strides) = nullptr;
  int (*element)(void* tensor, std::int32_t* code) = nullptr;
  int (*device_kind)(void* tensor, std::int32_t* code) = nullptr;
  int (*device)(void* tensor, std::int32_t* index) = nullptr;
  const void* plain = nullptr;  // what the first word of a plain tensor's implementation is
  void (*bump_version)(const void* tensor) = nullptr;
  PyObject* levels = name_of("torch.autograd.forward_ad", "__dict__");
  PyObject* level = PyUnicode_InternFromString("_current_level");
  PyObject* none = PyLong_FromLong(-1);

  Library() {
    look_up_symbol(modes, "libc10.so", "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv");
    look_up_symbol(tracing, "libtorch_cpu.so", "_ZN5torch3jit6tracer15getTracingStateEv");
    look_up_symbol(gradients, "libc10.so", "_ZN3c108GradMode10is_enabledEv");
    look_up_symbol(requires_gradient, "libc10.so", "_ZNK3c1010TensorImpl13requires_gradEv");
    look_up_symbol(data, "libtorch_cpu.so", "aoti_torch_get_data_ptr");
    look_up_symbol(rank, "libtorch_cpu.so", "aoti_torch_get_dim");
    look_up_symbol(sizes, "libtorch_cpu.so", "aoti_torch_get_sizes");
    look_up_symbol(strides, "libtorch_cpu.so", "aoti_torch_get_strides");
    look_up_symbol(element, "libtorch_cpu.so", "aoti_torch_get_dtype");
    look_up_symbol(device_kind, "libtorch_cpu.so", "aoti_torch_get_device_type");
    look_up_symbol(device, "libtorch_cpu.so", "aoti_torch_get_device_index");
    const char* table = nullptr;  // of the virtual functions of c10::TensorImpl itself; those of derived classes differ
    look_up_symbol(table, "libc10.so", "_ZTVN3c1010TensorImplE");
    const bool all = table && data && rank && sizes && strides && element && device_kind && device;
    plain = all ? table + 2 * sizeof(void*) : nullptr;
    look_up_symbol(bump_version, "libtorch_cpu.so", "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE");
  }
};

const Library& library() {
  static const Library loaded;
  return loaded;
}

// What a function of Python without arguments answers; `otherwise` where it fails.
long answer(PyObject* function, long otherwise) {
  PyObject* const object = function == nullptr ? nullptr : PyObject_CallNoArgs(function);
  const long value = object == nullptr ? -1 : PyLong_AsLong(object);
  Py_XDECREF(object);
  if (!PyErr_Occurred() && object != nullptr) return value;
  PyErr_Clear();
  return otherwise;
}

// Where the Python object of a tensor has its C++ tensor. torch tells nobody, so it is found out: `_cdata` is the
// address of the implementation, which is all that a C++ tensor holds, and one word of the object has that address. It
// has to be the same word of the first three objects; else Python is asked for ever.
class ObjectLayout {
 public:
  // The C++ tensor of an object (at::Tensor*), or null.
  void** tensor(PyObject* object) {
    if (agreed_ != enough) [[unlikely]]
      learn(object);
    return agreed_ == enough ? reinterpret_cast<void**>(object) + word_ : nullptr;
  }

 private:
  static constexpr int enough = 3, never = -1;

  [[gnu::cold]] void learn(PyObject* object) {
    if (agreed_ == never) return;
    const nb::object address = nb::steal(PyObject_GetAttrString(object, "_cdata"));
    void* const implementation = address.is_valid() ? PyLong_AsVoidPtr(address.ptr()) : nullptr;
    PyErr_Clear();
    const std::size_t word = find(object, implementation);
    const bool agrees = word != 0 && (agreed_ == 0 || word == word_);
    word_ = word, agreed_ = agrees ? agreed_ + 1 : never;
  }

  // 0: none, or more than one.
  static std::size_t find(PyObject* object, const void* address) {
    static PyObject* const bytes = name_of("torch", "Tensor");
    const nb::object size = nb::steal(bytes == nullptr ? nullptr : PyObject_GetAttrString(bytes, "__basicsize__"));
    const std::size_t words = size.is_valid() ? PyLong_AsSize_t(size.ptr()) / sizeof(void*) : 0;
    std::size_t found = 0;
    for (std::size_t i = sizeof(PyObject) / sizeof(void*); i < words; ++i) {
      if (address == nullptr || reinterpret_cast<void**>(object)[i] != address) continue;
      if (found != 0) return 0;
      found = i;
    }
    return found;
  }

  int agreed_ = 0;
  std::size_t word_ = 0;
};

ObjectLayout layout;  // guarded by Python's lock

}  // namespace

static bool is_tracing(const Library& torch) {
  if (torch.tracing != nullptr) return *torch.tracing() != nullptr;
  static PyObject* const ask = name_of("torch.jit", "is_tracing");
  return answer(ask, 0) > 0;
}

bool modes_on() {
  const Library& torch = library();
  if (is_tracing(torch)) return true;
  if (torch.modes != nullptr) return torch.modes() > 0;
  static PyObject* const ask = name_of("torch._C", "_len_torch_dispatch_stack");
  return answer(ask, 0) > 0;
}

bool gradients_on() {
  const Library& torch = library();
  if (torch.gradients != nullptr) return torch.gradients();
  static PyObject* const ask = name_of("torch", "is_grad_enabled");
  return answer(ask, 1) != 0;
}

bool transforms_on() {
  static PyObject* const ask = name_of("torch._C", "_are_functorch_transforms_active");
  return answer(ask, 0) > 0;
}

int requires_gradient(PyObject* tensor) {
  const Library& torch = library();
  void** const found = torch.requires_gradient == nullptr ? nullptr : layout.tensor(tensor);
  return found == nullptr ? -1 : torch.requires_gradient(*found);
}

// How the exchange API spells torch's codes of an element type and of the host (0) or CUDA (1): as it was seen to.
struct Spelling {
  bool known = false;
  interop::DLDataType type;
  interop::DeviceType device;
};
static Spelling spellings[64][2];  // guarded by Python's lock

// The C++ tensor of the object and its spelling, where it is simply memory; else null.
static void** plain_tensor(const Library& torch, PyObject* tensor, Spelling*& spelling) {
  void** const found = torch.plain == nullptr ? nullptr : layout.tensor(tensor);
  if (found == nullptr || *static_cast<void**>(*found) != torch.plain) return nullptr;
  std::int32_t element = 0, device = 0;
  torch.element(found, &element), torch.device_kind(found, &device);
  if (element < 0 || element >= static_cast<int>(std::size(spellings)) || device < 0 || device > 1) return nullptr;
  spelling = &spellings[element][device];
  return found;
}

// The address and the device of what a plain tensor's spelling is known of; else null.
static void** read_place(const Library& torch, PyObject* tensor, Spelling*& spelling, interop::DLTensor& view) {
  void** const found = plain_tensor(torch, tensor, spelling);
  std::int32_t index = 0;
  if (found == nullptr || !spelling->known) return nullptr;
  if (torch.data(found, &view.data) != 0 || torch.device(found, &index) != 0) return nullptr;
  view.device = {spelling->device, std::max(index, 0)};
  view.byte_offset = 0;
  return found;
}

bool view_of(PyObject* tensor, interop::DLTensor& view) {
  const Library& torch = library();
  Spelling* spelling = nullptr;
  void** const found = read_place(torch, tensor, spelling, view);
  std::int64_t rank = 0;
  if (found == nullptr || torch.rank(found, &rank) != 0 || torch.sizes(found, &view.shape) != 0 ||
      torch.strides(found, &view.strides) != 0)
    return false;
  view.ndim = static_cast<std::int32_t>(rank);
  view.dtype = spelling->type;
  return true;
}

bool place_of(PyObject* tensor, interop::DLTensor& view) {
  Spelling* spelling = nullptr;
  return read_place(library(), tensor, spelling, view) != nullptr;
}

void learn_view(PyObject* tensor, const interop::DLTensor& view) {
  Spelling* spelling = nullptr;
  if (plain_tensor(library(), tensor, spelling) != nullptr) *spelling = {true, view.dtype, view.device.type};
}

void mark_written(PyObject* tensor) {
  const Library& torch = library();
  void** const found = torch.bump_version == nullptr ? nullptr : layout.tensor(tensor);
  if (found != nullptr) try {
      return torch.bump_version(found);
    } catch (...) {  // a tensor of inference mode outside of it: it has no version
      return;
    }
  static PyObject* const mark = name_of("torch.autograd.graph", "increment_version");
  Py_XDECREF(mark == nullptr ? nullptr : PyObject_CallFunctionObjArgs(mark, tensor, nullptr));
  PyErr_Clear();
}

// A variable of the module, -1 outside of every level. Small integers are one object each.
bool tangents_on() {
  const Library& torch = library();
  PyObject* const level = torch.levels == nullptr ? nullptr : PyDict_GetItemWithError(torch.levels, torch.level);
  return level != nullptr && level != torch.none && PyLong_AsLong(level) >= 0;
}

bool has_tangent(PyObject* tensor) {
  static PyObject* const unpack = name_of("torch.autograd.forward_ad", "unpack_dual");
  const nb::object dual =
      nb::steal(unpack == nullptr ? nullptr : PyObject_CallFunctionObjArgs(unpack, tensor, nullptr));
  const nb::object tangent = nb::steal(dual.is_valid() ? PyObject_GetAttrString(dual.ptr(), "tangent") : nullptr);
  PyErr_Clear();
  return tangent.is_valid() && !tangent.is_none();
}

}  // namespace ptx::python
