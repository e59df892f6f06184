#include "ptx/cuda/executor.h"

#include <mutex>
#include <unordered_map>

#include "ptx/arch/target.h"
#include "ptx/base/text.h"
#include "ptx/cuda/assemblers.h"
#include "ptx/cuda/cache.h"
#include "ptx/launch/tensor_map.h"

namespace ptx::cuda {
namespace {

using launch::Record;

// Makes a context current for a scope; free where it already is, the usual case under a framework.
class Current {
 public:
  Current(const Driver& driver, CUcontext context) : driver_(driver) {
    CUcontext now = nullptr;
    result_ = driver.cuCtxGetCurrent(&now);
    if (result_ != cuda_success || now == context) return;
    result_ = driver.cuCtxPushCurrent(context);
    pushed_ = result_ == cuda_success;
  }
  ~Current() {
    CUcontext popped = nullptr;
    if (pushed_) driver_.cuCtxPopCurrent(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  CUresult result() const { return result_; }

 private:
  const Driver& driver_;
  CUresult result_;
  bool pushed_ = false;
};

class DriverProgram final : public launch::Program {
 public:
  DriverProgram(const Driver& driver, CUcontext context, CUfunction function, const Record& record, Diagnostics remarks)
      : driver_(driver), context_(context), function_(function), name_(record.entry), remarks_(std::move(remarks)) {
    config_.block_x = record.block.x, config_.block_y = record.block.y, config_.block_z = record.block.z;
    config_.shared_bytes = record.dynamic_shared;
    for (const launch::Parameter& parameter : record.parameters) offsets_.push_back(parameter.offset);
    if (record.cluster.count() != 1) {
      CUlaunchAttribute& cluster = attribute(CUlaunchAttribute::cluster_dimension);
      cluster.cluster = {record.cluster.x, record.cluster.y, record.cluster.z};
    }
    const launch::Attributes& asked = record.attributes;
    if (asked.cooperative) attribute(CUlaunchAttribute::cooperative).number = 1;
    if (asked.dependent) attribute(CUlaunchAttribute::programmatic_stream_serialization).number = 1;
    if (asked.priority != 0) attribute(CUlaunchAttribute::priority).number = asked.priority;
    if (asked.shared_carveout >= 0) attribute(CUlaunchAttribute::shared_carveout).number = asked.shared_carveout;
    config_.attributes = attributes_;
  }

  bool needs_buffers() const override { return false; }
  const Diagnostics& remarks() const override { return remarks_; }

  [[gnu::hot]] Expected<Done> run(const Record& record, std::span<const std::byte> parameters,
                                  std::span<const launch::Buffer>, void* stream) override {
    const launch::Dim3& grid = record.grid;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return Done{};
    // A pointer a parameter, not one block of bytes (`extra`): the assembler places a parameter of alignment 64 by its
    // address in the constant bank (offset 48 after three pointers on sm_90, where the manual would say 64).
    void* usual[64];
    const std::size_t count = parameters.empty() ? 0 : offsets_.size();
    std::vector<void*> many(count > std::size(usual) ? count : 0);
    void** pointers = many.empty() ? usual : many.data();
    for (std::size_t i = 0; i < count; ++i) {
      pointers[i] = const_cast<std::byte*>(parameters.data()) + offsets_[i];
    }
    const Current current(driver_, context_);
    if (current.result() != cuda_success) return failed(current.result(), "cuCtxPushCurrent");
    if (config_.attribute_count == 0) {
      const CUlaunchConfig& c = config_;
      const CUresult result = driver_.cuLaunchKernel(function_, grid.x, grid.y, grid.z, c.block_x, c.block_y, c.block_z,
                                                     c.shared_bytes, static_cast<CUstream>(stream), pointers, nullptr);
      if (result != cuda_success) return failed(result, "cuLaunchKernel");
      return Done{};
    }
    CUlaunchConfig config = config_;
    config.grid_x = grid.x, config.grid_y = grid.y, config.grid_z = grid.z;
    config.stream = static_cast<CUstream>(stream);
    const CUresult result = driver_.cuLaunchKernelEx(&config, function_, pointers, nullptr);
    if (result != cuda_success) return failed(result, "cuLaunchKernelEx");
    return Done{};
  }

 private:
  CUlaunchAttribute& attribute(int id) {
    CUlaunchAttribute& made = attributes_[config_.attribute_count++];
    made.id = id;
    return made;
  }

  Diagnostic failed(CUresult result, std::string_view call) const {
    Diagnostic why = driver_.check(result, cat(name_, ": ", call)).why().front();
    if (result != 1)  // anything but a bad argument may be the echo of an earlier fault
      why.notes.emplace_back("Kernels run asynchronously: the fault may be an earlier launch's.");
    return why;
  }

  const Driver& driver_;
  CUcontext context_;
  CUfunction function_;
  std::string name_;
  Diagnostics remarks_;
  std::vector<std::uint32_t> offsets_;  // of the parameters in the block
  CUlaunchConfig config_;
  CUlaunchAttribute attributes_[5];
};

class DriverExecutor final : public launch::Executor {
 public:
  DriverExecutor(const Driver& driver, int device, const Assembler* assembler)
      : driver_(driver),
        assembler_(assembler, [](const Assembler*) {}),  // which outlives this
        disk_(assembler == nullptr ? &cubin_cache() : nullptr),
        name_(cat("cuda:", device)) {}

  Expected<Done> open(int ordinal) {
    CUdevice device = 0;
    if (auto done = driver_.check(driver_.cuDeviceGet(&device, ordinal), "cuDeviceGet"); !done) return done;
    if (auto done = driver_.check(driver_.cuDevicePrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain");
        !done)
      return done;
    const auto attribute = [&](DeviceAttribute which) {
      int value = 0;
      driver_.cuDeviceGetAttribute(&value, which, device);
      return value;
    };
    const auto size = [&](DeviceAttribute which) { return static_cast<std::uint32_t>(attribute(which)); };
    major_ = attribute(compute_major), minor_ = attribute(compute_minor);
    limits_.threads = size(max_threads_per_block);
    limits_.block = {size(max_block_x), size(max_block_y), size(max_block_z)};
    limits_.grid = {size(max_grid_x), size(max_grid_y), size(max_grid_z)};
    limits_.shared = size(max_shared_optin);
    // A device that no row knows is newer than the rows: it has clusters, and the driver says how large.
    const arch::Architecture* known = arch::architecture(major_ * 10 + minor_);
    limits_.cluster = known ? known->cluster : limits_.cluster;
    return Done{};
  }

  std::string_view name() const override { return name_; }
  CUcontext context() const { return context_; }

  Expected<std::shared_ptr<launch::Program>> prepare(std::string_view ptx, const Record& record) override {
    if (auto fits = check(record, limits_); !fits) return fits.why();
    const auto target = architecture(record.target, major_, minor_);
    if (!target) return target.why();
    const Current current(driver_, context_);
    if (auto done = driver_.check(current.result(), "cuCtxPushCurrent"); !done) return done.why();
    const AssembleOptions options{record.lines, record.entry, false};
    std::lock_guard lock(mutex_);
    const auto module = load(ptx, *target, record.assembler, options);
    if (!module) return module.why();
    const auto function = find((*module)->module, record);
    if (!function) return function.why();
    Diagnostics remarks = read_log((*module)->cubin->log, ptx, options);
    return std::shared_ptr<launch::Program>(
        new DriverProgram(driver_, context_, *function, record, std::move(remarks)));
  }

  Expected<Done> fits(const Record& record) const override { return check(record, limits_); }

  Expected<Done> encode(const launch::TensorMapRecipe& recipe, launch::Element element, const launch::Buffer& buffer,
                        std::span<std::byte, 128> out) override {
    const auto map = launch::geometry(recipe, element, buffer);
    if (!map) return map.why();
    const Current current(driver_, context_);  // the driver asks for one
    if (auto done = driver_.check(current.result(), "cuCtxPushCurrent"); !done) return done;
    const std::uint32_t* const every = recipe.element_strides.data();
    const int interleave = static_cast<int>(recipe.interleave), swizzle = arch::info(recipe.swizzle).map,
              promotion = static_cast<int>(recipe.promotion), fill = static_cast<int>(recipe.fill);
    if (const auto& im2col = recipe.im2col; im2col.channels != 0)
      return driver_.check(
          driver_.cuTensorMapEncodeIm2col(out.data(), map->type, map->rank, buffer.data, map->dimensions.data(),
                                          map->strides.data() + 1, im2col.lower.data(), im2col.upper.data(),
                                          im2col.channels, im2col.pixels, every, interleave, swizzle, promotion, fill),
          "cuTensorMapEncodeIm2col");
    return driver_.check(driver_.cuTensorMapEncodeTiled(out.data(), map->type, map->rank, buffer.data,
                                                        map->dimensions.data(), map->strides.data() + 1,
                                                        map->box.data(), every, interleave, swizzle, promotion, fill),
                         "cuTensorMapEncodeTiled");
  }

 private:
  // Modules stay loaded for the process: a captured graph may replay a kernel long after its owner is gone.
  struct Loaded {
    CUmodule module;
    std::shared_ptr<const Cubin> cubin;
  };
  Expected<const Loaded*> load(std::string_view ptx, const std::string& target, const std::string& asked,
                               const AssembleOptions& options) {
    std::string key = cat(target, "\n", asked, "\n", ptx);
    if (const auto found = modules_.find(key); found != modules_.end()) return &found->second;
    const AssemblerResult chosen =
        assembler_ != nullptr ? AssemblerResult(assembler_) : choose_assembler(ptx, target, asked);
    if (!chosen) return chosen.why();
    const auto cubin = assemble_cached(**chosen, ptx, target, options, disk_);
    if (!cubin) return cubin.why();
    CUmodule module = nullptr;
    auto loaded = driver_.check(driver_.cuModuleLoadData(&module, (*cubin)->bytes.data()),
                                cat(options.name, ": cuModuleLoadData of the code of ", describe(**chosen)));
    if (!loaded) return loaded.why();
    return &modules_.emplace(std::move(key), Loaded{module, *cubin}).first->second;
  }

  // The entry, allowed the dynamic shared memory and the cluster that the record asks for. Functions are shared by all
  // records of one text, so the allowance is only ever raised.
  Expected<CUfunction> find(CUmodule module, const Record& record) {
    CUfunction function = nullptr;
    const auto call = [&](std::string_view what) { return cat(record.entry, ": ", what); };
    if (auto done = driver_.check(driver_.cuModuleGetFunction(&function, module, record.entry.c_str()),
                                  call("cuModuleGetFunction"));
        !done)
      return done.why();
    int fixed = 0, allowed = 0;
    driver_.cuFuncGetAttribute(&fixed, function_static_shared, function);
    driver_.cuFuncGetAttribute(&allowed, function_max_dynamic_shared, function);
    const auto asked = static_cast<std::int64_t>(record.dynamic_shared);
    if (fixed + asked > limits_.shared)
      return Diagnostic(Code::launch_limits, Place{},
                        cat(record.entry, ": ", fixed, " bytes of static and ", asked,
                            " of dynamic shared memory; a block may have ", limits_.shared, " together"));
    if (asked > allowed) {
      const CUresult result =
          driver_.cuFuncSetAttribute(function, function_max_dynamic_shared, static_cast<int>(asked));
      if (auto done = driver_.check(result, call("dynamic shared memory: cuFuncSetAttribute")); !done)
        return done.why();
    }
    if (record.cluster.count() > 8) {
      const CUresult result = driver_.cuFuncSetAttribute(function, function_nonportable_cluster, 1);
      if (auto done = driver_.check(result, call("cluster of more than 8: cuFuncSetAttribute")); !done)
        return done.why();
    }
    return function;
  }

  const Driver& driver_;
  std::shared_ptr<const Assembler> assembler_;  // null: chosen for each text among the process' own
  const CubinCache* disk_;                      // null: none, for executors over a given assembler
  std::string name_;
  CUcontext context_ = nullptr;
  int major_ = 0, minor_ = 0;
  Limits limits_;
  std::mutex mutex_;  // over loading; launches take no lock
  std::unordered_map<std::string, Loaded> modules_;
};

Expected<std::unique_ptr<DriverExecutor>> open(const Driver& driver, int device, const Assembler* assembler) {
  int count = 0;
  const CUresult result = driver.cuDeviceGetCount(&count);
  if (result != cuda_success && result != cuda_error_no_device) return driver.check(result, "cuDeviceGetCount").why();
  if (device < 0 || device >= count)
    return Diagnostic(Code::no_device, Place{}, cat("there is no device cuda:", device, "; the driver shows ", count));
  auto made = std::make_unique<DriverExecutor>(driver, device, assembler);
  if (auto done = made->open(device); !done) return done.why();
  return made;
}

}  // namespace

Expected<std::unique_ptr<launch::Executor>> make_executor(const Driver& driver, int device,
                                                          const Assembler& assembler) {
  auto made = open(driver, device, &assembler);
  if (!made) return made.why();
  return std::unique_ptr<launch::Executor>(std::move(made).value());
}

Expected<launch::Executor*> executor(int device) {
  static std::mutex mutex;
  static auto& executors = *new std::unordered_map<int, std::unique_ptr<DriverExecutor>>;
  const auto& opened = driver();
  if (!opened) return opened.why();
  std::lock_guard lock(mutex);
  if (const auto found = executors.find(device); found != executors.end()) return found->second.get();
  auto made = open(opened.value(), device, nullptr);
  if (!made) return made.why();
  return executors.emplace(device, std::move(made).value()).first->second.get();
}

int device_of(const void* memory) {
  int ordinal = 0;
  if (const auto& opened = driver(); opened)
    if (opened->cuPointerGetAttribute(&ordinal, pointer_device_ordinal, memory) != cuda_success) return 0;
  return ordinal;
}

Expected<Done> order(int device, void* before, void* stream) {
  const auto runs = executor(device);
  if (!runs) return runs.why();
  const auto& opened = driver();
  const Current current(opened.value(), static_cast<DriverExecutor*>(*runs)->context());
  CUevent event = nullptr;
  if (auto done = opened->check(opened->cuEventCreate(&event, event_without_timing), "cuEventCreate"); !done)
    return done;
  CUresult result = opened->cuEventRecord(event, static_cast<CUstream>(before));
  if (result == cuda_success) result = opened->cuStreamWaitEvent(static_cast<CUstream>(stream), event, 0);
  opened->cuEventDestroy(event);  // the driver keeps it until it has happened
  return opened->check(result, "cuStreamWaitEvent");
}

Expected<Done> fetch(int device, void* to, const void* from, std::size_t bytes, void* stream) {
  const auto runs = executor(device);
  if (!runs) return runs.why();
  const auto& opened = driver();
  const Current current(opened.value(), static_cast<DriverExecutor*>(*runs)->context());
  const CUresult result = opened->cuMemcpyDtoHAsync(to, from, bytes, static_cast<CUstream>(stream));
  if (auto done = opened->check(result, "cuMemcpyDtoHAsync"); !done) return done;
  return opened->check(opened->cuStreamSynchronize(static_cast<CUstream>(stream)), "cuStreamSynchronize");
}

int device_count() {
  const auto& opened = driver();
  int count = 0;
  if (opened) opened->cuDeviceGetCount(&count);
  return count;
}

Expected<DeviceFacts> device_facts(int device) {
  const auto& opened = driver();
  if (!opened) return opened.why();
  if (device < 0 || device >= device_count())
    return Diagnostic(Code::no_device, Place{},
                      cat("there is no device cuda:", device, "; the driver shows ", device_count()));
  char name[256] = {};
  DeviceFacts facts;
  opened->cuDeviceGetName(name, sizeof name - 1, device);
  opened->cuDeviceGetAttribute(&facts.major, compute_major, device);
  opened->cuDeviceGetAttribute(&facts.minor, compute_minor, device);
  facts.name = name;
  return facts;
}

}  // namespace ptx::cuda
