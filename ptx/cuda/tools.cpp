#include "ptx/cuda/detail/tools.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "ptx/base/text.h"

extern char** environ;

namespace ptx::cuda {
namespace fs = std::filesystem;
namespace {

// Where the wheels put their files: CUDA 13 shares one folder, CUDA 12 has one a package, Triton carries its own tools.
constexpr std::string_view library_folders[] = {"nvidia/cu13/lib", "nvidia/nvjitlink/lib"};
constexpr std::string_view program_folders[] = {"nvidia/cu13/bin", "nvidia/cuda_nvcc/bin", "nvidia/cuda_nvdisasm/bin",
                                                "triton/backends/nvidia/bin"};

void add_if_there(std::vector<std::string>& found, const fs::path& path) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) found.push_back(path.string());
}

}  // namespace

std::vector<std::string> find_files(const Search& search, std::string_view name, bool program) {
  std::vector<std::string> found;
  for (const fs::path root : search.packages) {
    if (program)
      for (const std::string_view folder : program_folders) add_if_there(found, root / folder / name);
    else
      for (const std::string_view folder : library_folders) add_if_there(found, root / folder / name);
  }
  if (!search.system) return found;
  if (program) {
    const char* path = std::getenv("PATH");
    for (std::string_view rest = path != nullptr ? path : ""; !rest.empty();) {
      const auto colon = rest.find(':');
      if (colon != 0) add_if_there(found, fs::path(rest.substr(0, colon)) / name);
      rest.remove_prefix(colon == rest.npos ? rest.size() : colon + 1);
    }
  }
  add_if_there(found, fs::path("/usr/local/cuda") / (program ? "bin" : "lib64") / name);
  return found;
}

Expected<Finished> run_program(const std::vector<std::string>& arguments, Code code) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Diagnostic(code, Place{}, cat("no pipe: ", std::strerror(errno)));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  pid_t child = 0;
  const int failed = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  Finished finished;
  char buffer[4096];
  for (ssize_t got = 0; failed == 0; finished.output.append(buffer, static_cast<std::size_t>(got))) {
    do got = read(ends[0], buffer, sizeof buffer);
    while (got < 0 && errno == EINTR);
    if (got <= 0) break;
  }
  close(ends[0]);
  if (failed != 0) return Diagnostic(code, Place{}, cat(arguments[0], " does not start: ", std::strerror(failed)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  finished.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

Scratch::Scratch() {
  std::error_code failed;
  std::string pattern = (fs::temp_directory_path(failed) / "pyptx-XXXXXX").string();
  if (!failed && mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

std::string Scratch::file(std::string_view name) const { return cat(folder_, "/", name); }

bool write_file(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return static_cast<bool>(file.flush());
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace ptx::cuda
