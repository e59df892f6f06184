#include "ptx/sim/simulator.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <thread>
#include <unordered_map>

#include "ptx/base/text.h"
#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/machine/decode.h"
#include "ptx/sim/memory/tensor_map.h"
#include "ptx/syntax/parse.h"

namespace ptx::sim {

struct Simulator::Settings {
  mutable std::mutex mutex;
  Options options;

  Options get() const {
    const std::lock_guard lock(mutex);
    return options;
  }
};

namespace {

thread_local Statistics last_run;

constexpr std::uint32_t max_threads = 1024;    // of a CTA
constexpr std::uint32_t max_shared = 1 << 20;  // bytes of a CTA; hardware has less, this bounds what a text can ask for
constexpr std::uint64_t turn = 1 << 20;        // instructions of one cluster before another has its turn
constexpr std::size_t max_resident = 512;      // clusters that have begun and not ended

std::string triple(const launch::Dim3& d) { return cat(d.x, " x ", d.y, " x ", d.z); }

std::optional<Diagnostic> check_shape(const launch::Record& r, const Program& program) {
  auto refuse = [&](std::string message) {
    return Diagnostic(Code::launch_shape, {}, cat("`", r.entry, "`: ", message));
  };
  if (r.grid.count() == 0 || r.block.count() == 0 || r.cluster.count() == 0) {
    return refuse(
        cat("the grid ", triple(r.grid), ", block ", triple(r.block), " or cluster ", triple(r.cluster), " is empty"));
  }
  if (r.block.count() > max_threads)
    return refuse(cat("a block of ", triple(r.block), " has more than ", max_threads, " threads"));
  if (r.grid.x % r.cluster.x || r.grid.y % r.cluster.y || r.grid.z % r.cluster.z || r.cluster.count() > 16) {
    return refuse(cat("the grid ", triple(r.grid), " does not divide into clusters of ", triple(r.cluster),
                      " (at most 16 CTAs)"));
  }
  if (std::uint64_t{program.static_shared} + r.dynamic_shared > max_shared) {
    return refuse(cat(program.static_shared, " static and ", r.dynamic_shared,
                      " dynamic bytes of shared memory are more than ", max_shared));
  }
  return std::nullopt;
}

class SimulatedProgram final : public launch::Program {
 public:
  SimulatedProgram(std::unique_ptr<sim::Program> program, std::shared_ptr<const Simulator::Settings> settings)
      : program_(std::move(program)), settings_(std::move(settings)) {}

  Expected<Done> run(const launch::Record& record, std::span<const std::byte> parameters,
                     std::span<const launch::Buffer> buffers, void*) override {
    if (auto problem = check_shape(record, *program_)) return std::move(*problem);
    const Options options = settings_->get();
    Launch launch{.program = *program_,
                  .options = options,
                  .grid = record.grid,
                  .block = record.block,
                  .cluster = record.cluster,
                  .dynamic_shared = record.dynamic_shared,
                  .observer = options.observer};
    std::vector<std::vector<std::uint8_t>> shadows;
    place_memory(launch, record, parameters, buffers, shadows);
    run_clusters(launch);
    last_run = launch.statistics;
    if (!launch.faults.empty()) return launch.faults;
    return Done{};
  }

 private:
  void place_memory(Launch& launch, const launch::Record& record, std::span<const std::byte> parameters,
                    std::span<const launch::Buffer> buffers, std::vector<std::vector<std::uint8_t>>& shadows) {
    launch.parameters.resize(parameters.size() / sizeof(Line) + 1);
    if (!parameters.empty()) std::memcpy(launch.parameters.data(), parameters.data(), parameters.size());
    const auto block = reinterpret_cast<std::uint64_t>(launch.parameters.data());
    launch.memory.add(
        {block, block + std::max<std::size_t>(parameters.size(), 1), "the parameters", nullptr, false, false, true});
    for (ModuleVariable& v : program_->variables) {
      const auto begin = reinterpret_cast<std::uint64_t>(v.data);
      const bool constant = v.space == isa::Space::const_;
      launch.memory.add({begin, begin + v.size, std::string(v.name.view()), nullptr, !constant, constant, false});
    }
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const auto begin = reinterpret_cast<std::uint64_t>(buffers[i].data);
      const bool known = i < record.tensors.size();
      Range range{begin, begin + buffers[i].bytes, known ? record.tensors[i].name : cat("buffer ", i)};
      if (known && record.tensors[i].output && launch.options.uninitialised) {
        range.shadow = shadows.emplace_back(buffers[i].bytes).data();
      }
      if (buffers[i].bytes) launch.memory.add(std::move(range));
    }
  }

