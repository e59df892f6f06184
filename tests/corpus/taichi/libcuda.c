// A driver without a device, for Taichi, which asks one for the target before it compiles: each call succeeds, memory is the
// process's own, and the text of a module goes to the folder $PTX_OUT.  Nothing runs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOES_NOTHING(name) int name(void) { return 0; }
DOES_NOTHING(cuInit)
DOES_NOTHING(cuCtxSetCurrent)
DOES_NOTHING(cuCtxSetLimit)
DOES_NOTHING(cuMemAdvise)
DOES_NOTHING(cuMemFree_v2)
DOES_NOTHING(cuMemFreeAsync)
DOES_NOTHING(cuMemPoolSetAttribute)
DOES_NOTHING(cuLaunchKernel)
DOES_NOTHING(cuStreamSynchronize)
DOES_NOTHING(cuEventDestroy)
DOES_NOTHING(cuEventRecord)
DOES_NOTHING(cuEventSynchronize)
DOES_NOTHING(cuFuncSetAttribute)
DOES_NOTHING(cuImportExternalMemory)
DOES_NOTHING(cuExternalMemoryGetMappedBuffer)
DOES_NOTHING(cuExternalMemoryGetMappedMipmappedArray)
DOES_NOTHING(cuMipmappedArrayGetLevel)
DOES_NOTHING(cuSurfObjectCreate)
DOES_NOTHING(cuSignalExternalSemaphoresAsync)
DOES_NOTHING(cuWaitExternalSemaphoresAsync)
DOES_NOTHING(cuImportExternalSemaphore)

#define GIVES(name, type, value) int name(type *to) { return *to = value, 0; }
GIVES(cuDriverGetVersion, int, 12040)
GIVES(cuDeviceGetCount, int, 1)
GIVES(cuDeviceGet, int, 0)
GIVES(cuCtxCreate_v2, void *, (void *)1)
GIVES(cuCtxGetCurrent, void *, (void *)1)
GIVES(cuDevicePrimaryCtxRetain, void *, (void *)1)
GIVES(cuDeviceGetDefaultMemPool, void *, (void *)1)
GIVES(cuStreamCreate, void *, (void *)1)
GIVES(cuEventCreate, void *, (void *)1)
GIVES(cuModuleGetFunction, void *, (void *)1)
GIVES(cuEventElapsedTime, float, 1)
GIVES(cuFuncGetAttribute, int, 64)
GIVES(cuOccupancyMaxActiveBlocksPerMultiprocessor, int, 2)

int cuGetErrorName(int code, const char **to) { return *to = "error", 0; }
int cuGetErrorString(int code, const char **to) { return *to = "error", 0; }
int cuDeviceGetName(char *to, int size, int device) { return snprintf(to, size, "no device"), 0; }

int cuDeviceGetAttribute(int *to, unsigned attribute, int device) {
  const int target = atoi(getenv("PTX_TARGET"));
  switch (attribute) {
    case 1: *to = 1024; break;     // threads of a block
    case 8: *to = 49152; break;    // its shared memory
    case 16: *to = 132; break;     // multiprocessors
    case 39: *to = 2048; break;    // threads of one
    case 75: *to = target / 10; break;
    case 76: *to = target % 10; break;
    case 106: *to = 32; break;     // blocks of a multiprocessor
    case 97: *to = 232448; break;  // shared memory by request
    default: *to = 0;
  }
  return 0;
}

int cuMemGetInfo_v2(size_t *free, size_t *total) { return *free = *total = (size_t)1 << 36, 0; }
int cuPointerGetAttribute(void *to, unsigned attribute, void *at) { return 1; }
int cuMemAlloc_v2(void **to, size_t size) { return *to = malloc(size), 0; }
int cuMemAllocAsync(void **to, size_t size, void *stream) { return *to = malloc(size), 0; }
int cuMemAllocManaged(void **to, size_t size, unsigned flags) { return *to = malloc(size), 0; }
int cuMemcpyHtoD_v2(void *to, void *from, size_t size) { return memcpy(to, from, size), 0; }
int cuMemcpyDtoH_v2(void *to, void *from, size_t size) { return memcpy(to, from, size), 0; }
int cuMemcpyDtoD_v2(void *to, void *from, size_t size) { return memcpy(to, from, size), 0; }
int cuMemcpyHtoDAsync_v2(void *to, void *from, size_t size, void *stream) { return memcpy(to, from, size), 0; }
int cuMemcpyDtoHAsync_v2(void *to, void *from, size_t size, void *stream) { return memcpy(to, from, size), 0; }
int cuMemsetD8_v2(void *to, unsigned char value, size_t size) { return memset(to, value, size), 0; }
int cuMemsetD32_v2(unsigned *to, unsigned value, size_t count) {
  while (count--) *to++ = value;
  return 0;
}

int cuModuleLoadDataEx(void **to, const char *text, unsigned count, unsigned *options, void **values) {
  static int modules;
  char path[4096];
  snprintf(path, sizeof path, "%s/%03d.ptx", getenv("PTX_OUT"), modules++);
  FILE *file = fopen(path, "w");
  if (!file) return 1;
  fputs(text, file);
  fclose(file);
  return *to = (void *)1, 0;
}
