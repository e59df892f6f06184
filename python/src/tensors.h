// Python tensors as DLTensor views, and outputs back: the DLPack C exchange API where the type has one (PyTorch), the
// buffer protocol otherwise (NumPy).
#pragma once

#include <memory>
#include <vector>

#include "ptx/interop/plan.h"
#include "python/src/module.h"

namespace ptx::python {

// The exchange table of a type, or null. Looked up once a type.
const interop::DLPackExchangeAPI* exchange_of(PyTypeObject* type);

// Views of the arguments of one call. They borrow: the objects outlive them.
class Inputs {
 public:
  static constexpr std::size_t most = 32;

  Inputs() = default;
  ~Inputs();
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  // False with a Python error set (TypeError naming the type) where an object is no tensor.
  bool read(PyObject* const* objects, std::size_t count);
  std::span<const interop::DLTensor> views() const {
    return {reinterpret_cast<const interop::DLTensor*>(storage_), count_};
  }
  // The table that makes outputs and knows the stream: of the first CUDA tensor, else of the first that has one; null
  // for NumPy.
  const interop::DLPackExchangeAPI* api() const { return api_; }

 private:
  struct Buffer {
    Py_buffer view;
    std::int64_t strides[PyBUF_MAX_NDIM];  // elements
  };
  bool read_buffer(PyObject* object, interop::DLTensor& tensor);

  alignas(interop::DLTensor) std::byte storage_[most * sizeof(interop::DLTensor)];
  std::size_t count_ = 0;
  const interop::DLPackExchangeAPI* api_ = nullptr;
  bool on_gpu_ = false;  // a CUDA tensor was read
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

// The outputs of one call, allocated by the framework of its inputs.
class Outputs {
 public:
  explicit Outputs(const interop::DLPackExchangeAPI* api) : api_(api) {}
  ~Outputs();
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  bool allocate(interop::DLTensor& tensor);  // false with a Python error set
  PyObject* take();                          // None, the array, or a tuple of them: a new reference

 private:
  bool allocate_numpy(interop::DLTensor& tensor);

  static constexpr std::size_t most = 16;
  const interop::DLPackExchangeAPI* api_;
  std::size_t count_ = 0;
  PyObject* objects_[most];
};

}  // namespace ptx::python
