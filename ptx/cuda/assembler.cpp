#include "ptx/cuda/assembler.h"

#include <charconv>

#include "ptx/base/text.h"

namespace ptx::cuda {
namespace {

struct Row {
  Release release;
  arch::Version ptx;
  std::uint16_t oldest;  // sm_
};

constexpr Row rows[] = {
#define CUDA_RELEASE(major, minor, ptx_major, ptx_minor, oldest) {{major, minor}, {ptx_major, ptx_minor}, oldest},
#include "ptx/cuda/releases.def"
#undef CUDA_RELEASE
};

const Row* row_of(Release release) {
  const Row* last = nullptr;
  for (const Row& row : rows)
    if (row.release <= release) last = &row;
  return last;
}

}  // namespace

Release release_of(std::string_view version) {
  Release release;
  const char* const end = version.data() + version.size();
  const auto major = std::from_chars(version.data(), end, release.major);
  if (major.ec != std::errc{} || major.ptr == end || *major.ptr != '.') return {};
  if (std::from_chars(major.ptr + 1, end, release.minor).ec != std::errc{}) return {};
  return release;
}

arch::Version newest_ptx(Release release) {
  const Row* row = row_of(release);
  return row != nullptr ? row->ptx : arch::Version{0, 0};
}

bool knows_target(Release release, std::string_view target) {
  const auto named = arch::target_named(target);
  const Row* row = row_of(release);
  if (!named || row == nullptr) return true;
  return named->number >= row->oldest && arch::first_version(*named) <= row->ptx;
}

bool loads(Release driver, Release assembler) { return assembler.major <= driver.major; }

std::string_view name_of(Assembler::Kind kind) {
  constexpr std::string_view names[] = {"ptxas", "driver", "nvjitlink"};
  return names[static_cast<int>(kind)];
}

std::string describe(const Assembler& assembler) {
  constexpr std::string_view names[] = {"ptxas", "the driver's JIT", "nvJitLink"};
  return cat(names[static_cast<int>(assembler.kind())], " ", assembler.version(), " (", assembler.path(), ")");
}

}  // namespace ptx::cuda
