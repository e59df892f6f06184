// Assembling with the driver's own JIT: always beside a GPU, but it knows only PTX of the driver's age.
//
// The driver compiles a text as a whole program when it loads a module of it, and then keeps the code to itself. Its
// linker (cuLinkAddData) would give the code, but of another program: it compiles relocatable code, in which setmaxnreg
// is dropped. So assemble() loads the text once to hear what the JIT says of it, and the "cubin" is the text.
#include "ptx/base/text.h"
#include "ptx/cuda/assembler.h"
#include "ptx/cuda/driver.h"

namespace ptx::cuda {
namespace {

enum JitOption : int {
  info_log = 3,
  info_log_bytes = 4,
  error_log = 5,
  error_log_bytes = 6,
  log_verbose = 12,
  generate_line_info = 13,
};

class DriverJit final : public Assembler {
 public:
  DriverJit(const Driver* driver, Release release) : driver_(driver), version_(to_string(release)) {}

  Kind kind() const override { return Kind::driver; }
  const std::string& path() const override { return path_; }
  const std::string& version() const override { return version_; }

  // The JIT assembles for the device of the current context (the executor has made it current), whatever `target`.
  Expected<Cubin> assemble(std::string_view ptx, std::string_view, const AssembleOptions& options) const override {
    if (driver_ != nullptr) return assemble(*driver_, ptx, options);
    const auto& opened = driver();
    if (!opened) return opened.why();
    return assemble(opened.value(), ptx, options);
  }

 private:
  Expected<Cubin> assemble(const Driver& driver, std::string_view ptx, const AssembleOptions& options) const {
    std::string infos(16384, '\0'), errors(65536, '\0');
    const auto number = [](std::size_t value) { return reinterpret_cast<void*>(value); };
    int names[] = {info_log, info_log_bytes, error_log, error_log_bytes, generate_line_info, log_verbose};
    void* values[] = {infos.data(),          number(infos.size()),      errors.data(),
                      number(errors.size()), number(options.line_info), number(1)};
    Cubin cubin;
    cubin.bytes.reserve(ptx.size() + 1);
    for (const char letter : ptx) cubin.bytes.push_back(static_cast<std::byte>(letter));
    cubin.bytes.push_back(std::byte{0});
    CUmodule module = nullptr;
    const CUresult result = driver.cuModuleLoadDataEx(&module, cubin.bytes.data(), 6, names, values);
    if (result == cuda_success) driver.cuModuleUnload(module);
    Diagnostics said = read_log(errors.c_str(), ptx, options);
    for (Diagnostic& remark : read_log(infos.c_str(), ptx, options)) said.push_back(std::move(remark));
    if (result != cuda_success) {
      if (!has_error(said)) said.push_back(driver.check(result, "cuModuleLoadDataEx").why().front());
      if (result == cuda_error_unsupported_ptx_version)
        said.back().notes.push_back(
            cat("the driver's JIT knows PTX of CUDA ", version_, " and older: for newer PTX, pip install pyptx[asm]"));
      return said;
    }
    cubin.remarks = std::move(said);
    cubin.log = cat(errors.c_str(), infos.c_str());
    return cubin;
  }

  const Driver* driver_;  // none: the process' own, opened when it is needed
  std::string path_ = "libcuda.so.1", version_;
};

}  // namespace

std::shared_ptr<const Assembler> driver_jit(const Driver& driver) {
  const auto number = [](int value) { return static_cast<std::uint8_t>(value); };
  return std::make_shared<DriverJit>(&driver,
                                     Release{number(driver.version / 1000), number(driver.version % 1000 / 10)});
}

std::shared_ptr<const Assembler> driver_jit(Release release) { return std::make_shared<DriverJit>(nullptr, release); }

}  // namespace ptx::cuda
