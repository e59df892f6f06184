// Python tensors as DLTensor views, and outputs back: the DLPack C exchange API where the type has one (PyTorch), the
// buffer protocol (NumPy), else what foreign.h reads.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ptx/interop/plan.h"
#include "python/src/module.h"

namespace ptx::python {

// What is known of a type of tensors.
struct TensorType {
  nb::object type;
  const interop::DLPackExchangeAPI* api = nullptr;  // null: none
  // Tensor.requires_grad (a descriptor, and how one is read), Tensor.is_neg and Tensor.is_conj of torch's types, else
  // null.
  nb::object requires_grad;
  descrgetfunc read = nullptr;
  nb::object is_neg, is_conj;
  bool of_torch = false;    // a subclass of torch.Tensor, or that
  bool takes_over = false;  // it wants to see operators itself: JAX's arrays, torch's subclasses of __torch_dispatch__
  bool runs_python =
      false;               // reading it may: a subclass with __torch_function__, a class with a `__buffer__` in Python
  bool masked = false;     // a masked array of NumPy
  bool on_device = false;  // __cuda_array_interface__: CuPy's arrays have a buffer protocol, too, which refuses
};

// What is known of the type of an object: looked up once for each of the first 256 types, else each time, for this use
// alone. A program that makes classes in a loop must not grow the table without bound.
class TypeOf {
 public:
  explicit TypeOf(PyObject* object) : found_(last_) {
    if (found_ == nullptr || found_->type.ptr() != reinterpret_cast<PyObject*>(Py_TYPE(object))) look(Py_TYPE(object));
  }
  const TensorType* operator->() const { return found_; }
  const TensorType& operator*() const { return *found_; }

 private:
  void look(PyTypeObject* type);

  static inline const TensorType* last_ = nullptr;  // guarded by the GIL
  std::optional<TensorType> own_;
  const TensorType* found_;
};

// Memory of a tensor that neither the exchange API nor the buffer protocol shows.
struct Foreign {
  std::vector<std::int64_t> shape, strides;
  void* producer_stream = nullptr;  // whose work must come first; meaningful where `has_stream`
  bool has_stream = false;
  bool read_only = false;
  interop::DLManagedTensorVersioned* versioned = nullptr;  // to be let go
  void* managed = nullptr;                                 // the same, of the older kind
  Foreign() = default;
  Foreign(const Foreign&) = delete;
  ~Foreign();
};

// Views of the arguments of one call. They borrow: the objects outlive them.
class Inputs {
 public:
  static constexpr std::size_t most = 32;

  Inputs() = default;
  ~Inputs();
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  // False with a Python error set (TypeError naming the type) where an object is no tensor; `size()` is its index.
  [[gnu::hot]] bool read(PyObject* const* objects, std::size_t count);
  // Reads again what Python code may have changed since. The index of an object that has no memory any more, with a
  // Python error set; -1: none.
  int refresh(PyObject* const* objects);
  std::size_t size() const { return count_; }
  std::span<const interop::DLTensor> views() const {
    return {reinterpret_cast<const interop::DLTensor*>(storage_), count_};
  }
  // The table that makes outputs and knows the stream: of the first CUDA tensor, else of the first that has one; null
  // where none has.
  const interop::DLPackExchangeAPI* api() const { return api_; }
  // The tensors that require a gradient, a bit each, while gradients are on.
  std::uint32_t tracked() const { return tracked_; }
  // Index of the first tensor whose negation or conjugation is pending; -1: none.
  int pending() const { return pending_; }
  bool read_only(std::size_t index) const { return (read_only_ >> index & 1) != 0; }
  // Whether any of these must be looked at before a launch.
  bool special() const { return tracked_ != 0 || pending_ >= 0 || read_only_ != 0; }
  // The same, apart from gradients.
  bool unusual() const { return pending_ >= 0 || read_only_ != 0; }
  // Whether torch's tensors are among them; whether any of those may have derivatives.
  bool of_torch() const { return of_torch_; }
  bool real() const { return real_; }
  // Whether code in Python ran while these were read: what was read before it may be gone.
  bool ran_python() const { return ran_python_; }
  const std::vector<std::unique_ptr<Foreign>>& foreign() const { return foreign_; }

 private:
  struct Buffer {
    Py_buffer view;
    std::int64_t strides[PyBUF_MAX_NDIM];  // elements
  };
  bool read_memory(const TensorType& type, PyObject* object, interop::DLTensor& tensor);
  bool read_buffer(PyObject* object, interop::DLTensor& tensor);
  bool read_other(const TensorType& type, PyObject* object, interop::DLTensor& tensor);
  bool ask(PyObject* method, PyObject* object);
  [[gnu::hot]] bool read_state(const TensorType& type, PyObject* object, const interop::DLTensor& tensor);

  alignas(interop::DLTensor) std::byte storage_[most * sizeof(interop::DLTensor)];
  std::size_t count_ = 0;
  const interop::DLPackExchangeAPI* api_ = nullptr;
  bool on_gpu_ = false;  // a CUDA tensor was read
  bool of_torch_ = false, real_ = false, tracks_ = false, ran_python_ = false;
  int pending_ = -1;
  std::uint32_t read_only_ = 0, tracked_ = 0;  // a bit an object
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::unique_ptr<Foreign>> foreign_;
};

// How the outputs of known plans are made: a function of the framework and its arguments, for each.
struct Maker {
  nb::object function, arguments;
};

// The outputs of one call, allocated by the framework of its inputs.
class Outputs {
 public:
  // `first`: an input, for a framework that is known by its arrays alone. All outlive this object.
  Outputs(const interop::DLPackExchangeAPI* api, const std::vector<Maker>& makers, PyObject* first)
      : api_(api), makers_(makers), first_(first) {}
  ~Outputs();
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  [[gnu::hot]] bool allocate(interop::DLTensor& tensor);  // false with a Python error set
  PyObject* take();                                       // None, the array, or a tuple of them: a new reference
  PyObject* made(std::size_t index) const { return objects_[index]; }  // a borrowed reference

 private:
  enum class Made { here, elsewhere, failed };
  [[gnu::hot]] Made make(const Maker& maker, interop::DLTensor& tensor);
  bool allocate_elsewhere(interop::DLTensor& tensor);

  static constexpr std::size_t most = 16;
  const interop::DLPackExchangeAPI* api_;
  const std::vector<Maker>& makers_;
  PyObject* first_;
  std::size_t count_ = 0;
  PyObject* objects_[most];
};

}  // namespace ptx::python
