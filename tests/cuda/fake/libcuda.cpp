// A libcuda of one invented device (compute capability 9.0), which records what it is asked. Built as a shared library,
// so that the tests open it as they would the real one.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#define PTX_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

std::string& journal() {
  static std::string text;
  return text;
}

bool quiet = false;  // a benchmark asks for no journal

void note(const char* call, long long value) {
  if (quiet) return;
  char line[160];
  std::snprintf(line, sizeof line, "%s %lld\n", call, value);
  journal() += line;
}

int next_error = 0;       // of cuLaunchKernelEx
void* current = nullptr;  // context
unsigned char parameters[4096];
std::vector<unsigned> sizes;  // of the parameters of the next launches: a driver reads them in the cubin
char primary;

struct Config {
  unsigned grid[3], block[3], shared;
  void* stream;
  struct Attribute {
    int id;
    char pad[4];
    int value[16];
  }* attributes;
  unsigned count;
};

}  // namespace

PTX_EXPORT const char* fake_journal() {
  static std::string copy;
  copy = journal();
  journal().clear();
  return copy.c_str();
}
PTX_EXPORT void fake_quiet(int on) { quiet = on != 0; }
PTX_EXPORT void fake_fail_next_launch(int error) { next_error = error; }
PTX_EXPORT const void* fake_parameters() { return parameters; }
PTX_EXPORT void fake_set_sizes(const unsigned* of_parameters, unsigned count) {
  sizes.assign(of_parameters, of_parameters + count);
}

PTX_EXPORT int cuInit(unsigned) { return 0; }
PTX_EXPORT int cuDriverGetVersion(int* version) {
  const char* asked = std::getenv("FAKE_CUDA_VERSION");  // "12040"
  return *version = asked != nullptr ? std::atoi(asked) : 13000, 0;
}
PTX_EXPORT int cuGetErrorName(int error, const char** text) {
  *text = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_INVALID_VALUE";
  return 0;
}
PTX_EXPORT int cuGetErrorString(int, const char** text) { return *text = "as the test asked", 0; }
PTX_EXPORT int cuDeviceGetCount(int* count) { return *count = 1, 0; }
PTX_EXPORT int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
PTX_EXPORT int cuDeviceGetName(char* text, int size, int) {
  return std::snprintf(text, static_cast<std::size_t>(size), "Fake"), 0;
}
PTX_EXPORT int cuDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case 1:
    case 2:
    case 3: return *value = 1024, 0;
    case 4: return *value = 64, 0;
    case 5: return *value = 2147483647, 0;
    case 6:
    case 7: return *value = 65535, 0;
    case 75: return *value = 9, 0;
    case 97: return *value = 232448, 0;
    default: return *value = 0, 0;
  }
}
PTX_EXPORT int cuDevicePrimaryCtxRetain(void** context, int) { return *context = &primary, 0; }
PTX_EXPORT int cuCtxGetCurrent(void** context) { return *context = current, 0; }
PTX_EXPORT int cuCtxGetDevice(int* device) { return *device = 0, 0; }
PTX_EXPORT int cuCtxPushCurrent(void* context) { return current = context, note("push", context == &primary), 0; }
PTX_EXPORT int cuCtxPopCurrent(void** context) { return *context = current, current = nullptr, note("pop", 0), 0; }
PTX_EXPORT int cuCtxSetCurrent(void* context) { return current = context, note("set", context == &primary), 0; }
PTX_EXPORT int cuModuleLoadData(void** module, const void* image) {
  note("load", *static_cast<const unsigned char*>(image));
  return *module = &journal(), 0;
}
PTX_EXPORT int cuModuleGetFunction(void** function, void*, const char* name) {
  note(name, 0);
  return *function = &parameters, std::strcmp(name, "missing") == 0 ? 500 : 0;
}
PTX_EXPORT int cuFuncGetAttribute(int* value, int attribute, void*) {
  return *value = attribute == 8 ? 49152 : 1024, 0;
}
PTX_EXPORT int cuFuncSetAttribute(void*, int attribute, int value) {
  note(attribute == 8 ? "dynamic shared" : attribute == 14 ? "nonportable cluster" : "attribute", value);
  return 0;
}
namespace {
int launch(unsigned grid, unsigned shared, void* stream, void** pointers) {
  note("launch", grid);
  note("shared", shared);
  note("stream", static_cast<long long>(reinterpret_cast<std::intptr_t>(stream)));
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < sizes.size(); bytes += sizes[i++]) std::memcpy(parameters + bytes, pointers[i], sizes[i]);
  note("bytes", static_cast<long long>(bytes));
  return std::exchange(next_error, 0);
}
}  // namespace

