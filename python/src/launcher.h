// What a call of a kernel was, for those who repeat it for other memory (launches.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ptx/interop/plan.h"
#include "python/src/tensors.h"

namespace ptx::python {

// A signature of inputs seen before: keyword arguments that chose the specialisation, names of runtime scalars, plan.
struct Entry {
  nb::object plan_object;
  const interop::Plan* plan;
  std::vector<std::pair<nb::object, nb::object>> fixed;  // name (interned) and value
  std::vector<nb::object> scalars;                       // as Record::scalars: a name, or none for one that is known
  std::vector<std::uint64_t> bits;                       // of those that are known
  std::size_t named = 0;                                 // of the scalars
  std::vector<Maker> makers;                             // of the outputs; none: the framework's general way
  std::size_t references = 0;
};

// What a kernel knows may change while a call runs Python, so the call keeps its own. Counted without atomics, under
// Python's lock.
template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) { ++object->references; }
  Ref(const Ref& other) : object_(other.object_) {
    if (object_ != nullptr) ++object_->references;
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept { return std::swap(object_, other.object_), *this; }
  ~Ref() {
    if (object_ != nullptr && --object_->references == 0) delete object_;
  }
  explicit operator bool() const { return object_ != nullptr; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }

 private:
  T* object_ = nullptr;
};

using EntryRef = Ref<Entry>;

// One launch: the kernel, its plan, its packed scalars, and the tensors that it was given and that it wrote.
struct Launch {
  nb::object launcher;
  EntryRef entry;
  std::vector<std::uint64_t> scalars;
  std::vector<nb::object> inputs{}, outputs{};
  std::vector<Py_ssize_t> mutated{};  // indices of inputs that the kernel writes
};

// While one lives, the launches of its thread are noted in it, and in those around it.
class LaunchNotes {
 public:
  LaunchNotes() : outer_(std::exchange(current_, this)) {}
  ~LaunchNotes() { current_ = outer_; }
  LaunchNotes(const LaunchNotes&) = delete;
  LaunchNotes& operator=(const LaunchNotes&) = delete;

  static bool on() { return current_ != nullptr; }
  static std::size_t count() { return current_ == nullptr ? 0 : current_->made_.size(); }
  static void add(const Launch& launch) {
    for (LaunchNotes* notes = current_; notes != nullptr; notes = notes->outer_) notes->made_.push_back(launch);
  }
  // Something was done that no launch repeats.
  static void spoil() {
    for (LaunchNotes* notes = current_; notes != nullptr; notes = notes->outer_) notes->whole_ = false;
  }
  const std::vector<Launch>& made() const { return made_; }
  bool whole() const { return whole_; }

 private:
  static inline thread_local LaunchNotes* current_ = nullptr;
  LaunchNotes* outer_;
  std::vector<Launch> made_;
  bool whole_ = true;
};

// Whether calls of kernels have to reach Python, which keeps them (pyptx/replay.py).
bool calls_are_kept();

// Whether the body of the kernel would read what it read before.
bool is_unchanged(PyObject* launcher);

enum class Repeated : std::uint8_t { done, failed, refused };

// Launches again, on memory that the launch's plan may refuse; `failed` with a Python error set. `fresh`: the outputs
// hold no values yet.
[[gnu::hot]] Repeated repeat(const Launch& launch, std::span<const interop::DLTensor> inputs,
                             std::span<const interop::DLTensor> outputs, bool fresh, void* stream);

// Tells autograd, where it is a tensor of torch, that it was written.
void tell_written(PyObject* object);

}  // namespace ptx::python
