/* Launches an exported kernel. The driver is opened by hand, so that the example needs no CUDA toolkit; a program that has
   one calls cudaMalloc and cudaMemcpy instead. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "scale.h"

enum { count = 1000 };

/* The driver's functions that are called, by their names there. */
#define DRIVER(_)                                          \
  _(init, "cuInit", (unsigned))                            \
  _(retain, "cuDevicePrimaryCtxRetain", (void **, int))    \
  _(set, "cuCtxSetCurrent", (void *))                      \
  _(allocate, "cuMemAlloc_v2", (void **, size_t))          \
  _(upload, "cuMemcpyHtoD_v2", (void *, const void *, size_t)) \
  _(download, "cuMemcpyDtoH_v2", (void *, const void *, size_t))
#define DECLARE(name, symbol, parameters) static int(*name) parameters;
DRIVER(DECLARE)

static int open_driver(void) {
  const char *asked = getenv("PYPTX_LIBCUDA");
  void *library = dlopen(asked != NULL ? asked : "libcuda.so.1", RTLD_NOW), *context = NULL;
  if (library == NULL) return 0;
#define FIND(name, symbol, parameters) *(void **)&name = dlsym(library, symbol);
  DRIVER(FIND)
  return init(0) == 0 && retain(&context, 0) == 0 && set(context) == 0; /* the context of the CUDA runtime */
}

int main(void) {
  static float x[count], y[count];
  void *in = NULL, *out = NULL;
  int right = 0, written = 0;
  if (!open_driver()) return puts("skipped: no GPU"), 0;
  for (int i = 0; i < count; ++i) x[i] = (float)(i + 1), y[i] = -1;
  if (allocate(&in, sizeof x) != 0 || allocate(&out, sizeof y) != 0 || upload(in, x, sizeof x) != 0 ||
      upload(out, y, sizeof y) != 0)
    return puts("no memory on the GPU"), 1;

  if (scale_launch(in, out, count, 0.5f, NULL) != 0) return puts(scale_error()), 1;

  if (download(y, out, sizeof y) != 0) return puts("the kernel failed"), 1;
  for (int i = 0; i < count; ++i) written += y[i] != -1, right += y[i] == 0.5f * x[i];
  if (written == 0) return puts("launched, and nothing ran: this driver computes nothing"), 0;
  return printf("launched; %d of %d values are right\n", right, count), right != count;
}
