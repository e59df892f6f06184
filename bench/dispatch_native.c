/* Loops of bench/dispatch.py that must not run in Python: launches by the driver alone, and single steps of a call.
   Compiled when the benchmark starts; needs no header of CUDA, Python or DLPack. Each returns nanoseconds a turn. */
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef int (*Launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                      void**);
typedef int (*LaunchEx)(const void*, void*, void**, void**);
typedef int (*GetCurrent)(void**);
typedef void* (*Call)(void*, void*, void*);
typedef void (*Release)(void*);

typedef struct {
  int32_t type, id;
} Device;
typedef struct {
  void* data;
  Device device;
  int32_t ndim;
  uint32_t dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} Tensor;
typedef struct {
  uint32_t major, minor;
  void* previous;
  int (*allocate)(Tensor*, void**, void*, void*);
  int (*managed_from_object)(void*, void**);
  int (*managed_to_object)(void*, void**);
  int (*tensor_from_object)(void*, Tensor*);
  int (*current_stream)(int32_t, int32_t, void**);
} Table;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

#define TURNS(body)             \
  const double start = now();   \
  for (int i = 0; i < n; ++i) { \
    body;                       \
  }                             \
  return (now() - start) / n

double turns_launch(Launch launch, void* function, const unsigned* shape, void* stream, void** pointers, int n) {
  TURNS(launch(function, shape[0], shape[1], shape[2], shape[3], shape[4], shape[5], 0, stream, pointers, 0));
}

double turns_launch_ex(LaunchEx launch, void* function, const unsigned* shape, void* stream, void** pointers, int n) {
  struct {
    unsigned shape[6], shared;
    void *stream, *attributes;
    unsigned count;
  } config = {{0}, 0, stream, 0, 0};
  memcpy(config.shape, shape, sizeof config.shape);
  TURNS(launch(&config, function, pointers, 0));
}

double turns_launch_block(Launch launch, void* function, const unsigned* shape, void* stream, void* block, size_t bytes,
                          int n) {
  void* extra[] = {(void*)1, block, (void*)2, &bytes, (void*)0};
  TURNS(launch(function, shape[0], shape[1], shape[2], shape[3], shape[4], shape[5], 0, stream, 0, extra));
}

double turns_context(GetCurrent get, int n) {
  void* context;
  TURNS(get(&context));
}

double turns_read(const Table* table, void* object, int n) {
  Tensor tensor;
  TURNS(table->tensor_from_object(object, &tensor));
}

double turns_stream(const Table* table, int device, int n) {
  void* stream;
  TURNS(table->current_stream(2, device, &stream));
}

/* An output by the exchange API: allocate, make the object, let it go. */
double turns_exchange(const Table* table, void* like, Release release, int n) {
  Tensor tensor;
  table->tensor_from_object(like, &tensor);
  tensor.strides = 0;
  TURNS(void* managed; void* object; tensor.data = 0; table->allocate(&tensor, &managed, 0, 0);
        table->managed_to_object(managed, &object); release(object));
}

double turns_call(Call call, void* function, void* arguments, Release release, int n) {
  TURNS(release(call(function, arguments, 0)));
}

/* What no call can do without: an output by the framework, the launch, and the output let go. */
double turns_floor(Call call, void* make, void* arguments, Release release, Launch launch, void* function,
                   const unsigned* shape, void* stream, void** pointers, int n) {
  TURNS(void* output = call(make, arguments, 0);
        launch(function, shape[0], shape[1], shape[2], shape[3], shape[4], shape[5], 0, stream, pointers, 0);
        release(output));
}

/* CPU tensors passed off as tensors of cuda:0, so that all of a call but the driver and the GPU runs without either. */
static Table real;
static int fake_allocate(Tensor* prototype, void** out, void* context, void* set_error) {
  Tensor copy = *prototype;
  copy.device.type = 1;
  return real.allocate(&copy, out, context, set_error);
}
static int fake_read(void* object, Tensor* out) {
  const int result = real.tensor_from_object(object, out);
  out->device.type = 2;
  return result;
}
const Table* fake_table(const Table* of) {
  static Table made;
  real = made = *of;
  made.previous = 0;
  made.allocate = fake_allocate;
  made.tensor_from_object = fake_read;
  return &made;
}
