#include "python/src/launches.h"

#include <algorithm>

namespace ptx::python {

using interop::DLDataType;
using interop::DLDevice;
using interop::DLTensor;

std::uintptr_t address_of(const DLTensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
}

Extent Extent::of(const DLTensor& tensor) {
  const std::uintptr_t begin = address_of(tensor);
  std::int64_t first = 0, last = 0, packed = 1;
  for (std::int32_t i = tensor.ndim; i-- > 0; packed *= tensor.shape[i]) {
    if (tensor.shape[i] == 0) return {begin, begin};
    const std::int64_t step = tensor.strides == nullptr ? packed : tensor.strides[i];
    (step < 0 ? first : last) += step * (tensor.shape[i] - 1);
  }
  const std::int64_t bits = std::int64_t{tensor.dtype.bits} * tensor.dtype.lanes;
  return {begin + static_cast<std::uintptr_t>(first * bits / 8),
          begin + static_cast<std::uintptr_t>(((last + 1) * bits + 7) / 8)};
}

DLTensor Launches::Tensor::at(std::uintptr_t begin, DLDevice device) const {
  DLTensor tensor;
  tensor.data = reinterpret_cast<void*>(begin + static_cast<std::uintptr_t>(offset));
  tensor.device = device;
  tensor.ndim = static_cast<std::int32_t>(shape.size());
  tensor.dtype = type;
  tensor.shape = const_cast<std::int64_t*>(shape.data());
  tensor.strides = strides.empty() ? nullptr : const_cast<std::int64_t*>(strides.data());
  return tensor;
}

// How `Launches` are made of notes.
struct Launches::Noted {
  struct Memory {
    nb::object owner;  // kept: its address is nobody else's
    Extent extent;
    bool is_result = false, is_written = false;
  };

  Launches& made;
  std::span<const DLTensor> views;
  PyObject* out;
  std::vector<Memory> memory{};  // of the blocks

  static bool view(nb::handle object, Inputs& inputs) {
    PyObject* const pointer = object.ptr();
    const bool read = inputs.read(&pointer, 1);
    PyErr_Clear();
    return read && !inputs.special() && !inputs.ran_python() && Extent::of(inputs.views()[0]).begin != 0;
  }

  // All memory of what `object` is a view of.
  static Extent whole(nb::handle object, const DLTensor& view) {
    if (!nb::hasattr(object, "untyped_storage")) return Extent::of(view);
    const nb::object storage = object.attr("untyped_storage")();
    const auto begin = nb::cast<std::uintptr_t>(storage.attr("data_ptr")());
    return {begin, begin + nb::cast<std::uintptr_t>(storage.attr("nbytes")())};
  }

  // The memory that the extent is in, where it is known.
  std::optional<std::size_t> source_of(const Extent& extent) const {
    if (extent.begin == extent.end) return std::nullopt;
    for (std::size_t i = 0; i < views.size(); ++i)
      if (Extent::of(views[i]).has(extent)) return i;
    for (std::size_t i = 0; i < memory.size(); ++i)
      if (memory[i].extent.has(extent)) return views.size() + i;
    return std::nullopt;
  }

  std::uintptr_t begin_of(std::size_t source) const {
    return source < views.size() ? address_of(views[source]) : memory[source - views.size()].extent.begin;
  }

  bool add(nb::handle object, std::vector<Tensor>& tensors, bool written) {
    Inputs inputs;
    if (!view(object, inputs)) return false;
    const DLTensor& seen = inputs.views()[0];
    const Extent extent = Extent::of(seen);
    std::optional<std::size_t> source = source_of(extent);
    if (!source && written) {
      memory.push_back({nb::borrow(object), whole(object, seen)});
      source = source_of(extent);
    }
    if (!source) return false;
    Tensor& tensor = tensors.emplace_back();
    tensor.source = *source;
    tensor.offset = static_cast<std::ptrdiff_t>(address_of(seen) - begin_of(*source));
    tensor.type = seen.dtype;
    tensor.shape.assign(seen.shape, seen.shape + seen.ndim);
    if (seen.strides != nullptr) tensor.strides.assign(seen.strides, seen.strides + seen.ndim);
    return true;
  }

  // Whether it is the first that writes this memory, which only the launches see.
  bool write(const Tensor& tensor) {
    if (tensor.source >= views.size()) return !std::exchange(memory[tensor.source - views.size()].is_written, true);
    if (std::ranges::find(made.written_, tensor.source) == made.written_.end()) made.written_.push_back(tensor.source);
    return false;
  }

  bool add(const Launch& launch) {
    Step step{launch, {}, {}, true};
    step.launch.inputs.clear(), step.launch.outputs.clear();
    for (const nb::object& each : launch.inputs)
      if (!add(each, step.inputs, false)) return false;
    for (const nb::object& each : launch.outputs)
      if (!add(each, step.outputs, true)) return false;
    for (const Py_ssize_t index : launch.mutated) write(step.inputs.at(static_cast<std::size_t>(index)));
    for (const Tensor& tensor : step.outputs) step.fresh &= write(tensor);
    made.steps_.push_back(std::move(step));
    return true;
  }

