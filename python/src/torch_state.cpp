#include "python/src/torch_state.h"

#include <dlfcn.h>

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

// A function of torch's C++ library without arguments, or null. Python's function of the same meaning takes 40 ns of a
// call that takes 700, this one 2; where a release has no such symbol, Python's is asked.
template <class Function>
Function in_library(const char* symbol) {
  void* const library = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, symbol));
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

}  // namespace

bool modes_on() {
  static const auto count = in_library<std::int64_t (*)()>("_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv");
  static PyObject* const ask = name_of("torch._C", "_len_torch_dispatch_stack");
  return count != nullptr ? count() > 0 : answer(ask, 0) > 0;
}

bool gradients_on() {
  static const auto enabled = in_library<bool (*)()>("_ZN3c108GradMode10is_enabledEv");
  static PyObject* const ask = name_of("torch", "is_grad_enabled");
  return enabled != nullptr ? enabled() : answer(ask, 1) != 0;
}

// A variable of the module, -1 outside of every level. Small integers are one object each.
bool tangents_on() {
  static PyObject* const name = PyUnicode_InternFromString("_current_level");
  static PyObject* const none = PyLong_FromLong(-1);
  static PyObject* const variables = name_of("torch.autograd.forward_ad", "__dict__");
  PyObject* const level = variables == nullptr ? nullptr : PyDict_GetItemWithError(variables, name);
  return level != nullptr && level != none && PyLong_AsLong(level) >= 0;
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
