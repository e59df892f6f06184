#include "ptx/cuda/assembler.h"

#include <mutex>

#include "ptx/base/text.h"
#include "ptx/cuda/detail/tools.h"

namespace ptx::cuda {
namespace {

struct Choice {
  std::mutex mutex;
  Search search;
};

Choice& choice() {
  static Choice& instance = *new Choice;
  return instance;
}

Search chosen_search() {
  std::lock_guard lock(choice().mutex);
  return choice().search;
}

}  // namespace

std::string describe(const Assembler& assembler) {
  constexpr std::string_view names[] = {"nvJitLink", "ptxas", "the driver's JIT"};
  return cat(names[static_cast<int>(assembler.kind())], " ", assembler.version(), " (", assembler.path(), ")");
}

AssemblerResult choose_assembler(const Search& search) {
  Diagnostic why(Code::no_assembler, Place{},
                 "no PTX assembler was found: install the Python package nvidia-nvjitlink, or the CUDA toolkit");
  const auto note = [&](const AssemblerResult& missing) {
    for (const Diagnostic& reason : missing.why()) {
      why.notes.push_back(reason.message);
      why.notes.insert(why.notes.end(), reason.notes.begin(), reason.notes.end());
    }
  };
  for (const auto find : {find_nvjitlink, find_ptxas}) {
    if (AssemblerResult found = find(search); found)
      return found;
    else
      note(found);
  }
  AssemblerResult jit = find_driver_jit();
  if (jit) return jit;
  note(jit);
  return why;
}

void use(Search search) {
  std::lock_guard lock(choice().mutex);
  choice().search = std::move(search);
}

const AssemblerResult& assembler() {
  static const AssemblerResult& chosen = *new AssemblerResult(choose_assembler(chosen_search()));
  return chosen;
}

std::optional<std::string> disassembler_path() {
  for (const std::string_view name : {"nvdisasm", "cuobjdump"})
    if (auto found = find_files(chosen_search(), name, true); !found.empty()) return found.front();
  return std::nullopt;
}

Expected<std::string> disassemble(std::span<const std::byte> cubin) { return disassemble(cubin, chosen_search()); }

}  // namespace ptx::cuda
