#include "ptx/sim/simulator.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "ptx/base/text.h"
#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/launch/limits.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/machine/decode.h"
#include "ptx/sim/memory/heap.h"
#include "ptx/sim/memory/tensor_map.h"
#include "ptx/sim/watch/kept.h"
#include "ptx/sim/watch/lost_blocks.h"
#include "ptx/sim/watch/print.h"
#include "ptx/sim/watch/watch.h"
#include "ptx/syntax/parse.h"

namespace ptx::sim {

struct Simulator::Settings {
  mutable std::mutex mutex;
  Options options;
  Heap heap;

  Options get() const {
    const std::lock_guard lock(mutex);
    return options;
  }
};

namespace {

thread_local Statistics last_run;

constexpr std::uint64_t turn = 1 << 20;          // instructions of one cluster before another has its turn
constexpr std::uint64_t watched_turn = 1 << 16;  // the same where each takes far longer
constexpr std::size_t resident_at_first = 512;   // clusters that have begun and not ended
constexpr std::size_t resident_with_seed = 8;    // the same where they begin together, in an order of the seed
constexpr std::size_t most_resident = 132 * 32;  // where all others wait: what an H200 holds
constexpr std::uint64_t patience = 16;           // turns in which a stalled cluster may still find a change
constexpr std::uint64_t patient = 1 << 17;  // instructions of such a turn, if there is one cluster; several share them
constexpr std::uint64_t least_patient = 1 << 14;

std::optional<Diagnostic> check_shape(const launch::Record& r, const launch::Dim3& cluster, const Program& program) {
  if (r.grid.count() == 0) return Diagnostic(Code::launch_shape, {}, cat("`", r.entry, "`: the grid is empty"));
  const arch::Architecture* device = arch::architecture(r.target);
  const launch::Limits limits = device ? launch::limits_of(*device) : launch::Limits{};
  if (auto fits = launch::check(r, limits); !fits) return fits.why().front();
  if (r.grid.x % cluster.x || r.grid.y % cluster.y || r.grid.z % cluster.z) {  // that of the text, where it has one
    return Diagnostic(Code::launch_shape, {},
                      cat("`", r.entry, "`: the grid (", r.grid.x, ',', r.grid.y, ',', r.grid.z,
                          ") does not divide into clusters of (", cluster.x, ',', cluster.y, ',', cluster.z, ')'));
  }
  const auto text = [](const launch::Dim3& d) { return cat('(', d.x, ',', d.y, ',', d.z, ')'); };
  if (program.block && *program.block != r.block) {
    return Diagnostic(
        Code::launch_shape, {},
        cat("`", r.entry, "`: the block is ", text(r.block), "; its .reqntid asks for ", text(*program.block)));
  }
  if (program.most_threads && r.block.count() > program.most_threads) {
    return Diagnostic(Code::launch_shape, {},
                      cat("`", r.entry, "`: the block has ", r.block.count(), " threads; its .maxntid allows ",
                          program.most_threads));
  }
  if (program.cluster && *program.cluster != cluster) {
    return Diagnostic(Code::launch_shape, {},
                      cat("`", r.entry, "`: the cluster is ", text(cluster), "; its .reqnctapercluster asks for ",
                          text(*program.cluster)));
  }
  const std::uint64_t fixed = program.static_shared - program.reserved_shared;
  if (fixed + r.dynamic_shared > limits.shared) {
    return Diagnostic(Code::launch_limits, {},
                      cat(r.entry, ": smem: ", fixed, " bytes of static and ", r.dynamic_shared,
                          " of dynamic shared memory; a block may have ", limits.shared, " together"));
  }
  return std::nullopt;
}

// Bytes that are zero without being touched: a run of large outputs begins at once, and can be ended at once.
struct Free {
  void operator()(std::uint8_t* bytes) const { std::free(bytes); }
};
using Zeros = std::unique_ptr<std::uint8_t, Free>;
Zeros zeros(std::size_t size) {
  Zeros out(static_cast<std::uint8_t*>(std::calloc(std::max<std::size_t>(size, 1), 1)));
  return out ? std::move(out) : throw std::bad_alloc();
}

class SimulatedProgram final : public RunsAgain, public std::enable_shared_from_this<SimulatedProgram> {
 public:
  SimulatedProgram(std::unique_ptr<sim::Program> program, std::shared_ptr<Simulator::Settings> settings)
      : program_(std::move(program)), settings_(std::move(settings)) {}

