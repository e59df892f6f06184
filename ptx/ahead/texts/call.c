/* Arguments as DLPack has them: sizes are read off the shapes, and the launch is in the context of the tensors' device. */

typedef struct {
  const char *name, *element;
  const PtxType *types; /* that are taken */
  int type_count, rank;
  const int64_t *shape; /* a size, or -1 - i: the one of sizes[i] */
  int column_major, strided;
} Wanted;

/* Row-major, or with the last two dimensions the other way round. Dimensions of one element have any stride. */
static int is_dense(const PtxTensor *tensor, int column_major) {
  const int rank = tensor->ndim, turned = column_major && rank >= 2;
  int64_t expected = 1;
  int fits = 1;
  if (tensor->strides == NULL) return !turned;
  for (int i = rank - 1; i >= 0; --i) {
    const int axis = turned && i >= rank - 2 ? 2 * rank - 3 - i : i;
    if (tensor->shape[axis] == 0) return 1;
    fits &= tensor->shape[axis] == 1 || tensor->strides[axis] == expected;
    expected *= tensor->shape[axis];
  }
  return fits;
}

static int bind(const Wanted *wanted, const PtxTensor *tensor, int64_t *sizes, const char *const *names) {
  int known = 0;
  for (int i = 0; i < wanted->type_count; ++i)
    known |= tensor->dtype.code == wanted->types[i].code && tensor->dtype.bits == wanted->types[i].bits &&
             tensor->dtype.lanes == wanted->types[i].lanes;
  if (tensor->device_type != PTX_DEVICE_TYPE && !(PTX_DEVICE_TYPE == 2 && tensor->device_type == 13))
    return fail(PTX_BAD_ARGUMENT, NAME ": %s is not in the memory of a GPU (DLPack device %d)", wanted->name,
                (int)tensor->device_type);
  if (!known)
    return fail(PTX_BAD_ARGUMENT, NAME ": elements of %s are %s, not DLPack type %d of %d bits", wanted->name,
                wanted->element, tensor->dtype.code, tensor->dtype.bits);
  if (tensor->ndim != wanted->rank)
    return fail(PTX_BAD_ARGUMENT, NAME ": %s has rank %d, not %d", wanted->name, wanted->rank, (int)tensor->ndim);
  for (int i = 0; i < wanted->rank; ++i) {
    const int64_t want = wanted->shape[i], got = tensor->shape[i];
    if (want >= 0 && got != want)
      return fail(PTX_BAD_ARGUMENT, NAME ": dimension %d of %s is %lld, not %lld", i, wanted->name, (long long)want,
                  (long long)got);
    if (want < 0 && sizes[-1 - want] >= 0 && got != sizes[-1 - want])
      return fail(PTX_BAD_ARGUMENT, NAME ": dimension %d of %s is %s = %lld, not %lld", i, wanted->name, names[-1 - want],
                  (long long)sizes[-1 - want], (long long)got);
    if (want < 0) sizes[-1 - want] = got;
  }
  if (!wanted->strided && !is_dense(tensor, wanted->column_major))
    return fail(PTX_BAD_ARGUMENT, NAME ": elements of %s do not lie next to each other in %s-major order", wanted->name,
                wanted->column_major ? "column" : "row");
  return 0;
}

__attribute__((unused)) static inline void *data_of(const PtxTensor *tensor) { return (char *)tensor->data + tensor->byte_offset; }

/* `room` is used where the tensor does not say its strides: it is packed. */
__attribute__((unused)) static inline const int64_t *strides_of(const PtxTensor *tensor, int64_t *room) {
  int64_t elements = 1;
  if (tensor->strides != NULL) return tensor->strides;
  for (int i = tensor->ndim - 1; i >= 0; --i) room[i] = elements, elements *= tensor->shape[i];
  return room;
}

/* Makes the primary context of a device current, the one that frameworks use. `before` is for `leave`. */
static int enter(int device, void **before) {
  static void *primary[64];
  int handle = 0, result = 0;
  if (device < 0 || device >= 64) return fail(PTX_BAD_ARGUMENT, NAME ": there is no device %d", device);
  pthread_mutex_lock(&lock);
  if ((result = open_driver()) == 0 && primary[device] == NULL &&
      (result = check(cuDeviceGet(&handle, device), "cuDeviceGet")) == 0)
    result = check(cuDevicePrimaryCtxRetain(&primary[device], handle), "cuDevicePrimaryCtxRetain");
  void *const wanted = primary[device];
  pthread_mutex_unlock(&lock);
  if (result != 0 || (result = check(cuCtxGetCurrent(before), "cuCtxGetCurrent")) != 0 || *before == wanted) return result;
  return check(cuCtxSetCurrent(wanted), "cuCtxSetCurrent");
}

static void leave(void *before) {
  void *now = NULL;
  if (cuCtxGetCurrent(&now) == 0 && now != before) cuCtxSetCurrent(before);
}
