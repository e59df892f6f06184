// Cubins on disk, by content: the name of an entry is the hash of all that its bytes depend on. Any number of processes
// may use one folder: an entry is published by renaming a finished file, is checked against its own hash when it is
// read, and a damaged one is a miss. No lock, and nothing depends on seeing another process' files soon.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ptx/cuda/assembler.h"

namespace ptx::cuda {

class CubinCache {
 public:
  // An empty folder: nothing is kept. The folder is made when the first entry is written.
  CubinCache(std::string folder, std::uint64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  // The entry's name for this text, target, options and assembler.
  static std::string key(const Assembler& assembler, std::string_view ptx, std::string_view target, bool line_info);

  // A cubin with its log (remarks are for the caller to read off it); nothing where there is none, or a damaged one,
  // which is removed.
  std::optional<Cubin> read(const std::string& key) const;
  // False where it could not be written: a cache that cannot is no error. Trims now and then.
  bool write(const std::string& key, const Cubin& cubin) const;

  struct Status {
    std::string folder;
    std::uint64_t entries = 0, bytes = 0, most_bytes = 0;
  };
  Status status() const;
  std::uint64_t trim(std::uint64_t most_bytes) const;  // least recently used first; how many entries went
  std::uint64_t clear() const { return trim(0); }

 private:
  std::string path(const std::string& key) const;

  std::string folder_;
  std::uint64_t most_bytes_;
};

// The process' own: $PYPTX_CACHE_DIR (empty: none), else pyptx/ in $XDG_CACHE_HOME or ~/.cache; at most
// $PYPTX_CACHE_BYTES (1 GiB) of it.
const CubinCache& cubin_cache();

// Assembles, or finds what was assembled: in the process, then on disk. Calls from several threads are safe.
Expected<std::shared_ptr<const Cubin>> assemble_cached(const Assembler& assembler, std::string_view ptx,
                                                       std::string_view target, const AssembleOptions& options,
                                                       const CubinCache* disk);

}  // namespace ptx::cuda
