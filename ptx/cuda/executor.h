// Kernels on GPUs through the driver. One executor a device; it lives for the process and works in the device's primary
// context, the one that PyTorch, JAX and the CUDA runtime use.
#pragma once

#include <string>
#include <string_view>

#include "ptx/cuda/assembler.h"
#include "ptx/cuda/driver.h"
#include "ptx/launch/executor.h"
#include "ptx/launch/limits.h"

namespace ptx::cuda {

using launch::check;
using launch::Limits;

// What -arch the assembler is given for a kernel of this .target, to run on a device of this compute capability: the
// target itself where it is family- or architecture-specific ("sm_90a"), else the device's own. target_mismatch where
// the device cannot run the kernel.
Expected<std::string> architecture(std::string_view target, int major, int minor);

// The executor of a device; the same object at every call. no_driver, no_device or driver_error where it cannot be.
// `device` counts as the driver does (CUDA_VISIBLE_DEVICES applied).
Expected<launch::Executor*> executor(int device);

// The same over a given driver and assembler, for tests. Both outlive the executor.
Expected<std::unique_ptr<launch::Executor>> make_executor(const Driver& driver, int device, const Assembler& assembler);

// The device that memory is on; 0 where the driver does not know.
int device_of(const void* memory);

// What is launched on `stream` from now on waits for what is on `before` now. Both are streams of this device.
Expected<Done> order(int device, void* before, void* stream);

// Copies from the memory of the device to that of the host, behind what is on the stream, and waits for it.
Expected<Done> fetch(int device, void* to, const void* from, std::size_t bytes, void* stream);

int device_count();  // that the driver shows; 0 without a driver

struct DeviceFacts {
  std::string name;          // "NVIDIA H200"
  int major = 0, minor = 0;  // compute capability
};
Expected<DeviceFacts> device_facts(int device);

}  // namespace ptx::cuda
