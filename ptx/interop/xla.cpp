#include "ptx/interop/xla.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include "ptx/base/text.h"
#include "ptx/cuda/executor.h"
#include "ptx/interop/detail/call.h"
#include "ptx/interop/plan.h"
#include "ptx/launch/serial.h"

namespace ptx::interop::xla {
namespace {

constexpr std::size_t max_inputs = 32;
constexpr std::size_t max_scalars = 64;
constexpr std::size_t max_devices = 64;  // of one process: the CPU, then GPUs
enum class Platform { cpu, cuda };

template <class Args>
Args arguments() {
  Args args{};
  args.struct_size = sizeof(Args);
  return args;
}

Error* fail(const Api* api, ErrorCode code, const std::string& message) {
  auto args = arguments<ErrorCreate>();
  args.message = message.c_str();
  args.code = code;
  return api->error_create(&args);
}

Error* fail(const Api* api, const Diagnostics& why) { return fail(api, ErrorCode::internal, to_string(why)); }

// The executor's message names a line and an argument; the kernel's name is added here.
Error* fail(const Api* api, const launch::Record& record, Diagnostics why) {
  if (!why.empty()) why.back().notes.push_back(cat("in the kernel ", record.entry));
  return fail(api, why);
}

std::size_t place(DLDevice device) {
  return device.type == DeviceType::cpu ? 0 : static_cast<std::size_t>(device.id) + 1;
}

// A text, and a plan of it on each device: those of other shapes share the program.
class Text {
 public:
  explicit Text(std::string ptx) : ptx_(std::move(ptx)) {}

  Expected<std::unique_ptr<Plan>> plan(DLDevice device, const launch::Record& record) {
    std::lock_guard lock(mutex_);
    std::unique_ptr<Plan>& first = plans_[place(device)];
    if (first != nullptr)
      if (auto made = first->reshaped(record)) return made;  // else Plan::make says why not
    auto made = Plan::make(device, ptx_, record);
    if (!made) return made;
    if (auto copy = (*made)->reshaped(record)) first = std::move(copy).value();
    return made;
  }

 private:
  std::string ptx_;
  std::mutex mutex_;
  std::unique_ptr<Plan> plans_[max_devices];
};

// What a call site launches: shared by all sites of one content.
class Kernel {
 public:
  Kernel(launch::Record record, std::shared_ptr<Text> text) : record_(std::move(record)), text_(std::move(text)) {}
  ~Kernel() {
    for (const auto& plan : plans_) delete plan.load();
  }

  const launch::Record& record() const { return record_; }

  // The plan of a device: lock-free once it is made.
  Expected<const Plan*> plan(DLDevice device) {
    const std::size_t at = place(device);
    if (at >= max_devices)
      return Diagnostic(Code::unsupported_device, Place{}, cat(record_.entry, ": there are no GPUs beyond 62"));
    if (const Plan* found = plans_[at].load(std::memory_order_acquire)) return found;
    std::lock_guard lock(mutex_);
    if (const Plan* found = plans_[at].load(std::memory_order_acquire)) return found;
    auto made = text_->plan(device, record_);
    if (!made) return made.why();
    const Plan* const plan = made->release();
    plans_[at].store(plan, std::memory_order_release);
    return plan;
  }

