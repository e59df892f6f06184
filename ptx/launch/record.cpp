#include "ptx/launch/record.h"

#include <string_view>

namespace ptx::launch {
namespace {

struct Row {
  std::string_view name;
  std::uint32_t bytes;
};

constexpr Row rows[] = {{"u8", 1},  {"u16", 2}, {"u32", 4},  {"u64", 8},  {"s8", 1},
                        {"s16", 2}, {"s32", 4}, {"s64", 8},  {"f16", 2},  {"bf16", 2},
                        {"f32", 4}, {"f64", 8}, {"e4m3", 1}, {"e5m2", 1}, {"bool", 1}};

}  // namespace

std::uint32_t bytes(Element element) { return rows[static_cast<int>(element)].bytes; }
std::string_view name(Element element) { return rows[static_cast<int>(element)].name; }

bool takes(const TensorArgument& argument, Element given) {
  if (argument.element == given) return true;
  if (bytes(argument.element) != bytes(given)) return false;
  const auto integer = [](Element element) { return name(element)[0] == 'u' || name(element)[0] == 's'; };
  return argument.untyped || (integer(argument.element) && integer(given));
}

void append(Record& record, Parameter parameter, std::uint32_t alignment) {
  if (alignment == 0) alignment = parameter.kind == Parameter::Kind::tensor_map ? 64 : parameter.size;
  parameter.offset = (record.parameter_bytes + alignment - 1) / alignment * alignment;
  record.parameter_bytes = parameter.offset + parameter.size;
  record.parameters.push_back(std::move(parameter));
}

}  // namespace ptx::launch
