#include "python/src/profile.h"

#include <cstdlib>
#include <cstring>

#include "python/src/module.h"

namespace ptx::python {
namespace {

// pyptx.profiling.`function`(argument): a new reference, or null where it failed, without a Python error.
PyObject* ask_profiler(const char* function, PyObject* argument) {
  PyObject* const module = PyImport_ImportModule("pyptx.profiling");
  PyObject* const result = module == nullptr ? nullptr : PyObject_CallMethod(module, function, "O", argument);
  if (result == nullptr) PyErr_WriteUnraisable(argument);
  Py_XDECREF(module);
  return result;
}

bool asked_for() {
  const char* const value = std::getenv("PYPTX_NVTX");
  return value != nullptr && *value != 0 && std::strcmp(value, "0") != 0;
}

}  // namespace

void find_profiler() {
  if (profiling.flags != nullptr) return;
  PyObject* const module = PyImport_GetModule(nb::str("torch.autograd.profiler").ptr());
  if (module == nullptr) return;
  profiling.flag = PyUnicode_InternFromString("_is_profiler_enabled");
  profiling.flags = Py_NewRef(PyModule_GetDict(module));  // lives as long as the process: nothing unloads torch
  Py_DECREF(module);
}

ProfiledCall::ProfiledCall(PyObject* kernel) : opened_(ask_profiler("enter", kernel)) {}

ProfiledCall::~ProfiledCall() {
  if (opened_ == nullptr) return;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  Py_XDECREF(ask_profiler("leave", opened_));
  Py_DECREF(opened_);
  PyErr_Restore(type, value, trace);
}

void init_profile(nb::module_& m) {
  profiling.nvtx = asked_for();
  m.def(
      "use_nvtx", [](bool on) { return std::exchange(profiling.nvtx, on); }, nb::arg("on"),
      "Whether each call of a kernel is an NVTX range from now on; what held before");
  m.def("uses_nvtx", [] { return profiling.nvtx; });
}

}  // namespace ptx::python
