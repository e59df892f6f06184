/* The geometry of a tensor map, and the rules that it must keep: C99 and C++20 alike. launch/tensor_map.cpp is compiled
   with it, and exported kernels (ptx/ahead) have its text, so that both compute and refuse the same. It includes
   nothing: who has it brings stdarg.h, stdint.h and stdio.h. */
#pragma once

enum { map_blocked_columns = 64, map_padded_columns = 72 }; /* of a view by column blocks */
enum { map_16u4_align16 = 14, map_16u6_align16 = 15 };      /* CU_TENSOR_MAP_DATA_TYPE_... */
enum { map_why_bytes = 320 };

/* What launch::TensorMapRecipe asks of the tensors of one argument. Arrays are innermost dimension first. */
typedef struct {
  const char *element, *read, *swizzle; /* names: of the tensor's elements, of the values that the engine reads */
  int type, swizzle_code;               /* CUtensorMapDataType, CUtensorMapSwizzle */
  uint32_t element_bits, read_bits, swizzle_bytes;
  int interleave, promotion, fill; /* as the driver counts them; interleave 2: 32 bytes; fill 1: NaN */
  int takes_nan;                   /* the values are floats of 16 bits or more */
  int column_blocks, padding;
  uint32_t rank; /* of the recipe */
  uint32_t every[5];
  int32_t lower[3], upper[3];
  uint32_t channels, pixels; /* channels 0: tiled */
} MapRecipe;

typedef struct {
  uint32_t rank;
  uint64_t dimensions[5], strides[5]; /* strides in bytes; [0] is the size of a value, 0 below a byte */
  uint32_t box[5];
} MapGeometry;

static int map_refuse(char* why, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, map_why_bytes, format, arguments);
  va_end(arguments);
  return 1;
}

/* 16 values below a byte that fill 16 bytes of shared memory, some of them padding. */
static int map_is_spread(const MapRecipe* r) { return r->type == map_16u4_align16 || r->type == map_16u6_align16; }

static uint64_t map_values(const MapRecipe* r, uint64_t count) { return count * r->element_bits / r->read_bits; }

static int map_check_innermost(uint32_t rank, const int64_t* shape, const int64_t* strides, char* why) {
  if (strides[rank - 1] == 1 || shape[rank - 1] <= 1) return 0;
  return map_refuse(why, "a tensor map needs an innermost stride of 1 element, not %lld", (long long)strides[rank - 1]);
}

/* A row-major {rows, columns} matrix seen as {64, rows, columns / 64}. */
static int map_view_by_column_blocks(const MapRecipe* r, uint32_t rank, const int64_t* shape, const int64_t* strides,
                                     MapGeometry* map, char* why) {
  if (rank != 2) return map_refuse(why, "a view by column blocks needs a tensor of rank 2, not %u", (unsigned)rank);
  if (map_check_innermost(rank, shape, strides, why)) return 1;
  if (r->read_bits < 8)
    return map_refuse(why, "a view by column blocks needs elements of whole bytes, not %s", r->read);
  const uint64_t columns = map_values(r, (uint64_t)shape[1]), bytes = r->read_bits / 8;
  if (columns % map_blocked_columns != 0)
    return map_refuse(why, "a view by column blocks needs a multiple of %d columns, not %llu", (int)map_blocked_columns,
                      (unsigned long long)columns);
  map->rank = 3;
  map->dimensions[0] = map_blocked_columns, map->dimensions[1] = (uint64_t)shape[0];
  map->dimensions[2] = columns / map_blocked_columns;
  map->strides[0] = bytes, map->strides[1] = ((uint64_t)strides[0] * r->element_bits + 7) / 8;
  map->strides[2] = map_blocked_columns * bytes;
  return 0;
}

