// The C ABI of XLA's typed FFI as this room uses it: call frames, buffers, attributes, the metadata that a handler
// gives of itself, the table of XLA's functions. Declared here so that the library builds where jax is not installed;
// layouts are those of `xla/ffi/api/c_api.h` 0.3, which 0.4 extends at the ends only. python/tests/test_jax_abi.py
// compares them with the header where jaxlib brings it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ptx::interop::xla {

constexpr int api_major = 0, api_minor = 3;

struct Error;
struct ExecutionContext;
struct Future;
struct InternalApi;

enum class ErrorCode : std::int32_t { invalid_argument = 3, failed_precondition = 9, internal = 13 };
enum class Stage : std::int32_t { instantiate = 0, prepare = 1, initialize = 2, execute = 3 };
enum class ExtensionType : std::int32_t { metadata = 1 };
enum class AttributeType : std::int32_t { array = 1, dictionary = 2, scalar = 3, string = 4 };
constexpr std::int32_t buffer_type = 1;  // of arguments and results; there is no other

enum class DataType : std::int32_t {};  // the numbers are in arch/elements.def

struct Extension {
  std::size_t struct_size;
  ExtensionType type;
  Extension* next;
};

struct ApiVersion {
  std::size_t struct_size;
  Extension* extensions;
  int major, minor;
};

struct ByteSpan {
  const char* data;
  std::size_t size;
};

struct Buffer {
  std::size_t struct_size;
  Extension* extensions;
  DataType dtype;
  void* data;
  std::int64_t rank;
  std::int64_t* dimensions;
};

// Arguments and results.
struct Values {
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  std::int32_t* types;
  void** values;
};

struct Attributes {  // sorted by name
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  AttributeType* types;
  ByteSpan** names;
  void** values;
};

struct Api;

struct CallFrame {
  std::size_t struct_size;
  Extension* extensions;
  const Api* api;
  ExecutionContext* context;
  Stage stage;
  Values arguments, results;
  Attributes attributes;
  Future* future;
};

using Handler = Error*(CallFrame*);

struct TypeId {
  std::int64_t id;
};

struct TypeInfo {
  std::size_t struct_size;
  Extension* extensions;
  void (*deleter)(void* object);
};

constexpr std::uint32_t command_buffer_compatible = 1;  // a trait

struct Metadata {
  std::size_t struct_size;
  ApiVersion version;
  std::uint32_t traits;
  TypeId state;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

// Arguments of XLA's functions: `struct_size`, `extensions`, then these.
struct ErrorCreate {
  std::size_t struct_size;
  Extension* extensions;
  const char* message;
  ErrorCode code;
};
struct StreamGet {
  std::size_t struct_size;
  Extension* extensions;
  ExecutionContext* context;
  void* stream;  // out
};
struct TypeRegister {
  std::size_t struct_size;
  Extension* extensions;
  ByteSpan name;
  TypeId* type;  // in and out
  const TypeInfo* info;
};
struct StateSet {
  std::size_t struct_size;
  Extension* extensions;
  ExecutionContext* context;
  Stage stage;
  TypeId* type;
  void* state;
};
struct StateGet {
  std::size_t struct_size;
  Extension* extensions;
  ExecutionContext* context;
  Stage stage;
  TypeId* type;
  void* state;  // out
};
struct DeviceOrdinalGet {
  std::size_t struct_size;
  Extension* extensions;
  ExecutionContext* context;
  std::int32_t ordinal;  // out
};

struct Api {
  std::size_t struct_size;
  Extension* extensions;
  ApiVersion version;
  const InternalApi* internal;
  Error* (*error_create)(ErrorCreate*);
  void* error_get_message;
  void* error_destroy;
  void* handler_register;
  Error* (*stream_get)(StreamGet*);
  Error* (*type_register)(TypeRegister*);
  void* context_get;
  Error* (*state_set)(StateSet*);
  Error* (*state_get)(StateGet*);
  void* device_memory_allocate;
  void* device_memory_free;
  void* thread_pool_schedule;
  void* thread_pool_threads;
  void* future_create;
  void* future_set_available;
  void* future_set_error;
  void* run_id_get;
  Error* (*device_ordinal_get)(DeviceOrdinalGet*);
};

}  // namespace ptx::interop::xla
