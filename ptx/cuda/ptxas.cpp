// Assembling with a ptxas program, and disassembling with nvdisasm or cuobjdump.
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/cuda/detail/tools.h"

namespace ptx::cuda {
namespace {

std::string_view view(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Ptxas final : public Assembler {
 public:
  Ptxas(std::string path, std::string version) : path_(std::move(path)), version_(std::move(version)) {}

  Kind kind() const override { return Kind::ptxas; }
  const std::string& path() const override { return path_; }
  const std::string& version() const override { return version_; }

  Expected<Cubin> assemble(std::string_view ptx, std::string_view target,
                           const AssembleOptions& options) const override {
    const Scratch scratch;
    const std::string source = scratch.file("kernel.ptx"), object = scratch.file("kernel.cubin");
    if (scratch.folder().empty() || !write_file(source, ptx))
      return Diagnostic(Code::assembler_failed, Place{}, "the temporary folder cannot be written");
    std::vector<std::string> arguments{path_, cat("-arch=", target), "-v", source, "-o", object};
    if (options.line_info) arguments.emplace_back("-lineinfo");
    const auto finished = run_program(arguments, Code::assembler_failed);
    if (!finished) return finished.why();
    Diagnostics said = read_log(finished->output, ptx, options);
    if (finished->status != 0) {
      if (!has_error(said))
        said.emplace_back(Code::assembler_failed, Place{},
                          cat(path_, " ended with ", finished->status, ": ", finished->output));
      return said;
    }
    const std::string bytes = read_file(object);
    Cubin cubin;
    cubin.bytes.resize(bytes.size());
    std::memcpy(cubin.bytes.data(), bytes.data(), bytes.size());
    cubin.remarks = std::move(said);
    cubin.log = finished->output;
    return cubin;
  }

 private:
  std::string path_, version_;
};

// "Cuda compilation tools, release 13.0, V13.0.88" -> "13.0.88"
std::string version_in(std::string_view text) {
  const auto at = text.find(", V");
  if (at == text.npos) return "of unknown version";
  text.remove_prefix(at + 3);
  return std::string(text.substr(0, text.find_first_not_of("0123456789.")));
}

}  // namespace

AssemblerResult find_ptxas(const Search& search) {
  Diagnostic why(Code::no_assembler, Place{}, "ptxas was not found");
  for (const std::string& path : find_files(search, "ptxas", true)) {
    const auto asked = run_program({path, "--version"}, Code::no_assembler);
    if (asked && asked->status == 0)
      return std::shared_ptr<const Assembler>(new Ptxas(path, version_in(asked->output)));
    why.notes.push_back(asked ? cat(path, " --version ended with ", asked->status) : asked.why().front().message);
  }
  return why;
}

Expected<std::string> disassemble(std::span<const std::byte> cubin, const Search& search) {
  const Scratch scratch;
  const std::string object = scratch.file("kernel.cubin");
  if (scratch.folder().empty() || !write_file(object, view(cubin)))
    return Diagnostic(Code::disassembler_failed, Place{}, "the temporary folder cannot be written");
  Diagnostics failures;
  const auto attempt = [&](std::string_view name, std::vector<std::string> flags) -> std::string {
    for (const std::string& path : find_files(search, name, true)) {
      std::vector<std::string> arguments{path};
      arguments.insert(arguments.end(), flags.begin(), flags.end());
      arguments.push_back(object);
      const auto finished = run_program(arguments, Code::disassembler_failed);
      if (finished && finished->status == 0) return finished->output;
      failures.push_back(finished ? Diagnostic(Code::disassembler_failed, Place{}, cat(path, ": ", finished->output))
                                  : finished.why().front());
    }
    return {};
  };
  if (std::string text = attempt("nvdisasm", {"-c"}); !text.empty()) return text;
  if (std::string text = attempt("cuobjdump", {"-sass"}); !text.empty()) return text;
  if (!failures.empty()) return failures;
  return Diagnostic(
      Code::no_disassembler, Place{},
      "neither nvdisasm nor cuobjdump was found: install the Python package nvidia-cuda-nvdisasm, or the CUDA toolkit");
}

}  // namespace ptx::cuda
