// What runs of the simulator leave behind on request: reports with their sites, counts of each line of the
// author, a trace in simulated order, who wrote which byte last, the launches themselves so that they can be run again.
//
//   auto recording = std::make_shared<ptx::sim::Recording>();
//   recording->lines = true;
//   ptx::sim::simulator().use({.recording = recording});
//   program.run({x, y});                                        // several launches add up
//   for (const auto& line : recording->counts()) ...
//
// A launch that records anything but reports runs on one core.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/base/diagnostic.h"
#include "ptx/launch/executor.h"
#include "ptx/launch/record.h"

namespace ptx::sim {

struct Options;
class Stop;

// Who did what where: one of the places that a report is about.
struct Site {
  launch::Dim3 cta{0, 0, 0}, thread{0, 0, 0};
  Place place{};                         // the author's line
  std::string instruction{};             // the mnemonic
  std::string space{};                   // of the memory it touches: "global", "shared::cta", "local"; empty: none
  std::uint64_t address = 0, bytes = 0;  // there: an offset in shared and local memory, else the host's address
  std::string owner{};                   // what lies there: "`X`+16"; empty: nothing that has a name
  std::string source{};                  // "k.cu:6": what the text was compiled from, as its .loc says; or empty
};

struct Report {
  Diagnostic diagnostic;
  std::vector<Site> sites;  // the first is the diagnostic's own
};

// What one line of the author did, over all launches. An access of a warp to shared memory takes as many wavefronts as
// its busiest bank has words (8 bytes a thread: half a warp at a time; 16: a quarter); without conflicts it is one for
// each such part. An access to global memory takes the 32-byte sectors that it touches; packed it would be as few as
// its bytes fill.
struct LineCount {
  Place place{};
  std::uint64_t instructions = 0;  // of warps
  std::uint64_t threads = 0;       // lanes that were active in them, of 32 each
  std::uint64_t wavefronts = 0, ideal_wavefronts = 0;
  std::uint64_t sectors = 0, ideal_sectors = 0;
};

// One piece of a trace. Time is counted in instructions of warps that the launch has executed.
struct TracePiece {
  enum class Kind : std::uint8_t { instruction, wait, operation } kind = Kind::instruction;
  std::uint32_t launch = 0, warp = 0;
  launch::Dim3 cta{0, 0, 0};
  std::uint64_t begin = 0, end = 0;
  std::uint32_t lanes = 0;
  Place place{};
  std::string_view name{};  // of the instruction; lives as long as the process
  std::string what{};       // of a wait: for what
};

// What a thread printed: one line, without its end.
struct Printed {
  launch::Dim3 cta{0, 0, 0}, thread{0, 0, 0};
  Place place{};
  std::string text{};
};

std::string to_string(const Printed& line);  // "a.py:41: thread (0,0,0) of CTA (0,0,0): x = 3"

// Who wrote a byte of global memory last.
struct Writer {
  launch::Dim3 cta{0, 0, 0}, thread{0, 0, 0};
  Place place{};
  std::string_view instruction{};
  std::string value{};  // "`%f3` (`total`, k.py:12)": the register that it stored, if the author has a name for it
};

// How a run goes on behind a stop.
enum class Next : std::uint8_t {
  run,          // to the next breakpoint
  instruction,  // to the warp's next instruction
  line,         // to the warp's next instruction of another line
  end,          // no further: the launch is interrupted
};

struct Recording {
  // Asked for.
  bool lines = false, trace = false, writers = false;
  bool launches = false;                       // keeps what launches were given, for explore()
  std::uint64_t most_bytes = 1ull << 30;       // of buffers of launches that are kept; what is beyond is not kept
  std::uint64_t most_pieces = 1ull << 20;      // of a trace; what is beyond is not kept
  bool raises = true;                          // false: a launch that ends with reports counts as done
  std::vector<Place> breakpoints{};            // column is ignored; a file may be the end of a path
  bool stops_at_once = false;                  // before the first instruction of a launch
  std::atomic<bool> stops_soon = false;        // before the next instruction: any thread may ask for it
  std::function<Next(const Stop&)> stopped{};  // asked at each stop, on the thread that launched

  // Found. Under `mutex` while runs go on.
  std::mutex mutex{};
  std::vector<Report> reports{};
  std::vector<LineCount> counts{};  // by file and line
  std::vector<TracePiece> trace_pieces{};
  std::vector<Printed> prints{};
  std::uint64_t warp_instructions = 0, thread_instructions = 0, ran = 0;  // launches
  std::uint64_t dropped_pieces = 0, dropped_launches = 0;
  struct Kept;
  std::vector<std::shared_ptr<const Kept>> kept{};
  // The pieces of global memory that the last launch wrote, with a writer for each byte.
  struct Written {
    std::string name;
    std::uint64_t begin = 0;
    std::vector<std::uint32_t> by{};  // index into `by_whom` + 1; 0: nobody
    std::vector<Writer> by_whom{};
  };
  std::vector<Written> written{};
  // What the last launch wrote, if it lets dependents start before it has ended (griddepcontrol.launch_dependents).
  struct Unfinished {
    std::uint64_t begin = 0;
    std::vector<std::byte> bytes{};  // as it left them: others who have written there since have waited for it
    std::string by{};                // "out.py:41 (`st.global.f32`)"
  };
  std::vector<Unfinished> unfinished{};  // by address

  std::optional<Writer> writer(std::uint64_t address) const;
  // The trace in Chrome's format, which Perfetto (ui.perfetto.dev) shows.
  std::string trace_json();
};

}  // namespace ptx::sim
