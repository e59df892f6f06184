// What the stable ABI of Python 3.12 has and the headers of 3.11 keep from it: with these lines, a machine that has
// Python 3.11 compiles the module for the ABI of the wheel (`make stable-abi`). Included before every source of that
// check, and of nothing else. A later Python needs none of it. https://docs.python.org/3.12/c-api/stable.html has the
// list of which these are a part.
#pragma once

#include <Python.h>

#if PY_VERSION_HEX < 0x030C0000
extern "C" {
using vectorcallfunc = PyObject* (*)(PyObject*, PyObject* const*, size_t, PyObject*);
PyObject* PyObject_Vectorcall(PyObject*, PyObject* const*, size_t, PyObject*);
PyObject* PyObject_VectorcallMethod(PyObject*, PyObject* const*, size_t, PyObject*);
PyObject* PyVectorcall_Call(PyObject*, PyObject*, PyObject*);
Py_ssize_t PyVectorcall_NARGS(size_t);
PyObject* PyErr_GetRaisedException();
void PyErr_SetRaisedException(PyObject*);
}
#define PY_VECTORCALL_ARGUMENTS_OFFSET (static_cast<size_t>(1) << (8 * sizeof(size_t) - 1))
#define Py_TPFLAGS_HAVE_VECTORCALL (1UL << 11)
#endif
