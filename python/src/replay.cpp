// A kept call once more, on the simulator: text, record and bytes of its arguments, without the framework that made
// them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "ptx/base/text.h"
#include "ptx/interop/plan.h"
#include "ptx/launch/serial.h"
#include "python/src/module.h"
#include "python/src/scalars.h"

namespace ptx::python {
namespace {

using interop::DLTensor;

// Bytes of a tensor with an address of its own, on 256 bytes as frameworks give it.
struct Memory {
  std::vector<std::byte> storage;
  std::byte* data = nullptr;
  std::size_t size() const { return storage.empty() ? 0 : storage.size() - 256; }
  void assign(const char* bytes, std::size_t size) {
    storage.resize(size + 256);
    const auto raw = reinterpret_cast<std::uintptr_t>(storage.data());
    data = storage.data() + (256 - raw % 256) % 256;
    if (bytes) std::memcpy(data, bytes, size);
  }
};

// (element, shape, strides, bytes) of one array.
using Kept = std::tuple<std::string, std::vector<std::int64_t>, std::vector<std::int64_t>, nb::bytes>;

struct Arrays {
  explicit Arrays(const std::vector<Kept>& kept) : shapes(kept.size()), strides(kept.size()), memory(kept.size()) {
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const auto& [name, shape, stride, bytes] = kept[i];
      const auto element = arch::element_named(name);
      if (!element || shape.size() != stride.size())
        throw nb::value_error(cat("array ", i, " of the kept call is damaged").c_str());
      std::uint64_t last = 1;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] < 0 || stride[d] < 0)
          throw nb::value_error(cat("array ", i, " of the kept call is damaged").c_str());
        last = shape[d] == 0 ? 0 : last + static_cast<std::uint64_t>((shape[d] - 1) * stride[d]);
        if (last == 0) break;
      }
      if (arch::bytes(*element, last) > bytes.size())
        throw nb::value_error(cat("array ", i, " of the kept call has too few bytes").c_str());
      memory[i].assign(bytes.c_str(), bytes.size());
      shapes[i] = shape, strides[i] = stride;
      DLTensor t{};
      t.data = memory[i].data, t.device = {interop::DeviceType::cpu, 0};
      t.ndim = static_cast<std::int32_t>(shape.size()), t.dtype = interop::spell(*element);
      t.shape = shapes[i].data(), t.strides = strides[i].data();
      tensors.push_back(t);
    }
  }
  std::vector<std::vector<std::int64_t>> shapes, strides;
  std::vector<Memory> memory;
  std::vector<DLTensor> tensors;
};

struct Made {
  std::vector<Memory> outputs;
};

bool allocate(void* context, std::size_t, DLTensor& tensor) {
  std::uint64_t count = 1;
  for (std::int32_t d = 0; d < tensor.ndim; ++d) count *= static_cast<std::uint64_t>(tensor.shape[d]);
  Memory& memory = static_cast<Made*>(context)->outputs.emplace_back();
  memory.assign(nullptr, (count * tensor.dtype.bits * tensor.dtype.lanes + 7) / 8);
  tensor.data = memory.data;
  return true;
}

// Returns what the launch left in the arrays: of the inputs, then of the outputs.
nb::list replayed(const std::string& text, const nb::bytes& record, const std::vector<Kept>& inputs,
                  const std::vector<Kept>& outputs, const nb::list& scalars) {
  auto read = launch::deserialise({record.c_str(), record.size()});
  if (!read) raise(Phase::launch, read.why());
  const auto plan = interop::Plan::make(interop::DLDevice{interop::DeviceType::cpu, 0}, text, std::move(*read));
  if (!plan) raise(Phase::launch, plan.why());
  const auto& wanted = (*plan)->record().scalars;
  if (wanted.size() != nb::len(scalars)) throw nb::value_error("the kept call has another number of scalars");
  std::vector<std::uint64_t> bits(wanted.size());
  bool ran_python = false;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (!pack((*plan)->record(), i, nb::object(scalars[i]).ptr(), bits[i], ran_python)) throw nb::python_error();
  Arrays in(inputs), out(outputs);
  Made made;
  made.outputs.reserve((*plan)->outputs());
  interop::Framework framework{.context = &made, .allocate = &allocate};
  framework.outputs = out.tensors;
  const Expected<Done> done = [&] {
    const Unlocked unlocked;
    return (*plan)->call(in.tensors, bits, framework);
  }();
  if (!done) raise(Phase::launch, done.why());
  nb::list left;
  for (const std::vector<Memory>* some : {&in.memory, outputs.empty() ? &made.outputs : &out.memory}) {
    for (const Memory& one : *some) left.append(nb::bytes(one.data, one.size()));
  }
  return left;
}

}  // namespace

void init_replay(nb::module_& m) {
  m.def(
      "replay", replayed, nb::arg("text"), nb::arg("record"), nb::arg("inputs"), nb::arg("outputs"), nb::arg("scalars"),
      "Runs a launch on the simulator: arrays are (element, shape, strides, bytes); no outputs: they are made. Returns "
      "the bytes of all of them afterwards");
}

}  // namespace ptx::python
