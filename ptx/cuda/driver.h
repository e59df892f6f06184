// libcuda, opened at run time: its entry points are the rows of driver.def, its types are declared here, so that
// neither a toolkit nor a driver is needed to build. Facts (values, layouts) are those of the CUDA Driver API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ptx/arch/target.h"
#include "ptx/base/expected.h"

namespace ptx::cuda {

using CUresult = int;
using CUdevice = int;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;

enum : CUresult { cuda_success = 0, cuda_error_no_device = 100, cuda_error_unsupported_ptx_version = 222 };

enum DeviceAttribute : int {
  max_threads_per_block = 1,
  max_block_x = 2,
  max_block_y = 3,
  max_block_z = 4,
  max_grid_x = 5,
  max_grid_y = 6,
  max_grid_z = 7,
  compute_major = 75,
  compute_minor = 76,
  max_shared_optin = 97,
};

constexpr int pointer_device_ordinal = 9;  // of CUpointer_attribute
constexpr unsigned event_without_timing = 2;

enum FunctionAttribute : int {
  function_max_threads = 0,
  function_static_shared = 1,
  function_max_dynamic_shared = 8,
  function_nonportable_cluster = 14,
};

struct CUlaunchAttribute {
  enum : int {
    cooperative = 2,
    cluster_dimension = 4,
    programmatic_stream_serialization = 6,
    priority = 8,
    shared_carveout = 14,
  };
  int id = 0;
  char pad[4] = {};
  struct Cluster {
    unsigned x, y, z;
  };
  union {
    char bytes[64] = {};
    int number;
    Cluster cluster;
  };
};
static_assert(sizeof(CUlaunchAttribute) == 72);

struct CUlaunchConfig {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;
  CUstream stream = nullptr;
  CUlaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
static_assert(sizeof(CUlaunchConfig) == 56);

// The table of entry points. One lives for the process once libcuda was opened and initialised.
struct Driver {
#define DRIVER(name, version, parameters) CUresult(*name) parameters = nullptr;
#include "ptx/cuda/driver.def"
#undef DRIVER
  int version = 0;  // 13000 for CUDA 13.0

  // Done, or driver_error saying which call failed, with the driver's own name and text of the error.
  Expected<Done> check(CUresult result, std::string_view call) const;
};

// Opens `library`, resolves every row of driver.def and calls cuInit. no_driver where one of them fails.
Expected<Driver> open_driver(const char* library);

// The driver of this process ("libcuda.so.1", or the file that PYPTX_LIBCUDA names), opened at the first call; the
// answer is kept. The message of a failure names the simulator as the way to run.
const Expected<Driver>& driver();

// The release of that driver, asked without starting it: a process that only looks at code may fork before it uses a
// GPU. None: there is no driver.
std::optional<arch::Version> driver_release();

}  // namespace ptx::cuda
