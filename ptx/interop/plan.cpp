// Making a plan, and saying why a call does not fit it. The call itself is in call.cpp.
#include "ptx/interop/plan.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <tuple>

#include "ptx/base/text.h"
#include "ptx/interop/detail/call.h"
#include "ptx/launch/overlap.h"

namespace ptx::interop {

Diagnostic Plan::about(Code code, std::string_view argument, std::string_view message) const {
  return Diagnostic(code, Place{}, cat(record_.entry, ": argument `", argument, "`: ", message));
}

Plan::Plan(launch::Record record, DLDevice device) : record_(std::move(record)), device_(device) {
  static std::atomic<std::uint64_t> made{0};
  serial_ = ++made;
}

Expected<std::unique_ptr<Plan>> Plan::make(DLDevice device, std::string_view ptx, launch::Record record) {
  const auto runs = executor(device);
  if (!runs) return runs.why();
  return make(**runs, device, ptx, std::move(record));
}

Expected<std::unique_ptr<Plan>> Plan::make(launch::Executor& executor, DLDevice device, std::string_view ptx,
                                           launch::Record record) {
  std::unique_ptr<Plan> plan(new Plan(std::move(record), normal(device)));
  plan->executor_ = &executor;
  if (auto done = plan->lay_out(); !done) return done.why();
  if (auto done = plan->check_parameters(); !done) return done.why();
  auto program = executor.prepare(ptx, plan->record_);
  if (!program) return program.why();
  plan->program_ = std::move(program).value();
  return plan;
}

Expected<std::unique_ptr<Plan>> Plan::reshaped(launch::Record record) const {
  const auto key = [](const launch::Record& r) {
    return std::tie(r.entry, r.target, r.assembler, r.block, r.cluster, r.attributes, r.dynamic_shared,
                    r.parameter_bytes);
  };
  const auto offset = [](const launch::Parameter& a, const launch::Parameter& b) { return a.offset == b.offset; };
  const bool same = key(record) == key(record_) && std::ranges::equal(record.parameters, record_.parameters, offset);
  if (!same)
    return Diagnostic(Code::parameter_layout, Place{}, cat(record.entry, ": not another shape of the same launch"));
  if (auto done = executor_->fits(record); !done) return done.why();
  std::unique_ptr<Plan> plan(new Plan(std::move(record), device_));
  plan->executor_ = executor_;
  plan->program_ = program_;
  if (auto done = plan->lay_out(); !done) return done.why();
  if (auto done = plan->check_parameters(); !done) return done.why();
  return plan;
}

Expected<Done> Plan::lay_out() {
  for (const launch::TensorArgument& argument : record_.tensors) {
    const bool late = argument.output == false && inputs_ != tensors_.size();
    if (late) return about(Code::parameter_layout, argument.name, "an input stands behind an output");
    if (!argument.output) ++inputs_;
    const std::uint32_t alignment = std::max(argument.alignment, arch::alignment(argument.element));
    if ((alignment & (alignment - 1)) != 0)
      return about(Code::parameter_layout, argument.name, cat("alignment ", alignment, " is not a power of two"));
    const DLDataType dtype = spell(argument.element);
    DLDataType twin = dtype;
    if (twin.code <= DLDataType::unsigned_integer)
      twin.code = twin.code == DLDataType::integer ? DLDataType::unsigned_integer : DLDataType::integer;
    const std::uint16_t width = argument.untyped ? static_cast<std::uint16_t>(dtype.bits * dtype.lanes) : 0;
    tensors_.push_back({dtype, twin, width, alignment - 1, static_cast<std::uint32_t>(sizes_.size()),
                        static_cast<std::uint32_t>(argument.shape.size()), argument.column_major, argument.strided});
    for (const launch::Dimension& dimension : argument.shape) {
      if (dimension.size >= 0) {
        sizes_.push_back({Size::From::fixed, 0, dimension.size});
        continue;
      }
      const auto known = std::find(symbols_.begin(), symbols_.end(), dimension.symbol);
      const auto symbol = static_cast<std::uint32_t>(known - symbols_.begin());
      if (known == symbols_.end() && argument.output)
        return about(Code::unbound_dimension, argument.name,
                     cat("dimension `", dimension.symbol, "` is a dimension of no input"));
      sizes_.push_back({known == symbols_.end() ? Size::From::binds : Size::From::bound, symbol, 0});
      if (known == symbols_.end()) symbols_.push_back(dimension.symbol);
    }
    if (argument.shape.size() > max_rank)
      return about(Code::parameter_layout, argument.name, cat("rank ", argument.shape.size(), " is beyond ", max_rank));
  }
  writes_inputs_ = launch::tells_written_inputs(record_);
  if (outputs() > max_outputs || symbols_.size() > max_symbols)
    return Diagnostic(
        Code::parameter_layout, Place{},
        cat(record_.entry, ": at most ", max_outputs, " outputs and ", max_symbols, " symbolic dimensions"));
  return Done{};
}

Expected<Done> Plan::check_parameters() const {
  const auto refuse = [&](const launch::Parameter& parameter, std::string_view message) {
    return Diagnostic(Code::parameter_layout, Place{},
                      cat(record_.entry, ": parameter `", parameter.name, "`: ", message));
  };
  for (const launch::Parameter& parameter : record_.parameters) {
    using Kind = launch::Parameter::Kind;
    const std::size_t sources = parameter.kind == Kind::tensor   ? record_.tensors.size()
                                : parameter.kind == Kind::scalar ? record_.scalars.size()
                                                                 : record_.tensor_maps.size();
    if (parameter.source >= sources) return refuse(parameter, "it names no argument");
    if (std::uint64_t{parameter.offset} + parameter.size > record_.parameter_bytes)
      return refuse(parameter, "it lies beyond the parameter block");
    if (parameter.kind == Kind::tensor && parameter.size != 8) return refuse(parameter, "an address has 8 bytes");
    if (parameter.kind == Kind::scalar && (parameter.size == 0 || parameter.size > 8))
      return refuse(parameter, "a scalar has 1 to 8 bytes");
    if (parameter.kind != Kind::tensor_map) continue;
    if (parameter.size != 128 || parameter.offset % 64 != 0)
      return refuse(parameter, "a tensor map has 128 bytes, aligned to 64");
    if (record_.tensor_maps[parameter.source].tensor >= record_.tensors.size())
      return refuse(parameter, "its tensor map is of no tensor");
  }
  if (record_.parameter_bytes > max_parameter_bytes)
    return Diagnostic(Code::parameter_layout, Place{},
                      cat(record_.entry, ": ", record_.parameter_bytes, " bytes of parameters; a kernel has at most ",
                          max_parameter_bytes));
  return Done{};
}

bool Plan::takes(std::span<const DLTensor> inputs, Sizes& sizes) const {
  if (inputs.size() != inputs_) return false;
  for (std::size_t i = 0; i < inputs_; ++i)
    if (!matches(tensors_[i], inputs[i], sizes.of)) return false;
  return true;
}

Diagnostics Plan::refusals(std::span<const DLTensor> inputs) const {
  Diagnostics list;
  if (inputs.size() != inputs_) {
    list.emplace_back(Code::argument_count, Place{},
                      cat(record_.entry, ": expected ", inputs_,
                          inputs_ == 1 ? " input array, got " : " input arrays, got ", inputs.size()));
    return list;
  }
  std::int64_t symbols[max_symbols];
  std::fill(std::begin(symbols), std::end(symbols), -1);
  for (std::size_t i = 0; i < inputs_; ++i) {
    const std::span sizes(sizes_.data() + tensors_[i].first, tensors_[i].rank);
    const auto unknown = [&](const Size& size) { return size.from == Size::From::bound && symbols[size.symbol] < 0; };
    if (std::any_of(sizes.begin(), sizes.end(), unknown)) continue;  // what binds it is refused
    if (matches(tensors_[i], inputs[i], symbols)) continue;
    list.push_back(refusal(i, inputs[i], symbols));
    for (std::size_t k = 0; k < sizes.size() && inputs[i].ndim == static_cast<std::int32_t>(sizes.size()); ++k)
      if (sizes[k].from == Size::From::binds) symbols[sizes[k].symbol] = inputs[i].shape[k];
  }
  return list;
}

namespace {

std::string spell(const std::int64_t* values, std::int32_t count) {
  Text text;
  text << '(';
  for (std::int32_t i = 0; i < count; ++i) text << (i == 0 ? "" : ", ") << values[i];
  return (text << (count == 1 ? ",)" : ")")).take();
}

}  // namespace

// The first reason, in the order in which a reader would look: device, type, rank, sizes, strides, alignment.
Diagnostic Plan::refusal(std::size_t index, const DLTensor& got, const std::int64_t* symbols) const {
  const launch::TensorArgument& argument = record_.tensors[index];
  const Tensor& wanted = tensors_[index];
  const auto say = [&](Code code, std::string_view message) { return about(code, argument.name, message); };
  if (normal(got.device) != device_)
    return say(Code::wrong_device, cat("it is on ", name(got.device), ", the call is on ", name(device_)));
  if (!takes(wanted, got.dtype)) {
    const std::string taken =
        argument.untyped ? cat("any type of ", wanted.any_width, " bits") : std::string(arch::name(argument.element));
    return say(Code::wrong_element, cat("its dtype is ", name(got.dtype), ", the kernel takes ", taken));
  }
  if (static_cast<std::uint32_t>(got.ndim) != wanted.rank)
    return say(Code::wrong_rank, cat("its rank is ", got.ndim, " (shape ", spell(got.shape, got.ndim),
                                     "), the kernel takes rank ", wanted.rank));
  for (std::uint32_t i = 0; i < wanted.rank; ++i) {
    const Size& size = sizes_[wanted.first + i];
    const std::string where = cat("dimension ", i, " of shape ", spell(got.shape, got.ndim));
    if (size.from == Size::From::fixed && got.shape[i] != size.size)
      return say(Code::wrong_dimension,
                 cat(where, " is ", got.shape[i], ", the kernel takes ", size.size, " (dim mismatch)"));
    // The size of a symbol is not known if the argument that binds it was refused.
    if (size.from == Size::From::bound && symbols[size.symbol] >= 0 && got.shape[i] != symbols[size.symbol])
      return say(Code::conflicting_dimension,
                 cat(where, ", `", symbols_[size.symbol], "`, is ", got.shape[i], ", an argument before it has ",
                     symbols[size.symbol], " (conflicting sizes)"));
  }
  if (got.data == nullptr && !empty(got))
    return say(Code::unsupported_device, "it has no memory: it is a fake tensor, or a tensor of a transformation");
  const auto address = reinterpret_cast<std::uintptr_t>(got.data) + got.byte_offset;
  if ((address & wanted.alignment_mask) != 0)
    return say(Code::misaligned_tensor, cat("its data is aligned to only ", address & (~address + 1),
                                            " bytes, the kernel needs ", wanted.alignment_mask + 1));
  const std::string strides = got.strides == nullptr ? "those of row-major order" : spell(got.strides, got.ndim);
  return say(Code::not_contiguous,
             cat("its strides are ", strides, " for shape ", spell(got.shape, got.ndim),
                 wanted.strided        ? "; the kernel takes tensors whose innermost dimension has stride 1"
                 : wanted.column_major ? "; the kernel takes column-major tensors (Layout.COL: x.mT.contiguous().mT)"
                                       : "; the kernel takes row-major tensors (.contiguous(), np.ascontiguousarray)"));
}

}  // namespace ptx::interop
