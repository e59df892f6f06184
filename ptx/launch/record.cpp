#include "ptx/launch/record.h"

namespace ptx::launch {
bool takes(const TensorArgument& argument, Element given) {
  if (argument.element == given) return true;
  const arch::ElementInfo &wanted = arch::info(argument.element), &got = arch::info(given);
  if (wanted.bits != got.bits) return false;
  const auto integer = [](const arch::ElementInfo& row) { return row.kind == 'u' || row.kind == 's'; };
  return argument.untyped || (integer(wanted) && integer(got));
}

void append(Record& record, Parameter parameter, std::uint32_t alignment) {
  if (alignment == 0) alignment = parameter.kind == Parameter::Kind::tensor_map ? 64 : parameter.size;
  parameter.offset = (record.parameter_bytes + alignment - 1) / alignment * alignment;
  record.parameter_bytes = parameter.offset + parameter.size;
  record.parameters.push_back(std::move(parameter));
}

}  // namespace ptx::launch
