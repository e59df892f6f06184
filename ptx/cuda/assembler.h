// PTX text -> cubin, and cubin -> SASS text. An assembler is a ptxas on disk, the driver's JIT, or nvJitLink in the
// process; which one a text gets is decided by assemblers.h. What was assembled is kept by cache.h.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/arch/target.h"
#include "ptx/base/expected.h"

namespace ptx::cuda {

struct Driver;

struct Cubin {
  std::vector<std::byte> bytes;  // an ELF file; of the driver's JIT the text, which it compiles when a module is loaded
  Diagnostics remarks;           // warnings, and advice such as "wgmma instructions are serialized"
  std::string log;               // of the assembler, verbose: remarks and resources are read off it
};

struct AssembleOptions {
  std::span<const Place> lines;  // the author's place of PTX line i ([0] unused); may be shorter than the text
  std::string name = "kernel";   // of the text, where a line has no author's place: "kernel.ptx:12"
  bool line_info = false;        // keep .loc lines for profilers and debuggers
};

// A release of CUDA, of which an assembler or a driver is: {13, 5}.
using Release = arch::Version;
Release release_of(std::string_view version);  // of "13.5.37"; {0, 0} where it does not begin with two numbers

// What the assembler and the driver of a release read (releases.def). A release before 11.0 reads nothing.
arch::Version newest_ptx(Release release);
bool knows_target(Release release, std::string_view target);  // "sm_90a"; a name that is no target: true

// Whether a driver loads the code of an assembler: where it is of the same major release, or of a later one. CUDA calls
// it minor version compatibility: a driver of 13.0 loads what ptxas 13.5 made, and refuses what a ptxas 14.0 makes.
bool loads(Release driver, Release assembler);

// One way to assemble. Immutable; calls from several threads are safe.
class Assembler {
 public:
  enum class Kind { ptxas, driver, nvjitlink };  // in order of preference

  virtual ~Assembler() = default;
  virtual Kind kind() const = 0;
  virtual const std::string& path() const = 0;     // of the library or the program
  virtual const std::string& version() const = 0;  // "13.5.37"
  // `target` is what -arch takes ("sm_90a"). On refusal: one assembler_error for each bad line of the log.
  virtual Expected<Cubin> assemble(std::string_view ptx, std::string_view target,
                                   const AssembleOptions& options) const = 0;
};
std::string_view name_of(Assembler::Kind kind);    // "ptxas", "driver", "nvjitlink": as AssemblerChoice has them
std::string describe(const Assembler& assembler);  // "ptxas 13.5.37 (/path/ptxas)"

// Where to look: folders that hold Python packages (site-packages), in order of preference; then the toolkit that
// $CUDA_HOME or $CUDA_PATH names, PATH, the loader's folders and /usr/local/cuda*, unless `system` is false.
struct Search {
  std::vector<std::string> packages;
  bool system = true;
};

// An assembler that was looked at: `assembler`, or why it cannot be used.
struct FoundAssembler {
  Assembler::Kind kind{};
  std::string path;
  std::shared_ptr<const Assembler> assembler;
  std::string why_not;  // "/opt/bin/ptxas --version ended with 3"
};

// All of one kind, the newest first; those that cannot be used last. `path`, if not empty, is looked at as well.
std::vector<FoundAssembler> find_ptxas(const Search& search, const std::string& path = {});
std::vector<FoundAssembler> find_nvjitlink(const Search& search, const std::string& path = {});

using AssemblerResult = Expected<std::shared_ptr<const Assembler>>;
std::shared_ptr<const Assembler> driver_jit(Release release);       // of the process' driver, opened when it is needed
std::shared_ptr<const Assembler> driver_jit(const Driver& driver);  // which outlives it

// SASS text of a cubin by nvdisasm or cuobjdump, found as above. `ptx_lines`: with the PTX line of each instruction,
// where the cubin was assembled with line_info and the disassembler is nvdisasm.
Expected<std::string> disassemble(std::span<const std::byte> cubin, const Search& search, bool ptx_lines = false);
std::optional<std::string> disassembler_path(const Search& search);  // that would be used first

// The diagnostics of an assembler's log. Lines that carry no fact ("aborted due to errors") are dropped.
Diagnostics read_log(std::string_view log, std::string_view ptx, const AssembleOptions& options);

}  // namespace ptx::cuda