  Expected<Done> run(const launch::Record& record, std::span<const std::byte> parameters,
                     std::span<const launch::Buffer> buffers, void*) override {
    const Options options = settings_->get();
    if (options.recording && options.recording->launches)
      keep(*options.recording, shared_from_this(), record, parameters, buffers);
    return run(record, parameters, buffers, options);
  }

  std::vector<std::byte> variables() const override {
    std::vector<std::byte> out;
    for (const ModuleVariable& v : program_->variables) out.insert(out.end(), v.data, v.data + v.size);
    return out;
  }
  void set_variables(std::span<const std::byte> bytes) override {
    for (ModuleVariable& v : program_->variables) {
      std::copy_n(bytes.begin(), v.size, v.data);
      bytes = bytes.subspan(v.size);
    }
  }

  Heap& heap() override { return settings_->heap; }

  Expected<Done> run(const launch::Record& record, std::span<const std::byte> parameters,
                     std::span<const launch::Buffer> buffers, const Options& options) override {
    const bool own = program_->cluster && record.cluster.count() == 1;
    const launch::Dim3 cluster = own ? *program_->cluster : record.cluster;
    if (auto problem = check_shape(record, cluster, *program_)) return std::move(*problem);
    const arch::Architecture* const device = arch::architecture(record.target);
    Launch launch{.program = *program_,
                  .options = options,
                  .grid = record.grid,
                  .block = record.block,
                  .cluster = cluster,
                  .dynamic_shared = record.dynamic_shared,
                  .architecture = *(device ? device : arch::architecture(90)),
                  .dependent = record.attributes.dependent,
                  .heap = &heap(),
                  .number = heap().new_launch()};
    std::vector<Zeros> shadows;
    place_memory(launch, record, parameters, buffers, shadows);
    for (std::uint32_t rank = 1; rank < cluster.count() && !program_->shared_addresses.empty(); ++rank)
      launch.constants.push_back(constants_of(*program_, rank));
    Watch watch(launch);
    launch.observer = watch.observer();
    run_clusters(launch);
    last_run = launch.statistics;
    if (launch.faults.empty()) check_outputs(launch, buffers);
    if (launch.faults.empty()) report_lost_blocks(launch);
    launch.faults.insert(launch.faults.begin(), launch.noted.begin(), launch.noted.end());
    Diagnostics found;
    for (Report& report : watch.end(std::move(launch.faults))) found.push_back(std::move(report.diagnostic));
    if (found.empty() || (options.recording && !options.recording->raises && is_report(found.front()))) return Done{};
    return found;
  }

 private:
  // Not the end that the caller asked for.
  static bool is_report(const Diagnostic& d) { return d.code != Code::interrupted; }

  // An input is also written where an output lies on it (out=).
  static bool may_write(const launch::Record& record, std::span<const launch::Buffer> buffers, std::size_t i) {
    const auto begin = [&](std::size_t j) { return static_cast<const std::byte*>(buffers[j].data); };
    for (std::size_t j = 0; j < buffers.size(); ++j) {
      const bool known = j < record.tensors.size();
      const bool written = !buffers[j].constant && (!known || record.tensors[j].output || record.tensors[j].written);
      const bool overlaps = begin(i) < begin(j) + buffers[j].bytes && begin(j) < begin(i) + buffers[i].bytes;
      if (written && (i == j || overlaps)) return true;
    }
    return false;
  }

