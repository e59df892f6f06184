/* The same in every exported file: the driver, loading of code, and errors. What the driver's enumerations call
   ATTRIBUTE_..., FUNCTION_... and LAUNCH_... stands above it. */

typedef struct {
  const char *target;
  int major, minor;
  char kind; /* 'a': this device alone; 'f': its family from this minor on; 'c': this major from this minor on; 'p': PTX, all later ones */
  const unsigned char *data;
} Code;

typedef struct {
  const Code *codes;
  int count;
  int shared, cluster; /* bytes of dynamic shared memory, CTAs of a cluster */
} Variant;

typedef struct {
  int id;
  char pad[4];
  union {
    int number;
    unsigned cluster[3];
    char bytes[64];
  } value;
} Attribute;

typedef struct {
  unsigned grid[3], block[3], shared;
  void *stream;
  Attribute *attributes;
  unsigned count;
} Config;

static __thread char message[512];

static int fail(int code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return code;
}

__attribute__((unused)) static inline int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
__attribute__((unused)) static inline int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

/* The driver's functions that are called, by their names there. */
#define DRIVER(_)                                                                                                    \
  _(cuInit, (unsigned))                                                                                              \
  _(cuCtxGetCurrent, (void **))                                                                                      \
  _(cuCtxGetDevice, (int *))                                                                                         \
  _(cuCtxSetCurrent, (void *))                                                                                       \
  _(cuDeviceGet, (int *, int))                                                                                       \
  _(cuDevicePrimaryCtxRetain, (void **, int))                                                                        \
  _(cuDeviceGetAttribute, (int *, int, int))                                                                         \
  _(cuGetErrorName, (int, const char **))                                                                            \
  _(cuModuleLoadData, (void **, const void *))                                                                       \
  _(cuModuleGetFunction, (void **, void *, const char *))                                                            \
  _(cuFuncSetAttribute, (void *, int, int))                                                                          \
  _(cuLaunchKernelEx, (const Config *, void *, void **, void **))                                                    \
  DRIVER_OF_MAPS(_)

#define DECLARE(name, parameters) static int(*name) parameters;
DRIVER(DECLARE)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int opened;

static int check(int result, const char *call) {
  if (result == 0) return 0;
  const char *name = NULL;
  cuGetErrorName(result, &name);
  return fail(PTX_DRIVER_ERROR, NAME ": %s: %s (%d)", call, name != NULL ? name : "an unknown error", result);
}

static int open_driver(void) { /* under the lock */
  if (opened) return 0;
  const char *asked = getenv("PYPTX_LIBCUDA");
  void *library = dlopen(asked != NULL && *asked != 0 ? asked : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return fail(PTX_NO_DRIVER, NAME ": there is no CUDA driver: %s", dlerror());
#define FIND(name, parameters)                                        \
  *(void **)&name = dlsym(library, #name);                            \
  if (name == NULL) return fail(PTX_NO_DRIVER, NAME ": the CUDA driver has no %s; it is too old", #name);
  DRIVER(FIND)
  const int result = check(cuInit(0), "cuInit");
  opened = result == 0;
  return result;
}

static int runs_on(const Code *code, int major, int minor) {
  if (code->kind == 'a') return code->major == major && code->minor == minor;
  if (code->kind == 'p') return major > code->major || (major == code->major && minor >= code->minor);
  return code->major == major && minor >= code->minor;
}

/* Functions are loaded once for each context and variant, and stay. */
static struct {
  void *context, *function;
  int variant;
} loaded[256];
static int loaded_count;

static int load(const Variant *variants, int which, const char *entry, void *context, void **function) {
  int device = 0, major = 0, minor = 0, code = 0;
  void *module = NULL;
  const Variant *variant = &variants[which];
  int result = check(cuCtxGetDevice(&device), "cuCtxGetDevice");
  if (result != 0) return result;
  cuDeviceGetAttribute(&major, ATTRIBUTE_MAJOR, device);
  cuDeviceGetAttribute(&minor, ATTRIBUTE_MINOR, device);
  while (code < variant->count && !runs_on(&variant->codes[code], major, minor)) ++code;
  if (code == variant->count)
    return fail(PTX_NO_CODE, NAME ": there is no code for a device of compute capability %d.%d, only for " TARGETS, major, minor);
  if (loaded_count == 256) return fail(PTX_DRIVER_ERROR, NAME ": loaded in too many contexts");
  if ((result = check(cuModuleLoadData(&module, variant->codes[code].data), "cuModuleLoadData")) != 0) return result;
  if ((result = check(cuModuleGetFunction(function, module, entry), "cuModuleGetFunction")) != 0) return result;
  if (variant->shared > 0 && (result = check(cuFuncSetAttribute(*function, FUNCTION_DYNAMIC_SHARED, variant->shared), "dynamic shared memory")) != 0)
    return result;
  if (variant->cluster > 8 &&
      (result = check(cuFuncSetAttribute(*function, FUNCTION_NONPORTABLE_CLUSTER, 1), "a cluster of more than 8")) != 0)
    return result;
  loaded[loaded_count].context = context, loaded[loaded_count].function = *function;
  loaded[loaded_count++].variant = which;
  return 0;
}

static int find(const Variant *variants, int which, const char *entry, void **function) {
  void *context = NULL;
  int result = 0;
  pthread_mutex_lock(&lock);
  if ((result = open_driver()) == 0 && (result = check(cuCtxGetCurrent(&context), "cuCtxGetCurrent")) == 0) {
    int at = 0;
    while (at < loaded_count && (loaded[at].context != context || loaded[at].variant != which)) ++at;
    if (context == NULL)
      result = fail(PTX_DRIVER_ERROR, NAME ": no CUDA context is current in this thread; call cudaSetDevice or cuCtxSetCurrent");
    else if (at < loaded_count)
      *function = loaded[at].function;
    else
      result = load(variants, which, entry, context, function);
  }
  pthread_mutex_unlock(&lock);
  return result;
}
