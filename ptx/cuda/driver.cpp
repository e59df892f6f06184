#include "ptx/cuda/driver.h"

#include <dlfcn.h>

#include <cstdlib>

#include "ptx/base/text.h"

namespace ptx::cuda {
namespace {

constexpr std::string_view way_out =
    "Without a GPU, kernels run on the simulator: call them with CPU tensors (device=\"cpu\"), NumPy arrays or, in "
    "C++, memory of the host.";

Diagnostic no_driver(std::string message) {
  Diagnostic why(Code::no_driver, Place{}, std::move(message));
  why.notes.emplace_back(way_out);
  return why;
}

const char* library_name() {
  const char* named = std::getenv("PYPTX_LIBCUDA");
  return named != nullptr ? named : "libcuda.so.1";
}

using GetProcAddress = CUresult (*)(const char* symbol, void** function, int version, std::uint64_t flags, int* status);

}  // namespace

Expected<Done> Driver::check(CUresult result, std::string_view call) const {
  if (result == cuda_success) return Done{};
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName(result, &name) != cuda_success || name == nullptr) name = "unknown error";
  if (cuGetErrorString(result, &text) != cuda_success || text == nullptr) text = "no description";
  return Diagnostic(Code::driver_error, Place{}, cat(call, " failed: ", name, " (", result, "), ", text));
}

Expected<Driver> open_driver(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return no_driver(cat("there is no CUDA driver on this machine (", dlerror(), ")"));
  const auto find = reinterpret_cast<GetProcAddress>(dlsym(handle, "cuGetProcAddress_v2"));
  if (find == nullptr) return no_driver(cat(library, " is older than CUDA 12.0, which is needed"));
  Driver driver;
  void* entry = nullptr;
#define DRIVER(name, version, parameters)                                                                   \
  if (find(#name, &entry, version, 0, nullptr) != cuda_success || entry == nullptr)                         \
    return no_driver(cat(library, " has no " #name " of CUDA ", version / 1000, ".", version % 1000 / 10)); \
  driver.name = reinterpret_cast<CUresult(*) parameters>(entry);
#include "ptx/cuda/driver.def"
#undef DRIVER
  if (const CUresult result = driver.cuInit(0); result != cuda_success)
    return no_driver(cat("the CUDA driver does not start: ", driver.check(result, "cuInit").why().front().message));
  driver.cuDriverGetVersion(&driver.version);
  return driver;
}

const Expected<Driver>& driver() {
  static const Expected<Driver>& opened = *new Expected<Driver>(open_driver(library_name()));
  return opened;
}

std::optional<arch::Version> driver_release() {
  void* handle = dlopen(library_name(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return std::nullopt;
  const auto ask = reinterpret_cast<CUresult (*)(int*)>(dlsym(handle, "cuDriverGetVersion"));
  int version = 0;
  if (ask == nullptr || ask(&version) != cuda_success || version <= 0) return std::nullopt;
  return arch::Version{static_cast<std::uint8_t>(version / 1000), static_cast<std::uint8_t>(version % 1000 / 10)};
}

}  // namespace ptx::cuda
