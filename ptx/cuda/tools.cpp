#include "ptx/cuda/detail/tools.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>

#include "ptx/base/text.h"

extern char** environ;

namespace ptx::cuda {
namespace fs = std::filesystem;
namespace {

// Where the wheels put their files: CUDA 13 shares one folder, CUDA 12 has one a package, Triton carries its own tools.
constexpr std::string_view library_folders[] = {"nvidia/cu13/lib", "nvidia/nvjitlink/lib"};
constexpr std::string_view program_folders[] = {"nvidia/cu13/bin", "nvidia/cuda_nvcc/bin", "nvidia/cuda_nvdisasm/bin",
                                                "triton/backends/nvidia/bin"};
constexpr std::size_t most_output = std::size_t{16} << 20;

// /usr/local/cuda, /usr/local/cuda-13.0, ...
std::vector<fs::path> toolkits() {
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator at("/usr/local", failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (name == "cuda" || name.starts_with("cuda-")) found.push_back(at->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> folders_of_path() {
  std::vector<fs::path> found;
  const char* path = std::getenv("PATH");
  for (std::string_view rest = path != nullptr ? path : ""; !rest.empty();) {
    const auto colon = rest.find(':');
    if (colon != 0) found.emplace_back(rest.substr(0, colon));
    rest.remove_prefix(colon == rest.npos ? rest.size() : colon + 1);
  }
  return found;
}

std::int64_t now() {  // microseconds
  using namespace std::chrono;
  return duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::vector<std::string> find_files(const Search& search, std::string_view name, bool program) {
  std::vector<std::string> found, seen;
  const auto add = [&](const fs::path& path) {
    std::error_code missing;
    const std::string real = fs::canonical(path, missing).string();
    if (missing || !fs::is_regular_file(path, missing)) return;
    if (std::find(seen.begin(), seen.end(), real) != seen.end()) return;
    seen.push_back(real);
    found.push_back(path.string());
  };
  const std::span<const std::string_view> folders =
      program ? std::span<const std::string_view>(program_folders) : std::span<const std::string_view>(library_folders);
  for (const fs::path root : search.packages)
    for (const std::string_view folder : folders) add(root / folder / name);
  if (!search.system) return found;
  if (program) {
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
      if (const char* toolkit = std::getenv(variable); toolkit != nullptr) add(fs::path(toolkit) / "bin" / name);
    for (const fs::path& folder : folders_of_path()) add(folder / name);
  }
  for (const fs::path& toolkit : toolkits()) add(toolkit / (program ? "bin" : "lib64") / name);
  return found;
}

Child::Child(std::vector<std::string> arguments) : program_(arguments.front()) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    failure_ = cat("no pipe: ", std::strerror(errno));
    return;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  const int failed = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  output_ = ends[0];
  if (failed != 0) pid_ = 0, failure_ = cat(program_, " does not start: ", std::strerror(failed));
}

Child::Child(Child&& other) noexcept
    : program_(std::move(other.program_)),
      failure_(std::move(other.failure_)),
      pid_(std::exchange(other.pid_, 0)),
      output_(std::exchange(other.output_, -1)) {}

Child::~Child() {
  if (pid_ != 0) wait_until(0);
  if (output_ >= 0) close(output_);
}

// The status as of waitpid; the child is killed at the deadline.
int Child::wait_until(std::int64_t deadline) {
  int status = 0;
  const pid_t child = std::exchange(pid_, 0);
  for (unsigned pause = 20;; pause = std::min(2 * pause, 5000u)) {
    const bool late = now() >= deadline;
    if (late) kill(child, SIGKILL);
    const pid_t ended = waitpid(child, &status, late ? 0 : WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) return status;
    usleep(pause);
  }
}

Expected<Finished> Child::finish(Code code, double seconds) {
  if (!failure_.empty()) return Diagnostic(code, Place{}, failure_);
  const std::int64_t deadline = now() + static_cast<std::int64_t>(seconds * 1e6);
  Finished finished;
  char buffer[4096];
  for (;;) {
    pollfd waiting{output_, POLLIN, 0};
    const std::int64_t left = std::max<std::int64_t>(deadline - now(), 0);
    const int ready = poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left / 1000 + 1, 1 << 30)));
    if (ready <= 0 && now() >= deadline) break;
    if (ready <= 0) continue;
    const ssize_t got = read(output_, buffer, sizeof buffer);
    if (got == 0 || (got < 0 && errno != EINTR)) break;
    if (got > 0 && finished.output.size() < most_output) finished.output.append(buffer, static_cast<std::size_t>(got));
  }
  const int status = wait_until(deadline);
  if (WIFSIGNALED(status) && now() >= deadline)
    return Diagnostic(code, Place{},
                      cat(program_, " has not ended after ", Text().real(seconds).view(), " s and was stopped"));
  finished.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

Expected<Finished> run_program(std::vector<std::string> arguments, Code code, double seconds) {
  return Child(std::move(arguments)).finish(code, seconds);
}

Scratch::Scratch() {
  std::error_code failed;
  where_ = fs::temp_directory_path(failed).string();
  if (failed) where_ = "($TMPDIR is no folder)";
  std::string pattern = where_ + "/pyptx-XXXXXX";
  if (!failed && mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

std::string Scratch::file(std::string_view name) const { return cat(folder_, "/", name); }

void newest_first(std::vector<FoundAssembler>& found) {
  using Numbers = std::array<int, 3>;
  const auto numbers = [](const FoundAssembler& one) {
    Numbers all{-1, 0, 0};
    if (one.assembler == nullptr) return all;
    const std::string& version = one.assembler->version();
    const char *at = version.data(), *const end = at + version.size();
    for (int& number : all) {
      at = std::from_chars(at, end, number).ptr;
      if (at != end) ++at;
    }
    return all;
  };
  const auto newer = [&](const FoundAssembler& a, const FoundAssembler& b) { return numbers(a) > numbers(b); };
  // By insertion, which keeps equals in order: std::stable_sort warns with clang and the library of g++ 12.
  for (auto at = found.begin(); at != found.end(); ++at)
    std::rotate(std::upper_bound(found.begin(), at, *at, newer), at, at + 1);
}

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
