// The hot path: one pass over the tensors, one launch. Between the call and the driver only the framework allocates,
// for the outputs.
#include "ptx/interop/detail/call.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "ptx/base/text.h"
#include "ptx/interop/detail/maps.h"
#include "ptx/launch/overlap.h"

namespace ptx::interop {
namespace {

// Row-major, or with the last two dimensions the other way round. Dimensions of size 1 have any stride.
bool dense(const DLTensor& tensor, bool column_major) {
  if (tensor.strides == nullptr) return !column_major || tensor.ndim < 2;
  const std::int32_t rank = tensor.ndim;
  const bool turned = column_major && rank >= 2;
  std::int64_t expected = 1;
  bool fits = true;
  for (std::int32_t i = rank - 1; i >= 0; --i) {
    const std::int32_t axis = turned && i >= rank - 2 ? 2 * rank - 3 - i : i;
    if (tensor.shape[axis] == 0) return true;  // nothing to read
    fits &= tensor.shape[axis] == 1 || tensor.strides[axis] == expected;
    expected *= tensor.shape[axis];
  }
  return fits;
}

// A strided argument has an innermost stride of 1 and no negative stride. Without elements it has any strides.
bool forward(const DLTensor& tensor) {
  if (tensor.strides == nullptr || tensor.ndim == 0) return true;
  const std::int32_t last = tensor.ndim - 1;
  const bool beside = tensor.strides[last] == 1 || tensor.shape[last] <= 1;
  return (beside && std::all_of(tensor.strides, tensor.strides + last, [](std::int64_t each) { return each >= 0; })) ||
         empty(tensor);
}

std::byte* data(const DLTensor& tensor) { return static_cast<std::byte*>(tensor.data) + tensor.byte_offset; }

void describe_tensor(const DLTensor& tensor, bool strided, launch::Buffer& buffer) {
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  buffer.data = data(tensor);
  buffer.shape.assign(tensor.shape, tensor.shape + rank);
  buffer.strides.resize(rank);
  std::int64_t elements = 1;
  for (std::size_t i = rank; i-- > 0; elements *= tensor.shape[i]) buffer.strides[i] = elements;
  if (strided && tensor.strides != nullptr && elements != 0) {  // up to the last element
    buffer.strides.assign(tensor.strides, tensor.strides + rank);
    elements = 1;
    for (std::size_t i = 0; i < rank; ++i) elements += (tensor.shape[i] - 1) * tensor.strides[i];
  }
  buffer.bytes = (static_cast<std::uint64_t>(elements) * tensor.dtype.bits * tensor.dtype.lanes + 7) / 8;
}

}  // namespace

struct Plan::Call {
  Call(std::span<const DLTensor> inputs, Sizes& sizes, std::span<const std::uint64_t> scalars,
       const Framework& framework)
      : inputs(inputs), sizes(sizes), scalars(scalars), framework(framework) {}  // large members stay as they lie

  std::span<const DLTensor> inputs;
  Sizes& sizes;
  std::span<const std::uint64_t> scalars;
  const Framework& framework;
  std::byte* parameters = nullptr;
  alignas(DLTensor) std::byte outputs[max_outputs * sizeof(DLTensor)];
  std::int64_t shapes[max_outputs][max_rank];  // of the outputs

