// Values to DLPack views and packed scalars, then a Plan; the plans of one program, one a device.
#include "ptx/interop/program.h"

#include <algorithm>
#include <mutex>

#include "ptx/author/value_or_throw.h"
#include "ptx/base/text.h"
#include "ptx/check/check.h"
#include "ptx/interop/detail/call.h"
#include "ptx/ir/lower.h"
#include "ptx/syntax/parse.h"

namespace ptx::interop {
namespace {

using author::Refused, author::value_or_throw;

// The one .entry of a module, or the one of this name.
const ir::Function& entry_of(const ir::Module& module, std::string_view name, const std::source_location& at) {
  const ir::Function* found = nullptr;
  Text names;
  std::size_t count = 0;
  for (const ir::Function& function : module.functions) {
    if (!function.entry || function.declaration) continue;
    names << ' ' << function.name.view();
    if (!name.empty() && function.name.view() != name) continue;
    found = &function, ++count;
  }
  if (count == 1) return *found;
  const std::string why = count != 0 ? "there are several .entry, name one" : "there is no such .entry";
  const std::string asked = name.empty() ? "" : cat(" (", name, ')');
  throw Refused({Diagnostic(Code::no_such_entry, author::place_of(at),
                            cat(why, asked, "; the module has:", names.size() == 0 ? " none" : names.view()))});
}

ir::Module read(const std::string& ptx, Name file) {
  syntax::Parsed parsed = syntax::parse(ptx, file);
  if (has_error(parsed.diagnostics)) throw Refused(parsed.diagnostics);
  ir::Lowered lowered = ir::lower(parsed.tree);
  if (has_error(lowered.diagnostics)) throw Refused(lowered.diagnostics);
  const Diagnostics found = check::check(lowered.module, false, true);
  if (has_error(found)) throw Refused(found);
  return std::move(lowered.module);
}

void describe(const ir::Module& module, std::string_view name, const std::source_location& at, Entry& entry) {
  const ir::Function& function = entry_of(module, name, at);
  entry.name = std::string(function.name.view());
  entry.target = module.target;
  for (const ir::Variable& parameter : function.parameters) {
    const bool array = !parameter.dims.empty() && !parameter.alignment;  // that is aligned as its elements are
    entry.parameters.push_back({std::string(parameter.name.view()), static_cast<std::uint32_t>(ir::bytes(parameter)),
                                array ? isa::info(parameter.type).bits / 8 : parameter.alignment});
  }
}

const DLTensor& tensor_of(const Value& value, const launch::Record& record, std::size_t index) {
  const auto refuse = [&](Code code, const std::string& why) {
    const std::string& name = record.tensors[index].name;
    throw Refused({Diagnostic(code, Place{}, cat(record.entry, ": argument `", name, "`: ", why))});
  };
  const DLTensor* const tensor = value.tensor();
  if (!tensor) refuse(Code::wrong_element, "a number where the kernel takes a tensor");
  if (tensor->ndim > 0 && !tensor->shape) refuse(Code::wrong_rank, "its DLTensor has no shape");
  return *tensor;
}

}  // namespace

Value::Value(launch::Element element, const void* memory, std::vector<std::int64_t> shape, DLDevice device)
    : shape_(std::make_shared<const std::vector<std::int64_t>>(std::move(shape))) {
  DLTensor tensor;
  tensor.data = const_cast<void*>(memory);
  tensor.device = device;
  tensor.ndim = static_cast<std::int32_t>(shape_->size());
  tensor.dtype = spell(element);
  tensor.shape = const_cast<std::int64_t*>(shape_->data());
  what_ = tensor;
}

Value::Value(const DLTensor& tensor) : what_(tensor) {}

Value device_view(launch::Element element, const void* memory, std::vector<std::int64_t> shape, std::int32_t gpu) {
  return Value(element, memory, std::move(shape), {DeviceType::cuda, gpu});
}

Expected<std::uint64_t> Value::bits(const launch::ScalarArgument& argument) const {
  if (const auto* whole = std::get_if<std::int64_t>(&what_)) return pack(argument, *whole);
  if (const auto* whole = std::get_if<std::uint64_t>(&what_)) return pack(argument, *whole);
  if (const auto* real = std::get_if<double>(&what_)) return pack(argument, *real);
  return Diagnostic(Code::wrong_scalar, Place{},
                    cat("argument `", argument.name, "`: a tensor where the kernel takes a ", argument.type));
}

void refuse_size(std::size_t elements, std::span<const std::int64_t> shape, const std::source_location& at) {
  Text text;
  for (const std::int64_t size : shape) text << (text.size() == 0 ? "" : ", ") << size;
  throw Refused({Diagnostic(Code::wrong_dimension, author::place_of(at),
                            cat("memory of ", elements, " elements as a tensor of shape (", text.view(), ')'))});
}

Entry::Entry(const author::Built& built) : dynamic_shared(built.dynamic_shared), allocated(built.allocated) {
  text = ir::emit(built.module, {}, &lines);
  describe(built.module, {}, std::source_location::current(), *this);
}

Entry::Entry(const author::Built& module, std::string_view entry, const author::Built& kernel, std::source_location at)
    : dynamic_shared(kernel.dynamic_shared), allocated(kernel.allocated) {
  text = ir::emit(module.module, {}, &lines);
  describe(module.module, entry, at, *this);
}

Entry::Entry(std::string ptx, std::string_view entry, std::string_view file, std::source_location at)
    : text(std::move(ptx)) {
  describe(read(text, Name(file)), entry, at, *this);
  const auto count = static_cast<std::uint32_t>(std::count(text.begin(), text.end(), '\n')) + 2;
  for (std::uint32_t line = 0; line < count; ++line) lines.push_back({Name(file), line, 0});
}

struct Program::State {
  std::string text;
  launch::Record record;
  std::vector<bool> is_tensor;  // of each argument of the signature