  void run_clusters(Launch& launch) {
    const std::uint64_t count = launch.grid.count() / launch.cluster.count();
    const std::uint32_t machine = std::max(1u, std::thread::hardware_concurrency());
    const std::uint64_t cores =
        program_->communicates || launch.observer
            ? 1
            : std::min<std::uint64_t>(launch.options.cores ? launch.options.cores : machine, count);
    std::atomic<std::uint64_t> next{0};
    auto work = [&] { program_->communicates ? take_turns(launch, count) : one_by_one(launch, next, count); };
    std::vector<std::thread> threads;
    for (std::uint64_t i = 1; i < cores; ++i) threads.emplace_back(work);
    work();
    for (std::thread& t : threads) t.join();
  }

  static void add_statistics(Launch& launch, const Cluster& cluster) {
    const std::lock_guard lock(launch.mutex);
    for (const auto& cta : cluster.ctas) {
      for (const auto& w : cta->warps) {
        launch.statistics.warp_instructions += w->executed;
        launch.statistics.thread_instructions += w->thread_instructions;
      }
    }
  }

  static void one_by_one(Launch& launch, std::atomic<std::uint64_t>& next, std::uint64_t count) {
    for (std::uint64_t i = next++; i < count && i < launch.stop_at; i = next++) {
      Cluster cluster(launch, i);
      while (!cluster.run(turn)) continue;
      add_statistics(launch, cluster);
    }
  }

  // Clusters may wait for each other: whoever does not end gives way to the next.
  static void take_turns(Launch& launch, std::uint64_t count) {
    std::deque<std::unique_ptr<Cluster>> resident;
    std::uint64_t next = 0;
    while ((next < count || !resident.empty()) && launch.stop_at == ~0ull) {
      if (next < count && resident.size() < max_resident)
        resident.push_back(std::make_unique<Cluster>(launch, next++));
      else if (!resident.empty())
        resident.push_back(std::move(resident.front())), resident.pop_front();
      if (!resident.back()->run(turn)) continue;
      add_statistics(launch, *resident.back());
      resident.pop_back();
    }
  }

  std::unique_ptr<sim::Program> program_;
  std::shared_ptr<const Simulator::Settings> settings_;
};

}  // namespace

Simulator::Simulator(Options options) : settings_(std::make_shared<Settings>()) { settings_->options = options; }

Options Simulator::options() const { return settings_->get(); }

void Simulator::use(const Options& options) {
  const std::lock_guard lock(settings_->mutex);
  settings_->options = options;
}

Simulator& simulator() {
  static Simulator one;
  return one;
}

Expected<std::shared_ptr<launch::Program>> Simulator::prepare(std::string_view ptx, const launch::Record& record) {
  const syntax::Parsed parsed = syntax::parse(std::string(ptx));
  if (has_error(parsed.diagnostics)) return parsed.diagnostics;
  ir::Lowered lowered = ir::lower(parsed.tree);
  if (has_error(lowered.diagnostics)) return lowered.diagnostics;
  if (Diagnostics wrong = check::check(lowered.module); has_error(wrong)) return wrong;
  auto program = decode(lowered.module, record.entry, record.lines);
  if (!program) return program.why();
  return std::shared_ptr<launch::Program>(std::make_shared<SimulatedProgram>(std::move(*program), settings_));
}

std::string_view unsimulated(std::string_view form) {
  static const std::unordered_map<std::string_view, std::string_view> reasons = {
#define UNSIMULATED(form, why) {#form, why},
#include "ptx/sim/exec/unsimulated.def"
#undef UNSIMULATED
  };
  const auto found = reasons.find(form);
  return found == reasons.end() ? std::string_view{} : found->second;
}

Statistics statistics() { return last_run; }

Expected<Done> Simulator::encode(const launch::TensorMapRecipe& recipe, launch::Element element,
                                 const launch::Buffer& buffer, std::span<std::byte, 128> out) {
  const auto geometry = launch::geometry(recipe, element, buffer);
  if (!geometry) return geometry.why();
  TensorMap map;
  map.rank = static_cast<std::uint8_t>(geometry->rank);
  map.element = geometry->element;
  map.swizzle = recipe.swizzle, map.interleave = recipe.interleave;
  map.fill = recipe.fill, map.spread = recipe.spread;
  map.channels = static_cast<std::uint16_t>(recipe.im2col.channels);
  map.pixels = static_cast<std::uint16_t>(recipe.im2col.pixels);
  for (std::size_t i = 0; i < 3; ++i) {
    map.lower[i] = static_cast<std::int16_t>(recipe.im2col.lower[i]);
    map.upper[i] = static_cast<std::int16_t>(recipe.im2col.upper[i]);
  }
  map.address = reinterpret_cast<std::uint64_t>(buffer.data);
  for (std::size_t i = 0; i < 5; ++i) {
    if (i > 0) map.strides[i - 1] = geometry->strides[i];
    map.dimensions[i] = geometry->dimensions[i];
    map.box[i] = static_cast<std::uint16_t>(geometry->box[i]);
    map.element_strides[i] = static_cast<std::uint8_t>(recipe.element_strides[i]);
  }
  std::fill(out.begin(), out.end(), std::byte{0});
  std::memcpy(out.data(), &map, sizeof map);
  return Done{};
}

}  // namespace ptx::sim
