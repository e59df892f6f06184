// PTX text -> cubin, and cubin -> SASS text, with whatever assembler the machine has: nvJitLink in the process, else a
// ptxas on disk, else the driver's JIT. What was assembled is kept by cache.h.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/base/expected.h"

namespace ptx::cuda {

struct Driver;

struct Cubin {
  std::vector<std::byte> bytes;
  Diagnostics remarks;  // warnings, and advice such as "wgmma instructions are serialized"
  std::string log;      // of the assembler, verbose: remarks and resources are read off it
};

struct AssembleOptions {
  std::span<const Place> lines;  // the author's place of PTX line i ([0] unused); may be shorter than the text
  std::string name = "kernel";   // of the text, where a line has no author's place: "kernel.ptx:12"
  bool line_info = false;        // keep .loc lines for profilers and debuggers
};

// One way to assemble. Immutable; calls from several threads are safe.
class Assembler {
 public:
  enum class Kind { nvjitlink, ptxas, driver };

  virtual ~Assembler() = default;
  virtual Kind kind() const = 0;
  virtual const std::string& path() const = 0;     // of the library or the program
  virtual const std::string& version() const = 0;  // "13.5"
  // `target` is what -arch takes ("sm_90a"). On refusal: one assembler_error for each bad line of the log.
  virtual Expected<Cubin> assemble(std::string_view ptx, std::string_view target,
                                   const AssembleOptions& options) const = 0;
};
std::string describe(const Assembler& assembler);  // "nvJitLink 13.5 (/path/libnvJitLink.so.13)"

// Where to look: folders that hold Python packages (site-packages), in order of preference; then PATH, the loader's
// folders and /usr/local/cuda, unless `system` is false.
struct Search {
  std::vector<std::string> packages;
  bool system = true;
};

using AssemblerResult = Expected<std::shared_ptr<const Assembler>>;
AssemblerResult find_nvjitlink(const Search& search);
AssemblerResult find_ptxas(const Search& search);
AssemblerResult find_driver_jit();
std::shared_ptr<const Assembler> driver_jit(const Driver& driver);  // which outlives it

// The first of the three that this machine has; no_assembler, with a note for each one missing, if there is none.
AssemblerResult choose_assembler(const Search& search);

// The process' own: `use` before the first call says where to look; the choice is made once.
void use(Search search);
const AssemblerResult& assembler();

// SASS text of a cubin by nvdisasm or cuobjdump, found as above.
Expected<std::string> disassemble(std::span<const std::byte> cubin, const Search& search);
Expected<std::string> disassemble(std::span<const std::byte> cubin);  // where `use` said

std::optional<std::string> disassembler_path();  // that would be used first; where `use` said

// The diagnostics of an assembler's log. Lines that carry no fact ("aborted due to errors") are dropped.
Diagnostics read_log(std::string_view log, std::string_view ptx, const AssembleOptions& options);

}  // namespace ptx::cuda