  void place_memory(Launch& launch, const launch::Record& record, std::span<const std::byte> parameters,
                    std::span<const launch::Buffer> buffers, std::vector<Zeros>& shadows) {
    launch.parameters.resize(parameters.size() / sizeof(Line) + 1);
    if (!parameters.empty()) std::memcpy(launch.parameters.data(), parameters.data(), parameters.size());
    const auto block = reinterpret_cast<std::uint64_t>(launch.parameters.data());
    launch.memory.add(
        {block, block + std::max<std::size_t>(parameters.size(), 1), "the parameters", nullptr, false, false, true});
    launch.memory.add(heap());
    const auto workspace = reinterpret_cast<std::uint64_t>(&launch.workspace);
    launch.memory.add({workspace, workspace + sizeof launch.workspace, "the workspace of the grid"});
    for (ModuleVariable& v : program_->variables) {
      const auto begin = reinterpret_cast<std::uint64_t>(v.data);
      const bool constant = v.space == isa::Space::const_;
      launch.memory.add({begin, begin + v.size, std::string(v.name.view()), nullptr, !constant, constant, false});
    }
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const auto begin = reinterpret_cast<std::uint64_t>(buffers[i].data);
      const bool known = i < record.tensors.size();
      Range range{begin, begin + buffers[i].bytes, known ? record.tensors[i].name : cat("buffer ", i)};
      range.input = known && !record.tensors[i].output && !buffers[i].constant;
      range.writable = may_write(record, buffers, i);
      range.fresh = known && record.tensors[i].written && buffers[i].fresh;
      if (launch.options.uninitialised && (range.fresh || (program_->discards && range.writable))) {
        range.shadow = shadows.emplace_back(zeros(buffers[i].bytes)).get();
        if (!range.fresh) std::memset(range.shadow, sim::written, buffers[i].bytes);
      }
      if (buffers[i].bytes) launch.memory.add(std::move(range));
    }
  }

  void check_outputs(Launch& launch, std::span<const launch::Buffer> buffers) const {
    for (const launch::Buffer& buffer : buffers) {
      const Range* range = buffer.bytes ? launch.memory.find(reinterpret_cast<std::uint64_t>(buffer.data)) : nullptr;
      if (!range || !range->fresh || !range->shadow) continue;
      const std::uint8_t* const end = range->shadow + buffer.bytes;
      const auto is_missing = [](std::uint8_t byte) { return byte != written; };
      const std::uint8_t* const first = std::find_if<const std::uint8_t*>(range->shadow, end, is_missing);
      if (first == end) continue;
      launch.report(0, Diagnostic(Code::output_not_written, {},
                                  cat("`", program_->functions.front().name.view(), "` ended and had not written ",
                                      std::count_if(first, end, is_missing), " of the ", buffer.bytes, " bytes of `",
                                      range->name, "`, the first of them byte ", first - range->shadow,
                                      "; an output that a kernel writes in part is `Tile(..., whole=False)`")));
    }
  }

  void run_clusters(Launch& launch) {
    const std::uint64_t count = launch.clusters();
    const std::uint32_t machine = std::max(1u, std::thread::hardware_concurrency());
    const std::uint64_t cores =
        program_->communicates || program_->ordered || launch.observer
            ? 1
            : std::min<std::uint64_t>(launch.options.cores ? launch.options.cores : machine, count);
    in_threads(launch, cores, [&] { program_->communicates ? take_turns(launch, count) : one_by_one(launch, count); });
  }

  // `work` in so many threads, this one among them; in fewer where the system has no more. What one of them throws, for
  // want of memory, ends the launch and is thrown here.
  static void in_threads(Launch& launch, std::uint64_t cores, const std::function<void()>& work) {
    std::mutex mutex;
    std::condition_variable ended;
    std::uint64_t running = 0;
    std::exception_ptr thrown;
    const auto guarded = [&] {
      try {
        work();
      } catch (...) {
        const std::lock_guard lock(mutex);
        thrown = std::current_exception();
        launch.stop_at = 0;
      }
    };
    std::vector<std::thread> threads;
    threads.reserve(cores);
    while (threads.size() + 1 < cores) {
      const std::lock_guard lock(mutex);
      try {
        threads.emplace_back([&] {
          guarded();
          const std::lock_guard lock(mutex);
          --running;
          ended.notify_one();
        });
      } catch (const std::system_error&) {
        break;
      }
      ++running;
    }
    guarded();
    std::unique_lock lock(mutex);
    while (running != 0) {  // the others still work: whoever launched may end them
      ended.wait_for(lock, std::chrono::milliseconds(10));
      lock.unlock();
      launch.poll();
      lock.lock();
    }
    lock.unlock();
    for (std::thread& t : threads) t.join();
    if (thrown) std::rethrow_exception(thrown);
  }

  static void add_statistics(Launch& launch, const Cluster& cluster) {
    for (const auto& cta : cluster.ctas) {
      for (const auto& w : cta->warps) print_rest(*w, full_mask);
    }
    const std::lock_guard lock(launch.mutex);
    for (const auto& cta : cluster.ctas) {
      for (const auto& w : cta->warps) {
        launch.statistics.warp_instructions += w->executed;
        launch.statistics.thread_instructions += w->thread_instructions;
      }
    }
  }