static int map_view_as_is(const MapRecipe* r, uint32_t rank, const int64_t* shape, const int64_t* strides,
                          MapGeometry* map, char* why) {
  if (rank == 0 || rank > 5) return map_refuse(why, "a tensor map has rank 1 to 5, this tensor has %u", (unsigned)rank);
  if (r->rank != rank)
    return map_refuse(why, "the tensor map has rank %u, the tensor has %u", (unsigned)r->rank, (unsigned)rank);
  map->rank = rank;
  for (uint32_t i = 0; i < rank; ++i) {
    const int64_t stride = strides[rank - 1 - i];
    if (stride < 0)
      return map_refuse(why, "the strides of a tensor map must not be negative: %lld elements", (long long)stride);
    map->dimensions[i] = (uint64_t)shape[rank - 1 - i];
    map->strides[i] = ((uint64_t)stride * r->element_bits + 7) / 8;
    if (i != 0 && (uint64_t)stride * r->element_bits % 8 != 0)
      return map_refuse(why, "the strides of a tensor map must be whole bytes, not %lld elements of %s",
                        (long long)stride, r->element);
  }
  if (map_check_innermost(rank, shape, strides, why)) return 1;
  map->dimensions[0] = map_values(r, map->dimensions[0]);
  map->strides[0] = r->read_bits / 8;
  return 0;
}

/* Alignment of the address and the strides, in bytes. */
static uint64_t map_unit(const MapRecipe* r) { return r->interleave == 2 || map_is_spread(r) ? 32 : 16; }

static int map_check_memory(const MapRecipe* r, const void* data, const MapGeometry* map, char* why) {
  const uint64_t aligned = map_unit(r);
  if ((uintptr_t)data % aligned != 0)
    return map_refuse(why, "a tensor map needs data aligned to %u bytes%s", (unsigned)aligned,
                      aligned == 16 ? "" : " where elements are spread or interleaved by 32 bytes");
  for (uint32_t i = 0; i < map->rank; ++i) {
    if (map->dimensions[i] == 0 || map->dimensions[i] > ((uint64_t)1 << 32))
      return map_refuse(why, "a dimension of a tensor map must have 1 to 2^32 elements, not %llu",
                        (unsigned long long)map->dimensions[i]);
    if (i != 0 && (map->strides[i] % aligned != 0 || map->strides[i] >= ((uint64_t)1 << 40)))
      return map_refuse(why, "the strides of a tensor map must be multiples of %u bytes below 2^40, not %llu",
                        (unsigned)aligned, (unsigned long long)map->strides[i]);
  }
  if (map_is_spread(r) && map->dimensions[0] % 128 != 0)
    return map_refuse(why, "the innermost dimension of spread elements must be a multiple of 128, not %llu",
                      (unsigned long long)map->dimensions[0]);
  if (r->read_bits == 4 && map->dimensions[0] % 2 != 0)
    return map_refuse(why, "the innermost dimension of 4-bit elements must be even, not %llu",
                      (unsigned long long)map->dimensions[0]);
  return 0;
}

static int map_check_modes(const MapRecipe* r, const MapGeometry* map, char* why) {
  for (uint32_t i = 0; i < map->rank; ++i)
    if (r->every[i] == 0 || r->every[i] > 8)
      return map_refuse(why, "tma_element_strides must be 1 to 8, not %u", (unsigned)r->every[i]);
  if (r->interleave == 0 && r->every[0] != 1)
    return map_refuse(why, "tma_element_strides: without tma_interleave the innermost stride must be 1, not %u",
                      (unsigned)r->every[0]);
  if (r->interleave != 0 && map->rank < 3)
    return map_refuse(why, "tma_interleave needs a tensor of rank 3 to 5, not %u", (unsigned)map->rank);
  if (r->interleave == 2 && r->swizzle_bytes != 32)
    return map_refuse(why, "tma_interleave = 32B needs a swizzle of 32B, not %s", r->swizzle);
  if (r->fill == 1 && !r->takes_nan)
    return map_refuse(why, "tma_fill = nan is for f16, bf16, tf32, f32 and f64, not %s", r->read);
  if (map_is_spread(r) && r->swizzle_bytes != 0 && r->swizzle_bytes != 128)
    return map_refuse(why, "tma_spread needs a swizzle of 128 bytes or none, not %s", r->swizzle);
  if (map_is_spread(r) && r->interleave != 0)
    return map_refuse(why, "tma_interleave is not possible with spread elements");
  return 0;
}