 private:
  launch::Record record_;
  std::shared_ptr<Text> text_;
  std::mutex mutex_;  // over making plans
  std::atomic<const Plan*> plans_[max_devices] = {};
};

// Kernels of this process, by text and record: many call sites of one kernel parse and load it once.
Expected<std::shared_ptr<Kernel>> kernel(std::string_view record, std::string_view ptx) {
  static std::mutex mutex;
  static auto& known = *new std::unordered_map<std::string, std::weak_ptr<Kernel>>;
  static auto& texts = *new std::unordered_map<std::string, std::weak_ptr<Text>>;
  const std::string key = cat(record, ptx);  // a record says where it ends
  std::lock_guard lock(mutex);
  if (const auto found = known.find(key); found != known.end())
    if (auto alive = found->second.lock()) return alive;
  auto read = launch::deserialise(record);
  if (!read) return read.why();
  std::erase_if(known, [](const auto& row) { return row.second.expired(); });
  std::erase_if(texts, [](const auto& row) { return row.second.expired(); });
  std::weak_ptr<Text>& kept = texts[cat(read->entry, "\n", ptx)];
  auto text = kept.lock();
  if (text == nullptr) kept = text = std::make_shared<Text>(std::string(ptx));
  auto made = std::make_shared<Kernel>(std::move(read).value(), std::move(text));
  known[key] = made;
  return made;
}

// The state of a call site.
struct Site {
  std::shared_ptr<Kernel> kernel;
  std::vector<std::uint64_t> scalars;
  std::vector<std::uint8_t> in_place;
};

const void* attribute(const Attributes& all, std::string_view name, AttributeType type) {
  for (std::int64_t i = 0; i < all.size; ++i)
    if (std::string_view(all.names[i]->data, all.names[i]->size) == name)
      return all.types[i] == type ? all.values[i] : nullptr;
  return nullptr;
}

std::optional<std::string_view> text(const Attributes& all, std::string_view name) {
  const auto* span = static_cast<const ByteSpan*>(attribute(all, name, AttributeType::string));
  if (span == nullptr) return std::nullopt;
  return std::string_view(span->data, span->size);
}

// The bytes of an attribute as numbers, in this machine's order.
template <class T>
std::optional<std::vector<T>> numbers(const Attributes& all, std::string_view name) {
  const auto bytes = text(all, name);
  if (!bytes || bytes->size() % sizeof(T) != 0) return std::nullopt;
  std::vector<T> list(bytes->size() / sizeof(T));
  if (!list.empty()) std::memcpy(list.data(), bytes->data(), bytes->size());
  return list;
}

Expected<std::unique_ptr<Site>> read_site(const Attributes& attributes, bool values) {
  const auto record = text(attributes, "record"), ptx = text(attributes, "ptx");
  auto scalars = numbers<std::uint64_t>(attributes, "scalars");
  auto in_place = numbers<std::uint8_t>(attributes, "in_place");
  if (!record || !ptx || !scalars || !in_place)
    return Diagnostic(Code::bad_record, Place{},
                      "a call of pyptx_launch has the attributes record, ptx, scalars and in_place");
  auto found = kernel(*record, *ptx);
  if (!found) return found.why();
  const std::size_t count = (*found)->record().scalars.size();
  if (scalars->size() != (values ? 0 : count) || (values && count > max_scalars))
    return Diagnostic(Code::bad_record, Place{}, "a call of pyptx_launch has other scalars than its record");
  return std::make_unique<Site>(Site{std::move(found).value(), *std::move(scalars), *std::move(in_place)});
}

// The type of `Site` in one runtime. A process may hold several (jaxlib's own, the CUDA plugin's), each with a registry
// and a table of functions of its own, and our handlers are told apart by platform.
template <Platform platform>
Error* site_type(const Api* api, TypeId*& type) {
  static TypeId id{0};
  static std::mutex mutex;
  static std::atomic<bool> registered = false;
  type = &id;
  if (registered.load(std::memory_order_acquire)) return nullptr;
  std::lock_guard lock(mutex);
  if (registered) return nullptr;
  static constexpr std::string_view name = platform == Platform::cpu ? "pyptx.Site.cpu" : "pyptx.Site.cuda";
  static const TypeInfo info{sizeof(TypeInfo), nullptr, [](void* site) { delete static_cast<Site*>(site); }};
  auto args = arguments<TypeRegister>();
  args.name = {name.data(), name.size()};
  args.type = &id;
  args.info = &info;
  if (Error* error = api->type_register(&args)) return error;
  registered.store(true, std::memory_order_release);
  return nullptr;
}

// True if XLA only asked for the handler's metadata, which this has given.
template <bool values>
bool answered(CallFrame* frame) {
  if (frame->extensions == nullptr || frame->extensions->type != ExtensionType::metadata) return false;
  Metadata& metadata = *reinterpret_cast<MetadataExtension*>(frame->extensions)->metadata;
  metadata.version = {sizeof(ApiVersion), nullptr, api_major, api_minor};
  metadata.traits = values ? 0 : command_buffer_compatible;
  if (metadata.struct_size >= sizeof(Metadata)) metadata.state = {0};
  return true;
}

template <Platform platform, bool values>
Error* instantiate(CallFrame* frame) {
  if (answered<values>(frame)) return nullptr;
  auto args = arguments<StateSet>();
  if (Error* error = site_type<platform>(frame->api, args.type)) return error;
  auto site = read_site(frame->attributes, values);
  if (!site) return fail(frame->api, site.why());
  args.context = frame->context;
  args.stage = Stage::instantiate;
  args.state = site->get();
  if (Error* error = frame->api->state_set(&args)) return error;
  site->release();
  return nullptr;
}

template <Platform platform>
Error* find(CallFrame* frame, const Site*& site, DLDevice& device) {
  auto state = arguments<StateGet>();
  if (Error* error = site_type<platform>(frame->api, state.type)) return error;
  state.context = frame->context;
  state.stage = Stage::instantiate;
  if (Error* error = frame->api->state_get(&state)) return error;
  site = static_cast<const Site*>(state.state);
  device = {DeviceType::cpu, 0};
  if constexpr (platform == Platform::cuda) {
    auto ordinal = arguments<DeviceOrdinalGet>();
    ordinal.context = frame->context;
    if (Error* error = frame->api->device_ordinal_get(&ordinal)) return error;
    device = {DeviceType::cuda, ordinal.ordinal};
  }
  return nullptr;
}

template <Platform platform, bool values>
Error* initialize(CallFrame* frame) {
  if (answered<values>(frame)) return nullptr;
  const Site* site = nullptr;
  DLDevice device;
  if (Error* error = find<platform>(frame, site, device)) return error;
  if (const auto plan = site->kernel->plan(device); !plan) return fail(frame->api, site->kernel->record(), plan.why());
  return nullptr;
}

bool element(DataType type, launch::Element& out) {
  static constexpr auto known = [] {  // by XLA's numbers: this is asked for each tensor of each call
    std::array<std::int16_t, 64> made{};
    made.fill(arch::no_code);
    for (std::size_t i = 0; i < arch::element_count; ++i)
      if (const int code = arch::element_table[i].xla; code != arch::no_code)
        made[static_cast<std::size_t>(code)] = static_cast<std::int16_t>(i);
    return made;
  }();
  const auto code = static_cast<std::size_t>(type);
  if (code >= known.size() || known[code] == arch::no_code) return false;
  return out = static_cast<launch::Element>(known[code]), true;
}

// The tensors of one call, inputs then outputs, as the plan sees them. Nothing is set before it is looked at: this lies
// on the stack of every call.
struct Tensors {
  DLTensor* all() { return reinterpret_cast<DLTensor*>(storage); }
  DLTensor& operator[](std::size_t index) { return all()[index]; }

