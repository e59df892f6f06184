#include "ptx/ahead/export.h"

#include <fstream>
#include <iterator>
#include <system_error>

#include "ptx/author/value_or_throw.h"
#include "ptx/base/text.h"
#include "ptx/cuda/assemblers.h"
#include "ptx/cuda/cache.h"

namespace ptx::ahead {
namespace {

using author::value_or_throw;

Image assembled(const interop::Program& program, const std::string& target) {
  const launch::Record& record = program.record();
  const auto assembler = value_or_throw(cuda::choose_assembler(program.text(), target, record.assembler));
  const cuda::AssembleOptions options{record.lines, record.entry, false};
  const auto cubin =
      value_or_throw(cuda::assemble_cached(*assembler, program.text(), target, options, &cuda::cubin_cache()));
  return {target, cubin->bytes, false};
}

std::string read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

std::vector<File> sources(const interop::Program& program, const Options& options) {
  const launch::Record& record = program.record();
  const std::uint32_t numbers[] = {record.grid.x, record.grid.y, record.grid.z};
  Variant variant;
  variant.record = record;
  for (std::size_t i = 0; i < 3; ++i) variant.grid[i] = options.grid[i].empty() ? cat(numbers[i]) : options.grid[i];
  const std::vector<std::string> own{record.target};
  for (const std::string& target : options.targets.empty() ? own : options.targets)
    variant.images.push_back(assembled(program, target));
  if (options.ptx && record.target.back() >= '0' && record.target.back() <= '9') {
    const auto* text = reinterpret_cast<const std::byte*>(program.text().data());
    variant.images.push_back({record.target, {text, text + program.text().size()}, true});
  }
  Kernel kernel;
  kernel.name = options.name.empty() ? record.entry : options.name;
  kernel.variants.push_back(std::move(variant));
  return value_or_throw(write(kernel, options.flavours));
}

std::vector<std::filesystem::path> save(const interop::Program& program, const std::filesystem::path& folder,
                                        const Options& options) {
  std::vector<std::filesystem::path> paths;
  const std::vector<File> files = sources(program, options);
  std::filesystem::create_directories(folder);
  for (const File& file : files) {
    paths.push_back(folder / file.name);
    if (std::filesystem::exists(paths.back()) && read(paths.back()) == file.text) continue;
    std::ofstream out(paths.back(), std::ios::binary);
    if (!(out << file.text).flush())
      throw std::filesystem::filesystem_error("cannot write", paths.back(), std::make_error_code(std::errc::io_error));
  }
  return paths;
}

}  // namespace ptx::ahead