  struct Ready {
    launch::Executor* on;  // null: that of the device
    DLDevice device;
    launch::Dim3 grid;
    std::shared_ptr<const Plan> plan;
  };
  std::mutex mutex;
  std::vector<Ready> ready;  // one an executor and device: of the grid that ran last

  std::shared_ptr<const Plan> plan(const Run& how, DLDevice device);
};

std::shared_ptr<const Plan> Program::State::plan(const Run& how, DLDevice device) {
  const launch::Dim3 grid = how.grid.value_or(record.grid);
  const std::lock_guard lock(mutex);
  const auto is_it = [&](const Ready& one) { return one.on == how.on && one.device == device; };
  auto found = std::find_if(ready.begin(), ready.end(), is_it);
  if (found != ready.end() && found->grid == grid) return found->plan;
  launch::Record wanted = record;
  wanted.grid = grid;
  std::shared_ptr<const Plan> made = value_or_throw(found != ready.end() ? found->plan->reshaped(wanted)
                                                    : how.on             ? Plan::make(*how.on, device, text, wanted)
                                                                         : Plan::make(device, text, wanted));
  if (found == ready.end()) found = ready.insert(ready.end(), {how.on, device, grid, nullptr});
  found->grid = grid;
  found->plan = made;
  return made;
}

Program::Program(Entry entry, const launch::Signature& signature, const launch::Shape& shape,
                 std::source_location at) try
    : state_(std::make_unique<State>()) {
  launch::Record& record = state_->record = value_or_throw(launch::make_record(signature, entry.parameters, shape));
  record.entry = std::move(entry.name);
  record.target = std::move(entry.target);
  record.dynamic_shared = entry.dynamic_shared;
  record.lines = std::move(entry.lines);
  record.allocated = std::move(entry.allocated);
  state_->text = std::move(entry.text);
  for (const launch::Argument& one : signature) state_->is_tensor.push_back(one.kind == launch::Argument::Kind::tensor);
} catch (const Refused& refused) {
  throw refused.at(author::place_of(at));
}

Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

const std::string& Program::text() const { return state_->text; }
const launch::Record& Program::record() const { return state_->record; }

void Program::run(std::span<const Value> values, const Run& how, std::source_location at) {
  try {
    launch(values, how);
  } catch (const Refused& refused) {
    throw refused.at(author::place_of(at));
  }
}

void Program::launch(std::span<const Value> values, const Run& how) {
  const launch::Record& record = state_->record;
  if (values.size() != state_->is_tensor.size())
    throw Refused(
        {Diagnostic(Code::argument_count, Place{},
                    cat(record.entry, ": expected ", state_->is_tensor.size(),
                        state_->is_tensor.size() == 1 ? " argument" : " arguments", ", got ", values.size()))});
  std::vector<DLTensor> tensors;
  std::vector<std::uint64_t> scalars;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!state_->is_tensor[i]) {
      scalars.push_back(value_or_throw(values[i].bits(record.scalars[scalars.size()])));
    } else {
      tensors.push_back(tensor_of(values[i], record, tensors.size()));
    }
  }
  // As in Python: the device of the first tensor that is on a GPU, else the host.
  const auto on_gpu = [](const DLTensor& t) { return normal(t.device).type == DeviceType::cuda; };
  const auto first = std::find_if(tensors.begin(), tensors.end(), on_gpu);
  const DLDevice device = first == tensors.end() ? DLDevice{} : normal(first->device);
  const std::shared_ptr<const Plan> plan = state_->plan(how, device);
  std::vector<std::size_t> constant;
  for (std::size_t i = 0, tensor = 0; i < values.size(); ++i) {
    if (!state_->is_tensor[i] || (++tensor, !values[i].constant())) continue;
    if (tensor <= plan->inputs()) {
      constant.push_back(tensor - 1);
      continue;
    }
    throw Refused({Diagnostic(Code::not_contiguous, Place{},
                              cat(record.entry, ": argument `", record.tensors[tensor - 1].name,
                                  "`: it is const, and the kernel writes it"))});
  }
  Framework framework;
  framework.stream = how.stream;
  framework.constant = constant;
  framework.outputs = std::span<const DLTensor>(tensors).subspan(plan->inputs());
  value_or_throw(plan->call(std::span<const DLTensor>(tensors).first(plan->inputs()), scalars, framework));
}

}  // namespace ptx::interop