  // A tensor that the function returns: all of one block, packed.
  bool add_result(nb::handle object) {
    if (object.is_none()) return made.results_.push_back(std::nullopt), true;
    Inputs inputs;
    if (!view(object, inputs)) return false;
    const DLTensor& seen = inputs.views()[0];
    const std::optional<std::size_t> source = source_of(Extent::of(seen));
    if (!source || *source < views.size()) return false;
    Memory& of = memory[*source - views.size()];
    std::int64_t packed = 1;
    for (std::int32_t i = seen.ndim; i-- > 0; packed *= seen.shape[i])
      if (seen.strides != nullptr && seen.shape[i] != 1 && seen.strides[i] != packed) return false;
    if (of.extent.begin != address_of(seen) || of.extent.end != Extent::of(seen).end || of.is_result) return false;
    of.owner = nb::borrow(object), of.is_result = true;
    made.results_.push_back(*source - views.size());
    return true;
  }

  bool add_results(PyObject* result) {
    made.returns_out_ = out != nullptr && result == out;
    if (made.returns_out_) return true;
    made.several_ = PyTuple_CheckExact(result);
    if (!made.several_) return add_result(result);
    for (Py_ssize_t i = 0; i < PyTuple_Size(result); ++i)
      if (!add_result(PyTuple_GetItem(result, i))) return false;
    return true;
  }

  // Memory that nobody but the launches sees is bytes.
  bool make_blocks() {
    const nb::object maker_of = nb::module_::import_("pyptx.launch.call").attr("maker");
    for (const Memory& each : memory) {
      Inputs inputs;
      if (!view(each.owner, inputs)) return false;
      const DLTensor& seen = inputs.views()[0];
      Block block{{DLDataType::unsigned_integer, 8, 1},
                  {static_cast<std::int64_t>(each.extent.end - each.extent.begin)}};
      if (each.is_result) block = {seen.dtype, {seen.shape, seen.shape + seen.ndim}};
      nb::list shape;
      for (const std::int64_t size : block.shape) shape.append(size);
      const nb::object maker = maker_of(each.owner, nb::tuple(shape), each.is_result);
      if (!maker.is_none()) made.makers_.push_back({nb::borrow(maker[0]), nb::borrow(maker[1])});
      made.blocks_.push_back(std::move(block));
    }
    return made.makers_.empty() || made.makers_.size() == made.blocks_.size();
  }
};

constexpr std::size_t most_blocks = 16;  // as many as `Outputs` makes

std::unique_ptr<const Launches> Launches::of(const LaunchNotes& notes, std::span<const DLTensor> views, PyObject* out,
                                             PyObject* result) {
  auto made = std::make_unique<Launches>();
  Noted noted{*made, views, out};
  if (!notes.whole() || notes.made().empty()) return nullptr;
  for (const Launch& launch : notes.made())
    if (!noted.add(launch)) return nullptr;
  if (noted.memory.size() > most_blocks || !noted.add_results(result) || !noted.make_blocks()) return nullptr;
  return made;
}

PyObject* Launches::repeat(const Inputs& inputs, PyObject* const* objects) const {
  for (const Step& step : steps_)
    if (!is_unchanged(step.launch.launcher.ptr())) return nullptr;
  const DLDevice device = steps_.front().launch.entry->plan->device();
  void* stream = nullptr;
  const auto* const api = inputs.api();
  if (device.type == interop::DeviceType::cuda &&
      (api == nullptr || api->current_stream == nullptr || api->current_stream(device.type, device.id, &stream) != 0))
    return nullptr;
  std::uintptr_t begins[Inputs::most + most_blocks];
  std::size_t count = 0;
  for (const DLTensor& view : inputs.views()) begins[count++] = address_of(view);
  Outputs blocks(api, makers_, objects[0]);
  for (const Block& block : blocks_) {
    DLTensor made;
    made.device = device;
    made.ndim = static_cast<std::int32_t>(block.shape.size());
    made.dtype = block.type;
    made.shape = const_cast<std::int64_t*>(block.shape.data());
    if (!blocks.allocate(made)) return nullptr;
    begins[count++] = address_of(made);
  }
  for (const Step& step : steps_) {
    DLTensor tensors[Inputs::most + most_blocks];
    std::size_t at = 0;
    for (const Tensor& tensor : step.inputs) tensors[at++] = tensor.at(begins[tensor.source], device);
    for (const Tensor& tensor : step.outputs) tensors[at++] = tensor.at(begins[tensor.source], device);
    const std::span<const DLTensor> all(tensors, at);
    const Repeated done =
        python::repeat(step.launch, all.first(step.inputs.size()), all.subspan(step.inputs.size()), step.fresh, stream);
    if (done != Repeated::done) return nullptr;
  }
  for (const std::size_t written : written_) tell_written(objects[written]);
  if (returns_out_) return Py_NewRef(objects[inputs.size() - 1]);
  if (!several_) return Py_NewRef(blocks.made(*results_.front()));
  PyObject* const all = PyTuple_New(static_cast<Py_ssize_t>(results_.size()));
  for (std::size_t i = 0; all != nullptr && i < results_.size(); ++i)
    PyTuple_SetItem(all, static_cast<Py_ssize_t>(i), Py_NewRef(results_[i] ? blocks.made(*results_[i]) : Py_None));
  return all;
}

int Launches::traverse(visitproc visit, void* arg) const {
  for (const Step& step : steps_) Py_VISIT(step.launch.launcher.ptr());
  for (const Maker& maker : makers_) Py_VISIT(maker.arguments.ptr());
  return 0;
}

}  // namespace ptx::python
