#include "ptx/cuda/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <unordered_map>
#include <vector>

#include "ptx/base/sha256.h"
#include "ptx/base/text.h"
#include "ptx/cuda/detail/tools.h"

namespace ptx::cuda {
namespace fs = std::filesystem;
namespace {

// A file: magic, the hash of (key, all that follows), 8 bytes with the size of the log, the log, the cubin.
constexpr std::string_view magic = "ptxcub2\n";
constexpr std::size_t header = magic.size() + sizeof(Digest) + 8;
constexpr std::string_view suffix = ".cubin";
constexpr auto stale = std::chrono::hours(1);  // of a file that is being written

Digest digest_of(const std::string& key, std::string_view rest) { return sha256(cat(key, "\n", rest)); }

struct File {
  fs::path path;
  std::uint64_t bytes = 0;
  fs::file_time_type used;
};

// Entries of a folder. Skips files that another process removes meanwhile, and removes what writers that died have
// left.
std::vector<File> files_of(const std::string& folder) {
  std::vector<File> files;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    File file{at->path(), 0, {}};
    std::error_code gone;
    if (!at->is_regular_file(gone)) continue;
    file.bytes = at->file_size(gone);
    file.used = at->last_write_time(gone);
    if (gone) continue;
    if (file.path.extension() == suffix)
      files.push_back(std::move(file));
    else if (file.path.extension() == ".tmp" && fs::file_time_type::clock::now() - file.used > stale)
      fs::remove(file.path, gone);
  }
  return files;
}

bool write_whole(const std::string& path, std::string_view bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return false;
  bool good = true;
  while (good && !bytes.empty()) {
    const ssize_t wrote = ::write(file, bytes.data(), bytes.size());
    good = wrote > 0 || (wrote < 0 && errno == EINTR);
    if (wrote > 0) bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return (close(file) == 0) && good;
}

}  // namespace

std::string CubinCache::key(const Assembler& assembler, std::string_view ptx, std::string_view target, bool line_info) {
  return hexadecimal(sha256(cat(magic, name_of(assembler.kind()), "\n", assembler.version(), "\n", target, "\n",
                                line_info ? "lines" : "plain", "\n", ptx)));
}

std::string CubinCache::path(const std::string& key) const {
  return cat(folder_, "/", key.substr(0, 2), "/", key.substr(2), suffix);
}

std::optional<Cubin> CubinCache::read(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const std::string at = path(key), bytes = read_file(at);
  if (bytes.empty()) return std::nullopt;
  const std::string_view rest = std::string_view(bytes).substr(std::min(bytes.size(), magic.size() + sizeof(Digest)));
  std::uint64_t log = 0;
  bool good = bytes.size() > header && bytes.starts_with(magic);
  if (good) {
    const Digest digest = digest_of(key, rest);
    good = std::memcmp(bytes.data() + magic.size(), digest.data(), digest.size()) == 0;
    std::memcpy(&log, rest.data(), sizeof log);
  }
  if (!good || log > rest.size() - 8) {
    unlink(at.c_str());
    return std::nullopt;
  }
  // The time of the last use, for trim(); it is written once a day at most.
  struct stat facts{};
  if (stat(at.c_str(), &facts) == 0 && time(nullptr) - facts.st_mtime > 86400)
    utimensat(AT_FDCWD, at.c_str(), nullptr, 0);
  Cubin cubin;
  cubin.log = rest.substr(8, log);
  const std::string_view image = rest.substr(8 + log);
  cubin.bytes.assign(reinterpret_cast<const std::byte*>(image.data()),
                     reinterpret_cast<const std::byte*>(image.data()) + image.size());
  return cubin;
}

bool CubinCache::write(const std::string& key, const Cubin& cubin) const {
  if (folder_.empty()) return false;
  const std::string at = path(key);
  std::error_code failed;
  fs::create_directories(fs::path(at).parent_path(), failed);
  if (failed) return false;
  const std::uint64_t log = cubin.log.size();
  std::string rest(reinterpret_cast<const char*>(&log), sizeof log);
  rest += cubin.log;
  rest.append(reinterpret_cast<const char*>(cubin.bytes.data()), cubin.bytes.size());
  const Digest digest = digest_of(key, rest);
  const std::string content =
      cat(magic, std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()), rest);
  static std::atomic<unsigned> written{0};
  const unsigned turn = written++;
  const std::string temporary = cat(at, ".", getpid(), ".", turn, ".tmp");
  if (!write_whole(temporary, content) || std::rename(temporary.c_str(), at.c_str()) != 0) {
    unlink(temporary.c_str());
    return false;
  }
  if (turn % 64 == 0) trim(most_bytes_);  // listing the folder costs: the bound may be passed by what 64 writes add
  return true;
}

CubinCache::Status CubinCache::status() const {
  Status found{folder_, 0, 0, most_bytes_};
  if (folder_.empty()) return found;
  for (const File& file : files_of(folder_)) ++found.entries, found.bytes += file.bytes;
  return found;
}

std::uint64_t CubinCache::trim(std::uint64_t most_bytes) const {
  if (folder_.empty()) return 0;
  std::vector<File> files = files_of(folder_);
  std::uint64_t bytes = 0, removed = 0;
  for (const File& file : files) bytes += file.bytes;
  if (bytes <= most_bytes) return 0;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    if (bytes <= most_bytes) break;
    std::error_code failed;
    removed += fs::remove(file.path, failed);
    bytes -= file.bytes;
  }
  return removed;
}

const CubinCache& cubin_cache() {
  static const CubinCache& cache = *new CubinCache([] {
    const auto variable = [](const char* name) { return std::getenv(name); };
    std::string folder;
    if (const char* own = variable("PYPTX_CACHE_DIR"))
      folder = own;
    else if (const char* caches = variable("XDG_CACHE_HOME"); caches != nullptr && *caches != '\0')
      folder = cat(caches, "/pyptx");
    else if (const char* home = variable("HOME"); home != nullptr && *home != '\0')
      folder = cat(home, "/.cache/pyptx");
    std::uint64_t bytes = std::uint64_t{1} << 30;
    if (const char* most = variable("PYPTX_CACHE_BYTES")) std::from_chars(most, most + std::strlen(most), bytes);
    return CubinCache(folder.empty() ? folder : folder + "/cubin", bytes);
  }());
  return cache;
}

Expected<std::shared_ptr<const Cubin>> assemble_cached(const Assembler& assembler, std::string_view ptx,
                                                       std::string_view target, const AssembleOptions& options,
                                                       const CubinCache* disk) {
  static std::mutex& mutex = *new std::mutex;
  static auto& made = *new std::unordered_map<std::string, std::shared_ptr<const Cubin>>;
  std::string key = CubinCache::key(assembler, ptx, target, options.line_info);
  {
    std::lock_guard lock(mutex);
    if (const auto found = made.find(key); found != made.end()) return found->second;
  }
  std::optional<Cubin> cubin = disk != nullptr ? disk->read(key) : std::nullopt;
  if (cubin) {
    cubin->remarks = read_log(cubin->log, ptx, options);
  } else {
    auto assembled = assembler.assemble(ptx, target, options);  // two threads may both: no harm but the time
    if (!assembled) return assembled.why();
    cubin = std::move(assembled).value();
    if (disk != nullptr) disk->write(key, *cubin);
  }
  auto shared = std::make_shared<const Cubin>(std::move(*cubin));
  std::lock_guard lock(mutex);
  return made.emplace(std::move(key), std::move(shared)).first->second;
}

}  // namespace ptx::cuda
