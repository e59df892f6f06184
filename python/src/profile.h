// Ranges around calls of kernels, for profilers. Whether one listens is a look into a dictionary; what it is told is
// Python's (pyptx/profiling.py).
#pragma once

#include <Python.h>

namespace ptx::python {

struct Profiling {
  bool nvtx = false;          // asked for by the user
  PyObject* flags = nullptr;  // of torch.autograd.profiler: its globals, once torch is there
  PyObject* flag = nullptr;   // the name of the one that is true while a profiler of torch runs
};
inline Profiling profiling;

void find_profiler();  // of torch, if torch is there by now

[[gnu::hot]] inline bool is_profiled() {
  return profiling.nvtx ||
         (profiling.flags != nullptr && PyDict_GetItemWithError(profiling.flags, profiling.flag) == Py_True);
}

// One call of a kernel as a range of its name. Open until it is left; a Python error that is set stays.
class ProfiledCall {
 public:
  explicit ProfiledCall(PyObject* kernel);
  ProfiledCall(const ProfiledCall&) = delete;
  ~ProfiledCall();

 private:
  PyObject* opened_;  // null: the profiler failed, and the call goes on without it
};

}  // namespace ptx::python
