#include "ptx/launch/record.h"

#include <doctest/doctest.h>

using namespace ptx::launch;

TEST_CASE("parameters lie as PTX lays them") {
  using Kind = Parameter::Kind;
  Record record;
  append(record, {Kind::scalar, "n", 0, 4, 0});
  append(record, {Kind::tensor, "A", 0, 8, 0});
  append(record, {Kind::scalar, "h", 0, 2, 1});
  append(record, {Kind::tensor_map, "A_tma_desc", 0, 128, 0});
  append(record, {Kind::scalar, "c", 0, 1, 2});
  append(record, {Kind::scalar, "d", 0, 4, 3}, 32);
  const std::uint32_t offsets[] = {0, 8, 16, 64, 192, 224};
  for (int i = 0; i < 6; ++i) CHECK(record.parameters[i].offset == offsets[i]);
  CHECK(record.parameter_bytes == 228);
}
