/* Tensor maps, behind the computation of their geometry. */

typedef struct {
  __attribute__((aligned(64))) unsigned char bytes[128];
} TensorMap;

static int encode(TensorMap *made, const char *tensor, const MapRecipe *r, const void *data, uint32_t rank,
                  const int64_t *shape, const int64_t *strides, const int64_t *box) {
  MapGeometry map;
  char why[map_why_bytes];
  uint32_t sizes[5]; /* a size that is no uint32_t is refused as the largest */
  for (int i = 0; i < 5; ++i) sizes[i] = box[i] < 0 || box[i] > UINT32_MAX ? UINT32_MAX : (uint32_t)box[i];
  if (map_geometry(r, data, rank, shape, strides, sizes, &map, why))
    return fail(PTX_BAD_ARGUMENT, NAME ": %s: %s", tensor, why);
  snprintf(why, sizeof why, "the tensor map of %s", tensor);
  if (r->channels != 0)
    return check(cuTensorMapEncodeIm2col(made, r->type, map.rank, (void *)data, map.dimensions, map.strides + 1, r->lower,
                                         r->upper, r->channels, r->pixels, r->every, r->interleave, r->swizzle_code,
                                         r->promotion, r->fill),
                 why);
  return check(cuTensorMapEncodeTiled(made, r->type, map.rank, (void *)data, map.dimensions, map.strides + 1, map.box,
                                      r->every, r->interleave, r->swizzle_code, r->promotion, r->fill),
               why);
}
