#include "ptx/launch/tensor_map.h"

#include "ptx/base/text.h"

namespace ptx::launch {
namespace {

using arch::info;

constexpr std::uint64_t column_block = 64;  // elements of one block of a column-blocked view
constexpr std::uint32_t padded_block = 72;  // the same block with padding against bank conflicts
constexpr int type_16u4_align16 = 14;       // CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B
constexpr int type_16u6_align16 = 15;       // CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B

Diagnostic refuse(std::string message) { return Diagnostic(Code::tensor_map_rule, Place{}, std::move(message)); }

// 16 values below a byte that fill 16 bytes of shared memory, some of them padding.
bool is_spread(const TensorMapGeometry& map) { return map.type == type_16u4_align16 || map.type == type_16u6_align16; }

// The type that the engine reads the bytes as, and how many of its values an element of the tensor is.
Expected<Done> choose_type(const TensorMapRecipe& recipe, Element tensor, TensorMapGeometry& map) {
  map.element = recipe.element.value_or(tensor == Element::e2m1x2 ? Element::e2m1 : tensor);
  const arch::ElementInfo& read = info(map.element);
  if (read.map == arch::no_code)
    return refuse(cat("tma_dtype: the copy engine has no type for elements of ", read.name));
  if (read.lanes != 1)
    return refuse(cat("tma_dtype = ", read.name, ": a map counts single values; write the type of one"));
  if (read.bits >= 8 && recipe.element && read.bits > info(tensor).bits)
    return refuse(cat("tma_dtype = ", read.name, " is wider than the tensor's elements, ", info(tensor).name));
  if (recipe.spread && read.bits != 4)
    return refuse(cat("tma_spread: only 4-bit elements are spread, not ", read.name));
  map.type = recipe.spread ? type_16u4_align16 : read.map;
  return Done{};
}

std::uint64_t values_of(std::uint64_t count, Element tensor, const TensorMapGeometry& map) {
  return count * info(tensor).bits / info(map.element).bits;
}

Expected<Done> check_innermost(const Buffer& buffer) {
  if (buffer.strides.back() == 1 || buffer.shape.back() <= 1) return Done{};
  return refuse(cat("a tensor map needs an innermost stride of 1 element, not ", buffer.strides.back()));
}

// A row-major {rows, columns} matrix seen as {64, rows, columns / 64}.
Expected<Done> view_by_column_blocks(const Buffer& buffer, Element tensor, TensorMapGeometry& map) {
  if (buffer.shape.size() != 2)
    return refuse(cat("a view by column blocks needs a tensor of rank 2, not ", buffer.shape.size()));
  if (auto packed = check_innermost(buffer); !packed) return packed;
  if (info(map.element).bits < 8)
    return refuse(cat("a view by column blocks needs elements of whole bytes, not ", info(map.element).name));
  const std::uint64_t columns = values_of(static_cast<std::uint64_t>(buffer.shape[1]), tensor, map);
  if (columns % column_block != 0)
    return refuse(cat("a view by column blocks needs a multiple of 64 columns, not ", columns));
  const std::uint64_t bytes = info(map.element).bits / 8;
  map.rank = 3;
  map.dimensions = {column_block, static_cast<std::uint64_t>(buffer.shape[0]), columns / column_block, 1, 1};
  map.strides = {bytes, arch::bytes(tensor, static_cast<std::uint64_t>(buffer.strides[0])), column_block * bytes, 0, 0};
  return Done{};
}

Expected<Done> view_as_is(const TensorMapRecipe& recipe, const Buffer& buffer, Element tensor, TensorMapGeometry& map) {
  const std::size_t rank = buffer.shape.size();
  if (rank == 0 || rank > 5) return refuse(cat("a tensor map has rank 1 to 5, this tensor has ", rank));
  if (recipe.rank != rank) return refuse(cat("the tensor map has rank ", recipe.rank, ", the tensor has ", rank));
  map.rank = recipe.rank;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t axis = rank - 1 - i;
    const std::int64_t stride = buffer.strides[axis];
    if (stride < 0) return refuse(cat("the strides of a tensor map are not negative: ", stride, " elements"));
    map.dimensions[i] = static_cast<std::uint64_t>(buffer.shape[axis]);
    map.strides[i] = arch::bytes(tensor, static_cast<std::uint64_t>(stride));
    if (i != 0 && static_cast<std::uint64_t>(stride) * info(tensor).bits % 8 != 0)
      return refuse(
          cat("the strides of a tensor map are whole bytes, not ", stride, " elements of ", info(tensor).name));
  }
  if (auto packed = check_innermost(buffer); !packed) return packed;
  map.dimensions[0] = values_of(map.dimensions[0], tensor, map);
  map.strides[0] = info(map.element).bits / 8;
  return Done{};
}

// Alignment of the address and the strides, in bytes.
std::uint64_t unit(const TensorMapRecipe& recipe, const TensorMapGeometry& map) {
  return recipe.interleave == Interleave::b32 || is_spread(map) ? 32 : 16;
}

Expected<Done> check_memory(const TensorMapRecipe& recipe, const TensorMapGeometry& map, const Buffer& buffer) {
  const std::uint64_t aligned = unit(recipe, map);
  if (reinterpret_cast<std::uintptr_t>(buffer.data) % aligned != 0)
    return refuse(cat("a tensor map needs data aligned to ", aligned, " bytes",
                      aligned == 16 ? "" : " where elements are spread or interleaved by 32 bytes"));
  for (std::uint32_t i = 0; i < map.rank; ++i) {
    if (map.dimensions[i] == 0 || map.dimensions[i] > (std::uint64_t{1} << 32))
      return refuse(cat("a dimension of a tensor map has 1 to 2^32 elements, not ", map.dimensions[i]));
    if (i != 0 && (map.strides[i] % aligned != 0 || map.strides[i] >= (std::uint64_t{1} << 40)))
      return refuse(
          cat("the strides of a tensor map are multiples of ", aligned, " bytes below 2^40, not ", map.strides[i]));
  }
  if (is_spread(map) && map.dimensions[0] % 128 != 0)
    return refuse(cat("the innermost dimension of spread elements is a multiple of 128, not ", map.dimensions[0]));
  if (info(map.element).bits == 4 && map.dimensions[0] % 2 != 0)
    return refuse(cat("the innermost dimension of 4-bit elements is even, not ", map.dimensions[0]));
  return Done{};
}

Expected<Done> check_modes(const TensorMapRecipe& recipe, const TensorMapGeometry& map) {
  for (std::uint32_t i = 0; i < map.rank; ++i)
    if (recipe.element_strides[i] == 0 || recipe.element_strides[i] > 8)
      return refuse(cat("tma_element_strides: 1 to 8, not ", recipe.element_strides[i]));
  if (recipe.interleave == Interleave::none && recipe.element_strides[0] != 1)
    return refuse(cat("tma_element_strides: the innermost has no stride without tma_interleave, it is 1, not ",
                      recipe.element_strides[0]));
  if (recipe.interleave != Interleave::none && map.rank < 3)
    return refuse(cat("tma_interleave needs a tensor of rank 3 to 5, not ", map.rank));
  if (recipe.interleave == Interleave::b32 && recipe.swizzle != Swizzle::b32)
    return refuse(cat("tma_interleave = 32B goes with a swizzle of 32B alone, not ", arch::name(recipe.swizzle)));
  const arch::ElementInfo& read = info(map.element);
  if (recipe.fill == TensorMapRecipe::Fill::nan && (read.kind != 'f' || read.bits < 16))
    return refuse(cat("tma_fill = nan is for f16, bf16, tf32, f32 and f64, not ", read.name));
  if (is_spread(map) && recipe.swizzle != Swizzle::none && info(recipe.swizzle).bytes != 128)
    return refuse(cat("spread elements take a swizzle of 128 bytes or none, not ", arch::name(recipe.swizzle)));
  if (is_spread(map) && recipe.interleave != Interleave::none) return refuse("tma_interleave: not of spread elements");
  return Done{};
}

// Bytes of shared memory that a row of so many values takes.
std::uint64_t row_bytes(const TensorMapGeometry& map, std::uint64_t values) {
  return is_spread(map) ? values : values * info(map.element).bits / 8;
}

// Of the innermost dimension of a box, or of the channels of im2col, which fill its place.
Expected<Done> check_row(const TensorMapRecipe& recipe, const TensorMapGeometry& map, std::string_view what,
                         std::uint64_t values) {
  const std::uint64_t bytes = row_bytes(map, values);
  if (is_spread(map) && values != 128) return refuse(cat(what, ": 128 for spread elements, not ", values));
  if (recipe.interleave == Interleave::none && (bytes % 16 != 0 || values * info(map.element).bits % 8 != 0))
    return refuse(cat(what, " is a multiple of 16 bytes, not ", bytes));
  if (const std::uint32_t span = info(recipe.swizzle).bytes;
      span != 0 && recipe.interleave == Interleave::none && bytes > span)
    return refuse(cat("a ", span, "-byte swizzle takes an inner box of at most ", span, " bytes, not ", bytes));
  return Done{};
}

Expected<Done> check_box(const TensorMapRecipe& recipe, const TensorMapGeometry& map) {
  for (std::uint32_t i = 0; i < map.rank; ++i)
    if (map.box[i] == 0 || map.box[i] > 256)
      return refuse(cat("tma_box: a box has 1 to 256 elements a dimension, not ", map.box[i]));
  return check_row(recipe, map, "tma_box: the inner dimension of a box", map.box[0]);
}

// Offsets of the corners have 16 bits for one spatial dimension, 8 for two, 5 for three.
Expected<Done> check_im2col(const TensorMapRecipe& recipe, const TensorMapGeometry& map) {
  const TensorMapRecipe::Im2col& asked = recipe.im2col;
  if (map.rank < 3) return refuse(cat("tma_im2col needs a tensor of rank 3 to 5, not ", map.rank));
  if (recipe.column_blocks) return refuse("tma_im2col: not of a view by column blocks");
  const int spatial = static_cast<int>(map.rank) - 2, most = spatial == 1 ? 32767 : spatial == 2 ? 127 : 15;
  for (int i = 0; i < spatial; ++i) {
    const auto at = static_cast<std::size_t>(i);
    for (const std::int32_t offset : {asked.lower[at], asked.upper[at]})
      if (offset < -most - 1 || offset > most)
        return refuse(cat("tma_im2col: corners of a tensor of rank ", map.rank, " are ", -most - 1, " to ", most,
                          ", not ", offset));
    const auto size = static_cast<std::int64_t>(map.dimensions[at + 1]);
    if (size + asked.upper[at] - asked.lower[at] <= 0)
      return refuse(cat("tma_im2col: no pixel lies between the corners ", asked.lower[at], " and ", asked.upper[at],
                        " of a dimension of ", size));
  }
  if (asked.channels > 256) return refuse(cat("tma_im2col: 1 to 256 channels, not ", asked.channels));
  if (asked.pixels == 0 || asked.pixels > 1024)
    return refuse(cat("tma_im2col: 1 to 1024 pixels a column, not ", asked.pixels));
  return check_row(recipe, map, "tma_im2col: channels", asked.channels);
}

}  // namespace

Expected<TensorMapGeometry> geometry(const TensorMapRecipe& recipe, Element element, const Buffer& buffer) {
  TensorMapGeometry map;
  if (const auto chosen = choose_type(recipe, element, map); !chosen) return chosen.why();
  const auto viewed =
      recipe.column_blocks ? view_by_column_blocks(buffer, element, map) : view_as_is(recipe, buffer, element, map);
  if (!viewed) return viewed.why();
  for (std::uint32_t i = 0; i < map.rank; ++i) map.box[i] = recipe.box[i];
  if (recipe.column_blocks && recipe.padding) map.box[0] = padded_block;
  if (const auto memory = check_memory(recipe, map, buffer); !memory) return memory.why();
  if (const auto modes = check_modes(recipe, map); !modes) return modes.why();
  const auto copied = recipe.im2col.channels != 0 ? check_im2col(recipe, map) : check_box(recipe, map);
  if (!copied) return copied.why();
  return map;
}

}  // namespace ptx::launch
