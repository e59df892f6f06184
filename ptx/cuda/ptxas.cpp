// Assembling with a ptxas program, and disassembling with nvdisasm or cuobjdump. Started without a shell, on files of a
// folder that only this user can read; a program that does not end is stopped.
#include <cstdlib>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/cuda/detail/tools.h"

namespace ptx::cuda {
namespace {

std::string_view view(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr double seconds_to_answer = 20;  // for --version and for a disassembler

// $PYPTX_ASSEMBLER_SECONDS, else ten minutes: large modules take long.
double seconds_to_assemble() {
  double seconds = 600;
  if (const char* asked = std::getenv("PYPTX_ASSEMBLER_SECONDS"))
    if (const double number = std::strtod(asked, nullptr); number > 0) seconds = number;
  return seconds;
}

Diagnostic no_folder(const Scratch& scratch, Code code) {
  return Diagnostic(code, Place{}, cat("files cannot be written to the temporary folder ", scratch.where()));
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
    if (scratch.folder().empty() || !write_file(source, ptx)) return no_folder(scratch, Code::assembler_failed);
    std::vector<std::string> arguments{path_, cat("-arch=", target), "-v", source, "-o", object};
    if (options.line_info) arguments.emplace_back("-lineinfo");
    const auto finished = run_program(std::move(arguments), Code::assembler_failed, seconds_to_assemble());
    if (!finished) return finished.why();
    Diagnostics said = read_log(finished->output, ptx, options);
    const std::string bytes = finished->status == 0 ? read_file(object) : std::string();
    if (bytes.empty()) {
      const std::string status = finished->status == 0 ? "without writing code" : cat("with ", finished->status);
      if (!has_error(said))
        said.emplace_back(Code::assembler_failed, Place{}, cat(path_, " ended ", status, ": ", finished->output));
      return said;
    }
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
  if (at == text.npos) return {};
  text.remove_prefix(at + 3);
  return std::string(text.substr(0, text.find_first_not_of("0123456789.")));
}

FoundAssembler look_at(const std::string& path, Child& asked) {
  FoundAssembler found{Assembler::Kind::ptxas, path, nullptr, {}};
  const auto answer = asked.finish(Code::no_assembler, seconds_to_answer);
  if (!answer)
    found.why_not = answer.why().front().message;
  else if (answer->status != 0)
    found.why_not = cat(path, " --version ended with ", answer->status);
  else if (const std::string version = version_in(answer->output); release_of(version) == Release{})
    found.why_not = cat(path, " --version does not tell its release");
  else
    found.assembler = std::make_shared<Ptxas>(path, version);
  return found;
}

}  // namespace

std::vector<FoundAssembler> find_ptxas(const Search& search, const std::string& path) {
  std::vector<std::string> paths;
  if (!path.empty()) paths.push_back(path);
  for (const std::string_view name : {"ptxas", "ptxas-blackwell"})  // Triton has both
    for (std::string& file : find_files(search, name, true))
      if (file != path) paths.push_back(std::move(file));
  std::vector<Child> asked;  // all at once
  for (const std::string& file : paths) asked.emplace_back(std::vector<std::string>{file, "--version"});
  std::vector<FoundAssembler> found;
  for (std::size_t i = 0; i < paths.size(); ++i) found.push_back(look_at(paths[i], asked[i]));
  newest_first(found);
  return found;
}

Expected<std::string> disassemble(std::span<const std::byte> cubin, const Search& search, bool ptx_lines) {
  if (!cubin.empty() && !view(cubin).starts_with("\177ELF"))
    return Diagnostic(Code::disassembler_failed, Place{},
                      "the driver's JIT does not show the code that it makes: to read code, pip install pyptx[asm]");
  const Scratch scratch;
  const std::string object = scratch.file("kernel.cubin");
  if (scratch.folder().empty() || !write_file(object, view(cubin)))
    return no_folder(scratch, Code::disassembler_failed);
  Diagnostics failures;
  const auto attempt = [&](std::string_view name, std::vector<std::string> flags) -> std::string {
    for (const std::string& path : find_files(search, name, true)) {
      std::vector<std::string> arguments{path};
      arguments.insert(arguments.end(), flags.begin(), flags.end());
      arguments.push_back(object);
      const auto finished = run_program(std::move(arguments), Code::disassembler_failed, seconds_to_answer);
      if (finished && finished->status == 0) return finished->output;
      failures.push_back(finished ? Diagnostic(Code::disassembler_failed, Place{}, cat(path, ": ", finished->output))
                                  : finished.why().front());
    }
    return {};
  };
  if (ptx_lines)
    if (std::string text = attempt("nvdisasm", {"-c", "-gp"}); !text.empty()) return text;
  if (std::string text = attempt("nvdisasm", {"-c"}); !text.empty()) return text;
  if (std::string text = attempt("cuobjdump", {"-sass"}); !text.empty()) return text;
  if (!failures.empty()) return failures;
  return Diagnostic(
      Code::no_disassembler, Place{},
      "neither nvdisasm nor cuobjdump was found: install the Python package nvidia-cuda-nvdisasm, or the CUDA toolkit");
}

std::optional<std::string> disassembler_path(const Search& search) {
  for (const std::string_view name : {"nvdisasm", "cuobjdump"})
    if (auto found = find_files(search, name, true); !found.empty()) return found.front();
  return std::nullopt;
}

}  // namespace ptx::cuda
