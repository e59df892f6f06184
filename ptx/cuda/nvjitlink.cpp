// Assembling in the process through libnvJitLink: the library that lies beside every CUDA build of torch. It links, so
// it compiles relocatable code: assemblers.cpp refuses the kernels that this changes, the oracle tests ask it as it is.
#include <dlfcn.h>

#include "ptx/base/text.h"
#include "ptx/cuda/detail/tools.h"

namespace ptx::cuda {
namespace {

using Handle = struct nvJitLink*;
constexpr int input_ptx = 2;

// The entry points carry the library's version in their names; a library of 13.5 has those of 13.0 too.
#define PTX_NVJITLINK(ROW)                                                               \
  ROW(Create, (Handle*, std::uint32_t count, const char* const* options))                \
  ROW(Destroy, (Handle*))                                                                \
  ROW(AddData, (Handle, int kind, const void* data, std::size_t size, const char* name)) \
  ROW(Complete, (Handle))                                                                \
  ROW(GetLinkedCubinSize, (Handle, std::size_t* size))                                   \
  ROW(GetLinkedCubin, (Handle, void* cubin))                                             \
  ROW(GetErrorLogSize, (Handle, std::size_t* size))                                      \
  ROW(GetErrorLog, (Handle, char* log))                                                  \
  ROW(GetInfoLogSize, (Handle, std::size_t* size))                                       \
  ROW(GetInfoLog, (Handle, char* log))

struct Library {
#define ROW(name, parameters) int(*name) parameters = nullptr;
  PTX_NVJITLINK(ROW)
#undef ROW
};

bool resolve(void* handle, unsigned major, Library& library) {
#define ROW(name, parameters)                                                                                \
  library.name =                                                                                             \
      reinterpret_cast<int(*) parameters>(dlsym(handle, cat("__nvJitLink" #name "_", major, "_0").c_str())); \
  if (library.name == nullptr) return false;
  PTX_NVJITLINK(ROW)
#undef ROW
  return true;
}
#undef PTX_NVJITLINK

class NvJitLink final : public Assembler {
 public:
  NvJitLink(Library library, std::string path, std::string version)
      : library_(library), path_(std::move(path)), version_(std::move(version)) {}

  Kind kind() const override { return Kind::nvjitlink; }
  const std::string& path() const override { return path_; }
  const std::string& version() const override { return version_; }

  Expected<Cubin> assemble(std::string_view ptx, std::string_view target,
                           const AssembleOptions& options) const override {
    const std::string arch = cat("-arch=", target);
    // Its own cache, which it keeps where there is a driver, gives a cubin again but not the log.
    const char* flags[] = {arch.c_str(), "-Xptxas=-v", "-no-cache", "-lineinfo"};
    Handle link = nullptr;
    if (target.size() < 5)  // the library itself does not survive "sm_9"
      return Diagnostic(Code::assembler_failed, Place{}, cat("`", target, "` is not a target such as sm_90a"));
    if (const int result = library_.Create(&link, options.line_info ? 4 : 3, flags); result != 0)
      return Diagnostic(Code::assembler_failed, Place{},
                        cat("nvJitLink ", version_, " does not take ", arch, " (error ", result, ")"));
    Expected<Cubin> cubin = assemble(link, ptx, options);
    library_.Destroy(&link);
    return cubin;
  }

 private:
  using Size = int (*)(Handle, std::size_t*);
  using Read = int (*)(Handle, char*);

  static std::string log(Handle link, Size size, Read read) {
    std::size_t bytes = 0;
    if (size(link, &bytes) != 0 || bytes == 0) return {};
    std::string text(bytes, '\0');
    if (read(link, text.data()) != 0) return {};
    return text.substr(0, text.find('\0'));
  }

  Expected<Cubin> assemble(Handle link, std::string_view ptx, const AssembleOptions& options) const {
    const std::string name = options.name + ".ptx", terminated(ptx);
    int result = library_.AddData(link, input_ptx, terminated.c_str(), terminated.size() + 1, name.c_str());
    if (result == 0) result = library_.Complete(link);
    const std::string errors = log(link, library_.GetErrorLogSize, library_.GetErrorLog);
    const std::string infos = log(link, library_.GetInfoLogSize, library_.GetInfoLog);
    Diagnostics said = read_log(errors, ptx, options);
    for (Diagnostic& remark : read_log(infos, ptx, options)) said.push_back(std::move(remark));
    Cubin cubin;
    std::size_t bytes = 0;
    if (result == 0) result = library_.GetLinkedCubinSize(link, &bytes);
    cubin.bytes.resize(bytes);
    if (result == 0) result = library_.GetLinkedCubin(link, cubin.bytes.data());
    if (result == 0) {
      cubin.remarks = std::move(said);
      cubin.log = errors + infos;
      return cubin;
    }
    if (!has_error(said))
      said.emplace_back(Code::assembler_failed, Place{}, cat("nvJitLink error ", result, ": ", errors));
    return said;
  }

  Library library_;
  std::string path_, version_;
};

std::string linker_version(void* handle, unsigned major) {
  unsigned found_major = major, minor = 0;
  using Version = int (*)(unsigned*, unsigned*);
  const auto version = reinterpret_cast<Version>(dlsym(handle, "nvJitLinkVersion"));
  if (version == nullptr || version(&found_major, &minor) != 0) return cat(major);
  return cat(found_major, ".", minor);
}

}  // namespace

std::vector<FoundAssembler> find_nvjitlink(const Search& search, const std::string& path) {
  std::vector<FoundAssembler> all;
  const auto look_at = [&](const std::string& file, unsigned major, bool named) {
    FoundAssembler found{Assembler::Kind::nvjitlink, file, nullptr, {}};
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    Library library;
    if (handle == nullptr)
      found.why_not = dlerror();
    else if (resolve(handle, major, library))
      found.assembler = std::make_shared<NvJitLink>(library, file, linker_version(handle, major));
    else
      found.why_not = cat(file, " lacks entry points of CUDA ", major, ".0");
    if (handle != nullptr || named) all.push_back(std::move(found));
  };
  if (!path.empty()) look_at(path, path.ends_with(".12") ? 12 : 13, true);
  for (const unsigned major : {13u, 12u}) {
    const std::string name = cat("libnvJitLink.so.", major);
    const std::vector<std::string> files = find_files(search, name, false);
    for (const std::string& file : files)
      if (file != path) look_at(file, major, true);
    if (search.system && files.empty()) look_at(name, major, false);  // wherever the loader finds it
  }
  newest_first(all);
  return all;
}

}  // namespace ptx::cuda
