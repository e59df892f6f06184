// Which assembler a text gets. What is launched has to be what was written, so whole-program compilers come first:
// every ptxas, the newest first, then the driver's JIT. nvJitLink compiles relocatable code, in which setmaxnreg is
// dropped and registers are allocated otherwise: it is the last resort, and kernels that it would change are refused.
#pragma once

#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ptx/cuda/assembler.h"

namespace ptx::cuda {

// What PYPTX_ASSEMBLER and use_assembler take: "auto", a kind ("ptxas", "driver", "nvjitlink"), or a kind and its file
// ("ptxas:/opt/cuda/bin/ptxas"; the driver's file is PYPTX_LIBCUDA's business).
struct AssemblerChoice {
  std::string text = "auto";            // as it was given
  std::optional<Assembler::Kind> kind;  // none: the best for each text
  std::string path;                     // empty: any
  bool allows(const FoundAssembler& found) const;
};
Expected<AssemblerChoice> parse_choice(std::string_view text);  // bad_assembler_choice, with the legal ones

// What a machine has to assemble with. Looks for a kind when it first needs it. Calls from several threads are safe.
class Assemblers {
 public:
  // `driver` is the release of this machine's driver; none: code is made to be read, and may be of any release.
  Assemblers(Search search, AssemblerChoice choice, std::optional<Release> driver)
      : search_(std::move(search)), choice_(std::move(choice)), driver_(driver) {}

  // The first that is chosen, whose code the driver loads, that knows the text's .version and the target, and keeps
  // what is written. no_assembler, with the reason of each that was found and what to install, where there is none.
  AssemblerResult choose(std::string_view ptx, std::string_view target) const;

  // Each that was looked at, best first: what it is, and why it is taken or not, for a text that all of them know.
  std::vector<std::pair<std::string, std::string>> explain() const;

 private:
  struct Asked;
  const std::vector<FoundAssembler>& of(Assembler::Kind kind) const;
  std::string refusal(const FoundAssembler& found, const Asked& asked) const;
  std::string advice() const;  // what to install

  Search search_;
  AssemblerChoice choice_;
  std::optional<Release> driver_;
  mutable std::mutex mutex_;
  mutable std::array<std::optional<std::vector<FoundAssembler>>, 3> found_;
};

// The process' own. `use` says where packages lie. The choice is $PYPTX_ASSEMBLER's until use_assembler is called; it
// holds for what is assembled from then on: a kernel that is loaded stays as it is. `choice` is that of one kernel,
// which comes before both; empty: it has none.
void use(Search search);
Expected<Done> use_assembler(std::string_view choice);
Expected<std::shared_ptr<const Assemblers>> assemblers(std::string_view choice = {});
AssemblerResult choose_assembler(std::string_view ptx, std::string_view target, std::string_view choice = {});

// With the process' own tools.
Expected<std::string> disassemble(std::span<const std::byte> cubin, bool ptx_lines = false);
std::optional<std::string> disassembler_path();

}  // namespace ptx::cuda