/* The innermost dimension of a box, or the channels of im2col, which fill its place. */
static int map_check_row(const MapRecipe* r, const char* what, uint64_t values, char* why) {
  const uint64_t bytes = map_is_spread(r) ? values : values * r->read_bits / 8;
  if (map_is_spread(r) && values != 128)
    return map_refuse(why, "%s must be 128 for spread elements, not %llu", what, (unsigned long long)values);
  if (bytes % 16 != 0 || values * r->read_bits % 8 != 0)
    return map_refuse(why, "%s must be a multiple of 16 bytes, not %llu", what, (unsigned long long)bytes);
  if (r->swizzle_bytes != 0 && r->interleave == 0 && bytes > r->swizzle_bytes)
    return map_refuse(why, "tma_swizzle: a %u-byte swizzle needs an inner box of at most %u bytes, not %llu",
                      (unsigned)r->swizzle_bytes, (unsigned)r->swizzle_bytes, (unsigned long long)bytes);
  return 0;
}

static int map_check_box(const MapRecipe* r, const MapGeometry* map, char* why) {
  for (uint32_t i = 0; i < map->rank; ++i)
    if (map->box[i] == 0 || map->box[i] > 256)
      return map_refuse(why, "tma_box: a box must have 1 to 256 elements in each dimension, not %u",
                        (unsigned)map->box[i]);
  return map_check_row(r, "tma_box: the inner dimension of a box", map->box[0], why);
}

/* Offsets of the corners have 16 bits for one spatial dimension, 8 for two, 5 for three. */
static int map_check_im2col(const MapRecipe* r, const MapGeometry* map, char* why) {
  if (map->rank < 3) return map_refuse(why, "tma_im2col needs a tensor of rank 3 to 5, not %u", (unsigned)map->rank);
  if (r->column_blocks) return map_refuse(why, "tma_im2col is not possible with a view by column blocks");
  const int spatial = (int)map->rank - 2, most = spatial == 1 ? 32767 : spatial == 2 ? 127 : 15;
  for (int i = 0; i < spatial; ++i) {
    const int32_t lower = r->lower[i], upper = r->upper[i];
    const int64_t size = (int64_t)map->dimensions[i + 1];
    const int lower_fits = lower >= -most - 1 && lower <= most;
    if (!lower_fits || upper < -most - 1 || upper > most)
      return map_refuse(why, "tma_im2col: corners of a tensor of rank %u must be %d to %d, not %d", (unsigned)map->rank,
                        -most - 1, most, (int)(lower_fits ? upper : lower));
    if (size + upper - lower <= 0)
      return map_refuse(why, "tma_im2col: no pixel lies between the corners %d and %d of a dimension of %lld",
                        (int)lower, (int)upper, (long long)size);
  }
  if (r->channels > 256) return map_refuse(why, "tma_im2col needs 1 to 256 channels, not %u", (unsigned)r->channels);
  if (r->pixels == 0 || r->pixels > 1024)
    return map_refuse(why, "tma_im2col needs 1 to 1024 pixels for each column, not %u", (unsigned)r->pixels);
  return map_check_row(r, "tma_im2col: channels", r->channels, why);
}

/* Of a tensor: shape and strides, in elements, outermost dimension first; `box` has five entries. 0, or 1 and `why`. */
static int map_geometry(const MapRecipe* r, const void* data, uint32_t rank, const int64_t* shape,
                        const int64_t* strides, const uint32_t* box, MapGeometry* map, char* why) {
  map->rank = 0;
  for (int i = 0; i < 5; ++i) map->dimensions[i] = 1, map->strides[i] = 0, map->box[i] = 1;
  if (r->column_blocks ? map_view_by_column_blocks(r, rank, shape, strides, map, why)
                       : map_view_as_is(r, rank, shape, strides, map, why))
    return 1;
  for (uint32_t i = 0; i < map->rank; ++i) map->box[i] = box[i];
  for (uint32_t i = 1; i < map->rank; ++i) { /* frameworks give a dimension of one element any stride */
    const uint64_t aligned = map_unit(r);
    if (map->dimensions[i] == 1) map->strides[i] = (map->strides[i] + aligned - 1) / aligned * aligned;
  }
  if (r->column_blocks && r->padding) map->box[0] = map_padded_columns;
  if (map_check_memory(r, data, map, why) || map_check_modes(r, map, why)) return 1;
  return r->channels != 0 ? map_check_im2col(r, map, why) : map_check_box(r, map, why);
}