  static void one_by_one(Launch& launch, std::uint64_t count) {
    for (std::uint64_t i = launch.next++; i < count && i < launch.stop_at; i = launch.next++) {
      Cluster cluster(launch, i);
      for (std::uint64_t stalled = 0; !cluster.run(turn, patient);) {
        stalled = cluster.stalled() ? stalled + 1 : 0;
        if (stalled == patience) cluster.report_livelock();
      }
      add_statistics(launch, cluster);
    }
  }

  // Clusters take over others while these have not begun: the machine holds one at first, or with a seed a few.
  static std::size_t room_at_first(const Launch& launch) {
    if (launch.program.takes_over) return std::size_t{1} << launch.options.seed % 4;
    return launch.options.seed ? resident_with_seed : resident_at_first;
  }

  // How long a turn is; with a seed of Schedule::random it may be short.
  static std::uint64_t length_of(const Launch& launch, std::uint64_t most, std::uint64_t number) {
    if (launch.options.seed == 0 || launch.options.schedule != Schedule::random) return most;
    const std::uint64_t random = mixed(launch.options.seed, number);
    return 1 + (random >> 8) % (most >> random % 16);
  }

  // Clusters may wait for each other: whoever does not end gives way to the next. Whoever only looks at memory sleeps
  // until another has changed some; when all do, each may look for longer. With a seed, those that there is room for
  // begin together, and not in the order of the grid.
  static void take_turns(Launch& launch, std::uint64_t count) {
    std::deque<Turns> resident;
    std::size_t room = room_at_first(launch);
    std::uint64_t stalled = 0, turns = 0;  // stalled: turns one after the other
    std::size_t asleep = 0;
    const std::uint64_t most = launch.observer ? watched_turn : turn;
    while (launch.program.takes_over && launch.next < std::min<std::uint64_t>(count, room))
      resident.push_back({std::make_unique<Cluster>(launch, launch.next++)});
    while ((launch.next < count || !resident.empty()) && launch.stop_at == ~0ull) {
      const bool full = resident.size() == room && asleep == room;
      if (full && (stalled || !launch.program.takes_over)) room = std::min(2 * room, most_resident);
      const bool begins = launch.next < count && resident.size() < room;
      if (begins)
        resident.push_back({std::make_unique<Cluster>(launch, launch.next++)});
      else
        resident.push_back(std::move(resident.front())), resident.pop_front();
      ++turns;
      if (begins && launch.options.seed) {
        std::swap(resident.back(), resident[mixed(launch.options.seed, turns) % resident.size()]);
        continue;
      }
      Turns& one = resident.back();
      const bool quiet = asleep == resident.size();
      if (one.asleep && !quiet) continue;
      const std::uint64_t steps = quiet ? std::max(least_patient, patient / resident.size()) : 0;
      const std::uint64_t changes = one.cluster->polling.changes;
      const bool ended = one.cluster->run(quiet ? turn : length_of(launch, most, turns), steps),
                 stalls = !ended && one.cluster->stalled();
      if (ended || one.cluster->polling.changes != changes || (quiet && !stalls)) {
        for (Turns& other : resident) other.asleep = false;
        asleep = 0;
      }
      asleep += stalls && !one.asleep;
      one.asleep = stalls;
      stalled = quiet && stalls ? stalled + 1 : 0;
      if (stalled == patience + 2 * resident.size()) one.cluster->report_livelock();
      if (!ended) continue;
      add_statistics(launch, *one.cluster);
      resident.pop_back();
    }
    for (const Turns& one : resident) add_statistics(launch, *one.cluster);
  }
  struct Turns {
    std::unique_ptr<Cluster> cluster;
    bool asleep = false;
  };

  std::unique_ptr<sim::Program> program_;
  std::shared_ptr<Simulator::Settings> settings_;
};

}  // namespace

Simulator::Simulator(Options options) : settings_(std::make_shared<Settings>()) { settings_->options = options; }

// A recording keeps programs, and programs these settings, which would keep the recording.
Simulator::~Simulator() {
  const std::lock_guard lock(settings_->mutex);
  settings_->options.recording = nullptr;
}

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
  auto program = decode(lowered.module, record.entry, record.lines, record.allocated);
  if (!program) return program.why();
  (*program)->registers = record.registers;
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
