// The C ABI of DLPack 1.3 as this room uses it: tensors, managed tensors and the exchange table that tensor types carry
// as `__dlpack_c_exchange_api__`. Declared here so that no header of a framework is needed; layouts are DLPack's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ptx::interop {

enum class DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };

struct DLDevice {
  DeviceType type = DeviceType::cpu;
  std::int32_t id = 0;
  friend bool operator==(const DLDevice&, const DLDevice&) = default;
};

struct DLDataType {
  // All: arch/elements.def.
  enum : std::uint8_t { integer = 0, unsigned_integer = 1, floating = 2, complex = 5, boolean = 6 };
  std::uint8_t code = 0;
  std::uint8_t bits = 0;
  std::uint16_t lanes = 1;
  friend bool operator==(const DLDataType&, const DLDataType&) = default;
};

struct DLTensor {
  void* data = nullptr;
  DLDevice device;
  std::int32_t ndim = 0;
  DLDataType dtype;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  // elements; null: row-major contiguous
  std::uint64_t byte_offset = 0;    // of the first element from `data`
};
static_assert(sizeof(DLTensor) == 48 && offsetof(DLTensor, shape) == 24);

struct DLPackVersion {
  std::uint32_t major, minor;
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* context;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor tensor;
};
static_assert(offsetof(DLManagedTensorVersioned, tensor) == 32);

// Functions return 0, or -1 with a Python error set (the allocator: with SetError called).
struct DLPackExchangeAPI {
  DLPackVersion version;
  DLPackExchangeAPI* previous;  // an older table of the same type, where this one's major version is too new
  int (*allocate)(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                  void (*set_error)(void* error_context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, DLManagedTensorVersioned** out);
  int (*managed_to_object)(DLManagedTensorVersioned* tensor, void** out);  // takes the tensor
  int (*tensor_from_object)(void* object, DLTensor* out);                  // borrows; may be null
  int (*current_stream)(DeviceType type, std::int32_t id, void** out);
};
static_assert(sizeof(DLPackExchangeAPI) == 56);

// The table of this ABI in a chain, or null.
inline const DLPackExchangeAPI* usable(const DLPackExchangeAPI* api) {
  while (api != nullptr && api->version.major != 1) api = api->previous;
  return api;
}

}  // namespace ptx::interop