  alignas(DLTensor) std::byte storage[(max_inputs + max_outputs) * sizeof(DLTensor)];
  std::int64_t strides[max_inputs + max_outputs][max_rank];  // of those that are not row-major
};

// XLA's buffers are dense, in the order that the call asks for: row-major but for what the record says.
bool view(const Values& values, std::int64_t index, DLDevice device, DLTensor& out) {
  const auto& buffer = *static_cast<const Buffer*>(values.values[index]);
  launch::Element type;
  if (values.types[index] != buffer_type || !element(buffer.dtype, type)) return false;
  if (buffer.rank > static_cast<std::int64_t>(max_rank)) return false;
  new (&out) DLTensor;
  out.data = buffer.data;
  out.device = device;
  out.ndim = static_cast<std::int32_t>(buffer.rank);
  out.dtype = spell(type);
  out.shape = buffer.dimensions;
  return true;
}

// The last two dimensions the other way round.
void turn(DLTensor& tensor, std::int64_t* strides) {
  const std::int32_t rank = tensor.ndim;
  if (rank < 2) return;
  strides[rank - 2] = 1, strides[rank - 1] = tensor.shape[rank - 2];
  std::int64_t elements = tensor.shape[rank - 1] * tensor.shape[rank - 2];
  for (std::int32_t i = rank - 2; i-- > 0; elements *= tensor.shape[i]) strides[i] = elements;
  tensor.strides = strides;
}

// Empty, or what is wrong. An input that the kernel writes must lie where its result does. `first`: argument that is
// the first input.
std::string collect(const CallFrame& frame, const Site& site, const Plan& plan, DLDevice device, std::int64_t first,
                    Tensors& tensors) {
  const launch::Record& record = plan.record();
  const auto inputs = static_cast<std::int64_t>(plan.inputs()), outputs = static_cast<std::int64_t>(plan.outputs());
  const auto results = outputs + static_cast<std::int64_t>(site.in_place.size());
  if (frame.arguments.size != first + inputs || frame.results.size != results || plan.inputs() > max_inputs)
    return cat(record.entry, ": the program passes ", frame.arguments.size, " arguments and takes ", frame.results.size,
               " results of a kernel with ", inputs, " and ", results);
  for (std::int64_t i = 0; i < inputs + outputs; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const bool seen = i < inputs ? view(frame.arguments, first + i, device, tensors[index])
                                 : view(frame.results, i - inputs, device, tensors[index]);
    const launch::TensorArgument& argument = record.tensors[index];
    if (!seen) return cat(record.entry, ": argument `", argument.name, "` is of a type that no kernel takes");
    if (argument.column_major) turn(tensors[index], tensors.strides[index]);
  }
  for (std::size_t i = 0; i < site.in_place.size(); ++i) {
    const std::int64_t input = site.in_place[i];
    DLTensor result;
    const bool same = input < inputs && view(frame.results, outputs + static_cast<std::int64_t>(i), device, result) &&
                      result.data == tensors[input].data;
    if (!same) return cat(record.entry, ": argument ", input, " is written in place, but its result lies elsewhere");
  }
  return {};
}

// The bits of the scalars, which are the first argument.
Expected<Done> fetch(const CallFrame& frame, const launch::Record& record, DLDevice device, void* stream,
                     std::uint64_t* bits) {
  DLTensor given;
  const std::size_t words = 2 * record.scalars.size();
  const bool fits = frame.arguments.size > 0 && view(frame.arguments, 0, device, given) && given.ndim == 1 &&
                    given.dtype.bits == 32 && given.shape[0] == static_cast<std::int64_t>(words);
  if (!fits)
    return Diagnostic(Code::bad_record, Place{}, cat(record.entry, ": the program passes no scalars of the kernel"));
  if (device.type == DeviceType::cuda) return cuda::fetch(device.id, bits, given.data, 4 * words, stream);
  std::memcpy(bits, given.data, 4 * words);
  return Done{};
}

template <Platform platform, bool values>
Error* execute(CallFrame* frame) {
  if (answered<values>(frame)) return nullptr;
  const Site* site = nullptr;
  DLDevice device;
  if (Error* error = find<platform>(frame, site, device)) return error;
  const auto plan = site->kernel->plan(device);
  if (!plan) return fail(frame->api, site->kernel->record(), plan.why());
  Tensors tensors;
  if (const std::string why = collect(*frame, *site, **plan, device, values, tensors); !why.empty())
    return fail(frame->api, ErrorCode::invalid_argument, why);
  Framework framework;
  framework.outputs = {tensors.all() + (*plan)->inputs(), (*plan)->outputs()};
  framework.fresh = true;
  if constexpr (platform == Platform::cuda) {
    auto args = arguments<StreamGet>();
    args.context = frame->context;
    if (Error* error = frame->api->stream_get(&args)) return error;
    framework.stream = args.stream;
  }
  std::span<const std::uint64_t> scalars = site->scalars;
  std::uint64_t bits[values ? max_scalars : 1];
  if constexpr (values) {
    const launch::Record& record = (*plan)->record();
    if (const auto got = fetch(*frame, record, device, framework.stream, bits); !got)
      return fail(frame->api, record, got.why());
    scalars = {bits, record.scalars.size()};
  }
  const auto done = (*plan)->call({tensors.all(), (*plan)->inputs()}, scalars, framework);
  return done ? nullptr : fail(frame->api, (*plan)->record(), done.why());
}

template <Platform platform, bool values>
constexpr Handlers of = {instantiate<platform, values>, initialize<platform, values>, execute<platform, values>};

}  // namespace

Handlers handlers(std::string_view platform, bool values) {
  if (platform == "cpu") return values ? of<Platform::cpu, true> : of<Platform::cpu, false>;
  if (platform == "CUDA") return values ? of<Platform::cuda, true> : of<Platform::cuda, false>;
  return {};
}

}  // namespace ptx::interop::xla
