// Arrays of frameworks without the exchange API: `__cuda_array_interface__` (CuPy, Numba) and the DLPack protocol.
// Nothing that such an object says is believed before it was looked at.
#pragma once

#include "python/src/tensors.h"

namespace ptx::python {

enum class ForeignRead { done, none, failed };  // failed: with a Python error set

// Views an object through one of the two. `foreign` keeps what the view needs for as long as it is used.
ForeignRead read_foreign(PyObject* object, interop::DLTensor& tensor, Foreign& foreign);

// A CUstream from what `stream=` may be: an object with __cuda_stream__(), or an integer. False with a Python error
// set.
bool read_stream(PyObject* object, void*& stream);

}  // namespace ptx::python
