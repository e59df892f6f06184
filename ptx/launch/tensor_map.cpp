#include "ptx/launch/tensor_map.h"

#include "ptx/base/text.h"

namespace ptx::launch {
namespace {

constexpr std::uint64_t column_block = 64;  // elements of one block of a column-blocked view
constexpr std::uint32_t padded_block = 72;  // the same block with padding against bank conflicts

Diagnostic refuse(std::string message) { return Diagnostic(Code::tensor_map_rule, Place{}, std::move(message)); }

std::uint32_t swizzle_bytes(TensorMapRecipe::Swizzle swizzle) {
  return swizzle == TensorMapRecipe::Swizzle::none ? 0u : 16u << static_cast<int>(swizzle);
}

// A row-major {rows, columns} matrix seen as {64, rows, columns / 64}.
Expected<Done> view_by_column_blocks(const Buffer& buffer, std::uint64_t element_bytes, TensorMapGeometry& map) {
  if (buffer.shape.size() != 2)
    return refuse(cat("a view by column blocks needs a tensor of rank 2, not ", buffer.shape.size()));
  const auto columns = static_cast<std::uint64_t>(buffer.shape[1]);
  if (columns % column_block != 0)
    return refuse(cat("a view by column blocks needs a multiple of 64 columns, not ", columns));
  map.rank = 3;
  map.dimensions = {column_block, static_cast<std::uint64_t>(buffer.shape[0]), columns / column_block, 1, 1};
  map.strides = {element_bytes, static_cast<std::uint64_t>(buffer.strides[0]) * element_bytes,
                 column_block * element_bytes, 0, 0};
  return Done{};
}

Expected<Done> view_as_is(const TensorMapRecipe& recipe, const Buffer& buffer, std::uint64_t element_bytes,
                          TensorMapGeometry& map) {
  const std::size_t rank = buffer.shape.size();
  if (rank == 0 || rank > 5) return refuse(cat("a tensor map has rank 1 to 5, this tensor has ", rank));
  if (recipe.rank != rank) return refuse(cat("the tensor map has rank ", recipe.rank, ", the tensor has ", rank));
  map.rank = recipe.rank;
  for (std::size_t i = 0; i < rank; ++i) {
    map.dimensions[i] = static_cast<std::uint64_t>(buffer.shape[rank - 1 - i]);
    map.strides[i] = static_cast<std::uint64_t>(buffer.strides[rank - 1 - i]) * element_bytes;
  }
  return Done{};
}

Expected<Done> check_memory(const TensorMapGeometry& map, std::uint64_t element_bytes, const Buffer& buffer) {
  if (reinterpret_cast<std::uintptr_t>(buffer.data) % 16 != 0)
    return refuse("a tensor map needs data aligned to 16 bytes");
  if (map.strides[0] != element_bytes && map.dimensions[0] > 1)
    return refuse(cat("a tensor map needs an innermost stride of 1 element, not ", map.strides[0] / element_bytes));
  for (std::uint32_t i = 0; i < map.rank; ++i) {
    if (map.dimensions[i] == 0 || map.dimensions[i] > (std::uint64_t{1} << 32))
      return refuse(cat("a dimension of a tensor map has 1 to 2^32 elements, not ", map.dimensions[i]));
    if (i != 0 && (map.strides[i] % 16 != 0 || map.strides[i] >= (std::uint64_t{1} << 40)))
      return refuse(cat("the strides of a tensor map are multiples of 16 bytes below 2^40, not ", map.strides[i]));
  }
  return Done{};
}

Expected<Done> check_box(const TensorMapGeometry& map, std::uint64_t element_bytes, TensorMapRecipe::Swizzle swizzle) {
  for (std::uint32_t i = 0; i < map.rank; ++i)
    if (map.box[i] == 0 || map.box[i] > 256)
      return refuse(cat("a box has 1 to 256 elements a dimension, not ", map.box[i]));
  const std::uint64_t inner = map.box[0] * element_bytes;
  if (inner % 16 != 0) return refuse(cat("the inner dimension of a box is a multiple of 16 bytes, not ", inner));
  if (const std::uint32_t span = swizzle_bytes(swizzle); span != 0 && inner > span)
    return refuse(cat("a ", span, "-byte swizzle takes an inner box of at most ", span, " bytes, not ", inner));
  return Done{};
}

}  // namespace

Expected<TensorMapGeometry> geometry(const TensorMapRecipe& recipe, Element element, const Buffer& buffer) {
  const std::uint64_t element_bytes = bytes(element);
  TensorMapGeometry map;
  const auto viewed = recipe.column_blocks ? view_by_column_blocks(buffer, element_bytes, map)
                                           : view_as_is(recipe, buffer, element_bytes, map);
  if (!viewed) return viewed.why();
  for (std::uint32_t i = 0; i < map.rank; ++i) map.box[i] = recipe.box[i];
  if (recipe.column_blocks && recipe.padding) map.box[0] = padded_block;
  if (const auto memory = check_memory(map, element_bytes, buffer); !memory) return memory.why();
  if (const auto box = check_box(map, element_bytes, recipe.swizzle); !box) return box.why();
  return map;
}

}  // namespace ptx::launch
