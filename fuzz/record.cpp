// Any bytes as a launch record: an error or a record, which is then written as the same bytes. The checksum would keep
// the fuzzer out, so it is corrected first.
#include <cstdint>
#include <cstdlib>

#include "ptx/launch/serial.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto plain = ptx::launch::deserialise(text);
  const auto read = ptx::launch::deserialise(ptx::launch::seal(text));
  for (const auto* one : {&plain, &read})
    if (*one && !ptx::launch::deserialise(ptx::launch::serialise(one->value()))) std::abort();
  return 0;
}