PTX_EXPORT int cuLaunchKernel(void*, unsigned x, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                              void* stream, void** pointers, void**) {
  return launch(x, shared, stream, pointers);
}
PTX_EXPORT int cuLaunchKernelEx(const Config* config, void*, void** pointers, void**) {
  for (unsigned i = 0; i < config->count; ++i) {
    const Config::Attribute& attribute = config->attributes[i];
    note(attribute.id == 4 ? "cluster" : "attribute", attribute.id * 1000 + attribute.value[0]);
  }
  return launch(config->grid[0], config->shared, config->stream, pointers);
}
PTX_EXPORT int cuPointerGetAttribute(void* value, int, const void*) { return *static_cast<int*>(value) = 0, 0; }
PTX_EXPORT int cuEventCreate(void** event, unsigned) { return *event = &parameters, 0; }
PTX_EXPORT int cuEventRecord(void*, void* stream) {
  return note("record", static_cast<long long>(reinterpret_cast<std::intptr_t>(stream))), 0;
}
PTX_EXPORT int cuEventDestroy(void*) { return 0; }
PTX_EXPORT int cuStreamWaitEvent(void* stream, void*, unsigned) {
  return note("wait", static_cast<long long>(reinterpret_cast<std::intptr_t>(stream))), 0;
}
PTX_EXPORT int cuStreamSynchronize(void*) { return note("synchronize", 0), 0; }
PTX_EXPORT int cuMemcpyDtoHAsync(void* to, const void* from, std::size_t bytes, void*) {
  return std::memcpy(to, from, bytes), note("fetch", static_cast<long long>(bytes)), 0;
}
PTX_EXPORT int cuTensorMapEncodeTiled(void* map, int element, std::uint32_t rank, void*, const std::uint64_t*,
                                      const std::uint64_t*, const std::uint32_t*, const std::uint32_t* every,
                                      int interleave, int swizzle, int promotion, int fill) {
  note("map", element * 100 + static_cast<int>(rank) * 10 + swizzle);
  note("map modes", static_cast<int>(every[1]) * 1000 + interleave * 100 + promotion * 10 + fill);
  std::memset(map, 0x5A, 128);
  return 0;
}
PTX_EXPORT int cuTensorMapEncodeIm2col(void* map, int element, std::uint32_t rank, void*, const std::uint64_t*,
                                       const std::uint64_t*, const int* lower, const int* upper, std::uint32_t channels,
                                       std::uint32_t pixels, const std::uint32_t*, int, int, int, int) {
  note("im2col", element * 10 + static_cast<int>(rank));
  note("im2col from", lower[0]), note("im2col to", upper[0]);
  note("im2col columns", static_cast<long long>(channels) * 10000 + pixels);
  std::memset(map, 0x5B, 128);
  return 0;
}
// The JIT: text with "newer" in it is of a version that it does not know, "bad" is refused at line 2, the rest loads. A
// text with "linked" is compiled as relocatable code: setmaxnreg is dropped, and the log says so.
PTX_EXPORT int cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options, void** values) {
  char *error_log = nullptr, *info_log = nullptr;
  for (unsigned i = 0; i < count; ++i)
    if (options[i] == 5)
      error_log = static_cast<char*>(values[i]);
    else if (options[i] == 3)
      info_log = static_cast<char*>(values[i]);
  note("jit", *static_cast<const char*>(image));
  *module = &journal();
  const std::string text = static_cast<const char*>(image);
  if (text.find("newer") != text.npos) return 222;
  if (text.find("linked") != text.npos)
    std::strcpy(info_log,
                "ptxas info    : (C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility "
                "across compilation units.\n");
  if (text.find("bad") == text.npos) return 0;
  std::strcpy(error_log, "ptxas application ptx input, line 2; error   : Not a name of any known instruction: 'bad'\n");
  return 218;
}
PTX_EXPORT int cuMemAlloc_v2(void** memory, std::size_t bytes) { return *memory = std::calloc(bytes, 1), 0; }
PTX_EXPORT int cuMemcpyHtoD_v2(void* to, const void* from, std::size_t bytes) {
  return std::memcpy(to, from, bytes), 0;
}
PTX_EXPORT int cuMemcpyDtoH_v2(void* to, const void* from, std::size_t bytes) {
  return std::memcpy(to, from, bytes), 0;
}
PTX_EXPORT int cuModuleUnload(void*) { return note("unload", 0), 0; }

PTX_EXPORT int cuGetProcAddress_v2(const char* symbol, void** function, int version, std::uint64_t, int*) {
  if (version < 2000) return 1;
#define DRIVER(name, version, parameters) \
  if (std::strcmp(symbol, #name) == 0) return *function = reinterpret_cast<void*>(&name), 0;
#include "ptx/cuda/driver.def"
#undef DRIVER
  return 500;
}