  DLTensor& output(std::size_t index) { return reinterpret_cast<DLTensor*>(outputs)[index]; }
  const DLTensor& tensor(std::size_t index) {
    return index < inputs.size() ? inputs[index] : output(index - inputs.size());
  }
};

bool Plan::matches(const Tensor& wanted, const DLTensor& got, std::int64_t* symbols) const {
  if (!takes(wanted, got.dtype) || normal(got.device) != device_ || static_cast<std::uint32_t>(got.ndim) != wanted.rank)
    return false;
  for (std::uint32_t i = 0; i < wanted.rank; ++i) {
    const Size& size = sizes_[wanted.first + i];
    if (size.from == Size::From::binds)
      symbols[size.symbol] = got.shape[i];
    else if (got.shape[i] != (size.from == Size::From::fixed ? size.size : symbols[size.symbol]))
      return false;
  }
  if (got.data == nullptr && !empty(got)) return false;  // a fake tensor: torch hands these out like any other
  const auto address = reinterpret_cast<std::uintptr_t>(got.data) + got.byte_offset;
  return (address & wanted.alignment_mask) == 0 && (wanted.strided ? forward(got) : dense(got, wanted.column_major));
}

Expected<Done> Plan::call(std::span<const DLTensor> inputs, std::span<const std::uint64_t> scalars,
                          const Framework& framework) const {
  Sizes sizes;
  if (!takes(inputs, sizes)) return refusals(inputs);
  return call(inputs, sizes, scalars, framework);
}

Expected<Done> Plan::call(std::span<const DLTensor> inputs, Sizes& sizes, std::span<const std::uint64_t> scalars,
                          const Framework& framework) const {
  Call call(inputs, sizes, scalars, framework);
  if (scalars.size() != record_.scalars.size())
    return Diagnostic(Code::argument_count, Place{},
                      cat(record_.entry, ": expected ", record_.scalars.size(), " scalars, got ", scalars.size()));
  const bool brought = !framework.outputs.empty();
  if (auto done = brought ? take_outputs(call) : allocate(call); !done) return done;
  if ((brought && !framework.fresh) || writes_inputs_) [[unlikely]]
    if (auto done = check_overlaps(call); !done) return done;
  if (record_.grid.count() == 0) return run_nothing(call);
  alignas(64) std::byte usual[usual_parameter_bytes];
  if (record_.parameter_bytes <= sizeof usual) {
    call.parameters = usual;
    return fill_and_run(call);
  }
  std::vector<std::byte> large(record_.parameter_bytes + 63);
  call.parameters = large.data() + (-reinterpret_cast<std::uintptr_t>(large.data()) & 63);
  return fill_and_run(call);
}

// An empty grid is for tensors without elements: nothing to run.
Expected<Done> Plan::run_nothing(Call& call) const {
  const bool fresh = call.framework.outputs.empty() || call.framework.fresh;
  bool some_empty = false;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const bool none = empty(call.tensor(i));
    some_empty |= none;
    if (fresh && i >= inputs_ && !none) return no_grid(record_.tensors[i].name);
  }
  return some_empty || tensors_.empty() ? Expected<Done>(Done{}) : no_grid(record_.tensors.back().name);
}

Expected<Done> Plan::no_grid(const std::string& name) const {
  const launch::Dim3& grid = record_.grid;
  return about(Code::launch_limits, name,
               cat("the grid (", grid.x, ", ", grid.y, ", ", grid.z, ") has no block, and this tensor has elements"));
}

Expected<Done> Plan::take_outputs(Call& call) const {
  const std::span<const DLTensor> given = call.framework.outputs;
  if (given.size() != outputs())
    return Diagnostic(Code::argument_count, Place{},
                      cat(record_.entry, ": expected ", outputs(), " output arrays, got ", given.size()));
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!matches(tensors_[inputs_ + i], given[i], call.sizes.of)) return refusal(inputs_ + i, given[i], call.sizes.of);
    call.output(i) = given[i];
  }
  return Done{};
}

Expected<Done> Plan::check_overlaps(Call& call) const {
  const auto judge = [&](auto& memory) -> Expected<Done> {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const DLTensor& tensor = call.tensor(i);
      const bool output = i >= inputs_, written = !output && writes_inputs_ && record_.tensors[i].written;
      memory[i] =
          launch::memory_of(record_.tensors[i].name.c_str(), data(tensor), tensor.ndim, tensor.shape, tensor.strides,
                            std::uint32_t{tensor.dtype.bits} * tensor.dtype.lanes, output, written);
    }
    char why[launch::overlap_why_bytes];
    const int refused = launch::refuse_overlap(&memory[0], static_cast<int>(tensors_.size()), " (.clone())", why);
    if (refused == 0) return Done{};
    return about(Code::not_contiguous, memory[refused - 1].name, why);
  };
  launch::TensorMemory usual[16];
  if (tensors_.size() <= std::size(usual)) return judge(usual);
  std::vector<launch::TensorMemory> many(tensors_.size());
  return judge(many);
}

