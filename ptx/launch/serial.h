// Launch records as bytes: what a program of another framework (an XLA executable, an exported torch program) carries
// so that a process without the kernel's source can launch it. The PTX text travels beside the record, not in it.
#pragma once

#include <string>
#include <string_view>

#include "ptx/base/expected.h"
#include "ptx/launch/record.h"

namespace ptx::launch {

// The same record gives the same bytes in every process. They begin with a version and a checksum.
std::string serialise(const Record& record);

// Refuses (bad_record) bytes that are damaged, cut short or of another version. What comes back is a record of the
// right types; whether it holds together is for those who use it (interop::Plan, the executors).
Expected<Record> deserialise(std::string_view bytes);

// Version and checksum before what follows them. For tests that want past the checksum with bytes of their own.
std::string seal(std::string_view body);

}  // namespace ptx::launch
