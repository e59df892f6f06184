// The invented libcuda of tests/cuda/fake, for tests of the whole path to a launch.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace ptx::interop {

inline bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

struct Fake {
  void* library = dlopen(FAKE_CUDA, RTLD_NOW);
  Fake() {  // before the first CUDA tensor of the process
    setenv("PYPTX_LIBCUDA", FAKE_CUDA, 1);
    setenv("PYPTX_CACHE_DIR", "", 1);
  }
  std::string journal() { return reinterpret_cast<const char* (*)()>(dlsym(library, "fake_journal"))(); }
};

}  // namespace ptx::interop