Expected<Done> Plan::allocate(Call& call) const {
  const std::int64_t* const symbols = call.sizes.of;
  for (std::size_t i = 0; i < outputs(); ++i) {
    const Tensor& wanted = tensors_[inputs_ + i];
    DLTensor& output = *new (&call.output(i)) DLTensor;
    output.shape = call.shapes[i];
    for (std::uint32_t d = 0; d < wanted.rank; ++d) {
      const Size& size = sizes_[wanted.first + d];
      output.shape[d] = size.from == Size::From::fixed ? size.size : symbols[size.symbol];
    }
    output.device = device_;
    output.dtype = wanted.dtype;
    output.ndim = static_cast<std::int32_t>(wanted.rank);
    const std::string& name = record_.tensors[inputs_ + i].name;
    if (wanted.column_major)
      return about(Code::not_contiguous, name, "only row-major outputs can be allocated; pass this one as out=");
    if (!call.framework.allocate(call.framework.context, i, output))
      return about(Code::allocation_failed, name, "the framework could not allocate this output");
    if ((reinterpret_cast<std::uintptr_t>(data(output)) & wanted.alignment_mask) != 0)
      return about(Code::misaligned_tensor, name,
                   cat("the framework allocated it at less than ", wanted.alignment_mask + 1, " bytes of alignment"));
  }
  return Done{};
}

Expected<Done> Plan::fill_and_run(Call& call) const {
  std::memset(call.parameters, 0, record_.parameter_bytes);
  for (const launch::Parameter& parameter : record_.parameters) {
    std::byte* const at = call.parameters + parameter.offset;
    if (parameter.kind == launch::Parameter::Kind::tensor) {
      const std::byte* const address = data(call.tensor(parameter.source));
      std::memcpy(at, &address, sizeof address);
    } else if (parameter.kind == launch::Parameter::Kind::scalar) {
      std::memcpy(at, &call.scalars[parameter.source], parameter.size);
    }
  }
  if (!record_.tensor_maps.empty())
    if (auto done = encode_maps(call); !done) return done;
  if (call.framework.ready != nullptr) call.framework.ready(call.framework.context);
  const std::span<const std::byte> parameters(call.parameters, record_.parameter_bytes);
  if (!program_->needs_buffers()) return program_->run(record_, parameters, {}, call.framework.stream);
  std::vector<launch::Buffer> buffers(tensors_.size());
  const bool fresh = call.framework.outputs.empty() || call.framework.fresh;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    describe_tensor(call.tensor(i), tensors_[i].strided, buffers[i]);
    buffers[i].fresh = fresh && i >= inputs_;
  }
  for (const std::size_t i : call.framework.constant) buffers[i].constant = true;
  return program_->run(record_, parameters, buffers, call.framework.stream);
}

Expected<Done> Plan::encode_maps(Call& call) const {
  for (const launch::Parameter& parameter : record_.parameters) {
    if (parameter.kind != launch::Parameter::Kind::tensor_map) continue;
    const launch::TensorMapRecipe& recipe = record_.tensor_maps[parameter.source];
    const launch::TensorArgument& argument = record_.tensors[recipe.tensor];
    const DLTensor& tensor = call.tensor(recipe.tensor);
    const std::span<std::byte, 128> out(call.parameters + parameter.offset, 128);
    const bool strided = tensors_[recipe.tensor].strided && tensor.strides != nullptr;
    KeptMap& kept = kept_map(serial_, parameter.source, data(tensor), {tensor.shape, tensor.shape + tensor.ndim},
                             strided ? tensor.strides : nullptr);
    if (!kept.valid) {
      static thread_local launch::Buffer buffer;  // its vectors keep their room from call to call
      describe_tensor(tensor, strided, buffer);
      if (auto done = executor_->encode(recipe, argument.element, buffer, kept.bytes); !done)
        return about(done.why().front().code, argument.name, done.why().front().message);
      kept.valid = true;
    }
    std::memcpy(out.data(), kept.bytes.data(), out.size());
  }
  return Done{};
}

}  // namespace ptx::interop
